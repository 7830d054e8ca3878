"""Estimates with their errors: means over seeds, intervals, p-values, and corrections for many of them.

An interval is value ± t · error. Where a protocol trains many seeds and reports the mean over those with the least
validation error, the error of that mean is a bootstrap's that repeats the choice: draw as many seeds with replacement,
choose again, take the mean. Its variance over all draws is a sum with a closed form, so nothing is drawn and nothing
depends on a random seed.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, stdtr, stdtrit

__all__ = ["FEWEST", "LEVEL", "Estimate", "best_mean", "binomial", "choice_covariance", "choice_freedom", "combined"]
__all__ += ["fisher", "holm", "mean_of", "sample_mean"]

FEWEST = 5  # seeds: from fewer, a choice of the best has no interval
LEVEL = 0.95

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error and the degrees of freedom of that error; nan where seeds are too few."""

    value: float
    error: float = math.nan
    freedom: float = math.nan

    @property
    def known(self) -> bool:
        """Whether there are enough seeds for an interval."""
        return math.isfinite(self.error)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the expected value."""
        if not self.known:
            return math.nan, math.nan
        reach = float(stdtrit(self.freedom, (1 + LEVEL) / 2)) * self.error
        return self.value - reach, self.value + reach

    @property
    def next(self) -> "Estimate":
        """The mean of one more such experiment: its error is that of this mean and its own."""
        return Estimate(self.value, math.sqrt(2) * self.error, self.freedom)

    def below(self, bound: float = 0.0) -> float:
        """The one-sided p-value of the statement that the expected value is less than a bound."""
        return self._tail(self.value - bound)

    def unlike(self, value: float) -> float:
        """The two-sided p-value of the statement that the expected value is not this one."""
        return 2 * self._tail(-abs(self.value - value))

    def within(self, margin: float) -> float:
        """The p-value of the statement that the expected value is between -margin and margin.

        These are two one-sided tests (TOST), of which the larger p-value counts: it is below 5 % where the 90 %
        interval lies within the margin.
        """
        return max(self._tail(self.value - margin), self._tail(-self.value - margin))

    def shifted(self, by: float) -> "Estimate":
        """The estimate with a constant added."""
        return Estimate(self.value + by, self.error, self.freedom)

    def __sub__(self, other: "Estimate") -> "Estimate":
        return combined([(1.0, self), (-1.0, other)])

    def _tail(self, distance: float) -> float:
        if not self.known:
            return math.nan
        if self.error == 0:
            return 0.5 if distance == 0 else float(distance > 0)
        return float(stdtr(self.freedom, distance / self.error))


# ---- estimates ----


def combined(terms: Iterable[tuple[float, Estimate]]) -> Estimate:
    """A weighted sum of independent estimates; its degrees of freedom after Welch and Satterthwaite."""
    terms = list(terms)
    value = sum(weight * term.value for weight, term in terms)
    variances = [(weight * term.error) ** 2 for weight, term in terms]
    spread = sum(variances)
    if not math.isfinite(spread):
        return Estimate(value)
    shares = sum(variance**2 / term.freedom for variance, (_, term) in zip(variances, terms, strict=True))
    freedom = spread**2 / shares if shares > 0 else min(term.freedom for _, term in terms)
    return Estimate(value, math.sqrt(spread), freedom)


def mean_of(mean: float, deviation: float, seeds: int) -> Estimate:
    """A mean that is known by its standard deviation (n - 1) and its number of seeds, as papers print it."""
    if seeds < 2:
        return Estimate(mean)
    return Estimate(mean, deviation / math.sqrt(seeds), seeds - 1.0)


def sample_mean(scores: ArrayLike) -> Estimate:
    """The mean over all seeds; the difference of two of them is Welch's test."""
    scores = np.asarray(scores, float)
    deviation = float(scores.std(ddof=1)) if len(scores) > 1 else math.nan
    return mean_of(float(scores.mean()), deviation, len(scores))


