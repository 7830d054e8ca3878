"""The tests behind the claims about networks and data: facts that need no training."""

import math
from dataclasses import replace
from functools import cache

import numpy as np

from pna.figures import published
from pna.multitask import RELEASED, RELEASED_MAXIMA, TASKS, Split, make
from pna.networks import MODELS, build, count_parameters
from pna.verdicts.rules import Comparison, fact, same
from pna.verdicts.statistics import Estimate

__all__ = ["baseline", "counts", "larger_others", "larger_others_on_average", "more_parameters"]
__all__ += ["more_parameters_on_average", "width"]

BASELINE_MARGIN = 0.1  # log10 MSE, as for trainings

_OTHERS = ("pna-no-scalers", "mpnn-max", "gat", "gcn", "gin")  # MPNN (sum) is as large as MPNN (max)


def _count(model: str, hidden: int = 16) -> int:
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
    """The mean of these shares over the six other models."""
    share = _mean(_more())
    return [fact("mean over the six models", _about(share, 0.15), f"{share:+.0%}")]


def larger_others() -> list[Comparison]:
    """How many more parameters each other model has at 20 features than PNA at 16; "30 %" is read as 25 to 35 %."""
    return [fact(MODELS[name].title, _about(share, 0.30), f"{share:+.0%}") for name, share in _larger().items()]


def larger_others_on_average() -> list[Comparison]:
    """The mean of these shares over the six other models."""
    share = _mean(_larger())
    return [fact("mean over the six models", _about(share, 0.30), f"{share:+.0%}")]


def _more() -> dict[str, float]:
    return {name: _count("pna") / _count(name) - 1 for name in _OTHERS}


def _larger() -> dict[str, float]:
    return {name: _count(name, 20) / _count("pna") - 1 for name in _OTHERS}


def _about(share: float, stated: float) -> bool:
    return abs(share - stated) <= 0.05


def _mean(shares: dict[str, float]) -> float:
    """The mean over six models: MPNN (max) stands for MPNN (sum), too."""
    return (sum(shares.values()) + shares["mpnn-max"]) / (len(shares) + 1)


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
    sizes = tuple(range(15, 25))
    data = make(RELEASED, [Split("train", "train", sizes, 256), Split("test", "test", sizes, 128)], seed)
    row = data.baseline(data["test"], RELEASED_MAXIMA, batched_mean=True)
    return [row[task.name] for task in TASKS]
