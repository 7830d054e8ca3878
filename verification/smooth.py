"""Numbers that aggregators compute with: a ball that is certain to contain the true value, and its gradient.

An aggregator under Theorem 1 is an ordinary Python function of a list of numbers, which are given in increasing order.
It may be written with + - * / **, abs, sum, len, sorted, max, min, comparisons, the functions of this module, and
numpy's functions of the same names, np.sum, np.mean, np.std, np.max and np.min. The same function then gives certified
enclosures of its value and (automatic differentiation, forward) of its gradient.

Nothing is ever guessed. A comparison that the balls do not decide raises NotSmoothError: where it is decided, the
function is one formula all over the ball. A value that is not certainly finite raises NotDefinedError, so that every
function is continuous wherever it has a value: a pole is never taken for a zero.
"""

import math
import numbers
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NoReturn

from flint import arb, fmpq

__all__ = [
    "UNDECIDED",
    "Exact",
    "NotDefinedError",
    "NotSmoothError",
    "Ordered",
    "Real",
    "absolute",
    "ball",
    "cbrt",
    "cos",
    "exp",
    "log",
    "maximum",
    "minimum",
    "power",
    "sin",
    "sqrt",
    "tanh",
    "variables",
]

Exact = int | float | Fraction | arb


class NotSmoothError(TypeError):
    """An aggregator did something that is not differentiable, or not decided, over the ball it was given."""


class NotDefinedError(ArithmeticError):
    """An aggregator's value is not certainly finite over its ball: a pole, say, or a root of a negative number."""


def ball(x: Exact) -> arb:
    """The ball around x at the working precision; exact where x fits, and never without x in it."""
    if isinstance(x, arb):
        return x
    if isinstance(x, numbers.Integral):
        return arb(int(x))
    if isinstance(x, Fraction):
        return arb(fmpq(x.numerator, x.denominator))
    if isinstance(x, numbers.Real):
        return arb(float(x))
    raise TypeError(f"not a number: {x!r}")


