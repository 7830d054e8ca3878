"""Theorem 1 for the user's own aggregators: `python -m verification collide --aggregators module:function --n 5`."""

import importlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from flint import arb, ctx

from verification.checker import CertificateError, check_certificate
from verification.exact import elements
from verification.intermediate_value import bracket, diamond
from verification.smooth import NotDefinedError, NotSmoothError, Real, ball, variables
from verification.theorem_1 import (
    PRECISION,
    PROUHET_TARRY_ESCOTT,
    Aggregator,
    NoCollisionError,
    Sphere,
    collide,
    gradients,
    independent,
    order_statistics,
)
from verification.tracing import trace

__all__ = ["HELP", "Found", "UsageError", "affine_pairs", "certificate_file", "find_collision", "load"]

DIGITS = 20
STATEMENT = "Theorem 1: a collision of given aggregators"

HELP = """\
Finds two different multisets of n reals on which all the given aggregators agree, and proves it.

MODULE:FUNCTION names a list of aggregators, or a function without arguments that returns such a list. An aggregator is
a function of a list of numbers, which it receives in increasing order. It may use
  + - * / ** abs sum len sorted max min, comparisons, constants,
  exp log sqrt cbrt tanh sin cos of numpy or of verification.smooth, np.sum np.mean np.std np.max np.min,
but not the functions of math, because these turn numbers into floats.

The search has two steps. The first computes with rational multisets, exactly. Any number of aggregators collide there
if their messages are linear, or are ReLU networks on a piece where these are linear (formal/piecewise_linear.v);
max(0, x) is ReLU. Each multiset is also compared with its shifted image and its mirror image.
The second step is Theorem 1, for smooth aggregators. Fewer than n of them may be independent; those that follow from
the others are left out. For n = 2 and a single aggregator continuity is enough, and maximum, minimum and absolute of
verification.smooth may be used where their arguments are equal. An example, in the file mine.py:

    import numpy as np
    def aggregators():
        return [np.mean, np.std, max, min]

    python -m verification collide --aggregators mine:aggregators --n 6 --out collision.json
    python -m verification check collision.json

Exit status: 0 if a collision is proved, 1 if none is found, 2 if the aggregators cannot be used."""


class UsageError(ValueError):
    """A request that cannot be carried out, with the reason."""


@dataclass(frozen=True)
class Found:
    """A collision: the two multisets, exactly or as balls, the aggregators' values, the proof, and its certificate."""

    X: list[Fraction] | list[arb]
    Y: list[Fraction] | list[arb]
    values: list[arb]
    proof: str
    certificate: dict

    def __str__(self) -> str:
        k = len(self.values)
        agree = "the aggregator agrees" if k == 1 else f"all {k} aggregators agree"
        lines = [f"Two different multisets of {len(self.X)} reals on which {agree} exactly"]
        if "precision" in self.certificate:
            bits = self.certificate["precision"] // 3
            lines[0] += "; each number is the one in"
            lines += [f"the interval shown that the certificate encloses to {bits} bits or more:"]
        else:
            lines[0] += ":"
        lines += [f"  {name} = {{{', '.join(map(_shown, Z))}}}" for name, Z in (("X", self.X), ("Y", self.Y))]
        lines += [f"  g_{k}(X) = g_{k}(Y) = {v.str(DIGITS)}" for k, v in enumerate(self.values[:MOST_SHOWN], start=1)]
        if k > MOST_SHOWN:
            lines += [f"  … and so on to g_{k}"]
        return "\n".join([*lines, self.proof])


MOST_SHOWN = 16


def _shown(x: Fraction | arb) -> str:
    """An element as text: a ball to DIGITS digits, a rational exactly."""
    return x.str(DIGITS) if isinstance(x, arb) else str(x)


def load(name: str) -> list[Aggregator]:
    """The aggregators that MODULE:FUNCTION names."""
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise UsageError(f"--aggregators must be MODULE:FUNCTION, got {name!r}")
    try:
        functions = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # anything can happen in a user's module
        raise UsageError(f"cannot load {name!r}: {type(error).__name__}: {error}") from error
    if isinstance(functions, Callable):
        try:
            functions = functions()
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {error}"
            raise UsageError(f"{name!r} must be callable without arguments and return a list: {reason}") from error
    if not isinstance(functions, Sequence) or not functions or not all(isinstance(g, Callable) for g in functions):
        raise UsageError(f"{name!r} must be, or return, a list of functions that is not empty")
    return list(functions)


