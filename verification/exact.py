"""Exact numbers for aggregators: rationals, and terms for what is not rational.

An aggregator of rational numbers is computed without rounding. A root, an exponential or the like is a term: the
operation and its operands. Two terms are equal where they are the same, so what is proved equal is equal; what is not
proved may be equal all the same.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from numbers import Integral, Rational
from numbers import Real as RealNumber

from flint import arb

from verification.smooth import UNDECIDED, NotDefinedError, NotSmoothError, Ordered, ball, power

__all__ = ["ExactNumber", "elements", "fraction"]

MOST_BITS = 20_000
"""The longest rational."""

Key = Fraction | int
"""A rational, or the number of a term."""


def fraction(x: object) -> Fraction:
    """The rational that a constant is, floats included; raises TypeError for anything else."""
    if isinstance(x, Rational):
        return Fraction(int(x)) if isinstance(x, Integral) else Fraction(x)
    if isinstance(x, RealNumber):
        if float(x) != float(x) or float(x) in (float("inf"), float("-inf")):
            raise NotDefinedError(f"a constant is {x}")
        return Fraction(float(x))
    raise TypeError(f"not an exact number: {x!r}")


class ExactNumber(Ordered):
    """A rational, or a term; `terms` numbers the terms, and is shared by all numbers that are compared."""

    __slots__ = ("_value", "key", "terms")

    def __init__(self, key: Key, terms: dict, value: arb | None = None) -> None:
        self.key, self.terms, self._value = key, terms, value

    @property
    def value(self) -> arb:
        """The ball around the number, at the working precision."""
        return ball(self.key) if self._value is None else self._value

    def _operand(self, other: object) -> "ExactNumber":
        """The other operand as an exact number; a constant becomes a rational."""
        return other if isinstance(other, ExactNumber) else ExactNumber(fraction(other), self.terms)

    def _rational(self) -> bool:
        """Whether the number is rational, and not a term."""
        return not isinstance(self.key, int)

    def _term(self, name: tuple, value: arb, *operands: "ExactNumber") -> "ExactNumber":
        """The term of an operation on these operands; the same operation on the same operands is the same term.

        Raises NotDefinedError unless `value`, the ball around it, is finite.
        """
        if not value.is_finite():
            raise NotDefinedError(f"{name[0]} is not defined, or not certainly, at {self.value.str(5)}")
        key = (*name, *(x.key for x in operands), *(x._rational() for x in operands))
        return ExactNumber(self.terms.setdefault(key, len(self.terms)), self.terms, value)

    def _binary(self, name: str, function: Callable, other: object) -> "ExactNumber":
        """The result of an operation with another number: a rational if both are rational, otherwise a term."""
        other = self._operand(other)
        if self._rational() and other._rational():
            return ExactNumber(function(self.key, other.key), self.terms)
        return self._term((name,), function(self.value, other.value), self, other)

    def __add__(self, other: object) -> "ExactNumber":
        return self._binary("+", lambda x, y: x + y, other)

    def __radd__(self, other: object) -> "ExactNumber":
        return self if isinstance(other, int) and other == 0 else self._operand(other) + self

    def __sub__(self, other: object) -> "ExactNumber":
        return self._binary("-", lambda x, y: x - y, other)

    def __rsub__(self, other: object) -> "ExactNumber":
        return self._operand(other) - self

    def __neg__(self) -> "ExactNumber":
        return 0 - self

    def __mul__(self, other: object) -> "ExactNumber":
        return self._binary("*", lambda x, y: x * y, other)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> "ExactNumber":
        if self._operand(other).key == 0 and self._operand(other)._rational():
            raise NotDefinedError("1/x is not defined at 0")
        return self._binary("/", lambda x, y: x / y, other)

    def __rtruediv__(self, other: object) -> "ExactNumber":
        return self._operand(other) / self

    def __pow__(self, exponent: int | float | Fraction) -> "ExactNumber":
        if not isinstance(exponent, Integral):  # a real power is defined for positive numbers only
            return (self.log() * exponent).exp()
        k = int(exponent)
        if k < 0:
            return 1 / self**-k
        if not self._rational():
            return self._term(("power", k), power(self.value, k), self)
        if k * (self.key.numerator.bit_length() + self.key.denominator.bit_length()) > MOST_BITS:
            raise NotSmoothError(f"x^{k} is too long to be exact")
        return ExactNumber(self.key**k, self.terms)

    def __abs__(self) -> "ExactNumber":
        return -self if self < 0 else self

    def _meeting(self, name: str, other: object) -> "ExactNumber":
        """The larger or the smaller of the two."""
        other = self._operand(other)
        return other if (self < other) == (name == "max") else self

    def exp(self) -> "ExactNumber":
        """e^x."""
        return self._term(("exp",), self.value.exp(), self)

    def log(self) -> "ExactNumber":
        """The natural logarithm."""
        return self._term(("log",), self.value.log(), self)

    def sqrt(self) -> "ExactNumber":
        """The root, of numbers that are not negative."""
        return self._term(("sqrt",), self.value.sqrt(), self)

    def tanh(self) -> "ExactNumber":
        """The hyperbolic tangent."""
        return self._term(("tanh",), self.value.tanh(), self)

    def sin(self) -> "ExactNumber":
        """The sine."""
        return self._term(("sin",), self.value.sin(), self)

    def cos(self) -> "ExactNumber":
        """The cosine."""
        return self._term(("cos",), self.value.cos(), self)

    def __lt__(self, other: object) -> bool:
        other = self._operand(other)
        if self._rational() and other._rational():
            return self.key < other.key
        if self.key == other.key and self._rational() == other._rational():
            return False
        difference = self.value - other.value
        if difference < 0 or difference > 0:
            return bool(difference < 0)
        raise NotSmoothError(UNDECIDED)

    def same(self, other: "ExactNumber") -> bool:
        """Whether the two are proved equal."""
        return self._rational() == other._rational() and self.key == other.key


def elements(X: Sequence[Fraction], terms: dict) -> list[ExactNumber]:
    """The elements of a multiset, as the numbers that an aggregator is called with."""
    return [ExactNumber(x, terms) for x in X]
