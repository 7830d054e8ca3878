"""How often an interval contains the truth, simulated on the recorded seeds: the interval in use and five others.

The ten (validation, score) pairs of a recorded cell make a population with their mean and covariance. It is either
normal or smoothed: each draw is then one of the ten pairs with some noise. A trial draws ten pairs, chooses five by
validation and computes the intervals. The truth is the mean over very many such choices.

Three more questions are answered for the interval in use: how often two equal networks are called different at the
small p-values that Holm's correction asks for, what becomes of it with more seeds, and with networks of single tasks,
some seeds of which learn the task and some do not: two humps.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from pna.figures.runs import RecordedRun, runs_of
from pna.figures.scores import FREEDOM, KEPT, SHOWN, SPLIT, by_seed, ratios_by_seed, sizes_of
from pna.multitask import TASKS
from pna.verdicts.statistics import LEVEL, choice_covariance, subset_freedom, subset_jackknife, subset_weights

__all__ = ["METHODS", "MORE", "SINGLE", "USED", "kept_table", "populations", "simulate", "table"]

SEEDS = 10
USED = "bootstrap error, t with 5 degrees of freedom"
MORE = {
    seeds: f"{seeds} seeds: jackknife error, t with {subset_freedom(seeds, SEEDS, KEPT):.1f}"
    for seeds in (15, 20, 30, 40)
}
SINGLE = {seeds: f"single tasks, two humps: {seeds} seeds" for seeds in (10, 20, 30)}
Array = NDArray[np.float64]
Ends = tuple[Array, Array]


@dataclass(frozen=True)
class Sample:
    """The scores of each trial, ranked by validation, [trials, 10], and the ranks in each of B resamples, [B, 10]."""

    ranked: Array
    rows: NDArray[np.int64]

    @property
    def value(self) -> Array:
        """The five-best mean of each trial, [trials]."""
        return self.ranked[:, :KEPT].mean(axis=1)

    @property
    def error(self) -> Array:
        """The standard error of the five-best mean, as in `pna.figures.scores.five_best`, [trials]."""
        return _error(self.ranked)

    @property
    def resampled(self) -> Array:
        """The five-best mean of each resample, [trials, B]."""
        weights = np.stack([np.bincount(row[:KEPT], minlength=SEEDS) for row in self.rows]) / KEPT
        return self.ranked @ weights.T

    @property
    def without(self) -> Array:
        """The five-best mean without each seed in turn, [trials, 10]."""
        chosen = [np.delete(np.arange(SEEDS), place)[:KEPT] for place in range(SEEDS)]
        return np.stack([self.ranked[:, places].mean(axis=1) for places in chosen], axis=1)


def _error(ranked: Array) -> Array:
    """Standard error of the five-best mean of scores ranked by validation, [..., 10] -> [...]."""
    centred = ranked - ranked[..., :KEPT].mean(axis=-1, keepdims=True)
    variance = np.einsum("...i,ij,...j->...", centred, choice_covariance(SEEDS, KEPT), centred)
    return np.sqrt(np.maximum(variance, 0.0) * SEEDS / (SEEDS - 1))


# ---- the intervals ----


def _t(sample: Sample) -> Ends:
    """The interval in use: the bootstrap error times a quantile of t with FREEDOM degrees of freedom."""
    return _around(sample.value, sample.error, FREEDOM)


def _around(value: Array, error: Array, freedom: float | Array) -> Ends:
    """The interval of level LEVEL by Student's t, from means and their standard errors, [trials] each."""
    reach = stdtrit(freedom, (1 + LEVEL) / 2) * error
    return value - reach, value + reach


def _five_alone(sample: Sample) -> Ends:
    """The interval that ignores the choice by validation: t with 4 degrees of freedom from the five chosen scores."""
    chosen = sample.ranked[:, :KEPT]
    return _around(sample.value, chosen.std(axis=1, ddof=1) / np.sqrt(KEPT), KEPT - 1)


