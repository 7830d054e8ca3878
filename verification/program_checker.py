"""Aggregators as programs of elementary steps, for the independent checker: in balls with gradients, or exactly.

A program is a list of steps, each an element ["x", i], a constant ["constant", "p/q"], or an operation on earlier
steps, ["+", i, j], ["power", i, k], ["exp", i], …; its outputs are steps. Every step must have a finite ball: then it
is continuous where it is evaluated, and a pole is never taken for a zero. Gradients are propagated backwards (the
finder does it forwards).

On rational elements a program is evaluated exactly. What is not rational (a root, an exponential) is a term, and a term
is the same where the same operation is done with the same operands.
"""

import hashlib
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx, fmpq

from verification.certificate import BITS, ball, natural, rational, require

__all__ = [
    "MOST_STEPS",
    "MOST_STEPS_EXACT",
    "MOST_WORK",
    "Program",
    "Terms",
    "canonical_program",
    "read_program",
    "require_affordable",
    "require_consequences",
]

MOST_STEPS, MOST_STEPS_EXACT = 10_000, 60_000
"""The longest programs, in balls with gradients and exactly."""
MOST_WORK = 40_000
"""Steps times outputs, each of which is differentiated on its own."""
TRANSCENDENTAL = {"exp", "log", "tanh", "sin", "cos"}
COST = 10
"""How many steps of arithmetic a transcendental one counts for."""
LARGEST_POWER = 256
MOST_BITS, MOST_BITS_IN_ALL, MOST_TERMS = 20_000, 50_000_000, 5_000
"""The longest rational of an exact evaluation, the sum of the longest of every step, and the most irrational values."""

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
    """The larger of two balls and its slopes; None in their place where it is not decided which one is larger."""
    return x.max(y), (arb(int(x > y)), arb(int(y > x))) if x > y or y > x else None


def _smallest(x: arb, y: arb) -> tuple[arb, Slopes | None]:
    """The smaller of two balls and its slopes; None in their place where it is not decided which one is smaller."""
    return x.min(y), (arb(int(x < y)), arb(int(y < x))) if x < y or y < x else None


def _root(x: arb) -> tuple[arb, Slopes | None]:
    """The square root of a ball and its slope."""
    root = x.sqrt()
    return root, (1 / (2 * root),)


def _tanh(x: arb) -> tuple[arb, Slopes | None]:
    """The hyperbolic tangent of a ball and its slope."""
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
        """The value and the slopes of every step at x; a step that is not certainly finite rejects the certificate."""
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
        """The gradient, [n], of the step `output` by the elements, propagated backwards through the steps it reads."""
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


class Terms:
    """Exact values: a rational (fmpq), or the number of a term, which other multisets share.

    A term's ball, of 256 bits, says that it is defined, and decides comparisons with it.
    """

    def __init__(self) -> None:
        self.places: dict[tuple, int] = {}
        self.balls: list[arb] = []
        self.bits = 0

    def outputs(self, program: "Program", x: Sequence[Fraction]) -> list[fmpq | int]:
        """The values of the program's outputs at x."""
        elements = [fmpq(y.numerator, y.denominator) for y in x]
        values: list[fmpq | int] = []
        lengths: list[int] = []  # in bits; a term counts as one word
        with ctx.workprec(256):
            for number, (name, read, extra) in enumerate(program.steps):
                if name == "x":
                    value = elements[extra]
                elif name == "constant":
                    value = fmpq(extra.numerator, extra.denominator)
                else:
                    value = self._value(name, [values[i] for i in read], extra, number)
                lengths.append(64 if type(value) is int else value.height_bits())
                bits = max([lengths[-1], *[lengths[i] for i in read]])  # long numbers may have a short quotient
                self.bits += bits
                if bits > MOST_BITS or self.bits > MOST_BITS_IN_ALL:
                    require(False, f"step {number}: the numbers grow too long to be exact")
                values.append(value)
        return [values[i] for i in program.outputs]

    def _value(self, name: str, read: list[fmpq | int], extra: int | None, number: int) -> fmpq | int:
        """The exact value of an operation: a rational where that is possible, otherwise the number of its term."""
        if name in _RATIONAL and int not in map(type, read):
            if name == "/":
                require(read[1] != 0, f"step {number} (/) divides by 0")
            return _RATIONAL[name](*read)
        if name in ("max", "min", "abs"):
            return self._chosen(name, read, number)
        if name == "power" and type(read[0]) is fmpq:
            require(read[0].height_bits() * abs(extra) <= MOST_BITS, f"step {number} (power): a number grows too long")
            require(extra >= 0 or read[0] != 0, f"step {number} (power) divides by 0")
            return read[0] ** extra
        key = (name, extra, *(value if isinstance(value, int) else (value.p, value.q) for value in read))
        if key not in self.places:
            require(len(self.balls) < MOST_TERMS, f"more than {MOST_TERMS} values that are not rational")
            operands = [self._ball(value) for value in read]
            value = power(operands[0], extra) if name == "power" else OPERATIONS[name][1](*operands)[0]
            require(value.is_finite(), f"step {number} ({name}) is not certainly defined")
            self.places[key] = len(self.balls)
            self.balls.append(value)
        return self.places[key]

    def _chosen(self, name: str, read: list[fmpq | int], number: int) -> fmpq | int:
        """The larger, the smaller, or the absolute value, where a comparison decides it."""
        first, second = read if name != "abs" else (read[0], fmpq(0))
        if first == second and isinstance(first, int) == isinstance(second, int):
            return first
        x, y = self._ball(first), self._ball(second)
        if isinstance(first, fmpq) and isinstance(second, fmpq):
            larger = first > second
        else:
            require(x > y or x < y, f"step {number} ({name}): the comparison is not decided")
            larger = x > y
        if name == "abs":
            return first if larger else self._value("-", [fmpq(0), first], None, number)
        return first if larger == (name == "max") else second

    def _ball(self, value: fmpq | int) -> arb:
        """The ball around a value: around a term as it was made, around a rational at the working precision."""
        return self.balls[value] if isinstance(value, int) else arb(value)


