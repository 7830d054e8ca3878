"""Tiles of matrices in Triton kernels: loading and storing rows, and products as precise as float32.

A tile is as wide as a power of two; what is beyond the matrix is read as zero and not written.
"""

import triton
import triton.language as tl

__all__ = ["load_features", "load_rows", "multiply", "relu", "store_rows"]


@triton.jit
def load_rows(base, row, inside, stride, F: tl.constexpr, WIDTH: tl.constexpr, START: tl.constexpr = 0):
    """Load rows of a matrix with F columns, from column START on, [rows, WIDTH]; rows are `stride` numbers apart."""
    c = START + tl.arange(0, WIDTH)[None, :]
    return tl.load(base + row[:, None] * stride + c, mask=inside[:, None] & (c < F), other=0.0)


@triton.jit
def store_rows(base, tile, row, inside, F: tl.constexpr, WIDTH: tl.constexpr, START: tl.constexpr = 0):
    """Store rows of a matrix with F columns, from column START on: tile [rows, WIDTH]."""
    c = START + tl.arange(0, WIDTH)[None, :]
    tl.store(base + row[:, None] * F + c, tile, mask=inside[:, None] & (c < F))


@triton.jit
def load_features(base, F: tl.constexpr, WIDTH: tl.constexpr, START: tl.constexpr = 0):
    """Load one number for each of F features, from feature START on, [1, WIDTH]."""
    c = START + tl.arange(0, WIDTH)[None, :]
    return tl.load(base + c, mask=c < F, other=0.0)


@triton.jit
def multiply(a, b, onto=None):
    """a b, added to `onto` if that is given: three products of TF32 on the tensor cores, as precise as float32."""
    return tl.dot(a, b, onto, input_precision="tf32x3")


@triton.jit
def relu(value):
    """The value, or zero where it is negative. NaN must propagate, so not max(value, 0)."""
    return tl.where(value < 0, 0.0, value)
