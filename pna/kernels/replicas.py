"""Replicas as the kernels see them: torch.func.vmap's batch axis becomes the first axis of every tensor.

A kernel is written for tensors [R, ...] of R replicas; a network outside of vmap calls it with R = 1.
"""

from collections.abc import Sequence

from torch import Tensor

from pna import segments

__all__ = ["graph_of_replicas", "join_graphs", "replicated", "rows_of_replicas"]


def rows_of_replicas(t: Tensor, dim: int | None, replicas: int) -> Tensor:
    """View a tensor of logical shape [1, ...], batched by vmap along `dim` (None: shared), as [replicas, ...]."""
    t = t.unsqueeze(0).expand(replicas, *t.shape) if dim is None else t.movedim(dim, 0)
    return t.flatten(0, 1)


def replicated(t: Tensor, dim: int | None, replicas: int) -> Tensor:
    """Copy a tensor of logical shape [1, ...], batched by vmap along `dim` (None: shared), to a dense [replicas, ...].

    One replica's row is contiguous as it stands. It is copied all the same: a view of the replicas' state would
    change under the backward pass, because batch normalisation updates its running statistics in place.
    """
    rows = rows_of_replicas(t, dim, replicas)
    return rows.clone() if replicas == 1 else rows.contiguous()


def join_graphs(
    graphs: Sequence[Tensor | None], dims: Sequence[int | None], replicas: int, senders: int | None = None
) -> list[Tensor | None]:
    """Join the graphs of all replicas into one, numbering the nodes and messages of each after those before it.

    graphs: ptr [N + 1] and column [E], and perhaps the transpose's pointers, receivers and places, each batched by vmap
    along its entry of `dims` (None: shared). senders: how many nodes send, where they are of another kind than the N
    that receive. Returns the same tensors of the joined graph, [replicas · N + 1] and [replicas · E].
    """
    parts = [None if t is None else segments.stacked(t, dim, replicas) for t, dim in zip(graphs, dims, strict=False)]
    N, E = parts[0].shape[1] - 1, parts[1].shape[1]
    steps = (None, N if senders is None else senders, None, N, E)  # of ptr, column, the transpose's three
    return [
        None if t is None else segments.joined_ptr(t, E) if step is None else segments.joined_index(t, step)
        for t, step in zip(parts, steps, strict=False)
    ]


def graph_of_replicas(graph: tuple[Tensor, ...], replicas: int, V: int) -> tuple[Tensor, ...]:
    """Return the joined graph of all replicas, of V nodes each: ptr, source, the transpose's three, perhaps targets.

    A graph that is joined already comes back as it is. One batch shared by all replicas, made outside of vmap, has V
    nodes and is repeated.
    """
    if len(graph[0]) - 1 == replicas * V:
        return graph
    none = (None,) * 5
    targets = (join_graphs((graph[0], t), none, replicas)[1] for t in graph[5:])
    return *join_graphs(graph[:5], none, replicas), *targets
