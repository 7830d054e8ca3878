"""Dropout of a convolution's output, drawn by a hash that a recorded epoch, a checkpoint and a kernel can repeat."""

import torch
from torch import Tensor, nn

from pna.networks.batch import GraphBatch

__all__ = ["Dropped"]

WORD = 0xFFFFFFFF


class Dropped(nn.Module):
    """A convolution whose output is dropped with a probability `rate`, in training alone.

    Rate, seed and a counter of calls are buffers: each replica has its own, a checkpoint holds them, and an epoch that
    is recorded once on a GPU draws anew each time it is replayed. What is dropped is a hash of seed, call and place.
    """

    kind = "dropout"  # the kernels' name for it

    def __init__(self, convolution: nn.Module, rate: float, seed: int) -> None:
        super().__init__()
        self.convolution = convolution
        for name, value in (("rate", rate), ("seed", seed), ("calls", 0)):
            self.register_buffer(name, torch.tensor(float(value)))

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Features of the nodes, [V, in] -> [V, out]."""
        y = self.convolution(x, batch)
        if not self.training:
            return y
        self.calls.add_(1)
        stays = self._uniform(y.shape) >= self.rate
        return torch.where(stays, y / (1 - self.rate), 0)

    def _uniform(self, shape: torch.Size) -> Tensor:
        """Numbers in [0, 1) of this shape, by a hash of 32 bits of which each affects all others."""
        key = _mixed(self.seed.long() * 0x9E3779B1 + self.calls.long())
        places = torch.arange(shape.numel(), device=self.seed.device).view(shape)
        return _mixed(key + places) / (WORD + 1)


def _mixed(x: Tensor) -> Tensor:
    """Hash whole numbers to 32 bits."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        x = ((x & WORD) ^ ((x & WORD) >> shift)) * factor
    return x & WORD
