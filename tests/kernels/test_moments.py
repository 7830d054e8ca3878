"""Means and squared distances merged block by block and part by part, against torch's in float64."""

import pytest
import torch

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from pna.kernels.moments import block_moments, merge, merge_parts  # noqa: E402

F, PARTS = 4, 4


@triton.jit
def in_parts(x, rows, means, squares, V, F: tl.constexpr, BLOCK: tl.constexpr, AXIS: tl.constexpr):
    """The moments of each program's rows of x [V, F], whichever axis of a block they are."""
    c = tl.arange(0, F)
    n = 0.0
    mean = tl.zeros([F], tl.float32)
    total = tl.zeros([F], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        row = tl.expand_dims(block * BLOCK + tl.arange(0, BLOCK), 1 - AXIS)
        values = tl.load(x + row * F + tl.expand_dims(c, AXIS), mask=row < V, other=0.0)
        m = tl.minimum(V - block * BLOCK, BLOCK).to(tl.float32)
        other, within = block_moments(values, row < V, m, AXIS)
        mean, between = merge(n, mean, m, other)
        total += within + between
        n += m
    tl.store(rows + tl.program_id(0), n)
    tl.store(means + tl.program_id(0) * F + c, mean)
    tl.store(squares + tl.program_id(0) * F + c, total)


@triton.jit
def together(rows, means, squares, mean, total, V, F: tl.constexpr, PARTS: tl.constexpr):
    """The moments of all rows from those of the parts."""
    p = tl.arange(0, PARTS)[:, None]
    c = tl.arange(0, F)
    at = p * F + c[None, :]
    mu, distance = merge_parts(tl.load(rows + p), tl.load(means + at), tl.load(squares + at), V)
    tl.store(mean + c, mu)
    tl.store(total + c, distance)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("V", [1, 8, 9, 100])
def test_merged_moments_are_those_of_all_rows(V, axis, device):
    """Also where the mean is much larger than the deviation, and where a part has no rows."""
    x = torch.randn(V, F, device=device) + torch.tensor([0.0, 1.0, -100.0, 1e4], device=device)
    rows, (means, squares) = x.new_empty(PARTS), x.new_empty(2, PARTS, F)
    mean, total = x.new_empty(2, F)
    in_parts[(PARTS,)](x, rows, means, squares, V, F=F, BLOCK=8, AXIS=axis)
    together[(1,)](rows, means, squares, mean, total, V, F=F, PARTS=PARTS)
    assert rows.sum().item() == V
    expected = x.double()
    torch.testing.assert_close(mean.double(), expected.mean(0), rtol=1e-6, atol=1e-6)
    distances = (expected - expected.mean(0)).square().sum(0)
    torch.testing.assert_close(total.double(), distances, rtol=1e-3, atol=1e-4)
