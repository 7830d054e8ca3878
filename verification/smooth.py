"""Numbers that aggregators compute with: a ball that is certain to contain the true value, and its gradient.

An aggregator under Theorem 1 is an ordinary Python function of a list of numbers, written with + - * / **, `sum`,
`len` and the functions of this module. The same function then gives certified enclosures of its value and (automatic
differentiation, forward) of its gradient. A comparison between numbers would make it not smooth, or not even
continuous, so it raises NotSmoothError instead of giving a wrong enclosure; `maximum`, `minimum` and `absolute` are
continuous, and allowed where no gradient is asked for (n = 2).
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NoReturn

from flint import arb, fmpq

__all__ = [
    "Exact",
    "NotSmoothError",
    "Real",
    "absolute",
    "ball",
    "cos",
    "exp",
    "log",
    "maximum",
    "minimum",
    "sin",
    "sqrt",
    "tanh",
    "variables",
]

Exact = int | float | Fraction | arb


class NotSmoothError(TypeError):
    """An aggregator did something that is not differentiable, where Theorem 1's certificate needs a derivative."""


def ball(x: Exact) -> arb:
    """The ball around x at the working precision; exact where x fits, and never without x in it."""
    if not isinstance(x, Exact):
        raise TypeError(f"not a number: {x!r}")
    return arb(fmpq(x.numerator, x.denominator)) if isinstance(x, Fraction) else arb(x)


class Real:
    """A real number known to lie in the ball `value`; `gradient` maps i to ∂/∂x_i, None where it was not asked for."""

    __slots__ = ("gradient", "value")

    def __init__(self, value: arb, gradient: dict[int, arb] | None) -> None:
        self.value = value
        self.gradient = gradient

    def _like(self, value: arb, *terms: "tuple[arb, Real]") -> "Real":
        """The number `value`, whose derivative is the sum of slope · derivative of operand."""
        if self.gradient is None:
            return Real(value, None)
        gradient: dict[int, arb] = {}
        for slope, operand in terms:
            for i, derivative in operand.gradient.items():
                gradient[i] = gradient[i] + slope * derivative if i in gradient else slope * derivative
        return Real(value, gradient)

    def _operand(self, other: "Real | Exact") -> "Real":
        if isinstance(other, Real):
            return other
        return Real(ball(other), None if self.gradient is None else {})

    def __add__(self, other: "Real | Exact") -> "Real":
        other = self._operand(other)
        return self._like(self.value + other.value, (arb(1), self), (arb(1), other))

    def __neg__(self) -> "Real":
        return self._like(-self.value, (arb(-1), self))

    def __sub__(self, other: "Real | Exact") -> "Real":
        return self + -self._operand(other)

    def __rsub__(self, other: "Real | Exact") -> "Real":
        return self._operand(other) - self

    def __mul__(self, other: "Real | Exact") -> "Real":
        other = self._operand(other)
        return self._like(self.value * other.value, (other.value, self), (self.value, other))

    def __truediv__(self, other: "Real | Exact") -> "Real":
        other = self._operand(other)
        quotient = self.value / other.value
        return self._like(quotient, (1 / other.value, self), (-quotient / other.value, other))

    def __rtruediv__(self, other: "Real | Exact") -> "Real":
        return self._operand(other) / self

    def __pow__(self, exponent: int | float | Fraction) -> "Real":
        if not isinstance(exponent, int):  # a real power is defined for positive numbers only
            return exp(log(self) * exponent)
        if exponent == 0:
            return self._operand(1)
        return self._like(self.value**exponent, (exponent * self.value ** (exponent - 1), self))

    __radd__ = __add__
    __rmul__ = __mul__

    def __abs__(self) -> NoReturn:
        raise NotSmoothError("abs() is not smooth; where n = 2, smooth.absolute will do")

    def __float__(self) -> NoReturn:
        raise NotSmoothError("an element cannot become a float (math.exp, numpy, …): use the functions of smooth")

    def _compare(self, *_: object) -> NoReturn:
        raise NotSmoothError(
            "comparing elements (max, min, sorted, if) is not smooth; where n = 2, smooth.maximum and smooth.minimum do"
        )

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __bool__ = _compare
    __hash__ = None


def variables(point: Sequence[arb], differentiate: bool) -> list[Real]:
    """The elements x_1 … x_n of a multiset, as the numbers that an aggregator is called with."""
    return [Real(x, {i: arb(1)} if differentiate else None) for i, x in enumerate(point)]


def _elementary(
    name: str, of_ball: Callable[[arb], arb], slope: Callable[[arb, arb], arb]
) -> "Callable[[Real | Exact], Real | float]":
    """A smooth function of one number; `slope` gives its derivative from x and the value at x."""

    def function(x: Real | Exact) -> Real | float:
        if not isinstance(x, Real):
            return getattr(math, name)(x)
        value = of_ball(x.value)
        return x._like(value, (slope(x.value, value), x))

    function.__name__, function.__doc__ = name, f"{name}(x), of a number or of an element of a multiset."
    return function


exp = _elementary("exp", lambda x: x.exp(), lambda x, y: y)
log = _elementary("log", lambda x: x.log(), lambda x, y: 1 / x)
sqrt = _elementary("sqrt", lambda x: x.sqrt(), lambda x, y: 1 / (2 * y))
tanh = _elementary("tanh", lambda x: x.tanh(), lambda x, y: 1 - y * y)
sin = _elementary("sin", lambda x: x.sin(), lambda x, y: x.cos())
cos = _elementary("cos", lambda x: x.cos(), lambda x, y: -x.sin())


def maximum(xs: Sequence[Real]) -> Real:
    """The largest element: continuous, not smooth."""
    return _fold(xs, lambda x, y: x.max(y), "maximum")


def minimum(xs: Sequence[Real]) -> Real:
    """The smallest element: continuous, not smooth."""
    return _fold(xs, lambda x, y: x.min(y), "minimum")


def absolute(x: Real) -> Real:
    """|x|: continuous, not smooth."""
    return _fold([x, -x], lambda a, b: a.max(b), "absolute")


def _fold(xs: Sequence[Real], of_balls: Callable[[arb, arb], arb], name: str) -> Real:
    if xs[0].gradient is not None:
        raise NotSmoothError(f"smooth.{name} is continuous but not smooth: it may be used for n = 2 only")
    value = xs[0].value
    for x in xs[1:]:
        value = of_balls(value, x.value)
    return Real(value, None)
