"""What the kernels of GatedGCN's messages have in common, on the way there and on the way back.

A product wants 16, 32 or 64 features, and there are 70: rows come in two parts, a head and a tail of 16. The numbers of
an edge, from which the first layer starts, are a tail alone.
"""

import triton
import triton.language as tl
from torch import Tensor

__all__ = ["PARTS", "TAIL", "WIDEST", "of_features", "part", "per_node", "put", "sizes", "times"]

TAIL = 16
WIDEST = 64 + TAIL
PARTS = 128  # at most, of a replica's messages: what each sums up is put together at the end


@triton.jit
def part(at, row, inside, stride, START: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr):
    """Features of some rows, from START on, [rows, WIDTH], and zeros."""
    c = START + tl.arange(0, WIDTH)[None, :]
    return tl.load(at + row[:, None] * stride + c, mask=inside[:, None] & (c < F), other=0.0)


@triton.jit
def put(at, value, row, inside, START: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr):
    """Writes such a part."""
    c = START + tl.arange(0, WIDTH)[None, :]
    tl.store(at + row[:, None] * F + c, value, mask=inside[:, None] & (c < F))


@triton.jit
def of_features(at, START: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr):
    """One number for each feature of a part, [1, WIDTH]."""
    c = START + tl.arange(0, WIDTH)[None, :]
    return tl.load(at + c, mask=c < F, other=0.0)


@triton.jit
def times(a, b, onto):
    """a b, as precise as float32, added to what there is."""
    return tl.dot(a, b, onto, input_precision="tf32x3")


def sizes(edge: Tensor, F: int) -> tuple[int, dict[str, int]]:
    """Of edge [R, E, D]: in how many parts the messages are shared out; and what the kernels of messages are told."""
    E, D = edge.shape[1:]
    constants = {"D": D, "F": F, "HEAD": 16 if F <= 2 * TAIL else 64, "TAIL": TAIL, "BLOCK": 64, "num_warps": 4}
    return max(1, min(-(-E // constants["BLOCK"]), PARTS)), constants


def per_node(F: int) -> dict[str, int]:
    """What the kernels of nodes are told: a program goes through CHUNK messages at a time."""
    return {"F": F, "WIDTH": triton.next_power_of_2(F), "CHUNK": 8, "num_warps": 2}
