"""The written-out derivatives against autograd on the equations."""

import pytest
import torch

from pna.aggregators import AGGREGATORS, resolve
from pna.derivatives import derivative

NAMES = [*AGGREGATORS, "moment2", "moment3", "moment4", "moment5", "moment8"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ties", [False, True])
def test_equals_autograd(name, ties):
    ptr = torch.tensor([0, 4, 4, 5, 12, 12])
    m = torch.randn(12, 3, dtype=torch.double)
    m = (m.round() if ties else m).requires_grad_()
    g = torch.randn(5, 3, dtype=torch.double)
    (expected,) = torch.autograd.grad(resolve(name).function(m, ptr), m, g)
    torch.testing.assert_close(derivative(name)(g, m, ptr), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [3, 9, 999])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e4, 1e30])
def test_is_zero_where_an_odd_moment_is(n, size):
    """In units of large messages ε is 0 as a float: a root of 0 has no slope to be multiplied by 0."""
    m, ptr = torch.tensor([[size], [-size]], requires_grad=True), torch.tensor([0, 2])
    out = resolve(f"moment{n}").function(m, ptr)
    (grad,) = torch.autograd.grad(out.sum(), m)
    assert out.item() == 0
    assert (grad == 0).all()
    assert (derivative(f"moment{n}")(torch.ones(1, 1), m, ptr) == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_is_zero_for_no_messages(name):
    grad = derivative(name)(torch.ones(2, 3), torch.empty(0, 3), torch.zeros(3, dtype=torch.long))
    assert grad.shape == (0, 3)
