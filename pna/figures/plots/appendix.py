"""The appendix's figures: moments, graph types, standard against recurrent, single task, parameters.

Like figure 4, they show test graphs of 15 to 24 nodes, where these are recorded, under both specifications; only the
families of a released cell are as small as its own test set, 15 to 19 nodes (D3).
"""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna.figures import published
from pna.figures.plots.multitask import tested_on
from pna.figures.runs import Runs
from pna.figures.scores import score, widened
from pna.figures.style import GREY, MARKERS, MODEL_COLOURS, SMALL, WIDTH
from pna.multitask import FAMILIES
from pna.networks import MODELS, build, count_parameters
from pna.verdicts.statistics import Estimate

__all__ = ["graph_types", "moments", "parameters", "single_task", "standard"]

SCORE = "mean log₁₀ MSE over the six tasks\n(lower is better)"


def moments(runs: Runs) -> tuple[Figure, dict]:
    """PNA with one to five moments instead of its four aggregators, and PNA."""
    figure, axis = _axis(2.6)
    scores = {name: score(run) for name, run in widened(runs).of("multitask").items()}
    for place, (name, one) in enumerate(scores.items()):
        _mark(axis, place, one, name)
    axis.set_xticks(range(len(scores)), [MODELS[name].title for name in scores])
    axis.set_xlabel(_sizes(runs))
    axis.set_ylabel(SCORE)
    _few(axis, scores.values())
    return figure, _numbers(scores)


def graph_types(runs: Runs) -> tuple[Figure, dict]:
    """Each model on each family of graphs alone; the families in the order of appendix G."""
    figure, axis = _axis(4.6)
    axis.grid(axis="y", visible=False)
    models = runs.of("multitask")
    scores = {name: {f.name: score(run, f"families/{f.name}") for f in FAMILIES} for name, run in models.items()}
    for shift, (name, row) in zip(np.linspace(-0.33, 0.33, max(2, len(scores))), scores.items(), strict=False):
        for place, family in enumerate(FAMILIES):
            label = MODELS[name].title if not place else None
            _mark(axis, place + shift, row[family.name], name, size=3.5, upright=False, label=label)
    axis.set_yticks(range(len(FAMILIES)), [family.title for family in FAMILIES])
    axis.set_ylim(len(FAMILIES) - 0.5, -0.5)
    for place in range(1, len(FAMILIES)):
        axis.axhline(place - 0.5, color="#e5e5e5", lw=0.6)
    sizes = f"; test graphs of {'15-19' if runs.spec == 'released' else '15-24'} nodes" * (runs.profile.size_step == 1)
    axis.set_xlabel(SCORE.replace("\n", " ") + sizes)
    axis.grid(axis="x")
    figure.legend(ncols=4, loc="outside upper center")
    _few(axis, (one for row in scores.values() for one in row.values()))
    return figure, {name: _numbers(row) for name, row in scores.items()}


def standard(runs: Runs) -> tuple[Figure, dict]:
    """The recurrent architecture (filled) next to the standard one (hollow)."""
    return _pairs(runs, {"recurrent": "multitask", "standard": "standard"})


def single_task(runs: Runs) -> tuple[Figure, dict]:
    """Trained on all tasks at once (filled) next to one network for each task (hollow)."""
    return _pairs(runs, {"multi-task": "multitask", "single task": "single-task"})