def find_collision(aggregators: Sequence[Aggregator], n: int, low: Fraction, high: Fraction) -> Found:
    """A collision of the aggregators between low and high. Raises UsageError, or NoCollisionError.

    What is returned has been accepted by the independent checker.
    """
    if n < 2:
        raise UsageError(f"n must be at least 2, got {n}: one aggregator discriminates between single numbers")
    if not low < high:
        raise UsageError(f"the interval must have LOW < HIGH, got {low} and {high}")
    low, high = Fraction(low), Fraction(high)
    functions = [_name_errors(k, g) for k, g in enumerate(aggregators, start=1)]
    try:
        _require_functions(functions, n, low, high)
        collision = _exact(functions, n, low, high) or _by_theorem_1(functions, n, low, high)
    except NotSmoothError as error:
        raise UsageError(f"these aggregators cannot be used: {error}") from error
    except NotDefinedError as error:
        raise NoCollisionError(f"{error}: choose another interval") from error
    _require_floats(aggregators, collision)
    return collision


def _require_floats(aggregators: Sequence[Aggregator], collision: Found) -> None:
    """Raise UsageError if an aggregator that is called with floats does not agree, rounding errors apart."""
    X, Y = ([float(x.mid() if isinstance(x, arb) else x) for x in Z] for Z in (collision.X, collision.Y))
    close = [[math.nextafter(x, side) for x in X] for side in (-math.inf, math.inf)]
    for k, g in enumerate(aggregators, start=1):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                first, second, *others = (float(g(list(Z))) for Z in (X, Y, *close))
        except (Exception, SystemExit):  # it is for exact numbers only
            continue
        rounding = max(abs(value - first) for value in others)
        if abs(first - second) > FLOAT_ERROR * max(1, abs(first), abs(second)) + 1000 * rounding:
            raise UsageError(
                f"g_{k} computes something else with floats: on floats of the X and Y that were found it is {first} "
                f"and {second}, where it agrees exactly on the numbers themselves"
            )


FLOAT_ERROR = 1e-6
"""The largest difference of an aggregator on floats of X and Y, by the larger of its size and 1, that is rounding."""


