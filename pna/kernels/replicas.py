"""How torch.func.vmap's replicas come to the kernels: as the first axis of every tensor."""

from torch import Tensor

__all__ = ["replicated"]


def replicated(t: Tensor, dim: int | None, replicas: int) -> Tensor:
    """What vmap batches along `dim`, or not at all, of logical shape [1, ...], as [replicas, ...]."""
    t = t.unsqueeze(0).expand(replicas, *t.shape) if dim is None else t.movedim(dim, 0)
    return t.flatten(0, 1).contiguous()
