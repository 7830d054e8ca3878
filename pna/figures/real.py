"""Beyond the paper: the networks of figure 4 on real graphs, network by network, and what their errors depend on.

Errors are means of log10 MSE over five tasks. *Connected* is left out: nearly all of these graphs are connected, so
the task is trivial as described, and asks whether a graph is bipartite as released.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pna.experiments import Cell
from pna.figures.runs import RECORDED, RecordedRun, Runs, recorded_run, runs_of
from pna.figures.scores import by_seed, five_best
from pna.multitask import DESCRIBED, TASKS
from pna.multitask.real import GROUPS, RealSplit, graph_set
from pna.verdicts.statistics import LEVEL, Estimate, holm

__all__ = [
    "CAP",
    "GROUP",
    "HALF",
    "NETWORKS",
    "PREDICTORS",
    "REDRAWN",
    "SIZES",
    "WITHOUT_CONNECTED",
    "Group",
    "Regression",
]
__all__ += [
    "cap_gain",
    "fails_on",
    "five_tasks",
    "groups",
    "has_real",
    "planned_runs",
    "regression",
    "relative",
    "score_of",
    "splits",
]
__all__ += ["structure", "trained_runs"]

Array = NDArray[np.float64]
Measure = Callable[[RecordedRun, Sequence[str]], Estimate]

WITHOUT_CONNECTED = [k for k, task in enumerate(TASKS) if task.name != "connected"]
HALF, CAP = "real", "real@cap"  # tested with ⌊N/2⌋ layers, the paper's, and with at most the 12 of training
REDRAWN = tuple(f"redrawn/test_{k}" for k in range(1, 6))
SIZES: dict[str, tuple[int, int]] = {"small": (15, 24), "large": (25, 100)}
NETWORKS: dict[str, str] = {
    "internet": "Internet",
    "enron": "Enron e-mails",
    "pgp": "PGP trust",
    "metabolism": "metabolism",
    "phenotypes": "phenotypes",
    "wordnet": "WordNet",
    "ontology": "Gene Ontology",
    "grid": "power grid",
    "roads": "roads",
    "zoo": "Topology Zoo",
    "sndlib": "SNDlib",
    "caida": "CAIDA routers",
}
"""Every source of real graphs by its name in a short form; the last three are taken whole."""


@dataclass(frozen=True)
class Group:
    """A test set of real graphs: its network, how it was sampled ("" for whole networks), and its sizes."""

    name: str
    network: str
    sampler: str
    low: int
    high: int

    @classmethod
    def of(cls, name: str) -> "Group":
        """Read the name of a group, such as internet-walk-15-24 or zoo-41-60."""
        network, *sampler, low, high = name.split("-")
        return cls(name, network, *(sampler or [""]), int(low), int(high))

    @property
    def size(self) -> str:
        """Size of the graphs in one word: small, as in training, or large."""
        return "small" if self.high == SIZES["small"][1] else "large"


GROUP: dict[str, Group] = {name: Group.of(name) for name in GROUPS if name not in ("train", "validation")}
"""Every test set by its name."""


def groups(size: str, networks: Iterable[str] = NETWORKS) -> list[Group]:
    """The test sets of one size, small or large, and of some networks."""
    wanted = set(networks)
    return [group for group in GROUP.values() if group.size == size and group.network in wanted]


def splits(size: str, rule: str = HALF, networks: Iterable[str] = NETWORKS) -> list[str]:
    """The names of these test sets in a recorded run, under a rule of depth."""
    return [f"{rule}/{group.name}" for group in groups(size, networks)]


# ---- errors ----


def planned_runs(spec: str, profile: str = RECORDED) -> Runs:
    """The runs of figure 4 that are tested on real graphs: those of the plan, or of another profile by its name."""
    return runs_of("figure4", spec, "planned" if profile == RECORDED else profile)


def trained_runs(profile: str = RECORDED) -> Runs:
    """The seven models of figure 4 as described, and the same trained on real subgraphs, under one profile."""
    random = planned_runs("described", profile)
    cells = [Cell("real", "described", model, "16") for model in random.of("multitask")]
    runs = {cell: recorded_run(cell, random.profile) for cell in cells}
    recorded = {cell: run for cell, run in runs.items() if run}
    missing = tuple(cell for cell in runs if cell not in recorded)
    return Runs("real", "described", random.profile, random.recorded | recorded, random.missing + missing)


def has_real(run: RecordedRun, rule: str = HALF) -> bool:
    """Whether a network was tested on all real graphs under a rule of depth."""
    return {f"{rule}/{name}" for name in GROUP} <= set(run.splits)


def five_tasks(run: RecordedRun, splits: Sequence[str]) -> Array:
    """Mean log10 MSE over five tasks and some test sets, all of equal weight, as it is compared, [S]."""
    return np.mean([by_seed(run, split)[:, WITHOUT_CONNECTED] for split in splits], axis=(0, 2))


def score_of(run: RecordedRun, splits: Sequence[str]) -> Estimate:
    """The five-best mean of `five_tasks`."""
    return five_best(run.validation[:, 0], five_tasks(run, splits))


def relative(run: RecordedRun, splits: Sequence[str]) -> Estimate:
    """`score_of` minus that of predicting the mean of the training labels; at zero a network is no better than that."""
    baseline = np.mean([np.log10(run.baseline(split)[WITHOUT_CONNECTED]) for split in splits])
    return score_of(run, splits).shifted(-float(baseline))


def cap_gain(run: RecordedRun) -> Estimate:
    """Score with at most 12 layers minus that with ⌊N/2⌋ on real graphs of 25 to 100 nodes; below 0 the cap helps."""
    capped, half = (five_tasks(run, splits("large", rule)) for rule in (CAP, HALF))
    return five_best(run.validation[:, 0], capped - half)


def fails_on(run: RecordedRun, size: str, rule: str) -> list[str]:
    """Networks on which a model is significantly worse than predicting the mean, after Holm's correction."""
    chances = {name: 1 - relative(run, splits(size, rule, [name])).below() for name in NETWORKS}
    return [name for name, p in zip(chances, holm(list(chances.values())), strict=True) if p < 1 - LEVEL]


