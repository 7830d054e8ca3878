"""Beyond the paper: pictures of real networks, every model's error on each of them, and what the errors depend on."""

from collections.abc import Callable, Sequence

import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pna.figures.real import CAP, HALF, NETWORKS, PREDICTORS, has_real, regression, relative, score_of, splits
from pna.figures.runs import RecordedRun, Runs
from pna.figures.scores import SPLIT, score
from pna.figures.style import GREY, MARKERS, MODEL_COLOURS, SMALL, WIDTH
from pna.multitask import DESCRIBED, GraphSet
from pna.multitask.real import RealSplit, facts, graph_set
from pna.networks import MODELS
from pna.verdicts.statistics import Estimate

__all__ = ["by_network", "networks", "slopes", "trained"]

_PANELS = (
    ("15 to 24 nodes,\n⌊N/2⌋ layers, 7 to 12", "small", HALF),
    ("25 to 100 nodes,\n⌊N/2⌋ layers", "large", HALF),
    ("25 to 100 nodes,\nat most 12 layers", "large", CAP),
)
_RELATIVE = "mean of log₁₀(MSE / MSE of the baseline) over five tasks (lower is better)"
_RULES = {HALF: ("⌊N/2⌋ layers", "-"), CAP: ("at most 12 layers", "--")}


# ---- the graphs ----


