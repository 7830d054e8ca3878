"""The picture of notebooks/collide_yourself.ipynb: two neighbourhoods of five, and what tells them apart.

Values are fractions, so that "the same" means exactly the same.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from matplotlib.figure import Figure

from pna.figures.style import GREY, MODEL_COLOURS

__all__ = ["COLLIDING", "EXACT", "drag", "picture", "same"]

COLLIDING = ((1, 2.1, 2.8, 4.1, 5), (1, 1.9, 3.2, 3.9, 5))  # one mean, std, max and min: PNA's own four fail
_STEP = 10  # a slider moves by 1/10
_X, _Y = MODEL_COLOURS["mpnn-max"], MODEL_COLOURS["pna"]

Multiset = Sequence[Fraction]


def _central(n: int) -> Callable[[Multiset], Fraction]:
    """Create the function that returns the n-th central moment of a multiset, without its root."""
    return lambda x: sum((y - sum(x) / len(x)) ** n for y in x) / len(x)


EXACT: dict[str, Callable[[Multiset], Fraction]] = {
    "mean": lambda x: sum(x) / len(x),
    "std": _central(2),  # σ² and E[(X - μ)³], rational, are equal where their roots are
    "max": max,
    "min": min,
    "sum": sum,
    "third moment": _central(3),
}


def same(X: Sequence[float], Y: Sequence[float]) -> dict[str, bool]:
    """Whether each aggregator gives both neighbourhoods the same value; numbers are rounded to a tenth."""
    x, y = _tenths(X), _tenths(Y)
    return {name: aggregator(x) == aggregator(y) for name, aggregator in EXACT.items()}


def picture(X: Sequence[float], Y: Sequence[float]) -> Figure:
    """Draw the two neighbourhoods on a line, and below them the value that each aggregator gives to both."""
    import matplotlib.pyplot as plt  # which tells a notebook how to show figures

    x, y, equal = _tenths(X), _tenths(Y), same(X, Y)
    figure = plt.figure(figsize=(7, 2.9), layout="constrained")
    plt.close(figure)
    line, table = figure.subplots(2, 1, height_ratios=[1, 1.5])
    for row, (values, colour, name) in enumerate(((x, _X, "X"), (y, _Y, "Y"))):
        line.plot([float(v) for v in values], [1 - row] * len(values), "o", ms=9, color=colour)
        line.text(-0.03, 0.75 - 0.5 * row, name, transform=line.transAxes, ha="right", va="center", color=colour)
    line.set(ylim=(-0.5, 1.5), yticks=[], title=_verdict(sorted(x) == sorted(y), equal))
    line.spines[["left", "top", "right"]].set_visible(False)
    table.axis("off")
    for place, name in enumerate(EXACT):
        at = (place + 0.5) / len(EXACT)
        colour = MODEL_COLOURS["gat"] if not equal[name] else GREY
        table.text(at, 0.9, name, ha="center", weight="bold")
        table.text(at, 0.62, f"{_shown(name, x):.4g}", ha="center", color=_X)
        table.text(at, 0.36, f"{_shown(name, y):.4g}", ha="center", color=_Y)
        table.text(at, 0.05, "the same" if equal[name] else "differs", ha="center", color=colour)
    return figure


def drag(X: Sequence[float], Y: Sequence[float]) -> object:
    """Create five sliders for Y and a button that resets them, with the picture below."""
    import ipywidgets as widgets
    from IPython.display import display

    sliders = {
        f"y{k}": widgets.FloatSlider(v, min=0, max=6, step=1 / _STEP, description=f"neighbour {k}")
        for k, v in enumerate(Y, 1)
    }
    back = widgets.Button(description="back to the collision")
    back.on_click(lambda _: [setattr(slider, "value", v) for slider, v in zip(sliders.values(), Y, strict=True)])
    seen = widgets.interactive_output(lambda **y: display(picture(X, tuple(y.values()))), sliders)
    return widgets.VBox([*sliders.values(), back, seen])


def _tenths(values: Sequence[float]) -> list[Fraction]:
    """Round numbers to tenths, as exact fractions."""
    return [Fraction(round(_STEP * v), _STEP) for v in values]


def _shown(name: str, x: Multiset) -> float:
    """Value of an aggregator as the paper defines it, with the root that EXACT leaves out."""
    value = float(EXACT[name](x))
    root = {"std": 2, "third moment": 3}.get(name, 1)
    return abs(value) ** (1 / root) * (1 if value >= 0 else -1)


def _verdict(one: bool, equal: dict[str, bool]) -> str:
    """Say in words which aggregators tell X and Y apart.

    `one` says whether X and Y are the same multiset, `equal` which aggregators give both the same value.
    """
    fails = [name for name, alike in equal.items() if alike]
    if one:
        return "X and Y are one multiset: nothing can tell them apart"
    notice = f"{len(equal) - len(fails)} of {len(equal)} aggregators notice"
    if fails:
        return f"{notice}; X and Y collide under {', '.join(fails)}"
    return f"{notice}: every aggregator tells them apart"
