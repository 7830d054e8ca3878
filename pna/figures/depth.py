"""Beyond the paper: the effect of the rule for the number of layers on the error on larger graphs.

Section 3 leaves the number of layers to future work: by the diameter or by convergence, instead of ⌊N/2⌋. Networks that
were trained with ⌊N/2⌋ are tested with other rules, and others are trained with them.
"""

from collections.abc import Sequence

import numpy as np

from pna.figures.runs import RecordedRun
from pna.figures.scores import by_seed, mean_score, score, sizes_of
from pna.multitask import TASKS
from pna.verdicts.statistics import Estimate

__all__ = [
    "RULES",
    "SIX",
    "TRAINED",
    "WITHOUT_DIAMETER",
    "baseline",
    "gain",
    "has_rule",
    "leads",
    "scores_by_rule",
    "trained_gain",
]

RULES: dict[str, str] = {
    "": "⌊N/2⌋, the paper's",
    "cap": "⌊N/2⌋, at most 12",
    "diameter": "diameter",
    "convergence": "convergence",
    "N": "N",
}
"""The rules of depth that are shown. Their test sets are named extrapolation@RULE."""

TRAINED: dict[str, str] = {
    "extrapolation": "⌊N/2⌋",
    "depth-varied": "⌊N/2⌋ ± ⌊N/4⌋ at random",
    "depth-diameter": "diameter",
    "depth-convergence": "convergence",
}
"""The rules of depth in training, by training; at test each network follows its own, at most as deep as in training."""

SIX = range(len(TASKS))
WITHOUT_DIAMETER = [k for k, task in enumerate(TASKS) if task.name != "diameter"]


def has_rule(run: RecordedRun, name: str) -> bool:
    """Whether a network was tested with this rule of depth."""
    return any(split.startswith(f"{_collection(name)}/") for split in run.splits)


def _collection(name: str) -> str:
    """Collection of test sets for a rule of depth; the paper's rule has an empty name."""
    return f"extrapolation@{name}" if name else "extrapolation"


def _split(name: str, split: str) -> str:
    """Name of a test set under a rule, from its name under the network's own rule."""
    return split.replace("extrapolation/", f"{_collection(name)}/")


def scores_by_rule(run: RecordedRun) -> dict[str, dict[str, Estimate]]:
    """Mean log10 MSE over the six tasks and the five best seeds, by rule and size of the graphs."""
    splits = sizes_of(run)
    return {
        name: {size: score(run, _split(name, split)) for size, split in splits.items()}
        for name in RULES
        if has_rule(run, name)
    }


def baseline(run: RecordedRun) -> list[float]:
    """Mean log10 MSE over the tasks if the training mean is predicted, size by size."""
    return [float(np.log10(run.baseline(split)).mean()) for split in sizes_of(run).values()]


def gain(run: RecordedRun) -> Estimate:
    """Score with the cap minus that with ⌊N/2⌋, averaged over sizes beyond 30 nodes; below zero the cap is better."""
    splits = list(sizes_of(run).values())[2:]
    differences = [by_seed(run, _split("cap", split)) - by_seed(run, split) for split in splits]
    return mean_score(run, np.mean(differences, axis=0))


def trained_gain(run: RecordedRun, half: RecordedRun, tasks: Sequence[int]) -> list[Estimate]:
    """Score of a network minus that of the one trained with ⌊N/2⌋, size by size; neither is deeper than in training."""
    return [
        mean_score(run, by_seed(run, split)[:, tasks]) - mean_score(half, by_seed(half, split)[:, tasks])
        for split in (_split("cap", split) for split in sizes_of(run).values())
    ]


def leads(runs: dict[str, RecordedRun], name: str) -> list[tuple[str, str, Estimate]]:
    """Size, best other model, and PNA's score minus that model's, for each size under a rule."""
    rows = []
    for size, split in sizes_of(runs["pna"]).items():
        scores = {model: score(run, _split(name, split)) for model, run in runs.items() if has_rule(run, name)}
        other = min((model for model in scores if model != "pna"), key=lambda model: scores[model].value)
        rows.append((size, other, scores["pna"] - scores[other]))
    return rows
