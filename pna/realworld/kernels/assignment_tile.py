"""What the kernels of DiffPool's assignment have in common, on the way there and on the way back."""

import triton
import triton.language as tl
from torch import Tensor

__all__ = ["PARTS", "blocks", "inverse_length", "of_clusters", "relu", "rows_of", "sizes", "times"]

PARTS = 8  # at most, of a replica's rows: each column's sums over them are put together at the end
SHORTEST = tl.constexpr(1e-12)  # as in torch.nn.functional.normalize


@triton.jit
def rows_of(at, row, inside, D: tl.constexpr, WIDTH: tl.constexpr):
    """Some rows of a matrix, [rows, WIDTH], and zeros."""
    d = tl.arange(0, WIDTH)[None, :]
    return tl.load(at + row[:, None] * D + d, mask=inside[:, None] & (d < D), other=0.0)


@triton.jit
def times(a, b):
    """a bᵀ, as precise as float32."""
    return tl.dot(a, tl.trans(b), input_precision="tf32x3")


@triton.jit
def inverse_length(length, row, inside):
    """1/|z| of some rows, 0 where there are none; and whether |z| is more than almost nothing."""
    n = tl.load(length + row, mask=inside, other=float("inf"))
    return 1 / tl.where(n < SHORTEST, SHORTEST, n), n >= SHORTEST


@triton.jit
def relu(z):
    """Zero where z is negative."""
    return tl.where(z < 0, 0.0, z)  # not the maximum: what is no number must stay so


def sizes(x: Tensor) -> tuple[int, dict[str, int]]:
    """In how many parts the rows are shared out; and what all kernels are told."""
    V, D = x.shape[1:]
    width = max(16, triton.next_power_of_2(D))
    block = 64 if width <= 64 else 32  # that products of wide rows fit the shared memory
    constants = {"D": D, "WIDTH": width, "BLOCK": block, "num_warps": 4, "num_stages": 2}
    return min(blocks(V, constants), PARTS), constants


def blocks(rows: int, constants: dict[str, int]) -> int:
    """Of rows; where there are none the first one is empty."""
    return max(1, -(-rows // constants["BLOCK"]))


def of_clusters(K: int) -> dict[str, int]:
    """What the kernels of the places are told as well."""
    return {"K": K, "CLUSTERS": max(16, triton.next_power_of_2(K))}
