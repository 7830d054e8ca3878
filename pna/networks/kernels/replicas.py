"""How torch.func.vmap's replicas come to the kernels: as the first axis of every tensor."""

from torch import Tensor

__all__ = ["replicated", "rows_of_replicas"]


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
