import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from flint import arb, ctx

from verification.families import FAMILIES, power_sums, random_networks
from verification.smooth import NotSmoothError, ball, exp, variables
from verification.theorem_1 import (
    PROUHET_TARRY_ESCOTT,
    Collision,
    NoCollisionError,
    Sphere,
    collide,
    dependence,
    gradients,
    krawczyk,
    order_statistics,
)

SIZES = [(name, n) for name, (_, sizes) in FAMILIES.items() for n in sizes if n in (2, 3, 5, 8)]
SIZES += [(name, 16) for name in ("power_sums", "power_means", "log_sum_exp")]


def direction(collision: Collision) -> list[arb]:
    """The box that holds a collision's direction."""
    return [arb(ball(m), ball(r)) for m, r in zip(collision.midpoints, collision.radii, strict=True)]


@pytest.mark.parametrize(("name", "n"), SIZES)
def test_a_family_collides(name, n):
    family = FAMILIES[name][0](n)
    collision = collide(family.aggregators, family.sphere)
    X, Y = collision.multisets()
    with ctx.workprec(collision.precision):
        assert all(a < b for Z in (X, Y) for a, b in pairwise(Z))  # ordered, so they are multisets
        assert any(not x.overlaps(y) for x, y in zip(X, Y, strict=True))  # and different
        for g in family.aggregators:
            difference = g(variables(X, False)).value - g(variables(Y, False)).value
            assert difference.contains(0)
            assert abs(difference) < arb(2) ** -100


@pytest.mark.parametrize("n", [3, 6])
def test_the_next_aggregator_tells_them_apart(n):
    family = power_sums(n)
    X, Y = collide(family.aggregators, family.sphere).multisets()
    with ctx.workprec(320):
        values = [sum((x**n for x in Z), arb(0)) for Z in (X, Y)]
        assert not values[0].overlaps(values[1])


@pytest.mark.parametrize("seed", range(6))
def test_random_weights_collide(seed):
    family = random_networks(4, seed)
    assert collide(family.aggregators, family.sphere).midpoints


def test_fewer_aggregators_are_filled_up_with_order_statistics():
    X, Y = collide([lambda x: sum(exp(y) for y in x)], Sphere.between(Fraction(0), Fraction(3), 4)).multisets()
    assert [str(x) for x in X[2:]] == [str(y) for y in Y[2:]]
    assert not X[0].overlaps(Y[0])


class TestKrawczyk:
    """The interval test, on power sums of three elements, where the zeros are u and -u and no others nearby."""

    family = power_sums(3)
    collision = collide(family.aggregators, family.sphere)

    def holds(self, box, sphere=None):
        """Whether Krawczyk's test accepts a box, by default on the sphere of the collision."""
        with ctx.workprec(320):
            return krawczyk(self.family.aggregators, sphere or self.collision.sphere, box)

    def test_accepts_the_box(self):
        with ctx.workprec(320):
            assert self.holds(direction(self.collision))

    def test_rejects_a_box_beside_the_zero(self):
        with ctx.workprec(320):
            assert not self.holds([u + arb(2) ** -140 for u in direction(self.collision)])

    def test_rejects_a_box_that_holds_both_zeros(self):
        with ctx.workprec(320):
            assert not self.holds([arb(u.mid(), 2) for u in direction(self.collision)])

    def test_rejects_a_point(self):
        with ctx.workprec(320):
            assert not self.holds([u.mid() for u in direction(self.collision)])

    def test_needs_the_interior(self):
        # The zero u = (1, 0) of g = x_2 is exact: the operator maps this point onto itself, which proves no uniqueness.
        sphere = Sphere((Fraction(0), Fraction(1)), Fraction(1, 2))
        g = order_statistics(2)[1:]
        assert krawczyk(g, sphere, [arb(1, 0.01), arb(0, 0.01)])
        assert not krawczyk(g, sphere, [arb(1), arb(0)])

    def test_rejects_another_sphere(self):
        with ctx.workprec(320):
            moved = Sphere((Fraction(-1), Fraction(1, 10), Fraction(1)), self.collision.sphere.radius)
            assert not self.holds(direction(self.collision), moved)


def test_n_aggregators_are_refused():
    with pytest.raises(ValueError, match="says nothing"):
        collide(order_statistics(3), Sphere.between(Fraction(0), Fraction(1), 3))


def test_n_aggregators_have_no_collision_to_certify():
    # The system of n aggregators in place of n - 1 and the sphere: order statistics have the zero u = 0 only.
    with ctx.workprec(200):
        sphere = Sphere.between(Fraction(0), Fraction(1), 3)
        assert not krawczyk(order_statistics(3)[:2], sphere, [arb(0, 0.001)] * 2 + [arb(0.5, 0.001)])


