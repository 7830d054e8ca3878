"""The tables below each figure: our numbers beside the published ones, compared by the rule of the claims."""

from collections.abc import Sequence
from math import isnan

from markupsafe import Markup

from pna.figures import published, realworld
from pna.figures.figure6 import CAPTION, COSTS, PATIENCE, Row, compared, complete, costs_text, rows_of
from pna.figures.runs import RecordedRun, Runs
from pna.figures.scores import SHOWN, SPLIT, WIDER, score, wider_split
from pna.figures.style import budget_text
from pna.multitask import TASKS
from pna.networks import MODELS
from pna.verdicts.rules import Comparison, number, rule
from report import depth, tuned
from report.comparisons import TOLERANCE, against_published, extrapolation_against_published
from report.markup import blocks, estimate, render, table
from report.realworld_claims import agreement

__all__ = ["tables_of"]

_PICTURES_ONLY = ("moments", "graph-types", "standard", "single-task", "parameters")
_UNPUBLISHED = "The paper gives this figure as a picture only; its scores are not published as numbers."
_RANGE = (
    "The range is the 95 % prediction interval for the mean over the five best of ten new runs. A published number is "
    f"the same as ours if the whole range is within ±{TOLERANCE} of it (a factor of two), and different if the "
    "difference is significant after Holm's correction over the table."
)


def tables_of(name: str, sides: Sequence[Runs], profile: str) -> Markup:
    """The tables and notes below a figure; empty if there is nothing to compare with."""
    tables = {
        "figure4": lambda: _figure4(sides),
        "figure5": lambda: _figure5(sides),
        "figure6": lambda: _figure6(profile),
        "parameters": _parameters,
        "depth": lambda: [depth.section(profile)],
        "tuning": lambda: [tuned.section(profile)],
    }
    parts = tables[name]() if name in tables else []
    return blocks(*parts, _UNPUBLISHED if name in _PICTURES_ONLY else "")


def _note(name: str) -> str:
    """The note on a published table, as a sentence."""
    return f"Published: {published.note(name).replace('+-', '±')}."


def _words(rows: Sequence[Comparison]) -> list[str]:
    """The verdict on each published number after Holm's correction over all: same, different, or too wide to tell."""
    words = {"holds": "same", "against": "different", "undecided": "too wide to tell"}
    return [words.get(row.outcome, row.outcome) for row in rule(rows).rows]


# ---- the multi-task benchmark ----


def _figure4(sides: Sequence[Runs]) -> list[Markup | str]:
    """The tables below figure 4: averages under both specifications and, as released, task by task."""
    tasks = [_tasks(runs) for runs in sides if runs.spec == "released"]
    return [_RANGE, *map(_averages, sides), *tasks, _note("multitask_per_task"), _note("multitask_boxplot")]


def _averages(runs: Runs) -> Markup | str:
    """Each model's average, published and ours, on the sizes of the published ones and on the cell's own."""
    models = runs.of("multitask")
    if not models:
        return f"{runs.spec}: no run is recorded."
    wide = any(WIDER in run.splits for run in models.values())
    words = _words([against_published(run) for run in models.values()])
    rows = []
    for (name, run), word in zip(models.items(), words, strict=True):
        ours = score(run, wider_split(run))
        theirs = number(published.multitask()[name]["average"]).lstrip("+")
        reach = " … ".join(number(end) for end in ours.next.interval) if ours.known else "too few seeds"
        rows.append((run.title, theirs, estimate(ours), reach, word, estimate(score(run, SPLIT))))
    header = ("model", "published", "ours", "range for ten new runs", "compared with ours", "ours, 15-19 nodes")
    columns = len(header) if wide else -1
    sizes = "15-24 nodes" if wide or runs.spec != "released" else "15-19 nodes; the published ones are of 15-24"
    caption = f"Mean log10 MSE over the six tasks, lower is better, {sizes}. {budget_text(runs)}"
    return table(header[:columns], (row[:columns] for row in rows), caption, {3: "number"})


def _tasks(runs: Runs) -> Markup | str:
    """Ours minus published, task by task."""
    pairs = {
        run.title: [against_published(run, task) for task in range(len(TASKS))] for run in runs.of("multitask").values()
    }
    caption = f"Ours minus published, log10 MSE, with its 95 % range; below zero, ours is better. {budget_text(runs)}"
    return _differences([task.title for task in TASKS], pairs, caption)


def _differences(columns: Sequence[str], pairs: dict[str, list[Comparison | None]], caption: str) -> Markup | str:
    """A table with a row of comparisons for each model, each with its verdict on the published number."""
    words = iter(_words([one for row in pairs.values() for one in row if one]))
    rows = [
        (title, *("–" if one is None else estimate(one.estimate, 2, next(words)) for one in row))
        for title, row in pairs.items()
    ]
    return table(("model", *columns), rows, caption) if rows else ""


