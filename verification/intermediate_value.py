"""Theorem 1 for n = 2, proved: no continuous aggregator discriminates between all multisets of two reals.

Proof. Let c_1 < c_2, r = (c_2 - c_1)/2, and let u(t), 0 ≤ t ≤ 4, run once round the diamond |u_1| + |u_2| = 1, with
u(t + 2) = -u(t). Both of c ± r u(t) are ordered, since x_2 - x_1 ≥ 2r - r. For a continuous g put
    h(t) = g(c + r u(t)) - g(c - r u(t)).
Then h(t + 2) = -h(t), so by the intermediate value theorem h vanishes somewhere between any t and t + 2; there g takes
one value on two multisets, which are different because u(t) ≠ 0. ∎  (This is Borsuk–Ulam in dimension 1.)

Realised by `bracket`: bisection down to a small interval of t with h certainly negative at one end and certainly
positive at the other, in ball arithmetic. It needs continuity only: `maximum`, `minimum` and `absolute` are
allowed.

What is not established: a value of t itself; where h vanishes on a whole interval, signs alone cannot show it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx

from verification.smooth import Real, absolute, ball, exp, maximum, minimum, sin, sqrt, variables
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


def h(g: Aggregator, centre: tuple[Fraction, Fraction], t: Fraction) -> arb:
    """The odd function of the proof, as a ball."""
    r = (centre[1] - centre[0]) / 2
    u = diamond(t)
    above, below = ([ball(c + sign * r * x) for c, x in zip(centre, u, strict=True)] for sign in (1, -1))
    zero = Real(arb(0), None)
    return (zero + g(variables(above, False))).value - (zero + g(variables(below, False))).value


def bracket(
    g: Aggregator,
    centre: tuple[Fraction, Fraction] = (Fraction(1), Fraction(2)),
    width: Fraction = Fraction(1, 2**64),
    precision: int = PRECISION,
) -> SignChange:
    """An interval of t, no wider than `width`, over which h certainly changes its sign."""
    with ctx.workprec(precision):
        a, sign_at_a = _decided(g, centre, [Fraction(k, 64) for k in range(128)])
        b = a + 2  # where h has the opposite sign, being odd
        while b - a > width:
            t, sign = _decided(g, centre, [a + split * (b - a) for split in SPLITS])
            a, b = (t, b) if sign == sign_at_a else (a, t)
    return SignChange(centre, a, b, precision)


def _decided(g: Aggregator, centre: tuple[Fraction, Fraction], points: list[Fraction]) -> tuple[Fraction, int]:
    """The first of the points at which the sign of h is certain, and that sign."""
    for t in points:
        value = h(g, centre, t)
        if value > 0 or value < 0:
            return t, 1 if value > 0 else -1
    raise NoCollisionError("the sign of h is not decided at this precision: h vanishes there, or nearly so")


def _mean(x: list[Real]) -> Real:
    return sum(x) / len(x)


def _std(x: list[Real]) -> Real:
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
