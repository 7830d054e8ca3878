"""The tests behind the claims about networks and data: facts that need no training."""

import math
from dataclasses import replace
from functools import cache

import numpy as np

from pna.figures import published
from pna.multitask import DESCRIBED, RELEASED, RELEASED_MAXIMA, TASKS, Spec, Split, make
from pna.multitask.toggling import toggling_probabilities
from pna.networks import MODELS, build, count_parameters
from pna.realworld.data.superpixels import NEIGHBOURS, SCALE, Superpixels, edges
from pna.verdicts.rules import Comparison, fact, same
from pna.verdicts.statistics import Estimate

__all__ = ["baseline", "counts", "degrees_of_images", "edges_of_images", "fewer_than_standard", "larger_others"]
__all__ += ["larger_others_on_average", "more_parameters", "more_parameters_on_average", "toggling"]
__all__ += ["toggling_as_described", "width"]

BASELINE_MARGIN = 0.1  # log10 MSE, as for trainings

_OTHERS = ("pna-no-scalers", "mpnn-max", "gat", "gcn", "gin")  # MPNN (sum) is as large as MPNN (max)


def _count(model: str, hidden: int = 16) -> int:
    """The number of parameters of a model's recurrent network."""
    return count_parameters(build(model, hidden))


def width() -> list[Comparison]:
    """The width of U's input in features: aggregators times scalers, and one for the node itself."""
    tables = MODELS["pna"].convolution.keywords
    aggregators, scalers = len(tables["aggregators"]), len(tables["scalers"])
    total = aggregators * scalers + 1
    return [fact("", total == 13, f"{aggregators} aggregators × {scalers} scalers + 1 = {total}")]


def more_parameters() -> list[Comparison]:
    """How many more parameters PNA has than each other model at 16 features; "about 15 %" is read as 10 to 20 %."""
    return [fact(MODELS[name].title, _about(share, 0.15), f"{share:+.0%}") for name, share in _more().items()]


def more_parameters_on_average() -> list[Comparison]:
    """How many more parameters PNA has than another model at 16 features, mean over the six other models."""
    share = _mean(_more())
    return [fact("mean over the six models", _about(share, 0.15), f"{share:+.0%}")]


def larger_others() -> list[Comparison]:
    """How many more parameters each other model has at 20 features than PNA at 16; "30 %" is read as 25 to 35 %."""
    return [fact(MODELS[name].title, _about(share, 0.30), f"{share:+.0%}") for name, share in _larger().items()]


def larger_others_on_average() -> list[Comparison]:
    """How many more parameters another model has at 20 features than PNA at 16, mean over the six other models."""
    share = _mean(_larger())
    return [fact("mean over the six models", _about(share, 0.30), f"{share:+.0%}")]


def _more() -> dict[str, float]:
    """How many more parameters PNA has than each other model at 16 features, as a share of the other's."""
    return {name: _count("pna") / _count(name) - 1 for name in _OTHERS}


def _larger() -> dict[str, float]:
    """How many more parameters each other model has at 20 features than PNA at 16, as a share of PNA's."""
    return {name: _count(name, 20) / _count("pna") - 1 for name in _OTHERS}


def _about(share: float, stated: float) -> bool:
    """Whether a share is within five percentage points of the stated one."""
    return abs(share - stated) <= 0.05


def _mean(shares: dict[str, float]) -> float:
    """The mean over six models: MPNN (max) stands for MPNN (sum), too."""
    return (sum(shares.values()) + shares["mpnn-max"]) / (len(shares) + 1)


def fewer_than_standard() -> list[Comparison]:
    """Whether each model's recurrent network has fewer parameters than its standard one."""
    rows = []
    for name in ("pna", *_OTHERS, "mean-max-min"):
        small, large = _count(name), count_parameters(build(name, architecture="standard"))
        rows.append(fact(MODELS[name].title, small < large, f"{small:,} against {large:,}"))
    return rows


