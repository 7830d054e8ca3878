"""Figure 5: the error relative to the baseline on ever larger graphs."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from pna.networks import MODELS
from pna.report import published
from pna.report.runs import Run, Runs
from pna.report.scores import best
from pna.report.style import COLUMN, MARKERS, MODEL_COLOURS

__all__ = ["SHOWN", "figure5", "ratios", "splits_of"]

SHOWN = 6  # the paper shows sizes up to 50; the released code tests on three more
_TOP = 0.35


def splits_of(run: Run) -> list[str]:
    """The test sets of a training, by size."""
    return [split for split in run.facts["replicas"][0]["test"] if split.startswith("extrapolation/")]


def ratios(run: Run, split: str, rows: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """log10 of the mean MSE over tasks divided by the baseline's, [..., 5]: one number for each kept seed."""
    return np.log10(best(run, split, rows).mean(axis=-1) / run.baseline(split).mean())


def figure5(runs: Runs) -> tuple[Figure, dict]:
    """A line for each model with its deviation over the five best runs; the published line is dashed."""
    figure = Figure(figsize=(COLUMN, 3.3), layout="constrained")
    axis = figure.subplots()
    ours, spread, labels = {}, {}, []
    for name, run in runs.of("extrapolation").items():
        splits = splits_of(run)[:SHOWN]
        labels = [split.split("test_")[1].replace("_", "-") for split in splits]
        values = np.array([ratios(run, split) for split in splits])  # [sizes, 5]
        ours[name], spread[name] = values.mean(axis=1), values.std(axis=1)
        style = {"color": MODEL_COLOURS[name], "marker": MARKERS[name], "ms": 4, "lw": 1.3}
        axis.errorbar(np.arange(len(splits)), ours[name], spread[name], label=MODELS[name].title, **style)
    theirs = published.extrapolation()
    for name, line in theirs.items():
        axis.plot(line, "--", lw=0.9, color=MODEL_COLOURS[name], alpha=0.55)
    axis.plot([], [], "--", lw=0.9, color="0.4", label="published")
    axis.axhline(0, color="0.5", lw=0.8)
    axis.text(0, 0.02, "baseline", fontsize=6, color="0.4", va="bottom")
    low = np.nanmin([-2.0, *(value for row in ours.values() for value in row if np.isfinite(value))])
    axis.set_ylim(low - 0.15, _TOP)
    _mark_exploded(axis, ours)
    axis.set_xticks(range(SHOWN), labels or published.table("extrapolation")["columns"])
    axis.set_xlabel("nodes of the test graphs")
    axis.set_ylabel("$\\log_{10}$(MSE / MSE of the baseline)")
    axis.legend(ncols=2, loc="upper left", bbox_to_anchor=(0, 1.32))
    axis.grid(axis="y")
    return figure, {
        "sizes": labels,
        "log10(MSE / baseline)": ours,
        "deviation over runs": spread,
        "published": theirs,
        "note": "MSE is the mean over the six tasks; the baseline predicts the training mean on the same graphs",
    }


def _mark_exploded(axis: object, ours: dict[str, NDArray[np.float64]]) -> None:
    """An arrow at the first size where a model's line leaves the plot."""
    for order, (name, row) in enumerate(ours.items()):
        gone = np.flatnonzero(~(row <= _TOP))
        if len(gone):
            value = f"{row[gone[0]]:+.1f}" if np.isfinite(row[gone[0]]) else "∞"
            axis.annotate(
                f"↑ {value}",
                (gone[0] - 0.25 + 0.08 * order, _TOP - 0.03),
                fontsize=6,
                color=MODEL_COLOURS[name],
                va="top",
                ha="center",
            )
