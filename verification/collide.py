"""Theorem 1 for the user's own aggregators: `python -m verification collide --aggregators module:function --n 5`."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx

from verification.intermediate_value import bracket, diamond
from verification.smooth import NotDefinedError, NotSmoothError, Real, ball, variables
from verification.theorem_1 import Aggregator, NoCollisionError, Sphere, collide, order_statistics
from verification.tracing import trace

__all__ = ["HELP", "Found", "UsageError", "certificate_file", "find_collision", "load"]

DIGITS = 20
STATEMENT = "Theorem 1: a collision of given aggregators"

HELP = """\
Finds two different multisets of n reals on which all the given aggregators agree, and proves it.

MODULE:FUNCTION names a list of aggregators, or a function without arguments that returns one; there must be fewer than
n of them. An aggregator is a function of a list of numbers, which are given in increasing order. It is written with
  + - * / ** abs sum len sorted max min, comparisons, constants,
  exp log sqrt tanh sin cos of numpy or of verification.smooth, np.sum np.mean np.std np.max np.min;
not with those of math, which turn numbers into floats. It must be smooth where the two multisets are: a maximum is
where it is unique. For n = 2, where continuity is enough, maximum, minimum and absolute of verification.smooth may
be used where arguments meet. Example, in the file mine.py:

    import numpy as np
    def aggregators():
        return [np.mean, np.std, max, min]

    python -m verification collide --aggregators mine:aggregators --n 6 --out collision.json
    python -m verification check collision.json

Exit status: 0 a collision was proved, 1 none was found, 2 the aggregators cannot be used."""


class UsageError(ValueError):
    """What was asked for cannot be done, and why."""


@dataclass(frozen=True)
class Found:
    """A collision of the aggregators: the two multisets as balls, how it was proved, and its certificate."""

    X: list[arb]
    Y: list[arb]
    values: list[arb]
    proof: str
    certificate: dict

    def __str__(self) -> str:
        k = len(self.values)
        agree = "the aggregator agrees" if k == 1 else f"all {k} aggregators agree"
        lines = [f"Two different multisets of {len(self.X)} reals on which {agree} exactly; each number is the one in"]
        lines += [
            f"the interval shown that the certificate encloses to {self.certificate['precision'] // 3} bits or more:"
        ]
        lines += [f"  {name} = {{{', '.join(x.str(DIGITS) for x in Z)}}}" for name, Z in (("X", self.X), ("Y", self.Y))]
        lines += [f"  g_{k}(X) = g_{k}(Y) = {value.str(DIGITS)}" for k, value in enumerate(self.values, start=1)]
        return "\n".join([*lines, self.proof])


def load(name: str) -> list[Aggregator]:
    """The aggregators that MODULE:FUNCTION names."""
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise UsageError(f"--aggregators must be MODULE:FUNCTION, got {name!r}")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except Exception as error:  # anything can happen in a user's module
        raise UsageError(f"cannot load {name!r}: {type(error).__name__}: {error}") from error
    if isinstance(found, Callable):
        try:
            found = found()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise UsageError(f"{name!r} must be callable without arguments and return a list: {said}") from error
    if not isinstance(found, Sequence) or not found or not all(isinstance(g, Callable) for g in found):
        raise UsageError(f"{name!r} must be, or return, a list of functions that is not empty")
    return list(found)


def find_collision(aggregators: Sequence[Aggregator], n: int, low: Fraction, high: Fraction) -> Found:
    """A collision of the aggregators near n points from low to high. Raises UsageError, or NoCollisionError."""
    if n < 2:
        raise UsageError(f"n must be at least 2, got {n}: one aggregator discriminates between single numbers")
    if len(aggregators) >= n:
        raise UsageError(
            f"there are {len(aggregators)} aggregators for multisets of size n = {n}: Theorem 1 speaks of fewer, "
            f"and {n} can be enough (the order statistics are)"
        )
    if not low < high:
        raise UsageError(f"the interval must have LOW < HIGH, got {low} and {high}")
    told = [_told(k, g) for k, g in enumerate(aggregators, start=1)]
    try:
        return _two(told[0], low, high) if n == 2 else _many(told, n, low, high)
    except NotSmoothError as error:
        raise UsageError(f"these aggregators cannot be used: {error}") from error
    except NotDefinedError as error:
        raise NoCollisionError(f"{error}: choose another interval") from error


def certificate_file(found: Found) -> dict:
    """The content of a file that `check` accepts."""
    return {"statement": STATEMENT, "certificates": [found.certificate]}


def _told(k: int, g: Aggregator) -> Aggregator:
    """The aggregator, with its errors in words."""

    def aggregator(x: list) -> Real:
        try:
            result = g(x)
        except (NotSmoothError, NotDefinedError) as error:
            raise type(error)(f"g_{k}: {error}") from error
        except Exception as error:
            raise UsageError(f"g_{k} fails: {type(error).__name__}: {error}") from error
        try:
            return x[0] * 0 + result
        except TypeError as error:
            raise UsageError(f"g_{k} must return one number, got {result!r:.60}") from error

    return aggregator


def _two(g: Aggregator, low: Fraction, high: Fraction) -> Found:
    change = bracket(g, (low, high))
    r, u = (high - low) / 2, diamond(change.a)
    slack = r * (change.b - change.a)  # a coordinate of u moves no faster than t
    with ctx.workprec(change.precision):
        X, Y = (
            [arb(ball(c + sign * r * v), ball(slack)) for c, v in zip((low, high), u, strict=True)] for sign in (1, -1)
        )
        certificate = {
            "kind": "sign change",
            "aggregator": trace([g], X, Y),
            "centre": [str(low), str(high)],
            "a": str(change.a),
            "b": str(change.b),
            "precision": change.precision,
        }
        values = [_value(g, X)]
    proof = (
        "Proved by the intermediate value theorem: g(X) - g(Y) is continuous and changes its sign within the intervals."
    )
    return Found(X, Y, values, proof, certificate)


def _many(aggregators: Sequence[Aggregator], n: int, low: Fraction, high: Fraction) -> Found:
    collision = collide(aggregators, Sphere.between(low, high, n))
    X, Y = collision.multisets()
    places = [order_statistics(n)[k] for k in collision.shared]
    with ctx.workprec(collision.precision):
        certificate = {
            "kind": "box",
            "n": n,
            "aggregators": trace([*aggregators, *places], X, Y),
            "centre": [str(c) for c in collision.sphere.centre],
            "radius": str(collision.sphere.radius),
            "midpoints": [str(m) for m in collision.midpoints],
            "radii": [str(r) for r in collision.radii],
            "precision": collision.precision,
        }
        values = [_value(g, X) for g in aggregators]
    return Found(X, Y, values, "Proved by Krawczyk's test in ball arithmetic.", certificate)


def _value(g: Aggregator, X: list[arb]) -> arb:
    return g(variables(X, differentiate=False)).value
