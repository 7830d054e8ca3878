"""Slips in the published proofs and text: each stated, shown by an instance that fails, repaired, and checked again.

A *slip* is a sentence that is false as printed; a *loose end* is true, or meant rightly, but says less or asks for more
than it seems, or does not follow; an *improvement* is a sharper constant. Four slips are known: three in proofs, two of
Theorem 2 (`gamma`, `Z`) and one of Proposition 1 (`index`), whose statements hold; and the note after Proposition 1
(`mean_is_zero`), which is false. Theorem 1, Proposition 1 and Theorem 2 are proved formally. Theorem 2 needs a scaler
that is nowhere 0, and Proposition 1 the signed root.

Established for each entry of SLIPS: `fails()` is true, that is, the printed version fails on the instance given;
and `holds()` is true, that is, the repaired version holds on the instances that it states. Where the repair is a
general statement, the module named in the text checks it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product

import sympy

from verification import moments, proposition_1, scalers, theorem_1, theorem_2

__all__ = ["SLIPS", "Slip", "absolute_moments", "embed_up_to", "printed_gamma", "unembed"]


@dataclass(frozen=True)
class Slip:
    """A sentence of the paper, the instance that it fails on, and its repair."""

    name: str
    kind: str
    where: str
    printed: str
    instance: str
    repair: str
    fails: Callable[[], bool]
    holds: Callable[[], bool]


def printed_gamma(s: theorem_2.Scaler) -> Fraction:
    """γ as printed, over s(i) ≥ s(j)."""
    return min(a / b for a in s.values() for b in s.values() if a >= b)


def _digits_beyond_N() -> bool:
    """Whether {7, -7} is decoded, though the code Z(7) = 14 exceeds the base N."""
    code = theorem_2.Encoding.of(theorem_2.linear(2))
    X = tuple(sorted(theorem_2.integers_to_naturals(x) for x in (7, -7)))
    return max(X) > code.N and code.decode(code.encode(X)) == X


def _gamma_decides() -> bool:
    """Whether, for sizes up to 4, h is injective with a K above 1/(γ - 1), and not with one below 1/(N (γ - 1))."""
    s = theorem_2.linear(4)
    above = 1 / (theorem_2.gamma(s) - 1) + Fraction(1, 1000)
    return _injective(6, above, 4) and not _injective(6, theorem_2.below_the_bound(s, 6, 3)[0], 4)


def _larger_sizes_collide() -> bool:
    """Whether in base 4 two multisets of size 5 have one value of h."""
    code = theorem_2.Encoding(theorem_2.linear(5), 4, Fraction(100))
    X, Y = theorem_2.base_too_small(4)
    return code.encode(X) == code.encode(Y)


def _means_of_powers_separate(orders: int, size: int | None = None) -> bool:
    """Whether E[x], …, E[x^orders] tell all multisets of `size` integers from 0 to 11 apart."""
    multisets = list(combinations_with_replacement(range(12), size or orders))
    return len({tuple(sum(x**k for x in X) for k in range(1, orders + 1)) for X in multisets}) == len(multisets)


def _order_statistics_discriminate(size: int) -> bool:
    """Whether the k-th smallest elements tell all multisets of `size` integers from 0 to 4 apart."""
    multisets = list(combinations_with_replacement(range(5), size))
    return len({tuple(g(sorted(X)) for g in theorem_1.order_statistics(size)) for X in multisets}) == len(multisets)


def _more_channels_still_collide(channels: int) -> bool:
    """Whether mean, variance, max and min of many linear messages agree on two different multisets of 5."""
    pair = (0, 0, 3, 3, 4), (0, 1, 1, 4, 4)
    messages = [[[Fraction(k - 9, 7) * x + k for x in X] for k in range(channels)] for X in pair]
    return len({tuple(map(_four, of_all)) for of_all in messages}) == 1


def _four(x: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Mean, sum of squared deviations, maximum and minimum of a multiset, exactly."""
    mu = sum(x) / len(x)
    return mu, sum((y - mu) ** 2 for y in x), max(x), min(x)


def _log_scaler(d: int, alpha: float) -> float:
    """The logarithmic scaler log(d + 1)^α, without its constant δ."""
    return math.log(d + 1) ** alpha


