import contextlib
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from verification import proposition_1 as p1
from verification.counterexamples import aggregate
from verification.smooth import ball

checked = settings(derandomize=True, deadline=None, database=None, max_examples=60)
rationals = st.fractions(min_value=-30, max_value=30, max_denominator=20)


@pytest.mark.parametrize("n", range(1, 9))
def test_newtons_identities(n):
    assert p1.newtons_identities(n)


@pytest.mark.parametrize("n", range(2, 6))
def test_newtons_identities_with_a_wrong_sign_fail(n, monkeypatch):
    right = p1.elementary_from_power_sums

    def wrong(p, one=1):
        return right([-x for x in p], one)

    monkeypatch.setattr(p1, "elementary_from_power_sums", wrong)
    assert not p1.newtons_identities(n)


@pytest.mark.parametrize("n", range(1, 9))
def test_vietas_formulas(n):
    assert p1.vietas_formulas(n)


@pytest.mark.parametrize("n", range(1, 6))
def test_vietas_formulas_without_the_sign_fail(n, monkeypatch):
    monkeypatch.setattr(p1, "coefficients", lambda e: list(reversed(e)))
    assert not p1.vietas_formulas(n)


def test_small_symmetric_sums_by_hand():
    assert p1.elementary_from_power_sums([Fraction(6), Fraction(14), Fraction(36)]) == [1, 6, 11, 6]  # {1, 2, 3}
    assert p1.coefficients([1, 6, 11, 6]) == [-6, 11, -6, 1]


@checked
@given(st.lists(rationals, min_size=1, max_size=10))
def test_round_trip(x):
    assert p1.from_central_moments(*p1.central_moments(x)) == tuple(sorted(x))


@checked
@given(st.lists(rationals, min_size=2, max_size=4), st.lists(st.integers(0, 3), min_size=5, max_size=12))
def test_round_trip_with_repeated_elements(values, picks):
    x = [values[pick % len(values)] for pick in picks]
    assert p1.from_central_moments(*p1.central_moments(x)) == tuple(sorted(x))


@pytest.mark.parametrize("n", [32, 64])
def test_round_trip_of_many(n):
    x = tuple(sorted(Fraction((7 * k) % 41 - 20, 1 + k % 3) for k in range(n)))
    assert len(set(x)) < n
    mu, moments = p1.central_moments(x)
    assert p1.from_central_moments(mu, moments) == x
    moments[-1] += 1
    with pytest.raises(ArithmeticError):
        p1.from_central_moments(mu, moments)


@checked
@given(st.lists(rationals, min_size=3, max_size=7))
def test_a_moment_that_is_left_out_is_missed(x):
    """n - 1 moments are not enough: the last one alone tells some multisets apart (Theorem 1)."""
    mu, moments = p1.central_moments(x)
    moments[-1] += Fraction(1, 7)
    with contextlib.suppress(ArithmeticError):
        assert p1.from_central_moments(mu, moments) != tuple(sorted(x))


@pytest.mark.parametrize(("value", "k"), [("8", 3), ("-8", 3), ("-5/3", 5), ("7", 2), ("7/9", 4)])
def test_a_signed_root_is_undone_by_its_power(value, k):
    with ctx.workprec(200):
        root = p1.signed_root(ball(Fraction(value)), k)
        assert (root**k).overlaps(ball(Fraction(value)))
        assert (root > 0) == (Fraction(value) > 0)


@pytest.mark.parametrize(("value", "k"), [(arb(-4), 2), (arb(0, 1), 3)])
def test_a_root_that_does_not_exist_or_is_not_decided(value, k):
    with pytest.raises(ValueError, match="no real root"):
        p1.signed_root(value, k)


def test_the_packages_moments_are_the_signed_roots():
    for x in ((Fraction(0), Fraction(0), Fraction(30)), (Fraction(-10), Fraction(20), Fraction(20))):
        _, (_, third) = p1.central_moments(x)
        root = float(p1.signed_root(ball(third), 3).mid())
        assert float(aggregate("moment3", x, torch.float64)) == pytest.approx(root, rel=1e-6)


def first_moments(x):
    """The mean, and the central moments of the orders 2 to 5, exactly."""
    mu = sum(x, Fraction(0)) / len(x)
    return mu, [sum(((y - mu) ** k for y in x), Fraction(0)) / len(x) for k in range(2, 6)]


@checked
@given(st.lists(rationals, min_size=1, max_size=5))
def test_unknown_size(x):
    s = {d: Fraction(d * d + 1, 3) for d in range(1, 6)}
    mu, moments = first_moments(x)
    n = p1.size_from(s[len(x)], Fraction(1), s)
    assert p1.from_moments_and_size(mu, moments, n) == tuple(sorted(x))
    if mu:
        assert p1.size_from(s[len(x)] * mu, mu, s) == n


def test_unknown_size_needs_an_injective_scaler_and_a_mean():
    with pytest.raises(ValueError, match="not injective"):
        p1.size_from(Fraction(1), Fraction(1), {1: Fraction(1), 2: Fraction(1)})
    with pytest.raises(ValueError, match="0 times"):
        p1.size_from(Fraction(0), Fraction(0), {1: Fraction(1), 2: Fraction(2)})


def test_without_its_size_a_multiset_is_not_determined():
    """The first moments of {1, 3} are those of {1, 1, 3, 3}: read with the wrong size they give another multiset."""
    mu, moments = first_moments([Fraction(1), Fraction(3)])
    assert (mu, moments) == first_moments([Fraction(k) for k in (1, 1, 3, 3)])
    assert p1.from_moments_and_size(mu, moments, 2) != p1.from_moments_and_size(mu, moments, 4)


def test_the_error_grows_with_n_and_falls_with_precision():
    float32, float64, digits = ([p1.float_error(n, kind) for n in (4, 8, 16)] for kind in (np.float32, np.float64, 332))
    for errors in (float32, float64, digits):
        assert errors[0] < errors[1] < errors[2]
    assert all(a > 1e4 * b > 1e60 * c for a, b, c in zip(float32, float64, digits, strict=True))
    assert digits[2] < 1e-80
    assert math.isfinite(p1.float_error(32, np.float32))


def test_the_samples_are_distinct():
    assert len(set(p1.sample(64))) == 64


def test_the_predicted_error_by_hand():
    """{-1, 1}: M_2 = 1, x = ±√M_2, so dx = dM_2/2; rounding it to 2^-53 costs 2^-54."""
    assert p1.predicted_error((Fraction(-1), Fraction(1))) == 2.0**-54


def test_the_loss_is_what_the_inverse_lipschitz_constant_says():
    for n in (4, 8, 16):
        share = p1.float_error(n, np.float64) / p1.predicted_error(p1.sample(n))
        assert 0.01 < share < 3


def test_where_two_elements_meet_moments_are_closer_than_multisets():
    for t in (Fraction(1, 10), Fraction(1, 10**6), Fraction(1, 10**9)):
        moments, elements = p1.meeting_error(t)
        assert moments <= 2.0001 * elements**2
