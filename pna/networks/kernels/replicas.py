"""How torch.func.vmap's replicas come to the kernels: as the first axis of every tensor."""

from torch import Tensor

from pna.gather import one_graph

__all__ = ["graph_of_replicas", "replicated", "rows_of_replicas"]


def rows_of_replicas(t: Tensor, dim: int | None, replicas: int) -> Tensor:
    """What vmap batches along `dim`, or not at all, of logical shape [1, ...], as [replicas, ...]: a view."""
    t = t.unsqueeze(0).expand(replicas, *t.shape) if dim is None else t.movedim(dim, 0)
    return t.flatten(0, 1)


def replicated(t: Tensor, dim: int | None, replicas: int) -> Tensor:
    """The same, end to end in memory.

    One replica's row is contiguous as it stands: it is copied all the same, since a view of the replicas' state would
    be changed under the backward pass by the batch normalisation, which moves its running statistics in place.
    """
    rows = rows_of_replicas(t, dim, replicas)
    return rows.clone() if replicas == 1 else rows.contiguous()


def graph_of_replicas(graph: tuple[Tensor, ...], replicas: int, V: int) -> tuple[Tensor, ...]:
    """Of a joined graph: ptr, source and the transpose's three, then perhaps targets; all of its replicas as one.

    It comes as it is, unless one batch for all replicas was made outside of vmap: that has V nodes, and is repeated.
    """
    if len(graph[0]) - 1 == replicas * V:
        return graph
    none = (None,) * 5
    targets = (one_graph((graph[0], t), none, replicas)[1] for t in graph[5:])
    return *one_graph(graph[:5], none, replicas), *targets
