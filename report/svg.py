"""Small pictures that the page draws itself, as SVG in its own colours: intervals, averages, learning curves."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from pna.figures import published
from pna.figures.runs import Curve, Runs
from pna.figures.scores import score, wider_split
from pna.networks import MODELS
from pna.verdicts.rules import Decision, number
from pna.verdicts.statistics import Estimate
from report.markup import escape

__all__ = ["averages", "curves", "interval_row", "span"]


# ---- intervals of a claim ----


def span(rows: Sequence[Decision]) -> tuple[float, float]:
    """What a claim's interval plots show, the same for all of them."""
    ends = [0.0]
    for row in rows:
        found = row.comparison.estimate
        if found is not None:
            ends += [found.value, row.comparison.bound, *(end for end in found.interval if math.isfinite(end))]
    low, high = min(ends), max(ends)
    room = 0.05 * (high - low or 1.0)
    return low - room, high + room


def interval_row(row: Decision, low: float, high: float) -> str:
    """One estimate with its interval beside the line that it is compared with."""
    found, width = row.comparison.estimate, 160

    def x(value: float) -> str:
        return f"{width * (value - low) / (high - low):.1f}"

    bound = x(row.comparison.bound)
    left, right = found.interval if found.known else (found.value, found.value)
    words = (
        f"{number(found.value)}, 95 % interval {number(left)} to {number(right)}"
        if found.known
        else number(found.value)
    )
    dot = f'<circle cx="{x(found.value)}" cy="9" r="4"/>'
    return (
        f'<svg class="interval {row.outcome.split()[0]}" viewBox="0 0 {width} 18" role="img" aria-label="{words}">'
        f'<path class="zero" d="M{bound} 0V18"/><path d="M{x(left)} 9H{x(right)}"/>{dot}</svg>'
    )


# ---- the first picture ----


@dataclass(frozen=True)
class _Track:
    """The place of log10 MSE on the first picture."""

    low: float
    high: float
    left: float = 14.0
    right: float = 342.0

    def __call__(self, value: float) -> float:
        return self.left + (self.right - self.left) * (value - self.low) / (self.high - self.low)


def averages(sides: Sequence[Runs]) -> str:
    """Every published average and ours with its interval, model by model, both specifications."""
    theirs = published.multitask()
    found = {
        runs.spec: {name: score(run, wider_split(run)) for name, run in runs.of("multitask").items()} for runs in sides
    }
    base = theirs["baseline"]["average"]
    values = [end for row in found.values() for one in row.values() for end in (one.value, *one.interval)]
    values = [value for value in values if math.isfinite(value)]
    track = _Track(math.floor(2 * min([-3.5, *values])) / 2, math.ceil(2 * max([base, *values])) / 2)
    names = [name for name in theirs if name != "baseline"]
    height = 52 * len(names) + 34
    parts = [_grid(track, height, base)]
    for place, name in enumerate(names):
        parts.append(
            _model(track, name, 52 * place + 14, theirs[name]["average"], {s: r.get(name) for s, r in found.items()})
        )
    words = "; ".join(_words(name, theirs[name]["average"], found) for name in names)
    legend = (
        '<ul class="legend"><li><i class="theirs"></i>published</li><li><i class="released"></i>ours, as released</li>'
        '<li><i class="described"></i>ours, as described</li></ul>'
    )
    label = f"Average log10 MSE by model, lower is better. {words}"
    start = f'<svg class="averages" role="img" aria-label="{escape(label)}" viewBox="0 0 360 {height}">'
    return f"{legend}{start}{''.join(parts)}</svg>"


def _grid(track: _Track, height: float, base: float) -> str:
    ticks = [track.low + 0.5 * k for k in range(round(2 * (track.high - track.low)) + 1)]
    lines = "".join(f'<path class="grid" d="M{track(tick):.1f} 4V{height - 20}"/>' for tick in ticks)
    marks = "".join(
        f'<text x="{track(tick):.1f}" y="{height - 5}" text-anchor="middle">{number(tick, 1).lstrip("+")}</text>'
        for tick in ticks
    )
    x = f"{track(base):.1f}"
    name = f'<text x="{x}" y="14" text-anchor="end" dx="-4">baseline</text>'
    return f'{lines}{marks}<path class="base" d="M{x} 4V{height - 20}"/>{name}'