def networks() -> tuple[Figure, dict]:
    """A small graph of each network, by breadth-first search or whole; darker nodes have more neighbours."""
    figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
    numbers = {row["name"]: _size(row) for row in facts()["sources"] if "nodes" in row}
    for axis, (name, title) in zip(figure.subplots(3, 4).flat, NETWORKS.items(), strict=True):
        adjacency = _largest(_group(name))
        _draw(axis, adjacency)
        degree = adjacency.sum(axis=1)
        axis.set_title(title)
        axis.text(0.5, -0.04, f"largest degree {degree.max()}", fontsize=SMALL, ha="center", transform=axis.transAxes)
        shown = {"nodes": len(adjacency), "edges": int(degree.sum()) // 2, "largest degree": int(degree.max())}
        numbers.setdefault(name, {})["shown"] = shown
    return figure, numbers


def _group(name: str) -> GraphSet:
    """The small graphs of a network: neighbourhoods of a large one, or whole ones."""
    group = next(split.split("/")[1] for split in splits("small", networks=[name]) if "-walk-" not in split)
    return graph_set(DESCRIBED, RealSplit(group, "test", group), 0)


def _largest(graphs: GraphSet) -> NDArray[np.bool_]:
    """The adjacency matrix of the last graph of a set, which is one of its largest."""
    first, end = graphs.first_node[-2:]
    adjacency = np.zeros((end - first,) * 2, dtype=bool)
    for row, node in enumerate(range(first, end)):
        adjacency[row, graphs.neighbour[graphs.first_edge[node] : graphs.first_edge[node + 1]]] = True
    return adjacency


def _draw(axis: Axes, adjacency: NDArray[np.bool_]) -> None:
    """Draw the graph of an adjacency matrix [N, N]; darker nodes have more neighbours."""
    place = np.array(list(nx.kamada_kawai_layout(nx.from_numpy_array(adjacency)).values()))
    for i, j in np.argwhere(np.triu(adjacency)):
        axis.plot(*place[[i, j]].T, color="#a0a0a0", lw=0.6, zorder=1)
    degree = np.log1p(adjacency.sum(axis=1))
    axis.scatter(*place.T, c=degree, s=14, cmap="viridis_r", vmin=0, vmax=np.log(24), edgecolors=GREY, lw=0.4, zorder=2)
    axis.set_axis_off()
    axis.margins(0.08)


def _size(row: dict) -> dict:
    """Numbers of nodes and edges, mean and largest degree of a network, for the sidecar JSON."""
    return {name.replace("_", " "): row[name] for name in ("nodes", "edges", "mean_degree", "max_degree")}


# ---- errors ----


def by_network(runs: Runs) -> tuple[Figure, dict]:
    """Error relative to the baseline on real graphs: a row for each network, a point for each model."""
    models = _tested(runs)
    figure = Figure(figsize=(WIDTH, 7.0), layout="constrained")
    axes, numbers = figure.subplots(1, 3, sharex=True, sharey=True), {}
    rows = {"all": list(NETWORKS)} | {name: [name] for name in NETWORKS}
    for axis, (title, size, rule) in zip(axes, _PANELS, strict=True):
        axis.set_title(title)
        panel = numbers.setdefault(title.replace("\n", " "), {})
        for model, run in models.items():
            scores = {row: relative(run, splits(size, rule, names)) for row, names in rows.items()}
            _points(axis, list(scores.values()), list(models).index(model), model)
            panel[model] = {row: _numbers(one) for row, one in scores.items()}
        axis.axvline(0, color=GREY, lw=0.8)
        axis.axhline(0.5, color=GREY, lw=0.6)
        for y in range(1, len(rows) - 1):
            axis.axhline(y + 0.5, color="#e5e5e5", lw=0.6)
    axes[0].set_yticks(range(len(rows)), ["all networks", *NETWORKS.values()])
    axes[0].set_ylim(len(rows) - 0.5, -0.5)
    axes[0].tick_params(axis="y", length=0)
    axes[1].set_xlabel(_RELATIVE)
    figure.legend(*axes[0].get_legend_handles_labels(), ncols=4, loc="outside upper center")
    return figure, numbers


def _tested(runs: Runs) -> dict[str, RecordedRun]:
    """The recorded models that are tested on real graphs under both rules of depth."""
    return {
        model: run for model, run in runs.of("multitask").items() if all(has_real(run, rule) for rule in (HALF, CAP))
    }


def _points(axis: Axes, scores: Sequence[Estimate], place: int, model: str) -> None:
    """Draw a model's score and interval in each row; `place` shifts the models of a row apart."""
    y = np.arange(len(scores)) + (place - 3) * 0.12
    reach = [one.interval[1] - one.value if one.known else 0.0 for one in scores]
    style = {"fmt": MARKERS[model], "ms": 3, "color": MODEL_COLOURS[model], "elinewidth": 0.8, "capsize": 0}
    axis.errorbar([one.value for one in scores], y, xerr=reach, label=MODELS[model].title, **style)


def slopes(runs: Runs) -> tuple[Figure, dict]:
    """How a model's error relative to the baseline changes if nodes, degree tail or diameter double."""
    models = _tested(runs)
    figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
    axes, numbers = figure.subplots(1, 3, sharey=True, sharex=True), {}
    for rule, (title, style) in _RULES.items():
        for y, (model, run) in enumerate(models.items()):
            fit = regression(run, rule)
            numbers.setdefault(title, {})[model] = {"variance explained": fit.explained} | {
                name: _numbers(one) | {"of it alone": fit.shares[name]} for name, one in fit.slopes.items()
            }
            for axis, one in zip(axes, fit.slopes.values(), strict=True):
                _mark(axis, one, y + (-0.17 if rule == HALF else 0.17), model, hollow=rule == CAP, style=style)
    for axis, name in zip(axes, PREDICTORS.values(), strict=True):
        axis.set_title(name)
        axis.axvline(0, color=GREY, lw=0.8)
        axis.grid(axis="x")
    axes[0].set_yticks(range(len(models)), [MODELS[model].title for model in models])
    axes[0].set_ylim(max(len(models), 1) - 0.5, -0.5)
    axes[1].set_xlabel("change of log₁₀(MSE / MSE of the baseline) if the predictor doubles")
    handles = [axes[0].plot([], [], "o", color=GREY, mfc=face, ms=4)[0] for face in (GREY, "white")]
    figure.legend(handles, [title for title, _ in _RULES.values()], ncols=2, loc="outside upper center")
    return figure, numbers


def _mark(axis: Axes, one: Estimate, y: float, model: str, hollow: bool, style: str) -> None:
    """Draw one number of a model with its interval; `hollow` and the line's style tell the two of a row apart."""
    colour = MODEL_COLOURS[model]
    low, high = one.interval
    axis.plot([low, high], [y, y], style, color=colour, lw=1)
    axis.plot(one.value, y, MARKERS[model], color=colour, mfc="white" if hollow else colour, ms=4)


# ---- training on real graphs ----

_TRAINED: dict[str, Callable[[RecordedRun], Estimate]] = {
    "real graphs,\n15 to 24 nodes": lambda run: score_of(run, splits("small")),
    "real graphs, 25 to 100\nnodes, at most 12 layers": lambda run: score_of(run, splits("large", CAP)),
    "random graphs,\n15 to 24 nodes": lambda run: score(run, SPLIT),
}
"""The panels: what the networks are tested on, and their error there."""


def trained(runs: Runs) -> tuple[Figure, dict]:
    """Error of each model after training on random and on real graphs, tested on real and on random graphs."""
    figure = Figure(figsize=(WIDTH, 2.9), layout="constrained")
    axes, numbers = figure.subplots(1, len(_TRAINED), sharex=True, sharey=True), {}
    sides = {"random": runs.of("multitask"), "real": runs.of("real")}
    models = [model for model in sides["random"] if model in sides["real"]]
    for axis, (title, measure) in zip(axes, _TRAINED.items(), strict=True):
        axis.set_title(title)
        axis.grid(axis="x")
        panel = numbers.setdefault(title.replace("\n", " "), {})
        for y, model in enumerate(models):
            scores = {side: measure(of[model]) for side, of in sides.items()}
            panel[model] = {f"trained on {side} graphs": _numbers(one) for side, one in scores.items()}
            _mark(axis, scores["random"], y - 0.17, model, hollow=False, style="-")
            _mark(axis, scores["real"], y + 0.17, model, hollow=True, style="--")
    axes[0].set_yticks(range(len(models)), [MODELS[model].title for model in models])
    axes[0].set_ylim(max(len(models), 1) - 0.5, -0.5)
    axes[1].set_xlabel("mean log₁₀ MSE over five tasks, on random graphs over six (lower is better)")
    handles = [axes[0].plot([], [], "o", color=GREY, mfc=face, ms=4)[0] for face in (GREY, "white")]
    figure.legend(handles, [f"trained on {side} graphs" for side in sides], ncols=2, loc="outside upper center")
    return figure, numbers


def _numbers(one: Estimate) -> dict:
    """Value of an estimate and, if there are enough seeds, its interval, for the sidecar JSON."""
    return {"value": one.value, "interval": list(one.interval)} if one.known else {"value": one.value}
