"""The kernels of dense layers against their plain-torch twins in float64, for several replicas.

Forward within 1e-5 and gradients within 1e-4 in norm, as float32 allows; and the same bits every time.
"""

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn import functional

from pna.networks import layers
from pna.networks.kernels.batchnorm import normalise
from pna.networks.kernels.linear import ACTIVATIONS, linear
from pna.networks.norm import BatchNorm
from pna.training import adam as plain_adam
from pna.training.adam_kernel import adam
from tests.interpreter import RUNS

R = 3


class Called(nn.Module):
    """A module under another function of its weights."""

    def __init__(self, module, function):
        super().__init__()
        self.module, self.function = module, function

    def forward(self, *inputs):
        return self.function(self.module, *inputs)


def run(module, function, weights, inputs, shared, dtype, device):
    """Output and gradients of R replicas."""
    weights = {name: w.to(device, dtype).requires_grad_() for name, w in weights.items()}
    inputs = [x.to(device, dtype).requires_grad_() for x in inputs]
    called = Called(module.to(device, dtype), function)
    dims = (0, *(None if k in shared else 0 for k in range(len(inputs))))
    named = {f"module.{name}": w for name, w in weights.items()}
    out = vmap(lambda p, *xs: functional_call(called, p, xs), in_dims=dims)(named, *inputs)
    g = torch.linspace(-1, 2, out.numel()).view(out.shape).to(out)
    grads = torch.autograd.grad(out, [*inputs, *weights.values()], g)
    return [t.detach().cpu().double() for t in (out, *grads)]


def assert_agrees(module, twin, fused, inputs, device, shared=()):
    weights = {name: torch.randn(R, *p.shape) / 2 for name, p in module.named_parameters()}
    expected = run(module, twin, weights, inputs, shared, torch.float64, "cpu")
    results, *again = (run(module, fused, weights, inputs, shared, torch.float32, device) for _ in range(RUNS))
    for k, (a, b, *same) in enumerate(zip(expected, results, *again, strict=True)):
        assert (b - a).norm() <= (1e-5 if k == 0 else 1e-4) * a.norm()
        assert all(torch.equal(b, c) for c in same)


class Affine(nn.Linear):
    """A fully-connected layer."""


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("sizes", [(16, 16), (16, 3), (2, 16), (40, 20)])
def test_linear(activation, sizes, device):
    assert_agrees(
        Affine(*sizes),
        lambda m, x: layers.ACTIVATIONS[activation](functional.linear(x, m.weight, m.bias)),
        lambda m, x: linear(x, m.weight, m.bias, activation),
        [torch.randn(R, 77, sizes[0])],
        device,
    )


def test_linear_of_one_input_for_all_replicas_and_without_bias(device):
    assert_agrees(
        nn.Linear(5, 7, bias=False),
        lambda m, x: m(x),
        lambda m, x: linear(x, m.weight, None, "identity"),
        [torch.randn(70, 5)],
        device,
        shared=(0,),
    )


@pytest.mark.parametrize(("rows", "features"), [(300, 16), (9, 5), (1029, 20)])
def test_batch_normalisation(rows, features, device):
    module = BatchNorm(features).train()
    assert_agrees(
        module,
        lambda m, x: functional.batch_norm(x, None, None, m.weight, m.bias, training=True),
        lambda m, x: normalise(x, m.weight, m.bias, None)[0],
        [3 * torch.randn(R, rows, features) + 5],
        device,
    )


def test_batch_normalisation_tells_mean_and_variance(device):
    x = torch.randn(500, 7, device=device) + 100
    weight, bias = torch.rand(2, 7, device=device)
    y, (mean, var) = normalise(x, weight, bias, None)
    expected_var, expected_mean = torch.var_mean(x.double(), dim=0, unbiased=False)
    torch.testing.assert_close(mean.double(), expected_mean, rtol=1e-6, atol=0)
    torch.testing.assert_close(var.double(), expected_var, rtol=1e-5, atol=0)
    with torch.no_grad():
        again, _ = normalise(x[:100], weight, bias, torch.stack([mean, var]))
    torch.testing.assert_close(again, y[:100])


def test_adam_is_the_plain_one(device):
    state = [torch.randn(R, 1500), torch.randn(R, 1500), torch.rand(R, 1500), torch.rand(R, 1500)]
    state += [torch.tensor([[1.0], [7.0], [5000.0]]), torch.tensor([[0.003], [0.01], [0.1]])]
    state += [torch.tensor([[0.0], [1e-2], [1e-6]])]
    mine, theirs = ([t.clone().to(device) for t in state], [t.clone().double() for t in state])
    plain_adam.adam_step(*theirs)
    adam(*mine, (plain_adam.BETA_1, plain_adam.BETA_2), plain_adam.EPSILON)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.cpu().double(), b, rtol=1e-4, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("replicas", [1, 3])
def test_adam_of_more_than_2_to_the_31_parameters(replicas, device):
    """The first and the last of every replica, where there are more in one or in all."""
    if torch.cuda.mem_get_info()[0] < 40 * 2**30:
        pytest.skip("needs 40 GB of free GPU memory")
    P, ends = 2**31 // replicas + 1025, 2000
    state = [torch.empty(replicas, P, device=device).uniform_() for _ in range(4)]
    each = [torch.full((replicas, 1), value, device=device) for value in (7.0, 0.01, 1e-2)]
    before = [torch.cat([t[:, :ends], t[:, -ends:]], dim=1).double() for t in state]
    adam(*state, *each, (plain_adam.BETA_1, plain_adam.BETA_2), plain_adam.EPSILON)
    plain_adam.adam_step(*before, *(t.double() for t in each))
    for a, b in zip(state, before, strict=True):
        torch.testing.assert_close(torch.cat([a[:, :ends], a[:, -ends:]], dim=1).double(), b, rtol=1e-4, atol=1e-6)
