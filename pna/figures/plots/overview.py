"""The README's picture: the seven models of figure 4, our error beside the published one, in the README's measure."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna.figures import published
from pna.figures.plots.multitask import tested_on
from pna.figures.runs import Runs
from pna.figures.scores import score, wider_split
from pna.figures.style import GREY, MODEL_COLOURS, WIDTH
from pna.networks import MODELS
from pna.verdicts.rules import number
from pna.verdicts.statistics import Estimate

__all__ = ["overview"]


def overview(runs: Runs) -> tuple[Figure, dict]:
    """Mean log10 MSE over the six tasks: our mean and 95 % interval for each model, next to the published mean."""
    ours = {name: score(run, wider_split(run)) for name, run in runs.of("multitask").items()}
    theirs = {name: published.multitask()[name]["average"] for name in ours}
    figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
    axis = figure.subplots()
    for row, (name, mean) in enumerate(ours.items()):
        _row(axis, row, name, mean, theirs[name])
    axis.plot([], [], "o", ms=7, color=GREY, label="ours, with its 95 % interval")
    axis.plot([], [], "D", ms=6, mfc="white", mec="black", label="published")
    figure.legend(loc="outside upper center", ncols=2)
    axis.set_yticks(range(len(ours)), [MODELS[name].title for name in ours])
    axis.set(
        ylim=(len(ours) - 0.4, -0.6), xlabel=f"mean log₁₀ MSE over the six tasks, {tested_on(runs)} (left is better)"
    )
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x")
    return figure, {
        "mean log10 MSE over the six tasks": {name: mean.value for name, mean in ours.items()},
        "95 % interval": {name: mean.interval for name, mean in ours.items()},
        "published": theirs,
        "tested on": tested_on(runs),
    }


def _row(axis: Axes, row: int, name: str, ours: Estimate, theirs: float) -> None:
    """Draw one model: its interval, the two means, and both as numbers at the right edge."""
    colour, above, below = MODEL_COLOURS[name], row - 0.14, row + 0.18
    if ours.known:
        axis.plot(ours.interval, [above, above], color=colour, lw=2.5, solid_capstyle="round")
    axis.plot(ours.value, above, "o", ms=7, color=colour)
    axis.plot(theirs, below, "D", ms=5, mfc="white", mec="black", mew=0.9)
    edge = {"transform": axis.get_yaxis_transform(), "va": "center"}
    axis.text(1.02, row, number(ours.value) if np.isfinite(ours.value) else "–", color="black", **edge)
    axis.text(1.13, row, f"({number(theirs)})", color=GREY, **edge)
