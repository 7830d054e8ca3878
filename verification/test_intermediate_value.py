from fractions import Fraction

import pytest
from flint import ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from verification.intermediate_value import CONTINUOUS, bracket, diamond, h
from verification.smooth import absolute, cos, exp, maximum, minimum, sin, tanh
from verification.theorem_1 import NoCollisionError

checked = settings(derandomize=True, deadline=None, database=None, max_examples=30)
CENTRE = (Fraction(1), Fraction(2))


@checked
@given(st.fractions(min_value=0, max_value=2))
def test_the_path_is_antipodal_on_the_diamond_and_its_points_are_multisets(t):
    u = diamond(t)
    assert abs(u[0]) + abs(u[1]) == 1
    assert diamond(t + 2) == (-u[0], -u[1])
    r = (CENTRE[1] - CENTRE[0]) / 2
    for sign in (1, -1):
        assert CENTRE[0] + sign * r * u[0] < CENTRE[1] + sign * r * u[1]


@checked
@given(st.fractions(min_value=0, max_value=4), st.fractions(min_value=0, max_value=Fraction(1, 8)))
def test_the_path_is_continuous(t, step):
    u, v = diamond(t), diamond(min(t + step, Fraction(4)))
    assert max(abs(a - b) for a, b in zip(u, v, strict=True)) <= step


@pytest.mark.parametrize("name", CONTINUOUS)
def test_h_is_odd_and_changes_its_sign(name):
    g = CONTINUOUS[name]
    change = bracket(g)
    assert 0 < change.b - change.a <= Fraction(1, 2**64)
    with ctx.workprec(change.precision):
        low, high = h(g, CENTRE, change.a), h(g, CENTRE, change.b)
        assert (low > 0 and high < 0) or (low < 0 and high > 0)
        assert (h(g, CENTRE, Fraction(1, 3)) + h(g, CENTRE, Fraction(7, 3))).contains(0)


@checked
@given(st.integers(-5, 5), st.integers(-5, 5), st.integers(1, 5))
def test_random_continuous_aggregators_collide(a, b, c):
    def g(x):
        return a * maximum(x) + b * absolute(x[0] - x[1] + 1) + exp(sum(x) * Fraction(c, 7)) - minimum(x) ** 3

    change = bracket(g, width=Fraction(1, 2**20))
    assert change.b - change.a <= Fraction(1, 2**20)


@pytest.mark.parametrize(
    "g",
    [lambda x: 1 / (x[0] + x[1] - 3), lambda x: x[0] + (0 if x[0] < 1 else 1), lambda x: tanh(1 / (sum(x) - 3)),
     lambda x: 1 if sum(x) > 3 else 0],
    ids=["a pole", "a jump", "a pole inside of tanh", "a step"],
)  # fmt: skip
def test_a_sign_that_changes_at_a_pole_or_a_jump_is_no_collision(g):
    """The negative control of continuity: h changes its sign without being 0."""
    with pytest.raises(NoCollisionError, match="a pole or a jump"):
        bracket(g)


def test_beside_a_pole_a_collision_is_found():
    def g(x):
        return sum(sin(y) / cos(y) for y in x)  # a pole at π/2, inside the interval

    change = bracket(g)
    with ctx.workprec(change.precision):
        assert abs(h(g, CENTRE, change.a, change.b)) < 1e-15


def test_a_constant_aggregator_is_not_decided():
    with pytest.raises(NoCollisionError):
        bracket(lambda x: 3)
