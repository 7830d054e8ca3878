"""Beyond the paper: error against size for each rule of depth, also in training, and why depth hurts."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna.figures.depth import RULES, TRAINED, baseline, has_rule, scores_by_rule
from pna.figures.growth import CUT, KINDS, LAYERS, SIZES, Growth, growths
from pna.figures.runs import Runs
from pna.figures.style import GREY, MODEL_COLOURS, SMALL, WIDTH
from pna.networks import MODELS
from pna.networks.depths import DEEPEST
from pna.verdicts.statistics import Estimate

__all__ = ["by_rule", "growth", "trained"]

# Rules are no models: they have colours and markers of their own, the same for a rule in training and at test.
_HALF, _CAP, _DIAMETER, _CONVERGENCE, _ALL = zip(
    ("#6A5ACD", "#C4456B", "#3A8F3A", "#8A7A2E", "#A04FB0"), "osD^v", strict=True
)
_RULES = dict(zip(RULES, (_HALF, _CAP, _DIAMETER, _CONVERGENCE, _ALL), strict=True))
_TRAINED = dict(zip(TRAINED, (_HALF, _CAP, _DIAMETER, _CONVERGENCE), strict=True))
Mark = tuple[str, str]  # colour and marker

_LARGE, _LITTLE = ("pna", "mpnn-max"), ("gat", "gcn", "gin", "mpnn-sum")
_SCORE = "mean log₁₀ MSE over the six tasks\n(lower is better)"
_TOP = 1e4  # of the features that are drawn
_COLOURS = MODEL_COLOURS | {"moments-1": "#CC79A7", "moments-2": "#7A4FA3"}  # grey is the smaller size here


def by_rule(runs: Runs) -> tuple[Figure, dict]:
    """Error against size, a line for each rule for the number of layers, by networks that were trained with ⌊N/2⌋."""
    figure = Figure(figsize=(WIDTH, 5.0), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1.25, 1])
    axes = [*above.subplots(1, 2, sharey=True), *below.subplots(1, 4, sharey=True)]
    models, numbers = runs.of("extrapolation"), {}
    for axis, model in zip(axes, (*_LARGE, *_LITTLE), strict=True):
        axis.set_title(MODELS[model].title)
        if model not in models:
            axis.text(0.5, 0.5, "not recorded", ha="center", transform=axis.transAxes, color=GREY)
            continue
        numbers[model] = scores_by_rule(models[model])
        for place, (name, row) in enumerate(numbers[model].items()):
            _line(axis, row, _RULES[name], RULES[name], (place - 2) * 0.07 if model in _LARGE else None)
        axis.plot(baseline(models[model]), ":", color=GREY, lw=1, label="baseline")
        _sizes(axis, list(next(iter(numbers[model].values()))), every=1 if model in _LARGE else 2)
    axes[0].set_ylabel(_SCORE)
    axes[2].set_ylabel("mean log₁₀ MSE\nover the six tasks")
    figure.legend(*axes[0].get_legend_handles_labels(), ncols=3, loc="outside upper center")
    return figure, {model: _numbers(rows, RULES) for model, rows in numbers.items()}


def trained(runs: Runs) -> tuple[Figure, dict]:
    """Error against size of networks trained with each rule, each then at most as deep as in its training."""
    models = ("pna", "mpnn-max", "gin", "mpnn-sum")
    figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
    axes, numbers = figure.subplots(1, 4, sharey=True), {}
    for axis, model in zip(axes, models, strict=True):
        axis.set_title(MODELS[model].title)
        for training, title in TRAINED.items():
            run = runs.of(training).get(model)
            if run is not None and has_rule(run, "cap"):
                row = scores_by_rule(run)["cap"]
                _line(axis, row, _TRAINED[training], title)
                _sizes(axis, list(row), every=2)
                numbers.setdefault(model, {})[training] = row
    axes[0].set_ylabel(_SCORE)
    marks = (_TRAINED[name] for name in TRAINED)
    handles = [axes[0].plot([], [], color=colour, marker=marker, ms=3, lw=1.2)[0] for colour, marker in marks]
    figure.legend(handles, TRAINED.values(), ncols=4, loc="outside upper center", title="trained with a depth of")
    return figure, {model: _numbers(rows, TRAINED) for model, rows in numbers.items()}


def _line(axis: Axes, row: dict[str, Estimate], mark: Mark, label: str, shift: float | None = None) -> None:
    """Draw a rule's line, with its intervals if it is shifted aside to make room for them."""
    values, known = [one.value for one in row.values()], all(one.known for one in row.values())
    reach = [one.interval[1] - one.value for one in row.values()] if known and shift is not None else None
    colour, marker = mark
    style = {"color": colour, "marker": marker, "ms": 2.5, "lw": 1.2, "elinewidth": 0.6, "label": label}
    axis.errorbar(np.arange(len(row)) + (shift or 0.0), values, reach, **style)


