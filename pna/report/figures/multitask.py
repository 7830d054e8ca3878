"""Figure 4: the multi-task benchmark. (a) the distribution over the five best runs, (b) each task."""

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna import published
from pna.multitask import TASKS
from pna.networks import MODELS
from pna.report.runs import Run, Runs
from pna.report.scores import SPLIT, best, log_mean, log_tasks
from pna.report.statistics import KEPT
from pna.report.style import COLUMN, GREY, MODEL_COLOURS, WIDE

__all__ = ["figure4a", "figure4b"]

_SHORT = {"sssp": "SSSP", "connected": "Conn.", "spectral_radius": "Spectral r.", "laplacian": "Lapl. feat."}


def figure4a(runs: Runs) -> tuple[Figure, dict]:
    """log10 of the mean MSE over tasks: a box and the five best runs of each model, beside the published box."""
    drawn = {name: _finite(log_mean(best(run, SPLIT))) for name, run in runs.of("multitask").items()}
    figure = Figure(figsize=(COLUMN, 2.9), layout="constrained")
    axis = figure.subplots()
    theirs = published.boxes()
    for place, (name, values) in enumerate(drawn.items()):
        _box(axis, place - 0.18, values, MODEL_COLOURS[name])
        axis.plot(np.full(len(values), place - 0.18), values, "o", ms=2.5, color="black", alpha=0.7, zorder=4)
        _published_box(axis, place + 0.22, theirs[name])
    axis.plot([], [], "s", ms=6, color="0.45", label=f"ours ({_shown(runs)})")
    axis.plot([], [], "s", ms=6, mfc="none", mec=GREY, label="published")
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    axis.set_xlim(-0.6, max(6.6, len(drawn) - 0.4))
    axis.set_xticks(range(len(drawn)), [MODELS[name].title for name in drawn], rotation=35, ha="right")
    axis.set_ylabel("$\\log_{10}$ of the mean MSE over tasks")
    axis.grid(axis="y")
    return figure, {"log10 of the mean MSE over tasks, five best runs": drawn, "published": theirs}


def figure4b(runs: Runs) -> tuple[Figure, dict]:
    """Mean log10 MSE of each task with its deviation over the five best runs, the published number below it."""
    found = runs.of("multitask")
    rows = {name: _row(run) for name, run in found.items()}
    with np.errstate(divide="ignore"):  # of a few graphs, a baseline may be right
        base = np.log10(next(iter(found.values())).baseline(SPLIT))
    rows["baseline"] = {task.name: (value, 0.0) for task, value in zip(TASKS, base, strict=True)}
    rows["baseline"]["average"] = (base.mean(), 0.0)
    columns = ["average", *(task.name for task in TASKS)]
    theirs = published.multitask()
    figure = Figure(figsize=(WIDE, 0.42 * len(rows) + 0.9), layout="constrained")
    axis = figure.subplots()
    image = _heat(axis, rows, columns, theirs)
    figure.colorbar(image, ax=axis, label="mean $\\log_{10}$ MSE", pad=0.01)
    axis.set_title(f"ours ± deviation over {_shown(runs)}; in italics the published number")
    numbers = {name: {c: row[c][0] for c in columns} for name, row in rows.items()}
    spread = {name: {c: row[c][1] for c in columns} for name, row in rows.items()}
    return figure, {"mean log10 MSE": numbers, "deviation over runs": spread, "published": theirs}


def _shown(runs: Runs) -> str:
    """The runs of a model that are shown."""
    return f"the {KEPT} best runs" if runs.profile.seeds > KEPT else f"{runs.profile.seeds} runs"


def _row(run: Run) -> dict[str, tuple[float, float]]:
    """Mean and deviation over the five best runs, of each task and of the average over tasks."""
    errors = np.log10(best(run, SPLIT))  # [5, 6]
    means, deviations = np.nanmean(errors, axis=0), np.nanstd(errors, axis=0)
    row = {task.name: pair for task, *pair in zip(TASKS, means, deviations, strict=True)}
    return row | {"average": (log_tasks(best(run, SPLIT)).mean(), np.nanstd(errors.mean(axis=1)))}


def _heat(axis: Axes, rows: dict, columns: list[str], theirs: dict) -> object:
    """The table as coloured cells with their numbers."""
    values = np.array([[row[c][0] for c in columns] for row in rows.values()])
    image = axis.imshow(values, aspect="auto", cmap="viridis", vmin=-3.8, vmax=-0.5)
    for y, (name, row) in enumerate(rows.items()):
        for x, column in enumerate(columns):
            value, deviation = row[column]
            red, green, blue, _ = colormaps["viridis"](image.norm(value))
            ink = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
            text = f"{value:.2f}" + (f" ± {deviation:.2f}" if name != "baseline" else "")
            axis.text(x, y - 0.17, text, ha="center", va="center", color=ink, fontsize=7.5)
            axis.text(x, y + 0.25, f"{theirs[name][column]:.2f}", ha="center", va="center", color=ink, style="italic")
    titles = {task.name: _SHORT.get(task.name, task.title) for task in TASKS} | {"average": "Average"}
    axis.set_xticks(range(len(columns)), [titles[c] for c in columns])
    axis.xaxis.tick_top()
    names = {name: MODELS[name].title if name in MODELS else "Baseline" for name in rows}
    axis.set_yticks(range(len(rows)), list(names.values()))
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    return image


def _box(axis: Axes, place: float, values: np.ndarray, colour: str) -> None:
    if len(values):
        style = {"color": colour, "linewidth": 1.1}
        artists = axis.boxplot(
            values,
            positions=[place],
            widths=0.32,
            manage_ticks=False,
            showfliers=False,
            whis=(0, 100),
            patch_artist=True,
            whiskerprops=style,
            capprops=style,
        )
        for patch in artists["boxes"]:
            patch.set(facecolor=colour, edgecolor="black", linewidth=0.6, alpha=0.85)
        for line in artists["medians"]:
            line.set(color="black")


def _published_box(axis: Axes, place: float, box: dict[str, float]) -> None:
    names = {"whislo": "best whisker", "q1": "Q1", "med": "median", "q3": "Q3", "whishi": "worst whisker"}
    style = {"color": GREY, "linewidth": 0.9}
    facts = {key: box[name] for key, name in names.items()}
    axis.bxp(
        [facts],
        positions=[place],
        widths=0.28,
        manage_ticks=False,
        showfliers=False,
        boxprops=style,
        medianprops=style,
        whiskerprops=style,
        capprops=style,
    )


def _finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]
