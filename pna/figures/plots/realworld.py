"""Figure 6: the real-world benchmarks, as a table of published scores with ours below them."""

import itertools
import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna.figures import published, realworld
from pna.figures.runs import RecordedRun
from pna.figures.style import GREY, MODEL_COLOURS, SMALL, WARN, WIDTH
from pna.realworld.data.datasets import DATASETS, WEIGHTS

__all__ = ["figure6", "heading"]

_INK = {"PNA": MODEL_COLOURS["pna"], "PNA (no scalers)": "#9A6B00"}
_LETTERS = 108  # in a line under the table


def figure6(profile: str) -> tuple[Figure, dict]:
    """Rows are models, columns data sets; on grey the best published number, below it ours where recorded."""
    theirs, ours = published.realworld(), realworld.figure6_runs(profile)
    figure = Figure(figsize=(WIDTH, 0.36 * len(theirs) + 1.5), layout="constrained")
    axis = figure.subplots()
    axis.set(xlim=(0, WIDTH), ylim=(len(theirs) - 0.5, -1.55))
    axis.set_axis_off()
    for x, column in zip(_places(), realworld.COLUMNS, strict=True):
        axis.text(x, -1.05, heading(column), ha="center", va="center", weight="bold", fontsize=SMALL)
        for y, title in enumerate(theirs):
            trained = (title, column) in realworld.CELLS
            _published(axis, x, y - 0.2 * trained, (title, column), _best(theirs, column))
            if trained:
                _ours(axis, x, y + 0.2, ours.get((title, column)))
    for y, title in enumerate(theirs):
        axis.axhline(y - 0.5, color="0.88", lw=0.6)
        axis.text(0, y, title, va="center", fontsize=SMALL, color=_INK.get(title, "black"))
    lacking = _lacking(ours)
    figure.supxlabel(_words(ours, lacking), fontsize=SMALL, color=WARN if lacking else GREY)
    return figure, {"published": theirs, "ours": _numbers(ours) or "not run"}


def heading(column: str) -> str:
    """Data set, edges and metric, a short line each."""
    short = realworld.column_title(column).replace("no edge features", "no edges").replace("edge features", "edges")
    return "\n".join([*short.split(", "), realworld.metric_of(column).replace("accuracy", "acc.")])


def _places() -> list[float]:
    """The middle of each column, in inches: an error has one digit more than a percentage."""
    widths = [0.71 if realworld.lower_is_better(column) else 0.63 for column in realworld.COLUMNS]
    ends = list(itertools.accumulate(widths, initial=WIDTH - sum(widths)))
    return [(left + right) / 2 for left, right in itertools.pairwise(ends)]


def _lacking(ours: dict[realworld.Place, RecordedRun]) -> list[str]:
    """The respects in which our runs are not all as in the paper."""
    lacks = {
        "budget": not all(run.full for run in ours.values()),
        "data": not all(run.official for run in ours.values()),
        "cells": len(ours) < len(realworld.CELLS),
    }
    return [what for what, lacking in lacks.items() if lacking]


def _words(ours: dict[realworld.Place, RecordedRun], lacking: list[str]) -> str:
    """The legend, and the budget of our runs."""
    legend = "Published mean ± deviation over seeds, the best on grey; * with additional patience."
    if not ours:
        return f"{legend} Ours: NOT RUN (no real-world result is recorded)."
    best = ", ".join(data.title for data in DATASETS.values() if data.reported == "best")
    lines = [f"{legend} Below, in colour: ours {WEIGHTS['last']} ({best}: {WEIGHTS['best']})."]
    if lacking:
        *most, last = lacking
        lines.append(f"NOT ALL OF THE PAPER'S {' AND '.join(filter(None, (', '.join(most), last))).upper()}:")
    lines += realworld.budget_lines(ours)
    return "\n".join(textwrap.fill(line, _LETTERS) for line in lines)


def _numbers(ours: dict[realworld.Place, RecordedRun]) -> dict[str, dict]:
    """Our scores by model and column."""
    return {
        f"{title}, {column}": {
            "mean": realworld.score(run).value,
            "deviation": realworld.deviation(realworld.score(run)),
            "seeds": len(run.result.replicas),
            "budget": run.profile.name,
            "full": run.full,
            "training set": run.data[0],
        }
        for (title, column), run in ours.items()
    }


def _published(axis: Axes, x: float, y: float, place: realworld.Place, best: float) -> None:
    theirs = realworld.published_score(*place)
    if theirs is None:
        axis.text(x, y, "–", ha="center", va="center", color=GREY)
    else:
        ground = {"facecolor": "#e5e5e5", "pad": 1.2, "linewidth": 0} if theirs.value == best else None
        text = realworld.published_text(*place, sign="±")
        axis.text(x, y, text, ha="center", va="center", fontsize=SMALL, bbox=ground)


def _ours(axis: Axes, x: float, y: float, ours: RecordedRun | None) -> None:
    text, colour = ("not yet", GREY) if ours is None else (realworld.score_text(realworld.score(ours), "±"), WARN)
    axis.text(x, y, text, ha="center", va="center", fontsize=SMALL, color=colour)


def _best(theirs: dict, column: str) -> float:
    values = [row[column][0] for row in theirs.values() if row[column] is not None]
    return (min if realworld.lower_is_better(column) else max)(values)