def _sizes(axis: Axes, sizes: list[str], every: int) -> None:
    """Label the x axis with the smallest graph of each test set, or of every second one if `every` is 2."""
    shown = range(0, len(sizes), every)
    axis.set_xticks(shown, [sizes[k].split("-")[0] for k in shown])
    axis.set_xlabel("nodes, from")
    axis.grid(axis="y")


def _numbers(rows: dict[str, dict[str, Estimate]], titles: dict[str, str]) -> dict:
    """Values and intervals by the title of a rule or training and by size, for the sidecar JSON."""
    return {
        titles[name]: {size: [one.value, *one.interval] if one.known else [one.value] for size, one in row.items()}
        for name, row in rows.items()
    }


# ---- why ----


def growth() -> tuple[Figure, dict]:
    """The size of features layer by layer, at the training's size and at four times that; below, what grows."""
    features = growths()
    figure = Figure(figsize=(WIDTH, 6.4), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1.7, 1])
    axes = above.subplots(2, 5, sharex=True, sharey=True)
    for axis, (model, title) in zip(axes.flat, KINDS.items(), strict=True):
        _layers(axis, {(cell, size): one for (kind, cell, size), one in features.items() if kind == model}, model)
        axis.set_title(title, fontsize=SMALL)
    for axis in axes[1]:
        axis.set_xlabel("layer")
    axes[0, 0].set_ylabel("root mean square\nof the features")
    axes[1, 0].set_ylabel("root mean square\nof the features")
    shown = ((GREY, "-"), (MODEL_COLOURS["pna"], "-"), (MODEL_COLOURS["pna"], "--"))
    handles = [axes[0, 0].plot([], [], style, color=colour, lw=1.2)[0] for colour, style in shown]
    words = (f"{SIZES[0]} nodes", f"{SIZES[-1]} nodes, in the model's colour", "PNA as released")
    above.legend(handles, words, ncols=3, loc="outside upper center")
    left, right = below.subplots(1, 2)
    _by_degree(left, features, "per_layer", ("pna", CUT))
    _by_degree(right, features, "change_per_layer", ("mpnn-sum", "gin", "mpnn-max", "pna", CUT))
    left.set_ylabel(f"growth of the features per layer,\nlayers {DEEPEST} to {LAYERS}")
    right.set_ylabel("growth of a small change\nper layer, the same layers")
    right.set_yscale("log")
    right.set_ylim(0.5, 12)
    right.set_yticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    right.set_yticks([], minor=True)
    left.legend(loc="upper right", fontsize=SMALL)
    right.legend(loc="upper right", fontsize=SMALL)
    return figure, _facts(features)


def _layers(axis: Axes, features: dict[tuple[str, int], Growth], model: str) -> None:
    """Draw the 90 % quantile over graphs of the features' norm after each layer, a line per cell and size."""
    for (cell, size), one in features.items():
        norm = np.minimum(one.quantile(0.9), 10 * _TOP)
        style = "--" if "/released/" in cell else "-"
        colour = GREY if size == SIZES[0] else _COLOURS[model]
        axis.plot(range(1, LAYERS + 1), norm, style, color=colour, lw=1.1)
    axis.axvline(DEEPEST, color=GREY, lw=0.6, ls=":")
    axis.set_yscale("log")
    axis.set_ylim(0.1, _TOP)
    axis.set_xticks([1, DEEPEST, 24, LAYERS])
    axis.tick_params(labelsize=SMALL)


def _by_degree(axis: Axes, features: dict[tuple[str, str, int], Growth], name: str, models: tuple[str, ...]) -> None:
    """Draw a point for each graph against its largest degree; a line marks the largest possible in training."""
    for model in models:
        title = "PNA, amplification 1" if model == CUT else KINDS[model]
        ones = [one for (kind, _, size), one in features.items() if kind == model and size == SIZES[-1]]
        if ones:
            degree = np.concatenate([one.degree for one in ones])
            values = np.concatenate([getattr(one, name) for one in ones])
            axis.plot(degree, values, ".", ms=4, color=MODEL_COLOURS.get(model, "#999999"), label=title, alpha=0.8)
    axis.axvline(SIZES[0] - 1, color=GREY, lw=0.6, ls=":")
    axis.axhline(1, color=GREY, lw=0.6)
    axis.set_xlabel(f"largest degree in a graph of {SIZES[-1]} nodes")


def _facts(features: dict[tuple[str, str, int], Growth]) -> dict:
    """Numbers behind the figure, in the few digits that do not depend on rounding errors."""
    rows = {}
    for (kind, cell, size), one in features.items():
        norm = one.quantile(0.9)
        facts = {f"log10 of the norm after layer {m}": round(float(np.log10(norm[m - 1])), 1) for m in (1, 12, 24, 48)}
        facts["growth of the norm a layer"] = _spread(one.per_layer)
        if one.change is not None:
            facts["growth of a small change a layer"] = _spread(one.change_per_layer)
        rows[f"{kind}, {cell}, {size} nodes"] = facts
    return {"90 % of the graphs are below": rows}


def _spread(values: np.ndarray) -> dict[str, float]:
    """Median and maximum of some values, to one decimal."""
    return {"median": round(float(np.median(values)), 1), "largest": round(float(values.max()), 1)}
