"""Figure 1 of the paper and the figures of the report, each as PNG and PDF in `figures/`."""

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from verification import counterexamples, families, scalers
from verification.piecewise_linear import Network, aggregates, pieces
from verification.proposition_1 import float_error
from verification.theorem_1 import PROUHET_TARRY_ESCOTT, collide

__all__ = ["FIGURES", "drag_piece", "draw_all", "piece_picture"]

FIGURES = Path(__file__).parent.parent / "figures"

# Okabe and Ito's colours, which colour-blind readers tell apart.
BLACK, ORANGE, BLUE, GREEN, VERMILLION, GREY = "#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#999999"
STYLE = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",  # letters stay letters
}


_METADATA = {
    "png": {},
    "pdf": {"CreationDate": None},
    "svg": {"Date": None, "Creator": None},
}  # no dates, so that the bytes are the same every time


def draw_all(directory: Path = FIGURES) -> list[Path]:
    """Draw every figure; return the paths."""
    directory.mkdir(parents=True, exist_ok=True)
    drawings = {
        "figure1": _figure_1,
        "theory_five_reals": _five_reals,
        "theory_collisions": _collisions,
        "theory_round_trip": _round_trip,
        "theory_scalers": _scalers,
    }
    paths = []
    with matplotlib.rc_context(STYLE):
        for name, draw in drawings.items():
            figure = draw()
            for suffix, metadata in _METADATA.items():
                paths.append(directory / f"{name}.{suffix}")
                with matplotlib.rc_context({"svg.hashsalt": name}):
                    figure.savefig(paths[-1], metadata=metadata)
    return paths


def _figure_1() -> Figure:
    """Figure 1: pairs of neighbourhoods, and which aggregators tell each pair apart."""
    rows = counterexamples.FIGURE_1
    names = [*counterexamples.EXACT, "sum"]
    figure = Figure(figsize=(6.5, 0.95 * len(rows) + 0.5), layout="constrained")
    axes = figure.subplots(len(rows), 3, width_ratios=[1, 1, 3.4])
    for i, (row, pair) in enumerate(zip(axes, rows, strict=True)):
        for axis, neighbours, colour in zip(row, pair, (BLUE, ORANGE), strict=False):
            _star(axis, neighbours, colour)
        _verdicts(row[2], pair, names, header=i == 0)
    axes[0, 0].set_title("neighbourhood X", fontsize=8)
    axes[0, 1].set_title("neighbourhood Y", fontsize=8)
    return figure


def _star(axis: Axes, neighbours: Sequence[int], colour: str) -> None:
    """Draw a neighbourhood: a grey centre, and around it a circle with its number for each neighbour."""
    axis.set_axis_off()
    axis.set_aspect("equal")
    axis.set_xlim(-1.6, 1.6)
    axis.set_ylim(-1.45, 1.45)
    for j, x in enumerate(neighbours):
        angle = np.pi / 2 + 2 * np.pi * j / len(neighbours)
        place = (np.cos(angle), np.sin(angle))
        axis.plot([0, place[0]], [0, place[1]], color=GREY, lw=1, zorder=1)
        axis.plot(*place, "o", ms=13, color="white", mec=colour, mew=1.6, zorder=2)
        axis.text(*place, str(x), ha="center", va="center", fontsize=8, zorder=3)
    axis.plot(0, 0, "o", ms=9, color=GREY, zorder=2)


def _verdicts(axis: Axes, pair: counterexamples.Pair, names: Sequence[str], header: bool) -> None:
    """A column per aggregator: its two values, and whether they tell the neighbourhoods apart."""
    axis.set_axis_off()
    axis.set_xlim(-0.5, len(names) - 0.5)
    axis.set_ylim(0, 1)
    for column, name in enumerate(names):
        values = [_shown(name, x) for x in pair]
        fails = values[0] == values[1]
        if header:
            axis.text(column, 1.12, name, ha="center", va="center", fontsize=9)
        for y, value, colour in zip((0.8, 0.52), values, (BLUE, ORANGE), strict=True):
            axis.text(column, y, value, ha="center", va="center", color=BLACK)
            axis.plot(column - 0.42, y, "o", ms=3.5, color=colour)
        text, colour, weight = ("✗ fails", VERMILLION, "bold") if fails else ("✓ differ", GREEN, "normal")
        axis.text(column, 0.18, text, ha="center", va="center", color=colour, fontweight=weight)


