"""All layers of a recurrent PNA network (section 3): by CUDA kernels where they serve, else by Triton's.

The first layer has a convolution of its own, the others share one, and all share the GRU. The graphs are undirected.
"""

from torch import Tensor, nn

from pna.networks.kernels.recurrence import cuda, triton

__all__ = ["recurrence", "takes"]


def takes(x: Tensor, batch: object, convolutions: tuple[nn.Module, nn.Module], depth: int | Tensor) -> bool:
    """Whether the kernels serve: PNA, known to one of them, and one depth for all graphs."""
    convs = [getattr(convolution, "conv", None) for convolution in convolutions]
    return isinstance(depth, int) and None not in convs and all(map(triton.takes, convs))


def recurrence(x: Tensor, batch, convolutions: tuple[nn.Module, nn.Module], gates: nn.Module, depth: int) -> Tensor:
    """The states after `depth` layers: x [V, F] padded to the hidden size -> [V, F]. x is data: it has no gradient."""
    first, shared = (convolution.conv for convolution in convolutions)
    if cuda.takes(x, first, shared, batch):
        return cuda.recurrence(x, batch.tiles, first, shared, gates, depth)
    return triton.recurrence(x, batch.compact, first, shared, gates, depth)
