"""Figure 4: the multi-task benchmark. (a) the distribution over the five best of every ten runs, (b) each task."""

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from pna.figures import published
from pna.figures.runs import RecordedRun, Runs
from pna.figures.scores import KEPT, SPLIT, TRAINED, best, log_mean, task_means, wider_split
from pna.figures.style import GREY, MODEL_COLOURS, WIDTH, ink_on
from pna.multitask import TASKS
from pna.networks import MODELS
from pna.verdicts.statistics import FEWEST

__all__ = ["figure4a", "figure4b", "tested_on"]

_SHORT = {
    "sssp": "SSSP",
    "connected": "Conn.",
    "diameter": "Diam.",
    "spectral_radius": "Spec. rad.",
    "laplacian": "Laplacian",
    "eccentricity": "Eccentr.",
}


def tested_on(runs: Runs) -> str:
    """The sizes of the test graphs, in words."""
    fits = runs.spec != "released" or all(wider_split(run) != SPLIT for run in runs.recorded.values())
    return "test graphs of 15-24 nodes" if fits else "test graphs of 15-19 nodes (published: 15-24)"


def figure4a(runs: Runs) -> tuple[Figure, dict]:
    """log10 of the mean MSE over tasks: each model's box and five best of every ten runs, next to the published box."""
    models = runs.of("multitask")
    drawn = {name: _finite(log_mean(best(run, wider_split(run)))) for name, run in models.items()}
    first = next(iter(models.values()))
    base = float(np.log10(first.baseline(wider_split(first)).mean()))
    figure = Figure(figsize=(WIDTH, 3.1), layout="constrained")
    axis = figure.subplots()
    theirs = published.boxes()
    for place, (name, values) in enumerate(drawn.items()):
        if len(values) >= FEWEST:
            _box(axis, place - 0.2, values, MODEL_COLOURS[name])
        axis.plot(np.full(len(values), place - 0.2), values, "o", ms=2.5, color="black", alpha=0.7, zorder=4)
        _published_box(axis, place + 0.2, theirs[name])
    axis.axhline(base, color=GREY, lw=0.9, ls="--")
    axis.text(-0.5, base - 0.03, "baseline", color=GREY, va="top")
    axis.plot([], [], "s", ms=6, color="#737373", label=f"ours ({_shown(runs)})")
    axis.plot([], [], "s", ms=6, mfc="none", mec=GREY, label="published")
    note = "Which published MPNN box is max and which is sum is inferred: the authors' plots swap the two."
    if any(len(values) < FEWEST for values in drawn.values()):
        note = f"Too few seeds for boxes: points alone. {note}"
    axis.set_title(note, fontsize=7, color=GREY)
    figure.legend(loc="outside upper center", ncols=2)
    axis.set_xlim(-0.6, max(6.6, len(drawn) - 0.4))
    axis.set_xticks(range(len(drawn)), [MODELS[name].title for name in drawn], rotation=20, ha="right")
    axis.set_ylabel("log₁₀ of the mean MSE over tasks\n(lower is better)")
    axis.set_xlabel(tested_on(runs))
    axis.grid(axis="y")
    return figure, {
        "log10 of the mean MSE over tasks, five best of every ten runs": drawn,
        "baseline": base,
        "published": theirs,
        "tested on": tested_on(runs),
    }


def figure4b(runs: Runs) -> tuple[Figure, dict]:
    """Mean log10 MSE of each task over the five best of every ten runs, the published number below it."""
    models = runs.of("multitask")
    rows = {name: _row(run) for name, run in models.items()}
    first = next(iter(models.values()))
    with np.errstate(divide="ignore"):  # of a few graphs, a baseline may be right
        base = np.log10(first.baseline(wider_split(first)))
    rows["baseline"] = {task.name: (value, 0.0) for task, value in zip(TASKS, base, strict=True)}
    rows["baseline"]["average"] = (base.mean(), 0.0)
    columns = ["average", *(task.name for task in TASKS)]
    theirs = published.multitask()
    figure = Figure(figsize=(WIDTH, 0.4 * len(rows) + 1.0), layout="constrained")
    axis = figure.subplots()
    colours = ScalarMappable(Normalize(-3.8, -0.5), colormaps["viridis"])
    _heat(axis, rows, columns, theirs, colours)
    figure.colorbar(colours, ax=axis, label="mean log₁₀ MSE: the darker, the better", pad=0.01, aspect=30)
    axis.set_xlabel(
        f"upper number: ours, mean of {_shown(runs)},\n{tested_on(runs)}; in italics: published", fontsize=7
    )
    numbers = {name: {c: row[c][0] for c in columns} for name, row in rows.items()}
    spread = {name: {c: row[c][1] for c in columns} for name, row in rows.items()}
    return figure, {
        "mean log10 MSE": numbers,
        "deviation over runs": spread,
        "published": theirs,
        "tested on": tested_on(runs),
    }


