"""Ours beside the published numbers, as the page's tables: the same differences, by the same rule, as in the claims."""

from collections.abc import Sequence
from math import isnan

from pna.figures import published, realworld
from pna.figures.figure6 import CAPTION, COSTS, Row, compared, complete, costs_text, rows_of
from pna.figures.runs import RecordedRun, Runs
from pna.figures.scores import SHOWN, SPLIT, WIDER, score, wider_split
from pna.figures.style import budget_text
from pna.multitask import TASKS
from pna.networks import MODELS
from pna.verdicts.rules import TOLERANCE, Comparison, number, rule
from report import depth
from report.comparisons import against_published, extrapolation_against_published
from report.markup import Raw, estimate, soft, table

__all__ = ["beside"]

_PICTURES_ONLY = ("moments", "graph-types", "standard", "single-task", "parameters")
_UNPUBLISHED = "The paper gives this figure as a picture only; its scores are not published as numbers."
_RANGE = (
    "The range is where the mean over the five best of ten more such runs falls, at 95 %. A published number with all "
    f"of it within ±{TOLERANCE} (a factor of two) is as ours; that it is another counts after Holm's correction over "
    "the table."
)


def beside(name: str, sides: Sequence[Runs], profile: str) -> str:
    """What stands below a figure; empty if there is nothing to compare with."""
    tables = {"figure4": _figure4, "figure5": _figure5, "figure6": _figure6, "parameters": _parameters}
    tables |= {"depth": lambda sides, profile: depth.section(profile)}
    shown = tables[name](sides, profile) if name in tables else ""
    return shown + (soft(_UNPUBLISHED) if name in _PICTURES_ONLY else "")


def _note(name: str) -> str:
    return soft(f"Published: {published.note(name).replace('+-', '±')}.")


def _words(rows: Sequence[Comparison]) -> list[str]:
    """As ours, another or too wide to tell, after Holm's correction over all of them."""
    words = {"holds": "as ours", "against": "another", "undecided": "too wide to tell"}
    return [words.get(row.outcome, row.outcome) for row in rule(rows).rows]


# ---- the multi-task benchmark ----


def _figure4(sides: Sequence[Runs], profile: str) -> str:
    released = [runs for runs in sides if runs.spec == "released"]
    parts = [soft(_RANGE), *map(_averages, sides), *map(_tasks, released)]
    return "".join([*parts, _note("multitask_per_task"), _note("multitask_boxplot")])


def _averages(runs: Runs) -> str:
    """Each model's average, published and ours, on the sizes that the published ones fit and on the cell's own."""
    found = runs.of("multitask")
    if not found:
        return soft(f"{runs.spec}: no run is recorded.")
    wide = any(WIDER in run.splits for run in found.values())
    words = _words([against_published(run) for run in found.values()])
    header = [
        "model",
        "published",
        "ours",
        "range of ten more",
        "published is",
        *(["ours, 15-19 nodes"] if wide else []),
    ]
    rows = []
    for (name, run), word in zip(found.items(), words, strict=True):
        ours = score(run, wider_split(run))
        theirs = number(published.multitask()[name]["average"]).lstrip("+")
        reach = " … ".join(number(end) for end in ours.next.interval) if ours.known else "too few seeds"
        own = [estimate(score(run, SPLIT))] if wide else []
        rows.append((MODELS[name].title, theirs, estimate(ours), reach, word, *own))
    sizes = "15-24 nodes" if wide or runs.spec != "released" else "15-19 nodes; the published ones fit 15-24"
    caption = f"Average log10 MSE, lower is better, {sizes}. {budget_text(runs)}"
    return table(header, rows, caption, {3: "number"})


def _tasks(runs: Runs) -> str:
    """Ours minus published, task by task."""
    found = runs.of("multitask")
    pairs = {name: [against_published(run, task) for task in range(len(TASKS))] for name, run in found.items()}
    words = iter(_words([one for row in pairs.values() for one in row]))
    rows = [(MODELS[name].title, *(_difference(one, next(words)) for one in row)) for name, row in pairs.items()]
    caption = f"Ours minus published, log10 MSE, with its 95 % range; below zero is better. {budget_text(runs)}"
    return table(("model", *(task.title for task in TASKS)), rows, caption) if rows else ""


def _difference(one: Comparison, word: str) -> Raw:
    return Raw(f"{estimate(one.found)}<br><small>{word}</small>")


