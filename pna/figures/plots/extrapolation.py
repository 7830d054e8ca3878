"""Figure 5: the error relative to the baseline on ever larger graphs."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna.figures import published
from pna.figures.runs import Runs
from pna.figures.scores import EXPLODED, SHOWN, ratio, sizes_of
from pna.figures.style import GREY, MARKERS, MODEL_COLOURS, WIDTH
from pna.networks import MODELS
from pna.verdicts.statistics import Estimate

__all__ = ["figure5"]

_TOP = float(np.log10(EXPLODED))
_EDGE = _TOP - 0.13  # where the arrows of exploded models stand
_ARROW = {"marker": "$\\uparrow$", "ms": 8, "mew": 0.3, "ls": ""}


def figure5(runs: Runs) -> tuple[Figure, dict]:
    """A line for each model with its 95 % interval, the published line dashed; on the right, beyond the paper."""
    figure = Figure(figsize=(WIDTH, 3.7), layout="constrained")
    inside, beyond = figure.subplots(1, 2, width_ratios=[6, 3.2], sharey=True)
    ratios = {
        name: {size: ratio(run, split) for size, split in sizes_of(run).items()}
        for name, run in runs.of("extrapolation").items()
    }
    sizes = list(next(iter(ratios.values()))) if ratios else published.table("extrapolation")["columns"]
    for axis, part in ((inside, sizes[:SHOWN]), (beyond, sizes[SHOWN:])):
        for place, (name, row) in enumerate(ratios.items()):
            _line(axis, [row[size] for size in part], name, (place - 2.5) * 0.06)
        axis.axhline(0, color=GREY, lw=0.8)
        axis.set_xticks(range(len(part)), part)
        axis.tick_params(axis="x", labelrotation=25)
        axis.grid(axis="y")
    theirs = published.extrapolation()
    for name, line in theirs.items():
        inside.plot(np.where(np.isfinite(line), line, np.nan), "--", lw=0.9, color=MODEL_COLOURS[name], alpha=0.7)
    inside.plot([], [], "--", lw=0.9, color=GREY, label="published")
    inside.text(0, 0.03, "baseline", color=GREY, va="bottom", fontsize=8)
    _limits(inside, ratios)
    inside.set_title("the paper's sizes")
    beyond.set_title("beyond the paper")
    beyond.set_facecolor("#f4f4f4")
    inside.set_ylabel("log₁₀(MSE / MSE of the baseline)\n(lower is better)")
    inside.set_xlabel("nodes of the test graphs")
    handles, labels = inside.get_legend_handles_labels()
    handles += inside.plot([], [], color=GREY, **_ARROW)
    arrow = f"runs above {EXPLODED:.0f} times the baseline"
    figure.legend(handles, [*labels, arrow], ncols=3, loc="outside upper center")
    return figure, {
        "sizes": sizes,
        "log10(MSE / baseline)": {name: [one.value for one in row.values()] for name, row in ratios.items()},
        "95 % interval": {name: [one.interval for one in row.values() if one.known] for name, row in ratios.items()},
        "published": theirs,
        "note": "MSE is the mean over the six tasks, the baseline predicts the training mean on the same graphs; "
        f"a run above {EXPLODED:.0f} times the baseline counts as {EXPLODED:.0f} times",
    }


def _line(axis: Axes, row: list[Estimate], name: str, shift: float) -> None:
    """A model's line; where it leaves the picture, an arrow at the edge."""
    values = np.array([one.value for one in row])
    shown = np.where(values < _EDGE, values, np.nan)
    reach = [one.interval[1] - one.value if one.known else 0.0 for one in row]
    style = {"color": MODEL_COLOURS[name], "marker": MARKERS[name], "ms": 4, "lw": 1.3}
    places = np.arange(len(row))
    axis.errorbar(
        places + shift, shown, reach if any(reach) else None, elinewidth=0.7, label=MODELS[name].title, **style
    )
    gone = np.flatnonzero(~(values < _EDGE))
    axis.plot(gone + shift, np.full(len(gone), _EDGE), color=MODEL_COLOURS[name], **_ARROW)


def _limits(axis: Axes, ratios: dict[str, dict[str, Estimate]]) -> None:
    ends = [end for row in ratios.values() for one in row.values() for end in (one.value, one.interval[0])]
    axis.set_ylim(min([-2.0, *(end for end in ends if np.isfinite(end))]) - 0.1, _TOP)
