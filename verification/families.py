"""Families of smooth aggregators on which Theorem 1 is checked, each with the description that its certificate states.

A family gives n - 1 aggregators for multisets of size n. Weights are rationals, so that the description is exact.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from verification.smooth import Real, exp, log, sqrt, tanh
from verification.theorem_1 import Aggregator, Sphere

__all__ = [
    "EPSILON",
    "FAMILIES",
    "Family",
    "log_sum_exp",
    "mean",
    "paper_smooth",
    "power_means",
    "power_sums",
    "random_networks",
    "softmax",
    "softmin",
    "std",
]

EPSILON = Fraction(1, 100_000)
"""ε of the standard deviation σ_i and of the moments, as the released code has it."""


@dataclass(frozen=True)
class Family:
    """n - 1 aggregators, their description for the certificate, and a sphere on which they are defined."""

    description: dict
    aggregators: list[Aggregator]
    sphere: Sphere


def mean(x: list[Real]) -> Real:
    """μ(X) = E[X]."""
    return sum(x) / len(x)


def std(x: list[Real]) -> Real:
    """σ with its ε; the variance is never negative, so ReLU is the identity."""
    mu = mean(x)
    return sqrt(mean([(y - mu) ** 2 for y in x]) + EPSILON)


def softmax(x: list[Real]) -> Real:
    """The appendix's differentiable alternative to the maximum."""
    weights = [exp(y) for y in x]
    return sum(y * w for y, w in zip(x, weights, strict=True)) / sum(weights)


def softmin(x: list[Real]) -> Real:
    """softmin(X) = -softmax(-X)."""
    return -softmax([-y for y in x])


def power_sums(n: int) -> Family:
    """g_k(X) = Σ x^k, the aggregators behind Proposition 1."""
    aggregators = [lambda x, k=k: sum(y**k for y in x) for k in range(1, n)]
    return Family({"name": "power sums"}, aggregators, Sphere.between(Fraction(-1), Fraction(1), n))


def power_means(n: int) -> Family:
    """g_k(X) = (E[x^k])^(1/k) on positive elements."""
    aggregators = [lambda x, k=k: mean([y**k for y in x]) ** Fraction(1, k) for k in range(1, n)]
    return Family({"name": "power means"}, aggregators, Sphere.between(Fraction(1), Fraction(2), n))


def log_sum_exp(n: int) -> Family:
    """g_k(X) = log(E[exp(t_k x)]) / t_k at the n - 1 temperatures t_k = k/2."""
    temperatures = [Fraction(k, 2) for k in range(1, n)]
    aggregators = [lambda x, t=t: log(mean([exp(y * t) for y in x])) / t for t in temperatures]
    description = {"name": "log-sum-exp", "temperatures": [str(t) for t in temperatures]}
    return Family(description, aggregators, Sphere.between(Fraction(-1), Fraction(1), n))


def random_networks(n: int, seed: int = 0) -> Family:
    """g_k(X) = tanh(Σ_h V_kh E[tanh(w_h x + b_h)]): networks of n hidden units with random weights in eighths."""
    draw = random.Random(seed)

    def weights(count: int, bound: int) -> list[Fraction]:
        return [Fraction(draw.randint(-8 * bound, 8 * bound), 8) for _ in range(count)]

    w, b, V = weights(n, 4), weights(n, 2), [weights(n, 1) for _ in range(n - 1)]

    def aggregator(row: list[Fraction]) -> Aggregator:
        """The aggregator whose output weights are one row of V."""

        def g(x: list[Real]) -> Real:
            hidden = (mean([tanh(y * wh + bh) for y in x]) for wh, bh in zip(w, b, strict=True))
            return tanh(sum(h * v for h, v in zip(hidden, row, strict=True)))

        return g

    description = {
        "name": "random networks",
        "w": [str(x) for x in w],
        "b": [str(x) for x in b],
        "V": [[str(x) for x in row] for row in V],
    }
    return Family(description, [aggregator(row) for row in V], Sphere.between(Fraction(-1), Fraction(1), n))


def paper_smooth(n: int) -> Family:
    """The paper's aggregators that are smooth: mean, std with its ε, softmax, softmin; the first n - 1 of them."""
    names = {"mean": mean, "std": std, "softmax": softmax, "softmin": softmin}
    if n - 1 > len(names):
        raise ValueError(f"the paper has {len(names)} smooth aggregators, so n is at most {len(names) + 1}, not {n}")
    chosen = list(names)[: n - 1]
    description = {"name": "the paper's smooth aggregators", "aggregators": chosen, "epsilon": str(EPSILON)}
    return Family(description, [names[name] for name in chosen], Sphere.between(Fraction(-1), Fraction(1), n))


FAMILIES: dict[str, tuple[Callable[[int], Family], range]] = {
    "power_sums": (power_sums, range(2, 17)),
    "power_means": (power_means, range(2, 17)),
    "log_sum_exp": (log_sum_exp, range(2, 17)),
    "random_networks": (random_networks, range(2, 17)),
    "paper_smooth": (paper_smooth, range(2, 6)),
}
"""Each family and the sizes n for which a collision of it is certified."""
