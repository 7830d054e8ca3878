"""Figure 6: the real-world benchmarks, as a table of published scores with ours below them."""

import itertools
import textwrap
from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna.figures import published, realworld
from pna.figures.runs import RecordedRun
from pna.figures.style import GREY, MODEL_COLOURS, SMALL, WARN, WIDTH
from pna.realworld.data.datasets import DATASETS, OFFICIAL, WEIGHTS
from pna.verdicts.statistics import Estimate

__all__ = ["figure6", "heading"]

_INK = {"PNA": MODEL_COLOURS["pna"], "PNA (no scalers)": "#9A6B00"}
_LETTERS = 108  # in a line under the table


def figure6(profile: str) -> tuple[Figure, dict]:
    """Rows are models, columns data sets: the published numbers, below them ours; the best of each on grey."""
    theirs, ours = published.realworld(), realworld.figure6_runs(profile)
    figure = Figure(figsize=(WIDTH, 0.34 * len(theirs) + 1.2), layout="constrained")
    axis = figure.subplots()
    axis.set(xlim=(0, WIDTH), ylim=(len(theirs) - 0.5, -1.55))
    axis.set_axis_off()
    for x, column in zip(_places(), realworld.COLUMNS, strict=True):
        axis.text(x, -1.05, heading(column), ha="center", va="center", weight="bold", fontsize=SMALL)
        scores = {title: realworld.published_score(title, column) for title in theirs}
        mine = {title: realworld.score(run) for (title, place), run in ours.items() if place == column}
        best, our_best = _best(scores.values(), column), _best(mine.values(), column)
        for y, title in enumerate(theirs):
            trained = (title, column) in realworld.CELLS
            text = realworld.published_text(title, column, sign="±") if scores[title] else "–"
            _write(axis, x, y - 0.2 * trained, text, "black", scores[title], best)
            if trained:
                score = mine.get(title)
                _write(
                    axis, x, y + 0.2, realworld.score_text(score, "±") if score else "not yet", WARN, score, our_best
                )
    for y, title in enumerate(theirs):
        axis.axhline(y - 0.5, color="#e5e5e5", lw=0.6)
        axis.text(0, y, title, va="center", fontsize=SMALL, color=_INK.get(title, "black"))
    lacking = _lacking(ours)
    figure.supxlabel(_words(ours, lacking), fontsize=SMALL, color=WARN if lacking else GREY)
    return figure, {"published": theirs, "ours": _numbers(ours) or "not run"}


def heading(column: str) -> str:
    """Heading of a column: data set, edges and metric on one short line each."""
    short = realworld.column_title(column).replace("no edge features", "no edges").replace("edge features", "edges")
    return "\n".join([*short.split(", "), realworld.metric_of(column).replace("accuracy", "acc.")])


def _places() -> list[float]:
    """Middle of each column, in inches; columns of errors are wider, by the digit that percentages lack."""
    widths = [0.71 if realworld.lower_is_better(column) else 0.63 for column in realworld.COLUMNS]
    ends = list(itertools.accumulate(widths, initial=WIDTH - sum(widths)))
    return [(left + right) / 2 for left, right in itertools.pairwise(ends)]


def _lacking(ours: dict[realworld.Place, RecordedRun]) -> list[str]:
    """List what our runs lack in comparison with the paper's: budget, data, cells."""
    lacks = {
        "budget": not all(run.full for run in ours.values()),
        "data": not all(run.official for run in ours.values()),
        "cells": len(ours) < len(realworld.CELLS),
    }
    return [what for what, lacking in lacks.items() if lacking]


def _words(ours: dict[realworld.Place, RecordedRun], lacking: list[str]) -> str:
    """The legend in at most three lines, and the budget of our runs where it is not the paper's."""
    legend = "Mean ± deviation over seeds: published above, ours below in colour, the best of each on grey."
    if not ours:
        return f"{legend} Ours: NOT RUN (no real-world result is recorded)."
    best = ", ".join(data.title for data in DATASETS.values() if data.reported == "best")
    lines = [legend, f"Ours: {WEIGHTS['last']} ({best}: {WEIGHTS['best']}). * with additional patience."]
    if lacking:
        *most, last = lacking
        lines.append(f"NOT ALL OF THE PAPER'S {' AND '.join(filter(None, (', '.join(most), last))).upper()}:")
        lines += [textwrap.fill(line, _LETTERS) for line in realworld.budget_lines(ours)]
    elif others := {run.cell.training: run.data[0] for run in ours.values() if run.data[0] != OFFICIAL}:
        titles = " and ".join(sorted(DATASETS[name].title for name in others))
        lines.append(f"Training sets that are {' or '.join(sorted(set(others.values())))}: {titles}.")
    return "\n".join(lines)


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


def _write(axis: Axes, x: float, y: float, text: str, colour: str, one: Estimate | None, best: float | None) -> None:
    """Write a score, on grey ground if it is the best, or a grey text if there is none."""
    ground = {"facecolor": "#e5e5e5", "pad": 1.2, "linewidth": 0} if one and one.value == best else None
    axis.text(x, y, text, color=colour if one else GREY, bbox=ground, ha="center", va="center", fontsize=SMALL)


def _best(scores: Iterable[Estimate | None], column: str) -> float | None:
    """Best score in a column, the lowest error or the highest accuracy; None if there is no score."""
    values = [one.value for one in scores if one is not None]
    return (min if realworld.lower_is_better(column) else max)(values, default=None)
