"""The interval tests of the independent checker: boxes and sign changes of Theorem 1.

Shares no code with the finder, and is done differently where it can be: gradients are written out by hand for each
family, or propagated backwards for a program (the finder differentiates forwards), and the zero is proved by the
interval Newton operator (the finder uses Krawczyk's).
"""

import hashlib
import itertools
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from flint import arb, arb_mat, ctx

from verification.certificate import (
    BITS,
    ball,
    fields,
    name,
    names,
    natural,
    rational,
    rationals,
    read_bytes,
    read_json,
    require,
    weights,
)
from verification.program_checker import MOST_WORK, power, read_program, require_affordable, require_consequences

__all__ = ["CONTINUOUS", "FAMILIES", "LARGEST_N", "check_box", "check_sign_change"]

LARGEST_N = 32
"""The largest multisets whose boxes are checked."""
TRAINED = "e6d7ab16baa760767757461733c91ddd99cc3fca2cb4e6a6ab4159e68b38b211"
"""SHA-256 of the weights of multitask/described/pna/16, seed 9: what "trained PNA network" means, and nothing else."""

Gradients = tuple[list[arb], list[list[arb]]]
"""The values of n - 1 aggregators at a point, and their gradients, as balls."""
Evaluate = Callable[[list[arb]], Gradients]


def _total(terms: object) -> arb:
    """The sum of balls; 0 if there are none."""
    return sum(terms, arb(0))


def _power_sums(_: dict, n: int, __: Path | None) -> Evaluate:
    """The evaluator of g_k(X) = Σ x^k and of its gradient k x^(k-1), for k = 1 … n - 1."""
    orders = range(1, n)
    return lambda x: (
        [_total(power(y, k) for y in x) for k in orders],
        [[k * power(y, k - 1) for y in x] for k in orders],
    )


def _power_means(_: dict, n: int, __: Path | None) -> Evaluate:
    """The evaluator of g_k(X) = E[x^k]^(1/k) and of its gradient, for k = 1 … n - 1."""

    def evaluate(x: list[arb]) -> Gradients:
        """The power means at x and their gradients; elements must be certainly positive."""
        require(all(y > 0 for y in x), "power means are defined for positive elements only")
        values, gradients = [], []
        for k in range(1, n):
            moment = _total(y**k for y in x) / n
            values.append(moment.root(k))
            gradients.append([values[-1] / moment * y ** (k - 1) / n for y in x])
        return values, gradients

    return evaluate


def _log_sum_exp(description: dict, n: int, _: Path | None) -> Evaluate:
    """The evaluator of g_t(X) = log(E[exp(t x)])/t and of its gradient, for the temperatures t that are given."""
    temperatures = rationals(description["temperatures"], "temperatures")
    require(all(t > 0 for t in temperatures), "temperatures must be positive")

    def evaluate(x: list[arb]) -> Gradients:
        """The values at x and their gradients, which are the weights of softmax."""
        values, gradients = [], []
        for t in temperatures:
            parts = [(ball(t) * y).exp() for y in x]
            values.append((_total(parts) / n).log() / ball(t))
            gradients.append([w / _total(parts) for w in parts])
        return values, gradients

    return evaluate


def _random_networks(description: dict, n: int, _: Path | None) -> Evaluate:
    """The evaluator of g_k(X) = tanh(Σ_h V_kh E[tanh(w_h x + b_h)]) and of its gradient, for the given weights."""
    W, B, rows = weights(description["w"], "w", 1), weights(description["b"], "b", 1), weights(description["V"], "V", 2)
    require(len(W) == len(B) <= LARGEST_N and len(rows) < LARGEST_N, f"at most {LARGEST_N} hidden units and outputs")

    def evaluate(x: list[arb]) -> Gradients:
        """The networks' outputs at x and their gradients, by the chain rule."""
        w, b = [ball(q) for q in W], [ball(q) for q in B]
        hidden = [[(wh * y + bh).tanh() for y in x] for wh, bh in zip(w, b, strict=True)]
        values, gradients = [], []
        for row in rows:
            V = [ball(q) for q in row]
            g = _total(v * _total(unit) / n for v, unit in zip(V, hidden, strict=True)).tanh()
            slopes = [
                _total(v * wh * (1 - unit[i] ** 2) for v, wh, unit in zip(V, w, hidden, strict=True)) for i in range(n)
            ]
            values.append(g)
            gradients.append([(1 - g**2) * slope / n for slope in slopes])
        return values, gradients

    return evaluate


