"""The kernels of batch normalisation against their plain-torch twin in float64, for several replicas."""

from types import SimpleNamespace

import pytest
import torch
from torch.func import functional_call, vmap

from pna.kernels import selection
from pna.realworld.kernels import norm_tile
from pna.realworld.kernels.norm import Then, normalise
from pna.realworld.kernels.norm_tile import BLOCK, WIDE, WIDEST
from pna.realworld.layers import BatchNorm
from tests.interpreter import RUNS

R = 3


def batches(V, counts):
    """R batches of V nodes, of which some are real."""
    real = (torch.arange(V) < torch.tensor(counts).unsqueeze(1)).double().unsqueeze(2)  # [R, V, 1]
    return real, real * (torch.rand(R, V, 1, dtype=torch.double) + 0.5)


def run(x, factor, real, g, weights, dtype, device, activation=None, p=0.0, residual=None):
    """Outputs on the real nodes, running statistics, and gradients of x, weight, bias and the residual."""
    norm = BatchNorm(x.shape[-1]).to(device, dtype)
    leaves = [t.to(device, dtype).requires_grad_() for t in (x, *weights, *([] if residual is None else [residual]))]
    real, factor, g = (t.to(device, dtype) for t in (real, factor, g))
    state = {name: t.repeat(R, 1) for name, t in norm.named_buffers()}
    noise = torch.rand(R, x.shape[1], x.shape[2] + 3, generator=torch.Generator().manual_seed(1)).to(device, dtype)

    def one(real, factor, noise, state, x, weight, bias, *residual):
        batch, affine = SimpleNamespace(real=real, count=real.sum()), {"weight": weight, "bias": bias}
        then = {"activation": activation, "noise": noise, "p": p} | dict(zip(("residual",), residual, strict=False))
        return functional_call(norm, (affine, state), (x, batch, factor), then)

    out = vmap(one)(real, factor, noise, state, *leaves) * real
    grads = torch.autograd.grad((out * g).sum(), leaves)
    return [t.detach().cpu().double() for t in (out, *state.values(), *grads)]


def compare(device, monkeypatch, *tensors, **then):
    expected = run(*tensors, torch.float64, "cpu", **then)
    if device == "cpu":
        monkeypatch.setattr(selection, "usable", lambda t: True)
    results, *again = (run(*tensors, torch.float32, device, **then) for _ in range(RUNS))
    for a, b, *same in zip(expected, results, *again, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=2e-4)
        assert all(torch.equal(b, c) for c in same)


@pytest.mark.parametrize(
    ("V", "F", "counts"),
    [
        (70, 5, (70, 64, 3)),
        (BLOCK, 16, (1, 2, 63)),
        (70, WIDEST + 44, (70, 64, 3)),
        (70, WIDE + 4, (70, 64, 3)),
    ],
)
def test_it_is_the_plain_one(V, F, counts, device, monkeypatch):
    real, factor = batches(V, counts)
    x, g = 5 + torch.randn(R, V, F, dtype=torch.double), torch.randn(R, V, F, dtype=torch.double)
    weights = [torch.randn(R, F, dtype=torch.double) for _ in range(2)]
    compare(device, monkeypatch, x, factor, real, g, weights)


@pytest.mark.parametrize("F", [WIDEST + 1, WIDE])
def test_more_blocks_of_rows_than_programs(F, device, monkeypatch):
    for name, most in (("PROGRAMS", 2), ("SPREAD", 3), ("WIDE_PROGRAMS", 2)):
        monkeypatch.setattr(norm_tile, name, most)
    test_it_is_the_plain_one(5 * BLOCK + 1, F, (5 * BLOCK + 1, 4 * BLOCK, 7), device, monkeypatch)


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_wide_rows_with_what_comes_then(p, device, monkeypatch):
    """ogb's; noise that is wider than they are, too."""
    (real, _), F = batches(40, (40, 33, 1)), WIDE + 44
    x, g = torch.randn(2, R, 40, F, dtype=torch.double)
    weights = [torch.randn(R, F, dtype=torch.double) for _ in range(2)]
    compare(device, monkeypatch, x, real, real, g, weights, activation="relu", p=p)


@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("activation", ["relu", "elu", None])
@pytest.mark.parametrize("added", [True, False])
def test_what_comes_then(activation, p, added, device, monkeypatch):
    real, factor = batches(70, (70, 64, 3))
    x, g, residual = torch.randn(3, R, 70, 5, dtype=torch.double)
    weights = [torch.randn(R, 5, dtype=torch.double) for _ in range(2)]
    then = {"activation": activation, "p": p, "residual": residual if added else None}
    compare(device, monkeypatch, x, factor, real, g, weights, **then)


@pytest.mark.parametrize(
    ("activation", "added", "V", "F"),
    [("relu", True, 70, 5), ("elu", True, 70, 5), (None, False, 33, WIDEST + 44), (None, False, 33, WIDE)],
)
def test_in_evaluation_it_is_the_plain_one_too(activation, added, V, F, device, monkeypatch):
    """Whether a gradient is wanted, which its kernel does not give, or not."""
    real, factor = batches(V, (V, 20, 3))
    x, residual = 5 + torch.randn(2, R, V, F, dtype=torch.double)
    weight, bias, mean, var = torch.rand(4, R, F, dtype=torch.double) + 0.5
    outputs = []

    def one(real, factor, x, residual, *tensors):
        names = ("weight", "bias", "running_mean", "running_var")
        then = {"activation": activation, "residual": residual if added else None}
        batch = SimpleNamespace(real=real, count=real.sum())
        return functional_call(norm, dict(zip(names, tensors, strict=True)), (x, batch, factor), then)

    for dtype, where in ((torch.float64, "cpu"), (torch.float32, device), (torch.float32, device)):
        if dtype == torch.float32 and device == "cpu":
            monkeypatch.setattr(selection, "usable", lambda t: True)
        norm = BatchNorm(F).to(where, dtype).eval()
        inputs = [t.to(where, dtype) for t in (real, factor, x, residual, weight, bias, mean, var)]
        with torch.set_grad_enabled(len(outputs) == 2):
            outputs.append((vmap(one)(*inputs) * inputs[0]).cpu().double())
    for other in outputs[1:]:
        torch.testing.assert_close(other, outputs[0], rtol=1e-5, atol=1e-5)


def test_what_is_no_number_stays_so(device):
    x, one = torch.tensor([[1.0], [torch.nan], [2.0]], device=device), torch.ones(1, device=device)
    running = one.clone(), one.clone()
    y = normalise(x, one.expand(3, 1), torch.tensor(3.0, device=device), one, one, running, Then("relu"))
    assert y.isnan().all()
    assert all(t.isnan().all() for t in running)


def test_padding_is_zero_and_counts_for_nothing(device):
    x = torch.tensor([[1.0], [3.0], [100.0]], device=device)
    one, two = (torch.ones(1, device=device) for _ in range(2))
    factor, count = torch.tensor([[1.0], [1.0], [0.0]], device=device), torch.tensor(2.0, device=device)
    running = torch.zeros(2, 1, device=device).unbind()
    y = normalise(x, factor, count, one, two, running, Then())
    torch.testing.assert_close(torch.cat(running).cpu(), torch.tensor([0.2, 0.2]))
    torch.testing.assert_close(y.flatten().cpu(), torch.tensor([0.0, 2.0, 0.0]), atol=1e-4, rtol=0)