def _model(track: _Track, name: str, top: float, theirs: float, ours: dict[str, Estimate | None]) -> str:
    x = track(theirs)
    parts = [f'<text x="{track.left}" y="{top}" class="name">{escape(MODELS[name].title)}</text>']
    parts.append(f'<path class="theirs" d="M{x:.1f} {top + 6}l5 6l-5 6l-5 -6z"/>')
    for shift, spec in ((12, "released"), (24, "described")):
        if one := ours.get(spec):
            parts.append(_mark(track, one, top + shift, spec))
    return "".join(parts)


def _mark(track: _Track, found: Estimate, y: float, spec: str) -> str:
    x = track(found.value)
    line = ""
    if found.known:
        left, right = (min(max(track(end), 0), 360) for end in found.interval)
        line = f'<path d="M{left:.1f} {y}H{right:.1f}"/>'
    if spec == "released":
        return f'<g class="released">{line}<circle cx="{x:.1f}" cy="{y}" r="4.5"/></g>'
    return f'<g class="described">{line}<rect x="{x - 4:.1f}" y="{y - 4}" width="8" height="8"/></g>'


def _words(name: str, theirs: float, found: dict[str, dict[str, Estimate]]) -> str:
    ours = [f"{spec} {number(row[name].value)}" for spec, row in found.items() if name in row]
    return f"{MODELS[name].title}: published {number(theirs)}, {', '.join(ours) or 'not run'}"


# ---- learning curves ----

_POINTS = 40  # of a curve; of a network for a single task a third, as there are six times as many
_WIDE, _HIGH = 600, 240


def curves(title: str, colour: str, found: Sequence[Curve], epochs: int, low: float, high: float) -> str:
    """All seeds of a cell: validation loss (logarithmic) over epochs, the best epoch and the last marked."""
    lines = "".join(_curve(one, epochs, low, high) for one in found)
    best, last = ([f"{epoch:,}" for epoch in (min(row), max(row))] for row in _ends(found))
    words = f"{title}: {len(found)} runs; best epoch {' to '.join(best)}, stopped after {' to '.join(last)}"
    data = f'data-epochs="{epochs}" data-low="{low:.3f}" data-high="{high:.3f}"'
    return (
        f'<figure class="cell"><figcaption>{escape(title)}</figcaption><svg class="curves" {data} role="img" '
        f'aria-label="{escape(words)}" viewBox="0 0 {_WIDE} {_HIGH}" preserveAspectRatio="none" '
        f'style="color: {colour}">{lines}</svg></figure>'
    )


def _ends(found: Sequence[Curve]) -> tuple[list[int], list[int]]:
    return [one.best_epoch for one in found], [one.last_epoch for one in found]


def _curve(one: Curve, epochs: int, low: float, high: float) -> str:
    step = max(1, math.ceil(len(one.points) / (_POINTS if one.task is None else _POINTS / 3)))
    kept = [*one.points[::step], one.points[-1]] if one.points else []
    places = [_place(epoch, loss, epochs, low, high) for epoch, loss in kept if loss]
    if not places:
        return ""
    bx, by = _place(one.best_epoch, one.best_loss, epochs, low, high) if one.best_loss else places[-1]
    task = f' data-task="{one.task}"' if one.task else ""
    ex, ey = places[-1]
    return (
        f'<path data-seed="{one.seed}"{task} d="{_path(places)}"/>'
        f'<path class="end" d="M{ex} {ey - 9}v18"/><path class="best" d="M{bx} {by}h0"/>'
    )


def _path(places: Sequence[tuple[int, int]]) -> str:
    """In steps, which are shorter than places: M10 120l12-3 12-1."""
    steps = [(x - a, y - b) for (a, b), (x, y) in itertools.pairwise(places)]
    return f"M{places[0][0]} {places[0][1]}l" + " ".join(f"{dx}{dy}" if dy < 0 else f"{dx} {dy}" for dx, dy in steps)


def _place(epoch: int, loss: float, epochs: int, low: float, high: float) -> tuple[int, int]:
    level = (math.log10(loss) - low) / (high - low)
    return round(_WIDE * epoch / epochs), round(_HIGH * (1 - min(max(level, 0), 1)))