def best_mean(validation: ArrayLike, scores: ArrayLike, keep: int, freedom: float | None = None) -> Estimate:
    """The mean score of the `keep` seeds with the least validation error.

    Seeds that diverged (a validation error that is not finite) are left out. The mean of fewer than five seeds has no
    error.

    Args:
        validation: the validation error of each seed
        scores: the score of each seed, in the same order
        keep: how many seeds to choose
        freedom: the degrees of freedom of the error, if they are known from a simulation; else `choice_freedom`
    """
    validation, scores = np.asarray(validation, float), np.asarray(scores, float)
    ended = np.isfinite(validation)
    order = np.argsort(validation[ended], kind="stable")
    ranked = scores[ended][order]
    seeds = len(ranked)
    value = float(ranked[:keep].mean()) if seeds else math.nan
    if seeds < FEWEST or not np.isfinite(ranked).all():
        return Estimate(value)
    keep = min(keep, seeds)
    centred = ranked - value  # a constant changes nothing but the rounding
    variance = float(centred @ choice_covariance(seeds, keep) @ centred) * seeds / (seeds - 1)
    freedom = choice_freedom(seeds, keep) if freedom is None else freedom
    return Estimate(value, math.sqrt(max(variance, 0.0)), min(freedom, seeds - 1.0))


@cache
def choice_covariance(seeds: int, keep: int) -> Array:
    """The covariance, [seeds, seeds], of the weights of ranked seeds if they are drawn and the best are chosen again.

    Among `seeds` draws with replacement, N_r have rank r or better. min(keep, N_r) of them are chosen, so that rank r
    has the weight (min(keep, N_r) - min(keep, N_(r-1))) / keep.
    """
    counts = np.arange(seeds + 1)
    chosen = np.minimum(keep, counts)
    chances = np.array([binomial(seeds, rank / seeds) for rank in range(seeds + 1)])  # P(N_r = i), [r, i]
    mean = chances @ chosen
    second = np.zeros((seeds + 1, seeds + 1))
    for low in range(seeds + 1):
        for high in range(low, seeds + 1):
            share = (high - low) / (seeds - low) if low < seeds else 0.0
            # given N_low = i, N_high is i and a binomial number of the seeds - i others
            onward = [binomial(seeds - i, share) @ chosen[i:] for i in counts]
            second[low, high] = second[high, low] = chances[low] @ (chosen * onward)
    steps = np.diff(np.eye(seeds + 1), axis=0) / keep  # from min(keep, N) to weights
    return steps @ (second - np.outer(mean, mean)) @ steps.T


@cache
def choice_freedom(seeds: int, keep: int) -> float:
    """The degrees of freedom of the error of `best_mean`, after Satterthwaite, for normal scores.

    The error's square is a quadratic form yᵀMy of the ranked scores y. They are independent if validation says nothing
    about them, and the degrees of freedom are then (tr M)² / tr M². A close relation of the two costs up to one.
    """
    weights = np.where(np.arange(seeds) < keep, 1 / keep, 0.0)
    centring = np.eye(seeds) - weights  # [seeds, seeds]: minus the mean of the chosen
    form = centring.T @ choice_covariance(seeds, keep) @ centring
    return float(np.trace(form) ** 2 / np.trace(form @ form))


def binomial(draws: int, share: float) -> Array:
    """The probability of each number of successes, [draws + 1]."""
    return np.array([math.comb(draws, k) * share**k * (1 - share) ** (draws - k) for k in range(draws + 1)])


# ---- many p-values ----


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for their number, after Holm (1979): by size, times how many are left, never falling."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    corrected, least = [math.nan] * len(values), 0.0
    for done, place in enumerate(order):
        least = max(least, min(1.0, (len(values) - done) * values[place]))
        corrected[place] = least
    return corrected


def fisher(values: Sequence[float]) -> float:
    """Fisher's joint p-value of the statement that at least one of several independent null hypotheses is false.

    -2 Σ log p is χ² with 2k degrees of freedom if none of the k is false. No p-values at all give 1.
    """
    if not all(0 <= p <= 1 for p in values):
        raise ValueError(f"p-values must be from 0 to 1, got {list(values)}")
    if not len(values) or min(values) == 0:
        return 0.0 if len(values) else 1.0
    return float(chdtrc(2 * len(values), -2 * sum(map(math.log, values))))
