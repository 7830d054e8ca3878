import math
from fractions import Fraction

import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from verification import smooth
from verification.smooth import NotSmoothError, Real, ball, variables

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


def test_a_wrong_derivative_would_be_seen():
    wrong = smooth._elementary("exp", lambda x: x.exp(), lambda x, y: -y)
    (x,) = variables([arb(1)], differentiate=True)
    assert wrong(x).gradient[0] < 0 < smooth.exp(x).gradient[0]


def test_arithmetic_differentiates():
    with ctx.workprec(100):
        x, y = variables([arb(3), arb(2)], differentiate=True)
        quotient = (x * y - 1) / (y**3 + 2 * x) - 5 + (1 - x) + 2 / y
        assert quotient.value.contains(ball(Fraction(5, 14) - 6))
        assert quotient.gradient[0].contains(ball(Fraction(2 * 14 - 5 * 2, 14**2) - 1))
        assert quotient.gradient[1].contains(ball(Fraction(3 * 14 - 5 * 12, 14**2) - Fraction(1, 2)))
        assert (x ** Fraction(1, 2)).value.overlaps(arb(3).sqrt())
        assert (x**0).gradient == {}


@pytest.mark.parametrize(
    "comparison", [max, min, sorted, lambda x: x[0] == x[1], lambda x: x[0] if x[0] else x[1], lambda x: abs(x[0])]
)
def test_comparisons_are_refused(comparison):
    x = variables([arb(1), arb(2)], differentiate=False)
    with pytest.raises(NotSmoothError):
        comparison(x)


def test_elements_do_not_become_floats():
    (x,) = variables([arb(1)], differentiate=False)
    with pytest.raises(NotSmoothError, match="functions of smooth"):
        math.exp(x)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_are_continuous_but_not_smooth(name):
    points = [arb(1), arb(3), arb(2)]
    value = getattr(smooth, name)(variables(points, differentiate=False)).value
    assert value == (3 if name == "maximum" else 1)
    with pytest.raises(NotSmoothError, match="n = 2 only"):
        getattr(smooth, name)(variables(points, differentiate=True))


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
