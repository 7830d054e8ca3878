"""Weights packed for the kernels, and gradients unpacked, against the packings themselves and autograd."""

import pytest
import torch

from pna import DegreeStatistics
from pna.networks import DESCRIBED, build
from pna.networks.kernels.gates import gate_tensors
from pna.networks.kernels.packing import pack_weights, unpack_gradients
from pna.networks.kernels.recurrence.weights import TENSORS, Weights
from pna.networks.kernels.set2set import _lstm_weights
from pna.networks.layers import Set2Set


def recurrent(model, hidden):
    network = build(model, hidden, DESCRIBED, DegreeStatistics(1.3, 3.0))
    weights = [t for conv in (network.GC_1, network.GC_m) for t in TENSORS[model](conv)]
    return Weights(model, hidden // 4, True), weights + gate_tensors(network.gru.gates)


CASES = {
    "set2set": lambda: (_lstm_weights, gate_tensors(Set2Set(20).gates)),  # padded; with two summands
    **{
        f"{model}/{hidden}": (lambda m=model, h=hidden: recurrent(m, h)) for model, hidden in (("pna", 16), ("gat", 20))
    },
    **{model: (lambda m=model: recurrent(m, 8)) for model in ("gcn", "gin")},
}


@pytest.mark.parametrize("R", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_each_replica_is_packed_as_the_packing_itself_does(case, R, device):
    packing, shapes = CASES[case]()
    tensors = [torch.randn(R, *t.shape) for t in shapes]
    packed = pack_weights(packing, [t.to(device) for t in tensors])
    for r in range(R):
        groups, _ = packing(*(t[r] for t in tensors))
        assert all(torch.equal(a[r].cpu(), b.sum(0)) for a, b in zip(packed, groups, strict=True))


@pytest.mark.parametrize("case", CASES)
def test_tensors_that_share_memory_are_read_where_they_are(case, device):
    packing, shapes = CASES[case]()
    tensors = [torch.randn(2, *t.shape, device=device) for t in shapes]
    memory = torch.cat([torch.full((7,), torch.nan, device=device), *(t.flatten() for t in reversed(tensors))])
    _, *views = memory.split([7, *(t.numel() for t in reversed(tensors))])
    shared = [view.view(t.shape) for view, t in zip(reversed(views), tensors, strict=True)]
    pairs = zip(pack_weights(packing, tensors), pack_weights(packing, shared), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize("T", [1, 37])
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_autograd(case, T, device):
    R, (packing, shapes) = 2, CASES[case]()
    tensors = [torch.randn(R, *t.shape) for t in shapes]
    lengths = [row.shape[1] for row in packing(*(t[0] for t in tensors))[1]]
    parts = [torch.randn(R, T, length) for length in lengths]
    flat = torch.cat([p.flatten() for p in parts]).to(device)
    gradients = unpack_gradients(packing, [t.to(device) for t in tensors], flat, T)
    for r in range(R):
        leaves = [t[r].double().requires_grad_() for t in tensors]
        rows = packing(*leaves)[1]
        total = sum((row.sum(0) * p[r].double().sum(0)).sum() for row, p in zip(rows, parts, strict=True))
        for a, b in zip(gradients, torch.autograd.grad(total, leaves), strict=True):
            torch.testing.assert_close(a[r].cpu().double(), b, rtol=1e-5, atol=1e-5)
    alone = [p[1:].flatten() for p in parts]
    others = unpack_gradients(packing, [t[1:] for t in gradients], torch.cat(alone).to(device), T)
    for a, b in zip(gradients, others, strict=True):
        assert torch.equal(a[1:], b)  # the same bits alone and beside another
