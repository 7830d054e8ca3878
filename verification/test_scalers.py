import math

import pytest
import sympy
import torch

from pna import scalers as degree_scalers
from verification import scalers


def test_the_derivative_has_the_sign_of_alpha():
    slope = scalers.logarithmic_derivative()
    assert slope.is_positive
    (d,) = slope.free_symbols
    assert sympy.simplify(slope - 1 / ((d + 1) * sympy.log(d + 1))) == 0


@pytest.mark.parametrize("alpha", [-1.0, -0.5, 0.25, 1.0, 2.0])
def test_the_packages_scaler_is_injective(alpha):
    values = degree_scalers.S(torch.arange(1, 2000, dtype=torch.float64), alpha, 1.3).diff()
    assert bool((values > 0).all() if alpha > 0 else (values < 0).all())


def test_alpha_0_is_not_injective():
    values = degree_scalers.S(torch.arange(1, 9, dtype=torch.float64), 0.0, 1.3)
    assert len(set(values.tolist())) == 1


@pytest.mark.parametrize("size", [1, 2, 5])
def test_sum_is_the_linearly_scaled_mean(size):
    assert scalers.sum_is_scaled_mean(size)


def test_log_over_d_decreases():
    q, at_0, slope = scalers.ratio_decreases()
    (d,) = q.free_symbols
    assert at_0 == 0
    assert slope.is_positive
    assert sympy.simplify(sympy.diff(sympy.log(1 + d) / d, d) + q / d**2) == 0


@pytest.mark.parametrize(("d", "d_0"), [(4, 2), (8, 4), (16, 15), (3, 3)])
@pytest.mark.parametrize("layers", [0, 1, 7])
def test_amplification_is_a_power_of_the_scaler(d, d_0, layers):
    linear = scalers.amplification_on_regular_graph(d, d_0, layers, "linear")
    logarithmic = scalers.amplification_on_regular_graph(d, d_0, layers, "logarithmic")
    expected = (d / d_0) ** layers, (math.log(d + 1) / math.log(d_0 + 1)) ** layers
    assert linear.tolist() == pytest.approx([expected[0]] * len(linear))
    assert logarithmic.tolist() == pytest.approx([expected[1]] * len(logarithmic))
    if d > d_0 and layers:
        assert 1 < expected[1] < expected[0]


def test_below_the_training_degree_the_order_turns():
    linear, logarithmic = (
        scalers.amplification_on_regular_graph(3, 9, 4, kind)[0] for kind in ("linear", "logarithmic")
    )
    assert linear < logarithmic < 1


def test_an_unknown_kind_is_refused():
    with pytest.raises(KeyError):
        scalers.amplification_on_regular_graph(3, 3, 1, "cubic")