# ---- structure ----

PREDICTORS: dict[str, str] = {
    "nodes": "number of nodes",
    "tail": "largest degree over the mean",
    "diameter": "diameter",
}


@cache
def structure(group: str) -> dict[str, float]:
    """The mean over the graphs of a test set of log2 of each predictor: a step of one is a doubling."""
    graphs = graph_set(DESCRIBED, RealSplit(group, "test", group), 0)
    first = graphs.first_node[:-1]
    largest, mean = np.maximum.reduceat(graphs.degree, first), np.add.reduceat(graphs.degree, first) / graphs.sizes
    values = {"nodes": graphs.sizes, "tail": largest / mean, "diameter": graphs.graph_labels[:, 1]}
    return {name: float(np.log2(column).mean()) for name, column in values.items()}


@dataclass(frozen=True)
class Regression:
    """The least-squares fit of a network's error to the structure of the test sets.

    Attributes:
        constant: the fitted error where log2 of every predictor is 0
        slopes: the change of log10 MSE if a predictor doubles and the others stay; its error is the jackknife's that
            leaves out one network at a time, since test sets of one network are alike
        shares: the part of the variance between test sets that is explained with a predictor and not without it
        explained: the part that all of them explain, R²
    """

    constant: float
    slopes: dict[str, Estimate]
    shares: dict[str, float]
    explained: float


def regression(run: RecordedRun, rule: str = HALF, measure: Measure = relative) -> Regression:
    """Fit a network's error on every test set, under a rule of depth, to their structure."""
    y = np.array([measure(run, [f"{rule}/{name}"]).value for name in GROUP])
    X = np.array([[structure(name)[predictor] for predictor in PREDICTORS] for name in GROUP])
    slopes, explained = _fit(X, y), _explained(X, y)
    names = np.array([group.network for group in GROUP.values()])
    without = np.array([_fit(X[names != name], y[names != name]) for name in NETWORKS])  # [networks, predictors]
    errors = np.sqrt((len(without) - 1) * without.var(axis=0))
    freedom = len(without) - 1.0
    return Regression(
        float(y.mean() - X.mean(axis=0) @ slopes),
        {n: Estimate(float(b), float(e), freedom) for n, b, e in zip(PREDICTORS, slopes, errors, strict=True)},
        {name: explained - _explained(np.delete(X, k, axis=1), y) for k, name in enumerate(PREDICTORS)},
        explained,
    )


def _fit(X: Array, y: Array) -> Array:
    """The slopes of a least-squares fit with a constant, [columns of X]."""
    return np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]


def _explained(X: Array, y: Array) -> float:
    """The part of the variance of y that a fit explains."""
    X, y = X - X.mean(axis=0), y - y.mean()
    return 1 - float(((y - X @ _fit(X, y)) ** 2).sum() / (y**2).sum())
