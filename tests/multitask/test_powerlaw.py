"""The degrees of the power-law tree: networkx's loop, many trees and many steps at a time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pna.multitask.powerlaw import _replace, tree_degrees
from pna.multitask.random_numbers import FAMILY, Draws


def one_step_at_a_time(degree, place, fresh):
    """networkx's loop, after its first look at the degrees."""
    degree = list(degree)
    for index, value in zip(place, fresh, strict=True):
        degree[index] = value
        if sum(degree) == 2 * (len(degree) - 1):
            return degree, True
    return degree, False


@given(st.integers(2, 12), st.integers(1, 60), st.integers(0, 2**32))
def test_steps_together_are_the_steps_one_by_one(N, steps, seed):
    rng = np.random.default_rng(seed)
    degree = rng.integers(1, 4, (8, N))
    place, fresh = rng.integers(0, N, (8, steps)), rng.integers(1, 4, (8, steps))
    degrees, finished = _replace(degree, place, fresh)
    expected = [one_step_at_a_time(*row) for row in zip(degree, place, fresh, strict=True)]
    np.testing.assert_array_equal(degrees, [row for row, _ in expected])
    np.testing.assert_array_equal(finished, [end for _, end in expected])


@given(st.integers(2, 100), st.integers(0, 2**32))
def test_degrees_are_a_trees(N, seed):
    degree = tree_degrees(Draws(seed, 0, np.arange(3), FAMILY), N)
    assert (degree >= 1).all()
    assert (degree.sum(axis=1) == 2 * (N - 1)).all()


def test_a_trees_degrees_do_not_depend_on_its_batch():
    together = tree_degrees(Draws(0, 0, np.arange(50), FAMILY), 24)
    alone = [tree_degrees(Draws(0, 0, [graph], FAMILY), 24)[0] for graph in range(50)]
    np.testing.assert_array_equal(together, alone)


def test_the_result_is_not_the_power_law_given_its_sum():
    """Negative control: why the loop is followed rather than the degrees conditioned on being a tree's."""
    N, count = 15, 100_000
    rng = np.random.default_rng(0)
    iid = np.minimum(np.rint(1 / np.sqrt(1 - rng.random((2_000_000, N)))), N).astype(int)
    conditioned = iid[iid.sum(axis=1) == 2 * (N - 1)][:count]
    ours = tree_degrees(Draws(0, 0, np.arange(count), FAMILY), N)
    leaves = np.stack([np.bincount((degree == 1).sum(axis=1), minlength=N + 1) for degree in (ours, conditioned)])
    assert len(conditioned) == count
    assert stats.chi2_contingency(leaves[:, leaves.sum(axis=0) > 40]).pvalue < 1e-9
