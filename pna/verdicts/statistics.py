"""Estimates with their errors: means over seeds, intervals, p-values, and corrections for many of them.

An interval is value ± t · error. Where a protocol trains many seeds and reports the mean over those with the least
validation error, the error of that mean is a bootstrap's that repeats the choice: draw as many seeds with replacement,
choose again, take the mean. Its variance over all draws is a sum with a closed form, so nothing is drawn and nothing
depends on a random seed.

Where more seeds are trained than the protocol asks for, its number is estimated as its mean over all subsets of that
many seeds, a U-statistic. Every seed then has a weight by its rank, a sum of hypergeometric probabilities, and the
error is the jackknife's: leave out one seed at a time.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, stdtr, stdtrit

__all__ = ["FEWEST", "LEVEL", "Estimate", "best_mean", "binomial", "choice_covariance", "choice_freedom", "combined"]
__all__ += ["conjunction", "fisher", "holm", "mean_of", "sample_mean", "subset_freedom"]
__all__ += ["subset_jackknife", "subset_weights"]

FEWEST = 5  # seeds: from fewer, a choice of the best has no interval
LEVEL = 0.95

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error and the degrees of freedom of that error; nan where seeds are too few."""

    value: float
    error: float = math.nan
    freedom: float = math.nan
    once: float = math.nan  # the standard error of one experiment, if the mean is estimated from more seeds than it has

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
        """Predicted mean of one more such experiment, whose error combines this mean's and its own."""
        error = math.sqrt(2) * self.error if math.isnan(self.once) else math.hypot(self.error, self.once)
        return Estimate(self.value, error, self.freedom)

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
        return Estimate(self.value + by, self.error, self.freedom, self.once)

    def __neg__(self) -> "Estimate":
        """The mean with the other sign."""
        return replace(self, value=-self.value)

    def __sub__(self, other: "Estimate") -> "Estimate":
        return combined([(1.0, self), (-1.0, other)])

    def _tail(self, distance: float) -> float:
        """Probability that a t variable is below `distance` in standard errors; nan if the error is not known."""
        if not self.known:
            return math.nan
        if self.error == 0:
            return 0.5 if distance == 0 else float(distance > 0)
        return float(stdtr(self.freedom, distance / self.error))


# ---- estimates ----


def combined(terms: Iterable[tuple[float, Estimate]]) -> Estimate:
    """Weighted sum of independent estimates, with the degrees of freedom of Welch and Satterthwaite."""
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
    """Estimate from a mean, its standard deviation (n - 1) and its number of seeds, as papers print them."""
    if seeds < 2:
        return Estimate(mean)
    return Estimate(mean, deviation / math.sqrt(seeds), seeds - 1.0)


def sample_mean(scores: ArrayLike) -> Estimate:
    """The mean over all seeds; the difference of two of them is Welch's test."""
    scores = np.asarray(scores, float)
    deviation = float(scores.std(ddof=1)) if len(scores) > 1 else math.nan
    return mean_of(float(scores.mean()), deviation, len(scores))


def best_mean(
    validation: ArrayLike, scores: ArrayLike, keep: int, freedom: float | None = None, of: int | None = None
) -> Estimate:
    """The mean score of the `keep` seeds with the least validation error, among `of` seeds.

    Seeds that diverged (a validation error that is not finite) are left out. The mean of fewer than five seeds has no
    error. Among equal validation errors, the first counts as the least.

    Args:
        validation: the validation error of each seed
        scores: the score of each seed, in the same order
        keep: how many seeds to choose
        freedom: the degrees of freedom of the error, if they are known from a simulation; else `choice_freedom`
        of: the seeds of one experiment; if there are more, the mean over all subsets of that many is estimated, and
            `freedom` is that of `subset_freedom`
    """
    validation, scores = np.asarray(validation, float), np.asarray(scores, float)
    ended = np.isfinite(validation)
    order = np.argsort(validation[ended], kind="stable")
    ranked = scores[ended][order]
    if of is not None and len(scores) > of:
        return _subset_mean(ranked, len(scores), of, keep)
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


# ---- more seeds than an experiment has ----


def _subset_mean(ranked: Array, seeds: int, of: int, keep: int) -> Estimate:
    """The expected `best_mean` of `of` seeds out of `seeds`, of which those in `ranked` did not diverge."""
    ended = len(ranked)
    if not ended:
        return Estimate(math.nan)
    centred = ranked - ranked.mean()
    weights, second = subset_weights(ended, seeds, of, keep), _subset_products(ended, seeds, of, keep)
    value = float(weights @ centred)
    if ended < FEWEST or not np.isfinite(ranked).all():
        return Estimate(value + float(ranked.mean()))
    without = subset_jackknife(ended, seeds, of, keep) @ centred
    variance = (seeds - 1) / seeds * float(((without - without.mean()) ** 2).sum())
    between = max(float(centred @ second @ centred) - value**2, 0.0)  # of subsets of these seeds
    return Estimate(
        value + float(ranked.mean()),
        math.sqrt(variance),
        min(subset_freedom(seeds, of, keep), ended - 1.0),
        math.sqrt(between + variance),
    )


