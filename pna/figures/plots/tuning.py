"""The searches of section 4: validation loss against learning rate, so that one common setting can be judged."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pna.experiments import PROFILES, Cell
from pna.experiments.tuning import Draw, ranked
from pna.figures.runs import recorded_run
from pna.figures.style import GREY, MODEL_COLOURS, SMALL, WIDTH
from pna.networks import MODELS
from pna.training.store import Result

__all__ = ["MODELS_SEARCHED", "search", "searches"]

MODELS_SEARCHED = ("pna", "pna-no-scalers", "mpnn-max", "mpnn-sum", "gat", "gcn", "gin")
BOTTOM, TOP = 3e-4, 0.5  # of the losses that are drawn; larger ones lie on the border
_ENDED = "search"  # left behind at a rung


def searches(spec: str) -> dict[str, Result]:
    """The recorded searches under a specification, by model."""
    runs = {model: recorded_run(Cell("tuning", spec, model, "16"), PROFILES["paper"]) for model in MODELS_SEARCHED}
    return {model: run.result for model, run in runs.items() if run}


def search(spec: str) -> tuple[Figure, dict]:
    """Validation loss against learning rate, 64 draws a model, the best of each and the common setting marked."""
    figure = Figure(figsize=(WIDTH, 3.9), layout="constrained")
    *axes, corner = figure.subplots(2, 4, sharex=True, sharey=True).flat
    results = searches(spec)
    numbers = {
        model: _panel(axis, model, results.get(model)) for axis, model in zip(axes, MODELS_SEARCHED, strict=True)
    }
    corner.axis("off")
    figure.supxlabel("learning rate", fontsize=SMALL)
    figure.supylabel("least validation loss", fontsize=SMALL)
    figure.legend(handles=_handles(), ncols=2, loc="outside upper center")
    return figure, {model: row for model, row in numbers.items() if row}


def _panel(axis: Axes, model: str, result: Result | None) -> dict:
    """Draw the draws of one model; return its best five."""
    axis.set_title(MODELS[model].title)
    axis.set(xscale="log", yscale="log", ylim=(BOTTOM, TOP))
    if result is None:
        axis.text(0.5, 0.5, "not recorded", ha="center", transform=axis.transAxes, color=GREY)
        return {}
    axis.axvline(PROFILES["paper"].learning_rate, color=GREY, lw=0.8, ls="--")
    draws = ranked(result)
    finite = [draw for draw in draws if draw.loss < float("inf")]
    for ended in (True, False):
        group = [draw for draw in finite if (draw.ended_by == _ENDED) is ended]
        colour = GREY if ended else MODEL_COLOURS[model]
        places = [draw.learning_rate for draw in group], [min(draw.loss, TOP) for draw in group]
        axis.scatter(*places, s=7, color=colour, alpha=0.55 if ended else 1.0, lw=0, zorder=2, clip_on=False)
    best = draws[0]
    axis.scatter([best.learning_rate], [best.loss], s=60, marker="*", color="black", zorder=3)
    return {"best": [_row(draw) for draw in draws[:5]], "diverged": sum(d.ended_by == "divergence" for d in draws)}


def _row(draw: Draw) -> dict:
    """A draw as JSON."""
    names = ("learning_rate", "weight_decay", "epochs", "loss")
    return {name: float(f"{getattr(draw, name):.4g}") for name in names}


def _handles() -> list[Line2D]:
    """Handles of the legend, one for each kind of mark."""
    dot = {"ls": "", "marker": "o", "ms": 3}
    return [
        Line2D([], [], color=MODEL_COLOURS["pna"], label="trained until it stopped", **dot),
        Line2D([], [], color=GREY, label="left behind at a rung", **dot),
        Line2D([], [], color="black", ls="", marker="*", ms=8, label="best of 64"),
        Line2D([], [], color=GREY, lw=0.8, ls="--", label="0.003, common to all models"),
    ]