def _sorted_coordinates(vectors: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The order statistics of a multiset of vectors, coordinate by coordinate."""
    return [sorted(coordinate) for coordinate in zip(*vectors, strict=True)]


def _mixed_moments_discriminate() -> bool:
    """Whether Σx, Σy, Σx², Σxy and Σy² tell all multisets of two vectors of {0, 1, 2}² apart."""
    multisets = list(combinations_with_replacement(product(range(3), repeat=2), 2))
    orders = ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
    return len({tuple(sum(x**i * y**j for x, y in X) for i, j in orders) for X in multisets}) == len(multisets)


def _product(a: int, b: int, modulus: int) -> tuple[int, int]:
    """The coefficients of (x - a)(x - b) over ℤ/modulus."""
    return (-a - b) % modulus, a * b % modulus


def _central(x: Sequence[Fraction]) -> list[Fraction]:
    """The third and fourth central moments."""
    mu = sum(x) / len(x)
    return [sum((y - mu) ** k for y in x) / len(x) for k in (3, 4)]


def _standardised(x: Sequence[Fraction]) -> list[Fraction]:
    """Skewness squared and kurtosis, which are rational."""
    mu = sum(x) / len(x)
    variance, (third, fourth) = sum((y - mu) ** 2 for y in x) / len(x), _central(x)
    return [third**2 / variance**3, fourth / variance**2]


def _printed_coefficients(e: Sequence[Fraction]) -> list[Fraction]:
    """a_i = (-1)^(n+i) e_(n+i), as printed; e_k of n elements is 0 for k > n."""
    n = len(e) - 1
    return [(-1) ** (n + i) * (e[n + i] if i == 0 else Fraction(0)) for i in range(n)] + [Fraction(1)]


_TWO = [Fraction(1), Fraction(3), Fraction(2)]  # e_0, e_1, e_2 of {1, 2}: the polynomial is x² - 3x + 2
_POLYNOMIAL = [Fraction(2), Fraction(-3), Fraction(1)]

_SMALL = (Fraction(-1), Fraction(1))
_DOUBLED = (Fraction(-1), Fraction(-1), Fraction(1), Fraction(1))


def _same_moments_and_scaled_mean(x: Sequence[Fraction], y: Sequence[Fraction]) -> bool:
    """Whether both means are 0, so that s(|X|) · mean is 0 for every scaler s, and E[X^k] is the same for k up to 8."""
    moments_x, moments_y = ([sum(y**k for y in z) / len(z) for k in range(1, 9)] for z in (x, y))
    return moments_x == moments_y and moments_x[0] == 0


def _size_from_scaled_one(x: Sequence[Fraction]) -> bool:
    """Whether a multiset comes back from its moments and from its size, which s(d) · E[1] tells."""
    s = theorem_2.linear(4)
    n = proposition_1.size_from(s[len(x)] * 1, Fraction(1), s)
    return proposition_1.from_moments_and_size(*proposition_1.central_moments(x), n) == tuple(x)


def embed_up_to(x: Sequence[Fraction], n: int) -> list[Fraction]:
    """n aggregators that discriminate between all multisets of at most n reals.

    g_k(X) = 3|X| + y/(1 + |y|), y the k-th smallest element; beyond |X| the last is repeated. Each is continuous for
    each size; the second term lies in (-1, 1), so the first is known.
    """
    ordered = sorted(x)
    chosen = [ordered[min(k, len(x) - 1)] for k in range(n)]
    return [3 * len(x) + y / (1 + abs(y)) for y in chosen]


def unembed(values: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """The multiset from its n aggregates."""
    size = round(values[0] / 3)
    squeezed = [v - 3 * size for v in values[:size]]
    return tuple(q / (1 - abs(q)) for q in squeezed)


def _embeds() -> bool:
    """Whether `unembed` inverts `embed_up_to` on all multisets of at most 3 integers from -2 to 2."""
    multisets = [x for size in (1, 2, 3) for x in combinations_with_replacement(map(Fraction, range(-2, 3)), size)]
    return all(unembed(embed_up_to(x, 3)) == x for x in multisets)


def absolute_moments(x: Sequence[Fraction]) -> tuple[Fraction, list[Fraction]]:
    """μ and |E[(X - μ)^k]|, what is left of the moments when the root is taken of the absolute value."""
    mu, signed = proposition_1.central_moments(x)
    return mu, [abs(m) for m in signed]


_SKEWED = (Fraction(0), Fraction(0), Fraction(3))
_MIRRORED = (Fraction(-1), Fraction(2), Fraction(2))


def _root_limits(subtract: bool) -> tuple[sympy.Expr, sympy.Expr]:
    """The limits of sign(e)(|e| + ε)^(1/3) at e = 0 from both sides, with ε^(1/3) subtracted inside or not."""
    epsilon, e = sympy.symbols("epsilon e", positive=True)
    root = sympy.cbrt(e + epsilon) - (sympy.cbrt(epsilon) if subtract else 0)
    return sympy.limit(root, e, 0), sympy.limit(-root, e, 0)


def _sum_is_covered() -> bool:
    """Whether h with s(d) = d is the sum of f over the multiset, and decodes to it."""
    code = theorem_2.Encoding.of(theorem_2.linear(4))
    X = (1, 2, 2)
    total = sum(Fraction(1, code.N**z) + code.K for z in X)
    return code.encode(X) == total and code.decode(total) == X


def _unshifted_collides() -> bool:
    """Whether h with the scaler s(d) = d - 3 is 0 on two different multisets of size 3."""
    code = theorem_2.Encoding({d: Fraction(d - 3) for d in range(1, 5)}, 6, Fraction(100))
    return code.encode((1, 1, 1)) == code.encode((1, 2, 3)) == 0


def _shifted_decodes() -> bool:
    """Whether h decodes two multisets of size 3 with the scaler s(d) = d - 1/2, which is d - 3 shifted by 5/2."""
    code = theorem_2.Encoding.of({d: Fraction(d - 3) + Fraction(5, 2) for d in range(1, 5)})
    return code.decode(code.encode((1, 2, 3))) == (1, 2, 3) and code.decode(code.encode((1, 1, 1))) == (1, 1, 1)


def _injective(N: int, K: Fraction, sizes: int, largest: int = 3) -> bool:
    """Whether h with s(d) = d is injective on all multisets of at most `sizes` elements, Z ≤ largest, by exhaustion."""
    code = theorem_2.Encoding(theorem_2.linear(sizes), N, K)
    multisets = [X for d in range(1, sizes + 1) for X in combinations_with_replacement(range(1, largest + 1), d)]
    return len({code.encode(X) for X in multisets}) == len(multisets)


def _smaller_constants() -> bool:
    """Whether h is injective on sizes up to 4 with N = 5 and K = 1/(N (γ - 1)), both below the proof's bounds."""
    sizes = 4
    N = sizes + 1  # |X| < N instead of |X| + 1 < N
    return _injective(N, 1 / (N * (theorem_2.gamma(theorem_2.linear(sizes)) - 1)), sizes)


def _first_moment_vanishes() -> bool:
    """Whether E[X - μ] is 0 for all multisets of four elements."""
    x = sympy.symbols("x1:5")
    mu = sympy.Add(*x) / 4
    return sympy.expand(sum(y - mu for y in x)) == 0


def _log_growth() -> bool:
    """Whether 10 layers at degree 8, normalised at degree 3, amplify logarithmically by (log 9/log 4)^10 > 90."""
    growth = scalers.amplification_on_regular_graph(8, 3, 10, "logarithmic")
    return bool((growth > 90).all())


SLIPS: list[Slip] = [
    Slip(
        name="gamma",
        kind="slip",
        where="proof of Theorem 2",
        printed="γ = min { s(i)/s(j) : s(i) ≥ s(j) } > 1",
        instance="i = j is allowed, so γ = 1, and no K satisfies K > 1/(γ - 1)",
        repair="take the minimum over s(i) > s(j); h is then injective for K > 1/(γ - 1), and need not be for K < "
        "1/(N (γ - 1))",
        fails=lambda: all(printed_gamma(s) == 1 for s in (theorem_2.linear(5), theorem_2.inverse_linear(5))),
        holds=_gamma_decides,
    ),
    Slip(
        name="Z",
        kind="slip",
        where="proof of Theorem 2",
        printed="∀ x ∈ χ, Z(x) ∈ [1, N]",
        instance="if χ has N + 1 = 5 features, each of the 4^5 maps Z from χ to [1, 4] gives two features the same "
        "code",
        repair="the proof needs only N^-Z(x) ∈ (0, 1], which follows from Z(x) ≥ 1; {7, -7} from χ = ℤ is decoded, "
        "although Z(7) = 14 > N",
        fails=lambda: all(len(set(Z)) < 5 for Z in product(range(1, 5), repeat=5)),
        holds=_digits_beyond_N,
    ),
    Slip(
        name="at_most_N",
        kind="loose end",
        where="proof of Theorem 2",
        printed="X', X'' multisets of size at most N",
        instance="N was chosen with |X| + 1 < N, so sizes are at most N - 2; at size N + 1 the code in base N fails",
        repair="the proof uses only sizes below N; the code happens to be injective at size N, too (N = 4, by "
        "exhaustion)",
        fails=_larger_sizes_collide,
        holds=lambda: _injective(4, Fraction(100), 4, largest=4),
    ),
    Slip(
        name="index",
        kind="slip",
        where="proof of Proposition 1",
        printed="a_i = (-1)^(n+i) e_(n+i), letting k = n + i",
        instance="for {1, 2} this gives a_1 = -e_3 = 0, but (x - 1)(x - 2) = x² - 3x + 2",
        repair="let k = n - i, so that a_i = (-1)^(n-i) e_(n-i)",
        fails=lambda: _printed_coefficients(_TWO) != _POLYNOMIAL,
        holds=lambda: proposition_1.coefficients(_TWO) == _POLYNOMIAL,
    ),
    Slip(
        name="mean_is_zero",
        kind="slip",
        where="note after Proposition 1",
        printed="mean times an injective scaler allows the degree to be inferred",
        instance="{-1, 1} and {-1, -1, 1, 1} have equal moments, and their scaled means s(d) · 0 are both 0. On {0} "
        "and {0, 0} even all of PNA's aggregates agree under all scalers, except for the ε in σ",
        repair="take s(d) · E[1] = s(d), the scaled mean of a constant (or of f(x) = x + K where x > -K)",
        fails=lambda: _same_moments_and_scaled_mean(_SMALL, _DOUBLED),
        holds=lambda: _size_from_scaled_one(_SMALL) and _size_from_scaled_one(_DOUBLED),
    ),
    Slip(
        name="extra_aggregator",
        kind="loose end",
        where="note after Proposition 1",
        printed="for multisets of up to n elements, an extra aggregator will be needed",
        instance="an extra aggregator is needed if the others are the moments, but not in general: the n aggregators "
        "g_k(X) = 3|X| + y/(1 + |y|), where y is the k-th smallest element, are continuous and discriminate between "
        "all of these multisets",
        repair="the moments need an extra aggregator, because they do not depend on the size",
        fails=_embeds,
        holds=lambda: _same_moments_and_scaled_mean(_SMALL, _DOUBLED),
    ),
    Slip(
        name="absolute_value",
        kind="loose end",
        where="section 2.1, before Equation 4",
        printed="we add an ε to the absolute value of the expectation before applying the n-th root",
        instance="with the absolute value, {0, 0, 3} and {-1, 2, 2} have the same mean and the same moments, and so "
        "do every multiset and its mirror image about the mean. Proposition 1 is not affected: it cites Equation 4, "
        "which has no absolute value",
        repair="take the signed root for odd n, as the released code does",
        fails=lambda: absolute_moments(_SKEWED) == absolute_moments(_MIRRORED),
        holds=lambda: (
            proposition_1.from_central_moments(*proposition_1.central_moments(_SKEWED)) == _SKEWED
            and proposition_1.from_central_moments(*proposition_1.central_moments(_MIRRORED)) == _MIRRORED
        ),
    ),
    Slip(
        name="signed_root",
        kind="loose end",
        where="released code, M_n",
        printed="sign(e) (|e| + ε)^(1/n)",
        instance="at e = 0 it jumps from -ε^(1/n) to ε^(1/n), so the aggregator is not continuous, and Theorem 1 does "
        "not apply to it",
        repair="sign(e) ((|e| + ε)^(1/n) - ε^(1/n)) is continuous, odd and injective, with the same gradient",
        fails=lambda: sympy.simplify(_root_limits(False)[0] - _root_limits(False)[1]) != 0,
        holds=lambda: _root_limits(True) == (0, 0),
    ),
    Slip(
        name="shift",
        kind="loose end",
        where="proof of Theorem 2",
        printed="otherwise consider s' = s - min s + ε",
        instance="s' is a different scaler from s; for s(d) = d - 3, which is injective, h is 0 on every multiset of "
        "size 3",
        repair="the theorem holds for some s + b, which is how its 'linear to' has to be read. Since the empty "
        "multiset has no mean, sizes begin at 1; there s(d) = d needs no shift, and sum is a special case",
        fails=_unshifted_collides,
        holds=lambda: _shifted_decodes() and _sum_is_covered(),
    ),
    Slip(
        name="constants",
        kind="improvement",
        where="proof of Theorem 2",
        printed="K > 1/(γ - 1) and |X| + 1 < N",
        instance="both are stronger than needed: for sizes up to 4, h is injective with N = 5 and K = 1/(N (γ - 1)), "
        "which is less than 1/(γ - 1)",
        repair="K ≥ 1/(N (γ - 1)) and |X| < N suffice, because E[N^-Z] ≤ 1/N; below this bound there are collisions "
        "for rational K arbitrarily close to it (theorem_2.below_the_bound)",
        fails=_smaller_constants,
        holds=lambda: not _injective(5, theorem_2.below_the_bound(theorem_2.linear(4), 5, 3)[0], 4),
    ),
    Slip(
        name="first_moment",
        kind="loose end",
        where="section 2.1",
        printed="the mean is the first normalised moment (n = 1)",
        instance="for n = 1 the formula gives E[X - μ] = 0",
        repair="the formula defines moments for n > 1; the mean is a separate, first aggregator",
        fails=_first_moment_vanishes,
        holds=lambda: proposition_1.central_moments(_SKEWED) == (1, [2, 2]),
    ),
    Slip(
        name="odd_uniform",
        kind="loose end",
        where="appendix on moments",
        printed="M_n scales linearly with L for U[0, L]",
        instance="for odd n, M_n is 0, and so are the other two forms",
        repair="for every multiset and every n, odd or even, E[(λX - λμ)^n] = λ^n E[(X - μ)^n]",
        fails=lambda: all(form == 0 for form in moments.uniform_moment(3).values()),
        holds=lambda: moments.homogeneous(3, 4),
    ),
    Slip(
        name="kinds",
        kind="loose end",
        where="abstract and section 2.1",
        printed="we demonstrate the requirement for multiple aggregation functions",
        instance="Theorem 1 counts real outputs, not kinds of aggregators: a single kind, the mean, over the messages "
        "x, x², …, x^n discriminates between multisets of n reals (formal/power_sums.v, one_kind_suffices)",
        repair="n real outputs are needed, of one kind or of several",
        fails=lambda: _means_of_powers_separate(4),
        holds=lambda: not _means_of_powers_separate(3, size=4),
    ),
    Slip(
        name="weights_counted",
        kind="loose end",
        where="section 2.3",
        printed="GNNs should also require multiple weights per node, as previously demonstrated in Theorem 1",
        instance="this does not follow: Theorem 1 counts the outputs of aggregators, which have no weights. The order "
        "statistics discriminate with n outputs and no weights; linear or ReLU messages do not, however many "
        "weights they have (formal/piecewise_linear.v, pna_layer_not_injective)",
        repair="Theorem 1 requires n real outputs and says nothing about weights; the appendix tests these",
        fails=lambda: _order_statistics_discriminate(3) and _more_channels_still_collide(64),
        holds=lambda: _means_of_powers_separate(4) and not _means_of_powers_separate(3, size=4),
    ),
    Slip(
        name="alpha_zero",
        kind="loose end",
        where="section 2.2, Equation 6",
        printed="S(d, α) = (log(d + 1)/δ)^α, -1 ≤ α ≤ 1; S can be used as long as it is injective for d > 0",
        instance="α = 0 lies in the stated range, is called 'no scaling', and gives S(d, 0) = 1 for every d",
        repair="S is injective for every α ≠ 0 (formal/scalers.v, S_injective); α = 0 is a separate scaler, the "
        "identity",
        fails=lambda: len({_log_scaler(d, 0) for d in range(1, 20)}) == 1,
        holds=lambda: all(len({_log_scaler(d, alpha) for d in range(1, 20)}) == 19 for alpha in (-1, -0.5, 0.5, 1)),
    ),
    Slip(
        name="scalars",
        kind="loose end",
        where="Theorem 1 and figure 1",
        printed="multisets of size n whose underlying set is ℝ",
        instance="a node's features are a vector of F numbers, and the theorem is about a single number: n continuous "
        "outputs can discriminate between multisets of n scalars, but never between those of n vectors of ℝ^F, F > 1",
        repair="for vectors n F outputs are needed, by the invariance of domain as for scalars (this is not "
        "formalised; linear and ReLU messages collide in any number, formal/vector_features.v). The order statistics "
        "of each coordinate do not suffice: they agree on {(0, 0), (1, 1)} and {(0, 1), (1, 0)}, which Σx, Σy, Σx², "
        "Σxy and Σy² tell apart",
        fails=lambda: _sorted_coordinates([(0, 0), (1, 1)]) == _sorted_coordinates([(0, 1), (1, 0)]),
        holds=_mixed_moments_discriminate,
    ),
    Slip(
        name="factorisation",
        kind="loose end",
        where="proof of Proposition 1",
        printed="by the fundamental theorem of algebra, P has n roots …, hence uniquely determining them",
        instance="that theorem gives the existence of roots, which is known here. What the proof needs is uniqueness, "
        "which can fail: over ℤ/8, which has zero divisors, (x - 1)(x - 7) = (x - 3)(x - 5)",
        repair="polynomials over a field factor uniquely (formal/power_sums.v)",
        fails=lambda: _product(1, 7, 8) == _product(3, 5, 8),
        holds=lambda: len({_product(a, b, 7) for a in range(7) for b in range(a, 7)}) == 28,
    ),
    Slip(
        name="skewness",
        kind="loose end",
        where="section 2.1",
        printed="additional moments, such as the skewness (n = 3), the kurtosis (n = 4)",
        instance="skewness and kurtosis are standardised by σ: they do not change when X is doubled, but M_3 and M_4 "
        "double",
        repair="M_3 and M_4 are roots of the third and fourth central moments",
        fails=lambda: _standardised(_SKEWED) == _standardised(tuple(2 * x for x in _SKEWED)),
        holds=lambda: _central(tuple(2 * x for x in _SKEWED)) == [8 * _central(_SKEWED)[0], 16 * _central(_SKEWED)[1]],
    ),
    Slip(
        name="cone",
        kind="loose end",
        where="proof of Theorem 1",
        printed="S is an n-dimensional subspace …; the points are non-zero and antipodal",
        instance="S is a cone, not a subspace: (1, 2) ∈ S, (-1, -2) ∉ S, so no sphere around 0 lies in it; points are "
        "antipodal about c, not about 0",
        repair="S has inner points; the sphere of radius 1/2 around (1, …, n) lies inside S (theorem_1.Sphere)",
        fails=lambda: not theorem_1.Sphere((Fraction(0), Fraction(0)), Fraction(1)).fits_in_the_cone(),
        holds=lambda: theorem_1.Sphere(tuple(map(Fraction, range(1, 7))), Fraction(1, 2)).fits_in_the_cone(),
    ),
    Slip(
        name="depth",
        kind="loose end",
        where="section 2.2",
        printed="a linear amplification is exponential over the layers; the logarithm reduces this",
        instance="logarithmic amplification is exponential over the layers as well: at degree 8, normalised at degree "
        "3, it is (log 9/log 4)^10 > 90 after ten layers",
        repair="the base of the logarithmic one is smaller: log(d + 1)/log(d_0 + 1) < d/d_0 for d > d_0 "
        "(scalers.ratio_decreases)",
        fails=_log_growth,
        holds=lambda: bool((scalers.amplification_on_regular_graph(8, 3, 10, "linear") > 18_000).all()),
    ),
]
"""Every slip and loose end found, in the order of weight within each proof."""