def _softmax(x: list[arb]) -> tuple[arb, list[arb]]:
    """The softmax Σ x exp(x) / Σ exp(x) of the elements, and its gradient."""
    parts = [y.exp() for y in x]
    g = _total(w * y for w, y in zip(parts, x, strict=True)) / _total(parts)
    return g, [w / _total(parts) * (1 + y - g) for w, y in zip(parts, x, strict=True)]


def _std(x: list[arb], epsilon: arb) -> tuple[arb, list[arb]]:
    """The standard deviation √(σ² + ε) of the elements, and its gradient."""
    n = len(x)
    mean = _total(x) / n
    g = (_total((y - mean) ** 2 for y in x) / n + epsilon).sqrt()
    return g, [(y - mean) / (n * g) for y in x]


def _paper_smooth(description: dict, n: int, _: Path | None) -> Evaluate:
    """The evaluator of the first n - 1 of mean, std, softmax and softmin, and of their gradients."""
    chosen, epsilon = names(description["aggregators"], "aggregators"), rational(description["epsilon"], "epsilon")
    first = ["mean", "std", "softmax", "softmin"][: n - 1]
    require(chosen == first, f"the aggregators must be {first}, got {chosen[:4]}")

    def evaluate(x: list[arb]) -> Gradients:
        """The chosen aggregators at x, and their gradients."""
        softmin, softmin_gradient = _softmax([-y for y in x])
        table = {
            "mean": (_total(x) / n, [arb(1) / n] * n),
            "std": _std(x, ball(epsilon)),
            "softmax": _softmax(x),
            "softmin": (-softmin, softmin_gradient),
        }
        return [table[a][0] for a in chosen], [table[a][1] for a in chosen]

    return evaluate


def _trained_network(description: dict, n: int, directory: Path | None) -> Evaluate:
    """The evaluator of a trained layer's first n - 1 outputs; neighbours lie on a line, and messages are slopes · t."""
    stored = _stored_weights(description["weights"], directory)
    slopes, U, mix = (
        weights(stored["slopes"], "slopes", 2),
        weights(stored["U"], "U", 5),
        weights(stored["mix"], "mix", 2),
    )
    delta, epsilon = rational(stored["delta"], "delta"), rational(stored["epsilon"], "epsilon")

    def evaluate(x: list[arb]) -> Gradients:
        """The outputs at x and their gradients, summed over towers, scalers, aggregators and channels."""
        amplification = arb(n + 1).log() / ball(delta)
        scales = [arb(1), amplification, 1 / amplification]
        mixed = [
            _aggregated(x, [ball(a) for a in tower], ball(epsilon)) for tower in slopes
        ]  # [tower][aggregator][channel]
        values, gradients = [arb(0)] * (n - 1), [[arb(0)] * n for _ in range(n - 1)]
        places = [(t, o) for t, tower in enumerate(U) for o in range(len(tower))]
        for column, (t, o) in enumerate(places):
            terms = [
                (ball(u) * scale, mixed[t][a][c])
                for scale, by_aggregator in zip(scales, U[t][o], strict=True)
                for a, by_channel in enumerate(by_aggregator)
                for c, u in enumerate(by_channel)
            ]
            value = _total(w * v for w, (v, _) in terms)
            gradient = [_total(w * g[i] for w, (_, g) in terms) for i in range(n)]
            for k in range(n - 1):
                m = ball(mix[k][column])
                values[k] += m * value
                gradients[k] = [a + m * b for a, b in zip(gradients[k], gradient, strict=True)]
        return values, gradients

    return evaluate


def _aggregated(x: list[arb], slopes: list[arb], epsilon: arb) -> list[list[tuple[arb, list[arb]]]]:
    """mean, std, max and min of slope · x for every channel, x in increasing order, each with its gradient."""
    n, last = len(x), len(x) - 1
    by_aggregator: list[list[tuple[arb, list[arb]]]] = [[], [], [], []]
    for a in slopes:
        message = [a * y for y in x]
        value, gradient = _std(message, epsilon)
        high = last if a > 0 else 0
        unit = [[a if i == place else arb(0) for i in range(n)] for place in (high, last - high)]
        by_aggregator[0].append((_total(message) / n, [a / n] * n))
        by_aggregator[1].append((value, [a * g for g in gradient]))
        by_aggregator[2].append((message[high], unit[0]))
        by_aggregator[3].append((message[last - high], unit[1]))
    return by_aggregator