def _figure5(sides: Sequence[Runs]) -> list[Markup | str]:
    """The tables below figure 5: ours minus published by size, as released, and the published ratios."""
    facts = published.table("extrapolation")
    rows = [(title, *map(_published_ratio, row)) for title, row in facts["rows"].items()]
    theirs = table(("model", *facts["columns"]), rows, "Published: log10(MSE / MSE of the baseline) by number of nodes")
    released = [_sizes(runs) for runs in sides if runs.spec == "released"]
    return [_RANGE, *released, theirs, _note("extrapolation")]


def _published_ratio(value: float | str | None) -> str:
    """A published ratio as text; a dash where there is none."""
    return "–" if value is None else value if isinstance(value, str) else number(value).lstrip("+")


def _sizes(runs: Runs) -> Markup | str:
    """Ours minus published, size by size."""
    pairs = {
        run.title: [extrapolation_against_published(run, place) for place in range(SHOWN)]
        for run in runs.of("extrapolation").values()
    }
    measure = "log10 of MSE relative to the baseline's"
    caption = f"Ours minus published, {measure}, with its 95 % range, by number of nodes. {budget_text(runs)}"
    return _differences(published.table("extrapolation")["columns"], pairs, caption)


def _parameters() -> list[Markup | str]:
    """The published numbers of parameters with 16 and with 20 features, and the note on them."""
    small, large = published.parameters(16), published.parameters(20)
    rows = [(MODELS[model].title, f"{count:,}", f"{large[model]:,}") for model, count in small.items()]
    return [table(("model", "16 features", "20 features"), rows, "Published parameters"), _note("parameters")]


# ---- the real-world benchmarks ----

_DIFFPOOL = (
    "DiffPool's prediction for a graph depends on the graph's place in its batch: in its benchmark, and so here, each "
    "of the 128 places has its own assignment weights, and batches that are not full are left out."
)


def _figure6(profile: str) -> list[Markup | str]:
    """All of the figure as a table, then every cell that is trained here with its difference and verdict."""
    ours = realworld.figure6_runs(profile)
    header = ("model", *(f"{realworld.column_title(c)}, {realworld.metric_of(c)}" for c in realworld.COLUMNS))
    rows = [(title, *(_figure6_cell((title, c), ours) for c in realworld.COLUMNS)) for title in published.realworld()]
    caption = "Published mean ± standard deviation over seeds; below it, ours"
    whole = table(header, rows, caption, dict.fromkeys(range(1, len(header)), "number"))
    budget = f"Ours: {'; '.join(realworld.budget_lines(ours)) or 'not run'}."
    together = agreement(ours)
    return [whole, budget, _DIFFPOOL, *_welch(ours), str(together) if together else "", PATIENCE, _note("realworld")]


def _figure6_cell(place: realworld.Place, ours: dict[realworld.Place, RecordedRun]) -> Markup:
    """The published score, and below it ours, if the cell is trained here."""
    mine = realworld.score_text(realworld.score(ours[place])) if place in ours else ""
    theirs = realworld.published_text(*place)
    return render("score", published=theirs, ours=mine, trained=place in realworld.CELLS)


def _welch(ours: dict[realworld.Place, RecordedRun]) -> list[Markup | str]:
    """Every cell: the published number, ours, their difference with its interval, and the verdict."""
    rows = rows_of(ours)
    header = ("data and model", "published", "ours", "difference", "seeds", "p", "ours is", "paper's budget")
    header = header if complete(rows) else (*header, *COSTS)
    shown = table(header, [_compared(row)[: len(header)] for row in rows], CAPTION.format(compared(rows)))
    return [shown, "" if complete(rows) else costs_text(rows)]


def _compared(row: Row) -> tuple[object, ...]:
    """A row of figure 6 as table cells: model, both scores, difference, seeds, p, verdict, budget and cost."""
    place = (f"{row.where}, {row.title}", realworld.published_text(row.title, row.column))
    cost = (f"{row.cost.seconds:.3f}", f"{row.cost.hours:.2f}") if row.cost else ("", "")
    if row.ours is None:
        return (*place, "not run", "", "", "", "", "", *cost)
    change = "–" if row.difference is None else estimate(row.difference, realworld.digits_of(row.column))
    theirs = f" and {realworld.published_seeds(row.column)}" if row.published else ""
    seeds = f"{realworld.seeds_of(row.ours)}{theirs}"
    budget = ("yes" if row.ours.full else "no") + ("" if row.ours.official else ", training set not official")
    p = "–" if isnan(row.p) else f"{row.p:.3f}"
    return (*place, realworld.score_text(row.score), change, seeds, p, row.verdict, budget, *cost)
