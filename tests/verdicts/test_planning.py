import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pna.verdicts.contrasts import Contrast, Sample
from pna.verdicts.planning import claim_power, equivalence_power, fewest_seeds, planned, power, t_power
from pna.verdicts.rules import less, rule, same
from pna.verdicts.statistics import Estimate, sample_mean

TRIALS = 40_000


def welch(difference, deviation, seeds, trials=TRIALS, rng=None):
    """Simulated differences of two means, first minus second, with their errors and degrees of freedom, [trials]."""
    rng = rng or np.random.default_rng(0)
    (one, other), (n, m) = np.broadcast_to(deviation, 2), np.broadcast_to(seeds, 2)
    first, second = rng.normal(-difference, one, (trials, n)), rng.normal(0.0, other, (trials, m))
    variances = first.var(axis=1, ddof=1) / n, second.var(axis=1, ddof=1) / m
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / (n - 1) + variances[1] ** 2 / (m - 1))
    return first.mean(axis=1) - second.mean(axis=1), np.sqrt(sum(variances)), freedom


def within_noise(simulated, expected, trials=TRIALS):
    return abs(simulated - expected) < 4 * np.sqrt(expected * (1 - expected) / trials) + 1e-4


@pytest.mark.parametrize(
    ("difference", "deviation", "seeds", "comparisons"),
    [(1.0, 1.0, 10, 1), (2.0, 1.0, 4, 57), (4.0, 1.0, 4, 57), (1.5, 1.0, 2, 1), (1.0, (1.0, 2.0), (5, 9), 3)],
)
def test_power_is_that_of_simulated_tests(difference, deviation, seeds, comparisons):
    value, error, freedom = welch(difference, deviation, seeds)
    held = (stats.t.cdf(value / error, freedom) < 0.025 / comparisons).mean()
    assert within_noise(held, power(difference, deviation, seeds, comparisons))


@pytest.mark.parametrize(
    ("margin", "deviation", "seeds", "comparisons", "difference"),
    [(1.0, 1.0, 15, 1, 0.0), (1.0, 0.5, 6, 3, 0.3), (1.0, (0.3, 0.9), (4, 8), 1, -0.2), (1.0, 1.0, 10, 1, 1.0)],
)
def test_power_of_equivalence_is_that_of_simulated_tests(margin, deviation, seeds, comparisons, difference):
    value, error, freedom = welch(difference, deviation, seeds)
    held = (stats.t.cdf((abs(value) - margin) / error, freedom) < 0.05 / comparisons).mean()
    assert within_noise(held, equivalence_power(margin, deviation, seeds, comparisons, difference))


@pytest.mark.parametrize(("comparisons", "need"), [(3, None), (4, 2)])
def test_power_of_a_claim_is_that_of_simulated_verdicts(comparisons, need):
    rng, trials, held, single = np.random.default_rng(1), 1_000, 0, 0
    for _ in range(trials):
        groups = rng.normal(size=(comparisons, 2, 8)) - [[[1.5], [0.0]]]
        ruling = rule((less("", sample_mean(one) - sample_mean(other)) for one, other in groups), need)
        held += ruling.kind == "reproduced"
        single += ruling.rows[0].outcome == "holds"
    assert within_noise(held / trials, claim_power(1.5, 1.0, 8, comparisons, need), trials)
    assert single / trials > power(1.5, 1.0, 8, comparisons) - 0.05  # a bound from below: the others can only help


def test_power_of_equivalence_is_that_of_simulated_verdicts():
    rng, trials = np.random.default_rng(2), 1_000
    pairs = rng.normal(size=(trials, 2, 15))
    held = sum(
        rule([same("", sample_mean(one) - sample_mean(other), 1.0)]).kind == "reproduced" for one, other in pairs
    )
    assert within_noise(held / trials, equivalence_power(1.0, 1.0, 15), trials)


@settings(deadline=None)
@given(st.floats(0, 5), st.floats(0.1, 3), st.integers(2, 40), st.integers(1, 60))
def test_more_seeds_and_fewer_comparisons_are_more_powerful(difference, deviation, seeds, comparisons):
    chance = power(difference, deviation, seeds, comparisons)
    assert 0 <= chance <= 1
    assert power(difference, deviation, seeds + 1, comparisons) >= chance - 1e-9
    assert power(difference, deviation, seeds, comparisons + 1) <= chance + 1e-9
    assert power(2 * difference, 2 * deviation, seeds, comparisons) == pytest.approx(chance)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.1, 3), st.integers(2, 20), st.integers(1, 8))