def _stored_weights(digest: object, directory: Path | None) -> dict:
    """The weights of the trained network, whose file has this SHA-256."""
    require(directory is not None, "a trained network's weights are read from the certificate's folder")
    require(digest == TRAINED, f"the trained network's weights have the SHA-256 {TRAINED}, and no other")
    path = directory / "weights" / "trained_network.json"
    require(path.exists(), f"there is no {path.name}")
    content = read_bytes(path)
    file_digest = hashlib.sha256(content).hexdigest()
    require(file_digest == digest, f"{path.name} has the SHA-256 {file_digest}, not the one stated")
    wanted = {"source", "cell", "seed", "slopes", "U", "mix", "delta", "epsilon"}
    return fields(read_json(path, content), wanted, "the weights")


def _program(description: dict, n: int, _: Path | None) -> Evaluate:
    """The evaluator of a program's outputs; what is said to follow from their agreement must follow."""
    program = read_program(description["steps"], description["outputs"], n)
    work = len(program.steps) * len(program.outputs)
    require(work <= MOST_WORK, f"steps times outputs are {work}, where {MOST_WORK} are allowed")
    require_consequences(program, description["follow"])
    return program.gradients


FAMILIES: dict[str, tuple[Callable[[dict, int, Path | None], Evaluate], frozenset[str]]] = {
    "power sums": (_power_sums, frozenset()),
    "power means": (_power_means, frozenset()),
    "log-sum-exp": (_log_sum_exp, frozenset({"temperatures"})),
    "random networks": (_random_networks, frozenset({"w", "b", "V"})),
    "the paper's smooth aggregators": (_paper_smooth, frozenset({"aggregators", "epsilon"})),
    "trained PNA network": (_trained_network, frozenset({"weights"})),
    "program": (_program, frozenset({"steps", "outputs", "follow"})),
}
"""Each family by name: what evaluates it, from its description, n and the folder of its weights; and its fields."""


def check_box(
    n: object,
    aggregators: object,
    centre: object,
    radius: object,
    midpoints: object,
    radii: object,
    precision: object,
    directory: Path | None,
) -> tuple[str, int]:
    """Check that a box holds a direction u in which n - 1 aggregators agree on the two multisets c ± r u."""
    natural(n, "n", 2, LARGEST_N)
    natural(precision, "precision", 2, BITS)
    c, m, r = rationals(centre, "centre"), rationals(midpoints, "midpoints"), rationals(radii, "radii")
    require(len(c) == len(m) == len(r) == n, f"centre and box must have n = {n} coordinates")
    scale = rational(radius, "radius")
    require(scale > 0 and all(q > 0 for q in r), "radii must be positive")
    require(isinstance(aggregators, dict), "aggregators must be an object")
    family = name(aggregators.get("name"), FAMILIES, "the aggregators' name")
    describe, wanted = FAMILIES[family]
    evaluate = describe(fields(aggregators, {*wanted, "name"}, f"the aggregators ({family})"), n, directory)
    if family == "program":
        require_affordable(aggregators["steps"], precision)
    with ctx.workprec(precision):
        _newton_test(evaluate, c, scale, m, r)
    return family, n


def _newton_test(
    evaluate: Evaluate, centre: list[Fraction], radius: Fraction, midpoints: list[Fraction], radii: list[Fraction]
) -> None:
    """Reject unless the interval Newton operator maps the box into its interior, over ordered elements."""
    n = len(centre)
    box = [arb(ball(m), ball(r)) for m, r in zip(midpoints, radii, strict=True)]
    c, r = [ball(q) for q in centre], ball(radius)
    for sign in (1, -1):
        x = [a + sign * r * u for a, u in zip(c, box, strict=True)]
        ordered = all(a < b for a, b in itertools.pairwise(x))
        require(ordered, "the elements are not ordered, so the two points may be one multiset")

    def system(u: list[arb]) -> tuple[list[arb], list[list[arb]]]:
        """The n equations at u, differences of aggregators and |u|² - 1, and their Jacobian."""
        plus = evaluate([a + r * b for a, b in zip(c, u, strict=True)])
        minus = evaluate([a - r * b for a, b in zip(c, u, strict=True)])
        require(len(plus[0]) == n - 1, f"{len(plus[0])} aggregators, where n - 1 = {n - 1} are needed")
        values = [p - m for p, m in zip(plus[0], minus[0], strict=True)]
        rows = [[r * (a + b) for a, b in zip(p, m, strict=True)] for p, m in zip(plus[1], minus[1], strict=True)]
        return [*values, _total(b * b for b in u) - 1], [*rows, [2 * b for b in u]]

    middle = [b.mid() for b in box]
    values, _ = system(middle)
    _, jacobian = system(box)
    require(all(v.is_finite() for row in [values, *jacobian] for v in row), "a value or a derivative is not finite")
    try:
        # Both sides times an approximate inverse: the same solutions, in narrower balls.
        inverse = arb_mat(jacobian).mid().inv().mid()
        step = (inverse * arb_mat(jacobian)).solve(inverse * arb_mat([[v] for v in values])).entries()
    except ZeroDivisionError:
        step = None
    require(step is not None, "the Jacobian over the box is not proved to be regular")
    image = [m - s for m, s in zip(middle, step, strict=True)]
    # Against the box as stated: the ball `box` may be wider than it, since a ball's radius is rounded up.
    inside = all(abs(y - ball(m)) < ball(q) for y, m, q in zip(image, midpoints, radii, strict=True))
    require(inside, "the Newton operator does not map the box into its interior")