def _shown(runs: Runs) -> str:
    """Describe which runs of each model are shown."""
    fewest = min(len(run.validation) for run in runs.recorded.values())
    if fewest > TRAINED:
        return f"the {KEPT} best of every {TRAINED} runs"
    return f"the {KEPT} best runs" if fewest > KEPT else f"{fewest} runs"


def _row(run: RecordedRun) -> dict[str, tuple[float, float]]:
    """Mean and deviation over the five best of every ten runs, of each task and of the average over tasks."""
    errors = np.log10(best(run, wider_split(run)))  # [5 k, 6]
    means, deviations = task_means(run, wider_split(run)), np.nanstd(errors, axis=0)
    row = {task.name: pair for task, *pair in zip(TASKS, means, deviations, strict=True)}
    return row | {"average": (means.mean(), np.nanstd(errors.mean(axis=1)))}


def _heat(axis: Axes, rows: dict, columns: list[str], theirs: dict, colours: ScalarMappable) -> None:
    """Draw the table as coloured cells, our number above the published one in each."""
    for y, (name, row) in enumerate(rows.items()):
        for x, column in enumerate(columns):
            value = row[column][0]
            red, green, blue, _ = colours.to_rgba(value)
            axis.add_patch(_cell(x, y, (red, green, blue)))
            style = {"ha": "center", "va": "center", "color": ink_on((red, green, blue)), "fontsize": 8}
            axis.text(x, y - 0.2, _two_digits(value), **style)
            axis.text(x, y + 0.24, _two_digits(theirs[name][column]), style="italic", **style)
    titles = {task.name: _SHORT.get(task.name, task.title) for task in TASKS} | {"average": "Average"}
    axis.set_xticks(range(len(columns)), [titles[c] for c in columns])
    axis.xaxis.tick_top()
    names = [MODELS[name].title if name in MODELS else "Baseline" for name in rows]
    axis.set_yticks(range(len(rows)), names)
    axis.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def _cell(x: float, y: float, colour: tuple[float, float, float]) -> object:
    """Coloured square of side 1 around (x, y), the background of one number in the table."""
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="none")


def _two_digits(value: float) -> str:
    """A number with two decimals and a typographic minus sign."""
    return f"{value:.2f}".replace("-", "−")


def _box(axis: Axes, place: float, values: np.ndarray, colour: str) -> None:
    """Draw the box of a model's runs at `place`, with whiskers from their minimum to their maximum."""
    style = {"color": colour, "linewidth": 1.1}
    artists = axis.boxplot(
        values,
        positions=[place],
        widths=0.34,
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
    """Draw a published box at `place` as a grey outline, from its quartiles, median and whiskers."""
    names = {"whislo": "best whisker", "q1": "Q1", "med": "median", "q3": "Q3", "whishi": "worst whisker"}
    style = {"color": GREY, "linewidth": 0.9}
    facts = {key: box[name] for key, name in names.items()}
    axis.bxp(
        [facts],
        positions=[place],
        widths=0.3,
        manage_ticks=False,
        showfliers=False,
        boxprops=style,
        medianprops=style,
        whiskerprops=style,
        capprops=style,
    )


def _finite(values: np.ndarray) -> np.ndarray:
    """Drop the values that are not finite, such as those of runs that diverged."""
    return values[np.isfinite(values)]
