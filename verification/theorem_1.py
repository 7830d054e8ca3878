"""Theorem 1: to discriminate between multisets of size n over ℝ, at least n aggregators are needed.

An aggregator is a continuous function on S = {x_1 ≤ … ≤ x_n}. The paper's proof puts a sphere of centre c and radius r
inside S and lets Borsuk–Ulam find a direction u with g_k(c + r u) = g_k(c - r u) for all n - 1 aggregators g_k.

Established here:
- for n - 1 given aggregators, smooth near the sphere (a maximum is where it is unique), an exact collision: `collide`
  finds the direction numerically and Krawczyk's test proves, in ball arithmetic, that the square system
      g_k(c + r u) - g_k(c - r u) = 0  (k = 1 … n-1),   |u|² - 1 = 0
  has one zero in a stated box. The two multisets c ± r u are ordered and different, so the collision is real;
- for smooth aggregators whose Jacobian at c has rank n - 1, why `collide` finds one: divided by 2r the system is
  J(c) u + O(r²), so for small r its zero continues the null direction of J(c) (implicit function theorem);
- n = 2, for every continuous aggregator (`intermediate_value`);
- integer collisions of the first n - 1 power sums, exactly (PROUHET_TARRY_ESCOTT);
- the bound is sharp: `order_statistics` are n aggregators that discriminate.

Not established here: the theorem for all continuous aggregators and all n (`formal/theorem_1.ml`); for moments and all
n it is proved formally (`formal/theorem_1_moments.v`). Continuity cannot be dropped: the reals being as many as the
n-tuples of reals, one discontinuous function discriminates everything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from flint import arb, arb_mat, ctx

from verification.smooth import Exact, NotDefinedError, NotSmoothError, Real, ball, variables

__all__ = [
    "PRECISION",
    "PROUHET_TARRY_ESCOTT",
    "Aggregator",
    "Collision",
    "NoCollisionError",
    "Sphere",
    "collide",
    "dependence",
    "gradients",
    "independent",
    "krawczyk",
    "order_statistics",
]

Aggregator = Callable[[list[Real]], Real | Exact]

PRECISION = 320
"""Bits of the working precision: n = 16 loses about 100 of them to the condition of the system."""

RADIUS_HALVINGS = 12
NEWTON_STEPS = 40


class NoCollisionError(ArithmeticError):
    """No collision was certified, which does not say that there is none."""


@dataclass(frozen=True)
class Sphere:
    """The sphere of the proof: all of c + r u with |u| = 1 lies strictly inside S if `fits_in_the_cone`."""

    centre: tuple[Fraction, ...]
    radius: Fraction

    @classmethod
    def between(cls, low: Fraction, high: Fraction, n: int) -> "Sphere":
        """Centre equally spaced from low to high, radius half the spacing."""
        spacing = (high - low) / (n - 1)
        return cls(tuple(low + i * spacing for i in range(n)), spacing / 2)

    def halved(self) -> "Sphere":
        """The sphere of half the radius around the same centre."""
        return Sphere(self.centre, self.radius / 2)

    def fits_in_the_cone(self) -> bool:
        """Neighbours stay ordered: r |u_(i+1) - u_i| ≤ r √2 < c_(i+1) - c_i for every |u| = 1."""
        gaps = (b - a for a, b in zip(self.centre, self.centre[1:], strict=False))
        return self.radius > 0 and all(gap > 0 and gap**2 > 2 * self.radius**2 for gap in gaps)

    def at(self, u: Sequence[arb], sign: int) -> list[arb]:
        """The point c + sign · r u."""
        return [ball(c) + sign * ball(self.radius) * x for c, x in zip(self.centre, u, strict=True)]


@dataclass(frozen=True)
class Collision:
    """The box that holds a direction u with g_k(c + r u) = g_k(c - r u) for all k, exactly."""

    sphere: Sphere
    midpoints: tuple[Fraction, ...]
    radii: tuple[Fraction, ...]
    precision: int
    shared: tuple[int, ...] = ()  # places of the order statistics that were added to the aggregators

    def multisets(self) -> tuple[list[arb], list[arb]]:
        """The two multisets, each element as the ball that contains it."""
        with ctx.workprec(self.precision):
            u = [arb(ball(m), ball(r)) for m, r in zip(self.midpoints, self.radii, strict=True)]
            return self.sphere.at(u, 1), self.sphere.at(u, -1)


def collide(aggregators: Sequence[Aggregator], sphere: Sphere, precision: int = PRECISION) -> Collision:
    """A certified collision of the aggregators, fewer than n, on the sphere or a smaller one of the same centre.

    Fewer than n - 1 aggregators are filled up with order statistics that are independent of them, so that the collision
    found shares those too. Where the precision is not enough it is doubled.
    """
    n = len(sphere.centre)
    if len(aggregators) >= n:
        raise ValueError(f"Theorem 1 says nothing about {len(aggregators)} aggregators and multisets of size {n}")
    if not sphere.fits_in_the_cone():
        raise ValueError("the sphere leaves the cone x_1 ≤ … ≤ x_n: its points would not be different multisets")
    for bits in (precision, 2 * precision, 4 * precision):
        with ctx.workprec(bits):
            rows = gradients(aggregators, sphere.centre)
            reason = dependence(rows)
            if reason is None:
                places = _independent_places(rows, n)
                filled = [*aggregators, *(order_statistics(n)[k] for k in places)]
                collision = _collision_near(filled, sphere, bits)
                if collision is not None:
                    return replace(collision, shared=tuple(places))
                reason = "Newton's iteration does not find one there, or Krawczyk's test does not prove it"
    raise NoCollisionError(f"no collision certified: {reason}")


def gradients(aggregators: Sequence[Aggregator], point: Sequence[Fraction]) -> list[list[arb]]:
    """The gradients of the aggregators at a point."""
    x, zero = variables([ball(c) for c in point], differentiate=True), Real(arb(0), {})
    slopes = [(zero + g(x)).gradient for g in aggregators]
    return [[slope.get(i, arb(0)) for i in range(len(point))] for slope in slopes]


def independent(rows: Sequence[Sequence[arb]]) -> tuple[list[int], dict[int, str]]:
    """The aggregators whose gradients are certainly independent, and for each of the others why it is not, in words."""
    chosen: list[int] = []
    why: dict[int, str] = {}
    for k, row in enumerate(rows):
        if _rank([row]) == 0:
            why[k] = f"g_{k + 1} is constant near the centre of the sphere, or nearly so"
        elif _rank([*(rows[j] for j in chosen), row]) > len(chosen):
            chosen.append(k)
        else:
            why[k] = f"g_{k + 1} is dependent on {_names(rows, chosen, k)}, or nearly so, at the centre of the sphere"
    return chosen, why


def dependence(rows: Sequence[Sequence[arb]]) -> str | None:
    """Which aggregator is not independent of which others, judged by its gradient and in words; None if all are."""
    _, why = independent(rows)
    return f"{next(iter(why.values()))}. Leave it out, or choose another interval" if why else None


def _names(rows: Sequence[Sequence[arb]], chosen: Sequence[int], k: int) -> str:
    """The fewest of the chosen aggregators on which the k-th depends."""
    others = list(chosen)
    for j in chosen:
        fewer = [i for i in others if i != j]
        if _rank([rows[i] for i in [*fewer, k]]) == _rank([rows[i] for i in fewer]):
            others = fewer
    return " and ".join(f"g_{j + 1}" for j in others)


def _rank(rows: Sequence[Sequence[arb]]) -> int:
    """How many of the rows are certainly independent, by elimination in balls."""
    rest, rank = [list(row) for row in rows], 0
    while rest:
        certain = [(abs(x).lower(), i, j) for i, row in enumerate(rest) for j, x in enumerate(row) if not x.contains(0)]
        if not certain:
            break
        _, i, j = max(certain, key=lambda entry: float(entry[0]))
        pivot = rest.pop(i)
        rest = [[x - row[j] / pivot[j] * p for x, p in zip(row, pivot, strict=True)] for row in rest]
        rank += 1
    return rank


def _independent_places(rows: Sequence[Sequence[arb]], n: int) -> list[int]:
    """Places of order statistics, from the last on, that make the rows n - 1 independent ones."""
    chosen: list[int] = []
    known = [list(row) for row in rows]
    for k in reversed(range(n)):
        if len(known) == n - 1:
            break
        unit = [arb(int(i == k)) for i in range(n)]
        if _rank([*known, unit]) > len(known):
            known.append(unit)
            chosen.append(k)
    return chosen


def order_statistics(n: int) -> list[Aggregator]:
    """The paper's n aggregators that discriminate: g_k is the k-th smallest element."""
    return [lambda x, k=k: x[k] for k in range(n)]


