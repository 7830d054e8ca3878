"""Theorem 2: mean with an injective scaler generates injective functions on bounded multisets of countable elements.

With an injection Z of the feature space into 1, 2, 3, …, a base N > |X| + 1 and a positive injective scaler s, the
proof takes
    f(x) = N^(-Z(x)) + K,   h(X) = s(|X|) E[f(x)],   K > 1/(γ - 1),   γ = min { s(i)/s(j) : s(i) > s(j) },
and reads off h(X) first the size (h/s(|X|) lies in [K, K + 1] for one size only), then the elements, as digits in
base N.

Established:
- `encode` and `decode` are inverse to each other: exactly over the rationals for the linear scaler (GIN's sum is
  the case s(d) = d), for its inverse, and for any injective table of positive rationals; in certified balls for the
  logarithmic scalers of the paper, amplification and attenuation. The feature space is infinite: Z is any positive
  integer;
- hypotheses that cannot be dropped, each by an exact collision: the offset K (`without_offset`: {a} and {a, b, b},
  and a pair that also has |X| + 1 < N), its size (`below_the_bound`), injectivity of the scaler, a scaler at all
  (mean alone, both `not_injective`), and the base (`base_too_small`);
- the step of the proof that bounds K, for any real positive scaler (`size_step`, sympy);
- how tight the bound on K is. Since Z ≥ 1, E[N^-Z] ≤ 1/N, so already K ≥ 1/(N (γ - 1)) determines the size; below
  that there are collisions for values of K arbitrarily near to it. If Z could be 0, the same would hold at the
  paper's 1/(γ - 1).

Not established here: the whole theorem, for every scaler and all sizes, which is proved formally
(`formal/theorem_2.v`). Checked are its inequality, symbolically; its code, on the scalers above and the sizes given;
that its hypotheses are needed; and the repairs of its text in `slips`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import sympy
from flint import arb

from verification.smooth import ball

__all__ = [
    "AmbiguousError",
    "Encoding",
    "base_too_small",
    "below_the_bound",
    "gamma",
    "integers_to_naturals",
    "inverse_linear",
    "linear",
    "log_ratios",
    "logarithmic",
    "not_injective",
    "size_step",
    "without_offset",
]

Scaler = Mapping[int, Fraction | arb]
Multiset = tuple[int, ...]
"""Elements by their number Z(x) = 1, 2, 3, …"""


class AmbiguousError(ArithmeticError):
    """The value of h does not determine one multiset."""


def linear(largest: int) -> dict[int, Fraction]:
    """s(d) = d: mean times d is GIN's sum."""
    return {d: Fraction(d) for d in range(1, largest + 1)}


def inverse_linear(largest: int) -> dict[int, Fraction]:
    """s(d) = 1/d."""
    return {d: Fraction(1, d) for d in range(1, largest + 1)}


def logarithmic(largest: int, alpha: int) -> dict[int, arb]:
    """s(d) = log(d + 1)^α as balls; 1/δ^α is a constant factor of every h, and left out."""
    return {d: arb(d + 1).log() ** alpha for d in range(1, largest + 1)}


def gamma(s: Scaler) -> Fraction | arb:
    """γ, the smallest ratio s(i)/s(j) with s(i) > s(j); with ≥, as printed, i = j would make it 1."""
    values = list(s.values())
    ratios = [a / b for a in values for b in values if a > b]
    if not ratios:
        raise ValueError("γ is a minimum over pairs of different scalers: at least two sizes are needed")
    smallest = ratios[0]
    for ratio in ratios[1:]:
        smallest = smallest.min(ratio) if isinstance(ratio, arb) else min(smallest, ratio)
    return smallest


@dataclass(frozen=True)
class Encoding:
    """The function h of the proof: a scaler for the sizes 1 … |X|, the base N and the offset K."""

    s: Scaler
    N: int
    K: Fraction

    @classmethod
    def of(cls, s: Scaler) -> "Encoding":
        """The encoding with the smallest base, and an integer offset, that satisfy the proof's hypotheses."""
        bound = 1 / (gamma(s) - 1)
        K = int(bound.upper().ceil().unique_fmpz()) + 1 if isinstance(bound, arb) else ceil(bound) + 1
        return cls(s, max(s) + 2, Fraction(K))

    def encode(self, X: Multiset) -> Fraction | arb:
        """h(X) = s(|X|) E[f]."""
        mean = sum((Fraction(1, self.N**z) for z in X), Fraction(0)) / len(X) + self.K
        return _times(self.s[len(X)], mean)

    def size(self, h: Fraction | arb) -> int:
        """|X| from h(X): the one d with K ≤ h/s(d) ≤ K + 1."""
        sizes = [d for d, v in self.s.items() if not (h < _times(v, self.K) or h > _times(v, self.K + 1))]
        if len(sizes) != 1:
            raise AmbiguousError(f"the size may be any of {sizes}")
        return sizes[0]

    def decode(self, h: Fraction | arb, depth: int | None = None) -> Multiset:
        """X from h(X). A ball can only be read up to a known number of digits, `depth` ≥ Z(x) for all x in X."""
        d = self.size(h)
        rest = _times(h / self.s[d], Fraction(d)) - _like(h, self.K * d)
        if isinstance(rest, arb):
            integer = _times(rest, Fraction(self.N**depth)).unique_fmpz()
            if integer is None:
                raise AmbiguousError(f"the ball {h} is too wide for {depth} digits in base {self.N}")
            rest = Fraction(int(integer), self.N**depth)
        return self._digits(rest, d)

    def _digits(self, rest: Fraction, d: int) -> Multiset:
        """The multiset of size d whose Σ N^-Z is `rest`: its digits in base N."""
        X: list[int] = []
        z = 0
        while rest > 0 and len(X) <= d:
            z += 1
            digit, rest = divmod(rest * self.N, 1)
            X += [z] * digit
        if len(X) != d or rest:
            raise AmbiguousError("the digits are not those of a multiset of this size: there was a carry")
        return tuple(X)


