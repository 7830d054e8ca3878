"""The interval tests of the independent checker: boxes and sign changes of Theorem 1.

Shares no code with the finder, and is done differently where it can be: gradients are written out by hand for each
family (the finder differentiates automatically), and the zero is proved by the interval Newton operator (the finder
uses Krawczyk's).
"""

import itertools
from collections.abc import Callable
from fractions import Fraction

from flint import arb, arb_mat, ctx, fmpq

__all__ = ["CONTINUOUS", "FAMILIES", "Gradients", "box_holds_a_collision", "sign_changes"]

Gradients = tuple[list[arb], list[list[arb]]]
"""The values of n - 1 aggregators at a point, and their gradients, as balls."""


def _ball(q: Fraction) -> arb:
    return arb(fmpq(q.numerator, q.denominator))


def _total(terms: object) -> arb:
    return sum(terms, arb(0))


def _power_sums(x: list[arb], _: dict) -> Gradients:
    orders = range(1, len(x))
    return [_total(y**k for y in x) for k in orders], [[k * y ** (k - 1) for y in x] for k in orders]


def _power_means(x: list[arb], _: dict) -> Gradients:
    if not all(y > 0 for y in x):
        raise ValueError("power means are defined for positive elements only")
    n, values, gradients = len(x), [], []
    for k in range(1, n):
        moment = _total(y**k for y in x) / n
        values.append(moment.root(k))
        gradients.append([values[-1] / moment * y ** (k - 1) / n for y in x])
    return values, gradients


def _log_sum_exp(x: list[arb], given: dict) -> Gradients:
    values, gradients = [], []
    for t in given["temperatures"]:
        weights = [(_ball(t) * y).exp() for y in x]
        values.append((_total(weights) / len(x)).log() / _ball(t))
        gradients.append([w / _total(weights) for w in weights])
    return values, gradients


def _random_networks(x: list[arb], given: dict) -> Gradients:
    n = len(x)
    w, b = [_ball(q) for q in given["w"]], [_ball(q) for q in given["b"]]
    hidden = [[(wh * y + bh).tanh() for y in x] for wh, bh in zip(w, b, strict=True)]
    values, gradients = [], []
    for row in given["V"]:
        V = [_ball(q) for q in row]
        g = _total(v * _total(unit) / n for v, unit in zip(V, hidden, strict=True)).tanh()
        slopes = [
            _total(v * wh * (1 - unit[i] ** 2) for v, wh, unit in zip(V, w, hidden, strict=True)) for i in range(n)
        ]
        values.append(g)
        gradients.append([(1 - g**2) * slope / n for slope in slopes])
    return values, gradients


def _softmax(x: list[arb]) -> tuple[arb, list[arb]]:
    weights = [y.exp() for y in x]
    g = _total(w * y for w, y in zip(weights, x, strict=True)) / _total(weights)
    return g, [w / _total(weights) * (1 + y - g) for w, y in zip(weights, x, strict=True)]


def _std(x: list[arb], epsilon: arb) -> tuple[arb, list[arb]]:
    n = len(x)
    mean = _total(x) / n
    g = (_total((y - mean) ** 2 for y in x) / n + epsilon).sqrt()
    return g, [(y - mean) / (n * g) for y in x]


def _paper_smooth(x: list[arb], given: dict) -> Gradients:
    n = len(x)
    softmin, softmin_gradient = _softmax([-y for y in x])
    table = {
        "mean": (_total(x) / n, [arb(1) / n] * n),
        "std": _std(x, _ball(given["epsilon"])),
        "softmax": _softmax(x),
        "softmin": (-softmin, softmin_gradient),
    }
    chosen = [table[name] for name in given["aggregators"]]
    return [value for value, _ in chosen], [gradient for _, gradient in chosen]


def _trained_layer(x: list[arb], given: dict) -> Gradients:
    n, epsilon = len(x), _ball(given["epsilon"])
    w, b = [_ball(q) for q in given["w"]], [_ball(q) for q in given["b"]]
    hidden = [[(wf * y + bf).tanh() for y in x] for wf, bf in zip(w, b, strict=True)]
    means, stds = [], []
    for row in given["W2"]:
        W2 = [_ball(q) for q in row]
        message = [_total(v * unit[i] for v, unit in zip(W2, hidden, strict=True)) for i in range(n)]
        slope = [
            _total(v * wf * (1 - unit[i] ** 2) for v, wf, unit in zip(W2, w, hidden, strict=True)) for i in range(n)
        ]
        means.append((_total(message) / n, [s / n for s in slope]))
        value, gradient = _std(message, epsilon)
        stds.append((value, [g * s for g, s in zip(gradient, slope, strict=True)]))
    amplification = arb(n + 1).log() / _ball(given["delta"])
    scales = [arb(1), amplification, 1 / amplification]
    values, gradients = [], []
    for mix in given["mix"][: n - 1]:
        weights = [arb(0)] * (2 * len(means))
        for scale, U in zip(scales, given["U"], strict=True):
            for m, row in zip(mix, U, strict=True):
                weights = [a + _ball(m * q) * scale for a, q in zip(weights, row, strict=True)]
        channels = list(zip(weights, means + stds, strict=True))
        values.append(_total(v * value for v, (value, _) in channels))
        gradients.append([_total(v * gradient[i] for v, (_, gradient) in channels) for i in range(n)])
    return values, gradients


