"""The parts of a claim: comparisons as contrasts, and the aggregate test that is made of them.

A part is one comparison with its keys, such as {"model": "GIN", "size": "20-24"}. An `Aggregate` says for which keys a
claim has to hold one by one; over all other keys the parts are averaged, seed by seed where they share seeds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pna.figures.runs import RecordedRun
from pna.figures.scores import SPLIT, by_seed, five_best, overall_by_seed, ratios_by_seed
from pna.multitask import TASKS
from pna.verdicts.contrasts import Contrast, Sample, mean_contrast
from pna.verdicts.rules import Comparison, less, same
from pna.verdicts.statistics import Estimate

__all__ = ["Aggregate", "Part", "average", "by_task", "known", "overall", "ratio"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Part:
    """A comparison of a claim: a contrast that is to be below a bound, or within a margin of zero."""

    name: str
    contrast: Contrast | None
    keys: Mapping[str, str] = field(default_factory=dict)
    bound: float = 0.0
    margin: float | None = None
    text: str = ""  # printed in place of the estimate
    digits: int = 2
    test: Comparison | None = None  # a comparison of another kind, such as a sign test, in place of the contrast's own

    @property
    def comparison(self) -> Comparison:
        """The comparison with its p-value."""
        if self.test is not None:
            return self.test
        estimate = self.contrast.estimate
        one = (
            less(self.name, estimate, self.bound, self.digits)
            if self.margin is None
            else same(self.name, estimate, self.margin, self.digits)
        )
        return replace(one, text=self.text) if self.text else one


@dataclass(frozen=True)
class Aggregate:
    """The one test that decides a claim, declared before the runs that it judges.

    Attributes:
        statistic: the test in words
        every: the keys for each value of which it must hold; over all other keys it is a mean
        need: for how many of these values it must hold; all of them if None
        margin: the margin of the mean, if it differs from that of the parts
        spread: whether it compares deviations over seeds instead of errors
    """

    statistic: str
    every: tuple[str, ...] = ()
    need: int | None = None
    margin: float | None = None
    spread: bool = False

    def parts(self, parts: Iterable[Part]) -> list[Part]:
        """The parts of the aggregate test: means of the claim's parts, one for each value of the keys."""
        groups: dict[tuple[str, ...], list[Part]] = {}
        for part in parts:
            groups.setdefault(tuple(part.keys[key] for key in self.every), []).append(part)
        return [_mean(", ".join(values) or "mean", group, self.margin) for values, group in groups.items()]


def _mean(name: str, group: list[Part], margin: float | None) -> Part:
    """The mean of a group of parts as one part; a group of one is that part, with the margin of the mean."""
    first = group[0]
    if len(group) == 1:
        return first if margin is None else replace(first, margin=margin)
    if other := next((part for part in group if part.contrast is None), None):
        return replace(other, name=name, keys=first.keys)  # on other data: there is no mean to take
    contrast = mean_contrast(part.contrast for part in group)
    return Part(name, contrast, first.keys, first.bound, margin or first.margin, digits=first.digits)


# ---- measures ----


def average(run: RecordedRun, split: str = SPLIT, task: int | None = None) -> Contrast:
    """Mean log10 MSE over the six tasks, or of one of them."""
    return by_task(run, by_seed(run, split), task)


def overall(run: RecordedRun, split: str = SPLIT) -> Contrast:
    """log10 of the mean MSE over tasks: figure 4a's measure."""
    return Contrast({_sample(run): overall_by_seed(run, split)})


def ratio(run: RecordedRun, split: str) -> Contrast:
    """log10 of the mean MSE over tasks relative to the baseline's: figure 5's measure."""
    return Contrast({_sample(run): ratios_by_seed(run, split)})


def by_task(run: RecordedRun, scores: Array, task: int | None = None) -> Contrast:
    """Scores [S, 6] as a contrast; networks of single tasks are chosen task by task, and are a sample each."""
    if (run.validation == run.validation[:, :1]).all():
        return Contrast({_sample(run): scores.mean(axis=1) if task is None else scores[:, task]})
    columns = range(len(TASKS)) if task is None else [task]
    return Contrast({_sample(run, k): scores[:, k] / len(columns) for k in columns})


def _sample(run: RecordedRun, task: int | None = None) -> Sample:
    """The sample of a cell's seeds, or of those of one task; its name begins with the cell's."""
    validation = run.validation[:, task or 0]
    name = str(run.cell) + ("" if task is None else f"#{TASKS[task].name}")
    return Sample(name, lambda scores: five_best(validation, scores), len(validation))


def known(name: str, estimate: Estimate, seeds: int = 0) -> Contrast:
    """A mean that is known with its error, such as a published one, or one over all seeds of a cell."""

    def scaled(weight: Array) -> Estimate:
        factor = float(weight[0])
        return Estimate(factor * estimate.value, abs(factor) * estimate.error, estimate.freedom)

    return Contrast({Sample(name, scaled, seeds): np.ones(1)})
