"""Figure 5: the error relative to the baseline on ever larger graphs."""

import textwrap

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pna import published
from pna.networks import MODELS
from pna.report.runs import Run, Runs
from pna.report.scores import best
from pna.report.style import COLUMN, MARKERS, MODEL_COLOURS, WARN

__all__ = ["SHOWN", "figure5", "ratios", "splits_of"]

SHOWN = 6  # the paper shows sizes up to 50; the released code tests on three more
_TOP = 0.35


def splits_of(run: Run) -> list[str]:
    """The test sets of a training, by size."""
    return [split for split in run.result.replicas[0].test if split.startswith("extrapolation/")]


def ratios(run: Run, split: str, rows: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """log10 of the mean MSE over tasks divided by the baseline's, [..., 5]: one number for each kept seed."""
    return np.log10(best(run, split, rows).mean(axis=-1) / run.baseline(split).mean())


def figure5(runs: Runs) -> tuple[Figure, dict]:
    """A line for each model with its deviation over the five best runs; the published line is dashed."""
    figure = Figure(figsize=(COLUMN, 3.6), layout="constrained")
    axis = figure.subplots()
    ours, spread, labels = {}, {}, []
    for name, run in runs.of("extrapolation").items():
        splits = splits_of(run)[:SHOWN]
        labels = [split.split("test_")[1].replace("_", "-") for split in splits]
        values = np.array([ratios(run, split) for split in splits])  # [sizes, 5]
        ours[name], spread[name] = values.mean(axis=1), values.std(axis=1)
        style = {"color": MODEL_COLOURS[name], "marker": MARKERS[name], "ms": 4, "lw": 1.3}
        shown = np.where(ours[name] <= _TOP, ours[name], np.nan)
        axis.errorbar(np.arange(len(splits)), shown, spread[name], label=MODELS[name].title, **style)
    theirs = published.extrapolation()
    for name, line in theirs.items():
        axis.plot(line, "--", lw=0.9, color=MODEL_COLOURS[name], alpha=0.55)
    axis.plot([], [], "--", lw=0.9, color="0.4", label="published")
    axis.axhline(0, color="0.5", lw=0.8)
    axis.text(SHOWN - 1.5, 0.01, "baseline", fontsize=6, color="0.4", va="bottom", ha="center")
    low = np.nanmin([-2.0, *(value for row in ours.values() for value in row if np.isfinite(value))])
    axis.set_ylim(low - 0.15, _TOP)
    if gone := _off_the_plot(ours, labels):
        axis.set_title(textwrap.fill(f"off the plot: {gone}", 68), fontsize=6, color=WARN)
    axis.set_xticks(range(SHOWN), labels or published.table("extrapolation")["columns"])
    axis.set_xlabel("nodes of the test graphs")
    axis.set_ylabel("$\\log_{10}$(MSE / MSE of the baseline)")
    figure.legend(ncols=2, loc="outside upper center")
    axis.grid(axis="y")
    return figure, {
        "sizes": labels,
        "log10(MSE / baseline)": ours,
        "deviation over runs": spread,
        "published": theirs,
        "note": "MSE is the mean over the six tasks; the baseline predicts the training mean on the same graphs",
    }


def _off_the_plot(ours: dict[str, NDArray[np.float64]], labels: list[str]) -> str:
    """The models that are too far above the baseline to be shown, with their sizes and the largest ratio."""
    texts = []
    for name, row in ours.items():
        gone = np.flatnonzero(~(row <= _TOP))
        if len(gone):
            sizes = "all sizes" if len(gone) == len(row) else ", ".join(labels[place] for place in gone)
            most = row[gone].max()
            texts.append(f"{MODELS[name].title} at {sizes} (up to {f'{most:+.1f}' if np.isfinite(most) else '∞'})")
    return "; ".join(texts)
