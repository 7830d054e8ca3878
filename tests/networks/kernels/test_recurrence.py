"""All layers of the recurrent network by the fused kernels against the plain modules in float64."""

import dataclasses

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from pna.experiments import Cell, MultiTaskRun, Profile
from pna.networks import build
from pna.networks.kernels import recurrence as fused

R, LAYERS = 2, 3


class States(nn.Module):
    """The nodes' states after all layers, by the modules or by the kernels."""

    def __init__(self, network, kernels):
        super().__init__()
        self.network, self.kernels = network, kernels

    def forward(self, batch):
        x = nn.functional.pad(batch.x, (0, self.network.hidden - 2))
        if not self.kernels:
            return self.network._states(x, LAYERS, batch)
        convolutions = (self.network.GC_1, self.network.GC_m)
        return fused.recurrence(x, batch, convolutions, self.network.gru.gates, LAYERS)


def states_and_gradients(run, batch, theta, kernels, dtype):
    lifted = run.trainer.lifted
    theta = theta.to(batch.x.device, dtype).requires_grad_()
    columns = theta.split([shape.numel() for shape in lifted.parameters.values()], dim=1)
    weights = {
        f"network.{name}": c.view(R, *shape)
        for c, (name, shape) in zip(columns, lifted.parameters.items(), strict=True)
    }
    _, state = lifted.stack(run._networks())
    delta = state.to(theta)[:, 0]
    buffers = {f"network.{name}": delta if name.endswith("delta") else torch.ones_like(delta) for name in lifted.buffers
               if "combined" in name}  # fmt: skip
    network = lifted.network.to(dtype=dtype, device=batch.x.device)
    called = States(network, kernels)
    batch = dataclasses.replace(batch, x=batch.x.to(dtype))
    out = vmap(lambda p, b: functional_call(called, (p, b), (batch,)))(weights, buffers)
    g = torch.linspace(-1, 2, out.numel()).view(out.shape).to(out)
    return [t.detach().cpu().double() for t in (out, *torch.autograd.grad(out, theta, g))]


@pytest.mark.parametrize(
    ("model", "hidden", "spec"),
    [
        ("pna", 16, "released"),
        ("pna", 16, "described"),
        ("pna", 20, "released"),
        ("pna-no-scalers", 16, "released"),
        ("mpnn-max", 8, "described"),
        ("mpnn-max", 16, "D5"),
        ("mpnn-sum", 16, "described"),
        ("mean-max-min", 16, "described"),
    ],
)
def test_states_and_gradients_are_the_plain_ones(model, hidden, spec, device):
    run = MultiTaskRun(
        Cell.parse(f"multitask/{spec}/{model}/{hidden}"), Profile("t", 5, 256, seeds=R, epochs=1), device
    )
    batch = run.batches(run.own_data, "train")[0]
    theta = run.trainer.lifted.stack(run._networks())[0]
    theta = theta + 0.2 * torch.randn_like(theta)
    expected = states_and_gradients(run, batch, theta, False, torch.float64)
    found, again = (states_and_gradients(run, batch, theta, True, torch.float32) for _ in range(2))
    for a, b, c, tolerance in zip(expected, found, again, (1e-5, 1e-4), strict=True):
        assert (b - a).norm() <= tolerance * a.norm()
        assert torch.equal(b, c)


def taken(network, depth=3):
    return fused.takes(torch.zeros(1, network.hidden), None, (network.GC_1, network.GC_m), depth)


def test_which_convolutions_are_known():
    known = {
        "pna": True,
        "mean-max-min": True,
        "moments-3": False,  # third moments are left to the aggregation kernel
    }
    for model, answer in known.items():
        assert taken(build(model)) is answer
    assert not taken(build("pna", hidden=64))
    assert not taken(build("pna"), depth=torch.tensor([3, 4]))
    assert not taken(build("gat"))