def integers_to_naturals(x: int) -> int:
    """An injection Z of an infinite feature space: 0, 1, -1, 2, -2, … become 1, 2, 3, 4, 5, …"""
    return 2 * x if x > 0 else 1 - 2 * x


def below_the_bound(
    s: Mapping[int, Fraction], N: int, last: int, first: int = 1
) -> tuple[Fraction, Multiset, Multiset]:
    """An offset 0 < K < 1/(N^first (γ - 1)) and two multisets of different sizes with one value of h.

    Of the two sizes whose scalers have the ratio γ, the one with the smaller scaler has every element at digit `first`,
    the other every element at digit `last`. As `last` grows, K rises towards 1/(N^first (γ - 1)).
    """
    i, j = min(((i, j) for i in s for j in s if s[j] > s[i]), key=lambda pair: s[pair[1]] / s[pair[0]])
    ratio = s[j] / s[i]
    K = (Fraction(1, N**first) - ratio * Fraction(1, N**last)) / (ratio - 1)
    return K, (first,) * i, (last,) * j


def without_offset() -> dict[int, tuple[Multiset, Multiset]]:
    """N -> two multisets with one value of h for K = 0 under s(d) = log(d + 1), by log 4 = 2 log 2 and log 8 = 3 log 2.

    The pair for N = 4, {a} and {a, b, b}, has |X| + 1 = N, which the theorem excludes; that for N = 15 has |X| + 1 = 8.
    """
    return {4: ((1,), (1, 2, 2)), 15: ((1,), (1, 1, 2, 2, 2, 2, 2))}


def not_injective(s: Mapping[int, Fraction]) -> tuple[Multiset, Multiset]:
    """Two multisets with one value of h, whatever N and K, for a scaler that repeats a value; mean alone is s = 1."""
    for i in s:
        for j in s:
            if i < j and s[i] == s[j]:
                return (1,) * i, (1,) * j
    raise ValueError("the scaler is injective")


def base_too_small(B: int) -> tuple[Multiset, Multiset]:
    """Two multisets of one size B + 1 with one value of h in base B: B digits of one place carry to the one before."""
    return (1, *(3,) * B), (2,) * (B + 1)


def _times(x: Fraction | arb, q: Fraction) -> Fraction | arb:
    """The product of x and a rational: exact, or a ball if x is one."""
    return x * _like(x, q)


def _like(x: Fraction | arb, q: Fraction) -> Fraction | arb:
    """The rational q as x is: exact, or a ball if x is one."""
    return ball(q) if isinstance(x, arb) else q


def size_step() -> sympy.Expr:
    """1/(ρ - 1) - K for any two multisets of one h, with ρ = s(|X'|)/s(|X''|) > 1: what the proof says is not negative.

    K is solved from s(|X'|) (K + m') = s(|X''|) (K + m''), m the mean of N^-Z. With m'' = 1 - a the result is
    (a + ρ m')/(ρ - 1), and a, m' ≥ 0. Since ρ ≥ γ, K ≤ 1/(ρ - 1) ≤ 1/(γ - 1) follows.
    """
    rho, K = sympy.symbols("rho K", positive=True)
    a, m = sympy.symbols("a m", nonnegative=True)
    (solution,) = sympy.solve(sympy.Eq(rho * (K + m), K + 1 - a), K)
    return sympy.factor(1 / (rho - 1) - solution)


def log_ratios(sizes: Sequence[int]) -> dict[int, Fraction]:
    """s(d) / log 2 for sizes d = 2^e - 1, where log(d + 1) = e log 2 makes the logarithmic scaler rational."""
    exponents = {d: (d + 1).bit_length() - 1 for d in sizes}
    if any(2**e != d + 1 for d, e in exponents.items()):
        raise ValueError("d + 1 must be a power of 2")
    return {d: Fraction(e) for d, e in exponents.items()}
