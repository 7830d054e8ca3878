"""Beyond the paper: the error of four kinds of scalers by the degree of the node, far beyond those of training."""

import numpy as np
from matplotlib.figure import Figure

from pna.experiments.hubs import CAP
from pna.figures.hubs import baseline, by_degree, recorded
from pna.figures.style import GREY, SMALL, WIDTH
from pna.multitask.hubs import BINS

__all__ = ["errors"]

_LOOKS = {  # colour, marker and name of each kind of scalers
    "none": ("#E69F00", "s", "none"),
    "linear": ("#D55E00", "^", "linear"),
    "logarithmic": ("#0072B2", "o", "logarithmic (the paper's)"),
    "learned": ("#009E73", "D", "logarithmic, learned exponents"),
}


def errors() -> tuple[Figure, dict]:
    """The error on the node tasks by degree: a line for each kind of scalers, and the baseline's."""
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    axis, numbers, names = figure.subplots(), {}, recorded()
    places = np.arange(len(BINS))
    for shift, name in enumerate(names):
        scores = [contrast.estimate for contrast in by_degree(name)]
        colour, marker, label = _LOOKS[name]
        reach = [one.interval[1] - one.value if one.known else 0.0 for one in scores]
        x = places + 0.08 * (shift - (len(names) - 1) / 2)
        axis.errorbar(x, [one.value for one in scores], reach, color=colour, marker=marker, ms=4, lw=1, label=label)
        numbers[name] = {
            f"{low}-{high}": {"value": one.value, "interval": list(one.interval)}
            for (low, high), one in zip(BINS, scores, strict=True)
        }
    if names:
        mean = baseline(names[0])
        axis.plot(places, mean, "--", color=GREY, lw=1, label="predicting the training mean")
        axis.plot(places, mean + np.log10(CAP), ":", color=GREY, lw=1, label=f"{CAP:g} times that: the largest counted")
        figure.legend(ncols=2, fontsize=SMALL, loc="outside upper center")
    else:
        axis.text(0.5, 0.5, "not recorded yet", ha="center", transform=axis.transAxes, color=GREY)
    axis.set_xticks(places, [f"{low}–{high}" for low, high in BINS])
    axis.set_xlabel("degree of the node (training: at most 23)")
    axis.set_ylabel("log₁₀ MSE, mean of three node tasks")
    return figure, numbers
