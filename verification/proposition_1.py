"""Proposition 1: the moments of a multiset are n aggregators that discriminate between multisets of size n.

The proof goes  X -> μ, M_2 … M_n -> p_k = n M_k^k -> e_k (Newton) -> coefficients a_i (Vieta) -> roots R -> X = R + μ.

Established:
- Newton's identities and Vieta's formulas as polynomial identities in n unknowns, n up to 8 (`newtons_identities`,
  `vietas_formulas`, sympy), the latter with the corrected index a_i = (-1)^(n-i) e_(n-i);
- the whole round trip, exactly over the rationals, for multisets with repeated elements and n up to 64:
  `central_moments`, then `from_central_moments`. The exact form of the aggregator M_k is its k-th power M_k^k =
  E[(X - μ)^k];
- that the k-th power loses nothing if the root is signed: `signed_root` is odd and its k-th power is the moment,
  for odd k as well, where the expectation may be negative. With the root of the absolute value the proposition is
  false (`slips`);
- multisets of unknown size, by one more aggregator that is a mean times an injective scaler: `size_from`, then
  `from_moments_and_size`.

Measured, not proved: `float_error`, the loss of the round trip in floating point.

Not established: anything for real elements beyond what the identities say; real roots are not computed, only rational
ones. The identities make the step from moments to polynomial valid for reals; that a polynomial determines its roots is
unique factorisation, cited.
"""

import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import lcm, prod

import numpy as np
import sympy
from flint import arb, ctx, fmpq, fmpq_mat, fmpq_poly, fmpz_poly

__all__ = [
    "central_moments",
    "coefficients",
    "elementary_from_power_sums",
    "float_error",
    "from_central_moments",
    "from_moments_and_size",
    "meeting_error",
    "newtons_identities",
    "predicted_error",
    "sample",
    "signed_root",
    "size_from",
    "vietas_formulas",
]


def elementary_from_power_sums(p: Sequence, one: object = 1) -> list:
    """Newton's identities: e_0 … e_n from p_1 … p_n, with e_k = 1/k Σ_(j=1)^k (-1)^(j-1) e_(k-j) p_j, e_0 = one."""
    e = [one]
    for k in range(1, len(p) + 1):
        e.append(sum((-1) ** (j - 1) * e[k - j] * p[j - 1] for j in range(1, k + 1)) / k)
    return e


def coefficients(e: Sequence) -> list:
    """Vieta's formulas: a_0 … a_n of Π (x - r_i) from e_0 … e_n, with a_i = (-1)^(n-i) e_(n-i)."""
    n = len(e) - 1
    return [(-1) ** (n - i) * e[n - i] for i in range(n + 1)]


def newtons_identities(n: int) -> bool:
    """Whether the recursion gives the elementary symmetric sums of n unknowns, as polynomials."""
    ring, *r = sympy.ring(f"r1:{n + 1}", sympy.QQ)
    e = elementary_from_power_sums([sum(x**k for x in r) for k in range(1, n + 1)], ring.one)
    return e == [sum((prod(c, start=ring.one) for c in combinations(r, k)), ring.zero) for k in range(n + 1)]


def vietas_formulas(n: int) -> bool:
    """Whether `coefficients` gives the coefficients of Π (x - r_i) in n unknowns, as polynomials."""
    ring, *r = sympy.ring(f"r1:{n + 1}", sympy.QQ)
    e = [sum((prod(c, start=ring.one) for c in combinations(r, k)), ring.zero) for k in range(n + 1)]
    expanded = [ring.one]  # a_0 … a_i of the product of the first i factors
    for y in r:
        expanded = [low - y * high for low, high in zip([ring.zero, *expanded], [*expanded, ring.zero], strict=True)]
    return coefficients(e) == expanded


def central_moments(x: Sequence[Fraction]) -> tuple[Fraction, list[Fraction]]:
    """μ and E[(X - μ)^k] for k = 2 … n, that is M_k^k."""
    n = len(x)
    mu = sum(x, Fraction(0)) / n
    powers = [y - mu for y in x]
    centred, moments = list(powers), []
    for _ in range(2, n + 1):
        powers = [a * b for a, b in zip(powers, centred, strict=True)]
        moments.append(sum(powers, Fraction(0)) / n)
    return mu, moments


