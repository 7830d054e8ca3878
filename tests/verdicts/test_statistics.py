import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pna.verdicts.statistics import (
    Estimate,
    best_mean,
    choice_covariance,
    choice_freedom,
    combined,
    conjunction,
    fisher,
    holm,
    mean_of,
    sample_mean,
    subset_freedom,
    subset_weights,
)

KEPT = 5
scores = st.lists(st.floats(-5, 5), min_size=10, max_size=10)


def assert_same(a, b):
    """Two estimates are equal, where nan equals nan: Python 3.13's dataclasses compare fields by == alone."""
    assert repr(a) == repr(b)


def five_best(validation, values):
    return best_mean(validation, values, KEPT, freedom=5.0)


def resampled(ranked, kept):
    """The bootstrap in full: every draw of len(ranked) seeds with replacement, and the mean of the best."""
    rows = itertools.product(range(len(ranked)), repeat=len(ranked))
    return np.array([np.mean([ranked[k] for k in sorted(row)[:kept]]) for row in rows])


@pytest.mark.parametrize(("seeds", "kept"), [(5, 5), (6, 5), (5, 3), (5, 1)])
def test_the_error_is_that_of_all_draws_with_the_choice_repeated(seeds, kept):
    ranked = np.random.default_rng(seeds).normal(size=seeds)
    error = best_mean(np.arange(seeds), ranked, kept).error
    assert error**2 == pytest.approx(resampled(ranked, kept).var() * seeds / (seeds - 1))


@settings(deadline=None)
@given(st.integers(5, 12), st.integers(1, 12))
def test_choosing_fewer_leaves_fewer_degrees_of_freedom_and_choosing_all_the_usual_ones(seeds, kept):
    freedom = choice_freedom(seeds, min(kept, seeds))
    assert freedom <= seeds - 1 + 1e-9
    if kept >= seeds:
        values = np.linspace(0.0, 1.0, seeds) ** 2
        one, other = best_mean(np.arange(seeds), values, kept), sample_mean(values)
        assert (one.value, one.error, one.freedom) == pytest.approx((other.value, other.error, other.freedom))


def test_the_degrees_of_freedom_are_those_of_simulated_errors():
    """For normal scores that validation says nothing about: Var(error²) = 2 E(error²)² / freedom."""
    rng = np.random.default_rng(0)
    squares = [best_mean(range(10), row, KEPT).error ** 2 for row in rng.normal(size=(10_000, 10))]
    assert 2 * np.mean(squares) ** 2 / np.var(squares) == pytest.approx(choice_freedom(10, KEPT), rel=0.06)


def test_the_error_of_ten_is_that_of_many_draws():
    rng = np.random.default_rng(0)
    ranked = rng.normal(size=10)
    rows = np.sort(rng.integers(10, size=(200_000, 10)), axis=1)[:, :KEPT]
    assert five_best(np.arange(10), ranked).error ** 2 == pytest.approx(
        ranked[rows].mean(axis=1).var() * 10 / 9, rel=0.02
    )


@given(scores, scores)
def test_order_of_seeds_does_not_matter(validation, values):
    validation = np.argsort(validation) + 0.5
    one, other = five_best(validation, values), five_best(validation[::-1], values[::-1])
    assert one.value == pytest.approx(other.value)
    assert one.error == pytest.approx(other.error, abs=1e-9)


@given(scores, st.floats(-3, 3), st.floats(0.1, 3))
def test_shift_and_scale(values, shift, scale):
    one = five_best(range(10), values)
    other = five_best(range(10), [scale * value + shift for value in values])
    assert other.value == pytest.approx(scale * one.value + shift, abs=1e-9)
    assert other.error == pytest.approx(scale * one.error, abs=1e-6)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_never_makes_less_of_a_p_value_and_keeps_the_order(values):
    corrected = holm(values)
    assert all(new >= old for new, old in zip(corrected, values, strict=True))
    assert max(corrected) <= 1
    ordered = [new for _, new in sorted(zip(values, corrected, strict=True))]
    assert ordered == sorted(ordered)


@given(st.lists(st.floats(1e-12, 1), min_size=1, max_size=20))
def test_fishers_joint_test_is_scipys(values):
    assert fisher(values) == pytest.approx(stats.combine_pvalues(values, "fisher").pvalue)


def test_fishers_joint_test_at_its_ends():
    assert fisher([]) == fisher([1.0, 1.0]) == 1.0
    assert fisher([0.5, 0.0]) == 0.0
    assert fisher([0.04]) == pytest.approx(0.04)
    with pytest.raises(ValueError, match="from 0 to 1"):
        fisher([0.5, 1.5])


