from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pna.report.collisions import COLLIDING, EXACT, drag, picture, same
from verification.counterexamples import PNA_FAILS

VALUES = st.lists(st.integers(0, 60), min_size=5, max_size=5).map(lambda row: tuple(v / 10 for v in row))


def test_the_sliders_begin_at_a_collision_of_the_four():
    assert COLLIDING == tuple(tuple(map(float, multiset)) for multiset in PNA_FAILS)
    assert [name for name, alike in same(*COLLIDING).items() if alike] == ["mean", "std", "max", "min", "sum"]


@given(VALUES, st.permutations(range(5)))
def test_one_multiset_in_another_order_is_the_same(x, order):
    assert all(same(x, [x[k] for k in order]).values())


@given(VALUES, VALUES)
def test_exact_where_floats_would_round(x, y):
    tenths = [[Fraction(round(10 * v), 10) for v in row] for row in (x, y)]
    assert same(x, y) == {name: g(tenths[0]) == g(tenths[1]) for name, g in EXACT.items()}


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ((5, 4.1, 2.8, 2.1, 1), "one multiset"),
        ((0, 0, 0, 0, 0), "every aggregator tells"),
        ((1, 1.9, 3.2, 4.0, 5), "collide under max, min"),
    ],
)
def test_the_picture_says_what_collides(y, said):
    assert said in picture(COLLIDING[0], y).axes[0].get_title()


def test_five_sliders_and_a_picture():
    *sliders, seen = drag(*COLLIDING).children
    assert [slider.value for slider in sliders] == list(COLLIDING[1])
    sliders[0].value = 2.0
    assert seen is not None
