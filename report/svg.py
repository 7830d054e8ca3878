"""Small pictures that the page draws itself, as SVG in its own colours: intervals, averages, learning curves."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pna.figures import published
from pna.figures.runs import Curve, Runs
from pna.figures.scores import score, wider_split
from pna.networks import MODELS
from pna.verdicts.rules import Decision, number
from pna.verdicts.statistics import Estimate
from report.markup import render

__all__ = ["averages", "curves", "interval_row", "span"]


# ---- intervals of a claim ----

_INTERVAL = 160  # the width of an interval plot


def span(rows: Sequence[Decision]) -> tuple[float, float]:
    """The range that a claim's interval plots share."""
    ends = [0.0]
    for row in rows:
        one = row.comparison.estimate
        ends += [one.value, row.comparison.bound, *(end for end in one.interval if math.isfinite(end))]
    low, high = min(ends), max(ends)
    room = 0.05 * (high - low or 1.0)
    return low - room, high + room


def interval_row(row: Decision, low: float, high: float) -> Markup:
    """One estimate with its interval beside the line that it is compared with; the numbers stand in the next column."""
    one = row.comparison.estimate
    left, right = one.interval if one.known else (one.value, one.value)
    values = {"value": one.value, "left": left, "right": right, "bound": row.comparison.bound}
    places = {name: f"{_INTERVAL * (value - low) / (high - low):.1f}" for name, value in values.items()}
    return render("interval", outcome=row.outcome.split()[0], **places)


# ---- the first picture ----

_STEP = 44  # the height of a model's row


@dataclass(frozen=True)
class _Track:
    """The scale of the first picture: maps log10 MSE to a horizontal place."""

    low: float
    high: float
    left: float = 14.0
    right: float = 342.0

    def __call__(self, value: float) -> float:
        return self.left + (self.right - self.left) * (value - self.low) / (self.high - self.low)


def averages(sides: Sequence[Runs]) -> Markup:
    """Every published average and ours with its interval, model by model, both specifications."""
    published_scores = {name: row["average"] for name, row in published.multitask().items()}
    base = published_scores.pop("baseline")
    ours = {
        runs.spec: {name: score(run, wider_split(run)) for name, run in runs.of("multitask").items()} for runs in sides
    }
    values = [end for row in ours.values() for one in row.values() for end in (one.value, *one.interval)]
    values = [value for value in values if math.isfinite(value)]
    track = _Track(math.floor(2 * min([-3.5, *values])) / 2, math.ceil(2 * max([base, *values])) / 2)
    ticks = [track.low + 0.5 * k for k in range(round(2 * (track.high - track.low)) + 1)]
    models = [
        {
            "title": MODELS[name].title,
            "top": (top := _STEP * place + 14),
            "published": track(theirs),
            "marks": [
                _mark(track, ours[spec][name], top + shift, spec)
                for shift, spec in ((12, "released"), (24, "described"))
                if name in ours.get(spec, {})
            ],
        }
        for place, (name, theirs) in enumerate(published_scores.items())
    ]
    words = "; ".join(_words(name, theirs, ours) for name, theirs in published_scores.items())
    return render(
        "averages",
        words=f"Average log10 MSE by model, lower is better. {words}",
        height=_STEP * len(models) + 34,
        left=track.left,
        base=track(base),
        ticks=[(track(tick), number(tick, 1).lstrip("+")) for tick in ticks],
        models=models,
    )


def _mark(track: _Track, one: Estimate, y: float, spec: str) -> dict[str, object]:
    """A score and the ends of its interval, cut off at the picture's edges."""
    ends = [min(max(track(end), 0), 360) for end in one.interval] if one.known else []
    return {"spec": spec, "x": track(one.value), "y": y, "ends": ends}


def _words(name: str, theirs: float, ours: dict[str, dict[str, Estimate]]) -> str:
    """A model's published average and ours in words, for readers who do not see the picture."""
    scores = [f"{spec} {number(row[name].value)}" for spec, row in ours.items() if name in row]
    return f"{MODELS[name].title}: published {number(theirs)}, {', '.join(scores) or 'not run'}"


# ---- learning curves ----

_POINTS = 12  # shown of a curve; a third as many for networks of single tasks, which have six times as many curves
_WIDE, _HIGH = 600, 240


def curves(title: str, colour: str, seeds: Sequence[Curve], epochs: int, low: float, high: float) -> Markup:
    """All seeds of a cell: validation loss (logarithmic) over epochs, the best epoch and the last marked."""
    best, last = [one.best_epoch for one in seeds], [one.last_epoch for one in seeds]
    words = (
        f"{title}: {len(seeds)} runs; best epoch {min(best):,} to {max(best):,}, "
        f"stopped after {min(last):,} to {max(last):,}"
    )
    lines = (_line(one, epochs, low, high) for one in seeds)
    return render(
        "curves",
        title=title,
        colour=colour,
        words=words,
        epochs=epochs,
        low=low,
        high=high,
        width=_WIDE,
        height=_HIGH,
        lines=[line for line in lines if line],
    )


def _line(one: Curve, epochs: int, low: float, high: float) -> dict[str, object] | None:
    """A curve's path, with the places of its best epoch and its last; None without any loss."""
    step = max(1, math.ceil(len(one.points) / (_POINTS if one.task is None else _POINTS / 3)))
    shown = [*one.points[::step], one.points[-1]] if one.points else []
    places = [_place(epoch, loss, epochs, low, high) for epoch, loss in shown if loss]
    if not places:
        return None
    best = _place(one.best_epoch, one.best_loss, epochs, low, high) if one.best_loss else places[-1]
    return {"seed": one.seed, "task": one.task, "path": _path(places), "best": best, "last": places[-1]}


def _path(places: Sequence[tuple[int, int]]) -> str:
    """An SVG path in relative steps, which are shorter than absolute places, as in M10 120l12-3 12-1."""
    steps = [(x - a, y - b) for (a, b), (x, y) in itertools.pairwise(places)]
    return f"M{places[0][0]} {places[0][1]}l" + " ".join(f"{dx}{dy}" if dy < 0 else f"{dx} {dy}" for dx, dy in steps)


def _place(epoch: int, loss: float, epochs: int, low: float, high: float) -> tuple[int, int]:
    """The place of a loss at an epoch, in pixels, cut off at the picture's upper and lower edge."""
    level = (math.log10(loss) - low) / (high - low)
    return round(_WIDE * epoch / epochs), round(_HIGH * (1 - min(max(level, 0), 1)))
