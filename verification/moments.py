"""The appendix on normalised moments, and the softmax and softmin of the alternative aggregators.

Claims: for X ~ U[0, L] the n-th root moment M_n scales linearly in L, the plain central moment as L^n, the
standardised one not at all; max and min of positive values are the limits of (E[X^n])^(1/n) as n -> ±∞; softmax and
softmin are differentiable stand-ins for max and min.

Established:
- the three scalings for U[0, L], from the integral, for every even n asked for (`uniform_moment`, `degree_in`). For
  odd n the moment of U[0, L] is 0, so the claim says nothing there;
- the same three for every multiset, odd n included: E[(λX - λμ)^n] = λ^n E[(X - μ)^n] as a polynomial identity
  (`homogeneous`). ε breaks it: √(σ² + ε) does not scale;
- max/d^(1/n) ≤ (E[X^n])^(1/n) ≤ max and min ≤ (E[X^-n])^(-1/n) ≤ min·d^(1/n) for positive X of size d, exactly
  (`power_mean_bounds`), and d^(1/n) -> 1 (`bounds_meet`);
- mean ≤ softmax ≤ max and min ≤ softmin ≤ mean: by Chebyshev's sum identity (`chebyshev_identity`), whose terms
  (x_j - x_k)(w_j - w_k) are not negative since w = exp(x) increases; certified in balls on examples (`softmax_ball`).

Not established: the appendix's experimental claims about stability and overfitting.
"""

from collections.abc import Sequence
from fractions import Fraction

import sympy
from flint import arb

from verification.smooth import ball

__all__ = [
    "bounds_meet",
    "chebyshev_identity",
    "degree_in",
    "homogeneous",
    "power_mean_bounds",
    "softmax_ball",
    "softmin_ball",
    "uniform_moment",
]

L = sympy.Symbol("L", positive=True)


def uniform_moment(n: int) -> dict[str, sympy.Expr]:
    """The three normalisations of the n-th moment of U[0, L], from the integral."""
    x = sympy.Symbol("x", real=True)

    def central(k: int) -> sympy.Expr:
        return sympy.integrate((x - L / 2) ** k / L, (x, 0, L))

    return {
        "root": sympy.root(central(n), n),
        "plain": central(n),
        "standardised": sympy.simplify(central(n) / sympy.sqrt(central(2)) ** n),
    }


def degree_in(expression: sympy.Expr, symbol: sympy.Symbol = L) -> sympy.Expr:
    """The p of an expression c · symbol^p, as its logarithmic derivative; not a number if it has no such form."""
    return sympy.simplify(symbol * sympy.diff(expression, symbol) / expression)


def homogeneous(n: int, size: int) -> bool:
    """Whether E[(λX - λμ)^n] = λ^n E[(X - μ)^n] for every multiset of this size, as polynomials."""
    ring, scale, *x = sympy.ring(f"scale x1:{size + 1}", sympy.QQ)

    def central(elements: Sequence) -> sympy.Expr:
        mu = sum(elements, ring.zero) / size
        return sum(((y - mu) ** n for y in elements), ring.zero) / size

    return central([scale * y for y in x]) == scale**n * central(x)


def power_mean_bounds(x: Sequence[Fraction], n: int) -> bool:
    """Whether max^n/d ≤ E[X^n] ≤ max^n (n > 0), or the same for 1/min (n < 0): n-th powers of the claim's bounds."""
    d, extreme = len(x), max(x) if n > 0 else min(x)
    moment = sum((Fraction(y) ** n for y in x), Fraction(0)) / d
    return Fraction(extreme) ** n / d <= moment <= Fraction(extreme) ** n


def bounds_meet() -> bool:
    """Whether d^(1/n) -> 1, so that the two bounds have one limit."""
    d, n = sympy.symbols("d n", positive=True)
    return sympy.limit(d ** (1 / n), n, sympy.oo) == 1


def chebyshev_identity(size: int) -> bool:
    """Whether d Σ x_j w_j - Σ x_j Σ w_j = Σ_(j<k) (x_j - x_k)(w_j - w_k), as polynomials."""
    ring, *unknowns = sympy.ring(f"x1:{size + 1} w1:{size + 1}", sympy.QQ)
    x, w = unknowns[:size], unknowns[size:]
    left = size * sum((a * b for a, b in zip(x, w, strict=True)), ring.zero) - sum(x, ring.zero) * sum(w, ring.zero)
    pairs = ((j, k) for k in range(size) for j in range(k))
    return left == sum(((x[j] - x[k]) * (w[j] - w[k]) for j, k in pairs), ring.zero)


def softmax_ball(x: Sequence[Fraction]) -> arb:
    """softmax(X) = Σ x exp(x) / Σ exp(x), enclosed."""
    weights = [ball(y).exp() for y in x]
    return sum((ball(y) * w for y, w in zip(x, weights, strict=True)), arb(0)) / sum(weights, arb(0))


def softmin_ball(x: Sequence[Fraction]) -> arb:
    """softmin(X) = -softmax(-X), enclosed."""
    return -softmax_ball([-y for y in x])