@cache
def subset_weights(ended: int, seeds: int, of: int, keep: int) -> Array:
    """The weight of each rank, [ended], in the mean over all subsets of the `keep` best of `of` seeds.

    Rank r is chosen if it is in the subset and fewer than `keep` better ranks are. Of all seeds the first `ended` did
    not diverge; a subset without any of these does not count.
    """
    return _over_subsets(ended, seeds, of, lambda drawn: _chosen(ended, drawn, min(keep, drawn)))


def _over_subsets(ended: int, seeds: int, of: int, part: Callable[[int], Array]) -> Array:
    """Mean of a function of the number of seeds in a subset that did not diverge, hypergeometric and at least 1."""
    counts = range(max(1, of - (seeds - ended)), min(of, ended) + 1)
    chances = [math.comb(ended, k) * math.comb(seeds - ended, of - k) for k in counts]
    return sum((chance / sum(chances)) * part(k) for chance, k in zip(chances, counts, strict=True))


def _chosen(ended: int, drawn: int, keep: int) -> Array:
    """The weight of each rank, [ended], if `drawn` of `ended` seeds are drawn and the best `keep` of them chosen."""
    total = keep * math.comb(ended, drawn)
    chances = [
        sum(math.comb(rank, better) * math.comb(ended - rank - 1, drawn - 1 - better) for better in range(keep))
        for rank in range(ended)
    ]
    return np.array([chance / total for chance in chances])


@cache
def _subset_products(ended: int, seeds: int, of: int, keep: int) -> Array:
    """The mean over all subsets of the product of two ranks' weights, [ended, ended]."""
    return _over_subsets(ended, seeds, of, lambda drawn: _chosen_pairs(ended, drawn, min(keep, drawn)))


def _chosen_pairs(ended: int, drawn: int, keep: int) -> Array:
    """Mean product of two ranks' weights, [ended, ended], for the same draws as in `_chosen`.

    Both ranks are chosen if both are drawn and fewer than `keep` drawn seeds are better than the worse of them.
    """
    total = keep**2 * math.comb(ended, drawn)
    pairs = np.diag(_chosen(ended, drawn, keep) / keep)
    for worse in range(1, ended):
        chance = sum(
            math.comb(worse - 1, better - 1) * math.comb(ended - worse - 1, drawn - 1 - better)
            for better in range(1, keep)
        )
        pairs[:worse, worse] = pairs[worse, :worse] = chance / total
    return pairs


@cache
def subset_jackknife(ended: int, seeds: int, of: int, keep: int) -> Array:
    """The weights of ranks, [seeds, ended], if one seed at a time is left out; the rows beyond `ended` diverged."""
    rows = np.zeros((seeds, ended))
    if ended > 1:
        fewer = subset_weights(ended - 1, seeds - 1, of, keep)
        for rank in range(ended):
            rows[rank] = np.insert(fewer, rank, 0.0)
    if seeds > ended:
        rows[ended:] = subset_weights(ended, seeds - 1, of, keep)
    return rows


@cache
def subset_freedom(seeds: int, of: int, keep: int) -> float:
    """The degrees of freedom of the jackknife's error, after Satterthwaite, for normal scores.

    The error's square is a quadratic form yᵀMy of the ranked scores y, as in `choice_freedom`.
    """
    rows = subset_jackknife(seeds, seeds, of, keep)
    rows = rows - rows.mean(axis=0)
    form = rows.T @ rows
    return float(np.trace(form) ** 2 / np.trace(form @ form))


def binomial(draws: int, share: float) -> Array:
    """The probability of each number of successes, [draws + 1]."""
    return np.array([math.comb(draws, k) * share**k * (1 - share) ** (draws - k) for k in range(draws + 1)])


# ---- many p-values ----


def holm(values: Sequence[float]) -> list[float]:
    """Correct p-values by Holm's method (1979): in ascending order, times the number that are left, never falling."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    corrected, least = [math.nan] * len(values), 0.0
    for done, place in enumerate(order):
        least = max(least, min(1.0, (len(values) - done) * values[place]))
        corrected[place] = least
    return corrected


def conjunction(values: Sequence[float], need: int) -> float:
    """The p-value of the statement that at least `need` of several hypotheses are true.

    It is the partial conjunction of Benjamini and Heller (2008) by Bonferroni's bound: the need-th smallest p-value,
    times how many are not smaller. All of them need no correction; at least one needs Bonferroni's.
    """
    if not 1 <= need <= len(values):
        raise ValueError(f"need must be from 1 to {len(values)}, got {need}")
    return min(1.0, (len(values) - need + 1) * sorted(values)[need - 1])


def fisher(values: Sequence[float]) -> float:
    """Fisher's joint p-value of the statement that at least one of several independent null hypotheses is false.

    -2 Σ log p is χ² with 2k degrees of freedom if none of the k is false. No p-values at all give 1.
    """
    if not all(0 <= p <= 1 for p in values):
        raise ValueError(f"p-values must be from 0 to 1, got {list(values)}")
    if not len(values) or min(values) == 0:
        return 0.0 if len(values) else 1.0
    return float(chdtrc(2 * len(values), -2 * sum(map(math.log, values))))
