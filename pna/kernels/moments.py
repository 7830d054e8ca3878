"""Mean and squared distance to it over rows that are read block by block, or by several programs (Triton).

Squared distances are never taken as Σ x² - n μ², which cancels where |μ| is much larger than σ: every block has its own
mean, and two sets of rows are merged by the formula of Chan, Golub and LeVeque (1979).
"""

import triton
import triton.language as tl

__all__ = ["block_moments", "merge", "merge_parts"]


@triton.jit
def block_moments(values, real, m, AXIS: tl.constexpr):
    """Mean over AXIS of a block with m real rows, and their squared distance to it; values are 0 where not `real`."""
    mean = tl.sum(values, AXIS) / m
    away = tl.where(real, values - tl.expand_dims(mean, AXIS), 0.0)
    return mean, tl.sum(away * away, AXIS)


@triton.jit
def merge(n, mean, m, other):
    """Mean of n and m rows merged, from both means, and the excess of their squared distance over the sum of both."""
    step = other - mean
    return mean + step * (m / (n + m)), step * step * (n * m / (n + m))


@triton.jit
def merge_parts(rows, means, squares, n):
    """Mean and squared distance, [WIDTH], of n rows in parts: rows [PARTS, 1], means and squares [PARTS, WIDTH]."""
    mean = tl.sum(rows * means, 0) / n
    away = means - mean[None, :]
    return mean, tl.sum(squares + rows * away * away, 0)
