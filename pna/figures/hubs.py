"""The networks of `pna hubs` as samples of seeds: their errors by degree, and the baseline's."""

import math

import numpy as np
from numpy.typing import NDArray

from pna.experiments import hubs
from pna.multitask.hubs import BINS
from pna.verdicts.contrasts import Contrast, Sample
from pna.verdicts.statistics import best_mean

__all__ = ["KEEP", "OF", "baseline", "by_degree", "recorded"]

KEEP, OF = 5, 10  # the paper's: five best of ten seeds by validation


def recorded() -> list[str]:
    """The scalers whose networks are recorded, in the order of the experiment."""
    return [name for name in hubs.SCALERS if hubs.path_of(name).exists()]


def by_degree(name: str) -> list[Contrast]:
    """log10 MSE of the node tasks in each bin of degrees, seed by seed."""
    result = hubs.result_of(name)
    validation = [math.inf if one.validation is None else one.validation for one in result.replicas]
    sample = Sample(result.cell, lambda scores: best_mean(validation, scores, KEEP, of=OF), len(validation))
    scores = hubs.scores(result)  # [seeds, bins]
    return [Contrast({sample: scores[:, place]}) for place in range(len(BINS))]


def baseline(name: str) -> NDArray[np.float64]:
    """log10 MSE of predicting the training mean in each bin, mean over the node tasks, [bins]."""
    return np.log10(np.array(hubs.result_of(name).facts["baseline"])).mean(axis=1)
