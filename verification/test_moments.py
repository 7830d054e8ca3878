from fractions import Fraction

import pytest
import sympy
import torch
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from verification import moments
from verification.counterexamples import aggregate
from verification.smooth import ball

checked = settings(derandomize=True, deadline=None, database=None, max_examples=40)
rationals = st.fractions(min_value=-6, max_value=6, max_denominator=12)
positive = st.fractions(min_value=Fraction(1, 12), max_value=9, max_denominator=12)


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_the_three_scalings_of_the_uniform_distribution(n):
    forms = moments.uniform_moment(n)
    assert {name: moments.degree_in(form) for name, form in forms.items()} == {"root": 1, "plain": n, "standardised": 0}
    assert sympy.simplify(forms["plain"] - (moments.L / 2) ** n / (n + 1)) == 0


@pytest.mark.parametrize("n", [3, 5])
def test_odd_moments_of_the_uniform_distribution_vanish(n):
    assert set(moments.uniform_moment(n).values()) == {0}


def test_what_is_not_a_power_has_no_degree():
    assert not moments.degree_in(moments.L + 1).is_number


@pytest.mark.parametrize("n", range(1, 6))
@pytest.mark.parametrize("size", [2, 4])
def test_every_multiset_scales(n, size):
    assert moments.homogeneous(n, size)


def test_epsilon_breaks_the_scaling():
    x = (Fraction(0), Fraction(1, 100))
    small, large = (float(aggregate("std", tuple(k * y for y in x), torch.float64)) for k in (1, 100))
    assert large != pytest.approx(100 * small, rel=1e-3)
    wide, wider = (float(aggregate("moment4", (0, 1000 * k), torch.float64)) for k in (1, 7))
    assert wider == pytest.approx(7 * wide)


@checked
@given(st.lists(positive, min_size=1, max_size=6), st.sampled_from([1, 2, 7, 40, -1, -2, -7, -40]))
def test_root_moments_lie_between_their_bounds(x, n):
    assert moments.power_mean_bounds(x, n)


def test_the_bounds_need_positive_values():
    assert not moments.power_mean_bounds([Fraction(-3), Fraction(1)], 4)
    assert moments.power_mean_bounds([Fraction(1), Fraction(3)], 4)


def test_the_bounds_meet():
    assert moments.bounds_meet()


@pytest.mark.parametrize("n", [400, -400])
def test_the_limit_is_near(n):
    x = [Fraction(1), Fraction(2), Fraction(3)]
    with ctx.workprec(400):
        root = (sum((ball(y) ** n for y in x), arb(0)) / 3).root(abs(n))
        assert abs((root if n > 0 else 1 / root) - (3 if n > 0 else 1)) < 0.01


@pytest.mark.parametrize("size", range(1, 7))
def test_chebyshevs_identity(size):
    assert moments.chebyshev_identity(size)


@checked
@given(st.lists(rationals, min_size=2, max_size=6, unique=True))
def test_softmax_and_softmin_lie_strictly_between(x):
    with ctx.workprec(200):
        mean = ball(sum(x) / len(x))
        assert ball(min(x)) < moments.softmin_ball(x) < mean < moments.softmax_ball(x) < ball(max(x))


@checked
@given(st.lists(rationals, min_size=1, max_size=6))
def test_the_packages_softmax_and_softmin_are_these(x):
    for name, exact in (("softmax", moments.softmax_ball), ("softmin", moments.softmin_ball)):
        assert float(aggregate(name, tuple(x), torch.float64)) == pytest.approx(float(exact(x).mid()), abs=1e-12)


def test_weights_that_decrease_put_the_average_below_the_mean():
    """Why exp has to increase: with the weights exp(-x) the average falls below the mean."""
    x = [Fraction(0), Fraction(1), Fraction(5)]
    with ctx.workprec(100):
        weights = [ball(-y).exp() for y in x]
        average = sum((ball(y) * w for y, w in zip(x, weights, strict=True)), arb(0)) / sum(weights, arb(0))
        assert average < ball(Fraction(2))