def power(x: arb, k: int) -> arb:
    """x^k for k ≥ 0; flint's own power of a ball around 0 is not a number."""
    if k == 0:
        return arb(1)
    half = power(x, k // 2)
    return half * half * x if k % 2 else half * half


class Ordered:
    """Comparisons for numbers that define `<`, and `_operand`, which makes a number of a constant."""

    __slots__ = ()
    __hash__ = None

    def __bool__(self) -> bool:
        return self != 0

    def __gt__(self, other: object) -> bool:
        return self._operand(other) < self

    def __le__(self, other: object) -> bool:
        return not self > other

    def __ge__(self, other: object) -> bool:
        return not self < other

    def __eq__(self, other: object) -> bool:
        return self is other or not (self < other or self > other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __float__(self) -> NoReturn:
        raise TypeError(
            "an element cannot become a float (math.exp, …): use numpy's functions or those of verification.smooth"
        )

    def cbrt(self) -> "Ordered":
        """The cube root, of numbers that are not 0."""
        return self ** Fraction(1, 3) if self > 0 else -((-self) ** Fraction(1, 3))

    def conjugate(self) -> "Ordered":
        """The number itself: what numpy's std asks for."""
        return self


UNDECIDED = "a comparison (max, min, sorted, if) is not decided here: the two sides meet or nearly so"


class Real(Ordered):
    """A real number known to lie in the ball `value`; `gradient` maps i to ∂/∂x_i, None where it was not asked for."""

    __slots__ = ("gradient", "value")

    def __init__(self, value: arb, gradient: dict[int, arb] | None) -> None:
        self.value = value
        self.gradient = gradient

    def _like(self, what: str, value: arb, *terms: "tuple[arb, Real]") -> "Real":
        """The number `value`, whose derivative is the sum of slope · derivative of operand."""
        if not value.is_finite():
            raise NotDefinedError(f"{what} is not defined, or not certainly, at {self.value.str(5)}")
        if self.gradient is None:
            return Real(value, None)
        gradient: dict[int, arb] = {}
        for slope, operand in terms:
            for i, derivative in operand.gradient.items():
                gradient[i] = gradient[i] + slope * derivative if i in gradient else slope * derivative
        return Real(value, gradient)

    def _operand(self, other: "Real | Exact") -> "Real":
        """The other operand as a Real; a constant must be finite, and its derivatives are 0."""
        if isinstance(other, Real):
            return other
        value = ball(other)
        if not value.is_finite():
            raise NotDefinedError(f"a constant is {other}")
        return Real(value, None if self.gradient is None else {})

    def __add__(self, other: "Real | Exact") -> "Real":
        other = self._operand(other)
        return self._like("a sum", self.value + other.value, (arb(1), self), (arb(1), other))

    def __neg__(self) -> "Real":
        return self._like("-x", -self.value, (arb(-1), self))

    def __sub__(self, other: "Real | Exact") -> "Real":
        return self + -self._operand(other)

    def __rsub__(self, other: "Real | Exact") -> "Real":
        return self._operand(other) - self

    def __mul__(self, other: "Real | Exact") -> "Real":
        other = self._operand(other)
        return self._like("a product", self.value * other.value, (other.value, self), (self.value, other))

    def __truediv__(self, other: "Real | Exact") -> "Real":
        other = self._operand(other)
        quotient = self.value / other.value
        return other._like("1/x", quotient, (1 / other.value, self), (-quotient / other.value, other))

    def __rtruediv__(self, other: "Real | Exact") -> "Real":
        return self._operand(other) / self

    def __pow__(self, exponent: int | float | Fraction) -> "Real":
        if not isinstance(exponent, numbers.Integral):  # a real power is defined for positive numbers only
            return (self.log() * exponent).exp()
        k = int(exponent)
        if k < 0:
            return 1 / self**-k
        slope = k * power(self.value, k - 1) if k else arb(0)
        return self._like(f"x^{k}", power(self.value, k), (slope, self))

    __radd__ = __add__
    __rmul__ = __mul__

    def __abs__(self) -> "Real":
        if self.value > 0:
            return self
        return -self if self.value < 0 else self._either("abs", abs(self.value))

    def _either(self, what: str, value: arb) -> "Real":
        """A value that is continuous, but has two formulas over the ball."""
        if self.gradient is not None:
            raise NotSmoothError(f"{what} is not smooth where its arguments meet")
        return Real(value, None)

    def _meeting(self, name: str, other: "Real | Exact") -> "Real":
        """The larger or the smaller of two that are not told apart."""
        return self._either(name, getattr(self.value, name)(self._operand(other).value))

    def exp(self) -> "Real":
        """e^x."""
        value = self.value.exp()
        return self._like("exp", value, (value, self))

    def log(self) -> "Real":
        """The natural logarithm."""
        return self._like("log", self.value.log(), (1 / self.value, self))

    def sqrt(self) -> "Real":
        """The root, of numbers that are not negative."""
        value = self.value.sqrt()
        return self._like("sqrt", value, (1 / (2 * value), self))

    def tanh(self) -> "Real":
        """The hyperbolic tangent."""
        value = self.value.tanh()
        return self._like("tanh", value, (1 - value * value, self))

    def sin(self) -> "Real":
        """The sine."""
        return self._like("sin", self.value.sin(), (self.value.cos(), self))

    def cos(self) -> "Real":
        """The cosine."""
        return self._like("cos", self.value.cos(), (-self.value.sin(), self))

    def __lt__(self, other: "Real | Exact") -> bool:
        difference = self.value - self._operand(other).value
        if difference < 0 or difference >= 0:
            return bool(difference < 0)
        raise NotSmoothError(UNDECIDED)


def variables(point: Sequence[arb], differentiate: bool) -> list[Real]:
    """The elements x_1 … x_n of a multiset, as the numbers that an aggregator is called with."""
    return [Real(x, {i: arb(1)} if differentiate else None) for i, x in enumerate(point)]


def _elementary(name: str) -> "Callable[[Real | Exact], Real | float]":
    """The function of that name for elements, which have it as a method, and for numbers, as in `math`."""

    def function(x: Real | Exact) -> Real | float:
        return getattr(x, name)() if hasattr(x, name) else getattr(math, name)(x)

    function.__name__, function.__doc__ = name, f"{name}(x), of a number or of an element of a multiset."
    return function


exp, log, sqrt, cbrt, tanh, sin, cos = map(_elementary, ("exp", "log", "sqrt", "cbrt", "tanh", "sin", "cos"))


def maximum(xs: "Sequence[Real]") -> Real:
    """The largest; where it is not unique it is continuous, but not smooth."""
    return _fold(xs, lambda x, y: x if x > y else y, lambda x, y: x._meeting("max", y))


def minimum(xs: "Sequence[Real]") -> Real:
    """The smallest; where it is not unique it is continuous, but not smooth."""
    return _fold(xs, lambda x, y: x if x < y else y, lambda x, y: x._meeting("min", y))


def absolute(x: Real) -> Real:
    """|x|; at 0 it is continuous, but not smooth."""
    return abs(x)


def _fold(xs: "Sequence[Real]", decided: Callable, meeting: Callable) -> Real:
    """The elements folded from the first on: by `decided` or, where a comparison is not decided, by `meeting`."""
    result = xs[0]
    for x in xs[1:]:
        try:
            result = decided(result, x)
        except NotSmoothError:
            result = meeting(result, x)
    return result
