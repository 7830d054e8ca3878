"""Beyond the paper: the error of four kinds of scalers by the degree of the node, far beyond those of training."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna.experiments.hubs import CAP, SETTINGS
from pna.figures.hubs import recorded, relative
from pna.figures.style import GREY, SMALL, WIDTH
from pna.multitask.hubs import BINS
from pna.multitask.labels import NODE_TASKS

__all__ = ["errors"]

_LOOKS = {  # colour, marker and name of each kind of scalers
    "none": ("#E69F00", "s", "none"),
    "linear": ("#D55E00", "^", "linear"),
    "logarithmic": ("#0072B2", "o", "logarithmic (the paper's)"),
    "learned": ("#009E73", "D", "logarithmic, learned exponents"),
}
_EDGES = [low for low, _ in BINS] + [BINS[-1][1]]
_CENTRES = np.array([(low * (high + 1)) ** 0.5 for low, high in BINS])  # on the logarithmic axis
_APART = 1.06  # factor between the places of neighbouring marks


def errors() -> tuple[Figure, dict]:
    """Error relative to the baseline by degree, mean of three node tasks and each alone: a line for each scaler."""
    figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
    panels = {"Mean of the three": None} | {task.title: place for place, task in enumerate(NODE_TASKS)}
    axes, numbers = figure.subplots(2, 2, sharex=True, sharey=True), {}
    for axis, (title, task) in zip(axes.flat, panels.items(), strict=True):
        axis.set_title(title)
        numbers[title] = _panel(axis, task)
    if names := recorded():
        handles, _ = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, [_LOOKS[name][2] for name in names], ncols=2, loc="outside upper center")
    else:
        figure.text(0.5, 0.5, "not recorded yet", ha="center", color=GREY)
    figure.supylabel("log₁₀(MSE / MSE of the baseline)", fontsize="medium")
    for axis in axes[1]:
        axis.set_xlabel("degree of the node (training: at most 23)")
    words = f"{SETTINGS.seeds} seeds, {SETTINGS.epochs} epochs; dotted: the cap, {CAP:g} times the baseline's error"
    figure.supxlabel(words, fontsize=SMALL, color=GREY)
    return figure, numbers


def _panel(axis: Axes, task: int | None) -> dict:
    """Draw the mean of the tasks or one of them in each bin of degrees, and return the numbers."""
    numbers, names = {}, recorded()
    for place, name in enumerate(names):
        scores = relative(name, task)
        colour, marker, _ = _LOOKS[name]
        reach = [one.interval[1] - one.value if one.known else 0.0 for one in scores]
        x = _CENTRES * _APART ** (place - (len(names) - 1) / 2)
        style = {"color": colour, "marker": marker, "ms": 3.5, "lw": 1, "capsize": 0}
        axis.errorbar(x, [one.value for one in scores], reach, label=name, **style)
        numbers[name] = {
            f"{low}-{high}": {"value": one.value, "interval": list(one.interval)}
            for (low, high), one in zip(BINS, scores, strict=True)
        }
    axis.axhline(0, color=GREY, lw=0.8)
    axis.axhline(np.log10(CAP), color=GREY, lw=0.8, ls=":")
    axis.set_xscale("log")
    axis.set_xticks(_EDGES, map(str, _EDGES))
    axis.minorticks_off()
    return numbers