def _jackknife(sample: Sample) -> Ends:
    """The interval from the jackknife's error over the ten seeds, with t of 9 degrees of freedom."""
    means = sample.without
    error = np.sqrt((SEEDS - 1) / SEEDS * ((means - means.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
    return _around(sample.value, error, SEEDS - 1)


def _percentile(sample: Sample) -> Ends:
    """The bootstrap percentile interval: quantiles of the resampled five-best means."""
    low, high = np.quantile(sample.resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
    return low, high


def _bca(sample: Sample) -> Ends:
    """The bias-corrected and accelerated bootstrap, after Efron (1987)."""
    draws, value = np.sort(sample.resampled, axis=1), sample.value[:, None]
    below = ((draws < value).mean(axis=1) + (draws <= value).mean(axis=1)) / 2
    bias = ndtri(np.clip(below, 1e-4, 1 - 1e-4))
    from_mean = sample.without.mean(axis=1, keepdims=True) - sample.without
    cubes, squares = (from_mean**3).sum(axis=1), (from_mean**2).sum(axis=1)
    acceleration = cubes / (6 * np.maximum(squares, 1e-30) ** 1.5)

    def end(z: float) -> Array:
        """The interval's end for the normal quantile z, corrected for bias and acceleration, [trials]."""
        share = ndtr(bias + (bias + z) / (1 - acceleration * (bias + z)))
        place = np.clip((share * draws.shape[1]).astype(int), 0, draws.shape[1] - 1)
        return np.take_along_axis(draws, place[:, None], axis=1)[:, 0]

    z = float(ndtri((1 + LEVEL) / 2))
    return end(-z), end(z)


def _studentised(sample: Sample) -> Ends:
    """The bootstrap-t: quantiles of (resampled mean - mean) / error of the resample."""
    value, error = sample.value, sample.error
    ends = np.empty((len(value), 2))
    for trial, ranked in enumerate(sample.ranked):
        again = ranked[sample.rows]
        errors = _error(again)
        usable = errors > 1e-12
        ratios = (again[usable, :KEPT].mean(axis=1) - value[trial]) / errors[usable]
        ends[trial] = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return value - ends[:, 1] * error, value - ends[:, 0] * error


METHODS: dict[str, Callable[[Sample], Ends]] = {
    USED: _t,
    "bootstrap-t (studentised)": _studentised,
    "jackknife error, t with 9": _jackknife,
    "the five as if they were all, t with 4": _five_alone,
    "bootstrap percentiles": _percentile,
    "BCa": _bca,
}


# ---- the populations ----

Population = Callable[[tuple[int, ...], np.random.Generator], Array]  # (shape) -> pairs, [*shape, 2]


def _normal(pairs: Array) -> Population:
    """The normal population with the mean and covariance of recorded pairs, [10, 2]."""
    mean, root = pairs.mean(axis=0), _root(pairs)
    return lambda shape, rng: mean + rng.standard_normal((*shape, 2)) @ root.T


def _smoothed(pairs: Array) -> Population:
    """A population smoothed by a kernel of n^(-1/6) deviations, then shrunk to keep the covariance of the ten pairs."""
    mean, root, width = pairs.mean(axis=0), _root(pairs), len(pairs) ** (-1 / 6)
    shrink = np.sqrt((len(pairs) - 1) / len(pairs) + width**2)

    def draw(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        chosen = pairs[rng.integers(len(pairs), size=shape)]
        return mean + (chosen - mean + width * rng.standard_normal((*shape, 2)) @ root.T) / shrink

    return draw


def _root(pairs: Array) -> Array:
    """Cholesky factor of the covariance of pairs, [10, 2] -> [2, 2], with a slightly larger diagonal."""
    covariance = np.cov(pairs.T)
    return np.linalg.cholesky(covariance + 1e-9 * np.diag(np.diag(covariance)))


def populations(pairs: Array) -> dict[str, Population]:
    """The two populations, by name, that recorded (log10 validation, score) pairs, [10, 2], make."""
    return {"normal": _normal(pairs), "smoothed": _smoothed(pairs)}


def humps(pairs: Array) -> Population:
    """The population that keeps the humps of recorded pairs, [10, 2]: one of them plus a tenth of their deviation."""
    root = 0.1 * _root(pairs)
    return lambda shape, rng: pairs[rng.integers(len(pairs), size=shape)] + rng.standard_normal((*shape, 2)) @ root.T


# ---- the simulation ----


def simulate(population: Population, trials: int = 2_000, resamples: int = 1_000, seed: int = 0) -> dict[str, float]:
    """The share of trials in which each interval contains the truth.

    Two more rows answer how often the range for the next mean contains that mean, and how often the interval of the
    difference between two such means contains 0.
    """
    rng = np.random.default_rng(seed)
    truth = _ranked(population((100_000, SEEDS), rng))[:, :KEPT].mean()
    rows = np.sort(rng.integers(SEEDS, size=(resamples, SEEDS)), axis=1)
    sample = Sample(_ranked(population((trials, SEEDS), rng)), rows)
    shares = {}
    for name, method in METHODS.items():
        low, high = method(sample)
        shares[name] = float(((low <= truth) & (truth <= high)).mean())
    after = Sample(_ranked(population((trials, SEEDS), rng)), rows)
    low, high = _around(sample.value, np.sqrt(2) * sample.error, FREEDOM)
    shares["range for the next mean"] = float(((low <= after.value) & (after.value <= high)).mean())
    one, other = sample.error**2, after.error**2
    welch = FREEDOM * (one + other) ** 2 / (one**2 + other**2)
    low, high = _around(sample.value - after.value, np.sqrt(one + other), welch)
    return shares | {"difference of two such means": float(((low <= 0) & (high >= 0)).mean())}


def more_seeds(population: Population, seeds: int, trials: int = 2_000, seed: int = 0) -> float:
    """The share of trials in which the interval from more than ten seeds contains the five-best mean of ten."""
    rng = np.random.default_rng(seed)
    truth = _ranked(population((100_000, SEEDS), rng))[:, :KEPT].mean()
    ranked = _ranked(population((trials, seeds), rng))
    value = ranked @ subset_weights(seeds, seeds, SEEDS, KEPT)
    without = ranked @ subset_jackknife(seeds, seeds, SEEDS, KEPT).T
    error = np.sqrt((seeds - 1) / seeds * ((without - without.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
    low, high = _around(value, error, subset_freedom(seeds, SEEDS, KEPT))
    return float(((low <= truth) & (truth <= high)).mean())


def false_alarms(population: Population, comparisons: int, trials: int = 20_000, seed: int = 0) -> float:
    """The rate of p-values below 5 % / `comparisons` between two equal networks, as a multiple of the stated rate."""
    rng = np.random.default_rng(seed)
    one, other = (Sample(_ranked(population((trials, SEEDS), rng)), np.empty((0, SEEDS), int)) for _ in range(2))
    a, b = one.error**2, other.error**2
    with np.errstate(divide="ignore", invalid="ignore"):
        t, freedom = (one.value - other.value) / np.sqrt(a + b), FREEDOM * (a + b) ** 2 / (a**2 + b**2)
        p = 2 * stdtr(freedom, -np.abs(t))
    alpha = (1 - LEVEL) / comparisons
    return float((p < alpha).mean()) / alpha


def _ranked(pairs: Array) -> Array:
    """Scores in the order of their validation losses, [..., S, 2] -> [..., S]."""
    order = np.argsort(pairs[..., 0], axis=-1)
    return np.take_along_axis(pairs[..., 1], order, axis=-1)


def recorded_pairs() -> dict[str, Array]:
    """The (validation, score) pairs, [10, 2], of each cell of figures 4 and 5 recorded at the paper's budget."""
    pairs = {}
    for spec in ("released", "described"):
        for run in runs_of("figure4", spec, "paper").recorded.values():
            pairs[f"{run.cell}, average"] = _pairs(run, by_seed(run, "multitask/test").mean(axis=1))
        for run in runs_of("figure5", spec, "paper").recorded.values():
            size, split = list(sizes_of(run).items())[SHOWN - 1]
            pairs[f"{run.cell}, {size} nodes"] = _pairs(run, ratios_by_seed(run, split))
    return pairs


def _pairs(run: RecordedRun, scores: Array, task: int = 0) -> Array:
    """The pairs of log10 validation loss and score of a run's seeds, [S, 2]."""
    return np.stack([np.log10(run.validation[:, task]), scores], axis=1)


def single_task_pairs() -> dict[str, Array]:
    """The (validation, score) pairs, [10, 2], of each network of a single task recorded at the paper's budget."""
    return {
        f"{run.cell}, {task.title}": _pairs(run, by_seed(run, SPLIT)[:, k], k)
        for spec in ("released", "described")
        for run in runs_of("single-task", spec, "paper").of("single-task").values()
        for k, task in enumerate(TASKS)
    }


def _usable(pairs: Array) -> bool:
    """Whether there is something to estimate: ten numbers, not all of them alike."""
    return bool(np.isfinite(pairs).all()) and (pairs.std(axis=0) > 1e-9).all()


def table(trials: int = 2_000) -> dict:
    """The whole simulation: a row for each cell and population, and each interval's mean, least and most coverage."""
    recorded = [
        (cell, name, population)
        for cell, pairs in recorded_pairs().items()
        if _usable(pairs)  # if all ten exploded, there is nothing to estimate
        for name, population in populations(pairs).items()
    ]
    if not recorded:
        raise ValueError("no cell of figures 4 and 5 is recorded at the paper's budget")
    rows = [
        {"cell": cell, "population": name, **{k: round(v, 4) for k, v in simulate(population, trials).items()}}
        for cell, name, population in recorded
    ]
    names = [name for name in rows[0] if name not in ("cell", "population")]
    coverage = {name: _summary([row[name] for row in rows]) for name in names}
    for seeds, name in MORE.items():
        coverage[name] = _summary([more_seeds(population, seeds, trials) for *_, population in recorded])
    single = [humps(pairs) for pairs in single_task_pairs().values() if _usable(pairs)]
    if single:
        coverage[SINGLE[SEEDS]] = _summary([_in_use(one, trials) for one in single])
        for seeds in (seeds for seeds in SINGLE if seeds > SEEDS):
            coverage[SINGLE[seeds]] = _summary([more_seeds(one, seeds, trials) for one in single])
    alarms = {
        f"{count}": _summary([false_alarms(population, count, 10 * trials) for *_, population in recorded])
        | ({"single tasks": _summary([false_alarms(one, count, 10 * trials) for one in single])} if single else {})
        for count in HOLM
    }
    facts = {"stated": LEVEL, "trials": trials, "populations": len(rows), "coverage": coverage}
    return facts | {"false_alarms": alarms, "rows": rows}


HOLM = (1, 6, 36)  # comparisons


def _in_use(population: Population, trials: int) -> float:
    """The coverage of the interval in use alone."""
    rng = np.random.default_rng(0)
    truth = _ranked(population((100_000, SEEDS), rng))[:, :KEPT].mean()
    low, high = _t(Sample(_ranked(population((trials, SEEDS), rng)), np.empty((0, SEEDS), int)))
    return float(((low <= truth) & (truth <= high)).mean())


def _summary(shares: Sequence[float]) -> dict[str, float]:
    """Mean, least and most of some shares, rounded to four digits."""
    values = np.array(shares)
    return {"mean": round(float(values.mean()), 4), "least": round(float(values.min()), 4),
            "most": round(float(values.max()), 4)}  # fmt: skip


def kept_table() -> dict:
    """The simulation as last written by `python -m pna coverage --write`."""
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
