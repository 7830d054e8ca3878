"""Aggregators as programs of elementary steps, for the independent checker: values and gradients in balls.

A program is a list of steps, each an element ["x", i], a constant ["constant", "p/q"], or an operation on earlier
steps, ["+", i, j], ["power", i, k], ["exp", i], …; its outputs are steps. Every step must have a finite ball: then it
is continuous where it is evaluated, and a pole is never taken for a zero. Gradients are propagated backwards (the
finder does it forwards).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from verification.certificate import ball, natural, rational, require

__all__ = ["MOST_STEPS", "Program", "read_program"]

MOST_STEPS = 10_000
LARGEST_POWER = 256

Slopes = tuple[arb, ...]


def power(x: arb, k: int) -> arb:
    """x^k by squaring; arb's own power of a ball around 0 is not a number."""
    if k < 0:
        return 1 / power(x, -k)
    result, square = arb(1), x
    while k:
        result, square, k = (result * square if k % 2 else result), square * square, k // 2
    return result


def _largest(x: arb, y: arb) -> tuple[arb, Slopes | None]:
    return x.max(y), (arb(int(x > y)), arb(int(y > x))) if x > y or y > x else None


def _smallest(x: arb, y: arb) -> tuple[arb, Slopes | None]:
    return x.min(y), (arb(int(x < y)), arb(int(y < x))) if x < y or y < x else None


def _root(x: arb) -> tuple[arb, Slopes | None]:
    root = x.sqrt()
    return root, (1 / (2 * root),)


def _tanh(x: arb) -> tuple[arb, Slopes | None]:
    return x.tanh(), (1 - x.tanh() ** 2,)


OPERATIONS: dict[str, tuple[int, Callable[..., tuple[arb, Slopes | None]]]] = {
    "+": (2, lambda x, y: (x + y, (arb(1), arb(1)))),
    "-": (2, lambda x, y: (x - y, (arb(1), arb(-1)))),
    "*": (2, lambda x, y: (x * y, (y, x))),
    "/": (2, lambda x, y: (x / y, (1 / y, -x / (y * y)))),
    "max": (2, _largest),
    "min": (2, _smallest),
    "abs": (1, lambda x: (abs(x), (x.sgn(),) if x > 0 or x < 0 else None)),
    "exp": (1, lambda x: (x.exp(), (x.exp(),))),
    "log": (1, lambda x: (x.log(), (1 / x,))),
    "sqrt": (1, _root),
    "tanh": (1, _tanh),
    "sin": (1, lambda x: (x.sin(), (x.cos(),))),
    "cos": (1, lambda x: (x.cos(), (-x.sin(),))),
}
"""Each operation: how many operands it has, and its value and slopes; None where it has no derivative."""


@dataclass(frozen=True)
class Program:
    """Steps, each its name, the earlier steps it reads, and what else it needs: i, a constant, or an exponent."""

    steps: tuple[tuple[str, tuple[int, ...], int | Fraction | None], ...]
    outputs: tuple[int, ...]

    def values(self, x: Sequence[arb]) -> list[arb]:
        """The outputs at x, each step finite."""
        values, _ = self._run(x)
        return [values[i] for i in self.outputs]

    def value(self, x: Sequence[arb]) -> arb:
        """The only output at x."""
        (only,) = self.values(x)
        return only

    def gradients(self, x: Sequence[arb]) -> tuple[list[arb], list[list[arb]]]:
        """The outputs at x, and their gradients."""
        values, slopes = self._run(x)
        return [values[i] for i in self.outputs], [self._backwards(i, slopes, len(x)) for i in self.outputs]

    def _run(self, x: Sequence[arb]) -> tuple[list[arb], list[Slopes | None]]:
        values: list[arb] = []
        slopes: list[Slopes | None] = []
        for number, (name, read, extra) in enumerate(self.steps):
            operands = [values[i] for i in read]
            if name == "x":
                value, slope = x[extra], ()
            elif name == "constant":
                value, slope = ball(extra), ()
            elif name == "power":
                value, slope = (
                    power(operands[0], extra),
                    (extra * power(operands[0], extra - 1),) if extra else (arb(0),),
                )
            else:
                value, slope = OPERATIONS[name][1](*operands)
            require(value.is_finite(), f"step {number} ({name}) is not certainly finite: there may be a pole")
            values.append(value)
            slopes.append(slope)
        return values, slopes

    def _backwards(self, output: int, slopes: list[Slopes | None], n: int) -> list[arb]:
        gradient, adjoint = [arb(0)] * n, {output: arb(1)}
        for i in range(output, -1, -1):
            if i not in adjoint:
                continue
            name, read, extra = self.steps[i]
            if name == "x":
                gradient[extra] += adjoint[i]
            require(slopes[i] is not None, f"step {i} ({name}) is not certainly differentiable")
            for j, slope in zip(read, slopes[i], strict=True):
                adjoint[j] = adjoint.get(j, arb(0)) + adjoint[i] * slope
        return gradient


def read_program(steps: object, outputs: object, n: int) -> Program:
    """The program that these fields describe, of n elements."""
    require(
        isinstance(steps, list) and 0 < len(steps) <= MOST_STEPS, f"steps must be a list of 1 to {MOST_STEPS} steps"
    )
    require(isinstance(outputs, list) and 0 < len(outputs) < 64, "outputs must be a list of 1 to 63 steps")
    read = tuple(_read_step(step, i, n) for i, step in enumerate(steps))
    chosen = tuple(natural(i, "an output", 0, len(steps) - 1) for i in outputs)
    require(len(set(chosen)) == len(chosen), "an output twice")
    return Program(read, chosen)


def _read_step(step: object, i: int, n: int) -> tuple[str, tuple[int, ...], int | Fraction | None]:
    require(isinstance(step, list) and 2 <= len(step) <= 3 and isinstance(step[0], str), f"step {i} is not a step")
    name, *rest = step
    if name == "x" and len(rest) == 1:
        return name, (), natural(rest[0], f"the element of step {i}", 0, n - 1)
    if name == "constant" and len(rest) == 1:
        return name, (), rational(rest[0], f"step {i}")
    if name == "power" and len(rest) == 2:
        exponent = natural(rest[1], f"the exponent of step {i}", -LARGEST_POWER, LARGEST_POWER)
        return name, (natural(rest[0], f"step {i}", 0, i - 1),), exponent
    require(name in OPERATIONS and len(rest) == OPERATIONS[name][0], f"step {i} is not a step")
    return name, tuple(natural(j, f"step {i}", 0, i - 1) for j in rest), None
