"""Contrasts: weighted sums of the scores of independent samples, so that means over comparisons have the right error.

Six differences between one model and six others share the first model's seeds, and differences on several test sets
share everybody's. Their mean is a weighted sum with one term for each sample: the seeds of one network, averaged over
test sets before anything else. The errors of the terms are independent, and add up.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pna.verdicts.statistics import Estimate, combined

__all__ = ["Contrast", "Sample", "mean_contrast"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """An independent sample of seeds, such as a trained cell, or a published number.

    Attributes:
        name: what it is known by; two samples of the same name are the same
        estimate: makes the estimate of a mean from the score of each seed
        seeds: the number of seeds; 0 for a number that no new run makes more certain
    """

    name: str
    estimate: Callable[[Array], Estimate] = field(compare=False, repr=False)
    seeds: int = field(compare=False)


@dataclass(frozen=True)
class Contrast:
    """A sum of terms, each the scores of one sample, seed by seed, with their weight included."""

    terms: dict[Sample, Array]

    @property
    def estimate(self) -> Estimate:
        """The sum with its error; a single term keeps all that is known of it."""
        estimates = self.estimates.values()
        return next(iter(estimates)) if len(self.terms) == 1 else combined((1.0, one) for one in estimates)

    @property
    def estimates(self) -> dict[Sample, Estimate]:
        """The estimate of each term."""
        return {sample: sample.estimate(scores) for sample, scores in self.terms.items()}

    def __add__(self, other: "Contrast") -> "Contrast":
        terms = dict(self.terms)
        for sample, scores in other.terms.items():
            terms[sample] = terms[sample] + scores if sample in terms else scores
        return Contrast(terms)

    def __sub__(self, other: "Contrast") -> "Contrast":
        return self + other * -1.0

    def __mul__(self, factor: float) -> "Contrast":
        return Contrast({sample: factor * scores for sample, scores in self.terms.items()})


def mean_contrast(contrasts: Iterable[Contrast]) -> Contrast:
    """The mean of several contrasts; terms of the same sample are added seed by seed."""
    contrasts = list(contrasts)
    if not contrasts:
        raise ValueError("a mean needs at least one contrast, got none")
    total = contrasts[0]
    for one in contrasts[1:]:
        total = total + one
    return total * (1 / len(contrasts)) if len(contrasts) > 1 else total