CONTINUOUS: dict[str, Callable[[list[arb]], arb]] = {
    "mean": lambda x: (x[0] + x[1]) / 2,
    "max": lambda x: x[1],  # the elements are in increasing order
    "min": lambda x: x[0],
    "std": lambda x: (x[1] - x[0]) / 2,
    "sum of cubes": lambda x: power(x[0], 3) + power(x[1], 3),
    "sum of exponentials": lambda x: x[0].exp() + x[1].exp(),
    "sum of |sin(5x)|": lambda x: abs((5 * x[0]).sin()) + abs((5 * x[1]).sin()),
    "max plus min²": lambda x: x[1] + power(x[0], 2),
}
"""Aggregators of two ordered reals."""


def check_sign_change(aggregator: object, centre: object, a: object, b: object, precision: object) -> tuple[str, int]:
    """Check that h(t) = g(c + r u(t)) - g(c - r u(t)) changes its sign from a to b: a collision of g on two reals.

    u runs round the diamond |u_1| + |u_2| = 1. Over all of [a, b] every step of g must be finite, hence continuous: a
    pole changes the sign too.
    """
    natural(precision, "precision", 2, BITS)
    c, low, high = rationals(centre, "centre"), rational(a, "a"), rational(b, "b")
    require(len(c) == 2 and c[0] < c[1], "the centre must have two coordinates, in increasing order")
    require(0 <= low < high <= 4, "a and b are not in order on the diamond")
    if isinstance(aggregator, dict):
        about = "program"
        fields(aggregator, {"name", "steps", "outputs", "follow"}, "the aggregator")
        name(aggregator["name"], ["program"], "the aggregator's name")
        program = read_program(aggregator["steps"], aggregator["outputs"], 2)
        require(len(program.outputs) == 1, "there must be one output")
        require_consequences(program, aggregator["follow"])
        require_affordable(aggregator["steps"], precision)
        g = program.value
    else:
        about = name(aggregator, CONTINUOUS, "the aggregator")
        g = CONTINUOUS[about]
    with ctx.workprec(precision):
        signs = [_difference(g, c, t, t) for t in (low, high)]
        require(all(h > 0 or h < 0 for h in signs), "the sign is not certain at an end")
        require((signs[0] > 0) != (signs[1] > 0), "the sign is the same at both ends")
        require(
            _difference(g, c, low, high).is_finite(), "h is not certainly finite between a and b: it may have a pole"
        )
    return about, 2


def _difference(g: Callable[[list[arb]], arb], c: list[Fraction], a: Fraction, b: Fraction) -> arb:
    """A ball of g(c + r u(t)) - g(c - r u(t)) for all t from a to b; no coordinate of u moves faster than t."""
    r, t, slack = (c[1] - c[0]) / 2, (a + b) / 2, ball((b - a) / 2 * (c[1] - c[0]) / 2)
    # Round the diamond: u_1 is a triangle wave that starts at its top, and u_2 lags a quarter behind.
    u = [abs((t + shift) % 4 - 2) - 1 for shift in (0, 3)]
    plus, minus = ([arb(ball(q + sign * r * v), slack) for q, v in zip(c, u, strict=True)] for sign in (1, -1))
    require(all(x[0] < x[1] for x in (plus, minus)), "the elements are not ordered")
    return g(plus) - g(minus)