def _figure5(sides: Sequence[Runs], profile: str) -> str:
    facts = published.table("extrapolation")
    rows = [
        (title, *("–" if value is None else _plain(value) for value in row)) for title, row in facts["rows"].items()
    ]
    theirs = table(("model", *facts["columns"]), rows, "Published: log10(MSE / MSE of the baseline) by nodes")
    released = [runs for runs in sides if runs.spec == "released"]
    return "".join([soft(_RANGE), *map(_sizes, released), theirs, _note("extrapolation")])


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else number(value).lstrip("+")


def _sizes(runs: Runs) -> str:
    found = runs.of("extrapolation")
    pairs = {
        name: [extrapolation_against_published(run, place) for place in range(SHOWN)] for name, run in found.items()
    }
    words = iter(_words([one for row in pairs.values() for one in row if one]))
    rows = [
        (MODELS[name].title, *("–" if one is None else _difference(one, next(words)) for one in row))
        for name, row in pairs.items()
    ]
    caption = f"Ours minus published, log10 ratio to the baseline, with its 95 % range, by nodes. {budget_text(runs)}"
    return table(("model", *published.table("extrapolation")["columns"]), rows, caption) if rows else ""


def _parameters(sides: Sequence[Runs], profile: str) -> str:
    small, large = published.parameters(16), published.parameters(20)
    rows = [(MODELS[model].title, f"{count:,}", f"{large[model]:,}") for model, count in small.items()]
    return table(("model", "16 features", "20 features"), rows, "Published parameters") + _note("parameters")


# ---- the real-world benchmarks ----


def _figure6(sides: Sequence[Runs], profile: str) -> str:
    """All of the figure as a table, then every cell that is trained here with its difference and verdict."""
    ours = realworld.figure6_runs(profile)
    header = ("model", *(f"{realworld.column_title(c)}, {realworld.metric_of(c)}" for c in realworld.COLUMNS))
    rows = [
        (title, *(_figure6_cell(title, name, ours) for name in realworld.COLUMNS)) for title in published.realworld()
    ]
    whole = table(
        header, rows, "Published mean ± deviation over seeds; below, ours", dict.fromkeys(range(1, 8), "number")
    )
    budget = soft(f"Ours: {'; '.join(realworld.budget_lines(ours)) or 'not run'}.")
    budget += soft(
        "DiffPool's prediction depends on the place that a graph has in its batch: in its benchmark each of the 128 "
        "places has assignment weights of its own, and batches that are not full are left out; so it is here."
    )
    return f"{whole}{budget}{_welch(ours)}{_note('realworld')}"


def _figure6_cell(title: str, name: str, ours: dict[realworld.Place, RecordedRun]) -> Raw:
    theirs, mine = realworld.published_score(title, name), ours.get((title, name))
    below = f"<br><b>{realworld.score_text(realworld.score(mine))}</b>" if mine else ""
    below = below or "<br><small>not yet</small>" * ((title, name) in realworld.CELLS)
    return Raw(f"{realworld.score_text(theirs)}{below}")


def _welch(ours: dict[realworld.Place, RecordedRun]) -> str:
    """Every cell: the published number, ours, their difference with its interval, and the verdict."""
    rows = rows_of(ours)
    header = ("data and model", "published", "ours", "difference", "seeds", "p", "ours is", "paper's budget")
    header = header if complete(rows) else (*header, *COSTS)
    shown = table(header, [_compared(row)[: len(header)] for row in rows], CAPTION.format(compared(rows)))
    return shown if complete(rows) else shown + soft(costs_text(rows))


def _compared(row: Row) -> tuple[object, ...]:
    place = (f"{row.where}, {row.title}", realworld.score_text(row.published))
    cost = (f"{row.cost.seconds:.3f}", f"{row.cost.hours:.2f}") if row.cost else ("", "")
    if row.ours is None:
        return (*place, "not run", "", "", "", "", "", *cost)
    change = "–" if row.difference is None else estimate(row.difference, realworld.digits_of(row.column))
    theirs = f" and {realworld.published_seeds(row.column)}" if row.published else ""
    seeds = f"{realworld.seeds_of(row.ours)}{theirs}"
    budget = ("yes" if row.ours.full else "no") + ("" if row.ours.official else ", training set redrawn")
    p = "–" if isnan(row.p) else f"{row.p:.3f}"
    return (*place, realworld.score_text(row.score), change, seeds, p, row.verdict, budget, *cost)