def parameters(runs: Runs) -> tuple[Figure, dict]:
    """The score against the number of parameters: 16 hidden features (filled), 20 (hollow)."""
    figure, axis = _axis(3.2)
    numbers: dict[str, dict] = {}
    sizes, runs = _sizes(runs), widened(runs)
    for name in dict.fromkeys([*runs.of("multitask"), *runs.of("multitask", 20)]):
        ends = []
        for hidden in (16, 20):
            if run := runs.of("multitask", hidden).get(name):
                one, count = score(run), count_parameters(build(name, hidden))
                numbers.setdefault(name, {})[str(hidden)] = {"parameters": count} | _number(one)
                _mark(axis, count, one, name, hollow=hidden == 20, label=MODELS[name].title if not ends else None)
                ends.append((count, one.value))
        axis.plot(*zip(*ends, strict=True), ":", color=MODEL_COLOURS[name], lw=1, zorder=1)
    if "16" in numbers.get("pna", {}):
        level, edge = numbers["pna"]["16"]["mean"], axis.get_yaxis_transform()
        axis.axhline(level, color=MODEL_COLOURS["pna"], lw=0.8, ls="--", zorder=0)
        words = {"ha": "right", "va": "bottom", "fontsize": SMALL, "color": MODEL_COLOURS["pna"], "transform": edge}
        axis.text(0.99, level, "dashed: the error of PNA with 16 features", **words)
    axis.set_xlabel("; ".join(filter(None, ["parameters (filled: 16 hidden features, hollow: 20)", sizes])))
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.set_ylabel(SCORE)
    figure.legend(ncols=4, loc="outside upper center")
    _few(axis, (score(run) for run in runs.recorded.values()))
    return figure, {"ours": numbers, "published parameters": {h: published.parameters(h) for h in (16, 20)}}


def _pairs(runs: Runs, trainings: dict[str, str]) -> tuple[Figure, dict]:
    """Draw the scores of two trainings of each model side by side, filled and hollow."""
    figure, axis = _axis(3.1)
    sides = {label: widened(runs).of(training) for label, training in trainings.items()}
    names = [name for name in MODELS if any(name in side for side in sides.values())]
    scores = {label: {name: score(run) for name, run in side.items()} for label, side in sides.items()}
    for shift, hollow, (label, row) in zip((-0.14, 0.14), (False, True), scores.items(), strict=True):
        for name, one in row.items():
            _mark(axis, names.index(name) + shift, one, name, hollow=hollow)
        axis.plot([], [], "o", ms=5, color="#666666", mfc="white" if hollow else "#666666", label=label)
    axis.set_xticks(range(len(names)), [MODELS[name].title for name in names], rotation=25, ha="right")
    axis.set_xlabel(_sizes(runs))
    axis.set_ylabel(SCORE)
    figure.legend(loc="outside upper center", ncols=2)
    _few(axis, (one for row in scores.values() for one in row.values()))
    return figure, {label: _numbers(row) for label, row in scores.items()}


def _sizes(runs: Runs) -> str:
    """The test graphs' sizes in words, without the published ones; empty for a thinned data set."""
    return tested_on(runs).partition(" (")[0] if runs.profile.size_step == 1 else ""


def _axis(height: float) -> tuple[Figure, Axes]:
    """Create a figure as wide as the page and `height` inches high, with one set of axes and horizontal lines."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axis = figure.subplots()
    axis.grid(axis="y")
    return figure, axis


def _mark(
    axis: Axes,
    place: float,
    one: Estimate,
    name: str,
    size: float = 5,
    hollow: bool = False,
    upright: bool = True,
    label: str | None = None,
) -> None:
    """Draw a model's score with its 95 % interval, or without one if there are too few seeds."""
    colour = MODEL_COLOURS[name]
    reach = one.interval[1] - one.value if one.known else None
    style = {"fmt": MARKERS[name], "ms": size, "color": colour, "mfc": "white" if hollow else colour, "lw": 1.1}
    if upright:
        axis.errorbar(place, one.value, yerr=reach, label=label, **style)
    else:
        axis.errorbar(one.value, place, xerr=reach, label=label, **style)


def _few(axis: Axes, scores: object) -> None:
    """Note above the axes that seeds are too few for intervals, if a score has none."""
    if not all(one.known for one in scores):
        axis.set_title("too few seeds for intervals: points alone", color=GREY, loc="right", fontsize=8)


def _number(one: Estimate) -> dict[str, float]:
    """Mean of an estimate and, if there are enough seeds, its 95 % interval, for the sidecar JSON."""
    low, high = one.interval
    return {"mean": one.value} | ({"interval": [low, high]} if not math.isnan(low) else {})


def _numbers(scores: dict[str, Estimate]) -> dict[str, dict[str, float]]:
    """Mean and 95 % interval of each estimate by name, for the sidecar JSON."""
    return {name: _number(one) for name, one in scores.items()}
