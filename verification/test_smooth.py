import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from verification import smooth
from verification.smooth import NotDefinedError, NotSmoothError, Real, ball, variables

checked = settings(derandomize=True, deadline=None, database=None, max_examples=40)
FUNCTIONS = ["exp", "log", "sqrt", "tanh", "sin", "cos"]


@pytest.mark.parametrize("name", FUNCTIONS)
@checked
@given(x=st.fractions(min_value=Fraction(1, 10), max_value=4, max_denominator=50))
def test_value_and_derivative_enclose_the_truth(name, x):
    function = getattr(smooth, name)
    with ctx.workprec(200):
        (argument,) = variables([ball(x)], differentiate=True)
        result = function(argument)
        step = ball(Fraction(1, 2**60))
        difference = (function(Real(ball(x) + step, None)) - function(Real(ball(x) - step, None))).value / (2 * step)
        assert abs(result.gradient[0] - difference) < arb(2) ** -80
    assert float(result.value.mid()) == pytest.approx(getattr(math, name)(float(x)))
    assert function(float(x)) == pytest.approx(getattr(math, name)(float(x)))


@checked
@given(k=st.integers(0, 40), middle=st.integers(-3, 3), radius=st.integers(0, 3))
def test_a_power_of_a_ball_is_a_number_also_around_0(k, middle, radius):
    result = smooth.power(arb(middle, radius), k)
    assert result.is_finite()
    assert all(result.contains(arb(x) ** k if k else arb(1)) for x in range(middle - radius, middle + radius + 1))


@pytest.mark.parametrize("function", [lambda x: 1 / x, lambda x: x**-1, smooth.log, smooth.sqrt, lambda x: x + math.nan,
                                      lambda x: 1 / smooth.tanh(x), lambda x: smooth.tanh(1 / x)])  # fmt: skip
@pytest.mark.parametrize("differentiate", [False, True])
def test_what_is_not_certainly_finite_is_refused(function, differentiate):
    (x,) = variables([arb(0, 1)], differentiate)
    with pytest.raises(NotDefinedError):
        function(x)


def test_arithmetic_differentiates():
    with ctx.workprec(100):
        x, y = variables([arb(3), arb(2)], differentiate=True)
        quotient = (x * y - 1) / (y**3 + 2 * x) - 5 + (1 - x) + 2 / y
        assert quotient.value.contains(ball(Fraction(5, 14) - 6))
        assert quotient.gradient[0].contains(ball(Fraction(2 * 14 - 5 * 2, 14**2) - 1))
        assert quotient.gradient[1].contains(ball(Fraction(3 * 14 - 5 * 12, 14**2) - Fraction(1, 2)))
        assert (x ** Fraction(1, 2)).value.overlaps(arb(3).sqrt())
        assert (x**0).gradient[0].is_zero()
        assert (x**-2).gradient[0].contains(ball(Fraction(-2, 27)))


COMPARISONS = {
    max: 1, min: 0, (lambda x: sorted(x, reverse=True)[0]): 1, (lambda x: x[0] if x[0] else x[1]): 0,
    (lambda x: x[0] if x[0] != x[1] else x[1]): 0, (lambda x: x[0] if x[0] <= x[1] else x[1]): 0,
    np.max: 1, np.min: 0,
}  # fmt: skip


@pytest.mark.parametrize(("comparison", "place"), COMPARISONS.items())
def test_a_comparison_is_decided_or_refused(comparison, place):
    x = variables([arb(1), arb(2)], differentiate=True)
    assert comparison(x) is x[place]
    for meeting in ([arb(0, 1), arb(0, 1)], [arb(-1, 2), arb(2, 3)]):
        with pytest.raises(NotSmoothError):
            comparison(variables(meeting, differentiate=True))


def test_the_absolute_value_has_its_sign():
    x, y = variables([arb(-2), arb(3)], differentiate=True)
    assert abs(x).gradient[0] == -1
    assert abs(y) is y
    with pytest.raises(NotSmoothError):
        abs(variables([arb(0, 1)], differentiate=True)[0])


@pytest.mark.parametrize(
    ("function", "by_hand"),
    [(np.mean, lambda x: sum(x) / 3), (np.sum, sum), (np.var, lambda x: sum((y - sum(x) / 3) ** 2 for y in x) / 3),
     (np.std, lambda x: smooth.sqrt(sum((y - sum(x) / 3) ** 2 for y in x) / 3)),
     (lambda x: np.sum(np.exp(x)), lambda x: sum(smooth.exp(y) for y in x)),
     (lambda x: np.tanh(x[0]) * np.float64(0.5), lambda x: smooth.tanh(x[0]) / 2),
     (lambda x: np.int64(3) * np.sqrt(x[1]), lambda x: 3 * smooth.sqrt(x[1])),
     (lambda x: np.float32(0.5) + x[2] ** np.int64(2), lambda x: x[2] * x[2] + 0.5), (np.median, lambda x: x[1])],
)  # fmt: skip
def test_numpy_computes_the_same(function, by_hand):
    x = variables([arb(1), arb(2), arb(4)], differentiate=True)
    ours, truth = Real(arb(0), {}) + function(x), Real(arb(0), {}) + by_hand(x)
    assert ours.value.overlaps(truth.value)
    assert all(ours.gradient.get(i, arb(0)).overlaps(truth.gradient.get(i, arb(0))) for i in range(3))


def test_elements_do_not_become_floats():
    (x,) = variables([arb(1)], differentiate=False)
    with pytest.raises(TypeError, match=r"those of verification\.smooth"):
        math.exp(x)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_are_continuous_but_not_smooth(name):
    points = [arb(1), arb(3), arb(2)]
    extreme = getattr(smooth, name)(variables(points, differentiate=True))
    assert extreme.value == (3 if name == "maximum" else 1)
    assert extreme.gradient == {1 if name == "maximum" else 0: 1}
    meeting = [arb(1), arb(1), arb(1)]
    assert getattr(smooth, name)(variables(meeting, differentiate=False)).value == 1
    with pytest.raises(NotSmoothError, match="meet"):
        getattr(smooth, name)(variables([arb(1, 1), arb(1, 1)], differentiate=True))


def test_absolute_encloses_both_signs():
    (x,) = variables([arb(-3)], differentiate=False)
    assert smooth.absolute(x).value == 3
    (x,) = variables([arb(0, 1)], differentiate=False)
    assert smooth.absolute(x).value.contains(arb(1))
    assert smooth.absolute(x).value.contains(arb(0))


def test_a_ball_never_loses_its_number():
    assert ball(Fraction(1, 3)).contains(arb(1) / 3) or ball(Fraction(1, 3)).overlaps(arb(1) / 3)
    assert ball(Fraction(1, 3)).rad() > 0
    assert ball(0.5).is_exact()