def toggling() -> list[Comparison]:
    """The expected change of the mean degree by toggling, for any graph of 20 nodes; up to 10 % is read as little.

    As described, as many edges appear as vanish, whatever their number.
    """
    return [_toggled("as described", DESCRIBED), _toggled("as released (D2)", RELEASED)]


def toggling_as_described() -> list[Comparison]:
    """The expected change of the mean degree with the paper's probabilities; its text names the released one, too."""
    described, released = toggling()
    return [replace(described, text=f"{described.text}; {released}")]


def _toggled(name: str, spec: Spec) -> Comparison:
    """Whether toggling changes the expected mean degree by at most 10 %, for every graph of 20 nodes."""
    pairs = 20 * 19 // 2
    e = np.arange(1, pairs)
    P_e, P_m = toggling_probabilities(e, pairs - e, spec)
    change = float(np.abs((P_m * (pairs - e) - P_e * e) / e).max())
    words = f"changes by at most {change:.1%}" if change > _EXACT else "stays the same"
    return fact(name, change <= 0.1, f"the expected mean degree {words}")


_EXACT = 1e-9  # what rounding leaves of a change that is zero


def degrees_of_images() -> list[Comparison]:
    """The edges that each node of a superpixel graph sends and receives: its degree, which scalers see, is the latter.

    The graphs are made as those of the benchmark, from nodes near the points of a grid, as superpixels are.
    """
    low, high = _received()
    return [*edges_of_images(), fact("messages received by each node", low == high == 8, f"range from {low} to {high}")]


def edges_of_images() -> list[Comparison]:
    """The number of edges that each node of a superpixel graph sends."""
    return [fact("edges sent by each node", NEIGHBOURS == 8, f"{NEIGHBOURS}")]


@cache
def _received() -> tuple[int, int]:
    """The least and the largest number of edges that a node of eight random superpixel graphs receives."""
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(9), np.arange(8), indexing="ij"), axis=-1).reshape(-1, 2) * 3.0  # [72, 2]
    places = [(grid + rng.uniform(0, 3, grid.shape)) * SCALE for _ in range(8)]
    images = [Superpixels(place.astype(np.uint16), 28, k) for k, place in enumerate(places)]
    degrees = np.concatenate([edges(image)[0] for image in images])
    return int(degrees.min()), int(degrees.max())


def counts() -> list[Comparison]:
    """Whether every published number of parameters is that of our network, exactly."""
    return [
        fact(f"{MODELS[name].title} ({hidden})", _count(name, hidden) == count, f"{_count(name, hidden):,}")
        for hidden in (16, 20)
        for name, count in published.parameters(hidden).items()
    ]


def baseline() -> list[Comparison]:
    """Whether the published baseline is within a margin of eight draws of the released data, task by task.

    The test graphs have 15 to 24 nodes. The published row is one more draw, rounded to two digits.
    """
    rows = np.array([_baseline_row(seed) for seed in range(8)])  # [8, 6]
    mean, deviation = rows.mean(axis=0), rows.std(axis=0, ddof=1)
    comparisons = []
    for k, task in enumerate(TASKS):
        theirs = published.multitask()["baseline"][task.name]
        difference = Estimate(mean[k] - theirs, math.hypot(deviation[k] * math.sqrt(1 + 1 / 8), _ROUNDING), 7.0)
        text = f"{mean[k]:.2f} ± {deviation[k]:.2f} (published {theirs:.2f})".replace("-", "−")
        comparisons.append(replace(same(task.title, difference, BASELINE_MARGIN), text=text))
    return comparisons


_ROUNDING = 0.01 / math.sqrt(12)  # the standard deviation of what two digits hide


@cache
def _baseline_row(seed: int) -> list[float]:
    """The baseline's log10 MSE of each task, [6], for one draw of the released data."""
    sizes = tuple(range(15, 25))
    data = make(RELEASED, [Split("train", "train", sizes, 256), Split("test", "test", sizes, 128)], seed)
    row = data.baseline(data["test"], RELEASED_MAXIMA, batched_mean=True)
    return [row[task.name] for task in TASKS]
