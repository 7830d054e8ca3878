"""Figure 1 and section 2.1: neighbourhoods that some aggregators cannot tell apart while others can.

Established, exactly (over the rationals):
- for every set A of PNA's aggregators {mean, std, max, min}, the empty one apart, two different multisets of one
  size on which every aggregator of A agrees and every other one differs (`separating_pair`); the last of the 15,
  all four together, has size 5. The size is the same, so no scaler helps;
- sum fails on continuous features (SUM_FAILS): x, x² and x³ before it do not help, and for n = 2 no continuous function
  does (`intermediate_value`);
- all four are blind to the cardinality (REPLICATED), which is what scalers are for;
- the four together determine every multiset of at most 4 reals whose size is known: `four_reals_are_determined` (sympy)
  and its inverse `reconstruct`. At 5 they fail, not at isolated points but along curves: three middle values with a
  given sum and sum of squares are a circle, and `reflect` walks along it in rational steps;
- PNA_FAILS and its dyadic twin, which fails bit for bit in float32.

Replayed through `pna.aggregators` and through `pna.PNAConv` on networkx graphs (`centre_outputs`).

Not established: anything about several layers, or about features that identify the neighbours.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

import networkx as nx
import sympy
import torch

import pna
from pna import aggregators

__all__ = [
    "EXACT",
    "FIGURE_1",
    "PNA_FAILS",
    "PNA_FAILS_DYADIC",
    "REPLICATED",
    "SUM_FAILS",
    "aggregate",
    "agreement",
    "centre_outputs",
    "four_reals_are_determined",
    "reconstruct",
    "reflect",
    "separating_pair",
    "star",
    "subsets",
]

Multiset = tuple[Fraction | int, ...]
Pair = tuple[Multiset, Multiset]


def _mean(x: Sequence[Fraction | int]) -> Fraction:
    """The mean of a multiset, exactly."""
    return Fraction(sum(x)) / len(x)


def _variance(x: Sequence[Fraction | int]) -> Fraction:
    """The variance of a multiset, exactly: E[X²] - E[X]²."""
    return _mean([y * y for y in x]) - _mean(x) ** 2


EXACT: dict[str, Callable[[Sequence[Fraction | int]], Fraction | int]] = {
    "mean": _mean,
    "std": _variance,  # σ² in place of σ: equal together, and rational
    "max": max,
    "min": min,
}
"""PNA's four aggregators over the rationals."""

PNA_FAILS: Pair = (
    (Fraction(1), Fraction(21, 10), Fraction(14, 5), Fraction(41, 10), Fraction(5)),
    (Fraction(1), Fraction(19, 10), Fraction(16, 5), Fraction(39, 10), Fraction(5)),
)
PNA_FAILS_DYADIC: Pair = (
    (Fraction(1), Fraction(17, 8), Fraction(11, 4), Fraction(33, 8), Fraction(5)),
    (Fraction(1), Fraction(15, 8), Fraction(13, 4), Fraction(31, 8), Fraction(5)),
)
REPLICATED: Pair = ((1, 2), (1, 1, 2, 2))
FIGURE_1: list[Pair] = [
    ((0, 3, 6), (2, 3, 4)),
    ((0, 1, 4), (2, 3, 6)),
    ((1, 1, 4), (0, 3, 4)),
    ((0, 3, 3), (0, 1, 4)),
    ((0, 0, 2, 2), (0, 1, 1, 2)),
    ((0, 0, 3, 3, 4), (0, 1, 1, 4, 4)),
    REPLICATED,
]
"""The neighbourhoods that figure 1 shows: each aggregator alone fails, three fail, all four fail, all but sum fail."""

SUM_FAILS: dict[int, Pair] = {1: ((1, 4), (2, 3)), 2: ((1, 8), (4, 7)), 3: ((1, 12), (9, 10))}
"""The exponent k, and two pairs of numbers with one sum of k-th powers."""


def agreement(pair: Pair) -> frozenset[str]:
    """The aggregators that do not tell the two multisets apart."""
    return frozenset(name for name, g in EXACT.items() if g(pair[0]) == g(pair[1]))


def subsets() -> list[frozenset[str]]:
    """The 15 sets of aggregators."""
    return [frozenset(names) for size in range(1, 5) for names in combinations(EXACT, size)]


