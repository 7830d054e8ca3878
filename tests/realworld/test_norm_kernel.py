"""The kernels of batch normalisation against their plain-torch twin in float64, for several replicas."""

from types import SimpleNamespace

import pytest
import torch
from torch.func import functional_call, vmap

from pna.kernels import choice
from pna.realworld.layers import BatchNorm
from pna.realworld.norm_kernel import BLOCK, PROGRAMS, WIDEST, normalise

R = 3


def batches(V, counts):
    """R batches of V nodes, of which some are real."""
    real = (torch.arange(V) < torch.tensor(counts).unsqueeze(1)).double().unsqueeze(2)  # [R, V, 1]
    return real, real * (torch.rand(R, V, 1, dtype=torch.double) + 0.5)


def run(x, factor, real, g, weights, dtype, device):
    """Outputs on the real nodes, running statistics, and gradients of x, weight and bias."""
    norm = BatchNorm(x.shape[-1]).to(device, dtype)
    leaves = [t.to(device, dtype).requires_grad_() for t in (x, *weights)]
    real, factor, g = (t.to(device, dtype) for t in (real, factor, g))
    state = {name: t.repeat(R, 1) for name, t in norm.named_buffers()}

    def one(x, weight, bias, real, factor, state):
        batch = SimpleNamespace(real=real, count=real.sum())
        return functional_call(norm, ({"weight": weight, "bias": bias}, state), (x, batch, factor))

    out = vmap(one)(*leaves, real, factor, state) * real
    grads = torch.autograd.grad((out * g).sum(), leaves)
    return [t.detach().cpu().double() for t in (out, *state.values(), *grads)]


@pytest.mark.parametrize(
    ("V", "F", "counts"),
    [
        (70, 5, (70, 64, 3)),
        (BLOCK, 16, (1, 2, 63)),
        (70, WIDEST + 44, (70, 64, 3)),
        (BLOCK * PROGRAMS + 90, 3, (BLOCK * PROGRAMS + 89, 2000, 7)),
    ],
)
def test_it_is_the_plain_one(V, F, counts, device, monkeypatch):
    real, factor = batches(V, counts)
    x, g = 5 + torch.randn(R, V, F, dtype=torch.double), torch.randn(R, V, F, dtype=torch.double)
    weights = [torch.randn(R, F, dtype=torch.double) for _ in range(2)]
    expected = run(x, factor, real, g, weights, torch.float64, "cpu")
    if device == "cpu":
        monkeypatch.setattr(choice, "usable", lambda t: True)
    found, again = (run(x, factor, real, g, weights, torch.float32, device) for _ in range(2))
    for a, b, c in zip(expected, found, again, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=2e-4)
        assert torch.equal(b, c)


def test_padding_is_zero_and_counts_for_nothing(device):
    x = torch.tensor([[1.0], [3.0], [100.0]], device=device)
    one, two = (torch.ones(1, device=device) for _ in range(2))
    factor, count = torch.tensor([[1.0], [1.0], [0.0]], device=device), torch.tensor(2.0, device=device)
    y, mean, unbiased = normalise(x, factor, count, one, two)
    assert (mean.item(), unbiased.item()) == (2.0, 2.0)
    torch.testing.assert_close(y.flatten().cpu(), torch.tensor([0.0, 2.0, 0.0]), atol=1e-4, rtol=0)