def from_central_moments(mu: Fraction, moments: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """The multiset of rationals with these moments; its size is one more than their number."""
    n = len(moments) + 1
    p = [fmpq(0), *(n * _fmpq(m) for m in moments)]
    roots = _rational_roots(coefficients(elementary_from_power_sums(p, fmpq(1))))
    if len(roots) != n:
        raise ArithmeticError(f"these are not the moments of {n} rationals: the polynomial has other roots")
    return tuple(sorted(r + mu for r in roots))


def size_from(scaled: Fraction, unscaled: Fraction, s: Mapping[int, Fraction]) -> int:
    """The size of a multiset from one more aggregator: `scaled` is s(|X|) times `unscaled`, with s injective.

    The paper scales the mean of X, which says nothing where the mean is 0 (`slips`); the mean of a constant, E[1] = 1,
    always does.
    """
    if len(set(s.values())) < len(s):
        raise ValueError("the scaler is not injective, so the size cannot be inferred")
    if unscaled == 0:
        raise ValueError("0 times any scaler is 0, so the size cannot be inferred")
    return {value: size for size, value in s.items()}[scaled / unscaled]


def from_moments_and_size(mu: Fraction, moments: Sequence[Fraction], n: int) -> tuple[Fraction, ...]:
    """The multiset of n elements from its first moments, of which there may be more than n - 1."""
    return from_central_moments(mu, moments[: n - 1])


def signed_root(value: arb, k: int) -> arb:
    """The real k-th root; for odd k of a negative number it is negative, for even k there is none."""
    if value >= 0:
        return value.root(k)
    if k % 2 == 1 and value < 0:
        return -((-value).root(k))
    raise ValueError(f"{value} has no real root of order {k}, or its sign is not decided")


def _rational_roots(a: Sequence[fmpq]) -> list[Fraction]:
    """The rational roots of Σ a_i x^i with their multiplicities."""
    denominator = lcm(*(int(c.q) for c in a))
    _, factors = fmpz_poly([int(c.p) * (denominator // int(c.q)) for c in a]).factor()
    roots = []
    for factor, multiplicity in factors:
        if factor.degree() == 1:
            roots += [Fraction(-int(factor[0]), int(factor[1]))] * multiplicity
    return roots


def _fmpq(x: Fraction) -> fmpq:
    """The rational as a number of flint."""
    return fmpq(x.numerator, x.denominator)


def sample(n: int) -> tuple[Fraction, ...]:
    """n distinct multiples of 1/1000 in [-1, 1], drawn with n as the seed: the same for every precision."""
    return tuple(sorted(Fraction(k, 1000) for k in random.Random(n).sample(range(-1000, 1001), n)))


def float_error(n: int, arithmetic: type[np.floating] | int, x: Sequence[Fraction] | None = None) -> float:
    """The largest error of an element after the round trip of x or `sample(n)`, in a numpy type or in that many bits.

    Newton's identities and the roots are computed in the arithmetic itself; the moments are exact and then rounded
    once, so that the figure shows what the aggregators' precision costs. Elements are matched in increasing order.
    """
    x = sample(n) if x is None else x
    mu, moments = central_moments(x)
    p = [Fraction(0), *(n * m for m in moments)]
    if isinstance(arithmetic, int):
        roots = _roots_with_bits(p, arithmetic)
    else:
        e = elementary_from_power_sums([arithmetic(y) for y in p], arithmetic(1))
        roots = sorted(Fraction(float(r)) for r in np.roots(np.array(coefficients(e)[::-1], dtype=arithmetic)).real)
    return float(max(abs(r + mu - y) for r, y in zip(roots, x, strict=True)))


def predicted_error(x: Sequence[Fraction], unit: float = 2.0**-53) -> float:
    """The error, to first order, that rounding each moment of x once can cause in an element: |J⁻¹| |M| unit.

    J is the derivative of mean and central moments by the elements, inverted exactly. |J⁻¹| is the local Lipschitz
    constant of Proposition 1's inverse, which has no bound: it is infinite where two elements meet.
    """
    n, (mu, moments) = len(x), central_moments(x)
    M = [Fraction(1), Fraction(0), *moments]
    rows = [[Fraction(1, n)] * n]
    rows += [[Fraction(k, n) * ((y - mu) ** (k - 1) - M[k - 1]) for y in x] for k in range(2, n + 1)]
    inverse = fmpq_mat([[_fmpq(entry) for entry in row] for row in rows]).inv()
    largest = max(sum(abs(inverse[i, k - 1]) * abs(_fmpq(M[k])) for k in range(2, n + 1)) for i in range(n))
    return float(Fraction(int(largest.p), int(largest.q))) * unit


def meeting_error(t: Fraction) -> tuple[float, float]:
    """For {1 + t, 1 - t, -2} and {1, 1, -2}: how far their moments are apart, and how far they are themselves."""
    moments = [central_moments(x)[1] for x in ((1 + t, 1 - t, Fraction(-2)), (Fraction(1), Fraction(1), Fraction(-2)))]
    return float(max(abs(a - b) for a, b in zip(*moments, strict=True))), float(t)


def _roots_with_bits(p: Sequence[Fraction], bits: int) -> list[Fraction]:
    """The real parts of the roots; each operation of Newton's identities is rounded to the given number of bits."""
    with ctx.workprec(bits):
        e = [arb(1)]
        rounded = [arb(_fmpq(y)).mid() for y in p]
        for k in range(1, len(p) + 1):
            total = arb(0)
            for j in range(1, k + 1):
                total = (total + ((-1) ** (j - 1) * e[k - j] * rounded[j - 1]).mid()).mid()
            e.append((total / k).mid())
        polynomial = fmpq_poly([c.fmpq() for c in coefficients(e)])
        parts = [(root.real.mid().fmpq(), multiplicity) for root, multiplicity in polynomial.complex_roots()]
    return sorted(Fraction(int(q.p), int(q.q)) for q, multiplicity in parts for _ in range(multiplicity))