def _require_functions(functions: Sequence[Aggregator], n: int, low: Fraction, high: Fraction) -> None:
    """Raise UsageError if an aggregator fails, or gives different results for two lists of equal numbers."""
    points, terms = [low + (high - low) * Fraction(2 * i + 1, 2 * n) for i in range(n)], {}
    first, *others = _apart([elements(points, terms) for _ in range(max(MOST_ELEMENTS // n, CALLS))])
    with ctx.workprec(64):
        for k, g in enumerate(functions, start=1):
            try:
                result = g(first)
                if not all(g(x).same(result) for x in others):
                    raise UsageError(
                        f"g_{k} is not a function of the numbers: two calls with equal ones give different results"
                    )
            except (NotSmoothError, NotDefinedError):  # the search may find a place where it is defined
                continue


MOST_ELEMENTS, CALLS = 60_000, 8
"""How many elements are made to choose from, and the least number of lists that an aggregator is called with."""


def _apart(lists: list[list]) -> list[list]:
    """The first list and some others, so that no function of one bit of an address in memory is the same on all.

    Every bit in which the address of a list, or of one of its elements, differs from that in the first list is covered
    by one of those chosen, so a function of id(x) or id(x[0]) does not pass for a function of the numbers.
    """
    addresses = [sum(id(item) << 64 * i for i, item in enumerate([x, *x])) for x in lists]
    differences = [address ^ addresses[0] for address in addresses]
    chosen, missing = [0], -1
    while any(difference & missing for difference in differences) or len(chosen) < CALLS:
        places = (i for i in range(len(lists)) if i not in chosen)
        chosen.append(max(places, key=lambda i: (differences[i] & missing).bit_count()))
        missing &= ~differences[chosen[-1]]
    return [lists[i] for i in chosen]


def _by_theorem_1(functions: Sequence[Aggregator], n: int, low: Fraction, high: Fraction) -> Found:
    """A collision of fewer than n independent aggregators; the others must follow from them."""
    if n == 2 and len(functions) == 1:
        return _checked(_two(functions[0], [], low, high))
    try:
        return _near(functions, Sphere.between(low, high, n), low, high)
    except (NotDefinedError, NotSmoothError, NoCollisionError) as error:  # an odd moment is 0 at equally spaced points
        if n == 2:
            raise
        try:
            return _near(functions, _uneven(low, high, n), low, high)
        except (NotDefinedError, NoCollisionError, NotSmoothError, UsageError) as other:
            raise (error if isinstance(error, NoCollisionError) else other) from other


def _uneven(low: Fraction, high: Fraction, n: int) -> Sphere:
    """A sphere like Sphere.between whose centre's gaps are as 1 to 2 to 3 and so on, half the first as its radius."""
    unit = 2 * (high - low) / (n * (n - 1))
    return Sphere(tuple(low + unit * i * (i + 1) / 2 for i in range(n)), unit / 2)


def _near(functions: Sequence[Aggregator], sphere: Sphere, low: Fraction, high: Fraction) -> Found:
    """A collision near the sphere's centre of those aggregators that are independent there; the others must follow."""
    n = len(sphere.centre)
    with ctx.workprec(PRECISION):
        chosen, why = independent(gradients(functions, sphere.centre))
    if len(chosen) >= n:
        listed = ", ".join(f"g_{k + 1}" for k in chosen)
        raise UsageError(
            f"{listed} are {n} independent aggregators for multisets of size n = {n}: Theorem 1 speaks of fewer, and "
            f"these tell multisets apart near {{{', '.join(map(str, sphere.centre))}}}"
        )
    if not chosen:
        raise NoCollisionError(f"{'; '.join(why.values())}: choose another interval")
    leading, following = [functions[k] for k in chosen], [functions[k] for k in why]
    collision = _two(leading[0], following, low, high) if n == 2 else _many(leading, following, sphere)
    try:
        return _checked(collision, [f"left out, because it follows: {reason}" for reason in why.values()])
    except NoCollisionError as error:
        if not why:
            raise
        listed, others = (", ".join(f"g_{k + 1}" for k in places) for places in (chosen, why))
        reasons = "; ".join(why.values())
        raise NoCollisionError(
            f"a collision of {listed} was found, but not that {others} agree there ({reasons}): choose another "
            f"interval, or leave out {others}. {error}"
        ) from error


def _checked(collision: Found, notes: Sequence[str] = ()) -> Found:
    """The collision with its notes, if the independent checker accepts it."""
    try:
        check_certificate(collision.certificate)
    except CertificateError as error:
        raise NoCollisionError(f"the checker does not accept the proof: {error}") from error
    return replace(collision, proof="\n".join([collision.proof, *notes]))


def affine_pairs(n: int) -> Iterator[tuple[list[int], list[int]]]:
    """Pairs of different multisets of n integers that share many power sums, and their maximum and minimum.

    Their affine images share them too, so they collide for functions of power sums, maximum and minimum of messages
    that are affine. A solution of Prouhet, Tarry and Escott of size m shares m - 1 power sums; what is added lies
    outside of it and is in both. No element repeats, so that both are ordered alike.
    """
    for m in sorted((m for m in PROUHET_TARRY_ESCOTT if m <= n), reverse=True):
        pair = PROUHET_TARRY_ESCOTT[m]
        least, most, rest = min(map(min, pair)), max(map(max, pair)), n - m
        for lows in sorted({rest, rest // 2, 0}):
            added = [*range(least - lows, least), *range(most + 1, most + 1 + rest - lows)]
            yield tuple(sorted([*x, *added]) for x in pair)


def image_pairs(n: int) -> Iterator[tuple[list[int], list[int]]]:
    """A multiset of n integers with itself shifted by 1, and with its mirror image about its mean if that is another.

    The first collide for functions of differences; the second for the mean and functions of distances from it.
    """
    X = [n * i * (i + 1) // 2 for i in range(n)]
    mirrored = sorted(2 * sum(X) // n - x for x in X)
    yield X, [x + 1 for x in X]
    if mirrored != X:
        yield X, mirrored


PLACES = tuple(Fraction(k, 64) + shift for shift in (0, Fraction(1, 997)) for k in (0, 11, 21, 32, 43, 53))
SMALLEST = 18
"""Where in the interval linear pieces are looked for, and down to which power of 1/2 of its width.

Kinks are often at dyadic numbers, so half of the places are not.
"""


def _exact(functions: Sequence[Aggregator], n: int, low: Fraction, high: Fraction) -> Found | None:
    """A collision on rational multisets, on a piece where the messages are linear; None if there is none."""
    for pairs in (affine_pairs, image_pairs):
        for place in PLACES:
            for integers in pairs(n):
                if not _agree(functions, *_moved(integers, low, high, place, SMALLEST)):
                    continue
                for halvings in range(SMALLEST + 1):
                    X, Y = _moved(integers, low, high, place, halvings)
                    try:
                        if _agree(functions, X, Y):
                            return _checked(_exact_collision(functions, X, Y))
                    except NotSmoothError:  # a kink is among the elements: the two agree there by two formulas
                        continue
    return None


def _moved(
    integers: tuple[list[int], list[int]], low: Fraction, high: Fraction, place: Fraction, halvings: int
) -> tuple[list[Fraction], list[Fraction]]:
    """The pair as a cluster of at most 2^-halvings of the interval's width, which begins at `place` or before."""
    least, most = min(map(min, integers)), max(map(max, integers))
    unit = (high - low) / 2 ** (halvings + (most - least - 1).bit_length())
    start = min(low + place * (high - low), high - unit * (most - least))
    return tuple([start + unit * (v - least) for v in x] for x in integers)


def _agree(functions: Sequence[Aggregator], X: list[Fraction], Y: list[Fraction]) -> bool:
    """Whether all the functions are proved equal on the two; the first that is not ends it."""
    terms: dict = {}
    with ctx.workprec(256):
        try:
            return all(g(elements(X, terms)).same(g(elements(Y, terms))) for g in functions)
        except (NotSmoothError, NotDefinedError):
            return False


def _exact_collision(functions: Sequence[Aggregator], X: list[Fraction], Y: list[Fraction]) -> Found:
    """The collision of two rational multisets on which the functions are proved to agree, with its certificate."""
    terms: dict = {}
    with ctx.workprec(256):
        program, results = trace(functions, elements(X, terms), elements(Y, terms))
        values = [result.values[0].value for result in results]
    first, second = [str(x) for x in X], [str(y) for y in Y]
    certificate = {"kind": "exact collision", "aggregators": program, "first": first, "second": second}
    return Found(X, Y, values, "Proved by exact arithmetic on the rational multisets.", certificate)


def certificate_file(collision: Found) -> dict:
    """The content of a file that `check` accepts."""
    return {"statement": STATEMENT, "certificates": [collision.certificate]}


SEE_HELP = "collide --help lists what an aggregator may use"


def _name_errors(k: int, g: Aggregator) -> Aggregator:
    """The k-th aggregator, with errors that name it and say what went wrong."""

    def aggregator(x: list) -> Real:
        """The aggregator's value at x as a number of x's kind."""
        try:
            result = g(x)
        except (NotSmoothError, NotDefinedError) as error:
            raise type(error)(f"g_{k}: {error}") from error
        except RecursionError as error:
            raise UsageError(f"g_{k} calls itself too often") from error
        except (Exception, SystemExit) as error:
            raise UsageError(f"g_{k} fails: {type(error).__name__}: {error}; {SEE_HELP}") from error
        try:
            return x[0]._operand(result)
        except TypeError as error:
            raise UsageError(f"g_{k} must return one number, got {result!r:.60}; {SEE_HELP}") from error

    return aggregator


def _program(leading: Sequence[Aggregator], following: Sequence[Aggregator], X: list[arb], Y: list[arb]) -> dict:
    """The program of the certificate: its outputs agree by the test, and `follow` because these do."""
    program, _ = trace([*leading, *following], variables(X, False), variables(Y, False))
    outputs, follow = program["outputs"][: len(leading)], program["outputs"][len(leading) :]
    return {**program, "outputs": outputs, "follow": follow}


def _two(g: Aggregator, following: Sequence[Aggregator], low: Fraction, high: Fraction) -> Found:
    """A collision of g on two reals, by the intermediate value theorem; `following` agree because g does."""
    change = bracket(g, (low, high))
    r, u = (high - low) / 2, diamond(change.a)
    slack = r * (change.b - change.a)  # a coordinate of u moves no faster than t
    with ctx.workprec(change.precision):
        X, Y = (
            [arb(ball(c + sign * r * v), ball(slack)) for c, v in zip((low, high), u, strict=True)] for sign in (1, -1)
        )
        certificate = {
            "kind": "sign change",
            "aggregator": _program([g], following, X, Y),
            "centre": [str(low), str(high)],
            "a": str(change.a),
            "b": str(change.b),
            "precision": change.precision,
        }
        values = [_value(f, X) for f in (g, *following)]
    proof = (
        "Proved by the intermediate value theorem: g(X) - g(Y) is continuous and changes its sign within the intervals."
    )
    return Found(X, Y, values, proof, certificate)


def _many(leading: Sequence[Aggregator], following: Sequence[Aggregator], sphere: Sphere) -> Found:
    """A collision of the leading aggregators near the sphere's centre; the following ones agree because these do."""
    n, collision = len(sphere.centre), collide(leading, sphere)
    X, Y = collision.multisets()
    places = [order_statistics(n)[k] for k in collision.shared]
    with ctx.workprec(collision.precision):
        certificate = {
            "kind": "box",
            "n": n,
            "aggregators": _program([*leading, *places], following, X, Y),
            "centre": [str(c) for c in collision.sphere.centre],
            "radius": str(collision.sphere.radius),
            "midpoints": [str(m) for m in collision.midpoints],
            "radii": [str(r) for r in collision.radii],
            "precision": collision.precision,
        }
        values = [_value(g, X) for g in (*leading, *following)]
    return Found(X, Y, values, "Proved by Krawczyk's test in ball arithmetic.", certificate)


def _value(g: Aggregator, X: list[arb]) -> arb:
    """The value of an aggregator on a multiset of balls, as a ball."""
    return g(variables(X, differentiate=False)).value
