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


@pytest.mark.parametrize("name", NAMES)
def test_is_zero_for_no_messages(name):
    grad = derivative(name)(torch.ones(2, 3), torch.empty(0, 3), torch.zeros(3, dtype=torch.long))
    assert grad.shape == (0, 3)
