"""Theorem 1 for n = 2, proved: no continuous aggregator discriminates between all multisets of two reals.

Proof. Let c_1 < c_2, r = (c_2 - c_1)/2, and let u(t), 0 ≤ t ≤ 4, run once round the diamond |u_1| + |u_2| = 1, with
u(t + 2) = -u(t). Both of c ± r u(t) are ordered, since x_2 - x_1 ≥ 2r - r. For a continuous g put
    h(t) = g(c + r u(t)) - g(c - r u(t)).
Then h(t + 2) = -h(t), so by the intermediate value theorem h vanishes somewhere between any t and t + 2; there g takes
one value on two multisets, which are different because u(t) ≠ 0. ∎  (This is Borsuk–Ulam in dimension 1.)

Realised by `bracket`: bisection down to a small interval of t with h certainly negative at one end and certainly
positive at the other, and every step of g finite over all of the interval, in ball arithmetic; without the latter a
pole would count as a zero. It needs continuity only: `maximum`, `minimum` and `absolute` are allowed where arguments
meet.

What is not established: a value of t itself; where h vanishes on a whole interval, signs alone cannot show it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from flint import arb, ctx

from verification.smooth import (
    NotDefinedError,
    NotSmoothError,
    Real,
    absolute,
    ball,
    exp,
    maximum,
    minimum,
    sin,
    sqrt,
    variables,
)
from verification.theorem_1 import Aggregator, NoCollisionError

__all__ = ["CONTINUOUS", "SignChange", "bracket", "diamond", "h"]

PRECISION = 192
# Not the middle: a rational aggregator often has its zero there, and then the sign at the middle is not decided.
SPLITS = (Fraction(29, 64), Fraction(37, 64))


@dataclass(frozen=True)
class SignChange:
    """h has opposite signs at the ends a < b, so it vanishes between them."""

    centre: tuple[Fraction, Fraction]
    a: Fraction
    b: Fraction
    precision: int


def diamond(t: Fraction) -> tuple[Fraction, Fraction]:
    """u(t), 0 ≤ t ≤ 4: (1, 0), (0, 1), (-1, 0), (0, -1) and back, at t = 0, 1, 2, 3, 4."""
    if t > 2:
        u_1, u_2 = diamond(t - 2)
        return -u_1, -u_2
    return (1 - t, t) if t <= 1 else (1 - t, 2 - t)


def h(g: Aggregator, centre: tuple[Fraction, Fraction], a: Fraction, b: Fraction | None = None) -> arb:
    """The odd function of the proof at a, as a ball; or a ball of all its values from a to b.

    The ball is valid because each coordinate of u = diamond(t) changes by at most the change of t. Raises
    NotDefinedError or NotSmoothError where g may not be continuous.
    """
    b = a if b is None else b
    r, u = (centre[1] - centre[0]) / 2, diamond((a + b) / 2)
    slack = ball(r * (b - a) / 2)
    above, below = ([arb(ball(c + sign * r * x), slack) for c, x in zip(centre, u, strict=True)] for sign in (1, -1))
    zero = Real(arb(0), None)
    return (zero + g(variables(above, False))).value - (zero + g(variables(below, False))).value


def bracket(
    g: Aggregator,
    centre: tuple[Fraction, Fraction] = (Fraction(1), Fraction(2)),
    width: Fraction = Fraction(1, 2**64),
    precision: int = PRECISION,
) -> SignChange:
    """An interval of t, no wider than `width`, over which h is continuous and certainly changes its sign."""
    with ctx.workprec(precision):
        # A little more than half way round, where the sign is the opposite: the zero may lie at t = 0.
        signs = [(t, s) for t in (Fraction(k, 32) for k in range(80)) if (s := _sign(g, centre, t))]
        for (a, sign_at_a), (b, sign_at_b) in pairwise(signs):
            if sign_at_a != sign_at_b:
                change = _bisected(g, centre, a, b, sign_at_a, width)
                if change is not None:
                    return SignChange(centre, *change, precision)
    if not signs:
        raise NoCollisionError("the sign of h is not decided anywhere: h vanishes, or g is not defined on the interval")
    raise NoCollisionError(
        "h changes its sign only where the aggregator is not certainly continuous: it has a pole or a jump there"
    )


def _bisected(
    g: Aggregator, centre: tuple[Fraction, Fraction], a: Fraction, b: Fraction, sign_at_a: int, width: Fraction
) -> tuple[Fraction, Fraction] | None:
    """The ends a and b moved together around a change of sign; None if g is not certainly continuous between them."""
    while b - a > width:
        points = [a + split * (b - a) for split in SPLITS]
        t, sign = next(((t, s) for t in points if (s := _sign(g, centre, t))), (None, 0))
        if t is None:
            return None
        a, b = (t, b) if sign == sign_at_a else (a, t)
    try:
        return (a, b) if h(g, centre, a, b).is_finite() else None
    except (NotDefinedError, NotSmoothError):
        return None


def _sign(g: Aggregator, centre: tuple[Fraction, Fraction], t: Fraction) -> int:
    """The sign of h at t; 0 if it is not decided."""
    try:
        value = h(g, centre, t)
    except (NotDefinedError, NotSmoothError):
        return 0
    return 1 if value > 0 else -1 if value < 0 else 0


def _mean(x: list[Real]) -> Real:
    """The mean of the elements."""
    return sum(x) / len(x)


def _std(x: list[Real]) -> Real:
    """The standard deviation of the elements, without ε."""
    mu = _mean(x)
    return sqrt(_mean([(y - mu) ** 2 for y in x]))


CONTINUOUS: dict[str, Callable[[list[Real]], Real]] = {
    "mean": _mean,
    "max": maximum,
    "min": minimum,
    "std": _std,
    "sum of cubes": lambda x: sum(y**3 for y in x),
    "sum of exponentials": lambda x: sum(exp(y) for y in x),
    "sum of |sin(5x)|": lambda x: sum(absolute(sin(5 * y)) for y in x),
    "max plus min²": lambda x: maximum(x) + minimum(x) ** 2,
}
"""Continuous aggregators, smooth or not, for which the sign change is certified; sums among them are GIN's kind."""