def test_a_claim_of_fewer_is_easier_and_one_comparison_is_a_claim(difference, seeds, comparisons):
    chances = [claim_power(difference, 1.0, seeds, comparisons, need) for need in range(1, comparisons + 1)]
    assert (np.diff(chances) <= 1e-12).all()
    assert claim_power(difference, 1.0, seeds, 1) == pytest.approx(power(difference, 1.0, seeds))


def test_power_without_a_difference_is_the_level():
    assert power(0.0, 1.0, 50) == pytest.approx(0.025, abs=1e-3)  # on the side of the claim
    assert power(-3.0, 1.0, 10) < 1e-6
    assert equivalence_power(1.0, 0.1, 50, difference=1.0) == pytest.approx(0.05, abs=1e-3)


def test_the_fewest_seeds_have_the_power_and_one_less_has_not():
    seeds = fewest_seeds(lambda n: power(1.0, 1.0, n, 6))
    assert power(1.0, 1.0, seeds, 6) >= 0.9 > power(1.0, 1.0, seeds - 1, 6)
    assert fewest_seeds(lambda n: power(1000.0, 1.0, n), 0.5) == 2
    assert fewest_seeds(lambda n: equivalence_power(0.3, 0.2, n), wanted=0.8) == 9


def test_bad_plans_are_named():
    with pytest.raises(ValueError, match="1,000 seeds are too few for a power of 90%"):
        fewest_seeds(lambda n: power(0.0, 1.0, n))
    with pytest.raises(ValueError, match="seeds must be at least 2, got 1"):
        power(1.0, 1.0, (1, 5))
    with pytest.raises(ValueError, match="deviation must be positive, got 0"):
        power(1.0, 0.0, 5)
    with pytest.raises(ValueError, match="comparisons must be at least 1, got 0"):
        power(1.0, 1.0, 5, 0)


# ---- contrasts ----


@settings(deadline=None)
@given(st.floats(0.2, 2.0), st.floats(0.1, 1.0), st.integers(4, 40), st.integers(1, 6))
def test_the_power_of_a_t_test_is_the_noncentral_ts(distance, error, freedom, comparisons):
    reach = stats.t.isf(0.025 / comparisons, freedom)
    expected = stats.nct.sf(reach, freedom, distance / error)
    for value in (-distance, distance):  # on either side of the bound
        assert t_power(Estimate(value, error, freedom), 0.0, None, comparisons) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize(("value", "margin"), [(0.0, 0.3), (0.1, 0.3), (0.6, 0.3)])
def test_the_power_of_equivalence_is_that_of_simulated_tests(value, margin):
    error, freedom = 0.1, 9
    rng = np.random.default_rng(0)
    values = rng.normal(value, error, TRIALS)
    errors = error * np.sqrt(rng.chisquare(freedom, TRIALS) / freedom)
    near = np.maximum(stats.t.cdf((values - margin) / errors, freedom), stats.t.sf((values + margin) / errors, freedom))
    far = stats.t.sf((values - margin) / errors, freedom)
    simulated = (near < 0.05).mean() if value < margin else (far < 0.025).mean()
    assert within_noise(simulated, t_power(Estimate(value, error, freedom), 0.0, margin))


def test_four_times_the_seeds_halve_the_error_of_what_can_be_trained():
    scores = np.random.default_rng(0).normal(size=8)
    ours = Sample("ours", sample_mean, 8)
    fixed = Sample("published", lambda weight: Estimate(weight[0], 0.05, 3.0), 0)
    contrast = Contrast({ours: scores, fixed: np.ones(1)})
    now, then = contrast.estimate, planned(contrast, {ours: 32}, lambda sample, seeds: seeds - 1.0)
    assert then.value == pytest.approx(now.value)
    assert then.error**2 - 0.05**2 == pytest.approx((now.error**2 - 0.05**2) / 4)
    assert then.freedom > now.freedom
