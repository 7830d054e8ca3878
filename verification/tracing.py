"""An aggregator written down as a program of elementary steps, which the independent checker can evaluate by itself.

The aggregator is called once, with elements that write down what is done with them. Comparisons are decided by the two
multisets it is to be checked on, and must be decided alike: then the program is what the function computes on both.
"""

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from flint import arb

from verification.smooth import Exact, NotSmoothError, Real, variables

__all__ = ["trace"]


@dataclass
class Tape:
    """The steps written so far, and where each is: the same step again is the same number."""

    steps: list[list] = field(default_factory=list)
    places: dict[tuple, int] = field(default_factory=dict)

    def index(self, *step: str | int) -> int:
        """Where the step is, written down if it is new."""
        if step not in self.places:
            self.places[step] = len(self.steps)
            self.steps.append(list(step))
        return self.places[step]


class Traced:
    """A number that writes down what is done with it; `values` are its balls at the two multisets."""

    __slots__ = ("index", "tape", "values")

    def __init__(self, tape: Tape, index: int, values: tuple[Real, ...]) -> None:
        self.tape, self.index, self.values = tape, index, values

    def _operand(self, other: "Traced | Exact") -> "Traced":
        if isinstance(other, Traced):
            return other
        if isinstance(other, numbers.Integral):
            exact = Fraction(int(other))
        elif isinstance(other, Fraction):
            exact = other
        elif isinstance(other, numbers.Real):
            exact = Fraction(float(other))
        else:
            raise TypeError(f"not an exact number: {other!r}")
        values = tuple(Real(arb(0), None) + exact for _ in self.values)
        return Traced(self.tape, self.tape.index("constant", str(exact)), values)

    def _step(self, name: str, function: Callable[..., Real], *operands: "Traced | Exact") -> "Traced":
        read = [self._operand(x) for x in operands]
        values = tuple(function(*balls) for balls in zip(*(x.values for x in read), strict=True))
        return Traced(self.tape, self.tape.index(name, *(x.index for x in read)), values)

    def __add__(self, other: "Traced | Exact") -> "Traced":
        return self._step("+", lambda x, y: x + y, self, other)

    def __radd__(self, other: "Traced | Exact") -> "Traced":
        return (
            self if isinstance(other, numbers.Integral) and other == 0 else self + other
        )  # the 0 that sum begins with

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
        if not isinstance(exponent, numbers.Integral):
            return (self.log() * exponent).exp()
        k = int(exponent)
        return Traced(self.tape, self.tape.index("power", self.index, k), tuple(x**k for x in self.values))

    def __abs__(self) -> "Traced":
        return self._step("abs", abs, self)

    def exp(self) -> "Traced":
        """e^x."""
        return self._step("exp", Real.exp, self)

    def log(self) -> "Traced":
        """The natural logarithm."""
        return self._step("log", Real.log, self)

    def sqrt(self) -> "Traced":
        """The root."""
        return self._step("sqrt", Real.sqrt, self)

    def tanh(self) -> "Traced":
        """The hyperbolic tangent."""
        return self._step("tanh", Real.tanh, self)

    def sin(self) -> "Traced":
        """The sine."""
        return self._step("sin", Real.sin, self)

    def cos(self) -> "Traced":
        """The cosine."""
        return self._step("cos", Real.cos, self)

    def conjugate(self) -> "Traced":
        """The number itself."""
        return self

    def _meeting(self, name: str, other: "Traced | Exact") -> "Traced":
        return self._step(name, lambda x, y: x._meeting(name, y), self, other)

    def __float__(self) -> float:
        return float(self.values[0])

    def __bool__(self) -> bool:
        return self != 0

    def __lt__(self, other: "Traced | Exact") -> bool:
        answers = {x < y for x, y in zip(self.values, self._operand(other).values, strict=True)}
        if len(answers) > 1:
            raise NotSmoothError("the aggregator compares, and goes another way on X than on Y")
        return answers.pop()

    def __gt__(self, other: "Traced | Exact") -> bool:
        return self._operand(other) < self

    def __le__(self, other: "Traced | Exact") -> bool:
        return not self > other

    def __ge__(self, other: "Traced | Exact") -> bool:
        return not self < other

    def __eq__(self, other: "Traced | Exact") -> bool:
        return self is other or not (self < other or self > other)

    def __ne__(self, other: "Traced | Exact") -> bool:
        return not self == other

    __hash__ = None


def trace(aggregators: Sequence[Callable], X: Sequence[arb], Y: Sequence[arb]) -> dict:
    """The description of the aggregators for a certificate: steps and outputs of what they compute on X and on Y."""
    pairs = list(zip(variables(X, False), variables(Y, False), strict=True))
    tape = Tape()
    elements = [Traced(tape, tape.index("x", i), pair) for i, pair in enumerate(pairs)]
    outputs = []
    for g in aggregators:
        result = elements[0]._operand(g(list(elements)))
        outputs.append(result.index)
    return {"name": "program", "steps": tape.steps, "outputs": outputs}
