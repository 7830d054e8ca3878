"""How often an interval contains the truth, simulated on the recorded seeds: the interval in use and five others.

The ten (validation, score) pairs of a recorded cell make a population with their mean and covariance. It is either
normal or smoothed: each draw is then one of the ten pairs with some noise. A trial draws ten pairs, chooses five by
validation and computes the intervals. The truth is the mean over very many such choices.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from pna.figures.runs import RecordedRun, runs_of
from pna.figures.scores import FREEDOM, KEPT, SHOWN, by_seed, ratios_by_seed, sizes_of
from pna.verdicts.statistics import LEVEL, choice_covariance

__all__ = ["METHODS", "USED", "kept_table", "populations", "simulate", "table"]

SEEDS = 10
USED = "bootstrap error, t with 5 degrees of freedom"
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
        """The standard error of that mean, as in `pna.figures.scores.five_best`, [trials]."""
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
    centred = ranked - ranked[..., :KEPT].mean(axis=-1, keepdims=True)
    variance = np.einsum("...i,ij,...j->...", centred, choice_covariance(SEEDS, KEPT), centred)
    return np.sqrt(np.maximum(variance, 0.0) * SEEDS / (SEEDS - 1))


# ---- the intervals ----


def _t(sample: Sample) -> Ends:
    return _around(sample.value, sample.error, FREEDOM)


def _around(value: Array, error: Array, freedom: float | Array) -> Ends:
    reach = stdtrit(freedom, (1 + LEVEL) / 2) * error
    return value - reach, value + reach


def _five_alone(sample: Sample) -> Ends:
    chosen = sample.ranked[:, :KEPT]
    return _around(sample.value, chosen.std(axis=1, ddof=1) / np.sqrt(KEPT), KEPT - 1)


def _jackknife(sample: Sample) -> Ends:
    means = sample.without
    error = np.sqrt((SEEDS - 1) / SEEDS * ((means - means.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
    return _around(sample.value, error, SEEDS - 1)


def _percentile(sample: Sample) -> Ends:
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
    covariance = np.cov(pairs.T)
    return np.linalg.cholesky(covariance + 1e-9 * np.diag(np.diag(covariance)))


def populations(pairs: Array) -> dict[str, Population]:
    """The two populations, by name, that recorded (log10 validation, score) pairs, [10, 2], make."""
    return {"normal": _normal(pairs), "smoothed": _smoothed(pairs)}


# ---- the simulation ----


def simulate(population: Population, trials: int = 2_000, resamples: int = 1_000, seed: int = 0) -> dict[str, float]:
    """The share of trials in which each interval contains the truth, and the range for the next mean that mean."""
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


def _ranked(pairs: Array) -> Array:
    order = np.argsort(pairs[..., 0], axis=-1)
    return np.take_along_axis(pairs[..., 1], order, axis=-1)


def recorded_pairs() -> dict[str, Array]:
    """The (validation, score) pairs, [10, 2], of each cell of figures 4 and 5 recorded at the paper's budget."""
    pairs = {}
    for spec in ("released", "described"):
        for run in runs_of("figure4", spec, "paper").found.values():
            pairs[f"{run.cell}, average"] = _pairs(run, by_seed(run, "multitask/test").mean(axis=1))
        for run in runs_of("figure5", spec, "paper").found.values():
            size, split = list(sizes_of(run).items())[SHOWN - 1]
            pairs[f"{run.cell}, {size} nodes"] = _pairs(run, ratios_by_seed(run, split))
    return pairs


def _pairs(run: RecordedRun, scores: Array) -> Array:
    return np.stack([np.log10(run.validation[:, 0]), scores], axis=1)


def table(trials: int = 2_000) -> dict:
    """The whole simulation: a row for each cell and population, and each interval's mean, least and most coverage."""
    rows = [
        {"cell": cell, "population": name, **{k: round(v, 4) for k, v in simulate(population, trials).items()}}
        for cell, pairs in recorded_pairs().items()
        if np.isfinite(pairs).all() and pairs[:, 1].std() > 0  # if all ten exploded, there is nothing to estimate
        for name, population in populations(pairs).items()
    ]
    if not rows:
        raise ValueError("no cell of figures 4 and 5 is recorded at the paper's budget")
    names = [name for name in rows[0] if name not in ("cell", "population")]
    shares = {name: np.array([row[name] for row in rows]) for name in names}
    summary = {
        name: {"mean": round(float(v.mean()), 4), "least": float(v.min()), "most": float(v.max())}
        for name, v in shares.items()
    }
    return {"stated": LEVEL, "trials": trials, "populations": len(rows), "coverage": summary, "rows": rows}


def kept_table() -> dict:
    """The simulation as last written by `python -m pna coverage --write`."""
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
