"""The kernels of DiffPool's products with the assignment, against dense products graph by graph in float64."""

import pytest
import torch
from torch.func import vmap

from pna import segments
from pna.neighbourhoods import Joined
from pna.realworld.kernels import pool
from pna.realworld.kernels.pool import BLOCK, pooled

SIZES = [[3, 0, 2 * BLOCK + 5, 1], [BLOCK, 4, 4, 7], [0, 0, 0, 0]]  # nodes of the graphs of each replica
V = 80


def random_inputs(k, H):
    shapes = (k, H, k)
    return [torch.randn(len(SIZES), V, width, dtype=torch.double) for width in shapes]


def dense(S, Z, received):
    """Sᵀ Z and Sᵀ (A S), one graph after another."""
    rows = []
    for r, sizes in enumerate(SIZES):
        parts = [t[r, : sum(sizes)].split(sizes) for t in (S, Z, received)]
        rows.append([(s.T @ z, s.T @ a) for s, z, a in zip(*parts, strict=True)])
    return [torch.stack([torch.stack([pair[which] for pair in row]) for row in rows]) for which in (0, 1)]


def by_kernels(device, *leaves):
    ptr = torch.tensor([[0, *torch.tensor(row).cumsum(0).tolist(), V] for row in SIZES], device=device)
    joined = segments.joined_ptr(ptr, V)
    return vmap(lambda *tensors: pooled(*tensors, joined, len(SIZES[0])))(*leaves)


@pytest.mark.parametrize(("k", "H"), [(1, 1), (5, 56), (22, 32), (33, 3)])
def test_they_are_dense_products(k, H, device):
    results = []
    tensors, weights = random_inputs(k, H), [torch.randn(3, 4, k, width, dtype=torch.double) for width in (H, k)]
    for dtype, where in ((torch.double, "cpu"), (torch.float32, device)):
        leaves = [t.to(where, dtype).requires_grad_() for t in tensors]
        out = dense(*leaves) if dtype == torch.double else by_kernels(where, *leaves)
        loss = sum((t * w.to(t)).sum() for t, w in zip(out, weights, strict=True))
        results.append([t.detach().cpu().double() for t in (*out, *torch.autograd.grad(loss, leaves))])
    for a, b in zip(*results, strict=True):
        assert (a - b).norm() <= 1e-6 * a.norm()
    for grad in results[1][2:]:
        for r, sizes in enumerate(SIZES):
            assert grad[r, sum(sizes) :].abs().max() == 0  # of the padding


def test_the_padding_is_not_read(device):
    tensors = [t.to(device, torch.float32) for t in random_inputs(3, 4)]
    expected = by_kernels(device, *tensors)
    for r, sizes in enumerate(SIZES):
        for t in tensors:
            t[r, sum(sizes) :] = float("nan")
    for a, b in zip(expected, by_kernels(device, *tensors), strict=True):
        assert torch.equal(a, b)


def test_a_graph_of_two_nodes_by_hand(device):
    """1 -> 2 alone: half of the first node in either cluster, all of the second in the first."""
    S = torch.tensor([[0.5, 0.5], [1.0, 0.0], [9.0, 9.0]], device=device)
    received = torch.tensor([[0.0, 0.0], [0.5, 0.5], [9.0, 9.0]], device=device)
    Z = torch.tensor([[2.0], [3.0], [9.0]], device=device)
    features, adjacency = pooled(S, Z, received, torch.tensor([0, 2, 3], device=device), 1)
    assert features.flatten().tolist() == [4.0, 1.0]
    assert adjacency.flatten().tolist() == [0.5, 0.5, 0.0, 0.0]


@pytest.mark.parametrize(("k", "H", "joined"), [(65, 4, True), (2, 65, True), (2, 4, False)])
def test_what_the_kernels_have_no_room_for_is_left_to_the_plain_one(k, H, joined):
    ptr = torch.tensor([0, 1, 2])
    graphs = Joined(ptr, ptr)
    assert pool.supports(torch.zeros(2, 2), torch.zeros(2, 4), graphs)
    assert not pool.supports(torch.zeros(2, k), torch.zeros(2, H), graphs if joined else None)
