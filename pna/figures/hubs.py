"""The networks of `pna hubs` as samples of seeds: their errors by degree, absolute and relative to the baseline's."""

import math

import numpy as np

from pna.experiments import hubs
from pna.figures.scores import five_best
from pna.multitask.hubs import BINS
from pna.verdicts.contrasts import Contrast, Sample
from pna.verdicts.statistics import Estimate

__all__ = ["at_cap", "by_degree", "recorded", "relative"]


def recorded() -> list[str]:
    """The scalers whose networks are recorded, in the order of the experiment."""
    return [name for name in hubs.SCALERS if hubs.path_of(name).exists()]


def by_degree(name: str, task: int | None = None) -> list[Contrast]:
    """log10 MSE in each bin of degrees, seed by seed: mean over the node tasks, or of one."""
    result = hubs.result_of(name)
    validation = np.array([math.inf if one.validation is None else one.validation for one in result.replicas])
    sample = Sample(result.cell, lambda scores: five_best(validation, scores), len(validation))
    scores = hubs.scores(result, task)  # [seeds, bins]
    return [Contrast({sample: scores[:, place]}) for place in range(len(BINS))]


def relative(name: str, task: int | None = None) -> list[Estimate]:
    """`by_degree` minus that of predicting the training mean; at zero a network is no better than that."""
    levels = np.log10(np.array(hubs.result_of(name).facts["baseline"]))  # [bins, tasks]
    levels = levels.mean(axis=1) if task is None else levels[:, task]
    return [
        contrast.estimate.shifted(-float(level)) for contrast, level in zip(by_degree(name, task), levels, strict=True)
    ]


def at_cap(name: str) -> float:
    """The share of errors, over seeds, bins and tasks, that exceed the cap: these networks have exploded."""
    result = hubs.result_of(name)
    limits = np.log10(hubs.CAP * np.array(result.facts["baseline"]))  # [bins, tasks]
    return float(np.mean([hubs.scores(result, task) >= limits[:, task] for task in range(limits.shape[1])]))
