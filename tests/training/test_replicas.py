"""Parameters of replicas, spread from the rows of theta: the same numbers and gradients wherever they come to lie."""

import pytest
import torch
from torch import nn

from pna import products
from pna.training import replicas
from pna.training.replicas import LINE, Lifted


class Odd(nn.Module):
    """With one number, then a matrix, then a vector, twice."""

    def __init__(self):
        super().__init__()
        self.eps = nn.ParameterList(torch.randn(1) for _ in range(2))
        self.linear = nn.ModuleList(nn.Linear(5, 3) for _ in range(2))

    def forward(self, x):
        return sum((eps * linear(x)).sum() for eps, linear in zip(self.eps, self.linear, strict=True))


@pytest.mark.parametrize("least", [3, 256], ids=["wide", "narrow"])
@pytest.mark.parametrize("R", [1, 3])
def test_spread_parameters_are_those_of_the_networks(R, least, monkeypatch):
    monkeypatch.setattr(products, "WIDE", least)
    networks, x = [Odd().double() for _ in range(R)], torch.randn(4, 5, dtype=torch.double)
    lifted = Lifted(networks[0])
    theta, state = lifted.stack(networks)
    theta.requires_grad_()
    out = lifted.map(theta, state, lambda network: network(x))
    (grad,) = torch.autograd.grad(out.sum(), theta)
    for network, output, row in zip(networks, out, grad, strict=True):
        expected = network(x)
        torch.testing.assert_close(output, expected)
        grads = torch.autograd.grad(expected, list(network.parameters()))
        torch.testing.assert_close(row, torch.cat([g.flatten() for g in grads]))


@pytest.mark.parametrize("R", [1, 3, 10])
def test_a_wide_matrix_begins_at_a_line_of_memory(R, monkeypatch):
    monkeypatch.setattr(products, "WIDE", 3)
    lifted = Lifted(Odd())
    theta, _ = lifted.stack([Odd() for _ in range(R)])
    places = {name: t.storage_offset() for name, t in lifted._parameters(theta).items()}
    assert all(place % LINE == 0 for name, place in places.items() if name.endswith("weight"))
    assert places["eps.1"] == R  # and nothing else is moved


def test_without_wide_matrices_nothing_is_left_out():
    lifted = Lifted(Odd())
    theta, _ = lifted.stack([Odd()])
    assert [t.storage_offset() for t in lifted._parameters(theta).values()] == [0, 1, 2, 17, 20, 35]


def test_the_places_of_very_many_weights_are_long_numbers(monkeypatch):
    parameters = []
    for short in (10**6, 0):
        monkeypatch.setattr(replicas, "SHORT", short)
        lifted = Lifted(Odd())
        theta, _ = lifted.stack([Odd()] * 2)
        theta = torch.arange(theta.numel(), dtype=theta.dtype).view(theta.shape)
        parameters.append(lifted._parameters(theta))
        (order,) = lifted._orders.values()
        assert order.dtype == (torch.int32 if short else torch.int64)
    for name, t in parameters[0].items():
        assert torch.equal(t, parameters[1][name])
