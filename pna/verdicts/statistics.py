"""The statistics behind every verdict: the error of a mean over five chosen seeds, tests, intervals, corrections.

The paper trains ten seeds and reports the mean over the five with the least validation error. The error of that mean is
a bootstrap's that repeats the choice: draw ten of the ten seeds with replacement, choose five anew, take their mean.
Its variance over all draws is a sum that can be written down, so nothing is drawn and nothing depends on a seed.

An interval is value ± t · error. The error itself is estimated, and for normal scores it varies as one with 4.5
to 5.4 degrees of freedom would, whatever the correlation of validation and test: t has five. `report/coverage.py`
simulates how often such an interval holds the truth, beside the bootstrap's percentiles, BCa and others.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

__all__ = [
    "FEWEST",
    "FREEDOM",
    "KEPT",
    "LEVEL",
    "Estimate",
    "choice_covariance",
    "combined",
    "five_best",
    "holm",
    "mean_of",
]

KEPT = 5  # "report the five with least validation error"
FEWEST = 5  # seeds: from fewer there is no interval
LEVEL = 0.95
FREEDOM = 5.0  # of the error of a five-best mean

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error and the degrees of freedom of that error; nan where seeds are too few."""

    value: float
    error: float = math.nan
    freedom: float = math.nan

    @property
    def known(self) -> bool:
        """Whether there are seeds enough for an interval."""
        return math.isfinite(self.error)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the expected value lies, at 95 %."""
        if not self.known:
            return math.nan, math.nan
        reach = float(stdtrit(self.freedom, (1 + LEVEL) / 2)) * self.error
        return self.value - reach, self.value + reach

    @property
    def next(self) -> "Estimate":
        """The next such mean, of ten more runs, five chosen anew: it has an error of its own besides."""
        return Estimate(self.value, math.sqrt(2) * self.error, self.freedom)

    def below(self, bound: float = 0.0) -> float:
        """The one-sided p-value of the statement that the expected value is less than a bound."""
        return self._tail(self.value - bound)

    def unlike(self, value: float) -> float:
        """The two-sided p-value of the statement that the expected value is not this one."""
        return 2 * self._tail(-abs(self.value - value))

    def shifted(self, by: float) -> "Estimate":
        """With a constant added."""
        return Estimate(self.value + by, self.error, self.freedom)

    def __sub__(self, other: "Estimate") -> "Estimate":
        return combined([(1.0, self), (-1.0, other)])

    def _tail(self, distance: float) -> float:
        if not self.known:
            return math.nan
        if self.error == 0:
            return 0.5 if distance == 0 else float(distance > 0)
        return float(stdtr(self.freedom, distance / self.error))


def combined(terms: Iterable[tuple[float, Estimate]]) -> Estimate:
    """A weighted sum of independent estimates; its degrees of freedom after Welch and Satterthwaite."""
    terms = list(terms)
    value = sum(weight * one.value for weight, one in terms)
    variances = [(weight * one.error) ** 2 for weight, one in terms]
    spread = sum(variances)
    if not math.isfinite(spread):
        return Estimate(value)
    shares = sum(v**2 / one.freedom for v, (_, one) in zip(variances, terms, strict=True))
    freedom = spread**2 / shares if shares > 0 else min(one.freedom for _, one in terms)
    return Estimate(value, math.sqrt(spread), freedom)


def mean_of(mean: float, deviation: float, seeds: int) -> Estimate:
    """A mean of which only the deviation (n - 1) and the number of seeds are known: Welch's test takes no more."""
    if seeds < 2:
        return Estimate(mean)
    return Estimate(mean, deviation / math.sqrt(seeds), seeds - 1.0)


def five_best(validation: Sequence[float] | Array, scores: Sequence[float] | Array) -> Estimate:
    """The paper's number: the mean score of the five seeds with the least validation error.

    Seeds that diverged (a validation error that is not finite) are left out. Of fewer than five the mean is taken as
    it is, without an error.
    """
    validation, scores = np.asarray(validation, float), np.asarray(scores, float)
    ended = np.isfinite(validation)
    order = np.argsort(validation[ended], kind="stable")
    ranked = scores[ended][order]
    seeds = len(ranked)
    value = float(ranked[:KEPT].mean()) if seeds else math.nan
    if seeds < FEWEST or not np.isfinite(ranked).all():
        return Estimate(value)
    centred = ranked - value  # a constant changes nothing but the rounding
    variance = float(centred @ choice_covariance(seeds) @ centred) * seeds / (seeds - 1)
    return Estimate(value, math.sqrt(max(variance, 0.0)), min(FREEDOM, seeds - 1.0))


@cache
def choice_covariance(seeds: int) -> Array:
    """The covariance, [seeds, seeds], of the weights of ranked seeds when they are drawn and five are chosen anew.

    Of `seeds` draws with replacement, N_r have rank r or better. min(5, N_r) of them are chosen, so that rank r has
    the weight (min(5, N_r) - min(5, N_(r-1))) / 5.
    """
    counts = np.arange(seeds + 1)
    chosen = np.minimum(KEPT, counts)
    ways = np.array([_binomial(seeds, rank / seeds) for rank in range(seeds + 1)])  # P(N_r = i), [r, i]
    mean = ways @ chosen
    second = np.zeros((seeds + 1, seeds + 1))
    for low in range(seeds + 1):
        for high in range(low, seeds + 1):
            share = (high - low) / (seeds - low) if low < seeds else 0.0
            # given N_low = i, N_high is i and a binomial number of the seeds - i others
            onward = [_binomial(seeds - i, share) @ chosen[i:] for i in counts]
            second[low, high] = second[high, low] = ways[low] @ (chosen * onward)
    steps = np.diff(np.eye(seeds + 1), axis=0) / KEPT  # from min(5, N) to weights
    return steps @ (second - np.outer(mean, mean)) @ steps.T


def _binomial(draws: int, share: float) -> Array:
    return np.array([math.comb(draws, k) * share**k * (1 - share) ** (draws - k) for k in range(draws + 1)])


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for their number, after Holm (1979): by size, times how many are left, never falling."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    corrected, least = [math.nan] * len(values), 0.0
    for done, place in enumerate(order):
        least = max(least, min(1.0, (len(values) - done) * values[place]))
        corrected[place] = least
    return corrected
