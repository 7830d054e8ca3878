"""The paper's choice of seeds: by validation error, without those that diverged."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pna.training.ranking import KEPT, ranking

ERRORS = st.lists(st.one_of(st.floats(0, 10), st.just(math.inf), st.just(math.nan)), max_size=12)


@given(ERRORS)
def test_rows_are_the_finite_ones_in_ascending_order(validation):
    rows = ranking(validation)
    finite = [k for k, error in enumerate(validation) if math.isfinite(error)]
    assert sorted(rows) == finite
    assert list(rows) == sorted(finite, key=lambda k: (validation[k], k))  # of equals, the earlier seed


def test_the_five_best_of_ten():
    assert ranking([5, 4, 3, 2, 1, 0, 9, 9, 9, 9])[:KEPT].tolist() == [5, 4, 3, 2, 1]


def test_without_any_seed_that_ended_there_is_none():
    assert ranking(np.full(10, np.inf)).tolist() == []
    assert ranking([]).tolist() == []
