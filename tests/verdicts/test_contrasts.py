import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pna.verdicts.contrasts import Contrast, Sample, mean_contrast
from pna.verdicts.statistics import sample_mean

values = st.lists(st.floats(-3, 3), min_size=6, max_size=6)


def term(name, scores):
    return Contrast({Sample(name, sample_mean, len(scores)): np.asarray(scores, float)})


@given(values, values)
def test_a_difference_is_that_of_two_estimates(one, other):
    difference, expected = term("a", one) - term("b", other), sample_mean(one) - sample_mean(other)
    assert difference.estimate.value == pytest.approx(expected.value)
    assert difference.estimate.error == pytest.approx(expected.error)


@given(values, values)
def test_scores_of_one_sample_are_added_seed_by_seed(one, other):
    both = mean_contrast([term("a", one), term("a", other)]).estimate
    expected = sample_mean((np.add(one, other)) / 2)
    assert (both.value, both.error) == pytest.approx((expected.value, expected.error))


def test_a_model_in_many_comparisons_is_counted_once():
    """The mean of PNA minus six models has PNA's whole error, and a sixth of each other's."""
    rng = np.random.default_rng(0)
    pna, *rest = (term(f"{k}", rng.normal(size=6)) for k in range(7))
    mean = mean_contrast(pna - one for one in rest).estimate
    errors = [one.estimate.error for one in (pna, *rest)]
    assert mean.error == pytest.approx(np.sqrt(errors[0] ** 2 + sum(e**2 for e in errors[1:]) / 36))
    naive = np.sqrt(sum((pna - one).estimate.error ** 2 for one in rest)) / 6
    assert mean.error > 1.2 * naive  # as if the six differences were independent


def test_a_contrast_of_itself_is_nothing_and_a_mean_needs_something():
    one = term("a", [1.0, 2.0, 4.0])
    assert (one - one).estimate.value == 0
    assert (one - one).estimate.error == 0
    with pytest.raises(ValueError, match="at least one contrast"):
        mean_contrast([])
