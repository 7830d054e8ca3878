"""Theorem 1 for the user's own aggregators: `python -m verification collide --aggregators module:function --n 5`."""

import importlib
from collections.abc import Callable, Sequence
from fractions import Fraction

from flint import arb, ctx

from verification.intermediate_value import bracket, diamond
from verification.smooth import Real, ball, variables
from verification.theorem_1 import Aggregator, Sphere, collide

__all__ = ["HELP", "UsageError", "collision_report", "load"]

DIGITS = 20

HELP = """\
Finds two different multisets of n reals on which all the given aggregators agree, and proves it.

MODULE:FUNCTION names a list of aggregators, or a function without arguments that returns one. An aggregator is a
function of a list of numbers, which are given in increasing order. It must be smooth, and written with + - * / **, sum,
len, constants and the functions exp, log, sqrt, tanh, sin, cos of verification.smooth; math and numpy functions do not
work, nor do comparisons (max, min, sorted, if). There must be fewer than n of them. For n = 2, where continuity is
enough, maximum, minimum and absolute of verification.smooth are allowed as well. Example, in the file mine.py:

    from verification.smooth import exp, log
    def aggregators():
        return [lambda x: sum(x) / len(x), lambda x: log(sum(exp(y) for y in x))]

    python -m verification collide --aggregators mine:aggregators --n 3

Exit status: 0 a collision was proved, 1 none was found, 2 the aggregators cannot be used."""


class UsageError(ValueError):
    """What was asked for cannot be done, and why."""


def load(name: str) -> list[Aggregator]:
    """The aggregators that MODULE:FUNCTION names."""
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise UsageError(f"--aggregators must be MODULE:FUNCTION, got {name!r}")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"cannot load {name!r}: {error}") from error
    try:
        found = found() if isinstance(found, Callable) else found
    except TypeError as error:
        raise UsageError(f"{name!r} must be callable without arguments and return a list: {error}") from error
    if not isinstance(found, Sequence) or not found or not all(isinstance(g, Callable) for g in found):
        raise UsageError(f"{name!r} must be, or return, a list of functions that is not empty")
    return list(found)


def collision_report(aggregators: Sequence[Aggregator], n: int, low: Fraction, high: Fraction) -> str:
    """The collision, in words and digits. Raises UsageError, or NoCollisionError if none was found."""
    if n < 2:
        raise UsageError(f"n must be at least 2, got {n}: one aggregator discriminates between single numbers")
    if len(aggregators) >= n:
        raise UsageError(
            f"there are {len(aggregators)} aggregators for multisets of size n = {n}: Theorem 1 speaks of fewer, "
            f"and {n} can be enough (the order statistics are)"
        )
    if not low < high:
        raise UsageError(f"the interval must have LOW < HIGH, got {low} and {high}")
    try:
        X, Y, proof = _two(aggregators[0], low, high) if n == 2 else _many(aggregators, n, low, high)
        values = [_enclosure(g, X) for g in aggregators]
    except TypeError as error:  # NotSmoothError among them
        raise UsageError(f"these aggregators cannot be used: {error}") from error
    lines = [f"Two different multisets of {n} reals on which {_count(len(aggregators))} exactly:"]
    lines += [f"  {name} = {{{', '.join(x.str(DIGITS) for x in Z)}}}" for name, Z in (("X", X), ("Y", Y))]
    lines += [f"  g_{k}(X) = g_{k}(Y) = {value.str(DIGITS)}" for k, value in enumerate(values, start=1)]
    return "\n".join([*lines, proof])


def _count(k: int) -> str:
    return "the aggregator agrees" if k == 1 else f"all {k} aggregators agree"


def _two(g: Aggregator, low: Fraction, high: Fraction) -> tuple[list[arb], list[arb], str]:
    change = bracket(g, (low, high))
    r, u = (high - low) / 2, diamond(change.a)
    slack = r * (change.b - change.a)  # a coordinate of u moves no faster than t
    with ctx.workprec(change.precision):
        X, Y = (
            [arb(ball(c + sign * r * v), ball(slack)) for c, v in zip((low, high), u, strict=True)] for sign in (1, -1)
        )
    return X, Y, "Proved by the intermediate value theorem: g(X) - g(Y) changes its sign within the digits shown."


def _many(aggregators: Sequence[Aggregator], n: int, low: Fraction, high: Fraction) -> tuple[list[arb], list[arb], str]:
    collision = collide(aggregators, Sphere.between(low, high, n))
    X, Y = collision.multisets()
    bits = collision.radii[0].denominator.bit_length() - 1
    return X, Y, f"Proved by Krawczyk's test in ball arithmetic: exact values lie within 2^-{bits} of those shown."


def _enclosure(g: Aggregator, X: list[arb]) -> arb:
    with ctx.workprec(320):
        return (Real(arb(0), None) + g(variables(X, differentiate=False))).value