def _shown(name: str, x: Sequence[int]) -> str:
    """The exact value as text; equal texts are equal values. σ is a root where it is not rational."""
    value = Fraction(sum(x)) if name == "sum" else Fraction(counterexamples.EXACT[name](x))
    if name != "std":
        return str(value)
    root = Fraction(isqrt(value.numerator), isqrt(value.denominator))
    return str(root) if root**2 == value else f"√({value})" if value.denominator > 1 else f"√{value}"


def _five_reals() -> Figure:
    """The circle of middle values that PNA's aggregators do not tell apart."""
    figure = Figure(figsize=(6.5, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.25])
    middles = [x[1:4] for x in counterexamples.PNA_FAILS_DYADIC]
    centre, e1, e2 = 3.0, np.array([1, 0, -1]) / np.sqrt(2), np.array([1, -2, 1]) / np.sqrt(6)
    start = np.array([float(x) for x in middles[0]]) - centre
    radius = np.linalg.norm(start)
    angle = np.linspace(0, 2 * np.pi, 400)
    left.plot(radius * np.cos(angle), radius * np.sin(angle), color=GREY, lw=1)
    for middle, colour in zip(middles, (BLUE, ORANGE), strict=True):
        for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
            point = np.array([float(middle[i]) for i in order]) - centre
            left.plot(point @ e1, point @ e2, "o", ms=6, color=colour)
    left.set_aspect("equal")
    left.set_xlabel("(x₂ − x₄) / √2")  # plain text: a page shows it in its font, where a drawn root would be misplaced
    left.set_ylabel("(x₂ − 2x₃ + x₄) / √6")
    left.set_title("the middle three, in every order:\ntheir sum and sum of squares fix a circle", fontsize=8)
    for turn in np.linspace(0, 2 * np.pi, 121):
        point = centre + radius * (np.cos(turn) * e1 + np.sin(turn) * e2)
        right.plot(np.sort(point), [np.degrees(turn)] * 3, ".", ms=2.5, color=GREY)
    for middle, colour, name in zip(middles, (BLUE, ORANGE), "XY", strict=True):
        point = np.array([float(x) for x in middle]) - centre
        turn = np.degrees(np.arctan2(point @ e2, point @ e1)) % 360
        elements = [1.0, *(float(x) for x in middle), 5.0]
        label = f"{name} = {{{', '.join(f'{x:g}' for x in elements)}}}"
        right.plot(elements, [turn] * 5, "o", ms=5, color=colour, label=label)
    right.set_xlabel("elements (the middle three in grey)")
    right.set_ylabel("place on the circle (degrees)")
    right.set_ylim(0, 360)
    right.set_title("all of these have one mean, std, max and min", fontsize=8)
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def _collisions() -> Figure:
    """Certified collisions of Theorem 1 and an integer one, as pairs of multisets on a line."""
    n = 8
    rows = {"Prouhet–Tarry–Escott": [np.array(x, dtype=float) for x in PROUHET_TARRY_ESCOTT[n]]}
    for name in ("power_sums", "log_sum_exp", "random_networks"):
        make, _ = families.FAMILIES[name]
        family = make(n)
        multisets = collide(family.aggregators, family.sphere).multisets()
        rows[name.replace("_", " ")] = [np.array([float(x.mid()) for x in multiset]) for multiset in multisets]
    figure = Figure(figsize=(6.5, 2.4), layout="constrained")
    axis = figure.subplots()
    for y, pair in enumerate(rows.values()):
        low, high = min(x.min() for x in pair), max(x.max() for x in pair)
        for x, offset, colour, label in zip(pair, (0.14, -0.14), (BLUE, ORANGE), ("X", "Y"), strict=True):
            place = (x - low) / (high - low)
            axis.plot(place, np.full(n, y + offset), "o", ms=6, color=colour, label=label if y == 0 else None)
    axis.set_yticks(range(len(rows)), list(rows))
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlabel("elements, each pair scaled to [0, 1]")
    axis.set_title(f"multisets of {n} reals that {n - 1} aggregators do not tell apart", fontsize=8)
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _round_trip() -> Figure:
    """The error of Proposition 1's round trip in floating point."""
    sizes = [2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64]
    figure = Figure(figsize=(4.5, 3), layout="constrained")
    axis = figure.subplots()
    for arithmetic, label, colour, marker in (
        (np.float32, "float32", VERMILLION, "o"),
        (np.float64, "float64", BLUE, "s"),
        (332, "100 digits", GREEN, "^"),
    ):
        axis.semilogy(
            sizes, [float_error(n, arithmetic) for n in sizes], marker, ls="-", ms=4, color=colour, label=label
        )
    axis.axhline(2, color=GREY, lw=1, ls=":")
    axis.text(64, 1e3, "width of the domain [-1, 1]", ha="right", va="bottom", color="#666666", fontsize=7)
    axis.set_ylim(1e-104, 1e12)
    axis.set_xlabel("size n of the multiset")
    axis.set_ylabel("largest error of an element")
    axis.set_title("multiset → n moments → multiset", fontsize=8)
    axis.legend(loc="center right", bbox_to_anchor=(1, 0.6))
    return figure


