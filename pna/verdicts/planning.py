"""How likely a planned comparison is to be significant, and how many seeds that takes.

A comparison is Welch's test between the mean scores of two groups of seeds, normal with given standard deviations. Its
power has a formula: divided by the variances, the groups' sums of squares add up to a χ² variable, and the first one's
share in it is a beta variable, independent of the total. These two determine the estimated error and Welch's degrees of
freedom, and the mean difference is normal and independent of both. The power is an integral over total and share.

Holm's method never asks a comparison for more than Bonferroni's does: a p-value below 5 % over the number of
comparisons. `power` and `equivalence_power` are the probability of that, a lower bound whatever the other comparisons
are. `claim_power` follows Holm's method through all comparisons of a claim.

A contrast is a sum over many groups. `planned` is what its error would be with other numbers of seeds, and `t_power`
the power of its t-test, in which the square of the estimated error is a χ² variable.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, gammaincinv, ndtr, stdtrit

from pna.verdicts.contrasts import Contrast, Sample
from pna.verdicts.statistics import LEVEL, Estimate, binomial, combined

__all__ = ["claim_power", "equivalence_power", "fewest_seeds", "planned", "power", "t_power"]

Array = NDArray[np.float64]
Deviation = float | tuple[float, float]  # the same in both groups, or one for each
Seeds = int | tuple[int, int]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(100)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2  # on [0, 1], for integrals over a cumulative probability


def power(difference: float, deviation: Deviation, seeds: Seeds, comparisons: int = 1) -> float:
    """The probability that a true difference is significant after Holm's correction: that `less` holds.

    Args:
        difference: the true distance from the bound, in the direction of the claim
        deviation: the standard deviation between seeds, or a pair of them, one for each group
        seeds: the number of seeds in each group, or a pair
        comparisons: how many comparisons the claim has
    """
    error, reach = _welch(deviation, seeds, _alpha(comparisons) / 2)
    return _mean(ndtr(difference / error - reach))


def equivalence_power(
    margin: float, deviation: Deviation, seeds: Seeds, comparisons: int = 1, difference: float = 0.0
) -> float:
    """The probability that a difference is shown to be within a margin after Holm's correction: that `same` holds.

    Args:
        margin: the largest difference that counts as none
        deviation: the standard deviation between seeds, or a pair of them, one for each group
        seeds: the number of seeds in each group, or a pair
        comparisons: how many comparisons the claim has
        difference: the true difference
    """
    error, reach = _welch(deviation, seeds, _alpha(comparisons))
    room, centre = margin / error - reach, difference / error
    return _mean(np.maximum(ndtr(room - centre) - ndtr(-room - centre), 0.0))


def claim_power(
    difference: float, deviation: Deviation, seeds: Seeds, comparisons: int, need: int | None = None
) -> float:
    """The probability that all comparisons of a claim, or at least `need` of them, hold after Holm's correction.

    The comparisons are taken as independent, all with the same true difference.
    """
    need, reached = comparisons if need is None else need, 0.0
    counts = np.eye(comparisons + 1)[0]  # the probability of each number of p-values below the level of Holm's step
    for step in range(need):
        chance = power(difference, deviation, seeds, comparisons - step)
        share = (chance - reached) / (1 - reached) if reached < 1 else 0.0  # of those that were above the last level
        more = np.zeros_like(counts)
        for count, probability in enumerate(counts):
            more[count:] += probability * binomial(comparisons - count, share)
        more[: step + 1] = 0.0  # fewer than step + 1 end the procedure
        counts, reached = more, chance
    return float(counts.sum())


def planned(contrast: Contrast, seeds: Mapping[Sample, int], freedom: Callable[[Sample, int], float]) -> Estimate:
    """The estimate that a contrast would have with other numbers of seeds, if all else stayed as it is.

    Variances are taken as inversely proportional to the number of seeds. Samples without seeds stay as they are.

    Args:
        contrast: the contrast, with the seeds that there are
        seeds: the number of seeds of each sample then
        freedom: the degrees of freedom of a sample's error with that number of seeds
    """
    terms = []
    for sample, one in contrast.estimates.items():
        if sample.seeds and sample in seeds:
            count = seeds[sample]
            one = Estimate(one.value, one.error * math.sqrt(sample.seeds / count), freedom(sample, count))
        terms.append((1.0, one))
    return combined(terms)


def t_power(estimate: Estimate, bound: float, margin: float | None = None, comparisons: int = 1) -> float:
    """The power of the t-test that decides a comparison, on whichever side of its bound the estimate is.

    Args:
        estimate: the true value, the true standard error, and the degrees of freedom of the estimated error
        bound: what the value is compared with, by `less`
        margin: if it is given, the difference from `bound` is compared with it, by `same`
        comparisons: Bonferroni's divisor of the level
    """
    error, freedom = max(estimate.error, 1e-12), estimate.freedom
    wobble = np.sqrt(2 * gammaincinv(freedom / 2, _NODES) / freedom)  # estimated over true error, [totals]
    alpha, away = _alpha(comparisons), abs(estimate.value - bound)
    if margin is not None and away < margin:
        room = margin / error + stdtrit(freedom, alpha) * wobble
        return float(_WEIGHTS @ np.maximum(ndtr(room - away / error) - ndtr(-room - away / error), 0.0))
    distance = away - (margin or 0.0)
    return float(_WEIGHTS @ ndtr(distance / error + stdtrit(freedom, alpha / 2) * wobble))


def fewest_seeds(power_with: Callable[[int], float], wanted: float = 0.9, most: int = 1000) -> int:
    """The least number of seeds with the wanted power, as in `fewest_seeds(lambda n: power(0.3, 0.2, n, 6))`."""
    if power_with(most) < wanted:
        raise ValueError(f"{most:,} seeds are too few for a power of {wanted:.0%}")
    return 2 + bisect_left(range(2, most), wanted, key=power_with)


def _alpha(comparisons: int) -> float:
    """Level of significance for each comparison after Bonferroni's correction for their number."""
    if comparisons < 1:
        raise ValueError(f"comparisons must be at least 1, got {comparisons}")
    return (1 - LEVEL) / comparisons


def _welch(deviation: Deviation, seeds: Seeds, alpha: float) -> tuple[float, Array]:
    """The standard error of a difference, and how far from a bound it is significant, in such errors, [totals, shares].

    The distance is the critical t times the estimated error, over quantiles of what the latter depends on: the total
    of the scaled sums of squares, and the share of the first group in it.
    """
    (one, other), (n, m) = np.broadcast_to(deviation, 2), np.broadcast_to(seeds, 2)
    if min(n, m) < 2:
        raise ValueError(f"seeds must be at least 2, got {min(n, m)}")
    if not min(one, other) > 0:
        raise ValueError(f"deviation must be positive, got {min(one, other)}")
    error = math.hypot(one / math.sqrt(n), other / math.sqrt(m))
    totals, share = 2 * gammaincinv((n + m - 2) / 2, _NODES), betaincinv((n - 1) / 2, (m - 1) / 2, _NODES)
    first, second = one**2 / (n * (n - 1)) * share, other**2 / (m * (m - 1)) * (1 - share)
    freedom = (first + second) ** 2 / (first**2 / (n - 1) + second**2 / (m - 1))
    return error, np.outer(np.sqrt(totals), -stdtrit(freedom, alpha) * np.sqrt(first + second) / error)


def _mean(values: Array) -> float:
    """The mean over all quantiles of totals and shares."""
    return min(1.0, float(_WEIGHTS @ values @ _WEIGHTS))