def test_holm_on_known_values():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_five_of_five_is_the_mean_and_its_textbook_error():
    values = [1.0, 2.0, 3.0, 4.0, 10.0]
    found = five_best(range(5), values)
    assert found.value == 4.0
    assert found.error == pytest.approx(np.std(values, ddof=1) / math.sqrt(5))
    low, high = stats.t.interval(0.95, 4, loc=4.0, scale=found.error)
    assert found.interval == pytest.approx((low, high))


def test_the_five_with_the_least_validation_error_are_taken():
    assert five_best([5, 4, 3, 2, 1, 0, 9, 9, 9, 9], range(10)).value == 3.0
    assert choice_covariance(10, KEPT).sum() == pytest.approx(0, abs=1e-12)  # the weights sum to one


def test_too_few_seeds_have_no_interval():
    found = five_best([1, 2, 3, 4], [1.0, 2.0, 3.0, 4.0])
    assert found.value == 2.5
    assert not found.known
    assert math.isnan(found.interval[0])
    assert math.isnan(found.below())
    assert not (found - five_best(range(10), range(10))).known


def test_seeds_that_diverged_are_left_out():
    validation = [0, 1, 2, 3, 4, 5, 6, 7, math.inf, math.inf]
    assert_same(five_best(validation, range(10)), five_best(range(8), range(8)))
    assert math.isnan(five_best([math.inf] * 10, range(10)).value)


def test_welch_from_mean_deviation_and_count():
    one, other = [0.31, 0.29, 0.33, 0.31], [0.37, 0.39, 0.38, 0.36]
    pair = [mean_of(np.mean(x), np.std(x, ddof=1), 4) for x in (one, other)]
    expected = stats.ttest_ind(one, other, equal_var=False)
    difference = pair[0] - pair[1]
    assert difference.freedom == pytest.approx(expected.df)
    assert 2 * difference.below() == pytest.approx(expected.pvalue)
    assert not mean_of(1.0, 0.0, 1).known


@given(scores, scores)
def test_the_difference_of_two_means_is_welchs_test(one, other):
    if np.std(one) > 1e-3 and np.std(other) > 1e-3:
        difference, expected = sample_mean(one) - sample_mean(other), stats.ttest_ind(one, other, equal_var=False)
        assert difference.unlike(0.0) == pytest.approx(expected.pvalue, abs=1e-9)
        assert difference.interval == pytest.approx(tuple(expected.confidence_interval()), abs=1e-9)


def test_one_seed_has_no_error():
    assert sample_mean([0.3]).value == 0.3
    assert not sample_mean([0.3]).known


@given(st.floats(-2, 2), st.floats(0.01, 1), st.floats(1, 50), st.floats(0.01, 2))
def test_equivalence_is_the_90_percent_interval_within_the_margin(value, error, freedom, margin):
    reach = stats.t.isf(0.05, freedom) * error
    if abs(abs(value) + reach - margin) > 1e-9:
        assert (Estimate(value, error, freedom).within(margin) < 0.05) == (abs(value) + reach < margin)


def test_equivalence_on_known_values():
    one, other = [0.31, 0.29, 0.33, 0.31], [0.32, 0.30, 0.31, 0.33]
    difference = sample_mean(one) - sample_mean(other)
    tests = [stats.ttest_ind(np.add(one, shift), other, equal_var=False, alternative=side).pvalue
             for shift, side in ((-0.05, "less"), (0.05, "greater"))]  # fmt: skip
    assert difference.within(0.05) == pytest.approx(max(tests))
    assert math.isnan(Estimate(0.0).within(0.1))


def test_a_sum_of_estimates():
    one, other = Estimate(1.0, 0.3, 5.0), Estimate(2.0, 0.4, 5.0)
    found = combined([(0.5, one), (0.5, other)])
    assert (found.value, found.error) == (1.5, pytest.approx(0.25))
    assert 5 < found.freedom < 10


def test_the_range_of_the_next_mean_is_wider_by_the_root_of_two():
    found = Estimate(0.0, 1.0, 5.0)
    assert found.next.interval[1] == pytest.approx(math.sqrt(2) * found.interval[1])
    assert found.next.unlike(found.next.interval[1]) == pytest.approx(0.05)
    assert found.unlike(0.0) == 1.0


def test_no_spread_at_all():
    found = five_best(range(10), [1.0] * 10)
    assert found.error == pytest.approx(0, abs=1e-9)
    exact = Estimate(1.0, 0.0, 5.0)
    assert (exact.below(2.0), exact.below(1.0), exact.below(0.0)) == (0.0, 0.5, 1.0)


# ---- more seeds than an experiment has ----


