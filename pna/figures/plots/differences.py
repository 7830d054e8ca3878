"""Figure 6 as a picture: how much better our scores are than the published ones, a panel for each column."""

from collections import Counter
from collections.abc import Sequence
from math import isnan

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna.figures import published
from pna.figures.figure6 import Row, compared, power_of, rows_of
from pna.figures.plots.realworld import heading
from pna.figures.realworld import COLUMNS, figure6_runs, lower_is_better
from pna.figures.style import GREY, SMALL, WARN, WIDTH
from pna.verdicts.statistics import combined

__all__ = ["differences"]

_ROOM = 1.35  # a panel reaches this far beyond its last mark
_EDGE = 0.94  # of a panel's half-width: where an arrow stands, clear of dots and of the names beside the panel
_WIDEST = 3  # an interval that ends beyond so many times the median end is cut off


def differences(profile: str) -> tuple[Figure, dict]:
    """How much better ours is than published, with Welch's 95 % interval, a panel for each column: right is better."""
    titles, rows = list(published.realworld()), rows_of(figure6_runs(profile))
    figure = Figure(figsize=(WIDTH, 0.2 * len(titles) + 1.45), layout="constrained")
    panels = figure.subplots(1, len(COLUMNS), sharey=True)
    for axis, column in zip(panels, COLUMNS, strict=True):
        known = [row for row in rows if row.column == column and row.difference and row.difference.known]
        _panel(axis, column, known, titles)
    panels[0].set_yticks(range(len(titles)), titles, fontsize=SMALL)
    panels[0].set_ylim(len(titles) - 0.5, -0.5)
    figure.supxlabel(_words(rows), fontsize=SMALL, color=GREY)
    return figure, {f"{row.title}, {row.where}": _numbers(row) for row in rows if row.difference}


def _panel(axis: Axes, column: str, rows: Sequence[Row], titles: Sequence[str]) -> None:
    """Draw a dot and an interval for each model, with an arrow where the interval is cut off."""
    axis.set_title(heading(column), fontsize=SMALL)
    axis.axvline(0, color=GREY, lw=0.8)
    axis.grid(axis="y")
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    end = _reach(rows)
    for row in rows:
        _mark(axis, row, titles.index(row.title), end)
    tick = float(f"{0.7 * end:.1g}")
    axis.set_xticks([-tick, tick], [f"−{tick:g}", f"+{tick:g}"], fontsize=SMALL)
    axis.set_xlim(-end, end)


def _mark(axis: Axes, row: Row, y: int, end: float) -> None:
    """Draw a model's gain over the published score and its interval, with an arrow where that exceeds `end`."""
    colour = "black" if row.verdict == "no difference found" else WARN
    gain = combined([(-1 if lower_is_better(row.column) else 1, row.difference)])
    low, high = gain.interval
    edge = _EDGE * end
    axis.plot([max(low, -edge), min(high, edge)], [y, y], color=colour, lw=1.2)
    axis.plot(gain.value, y, "o", color=colour, ms=3.5)
    for beyond, x, marker in ((low < -edge, -edge, "<"), (high > edge, edge, ">")):
        if beyond:
            axis.plot(x, y, marker, color=colour, ms=3)


def _reach(rows: Sequence[Row]) -> float:
    """Half the width of a panel: it holds every difference, and all intervals but those far wider than most."""
    if not rows:
        return 1.0
    ends = sorted(max(map(abs, row.difference.interval)) for row in rows)
    widest = min(ends[-1], _WIDEST * ends[len(ends) // 2])
    return _ROOM * max(widest, *(abs(row.difference.value) for row in rows))


def _words(rows: Sequence[Row]) -> str:
    """Caption of the figure: its measure, how many differences are significant, with which power, what is missing."""
    number = compared(rows)
    if not number:
        return "NOT RUN: no real-world result with several seeds is recorded."
    other = sum(row.verdict in ("better", "worse") for row in rows)
    missing = Counter(row.verdict for row in rows if isnan(row.p))
    lines = [
        "How much better ours is than published, with its 95 % interval (Welch): right is better.",
        f"Of {number} differences {other or 'none'} {'are' if other > 1 else 'is'} significant after Holm's correction"
        f"{' (in colour)' if other else ''}.{_without(missing)}",
        _power(rows),
    ]
    unofficial = {row.where.split(",")[0] for row in rows if row.ours and not row.ours.official}
    lines += [f"{data}: the training set is not the official one." for data in sorted(unofficial)]
    return "\n".join(lines)


def _power(rows: Sequence[Row]) -> str:
    """A sentence on the power of Welch's test after Holm's correction, with the seeds that most differences have."""
    usual = power_of(rows)
    return (
        f"With {usual.ours} seeds against {usual.published} the power is {100 * usual.two:.0f} % for a true difference "
        f"of two standard deviations, {100 * usual.four:.0f} % for four."
    )


def _without(missing: Counter[str]) -> str:
    """A sentence on the cells that have no difference, by the reason; empty if there are none."""
    if missing.keys() == {"not published"}:
        count = missing["not published"]
        return " One cell has no published number." if count == 1 else f" {count} cells have no published number."
    return f" Cells without one: {', '.join(f'{n} {why}' for why, n in missing.items())}." if missing else ""


def _numbers(row: Row) -> dict:
    """Difference from the published score, its interval and corrected p-value, for the sidecar JSON."""
    return {"difference": row.difference.value, "interval": list(row.difference.interval), "p": row.p}
