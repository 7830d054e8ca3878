"""The scalers against equation 6."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pna import scalers
from pna.scalers import SCALERS


@given(alpha=st.floats(-3, 3), delta=st.floats(0.1, 5))
def test_equation_6_for_any_alpha(alpha, delta):
    d = torch.arange(1, 50, dtype=torch.double)
    expected = [(math.log(k + 1) / delta) ** alpha for k in range(1, 50)]
    torch.testing.assert_close(scalers.S(d, alpha, delta), torch.tensor(expected, dtype=torch.double))


@given(alpha=st.floats(-1, 1).filter(lambda a: abs(a) > 1e-3))
def test_injective_for_positive_degrees(alpha):
    s = scalers.S(torch.arange(1, 1000, dtype=torch.double), alpha, 1.0)
    assert (s.diff().sign() == math.copysign(1, alpha)).all()


@pytest.mark.parametrize("alpha", [50, -50, 20.5])
def test_a_large_alpha_has_no_quotient_of_infinities(alpha):
    d = torch.tensor([1.0, 5.0, 30.0])
    expected = torch.tensor([(math.log(k + 1) / 12.0) ** alpha for k in (1, 5, 30)])
    torch.testing.assert_close(scalers.S(d, alpha, 12.0), expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("scaler", [*SCALERS, 0.5, -0.5, 0.0, 1])
def test_degree_zero_is_finite_with_a_finite_gradient(scaler):
    delta = torch.tensor(1.3, requires_grad=True)
    mean_degree = torch.tensor(2.5, requires_grad=True)
    factor = scalers.scale(torch.tensor([0.0, 1.0, 2.0]), scaler, delta, mean_degree)
    assert factor.isfinite().all()
    if factor.requires_grad:
        for grad in torch.autograd.grad(factor.sum(), (delta, mean_degree), allow_unused=True):
            assert grad is None or grad.isfinite().all()


def test_degree_zero_is_as_documented():
    d = torch.tensor([0.0, 1.0])
    value = {name: scalers.scale(d, name, 2.0, 4.0).tolist() for name in SCALERS}
    log2 = math.log(2)
    assert value["identity"] == [1, 1]
    assert value["amplification"] == pytest.approx([0, log2 / 2])
    assert value["attenuation"] == pytest.approx([2 / log2, 2 / log2])
    assert value["linear"] == [0, 0.25]
    assert value["inverse_linear"] == [4, 4]


def test_a_number_is_alpha():
    d = torch.arange(5.0)
    assert torch.equal(scalers.scale(d, 1, 2.0, 4.0), scalers.scale(d, "amplification", 2.0, 4.0))
    assert torch.equal(scalers.scale(d, -1.0, 2.0, 4.0), scalers.scale(d, "attenuation", 2.0, 4.0))
    assert torch.equal(scalers.scale(d, 0, 2.0, 4.0), torch.ones(5))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, None, "1", 1j, 10**400])
def test_exponents_and_statistics_are_finite_numbers(value):
    d = torch.tensor([0.0, 1.0, 4.0])
    for call in (lambda: scalers.S(d, value, 1.0), lambda: scalers.linear(d, value, 1.0)):
        with pytest.raises(ValueError, match=r"(alpha|power) must be a finite number"):
            call()
    for call in (lambda: scalers.S(d, 1.0, value), lambda: scalers.linear(d, 1.0, value)):
        with pytest.raises(ValueError, match=r"(delta|mean_degree) must be positive and finite"):
            call()
    with pytest.raises(ValueError, match="unknown scaler"):
        scalers.scale(d, value, 1.0, 1.0)


@pytest.mark.parametrize("d", [torch.tensor([-1.0]), torch.tensor([math.nan]), torch.tensor([math.inf])])
def test_degrees_are_finite_and_not_negative(d):
    for call in (lambda: scalers.S(d, 1.0, 1.0), lambda: scalers.scale(d, "linear", 1.0, 1.0)):
        with pytest.raises(ValueError, match="d must be degrees"):
            call()