def separating_pair(agree: Iterable[str], largest_size: int = 5, largest_element: int = 6) -> Pair:
    """The first two multisets of one size on which exactly the aggregators of `agree` agree, by exhaustion.

    Elements are the integers from 0 to `largest_element`; smaller sizes come first.
    """
    agree = frozenset(agree)
    for size in range(1, largest_size + 1):
        seen: dict[tuple, list[Multiset]] = {}
        for x in combinations_with_replacement(range(largest_element + 1), size):
            candidates = seen.setdefault(tuple(EXACT[name](x) for name in sorted(agree)), [])
            for y in candidates:
                if agreement((y, x)) == agree:
                    return y, x
            candidates.append(x)
    raise LookupError(f"no two multisets of at most {largest_size} elements agree on exactly {sorted(agree)}")


def four_reals_are_determined() -> tuple[sympy.Expr, sympy.Expr]:
    """The first half of the claim: the middle two of four reals are the roots of a quadratic known from the aggregates.

    Returns the sum and the product of the middle two, p and q, as polynomials in the four aggregates; their
    equality with p + q and p q is an identity, and z² - (p + q) z + p q has no other roots than p and q.
    """
    lowest, p, q, highest = elements = sympy.symbols("lowest p q highest", real=True)
    mean, variance, maximum, minimum = sympy.symbols("mean variance max min", real=True)
    total = 4 * mean - maximum - minimum
    squares = 4 * (variance + mean**2) - maximum**2 - minimum**2
    product = (total**2 - squares) / 2
    mu = sum(elements) / 4
    values = {maximum: highest, minimum: lowest, mean: mu, variance: sum(x**2 for x in elements) / 4 - mu**2}
    for formula, truth in ((total, p + q), (product, p * q)):
        if sympy.expand(formula.subs(values, simultaneous=True) - truth) != 0:
            raise ArithmeticError(f"{formula} is not {truth}")
    return total, product


def reconstruct(size: int, mean: Fraction, variance: Fraction, maximum: Fraction, minimum: Fraction) -> Multiset:
    """The multiset of at most four rationals that has these aggregates."""
    if size == 1:
        return (maximum,)
    if size == 2:
        return (minimum, maximum)
    total = size * mean - maximum - minimum
    if size == 3:
        return (minimum, total, maximum)
    if size != 4:
        raise ValueError(f"the four aggregators do not determine {size} elements")
    squares = 4 * (variance + mean**2) - maximum**2 - minimum**2
    discriminant = 2 * squares - total**2  # (p - q)²
    difference = Fraction(math.isqrt(discriminant.numerator), math.isqrt(discriminant.denominator))
    if difference**2 != discriminant:
        raise ArithmeticError("these are not the aggregates of four rationals")
    return (minimum, (total - difference) / 2, (total + difference) / 2, maximum)


def reflect(middle: tuple[Fraction, Fraction, Fraction], a: Fraction, b: Fraction) -> tuple[Fraction, ...]:
    """Another point of the circle of `middle`'s sum and sum of squares: where the line along (a, b, -a-b) meets it.

    |middle + λ v|² = |middle|² gives λ = -2 ⟨middle, v⟩ / |v|². Every rational direction gives a rational point.
    """
    v = (a, b, -a - b)
    scale = -2 * sum(x * y for x, y in zip(middle, v, strict=True)) / sum(y * y for y in v)
    return tuple(sorted(x + scale * y for x, y in zip(middle, v, strict=True)))


def aggregate(name: str, x: Multiset, dtype: torch.dtype) -> torch.Tensor:
    """One aggregator of the package on one neighbourhood."""
    messages = torch.tensor([float(y) for y in x], dtype=dtype)
    return aggregators.resolve(name).function(messages, torch.tensor([0, len(x)]))


def star(x: Multiset) -> nx.DiGraph:
    """A centre (node 0, feature 0) and one neighbour with an edge to it for each element of the multiset."""
    graph = nx.DiGraph()
    graph.add_node(0, feature=0.0)
    for j, y in enumerate(x, start=1):
        graph.add_node(j, feature=float(y))
        graph.add_edge(j, 0)
    return graph


def centre_outputs(pair: Pair, names: Sequence[str], dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    """The outputs, [8] each, of a PNA layer with these aggregators and three scalers at the two stars' centres.

    The layer's random weights are fixed and rounded to eighths, so that the messages of small dyadic features are exact
    in float32 as well.
    """
    torch.manual_seed(0)
    degrees = torch.tensor([0, 1, 1, 1, 1, 1])
    layer = pna.PNAConv(1, 8, list(names), ["identity", "amplification", "attenuation"], degrees).to(dtype)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_((weight * 8).round() / 8)
    outputs = []
    for x in pair:
        graph = star(x)
        features = torch.tensor([[graph.nodes[i]["feature"]] for i in graph], dtype=dtype)
        outputs.append(layer(features, torch.tensor(list(graph.edges)).T)[0].detach())
    return tuple(outputs)