def subsets(validation, values, of, keep):
    """The best mean of every subset of `of` seeds; a subset whose seeds all diverged has none."""
    means = []
    for rows in itertools.combinations(range(len(values)), of):
        alive = sorted((k for k in rows if math.isfinite(validation[k])), key=lambda k: (validation[k], k))
        if alive:
            means.append(np.mean([values[k] for k in alive[:keep]]))
    return np.array(means)


@pytest.mark.parametrize(("seeds", "of", "keep"), [(12, 10, 5), (9, 6, 3), (11, 4, 1), (8, 7, 7)])
@pytest.mark.parametrize("diverged", [0, 2])
def test_with_more_seeds_it_is_the_mean_over_all_subsets(seeds, of, keep, diverged):
    rng = np.random.default_rng(seeds)
    validation, values = rng.integers(0, 6, seeds).astype(float), rng.normal(size=seeds)  # with ties, by order
    validation[:diverged] = math.inf
    means = subsets(validation, values, of, keep)
    estimate = best_mean(validation, values, keep, of=of)
    assert estimate.value == pytest.approx(means.mean())
    assert estimate.once**2 == pytest.approx(means.var() + estimate.error**2)


def test_its_error_is_the_jackknifes():
    rng = np.random.default_rng(1)
    validation, values = rng.normal(size=(2, 12))
    without = [subsets(np.delete(validation, k), np.delete(values, k), 10, KEPT).mean() for k in range(12)]
    assert best_mean(validation, values, KEPT, of=10).error ** 2 == pytest.approx(11 * np.var(without))


def test_from_exactly_ten_seeds_nothing_changes():
    validation, values = np.random.default_rng(2).normal(size=(2, 10))
    assert_same(best_mean(validation, values, KEPT, 5.0, of=10), best_mean(validation, values, KEPT, 5.0))
    assert_same(best_mean(validation[:8], values[:8], KEPT, 5.0, of=10), five_best(validation[:8], values[:8]))


@given(st.integers(11, 40), st.integers(0, 6))
def test_the_weights_of_ranks_fall_and_sum_to_one(seeds, diverged):
    weights = subset_weights(seeds - diverged, seeds, 10, KEPT)
    assert weights.sum() == pytest.approx(1)
    assert (np.diff(weights) <= 1e-12).all()


@pytest.mark.parametrize(("seeds", "correlation"), [(12, 0.0), (20, 0.9), (40, 0.5)])
def test_its_interval_shrinks_and_holds_the_truth_as_often_as_it_says(seeds, correlation):
    rng = np.random.default_rng(seeds)

    def draw(shape):
        z = rng.standard_normal((2, *shape))
        return z[0], correlation * z[0] + math.sqrt(1 - correlation**2) * z[1]

    validation, values = draw((50_000, 10))
    chosen = np.take_along_axis(values, np.argsort(validation, axis=1)[:, :KEPT], axis=1).mean(axis=1)
    found = [best_mean(v, s, KEPT, of=10) for v, s in zip(*draw((1_000, seeds)), strict=True)]
    covered = np.mean([one.interval[0] <= chosen.mean() <= one.interval[1] for one in found])
    assert 0.93 < covered < 0.985
    assert np.mean([one.error for one in found]) < chosen.std() * math.sqrt(13 / seeds)
    assert np.sqrt(np.mean([one.once**2 for one in found])) == pytest.approx(chosen.std(), rel=0.12)


def test_its_degrees_of_freedom_grow_with_the_seeds():
    rows = [subset_freedom(seeds, 10, KEPT) for seeds in (11, 12, 15, 20, 40)]
    assert rows == sorted(rows)
    assert rows[-1] == pytest.approx(19.5, abs=0.1)
    assert best_mean(range(20), range(20), KEPT, 5.0, of=10).freedom == pytest.approx(rows[3])


def test_the_next_experiment_has_the_error_of_one_and_that_of_the_mean():
    one = Estimate(0.0, 0.3, 9.0, once=0.4)
    assert one.next.error == pytest.approx(0.5)
    assert one.shifted(1.0).next.error == pytest.approx(0.5)


# ---- several hypotheses at once ----


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_all_need_no_correction_and_one_needs_bonferronis(values):
    assert conjunction(values, len(values)) == max(values)
    assert conjunction(values, 1) == min(1.0, len(values) * min(values))
    steps = [conjunction(values, need) for need in range(1, len(values) + 1)]
    assert all(0 <= p <= 1 for p in steps)


def test_a_partial_conjunction_on_known_values():
    assert conjunction([0.01, 0.2, 0.02, 0.5], 2) == pytest.approx(0.06)
    with pytest.raises(ValueError, match="need must be from 1 to 2, got 3"):
        conjunction([0.1, 0.2], 3)
