"""Toggling probabilities, as described and as released (D2), and that toggling follows them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pna.multitask import DESCRIBED, RELEASED, Spec
from pna.multitask.families import FAMILIES, family_named
from pna.multitask.random_numbers import TOGGLING, Draws
from pna.multitask.toggling import toggle, toggling_probabilities, triangular

ONLY_D2 = Spec(toggling="released")
counts = st.tuples(st.integers(0, 5000), st.integers(0, 5000)).filter(lambda pair: sum(pair) > 0)


@given(counts)
def test_described_toggling_keeps_the_number_of_edges_on_average(pair):
    e, m = pair
    P_e, P_m = toggling_probabilities(e, m, DESCRIBED)
    assert e * P_e == pytest.approx(m * P_m)
    assert np.maximum(P_e, P_m) == 0.1


@given(counts)
def test_released_toggling_is_rarer(pair):
    described, released = (toggling_probabilities(*pair, spec) for spec in (DESCRIBED, RELEASED))
    assert released[0] == pytest.approx(2 * described[0] ** 2)  # keep = 1 - P_e >= 1/2, so it is removed with 2 P_e^2
    assert released[1] == pytest.approx(2 * described[1] ** 2)


@pytest.mark.parametrize("p", [0.0, 0.01, 0.1, 0.4, 0.5, 0.6, 0.9, 1.0])
def test_triangular_is_the_sum_of_two_draws(p):
    u, v = np.random.default_rng(0).uniform(0, 0.5, (2, 200_000))
    expected = float(triangular(p))
    error = np.sqrt(expected * (1 - expected) / len(u))
    assert np.mean(u + v < p) == pytest.approx(expected, abs=3 * error)


def base(name, N, count):
    if name == "dense":  # more edges than missing ones: the complete graph without a line
        return ~(np.eye(N, dtype=bool) | base("line", N, count))
    return family_named(name).generator(Draws(0, 0, np.arange(count), TOGGLING), N)


@pytest.mark.parametrize("spec", [DESCRIBED, RELEASED, ONLY_D2], ids=str)
@pytest.mark.parametrize("name", ["line", "star", "grid", "caveman", "ladder", "dense"])
def test_toggling_frequencies(name, spec):
    """10,000 graphs: within 3 standard errors of the formula, for edges and for missing edges."""
    before = base(name, 20, 10_000)
    after = toggle(before, Draws(1, 2, np.arange(10_000), TOGGLING), spec)
    upper = np.triu(np.ones((20, 20), dtype=bool), k=1)
    e = before[0].sum() // 2
    for edge, probability in zip((True, False), toggling_probabilities(e, 190 - e, spec), strict=True):
        pairs = (before == edge) & upper
        error = np.sqrt(probability * (1 - probability) / pairs.sum())
        assert (before != after)[pairs].mean() == pytest.approx(float(probability), abs=3 * error)


@pytest.mark.parametrize("spec", [DESCRIBED, RELEASED], ids=str)
def test_toggling_is_symmetric_and_spares_the_diagonal(spec):
    for family in FAMILIES:
        after = toggle(base(family.name, 17, 200), Draws(0, 0, np.arange(200), TOGGLING), spec)
        np.testing.assert_array_equal(after, after.transpose(0, 2, 1))
        assert not np.diagonal(after, axis1=1, axis2=2).any()


def test_a_line_of_20_nodes():
    """The measured effect of D2: 0.020 per edge instead of 0.1, 0.00025 per missing pair instead of 0.0111."""
    np.testing.assert_allclose(toggling_probabilities(19, 171, DESCRIBED), [0.1, 0.0111], rtol=2e-3)
    np.testing.assert_allclose(toggling_probabilities(19, 171, RELEASED), [0.020, 0.00025], rtol=2e-2)


@pytest.mark.parametrize(
    ("e", "m", "expected"), [(0, 3, (0.1, 0)), (3, 0, (0, 0.1)), (2, 2, (0.1, 0.1)), (3, 1, (1 / 30, 0.1))]
)
def test_probabilities_by_hand(e, m, expected):
    np.testing.assert_allclose(toggling_probabilities(e, m, DESCRIBED), expected)


@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_probabilities_out_of_range(p):
    with pytest.raises(ValueError, match="p must be a probability, from 0 to 1"):
        triangular(p)


@pytest.mark.parametrize(("e", "m"), [(-1, 3), (0, 0), (4, -1)])
def test_impossible_counts(e, m):
    with pytest.raises(ValueError, match="e and m count"):
        toggling_probabilities(e, m, DESCRIBED)
