"""The appendix's figures: moments, graph types, standard against recurrent, single task, parameters."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna import published
from pna.multitask import FAMILIES
from pna.networks import MODELS, build, count_parameters
from pna.report.runs import Run, Runs
from pna.report.scores import SPLIT, best
from pna.report.style import COLUMN, MARKERS, MODEL_COLOURS

__all__ = ["average", "graph_types", "moments", "parameters", "single_task", "standard"]

SCORE = "average over tasks of $\\log_{10}$ MSE"


def average(run: Run, split: str = SPLIT) -> tuple[float, float]:
    """The average over tasks of log10 MSE: its mean and its deviation over the five best runs."""
    by_seed = np.log10(best(run, split)).mean(axis=1)
    return float(np.nanmean(by_seed)), float(np.nanstd(by_seed))


def moments(runs: Runs) -> tuple[Figure, dict]:
    """PNA with one to five moments instead of its four aggregators, and PNA."""
    figure, axis = _axis(2.6)
    scores = {name: average(run) for name, run in runs.of("multitask").items()}
    for place, (name, (value, spread)) in enumerate(scores.items()):
        axis.errorbar(place, value, spread, **_point(name))
    axis.set_xticks(range(len(scores)), [MODELS[name].title for name in scores], rotation=25, ha="right")
    axis.set_ylabel(SCORE)
    return figure, _numbers(scores)


def graph_types(runs: Runs) -> tuple[Figure, dict]:
    """Each model on each family of graphs alone; the families ordered by PNA's error."""
    figure, axis = _axis(4.0)
    found = runs.of("multitask")
    scores = {name: {f.name: average(run, f"families/{f.name}") for f in FAMILIES} for name, run in found.items()}
    order = [family.name for family in FAMILIES]
    if scores:
        first = scores.get("pna") or next(iter(scores.values()))
        order.sort(key=lambda family: first[family][0])
    for shift, (name, row) in zip(np.linspace(-0.3, 0.3, max(2, len(scores))), scores.items(), strict=False):
        value, spread = np.array([row[family] for family in order]).T
        axis.errorbar(value, np.arange(len(order)) + shift, xerr=spread, label=MODELS[name].title, **_point(name, 3.5))
    titles = {family.name: family.title for family in FAMILIES}
    axis.set_yticks(range(len(order)), [titles[family] for family in order])
    axis.set_ylim(len(order) - 0.5, -0.5)
    axis.set_xlabel(SCORE)
    axis.grid(axis="x")
    axis.legend(ncols=2, loc="lower left", bbox_to_anchor=(-0.3, 1))
    return figure, {name: _numbers(row) for name, row in scores.items()}


def standard(runs: Runs) -> tuple[Figure, dict]:
    """The recurrent architecture (filled) beside the standard one (hollow)."""
    return _pairs({"recurrent": runs.of("multitask"), "standard": runs.of("standard")})


def single_task(runs: Runs) -> tuple[Figure, dict]:
    """Trained on all tasks at once (filled) beside one network for each task (hollow)."""
    return _pairs({"multi-task": runs.of("multitask"), "single task": runs.of("single-task")})


def parameters(runs: Runs) -> tuple[Figure, dict]:
    """The score against the number of parameters: 16 hidden features (filled), 20 (hollow)."""
    figure, axis = _axis(2.9)
    numbers: dict[str, dict] = {}
    for name in dict.fromkeys([*runs.of("multitask"), *runs.of("multitask", 20)]):
        for hidden, hollow in ((16, False), (20, True)):
            run = runs.of("multitask", hidden).get(name)
            if run is not None:
                value, spread = average(run)
                count = count_parameters(build(name, hidden))
                numbers.setdefault(name, {})[str(hidden)] = {"parameters": count, "mean": value, "deviation": spread}
                label = MODELS[name].title if not hollow else None
                axis.errorbar(count, value, spread, label=label, **_point(name, hollow=hollow))
        ends = [(row["parameters"], row["mean"]) for row in numbers[name].values()]
        axis.plot(*zip(*ends, strict=True), ":", color=MODEL_COLOURS[name], lw=1, zorder=1)
    if "pna" in numbers and "16" in numbers["pna"]:
        axis.axhline(numbers["pna"]["16"]["mean"], color=MODEL_COLOURS["pna"], lw=0.8, ls="--", zorder=0)
    axis.set_xlabel("parameters (filled: 16 hidden features, hollow: 20)")
    axis.set_ylabel(SCORE)
    axis.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.45, 1))
    return figure, {"ours": numbers, "published parameters": {h: published.parameters(h) for h in (16, 20)}}


def _pairs(sides: dict[str, dict[str, Run]]) -> tuple[Figure, dict]:
    """Two trainings of each model beside each other."""
    figure, axis = _axis(2.8)
    names = [name for name in MODELS if any(name in runs for runs in sides.values())]
    for shift, hollow, (label, runs) in zip((-0.14, 0.14), (False, True), sides.items(), strict=True):
        for name, run in runs.items():
            value, spread = average(run)
            axis.errorbar(names.index(name) + shift, value, spread, **_point(name, hollow=hollow))
        axis.plot([], [], "o", ms=5, color="0.4", mfc="white" if hollow else "0.4", label=label)
    axis.set_xticks(range(len(names)), [MODELS[name].title for name in names], rotation=35, ha="right")
    axis.set_ylabel(SCORE)
    axis.legend(loc="lower center", ncols=2, bbox_to_anchor=(0.5, 1))
    return figure, {label: _numbers({n: average(r) for n, r in runs.items()}) for label, runs in sides.items()}


def _axis(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(COLUMN, height), layout="constrained")
    axis = figure.subplots()
    axis.grid(axis="y")
    return figure, axis


def _point(name: str, size: float = 5, hollow: bool = False) -> dict:
    """How a model's point looks in every figure."""
    colour = MODEL_COLOURS[name]
    return {"fmt": MARKERS[name], "ms": size, "color": colour, "mfc": "white" if hollow else colour, "lw": 1.1}


def _numbers(scores: dict[str, tuple[float, float]]) -> dict[str, dict[str, float]]:
    return {name: {"mean": value, "deviation": spread} for name, (value, spread) in scores.items()}