def _collision_near(aggregators: Sequence[Aggregator], sphere: Sphere, precision: int) -> Collision | None:
    """A certified collision on the sphere, or on a smaller one around its centre; None if none succeeds."""
    for _ in range(RADIUS_HALVINGS):
        collision = _collision_on(aggregators, sphere, precision)
        if collision is not None:
            return collision
        sphere = sphere.halved()
    return None


def _collision_on(aggregators: Sequence[Aggregator], sphere: Sphere, precision: int) -> Collision | None:
    """A certified collision on the sphere; None if Newton's iteration or Krawczyk's test does not succeed there."""
    try:
        direction = _newton(aggregators, sphere, _null_direction(aggregators, sphere))
        if direction is None:
            return None
        for bits in (precision // 2, precision // 3):
            radius = arb(2) ** -bits
            if krawczyk(aggregators, sphere, [arb(x, radius) for x in direction]):
                midpoints = tuple(_fraction(x) for x in direction)
                return Collision(sphere, midpoints, (_fraction(radius),) * len(direction), precision)
    except (ZeroDivisionError, NotDefinedError, NotSmoothError):  # singular, or the aggregators are not defined there
        pass
    return None


def _system(aggregators: Sequence[Aggregator], sphere: Sphere, u: Sequence[arb]) -> tuple[arb_mat, arb_mat]:
    """The n equations at u and their Jacobian."""
    n, r = len(u), ball(sphere.radius)
    values, rows = [], []
    plus, minus = (variables(sphere.at(u, sign), differentiate=True) for sign in (1, -1))
    zero = Real(arb(0), {})
    for g in aggregators:
        above, below = zero + g(plus), zero + g(minus)
        values.append(above.value - below.value)
        rows.append([r * (above.gradient.get(i, arb(0)) + below.gradient.get(i, arb(0))) for i in range(n)])
    values.append(sum((x * x for x in u), arb(-1)))
    rows.append([2 * x for x in u])
    return arb_mat([[value] for value in values]), arb_mat(rows)


def _null_direction(aggregators: Sequence[Aggregator], sphere: Sphere) -> list[arb]:
    """The unit u with J(c) u = 0, which is the collision's direction in the limit r -> 0."""
    n = len(sphere.centre)
    _, jacobian = _system(aggregators, sphere, [arb(0)] * n)
    # The last row would be 2u = 0. In its place u_k = 1 for each k in turn; the shortest u is known best.
    directions = []
    for k in range(n):
        rows = [*jacobian.tolist()[:-1], [arb(int(i == k)) for i in range(n)]]
        try:
            u = (arb_mat(rows).mid().inv() * arb_mat([[arb(0)]] * (n - 1) + [[arb(1)]])).entries()
        except ZeroDivisionError:  # u_k = 0
            continue
        directions.append((float(sum((x * x for x in u), arb(0)).sqrt().mid()), u))
    if not directions:
        raise ZeroDivisionError
    length, u = min(directions, key=lambda pair: pair[0])
    return [(x / length).mid() for x in u]


def _newton(aggregators: Sequence[Aggregator], sphere: Sphere, u: list[arb]) -> list[arb] | None:
    """Newton's iteration on midpoints; nothing is claimed of its result, which is why it may be this simple."""
    for _ in range(NEWTON_STEPS):
        values, jacobian = _system(aggregators, sphere, u)
        step = (jacobian.mid().inv() * values.mid()).entries()
        u = [(x - dx).mid() for x, dx in zip(u, step, strict=True)]
        size = max(abs(float(dx.mid())) for dx in step)
        if not size < 10:
            return None
        if size < 2.0 ** (-ctx.prec // 2):
            return u
    return None


def krawczyk(aggregators: Sequence[Aggregator], sphere: Sphere, box: Sequence[arb]) -> bool:
    """Whether Krawczyk's test proves that the system has exactly one zero in the box.

    With m the box's midpoint and Y ≈ F'(m)⁻¹, the operator is  m - Y F(m) + (I - Y F'(box)) (box - m);  if its value
    lies in the box's interior, F has exactly one zero in the box.
    """
    n = len(box)
    middle = [x.mid() for x in box]
    values, jacobian_at_middle = _system(aggregators, sphere, middle)
    _, jacobian = _system(aggregators, sphere, box)
    Y = jacobian_at_middle.mid().inv().mid()
    identity = arb_mat([[arb(int(i == j)) for j in range(n)] for i in range(n)])
    offsets = arb_mat([[x - m] for x, m in zip(box, middle, strict=True)])
    image = (arb_mat([[m] for m in middle]) - Y * values + (identity - Y * jacobian) * offsets).entries()
    return all(x.contains_interior(y) for x, y in zip(box, image, strict=True))


def _fraction(x: arb) -> Fraction:
    """The midpoint of a ball as a rational."""
    q = x.mid().fmpq()
    return Fraction(int(q.p), int(q.q))


PROUHET_TARRY_ESCOTT: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {
    2: ((0, 3), (1, 2)),
    3: ((0, 4, 5), (1, 2, 6)),
    4: ((0, 4, 7, 11), (1, 2, 9, 10)),
    5: ((0, 4, 8, 16, 17), (1, 2, 10, 14, 18)),
    6: ((0, 4, 9, 17, 22, 26), (1, 2, 12, 14, 24, 25)),
    7: ((0, 18, 27, 58, 64, 89, 101), (1, 13, 38, 44, 75, 84, 102)),
    8: ((0, 4, 9, 23, 27, 41, 46, 50), (1, 2, 11, 20, 30, 39, 48, 49)),
    9: ((0, 24, 30, 83, 86, 133, 157, 181, 197), (1, 17, 41, 65, 112, 115, 168, 174, 198)),
    10: (
        (-23738, -20885, -20231, -11881, -12, 12, 11881, 20231, 20885, 23738),
        (-23750, -20667, -20449, -11857, -436, 436, 11857, 20449, 20667, 23750),
    ),
    12: (
        (-151, -140, -127, -86, -61, -22, 22, 61, 86, 127, 140, 151),
        (-148, -146, -121, -94, -47, -35, 35, 47, 94, 121, 146, 148),
    ),
}
"""Multisets of n integers with equal sums of k-th powers for every k < n (Prouhet–Tarry–Escott solutions)."""