FAMILIES: dict[str, tuple[Callable[[list[arb], dict], Gradients], frozenset[str]]] = {
    "power sums": (_power_sums, frozenset()),
    "power means": (_power_means, frozenset()),
    "log-sum-exp": (_log_sum_exp, frozenset({"temperatures"})),
    "random networks": (_random_networks, frozenset({"w", "b", "V"})),
    "the paper's smooth aggregators": (_paper_smooth, frozenset({"aggregators", "epsilon"})),
    "trained PNA layer": (_trained_layer, frozenset({"w", "b", "W2", "U", "mix", "delta", "epsilon"})),
}
"""Each family by name: its values and gradients, and the fields that describe it."""


def box_holds_a_collision(
    aggregators: dict,
    centre: list[Fraction],
    radius: Fraction,
    midpoints: list[Fraction],
    radii: list[Fraction],
    bits: int,
) -> str | None:
    """None if the interval Newton test proves a collision c ± r u with u in the box; otherwise why it does not."""
    evaluate, _ = FAMILIES[aggregators["name"]]
    n = len(centre)
    with ctx.workprec(bits):
        box = [arb(_ball(m), _ball(r)) for m, r in zip(midpoints, radii, strict=True)]
        c, r = [_ball(q) for q in centre], _ball(radius)
        for sign in (1, -1):
            x = [a + sign * r * u for a, u in zip(c, box, strict=True)]
            if not all(a < b for a, b in itertools.pairwise(x)):
                return "the elements are not ordered, so the two points may be one multiset"

        def system(u: list[arb]) -> tuple[list[arb], list[list[arb]]]:
            plus = evaluate([a + r * b for a, b in zip(c, u, strict=True)], aggregators)
            minus = evaluate([a - r * b for a, b in zip(c, u, strict=True)], aggregators)
            if len(plus[0]) != n - 1:
                raise ValueError(f"{len(plus[0])} aggregators, where n - 1 = {n - 1} are needed")
            values = [p - m for p, m in zip(plus[0], minus[0], strict=True)]
            rows = [[r * (a + b) for a, b in zip(p, m, strict=True)] for p, m in zip(plus[1], minus[1], strict=True)]
            return [*values, _total(b * b for b in u) - 1], [*rows, [2 * b for b in u]]

        middle = [b.mid() for b in box]
        values, _ = system(middle)
        _, jacobian = system(box)
        try:
            step = arb_mat(jacobian).solve(arb_mat([[v] for v in values])).entries()
        except ZeroDivisionError:
            return "the Jacobian over the box is not proved to be regular"
        image = [m - s for m, s in zip(middle, step, strict=True)]
        # Against the box as stated: the ball `box` may be wider than it, since a ball's radius is rounded up.
        if not all(abs(y - _ball(m)) < _ball(q) for y, m, q in zip(image, midpoints, radii, strict=True)):
            return "the Newton operator does not map the box into its interior"
    return None


CONTINUOUS: dict[str, Callable[[list[arb]], arb]] = {
    "mean": lambda x: (x[0] + x[1]) / 2,
    "max": lambda x: x[1],  # the elements are in increasing order
    "min": lambda x: x[0],
    "std": lambda x: (x[1] - x[0]) / 2,
    "sum of cubes": lambda x: x[0] ** 3 + x[1] ** 3,
    "sum of exponentials": lambda x: x[0].exp() + x[1].exp(),
    "sum of |sin(5x)|": lambda x: abs((5 * x[0]).sin()) + abs((5 * x[1]).sin()),
    "max plus min²": lambda x: x[1] + x[0] ** 2,
}
"""Aggregators of two ordered reals."""


def sign_changes(name: str, centre: list[Fraction], a: Fraction, b: Fraction, bits: int) -> str | None:
    """None if g(c + r u) - g(c - r u) certainly has opposite signs at a and b; otherwise why it is not certain."""
    if not (centre[0] < centre[1] and 0 <= a < b <= 4):
        return "the centre is not ordered, or a and b are not in order on the diamond"
    r = (centre[1] - centre[0]) / 2
    signs = []
    with ctx.workprec(bits):
        for t in (a, b):
            # Round the diamond: u_1 is a triangle wave that starts at its top, and u_2 lags a quarter behind.
            u = [abs((t + shift) % 4 - 2) - 1 for shift in (0, 3)]
            plus, minus = ([_ball(c + sign * r * v) for c, v in zip(centre, u, strict=True)] for sign in (1, -1))
            difference = CONTINUOUS[name](plus) - CONTINUOUS[name](minus)
            if not (difference > 0 or difference < 0):
                return "the sign is not certain at an end"
            signs.append(bool(difference > 0))
    return None if signs[0] != signs[1] else "the sign is the same at both ends"
