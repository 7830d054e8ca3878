"""Figure 6: the real-world benchmarks, as a table of published numbers with ours where they are recorded."""

import itertools
import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna.figures import published, realworld
from pna.figures.realworld import Score
from pna.figures.style import GREY, MODEL_COLOURS, SMALL, WARN, WIDTH
from pna.realworld.data.datasets import DATASETS, WEIGHTS

__all__ = ["figure6"]

_INK = {"PNA": MODEL_COLOURS["pna"], "PNA (no scalers)": "#9A6B00"}
_LETTERS = 108  # in a line under the table


def figure6(profile: str) -> tuple[Figure, dict]:
    """Rows are models, columns data sets; on grey the best published number, below it ours where recorded."""
    theirs, ours = published.realworld(), realworld.scores(profile)
    figure = Figure(figsize=(WIDTH, 0.36 * len(theirs) + 1.5), layout="constrained")
    axis = figure.subplots()
    axis.set(xlim=(0, WIDTH), ylim=(len(theirs) - 0.5, -1.55))
    axis.set_axis_off()
    for x, (name, column) in zip(_places(), realworld.COLUMNS.items(), strict=True):
        axis.text(x, -1.05, column.heading, ha="center", va="center", weight="bold", fontsize=SMALL)
        for y, title in enumerate(theirs):
            score = realworld.published_score(title, name)
            _published(axis, x, y - 0.2 * (title in column.titles), score, _best(theirs, name))
            if title in column.titles:
                _ours(axis, x, y + 0.2, ours.get((title, name)))
    for y, title in enumerate(theirs):
        axis.axhline(y - 0.5, color="0.88", lw=0.6)
        axis.text(0, y, title, va="center", fontsize=SMALL, color=_INK.get(title, "black"))
    lacking = _lacking(ours)
    figure.supxlabel(_words(ours, lacking), fontsize=SMALL, color=WARN if lacking else GREY)
    return figure, {"published": theirs, "ours": _numbers(ours) or "not run"}


def _places() -> list[float]:
    """The middle of each column, in inches: an error has one digit more than a percentage."""
    widths = [0.71 if column.lower_is_better else 0.63 for column in realworld.COLUMNS.values()]
    ends = list(itertools.accumulate(widths, initial=WIDTH - sum(widths)))
    return [(left + right) / 2 for left, right in itertools.pairwise(ends)]


def _lacking(ours: dict[tuple[str, str], Score]) -> list[str]:
    """What is not all as in the paper."""
    lacks = {
        "budget": not all(score.full for score in ours.values()),
        "data": not all(score.official for score in ours.values()),
        "cells": bool(realworld.missing(ours)),
    }
    return [what for what, lacking in lacks.items() if lacking]


def _words(ours: dict[tuple[str, str], Score], lacking: list[str]) -> str:
    """What is shown, and which budget ours are made from."""
    legend = "Published mean ± deviation over seeds, the best on grey."
    if not ours:
        return f"{legend} Ours: NOT RUN (no real-world result is recorded)."
    best = ", ".join(data.title for data in DATASETS.values() if data.reported == "best")
    lines = [f"{legend} Below, in colour: ours {WEIGHTS['last']} ({best}: {WEIGHTS['best']})."]
    if lacking:
        *most, last = lacking
        lines.append(f"NOT ALL OF THE PAPER'S {' AND '.join(filter(None, (', '.join(most), last))).upper()}:")
    lines += realworld.budgets(ours)
    return "\n".join(textwrap.fill(line, _LETTERS) for line in lines)


def _numbers(ours: dict[tuple[str, str], Score]) -> dict[str, dict]:
    """Ours by model and column."""
    return {
        f"{title}, {name}": {
            "mean": score.mean,
            "deviation": score.deviation,
            "seeds": len(score.result.replicas),
            "budget": score.budget,
            "full": score.full,
            "training set": score.data[0],
        }
        for (title, name), score in ours.items()
    }


def _published(axis: Axes, x: float, y: float, theirs: Score | None, best: float) -> None:
    if theirs is None:
        axis.text(x, y, "–", ha="center", va="center", color=GREY)
    else:
        ground = {"facecolor": "#e5e5e5", "pad": 1.2, "linewidth": 0} if theirs.mean == best else None
        axis.text(x, y, _short(theirs), ha="center", va="center", fontsize=SMALL, bbox=ground)


def _short(score: Score) -> str:
    return str(score).replace(" ", "")


def _ours(axis: Axes, x: float, y: float, ours: Score | None) -> None:
    text, size, colour = ("not yet", SMALL, GREY) if ours is None else (_short(ours), SMALL, WARN)
    axis.text(x, y, text, ha="center", va="center", fontsize=size, color=colour)


def _best(theirs: dict, column: str) -> float:
    values = [row[column][0] for row in theirs.values() if row[column] is not None]
    return (min if realworld.COLUMNS[column].lower_is_better else max)(values)
