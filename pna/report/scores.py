"""What the paper reports of a model, from its runs: the five best of ten by validation error; intervals over seeds.

An interval is a percentile bootstrap: the seeds are drawn again with replacement, and the five best of them are taken
anew. Two models are compared on the same draws, since they share their seeds. All of it is seeded.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pna.report.runs import Run

__all__ = [
    "KEPT",
    "RESAMPLES",
    "Interval",
    "best",
    "difference",
    "drawn_tasks",
    "interval",
    "log_mean",
    "log_tasks",
    "resampled",
]

KEPT = 5  # "report the five with least validation error"
RESAMPLES = 10_000
LEVEL = 0.95

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate with its bootstrap interval."""

    value: float
    low: float
    high: float

    @property
    def sign(self) -> str:
        """Where it lies: "below" or "above" zero, or "undecided"."""
        return "below" if self.high < 0 else "above" if self.low > 0 else "undecided"

    def __str__(self) -> str:
        return f"{self.value:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def best(run: Run, split: str, rows: NDArray[np.int64] | None = None) -> Array:
    """The errors of the five best seeds of each task, [..., 5, 6]; nan where fewer than five came to an end.

    rows, [..., S], are draws of seeds; without them, every seed is taken once.
    """
    validation, errors = run.validation, run.errors(split)
    if rows is None:
        rows = np.arange(len(validation))
    validation, errors = validation[rows], errors[rows]
    order = np.argsort(validation, axis=-2, kind="stable")[..., :KEPT, :]
    kept = np.take_along_axis(errors, order, axis=-2)
    return np.where(np.isfinite(np.take_along_axis(validation, order, axis=-2)), kept, np.nan)


def log_tasks(errors: Array) -> Array:
    """Figure 4b: the mean over seeds of log10 MSE, [..., 6], from errors [..., 5, 6]."""
    return np.nanmean(np.log10(errors), axis=-2)


def log_mean(errors: Array) -> Array:
    """Figure 4a: log10 of the mean MSE over tasks, one number for each seed, [..., 5]."""
    return np.log10(errors.mean(axis=-1))


def resampled(seeds: int) -> NDArray[np.int64]:
    """The draws of seeds, [RESAMPLES, seeds]: the same in every call."""
    return np.random.default_rng(0).integers(seeds, size=(RESAMPLES, seeds))


def interval(value: float, draws: Array) -> Interval:
    """The percentile interval of draws around a value."""
    if not np.isfinite(draws).any():
        return Interval(value, np.nan, np.nan)
    low, high = np.nanquantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(value), float(low), float(high))


def difference(one: Run, other: Run, split: str, task: int | None = None, other_split: str | None = None) -> Interval:
    """log10 MSE of one minus that of other, of a task or averaged over all; below zero if one is the better."""
    seeds = min(len(one.validation), len(other.validation))
    pairs = ((one, split), (other, other_split or split))
    value = np.subtract(*(_score(log_tasks(best(run, where)), task) for run, where in pairs))
    draws = np.subtract(*(_score(drawn_tasks(run, where, seeds), task) for run, where in pairs))
    return interval(value, draws)


@lru_cache(maxsize=256)
def drawn_tasks(run: Run, split: str, seeds: int) -> Array:
    """log_tasks of each draw of seeds, [RESAMPLES, 6]."""
    return log_tasks(best(run, split, resampled(seeds)))


def _score(tasks: Array, task: int | None) -> Array:
    return tasks.mean(axis=-1) if task is None else tasks[..., task]