@pytest.mark.parametrize(
    ("aggregators", "named"),
    [([sum, lambda x: 2 * sum(x)], "g_2 is dependent on g_1"), ([sum, lambda x: 7], "g_2 is constant"),
     ([sum, lambda x: sum(x) ** 2], "g_2 is dependent on g_1"),
     ([sum, lambda x: sum(y * y for y in x), lambda x: x[0], lambda x: x[1] + sum(y * y for y in x) - x[1]],
      "g_4 is dependent on g_2,"),
     ([sum, lambda x: x[0], lambda x: sum(x) - 3 * x[0]], "g_3 is dependent on g_1 and g_2")],
    ids=["twice the sum", "constant", "square of the sum", "one of three", "two of two"],
)  # fmt: skip
def test_dependent_aggregators_are_named(aggregators, named):
    with pytest.raises(NoCollisionError, match=named):
        collide(aggregators, Sphere.between(Fraction(1), Fraction(2), 5))


@pytest.mark.parametrize("aggregator", [max, min, lambda x: sum(abs(y - 1.4) for y in x), lambda x: sorted(x)[1]])
def test_aggregators_that_are_smooth_near_the_sphere_collide(aggregator):
    X, Y = collide([sum, aggregator], Sphere.between(Fraction(1), Fraction(2), 4)).multisets()
    assert any(not x.overlaps(y) for x, y in zip(X, Y, strict=True))


def test_aggregators_that_are_not_smooth_at_the_centre_are_refused():
    with pytest.raises(NotSmoothError):
        collide([sum, lambda x: abs(x[0] - 1)], Sphere.between(Fraction(1), Fraction(2), 3))


@pytest.mark.parametrize("n", range(5, 13))
def test_the_papers_four_are_filled_up_by_rank(n):
    collision = collide([np.mean, np.std, max, min], Sphere.between(Fraction(1), Fraction(2), n))
    assert len(collision.shared) == n - 5
    assert not {0, n - 1} & set(collision.shared)  # max and min are there already


@pytest.mark.parametrize(("n", "bits", "independent"), [(8, 24, False), (8, 40, True)])
def test_the_precision_is_raised_where_it_is_needed(n, bits, independent):
    """More bits may be needed to tell that aggregators are independent, or to find and prove a collision."""
    aggregators = [lambda x, k=k: sum(exp(k * y) for y in x) for k in range(1, n)]
    sphere = Sphere.between(Fraction(1), Fraction(2), n)
    with ctx.workprec(bits):
        assert (dependence(gradients(aggregators, sphere.centre)) is None) == independent
    assert collide(aggregators, sphere, bits).precision > bits


@pytest.mark.parametrize(
    ("centre", "radius", "fits"),
    [((1, 2, 3), "1/2", True), ((1, 2, 3), "7/10", True), ((1, 2, 3), "71/100", False), ((1, 1, 3), "1/9", False),
     ((3, 2, 1), "1/9", False), ((0, 0), "1", False), ((1, 2), "0", False)],
)  # fmt: skip
def test_a_sphere_must_fit_in_the_cone(centre, radius, fits):
    sphere = Sphere(tuple(map(Fraction, centre)), Fraction(radius))
    assert sphere.fits_in_the_cone() == fits
    if not fits:
        with pytest.raises(ValueError, match="cone"):
            collide([sum], sphere)


@pytest.mark.parametrize(("n", "pair"), PROUHET_TARRY_ESCOTT.items())
def test_integers_share_exactly_the_first_power_sums(n, pair):
    x, y = pair
    assert len(x) == len(y) == n
    assert [sum(a**k for a in x) == sum(b**k for b in y) for k in range(1, n + 1)] == [True] * (n - 1) + [False]
    moved = (x[0] + 1, *x[1:])
    assert any(sum(a**k for a in moved) != sum(b**k for b in y) for k in range(1, n))


@pytest.mark.parametrize("n", [1, 5, 16])
def test_order_statistics_are_the_multiset(n):
    x = sorted(random.Random(n).choices(range(9), k=n))
    assert [g(x) for g in order_statistics(n)] == x
    assert len(order_statistics(n)) == n


def test_one_discontinuous_function_discriminates_pairs():
    """Why Theorem 1 needs continuity: interleaving the digits of two numbers loses nothing."""

    def interleave(x):
        return "".join(a + b for a, b in zip(*(f"{y:06d}" for y in sorted(x)), strict=True))

    pairs = [(a, b) for a in range(40) for b in range(a, 40)]
    assert len({interleave(p) for p in pairs}) == len(pairs)
