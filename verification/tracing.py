"""Programs of elementary steps, written down from an aggregator, which the independent checker can evaluate.

The aggregator is called once, with elements that write down what is done with them. Comparisons are decided by the two
multisets it is to be checked on, and must be decided alike: then the program is what the function computes on both.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral

from verification.exact import fraction
from verification.smooth import Exact, NotSmoothError, Ordered

__all__ = ["Traced", "trace"]

LARGEST_POWER = 256


@dataclass
class Tape:
    """The steps written so far, each of them once, and the number of each."""

    steps: list[list] = field(default_factory=list)
    places: dict[tuple, int] = field(default_factory=dict)

    def index(self, *step: str | int) -> int:
        """The number of a step, which is written down if it is new."""
        if step not in self.places:
            self.places[step] = len(self.steps)
            self.steps.append(list(step))
        return self.places[step]


class Traced(Ordered):
    """A number that writes down what is done with it; `values` are its values at the two multisets."""

    __slots__ = ("index", "tape", "values")

    def __init__(self, tape: Tape, index: int, values: tuple) -> None:
        self.tape, self.index, self.values = tape, index, values

    def _operand(self, other: "Traced | Exact") -> "Traced":
        """The other operand as a traced number; a constant becomes a step."""
        if isinstance(other, Traced):
            return other
        exact = fraction(other)
        return Traced(self.tape, self.tape.index("constant", str(exact)), tuple(x._operand(exact) for x in self.values))

    def _step(self, name: str, function: Callable, *operands: "Traced | Exact") -> "Traced":
        """The result of an operation on these operands, written down as a step."""
        read = [self._operand(x) for x in operands]
        values = tuple(function(*numbers) for numbers in zip(*(x.values for x in read), strict=True))
        return Traced(self.tape, self.tape.index(name, *(x.index for x in read)), values)

    def __add__(self, other: "Traced | Exact") -> "Traced":
        return self._step("+", lambda x, y: x + y, self, other)

    def __radd__(self, other: "Traced | Exact") -> "Traced":
        return self if isinstance(other, Integral) and other == 0 else self + other  # the 0 that sum begins with

    def __sub__(self, other: "Traced | Exact") -> "Traced":
        return self._step("-", lambda x, y: x - y, self, other)

    def __rsub__(self, other: "Traced | Exact") -> "Traced":
        return self._step("-", lambda x, y: x - y, other, self)

    def __neg__(self) -> "Traced":
        return 0 - self

    def __mul__(self, other: "Traced | Exact") -> "Traced":
        return self._step("*", lambda x, y: x * y, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: "Traced | Exact") -> "Traced":
        return self._step("/", lambda x, y: x / y, self, other)

    def __rtruediv__(self, other: "Traced | Exact") -> "Traced":
        return self._step("/", lambda x, y: x / y, other, self)

    def __pow__(self, exponent: int | float | Fraction) -> "Traced":
        if not isinstance(exponent, Integral):
            return (self.log() * exponent).exp()
        k = int(exponent)
        if abs(k) > LARGEST_POWER:  # the largest exponent that a step may have
            return (self ** (k // 2)) * (self ** (k - k // 2))
        return Traced(self.tape, self.tape.index("power", self.index, k), tuple(x**k for x in self.values))

    def __abs__(self) -> "Traced":
        return self._step("abs", abs, self)

    def exp(self) -> "Traced":
        """e^x."""
        return self._step("exp", lambda x: x.exp(), self)

    def log(self) -> "Traced":
        """The natural logarithm."""
        return self._step("log", lambda x: x.log(), self)

    def sqrt(self) -> "Traced":
        """The root."""
        return self._step("sqrt", lambda x: x.sqrt(), self)

    def tanh(self) -> "Traced":
        """The hyperbolic tangent."""
        return self._step("tanh", lambda x: x.tanh(), self)

    def sin(self) -> "Traced":
        """The sine."""
        return self._step("sin", lambda x: x.sin(), self)

    def cos(self) -> "Traced":
        """The cosine."""
        return self._step("cos", lambda x: x.cos(), self)

    def _meeting(self, name: str, other: "Traced | Exact") -> "Traced":
        """The larger or the smaller of two numbers, where a comparison does not tell which one that is."""
        return self._step(name, lambda x, y: x._meeting(name, y), self, other)

    def __lt__(self, other: "Traced | Exact") -> bool:
        answers = {x < y for x, y in zip(self.values, self._operand(other).values, strict=True)}
        if len(answers) > 1:
            raise NotSmoothError("the aggregator compares, and goes another way on X than on Y")
        return answers.pop()


def trace(aggregators: Sequence[Callable], X: Sequence, Y: Sequence) -> tuple[dict, list[Traced]]:
    """The steps and outputs of what the aggregators compute on X and on Y, for a certificate; and their values.

    The elements of X and Y are numbers of `smooth` or of `exact`.
    """
    tape = Tape()
    elements = [Traced(tape, tape.index("x", i), pair) for i, pair in enumerate(zip(X, Y, strict=True))]
    results = [elements[0]._operand(g(list(elements))) for g in aggregators]
    return {"name": "program", "steps": tape.steps, "outputs": [result.index for result in results]}, results