def piece_picture(channels: int = 256, stretch: float = 0.9, shown: int = 12) -> Figure:
    """Draw a random ReLU network's messages and a pair of multisets with the same mean, std, max and min.

    The title says how closely their aggregates agree. The pair lies around the network's widest linear piece, which is
    shaded.

    channels: outputs of the network. stretch: the pair's width, as a share of the piece's. shown: channels drawn.
    """
    import matplotlib.pyplot as plt  # which tells a notebook how to show figures

    network = Network.random((16, 16, channels))
    low, high = pieces(network).widest
    width, centre = stretch * (high - low), (low + high) / 2
    pair = [centre + width * (np.array(side) / 40 - 0.5) for side in ((0, 11, 18, 31, 40), (0, 9, 22, 29, 40))]
    first, second = (aggregates(network(x)) for x in pair)
    difference = np.abs(first - second).max() / np.abs(first).max()
    figure = plt.figure(figsize=(7, 3.2), layout="constrained")
    plt.close(figure)
    axis = figure.subplots()
    grid = np.linspace(-3, 3, 1201)
    axis.plot(grid, network(grid)[:, :shown], color=GREY, lw=0.8)
    axis.axvspan(low, high, color=GREEN, alpha=0.2, lw=0)
    bottom, top = axis.get_ylim()
    for x, share, colour, label in zip(pair, (0.12, 0.05), (BLUE, ORANGE), ("X", "Y"), strict=True):
        axis.plot(x, np.full(len(x), bottom + share * (top - bottom)), "o", ms=6, color=colour, label=label)
    ends = (min(-3.0, pair[0].min() - 0.2), max(3.0, pair[0].max() + 0.2))
    axis.set(xlabel="x", ylabel=f"{min(shown, channels)} of {channels} messages", xlim=ends)
    axis.set_title(f"the {4 * channels:,} aggregates of X and Y differ by {difference:.0e} of the largest", fontsize=9)
    axis.legend(loc="upper right")
    return figure


def drag_piece() -> object:
    """Sliders for the number of channels and the width of the pair, with the picture below them."""
    import ipywidgets as widgets
    from IPython.display import display

    sliders = {
        "channels": widgets.IntSlider(256, min=1, max=1024, description="channels"),
        "stretch": widgets.FloatSlider(0.9, min=0.1, max=3, step=0.1, description="stretch"),
    }
    seen = widgets.interactive_output(lambda **chosen: display(piece_picture(**chosen)), sliders)
    return widgets.VBox([*sliders.values(), seen])


def _scalers() -> Figure:
    """What depth and degree do to a constant signal on a regular graph."""
    d_0 = 4
    figure = Figure(figsize=(6.5, 2.7), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    layers = range(13)
    for d, marker in ((4, "o"), (8, "s"), (16, "^")):
        for kind, colour in (("linear", VERMILLION), ("logarithmic", BLUE)):
            growth = [float(scalers.amplification_on_regular_graph(d, d_0, L, kind)[0]) for L in layers]
            left.semilogy(layers, growth, marker, ls="-", ms=3.5, color=colour, label=f"{kind}, d = {d}")
    left.set_xlabel("number of layers L")
    left.set_ylabel("amplification of the signal")
    left.set_title(f"over depth (trained at degree d₀ = {d_0})", fontsize=8)
    left.legend(fontsize=7)
    degrees = np.arange(4, 65)
    for L, style in ((2, ":"), (4, "--"), (8, "-")):
        right.semilogy(degrees, (degrees / d_0) ** L, style, color=VERMILLION, label=f"linear, L = {L}")
        right.semilogy(
            degrees, (np.log1p(degrees) / np.log1p(d_0)) ** L, style, color=BLUE, label=f"logarithmic, L = {L}"
        )
    right.set_xlabel("degree d of the graph")
    right.set_title("over degree", fontsize=8)
    right.legend(fontsize=7, ncols=2, loc="upper left")
    right.set_ylim(0.5, 1e14)
    return figure
