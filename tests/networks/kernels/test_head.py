"""Heads by the kernels against the plain modules in float64, for several replicas."""

import pytest
import torch

from pna.networks import DESCRIBED, RELEASED
from pna.networks.kernels import head
from pna.networks.layers import MLP
from pna.training.replicas import Lifted


def replicas(sizes, norm, R, last="leaky_relu"):
    """A head, and weights and running statistics of R of them."""
    network = MLP(sizes, DESCRIBED, last, norm)
    lifted = Lifted(network)
    theta, state = lifted.stack([network] * R)
    return lifted, theta + torch.randn_like(theta) / 3, state + torch.rand_like(state)


def results(lifted, theta, state, x, g, device, dtype):
    """Outputs, the gradients of x and of theta, the state after that, and outputs under it."""
    lifted.network.to(device, dtype)
    theta, state, x, g = (t.detach().to(device, dtype, copy=True) for t in (theta, state, x, g))
    theta, x = theta.requires_grad_(), x.requires_grad_()
    out = lifted.map(theta, state, lambda network, x: network(x), x, training=True)
    tensors = [out, *torch.autograd.grad(out, (x, theta), g), state]
    with torch.no_grad():
        tensors.append(lifted.map(theta, state, lambda network, x: network(x), x))
    return [t.detach().cpu().double() for t in tensors]


@pytest.mark.parametrize(
    ("sizes", "norm", "rows", "R", "last"),
    [
        ([16, 16, 16, 3], False, 150, 3, "leaky_relu"),
        ([20, 20, 20, 3], False, 64, 1, "identity"),
        ([32, 16, 16, 3], True, 77, 3, "leaky_relu"),
        ([40, 20, 20, 3], True, 33, 1, "identity"),
        ([16, 8, 8, 3], True, 5, 2, "leaky_relu"),
    ],
)
def test_three_layers(sizes, norm, rows, R, last, device, kernels):
    torch.manual_seed(0)
    lifted, theta, state = replicas(sizes, norm, R, last)
    x, g = torch.randn(R, rows, sizes[0]), torch.randn(R, rows, sizes[-1])
    with torch.no_grad():
        assert head.supports(x[0].to(device), lifted.network.layers, lifted.network.norms)
    expected = results(lifted, theta, state, x, g, "cpu", torch.double)
    for a, b in zip(expected, results(lifted, theta, state, x, g, device, torch.float), strict=True):
        assert (b - a).norm() <= 1e-4 * a.norm()


@pytest.mark.parametrize(("sizes", "norm"), [([16, 16, 16, 3], False), ([32, 16, 16, 3], True)])
def test_the_same_bits_alone_and_beside_others(sizes, norm, device, kernels):
    torch.manual_seed(0)
    lifted, theta, state = replicas(sizes, norm, 3)
    x, g = torch.randn(3, 100, sizes[0]), torch.randn(3, 100, 3)
    together = results(lifted, theta, state, x, g, device, torch.float)
    alone = results(lifted, *(t[1:2] for t in (theta, state, x, g)), device, torch.float)
    assert all(torch.equal(a[1:2], b) for a, b in zip(together, alone, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize(("sizes", "norm", "rows"), [([16, 16, 16, 3], False, 12_288), ([32, 16, 16, 3], True, 512)])
def test_the_papers_sizes(sizes, norm, rows, device):
    torch.manual_seed(0)
    lifted, theta, state = replicas(sizes, norm, 10)
    x, g = torch.randn(10, rows, sizes[0]), torch.randn(10, rows, 3)
    expected = results(lifted, theta, state, x, g, "cpu", torch.double)
    once, again = (results(lifted, theta, state, x, g, device, torch.float) for _ in range(2))
    for a, b, c in zip(expected, once, again, strict=True):
        assert (b - a).norm() <= 1e-4 * a.norm()
        assert torch.equal(b, c)


def test_which_heads_are_taken(device, cuda):
    x = torch.zeros(513, 40, device=device)
    narrow, wide = (MLP([2 * width, width, width, 3], RELEASED, "identity", norm=True) for width in (16, 20))
    assert head.supports(x[:512], narrow.layers, narrow.norms)
    assert not head.supports(x, narrow.layers, narrow.norms)
    if not torch.cuda.is_available():  # as on an H200
        assert not head.supports(x[:512], wide.layers, wide.norms)  # shared memory does not suffice
        assert head.supports(x[:256], wide.layers, wide.norms)
    narrow.eval()
    assert not head.supports(x[:512], narrow.layers, narrow.norms)  # with a gradient
    with torch.no_grad():
        assert head.supports(x[:512], narrow.layers, narrow.norms)
    for sizes in ([130, 16, 16, 3], [16, 16, 3], [16, 48, 48, 3], [16, 16, 8, 3]):
        assert not head.supports(x, MLP(sizes, RELEASED, "identity").layers, None)
