"""Ours beside the published numbers, as the page's tables: differences with intervals, and a verdict for each model."""

import html
from collections.abc import Sequence

from pna import published
from pna.experiments.figure6 import epochs_text
from pna.experiments.realworld import summary
from pna.multitask import TASKS
from pna.networks import MODELS
from pna.report.claims import NOT_RUN
from pna.report.comparisons import TOLERANCE, against_published, extrapolation_against_published
from pna.report.figures.extrapolation import SHOWN
from pna.report.markup import badge, soft, table, two_lines
from pna.report.realworld import COLUMNS, Score, budgets, difference, scores
from pna.report.runs import Runs
from pna.report.scores import Interval
from pna.report.style import budget_text

__all__ = ["beside"]

_TITLE = "<h3>Ours and published</h3>"
_PICTURES_ONLY = ("moments", "graph-types", "standard", "single-task", "parameters")
_UNPUBLISHED = "The paper gives this figure as a picture only; its scores are not published as numbers."
_VERDICT = (
    f"Verdict: reproduced if every interval that it is about lies below {TOLERANCE}, a factor of two; not if every one "
    "lies above."
)


def beside(name: str, sides: Sequence[Runs], profile: str) -> str:
    """What stands below a figure; empty if there is nothing to compare with."""
    tables = {"figure4": _figure4, "figure5": _figure5, "parameters": _parameters}
    parts = [tables[name](sides)] if name in tables else [_figure6(profile)] if name == "figure6" else []
    return "".join([*parts, *([soft(_UNPUBLISHED)] if name in _PICTURES_ONLY else [])])


def _note(name: str) -> str:
    return soft(f"Published: {published.note(name)}.")


def _verdict(found: Sequence[Interval], full: bool) -> str:
    if not full:
        return NOT_RUN
    if all(one.high < TOLERANCE for one in found):
        return "reproduced"
    return "not" if all(one.low > TOLERANCE for one in found) else "partly"


# ---- the multi-task benchmark ----


def _figure4(sides: Sequence[Runs]) -> str:
    words = (
        "<p>The difference is (ours − our baseline) − (published − published baseline) in log<sub>10</sub> MSE, with a "
        "95 % bootstrap interval over seeds; below zero is better than published. Relative to the baseline on the same "
        f"graphs the units cancel. The published errors were measured on graphs of {published.PUBLISHED_SIZES} nodes, "
        f"the released code tests on 15-19 (D3); ours follow each specification. {_VERDICT}</p>"
    )
    notes = map(_note, ("multitask_per_task", "multitask_boxplot"))
    return "".join([_TITLE, words, *map(_figure4_table, sides), *notes])


def _figure4_table(runs: Runs) -> str:
    header = ("model", "average", *(task.title for task in TASKS), "verdict (average)")
    body = []
    for name, run in runs.of("multitask").items():
        found = [against_published(run, task) for task in (None, *range(len(TASKS)))]
        body.append((MODELS[name].title, *map(two_lines, found), badge(_verdict(found[:1], runs.full))))
    return _budgeted(runs, header, body)


def _budgeted(runs: Runs, header: Sequence[str], body: list[tuple]) -> str:
    """The table of one specification under its budget."""
    if not body:
        return f"<h4>{runs.spec}: no run is recorded</h4>"
    return f"<h4>{html.escape(budget_text(runs))}</h4>" + table(header, body, {len(header) - 1: "ruling"})


def _figure5(sides: Sequence[Runs]) -> str:
    facts = published.table("extrapolation")
    rows = [(title, *("–" if value is None else value for value in row)) for title, row in facts["rows"].items()]
    words = (
        "<p>The difference is ours − published in log<sub>10</sub> of the ratio to the baseline, with a 95 % bootstrap "
        "interval over seeds; below zero is better than published. There is none where the published line leaves the "
        f"plot. {_VERDICT}</p>"
    )
    theirs = f"<h4>published</h4>{table(('model', *facts['columns']), rows)}"
    return "".join([_TITLE, words, *map(_figure5_table, sides), theirs, _note("extrapolation")])


def _figure5_table(runs: Runs) -> str:
    header = ("model", *published.table("extrapolation")["columns"], "verdict")
    body = []
    for name, run in runs.of("extrapolation").items():
        found = [extrapolation_against_published(run, place) for place in range(SHOWN)]
        cells = ["–" if one is None else two_lines(one) for one in found]
        verdict = _verdict([one for one in found if one is not None], runs.full)
        body.append((MODELS[name].title, *cells, badge(verdict)))
    return _budgeted(runs, header, body)


def _parameters(sides: Sequence[Runs]) -> str:
    small, large = published.parameters(16), published.parameters(20)
    rows = [(MODELS[model].title, f"{count:,}", f"{large[model]:,}") for model, count in small.items()]
    counts = table(("model", "16 features", "20 features"), rows)
    return f"<h3>Published parameters</h3>{counts}{_note('parameters')}"


# ---- the real-world benchmarks ----


def _figure6(profile: str) -> str:
    """The cells that are trained here: published, ours, the difference, a verdict."""
    theirs, ours = published.realworld(), scores(profile)
    cells = [(title, name) for name, column in COLUMNS.items() for title in column.titles]
    rows = [_figure6_row(title, name, theirs[title][name], ours.get((title, name))) for title, name in cells]
    header = ("data", "model", "published", "ours", "difference", "weights best on validation", "epochs", "verdict")
    words = (
        "<p>Ours is tested after the last epoch, as the published numbers are (MolHIV: with the weights best on "
        "validation). The difference is ours − published, with a 95 % bootstrap interval over our seeds. Verdict: "
        "reproduced if the interval lies within two published deviations, or on the better side of them; not if it "
        "lies beyond.</p>"
    )
    budget = soft(f"Ours: {'; '.join(budgets(ours)) or 'not run'}.")
    return f"{_TITLE}{words}{table(header, rows, {0: 'place', 7: 'ruling'})}{budget}{_note('realworld')}"


def _figure6_row(title: str, name: str, theirs: tuple[float, float], ours: Score | None) -> tuple:
    column = COLUMNS[name]
    start = (f"{column.title}, {column.metric}", title, str(Score(*theirs)))
    if ours is None:
        return (*start, "not run", "–", "–", "–", badge(NOT_RUN))
    found = difference(name, ours, theirs[0])
    best = Score(*(column.scale * value for value in summary(ours.result)["best"]))
    worse = (found.low, found.high) if column.lower_is_better else (-found.high, -found.low)
    verdict = "reproduced" if worse[1] <= 2 * theirs[1] else "not" if worse[0] > 2 * theirs[1] else "partly"
    change = two_lines(found, 3 if column.lower_is_better else 2)
    return (*start, str(ours), change, str(best), epochs_text(ours.result), badge(verdict if ours.full else NOT_RUN))