_RATIONAL: dict[str, Callable[[fmpq, fmpq], fmpq]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def read_program(steps: object, outputs: object, n: int, longest: int = MOST_STEPS) -> Program:
    """The program that these fields describe, of n elements."""
    require(isinstance(steps, list) and 0 < len(steps) <= longest, f"steps must be a list of 1 to {longest} steps")
    most = 63 if longest == MOST_STEPS else longest
    require(isinstance(outputs, list) and 0 < len(outputs) <= most, f"outputs must be a list of 1 to {most} steps")
    read = tuple(_read_step(step, i, n) for i, step in enumerate(steps))
    chosen = tuple(natural(i, "an output", 0, len(steps) - 1) for i in outputs)
    require(longest > MOST_STEPS or len(set(chosen)) == len(chosen), "an output twice")
    return Program(read, chosen)


def require_affordable(steps: list[list], precision: int) -> None:
    """Reject a program whose steps have been read if it takes too long to evaluate at this precision."""
    work, most = sum(COST if step[0] in TRANSCENDENTAL else 1 for step in steps) * precision, MOST_STEPS * BITS
    require(
        work <= most,
        f"steps ({', '.join(sorted(TRANSCENDENTAL))} as {COST} each) times bits are {work}, where {most} are allowed",
    )


def canonical_program(program: dict) -> list[str]:
    """What the program says to agree, in one form: without steps that nothing reads, their numbers and their order."""
    digests: list[bytes] = []
    for name, *rest in program["steps"]:
        first = [] if name in ("x", "constant") else [digests[i] for i in (rest[:1] if name == "power" else rest)]
        digest = hashlib.sha256(f"{name} {len(first)} {rest[len(first) :]}".encode())
        for operand in first:
            digest.update(operand)
        digests.append(digest.digest())
    return sorted({digests[i].hex() for i in (*program["outputs"], *program.get("follow", ()))})


def require_consequences(program: Program, follow: object) -> None:
    """Reject unless the steps `follow` agree wherever the program's outputs do.

    A step agrees if its operands do; and an operand does if the step and the other operand do and the operation can be
    undone.
    """
    require(isinstance(follow, list) and len(follow) <= MOST_STEPS, "follow must be a list of steps")
    wanted = [natural(i, "a step that follows", 0, len(program.steps) - 1) for i in follow]
    constants = {i: extra for i, (name, _, extra) in enumerate(program.steps) if name == "constant"}
    agree = {*program.outputs, *constants}
    for _ in range(ROUNDS):
        before = len(agree)
        for i, (name, read, _) in enumerate(program.steps):
            if name not in ("x", "constant") and all(j in agree for j in read):
                agree.add(i)
        for i in reversed(range(len(program.steps))):
            if i in agree:
                agree.update(_undone(program.steps[i], agree, constants))
        if len(agree) == before:
            break
    missing = [i for i in wanted if i not in agree]
    require(not missing, f"that steps {missing[:10]} agree does not follow")


ROUNDS = 20


def _undone(step: tuple, agree: set[int], constants: dict[int, Fraction]) -> list[int]:
    """The operands that agree because the step and its other operands do."""
    name, read, extra = step
    if name in ("exp", "log", "sqrt", "tanh") or (name == "power" and extra % 2 == 1):
        return list(read)
    if name in ("+", "-"):
        return [j for j, other in (read, read[::-1]) if other in agree]
    if name in ("*", "/"):
        return [j for j, other in (read, read[::-1]) if constants.get(other, 0) != 0]
    return []


def _read_step(step: object, i: int, n: int) -> tuple[str, tuple[int, ...], int | Fraction | None]:
    """Step number i of a program of n elements: its name, the earlier steps it reads, and what else it needs."""
    require(type(step) is list and 2 <= len(step) <= 3 and type(step[0]) is str, f"step {i} is not a step")
    name, *rest = step
    if name == "constant" and len(rest) == 1:
        return name, (), rational(rest[0], f"step {i}")
    if name == "x" and len(rest) == 1:
        return name, (), natural(rest[0], f"the element of step {i}", 0, n - 1)
    if name == "power" and len(rest) == 2:
        exponent = natural(rest[1], f"the exponent of step {i}", -LARGEST_POWER, LARGEST_POWER)
        return name, (natural(rest[0], f"step {i}", 0, i - 1),), exponent
    earlier = all(type(j) is int and 0 <= j < i for j in rest)
    if not (name in OPERATIONS and len(rest) == OPERATIONS[name][0] and earlier):
        require(False, f"step {i} is not a step, or does not read earlier ones")
    return name, tuple(rest), None
