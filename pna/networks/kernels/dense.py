"""Functions that the kernels of dense layers share: products, and writing a program's part of a sum.

Tensor cores multiply TF32 numbers, whose significand has eleven bits. A product of float32 matrices is computed as
three of those, which keeps the precision of float32.
"""

import triton
import triton.language as tl

__all__ = ["dot", "put_row", "put_tile"]


@triton.jit
def halves(a):
    """Split float32 numbers into their first eleven significant bits, all that TF32 holds, and the rest."""
    high = (a.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
    return high, a - high


@triton.jit
def dot(a, b, c):
    """Compute a b + c in float32's precision: all products of the operands' halves but the smallest."""
    a_high, a_low = halves(a)
    b_high, b_low = halves(b)
    c = tl.dot(a_low, b_high, c, input_precision="tf32")
    c = tl.dot(a_high, b_low, c, input_precision="tf32")
    return tl.dot(a_high, b_high, c, input_precision="tf32")


@triton.jit
def put_tile(base, value, ROWS: tl.constexpr, H: tl.constexpr):
    """Store a program's tile [ROWS, H]."""
    tl.store(base + tl.arange(0, ROWS)[:, None] * H + tl.arange(0, H)[None, :], value)


@triton.jit
def put_row(base, value, WIDTH: tl.constexpr):
    """Store a program's row [WIDTH]."""
    tl.store(base + tl.arange(0, WIDTH), value)
