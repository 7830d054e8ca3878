import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pna.verdicts.statistics import KEPT, Estimate, choice_covariance, combined, five_best, holm, mean_of

scores = st.lists(st.floats(-5, 5), min_size=10, max_size=10)


def resampled(ranked):
    """Every draw of len(ranked) seeds with replacement, five chosen anew: the bootstrap, in full."""
    rows = itertools.product(range(len(ranked)), repeat=len(ranked))
    return np.array([np.mean([ranked[k] for k in sorted(row)[:KEPT]]) for row in rows])


@pytest.mark.parametrize("seeds", [5, 6])
def test_the_error_is_that_of_all_draws_with_the_choice_repeated(seeds):
    ranked = np.random.default_rng(seeds).normal(size=seeds)
    found = five_best(np.arange(seeds), ranked)
    assert found.error**2 == pytest.approx(resampled(ranked).var() * seeds / (seeds - 1))


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
    assert choice_covariance(10).sum() == pytest.approx(0, abs=1e-12)  # the weights sum to one


def test_too_few_seeds_have_no_interval():
    found = five_best([1, 2, 3, 4], [1.0, 2.0, 3.0, 4.0])
    assert found.value == 2.5
    assert not found.known
    assert math.isnan(found.interval[0])
    assert math.isnan(found.below())
    assert not (found - five_best(range(10), range(10))).known


def test_seeds_that_diverged_are_left_out():
    validation = [0, 1, 2, 3, 4, 5, 6, 7, math.inf, math.inf]
    assert five_best(validation, range(10)) == five_best(range(8), range(8))
    assert math.isnan(five_best([math.inf] * 10, range(10)).value)


def test_welch_from_mean_deviation_and_count():
    one, other = [0.31, 0.29, 0.33, 0.31], [0.37, 0.39, 0.38, 0.36]
    pair = [mean_of(np.mean(x), np.std(x, ddof=1), 4) for x in (one, other)]
    expected = stats.ttest_ind(one, other, equal_var=False)
    difference = pair[0] - pair[1]
    assert difference.freedom == pytest.approx(expected.df)
    assert 2 * difference.below() == pytest.approx(expected.pvalue)
    assert not mean_of(1.0, 0.0, 1).known


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
