"""Figure 5: the error relative to the baseline on ever larger graphs."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pna.figures import published
from pna.figures.runs import Runs
from pna.figures.scores import EXPLODED, SHOWN, ratio, sizes_of
from pna.figures.style import GREY, MARKERS, MODEL_COLOURS, SMALL, WIDTH
from pna.networks import MODELS
from pna.verdicts.statistics import Estimate

__all__ = ["figure5"]

_TOP = float(np.log10(EXPLODED))  # of the axis: a run above counts as one there
_EDGE = _TOP - 0.13  # where the arrows of exploded models stand
_ARROW = {"marker": "$\\uparrow$", "ms": 8, "mew": 0.3, "ls": ""}
_CUT = {"marker": "^", "ms": 4.5, "mew": 0, "ls": ""}

Row = dict[str, Estimate]  # a model's error by size


def figure5(runs: Runs) -> tuple[Figure, dict]:
    """A panel for each model: its line with the 95 % interval, the published line dashed, the other models in grey."""
    ratios = {
        name: {size: ratio(run, split) for size, split in sizes_of(run).items()}
        for name, run in runs.of("extrapolation").items()
    }
    sizes = list(next(iter(ratios.values()))) if ratios else published.table("extrapolation")["columns"]
    theirs = published.extrapolation()
    figure = Figure(figsize=(WIDTH, 4.6), layout="constrained")
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    for axis, name in zip(panels.flat, theirs, strict=True):
        _ground(axis, sizes, MODELS[name].title)
        for other in (one for one in ratios if one != name):  # in one order, for the same bytes each time
            axis.plot(_inside(ratios[other]), color="#bdbdbd", lw=0.7, zorder=1)
        axis.plot(np.where(np.isfinite(theirs[name]), theirs[name], np.nan), "--", lw=1.1, color=MODEL_COLOURS[name])
        if name in ratios:
            _model(axis, ratios[name], name)
    panels[0, 0].set_ylim(_lowest(ratios) - 0.1, _TOP)
    figure.supylabel("log₁₀(MSE / MSE of the baseline), lower is better", fontsize=8)
    for axis in panels[1]:
        axis.set_xlabel("nodes, from")
    _legend(figure)
    return figure, {
        "sizes": sizes,
        "log10(MSE / baseline)": {name: [one.value for one in row.values()] for name, row in ratios.items()},
        "95 % interval": {name: [one.interval for one in row.values() if one.known] for name, row in ratios.items()},
        "published": theirs,
        "note": "MSE is the mean over the six tasks, the baseline predicts the training mean on the same graphs; "
        f"a run above {EXPLODED:.0f} times the baseline counts as {EXPLODED:.0f} times",
    }


def _ground(axis: Axes, sizes: list[str], title: str) -> None:
    """Draw a panel's background: sizes, baseline, and a grey area for sizes beyond the paper's."""
    axis.set_title(title)
    axis.axhline(0, color=GREY, lw=0.8)
    axis.axvspan(SHOWN - 0.5, len(sizes) - 0.5, color="#f4f4f4", lw=0, zorder=0)
    axis.set_xlim(-0.4, len(sizes) - 0.5)
    axis.set_xticks(range(len(sizes)), [size.split("-")[0] for size in sizes], fontsize=SMALL)
    axis.grid(axis="y")


def _inside(row: Row) -> np.ndarray:
    """Values of a model by size, [sizes]; nan where they are above the picture."""
    values = np.array([one.value for one in row.values()])
    return np.where(values < _EDGE, values, np.nan)


def _model(axis: Axes, row: Row, name: str) -> None:
    """Draw a model's line and interval, with triangles where the interval is cut off, and arrows where the line is."""
    colour, places, shown = MODEL_COLOURS[name], np.arange(len(row)), _inside(row)
    low, high = np.array([one.interval if one.known else (np.nan, np.nan) for one in row.values()]).T
    drawn = np.isfinite(shown)
    low, high = np.where(drawn, low, np.nan), np.where(drawn, high, np.nan)
    axis.fill_between(places, low, np.minimum(high, _TOP), color=colour, alpha=0.18, lw=0, zorder=2)
    axis.plot(places, shown, color=colour, marker=MARKERS[name], ms=4, lw=1.4, zorder=3)
    for beyond, y, mark in ((high > _TOP, _TOP - 0.06, _CUT), (~drawn, _EDGE, _ARROW)):
        axis.plot(places[beyond], np.full(beyond.sum(), y), color=colour, zorder=4, **mark)


def _legend(figure: Figure) -> None:
    """Draw one legend for all panels above them."""
    styles = {
        "ours, with its 95 % interval": {"marker": "o", "ms": 4, "lw": 1.4},
        "published": {"ls": "--", "lw": 1.1},
        "the other models": {"color": "#bdbdbd", "lw": 0.7},
        "the interval continues": _CUT,
        f"above {EXPLODED:.0f} times the baseline": _ARROW,
        "beyond the paper's sizes": {"marker": "s", "ms": 8, "ls": "", "color": "#e5e5e5"},
    }
    handles = [Line2D([], [], **({"color": GREY} | style)) for style in styles.values()]
    figure.legend(handles, styles, ncols=3, loc="outside upper center", columnspacing=1.2)


def _lowest(ratios: dict[str, Row]) -> float:
    """Lowest value or end of an interval in any panel, but at most -2."""
    ends = [end for row in ratios.values() for one in row.values() for end in (one.value, one.interval[0])]
    return min([-2.0, *(end for end in ends if np.isfinite(end))])
