"""What the kernels of dense layers have in common: products, and where a program writes its part of a sum.

The tensor cores multiply TF32 numbers, with eleven bits of significand; a product of float32 matrices is taken as three
of those, so that float32's precision stays.
"""

import triton
import triton.language as tl

__all__ = ["dot", "put_row", "put_tile"]


@triton.jit
def halves(a):
    """The first eleven bits of the significand, all that TF32 holds, and the rest."""
    high = (a.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
    return high, a - high


@triton.jit
def dot(a, b, c):
    """a b + c as precise as float32: all products of the operands' halves but the smallest."""
    a_high, a_low = halves(a)
    b_high, b_low = halves(b)
    c = tl.dot(a_low, b_high, c, input_precision="tf32")
    c = tl.dot(a_high, b_low, c, input_precision="tf32")
    return tl.dot(a_high, b_high, c, input_precision="tf32")


@triton.jit
def put_tile(base, value, ROWS: tl.constexpr, H: tl.constexpr):
    """Writes a program's [ROWS, H]."""
    tl.store(base + tl.arange(0, ROWS)[:, None] * H + tl.arange(0, H)[None, :], value)


@triton.jit
def put_row(base, value, WIDTH: tl.constexpr):
    """Writes a program's [WIDTH]."""
    tl.store(base + tl.arange(0, WIDTH), value)
