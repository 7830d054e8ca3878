"""The networks of `pna hubs` as samples of seeds: their errors by degree, absolute and relative to the baseline's."""

import math

import numpy as np
from numpy.typing import NDArray

from pna.experiments import hubs
from pna.figures.scores import five_best
from pna.multitask.hubs import BINS
from pna.training.store import Result
from pna.verdicts.contrasts import Contrast, Sample, mean_contrast
from pna.verdicts.statistics import Estimate

__all__ = ["at_cap", "by_degree", "exponents", "recorded", "relative", "relative_mean", "validation_error"]


def recorded() -> list[str]:
    """The scalers whose networks are recorded, in the order of the experiment."""
    return [name for name in hubs.SCALERS if hubs.path_of(name).exists()]


def by_degree(name: str, task: int | None = None) -> list[Contrast]:
    """log10 MSE in each bin of degrees, seed by seed: mean over the node tasks, or of one."""
    result = hubs.result_of(name)
    validation = _validation(result)
    sample = Sample(result.cell, lambda scores: five_best(validation, scores), len(validation))
    scores = hubs.scores(result, task)  # [seeds, bins]
    return [Contrast({sample: scores[:, place]}) for place in range(len(BINS))]


def _validation(result: Result) -> NDArray[np.float64]:
    """The validation error of each seed, infinite where it diverged, [seeds]."""
    return np.array([math.inf if one.validation is None else one.validation for one in result.replicas])


def relative(name: str, task: int | None = None) -> list[Estimate]:
    """`by_degree` minus that of predicting the training mean; at zero a network is no better than that."""
    rows = zip(by_degree(name, task), _baseline(name, task), strict=True)
    return [contrast.estimate.shifted(-float(level)) for contrast, level in rows]


def relative_mean(name: str, task: int | None = None) -> Estimate:
    """The mean of `relative` over the bins of degrees."""
    return mean_contrast(by_degree(name, task)).estimate.shifted(-float(_baseline(name, task).mean()))


def _baseline(name: str, task: int | None) -> NDArray[np.float64]:
    """log10 MSE of predicting the training mean in each bin, mean over the node tasks or of one, [bins]."""
    levels = np.log10(np.array(hubs.result_of(name).facts["baseline"]))  # [bins, tasks]
    return levels.mean(axis=1) if task is None else levels[:, task]


def validation_error(name: str) -> float:
    """Mean squared error on the validation graphs, which have the degrees of training, mean over the seeds."""
    return float(np.mean(_validation(hubs.result_of(name))))


def exponents(name: str) -> NDArray[np.float64]:
    """The exponents α of a network whose exponents are learned, [seeds, layers, scalers]."""
    return np.array(hubs.result_of(name).facts["exponents"])


def at_cap(name: str) -> float:
    """The share of errors, over seeds, bins and tasks, that exceed the cap: these networks have exploded."""
    result = hubs.result_of(name)
    limits = np.log10(hubs.CAP * np.array(result.facts["baseline"]))  # [bins, tasks]
    return float(np.mean([hubs.scores(result, task) >= limits[:, task] for task in range(limits.shape[1])]))
