"""Figure 6: the real-world benchmarks, as a table of published numbers with ours where they are recorded."""

from matplotlib.figure import Figure

from pna.report import published, realworld
from pna.report.style import GREY, MODEL_COLOURS, WARN, WIDE

__all__ = ["figure6"]

_INK = {"PNA": MODEL_COLOURS["pna"], "PNA (no scalers)": "#9A6B00"}


def figure6(profile: str) -> tuple[Figure, dict]:
    """Rows are models, columns data sets; in bold the best published number, below it ours."""
    theirs, ours = published.realworld(), realworld.scores(profile)
    columns = published.table("realworld")["columns"]
    figure = Figure(figsize=(WIDE, 0.33 * len(theirs) + 1.0), layout="constrained")
    axis = figure.subplots()
    axis.set(xlim=(-1.6, len(columns) - 0.5), ylim=(len(theirs) - 0.4, -1.3))
    axis.set_axis_off()
    for x, column in enumerate(columns):
        axis.text(x, -0.85, realworld.COLUMNS[column].title, ha="center", va="center", weight="bold", fontsize=7)
    for y, (title, row) in enumerate(theirs.items()):
        axis.axhline(y - 0.5, color="0.88", lw=0.6)
        axis.text(-1.55, y, title, va="center", fontsize=7.5, color=_INK.get(title, "black"))
        for x, column in enumerate(columns):
            _cell(axis, x, y, row[column], ours.get((title, column)), _best(theirs, column))
    axis.text(-1.55, len(theirs) - 0.35, _words(ours), fontsize=6.5, va="top", color=GREY if ours else WARN)
    numbers = {f"{title}, {column}": vars(score) for (title, column), score in ours.items()}
    return figure, {"published": theirs, "ours": numbers or "not run"}


def _words(ours: dict[tuple[str, str], realworld.Score]) -> str:
    legend = "published mean ± deviation, the best in bold"
    if not ours:
        return f"{legend}; ours: NOT RUN (no real-world result is recorded)"
    budgets = sorted({score.budget for score in ours.values()})
    full = all(score.full for score in ours.values())
    warning = "" if full else "; NOT ALL OF IT IS THE PAPER'S BUDGET AND DATA"
    return f"{legend}; below in colour: ours ({', '.join(budgets)}){warning}"


def _cell(axis: object, x: int, y: int, theirs: tuple | None, ours: realworld.Score | None, best: float | None) -> None:
    if theirs is not None:
        mean, deviation = theirs
        weight = "bold" if mean == best else "normal"
        text = f"{mean:g} ± {deviation:g}"
        axis.text(x, y - (0.17 if ours else 0), text, ha="center", va="center", fontsize=6.5, weight=weight)
    elif ours is None:
        axis.text(x, y, "–", ha="center", va="center", color="0.7")
    if ours is not None:
        axis.text(x, y + 0.2, str(ours), ha="center", va="center", fontsize=6.5, color=WARN)


def _best(theirs: dict, column: str) -> float | None:
    values = [row[column][0] for row in theirs.values() if row[column] is not None]
    return (min if realworld.COLUMNS[column].lower_is_better else max)(values) if values else None
