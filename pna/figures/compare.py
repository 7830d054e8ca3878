"""Comparisons that a reader chooses in the figure notebooks: some models on one task and test set, or one data set."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna.experiments import Cell
from pna.figures import published, realworld
from pna.figures.runs import RECORDED, RecordedRun, Runs, runs_of, specs_of
from pna.figures.scores import SPLIT, score
from pna.figures.style import GREY, MARKERS, MODEL_COLOURS, SMALL, STYLE, WARN, WIDTH, budget_text
from pna.multitask import TASKS
from pna.networks import MODELS
from pna.verdicts.statistics import Estimate

__all__ = ["compare", "compare_realworld"]

_TASKS = {"average": None} | {task.name: place for place, task in enumerate(TASKS)}


def compare(
    experiment: str,
    models: Sequence[str] | None = None,
    task: str = "average",
    tested_on: str = SPLIT,
    spec: str = "both",
    profile: str = RECORDED,
) -> Figure:
    """Draw the log10 MSE of some models on one task and test set, with 95 % intervals, the best first.

    `models` are names of `python -m pna models`, by default all of the experiment; `task` is average or one of the six;
    `tested_on` is a test set of the recorded runs, as multitask/test, families/line or extrapolation/test_95_100. No
    file is written.
    """
    import matplotlib.pyplot as plt  # which tells a notebook how to show figures

    if task not in _TASKS:
        raise ValueError(f"task must be one of {', '.join(_TASKS)}; got {task!r}")
    sides = [runs_of(experiment, one, profile) for one in specs_of(spec)]
    with plt.rc_context(STYLE):
        rows = [_chosen(runs, models) for runs in sides]
        height = sum(0.7 + 0.22 * len(chosen) for chosen in rows)
        figure, axes = plt.subplots(len(sides), 1, figsize=(WIDTH, height), layout="constrained", squeeze=False)
        plt.close(figure)
        for axis, runs, chosen in zip(axes[:, 0], sides, rows, strict=True):
            _draw(axis, runs, chosen, task, tested_on)
    return figure


def _chosen(runs: Runs, models: Sequence[str] | None) -> dict[Cell, RecordedRun]:
    """Recorded runs of these models, or of all if `models` is None; raise a ValueError for an unknown model."""
    known = {cell.model for cell in [*runs.recorded, *runs.missing]}
    if unknown := set(models or ()) - known:
        raise ValueError(
            f"models must be among {', '.join(sorted(known))}; got {', '.join(map(repr, sorted(unknown)))}"
        )
    return {cell: run for cell, run in runs.recorded.items() if models is None or cell.model in models}


def _draw(axis: Axes, runs: Runs, chosen: dict[Cell, RecordedRun], task: str, tested_on: str) -> None:
    """Draw the rows of one specification, with each model's distance from the best."""
    scores = {cell: score(run, _split(run, tested_on), _TASKS[task]) for cell, run in chosen.items()}
    order = sorted(scores, key=lambda cell: scores[cell].value)
    for y, cell in enumerate(order):
        one = scores[cell]
        reach = one.interval[1] - one.value if one.known else None
        axis.errorbar(one.value, y, xerr=reach, fmt=MARKERS[cell.model], ms=5, color=MODEL_COLOURS[cell.model])
        gap = f"{one.value:.2f}" if not y else f"{one.value:.2f} ({one.value - scores[order[0]].value:+.2f})"
        axis.text(1.02, y, gap.replace("-", "−"), transform=axis.get_yaxis_transform(), va="center", color=GREY)
    axis.set_yticks(range(len(order)), [_title(cell) for cell in order])
    axis.set_ylim(max(len(order), 1) - 0.5, -0.5)
    what = "Average over the six tasks" if task == "average" else TASKS[_TASKS[task]].title
    axis.set_xlabel(f"{what}: log₁₀ MSE on {tested_on} (lower is better)")
    axis.grid(axis="x")
    missing = f"; {len(runs.missing)} cells of the figure are not recorded" if runs.missing else ""
    axis.set_title(budget_text(runs) + missing, color=GREY if runs.full else WARN, fontsize=SMALL)


def _split(run: RecordedRun, tested_on: str) -> str:
    """Return the test set's name, or raise a ValueError that lists those of the run if it is not among them."""
    if tested_on not in run.splits:
        raise ValueError(f"tested_on must be one of {', '.join(run.splits)}; got {tested_on!r}")
    return tested_on


def _title(cell: Cell) -> str:
    """Title of the model, and what distinguishes this cell from others of the same model."""
    more = [cell.training] if cell.training != "multitask" else []
    more += [f"{cell.hidden} features"] if cell.hidden != 16 else []
    return MODELS[cell.model].title + (f", {', '.join(more)}" if more else "")


# ---- figure 6 ----

_COLUMNS = {realworld.column_title(column): column for column in realworld.COLUMNS}


def compare_realworld(data: str, models: Sequence[str] | None = None, profile: str = RECORDED) -> Figure:
    """Draw published scores and ours in one column of figure 6, mean and deviation over seeds, the best first.

    `data` is the column, as "ZINC, edge features"; `models` are titles of its rows, by default all that have a number.
    No file is written.
    """
    import matplotlib.pyplot as plt

    if data not in _COLUMNS:
        raise ValueError(f"data must be one of {'; '.join(_COLUMNS)}; got {data!r}")
    column = _COLUMNS[data]
    rows = _rows(column, models, profile)
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(WIDTH, 1.0 + 0.3 * len(rows)), layout="constrained")
        plt.close(figure)
        _points(axis, [theirs for theirs, _ in rows.values()], -0.12, color=GREY, mfc="white", label="published")
        _points(axis, [ours for _, ours in rows.values()], 0.12, color=WARN, label="ours")
        axis.set_yticks(range(len(rows)), list(rows))
        axis.set_ylim(len(rows) - 0.5, -0.5)
        better = "lower" if realworld.lower_is_better(column) else "higher"
        axis.set_xlabel(f"{data}: {realworld.metric_of(column)}, {better} is better")
        axis.grid(axis="x")
        figure.legend(loc="outside upper right", ncols=2)
    return figure


def _rows(column: str, models: Sequence[str] | None, profile: str) -> dict[str, tuple[Estimate | None, ...]]:
    """Published score and ours by the model's title, the best first, by the published score where there is one."""
    runs, sign = realworld.figure6_runs(profile), 1 if realworld.lower_is_better(column) else -1
    ours = {title: realworld.score(run) for (title, name), run in runs.items() if name == column}
    pairs = {title: (realworld.published_score(title, column), ours.get(title)) for title in published.realworld()}
    known = {title: pair for title, pair in pairs.items() if any(pair)}
    if unknown := set(models or ()) - known.keys():
        raise ValueError(f"models must be among {', '.join(known)}; got {', '.join(map(repr, sorted(unknown)))}")
    chosen = sorted(models or known, key=lambda title: sign * next(filter(None, known[title])).value)
    return {title: known[title] for title in chosen}


def _points(axis: Axes, scores: Sequence[Estimate | None], shift: float, **style: str) -> None:
    """Draw the mean and deviation of each score in its own row, moved down by `shift`; None draws nothing."""
    points = [(y + shift, one.value, realworld.deviation(one)) for y, one in enumerate(scores) if one]
    if points:
        places, means, deviations = zip(*points, strict=True)
        axis.errorbar(means, places, xerr=deviations, fmt="o", ms=4, **style)
