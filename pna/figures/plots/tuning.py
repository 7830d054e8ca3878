"""The searches of section 4: validation loss against learning rate and against the rate of dropout.

The first show how fair one common learning rate is, the others what dropout adds to the best of them.
"""

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pna.experiments import PROFILES, Cell
from pna.experiments.dropout import gains, validation_losses
from pna.experiments.tuning import Draw, ranked
from pna.figures.runs import recorded_run
from pna.figures.style import GREY, MODEL_COLOURS, SMALL, WIDTH
from pna.networks import MODELS
from pna.training.store import Result, finite

__all__ = ["MODELS_SEARCHED", "dropout_searches", "rates_of_dropout", "search", "searches"]

MODELS_SEARCHED = ("pna", "pna-no-scalers", "mpnn-max", "mpnn-sum", "gat", "gcn", "gin")
BOTTOM, TOP = 3e-4, 0.5  # of the losses that are drawn; larger ones lie on the border
_ENDED = "search"  # left behind at a rung


def searches(spec: str) -> dict[str, Result]:
    """The recorded searches for the learning rate under a specification, by model."""
    return _recorded("tuning", spec)


def dropout_searches(spec: str) -> dict[str, Result]:
    """The recorded searches for the rate of dropout under a specification, by model."""
    return _recorded("dropout-tuning", spec)


def _recorded(training: str, spec: str) -> dict[str, Result]:
    """The recorded results of a search under a specification, by model."""
    runs = {model: recorded_run(Cell(training, spec, model, "16"), PROFILES["paper"]) for model in MODELS_SEARCHED}
    return {model: run.result for model, run in runs.items() if run}


def search(spec: str) -> tuple[Figure, dict]:
    """Validation loss against learning rate, 64 draws a model, the best of each and the common setting marked."""
    return _panels(searches(spec), _draws, "learning rate", _handles())


def rates_of_dropout(spec: str) -> tuple[Figure, dict]:
    """Validation loss against the rate of dropout, a dot for each seed, the best mean of each model marked."""
    line = Line2D([], [], color=MODEL_COLOURS["pna"], lw=1, marker="_", label="mean (of log₁₀) over five seeds")
    handles = [_handle("a seed", MODEL_COLOURS["pna"]), line, _star("rate with the best mean")]
    return _panels(dropout_searches(spec), _rates, "rate of dropout", handles)


def _panels(
    results: dict[str, Result], panel: Callable[[Axes, str, Result], dict], label: str, handles: list[Line2D]
) -> tuple[Figure, dict]:
    """A panel for each model, with the validation losses of its search; and the numbers of each."""
    figure = Figure(figsize=(WIDTH, 3.9), layout="constrained")
    *axes, corner = figure.subplots(2, 4, sharex=True, sharey=True).flat
    numbers = {}
    for axis, model in zip(axes, MODELS_SEARCHED, strict=True):
        axis.set_title(MODELS[model].title)
        axis.set(yscale="log", ylim=(BOTTOM, TOP))
        if model in results:
            numbers[model] = panel(axis, model, results[model])
        else:
            axis.text(0.5, 0.5, "not recorded", ha="center", transform=axis.transAxes, color=GREY)
    corner.axis("off")
    figure.supxlabel(label, fontsize=SMALL)
    figure.supylabel("least validation loss", fontsize=SMALL)
    figure.legend(handles=handles, ncols=2, loc="outside upper center")
    return figure, numbers


def _rates(axis: Axes, model: str, result: Result) -> dict:
    """Draw the seeds of one model at each rate of dropout; return their means, and the best rate."""
    colour, losses = MODEL_COLOURS[model], validation_losses(result)
    means = {rate: mean for rate, (mean, _) in gains(result).items()}
    for place, values in enumerate(losses.values()):
        shown = [min(value, TOP) for value in values]
        axis.scatter([place] * len(shown), shown, s=7, color=colour, alpha=0.55, lw=0, zorder=2, clip_on=False)
    axis.plot([10**mean for mean in means.values()], color=colour, lw=1, marker="_", zorder=2)
    best = min(means, key=means.__getitem__)
    axis.scatter([list(means).index(best)], [10 ** means[best]], s=60, marker="*", color="black", zorder=3)
    axis.set_xticks(range(len(means)), [f"{rate:g}" for rate in means], rotation=45)
    return {"mean log10": {f"{rate:g}": finite(round(mean, 4)) for rate, mean in means.items()}, "best": best}


def _draws(axis: Axes, model: str, result: Result) -> dict:
    """Draw the draws of one model; return its best five."""
    axis.set_xscale("log")
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
    """Handles of the legend of learning rates, one for each kind of mark."""
    return [
        _handle("trained to its end", MODEL_COLOURS["pna"]),
        _handle("dropped by the search (successive halving)", GREY),
        _star("best of 64"),
        Line2D([], [], color=GREY, lw=0.8, ls="--", label="0.003, common to all models"),
    ]


def _handle(label: str, colour: str) -> Line2D:
    """A dot in a legend."""
    return Line2D([], [], color=colour, ls="", marker="o", ms=3, label=label)


def _star(label: str) -> Line2D:
    """A star in a legend."""
    return Line2D([], [], color="black", ls="", marker="*", ms=8, label=label)
