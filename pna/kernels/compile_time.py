"""Constants of the aggregation's kernels: which aggregators, how channels lie in memory, how large a tile is."""

import functools
import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = [
    "NAMES",
    "ChannelLayout",
    "Config",
    "blocks",
    "grouped",
    "number_of_stats",
    "order_of",
    "slots_of",
    "wide",
    "widened",
]  # fmt: skip

NAMES = ("mean", "sum", "max", "min", "std", "var", "moment2", "moment3", "moment4", "moment5")


@functools.cache
def slots_of(names: str) -> tuple[int, ...]:
    """Place of each of NAMES in the output of the aggregators `names`, or -1."""
    wanted = names.split()
    return tuple(wanted.index(name) if name in wanted else -1 for name in NAMES)


@functools.cache
def order_of(names: str) -> int:
    """Order of the highest moment among the aggregators `names`, or 0 if there is none."""
    return max((int(name[-1]) for name in names.split() if name.startswith("moment")), default=0)


@functools.cache
def number_of_stats(names: str) -> int:
    """Number of statistics per node and channel that the backward pass needs besides the ties."""
    order = order_of(names)
    if order > 0:
        return 3 + order  # μ, σ², s, r and the moments 2 … order
    return 0 if {"std", "var"}.isdisjoint(names.split()) else 2


def wide(dtype: torch.dtype) -> tl.dtype:
    """The accumulator's Triton dtype for tensors of this dtype."""
    return tl.float64 if dtype == torch.float64 else tl.float32


def widened(dtype: torch.dtype) -> torch.dtype:
    """The accumulator's torch dtype for tensors of this dtype."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def blocks(length: int, size: int) -> int:
    """Number of blocks of `size` that cover `length`; triton.cdiv takes longer than some kernels."""
    return -(-length // size)


def grouped(t: Tensor | None) -> Tensor | None:
    """Return [rows, G, F] with contiguous features, copied if need be; rows and groups may have any stride."""
    return t if t is None or t.stride(-1) == 1 or t.shape[-1] == 1 else t.contiguous()


class ChannelLayout(NamedTuple):
    """How channels, c = (group, feature), lie in the rows of each tensor."""

    out: bool  # whether channel c is simply the c-th number of a row; also the next three
    source: bool
    edge: bool
    target: bool
    whole: bool  # whether all blocks of channels are full
    number: bool = False  # whether an edge is one number, which every channel multiplies by its own weight

    @classmethod
    def of(cls, F: int, G: int, BC: int, *tensors: Tensor) -> "ChannelLayout":
        """The layout for G groups of F features in blocks of BC channels, by the strides of source, edge and target."""
        whole = G * F % BC == 0
        return cls(*(True,) * 4, whole) if G == 1 else cls(False, *(t.stride(1) == F for t in tensors), whole)


class Config(NamedTuple):
    """The tile of a program: B nodes, K messages of each at a time, BC channels; and its number of warps."""

    B: int
    K: int
    BC: int
    warps: int

    @classmethod
    @functools.cache
    def of(cls, channels: int, backward: bool = False, dense: bool = False) -> "Config":
        """The tile for that many channels: the fastest of those that benchmarks.aggregation --tune tries.

        Blocks are narrower where the last one would be mostly empty. dense: whether nodes have eight messages or more
        on average; then a tile has K = 8 of them, and most need not be read again for the second pass.
        """
        BC, least, warps = min(64, max(4, triton.next_power_of_2(channels))), *((32, 1) if backward else (16, 2))
        while BC > least and blocks(channels, BC // 2) * (BC // 2) < 0.875 * blocks(channels, BC) * BC:
            BC //= 2
        if dense and not backward:
            return cls(B=128 // BC, K=8, BC=BC, warps=1)
        return cls(B=warps * 128 // BC, K=4, BC=BC, warps=warps)

    def within(self, V: int) -> "Config":
        """The tile with B reduced so that no program has nodes of two replicas, of V nodes each."""
        return self._replace(B=math.gcd(self.B, V))
