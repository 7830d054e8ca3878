"""The cipher, and that a graph's numbers depend on the graph alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pna.multitask.random_numbers import FAMILY, TOGGLING, Draws, check_seed, philox


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20), st.integers(0, 2**64 - 1), st.integers(1, 30))
def test_a_graphs_numbers_do_not_depend_on_its_batch(graphs, seed, count):
    together = Draws(seed, 7, graphs, FAMILY).uniform(count)
    alone = [Draws(seed, 7, [graph], FAMILY).uniform(count)[0] for graph in graphs]
    np.testing.assert_array_equal(together, alone)


def test_of_keeps_the_place_in_the_stream():
    draws, whole = Draws(1, 2, np.arange(5), FAMILY), Draws(1, 2, np.arange(5), FAMILY)
    draws.uniform(6)
    whole.uniform(6)
    np.testing.assert_array_equal(draws.of(np.array([4, 1])).uniform(3), whole.uniform(3)[[4, 1]])


def test_every_word_of_the_counter_and_of_the_key_matters():
    cases = [
        Draws(1, 2, [3], FAMILY),
        Draws(0, 2, [3], FAMILY),
        Draws(1 + 2**32, 2, [3], FAMILY),
        Draws(1, 0, [3], FAMILY),
        Draws(1, 2, [0], FAMILY),
        Draws(1, 2, [3], TOGGLING),
        Draws(1, 2, [3], FAMILY, attempt=[1]),
    ]
    numbers = np.concatenate([draws.uniform(8).ravel() for draws in cases])
    assert len(np.unique(numbers)) == len(numbers)


def test_uniform_and_integers_are_uniform():
    draws = Draws(0, 0, np.arange(1000), FAMILY)
    assert stats.kstest(draws.uniform(40).ravel(), "uniform").pvalue > 1e-3
    counts = np.bincount(draws.integers(3, 10, 40).ravel() - 3)
    assert len(counts) == 7
    assert stats.chisquare(counts).pvalue > 1e-3


def test_integers_take_bounds_per_graph():
    high = np.array([1, 2, 5])
    numbers = Draws(0, 0, np.arange(3), FAMILY).integers(0, high, 200)
    assert (numbers.max(axis=1) == high - 1).all()
    assert (numbers.min(axis=1) == 0).all()


@pytest.mark.parametrize(
    ("counter", "key", "expected"),  # the known answers that come with the authors' Random123
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(counter, key, expected):
    assert tuple(int(word) for word in philox(counter, key)) == expected


@pytest.mark.parametrize(
    ("seed", "error"), [(-1, ValueError), (2**64, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_bad_seeds(seed, error):
    with pytest.raises(error, match="seed must be"):
        check_seed(seed)
