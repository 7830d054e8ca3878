"""Figures 2 and 3: the layer and the architecture, drawn from the code's own tables and modules."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from pna.figures.style import DARK, MODEL_COLOURS, WIDTH
from pna.networks import MODELS, build, count_parameters

__all__ = ["figure2", "figure3"]

_SYMBOLS = {
    "mean": "μ  mean",
    "std": "σ  std",
    "max": "max",
    "min": "min",
    "identity": "I",
    "amplification": "S(D, 1)\namplification",
    "attenuation": "S(D, −1)\nattenuation",
}
BLUE, ORANGE, GREEN, PALE = "#0072B2", "#E69F00", "#009E73", "0.95"


def figure2() -> tuple[Figure, dict]:
    """Messages, aggregators, scalers, U: equations 7 and 8 with the tables of the model "pna"."""
    tables = MODELS["pna"].convolution.keywords
    aggregators, scalers = tables["aggregators"], tables["scalers"]
    width = len(aggregators) * len(scalers) + 1
    figure, axis = _canvas(2.4, (0, 14), (-0.8, 5.0))
    _neighbourhood(axis, 1.1, 2.0)
    _box(axis, 3.35, 2.0, 1.5, 1.2, "M(Xᵢ, Xⱼ)\nmessages", PALE)
    _arrow(axis, (2.2, 2.0), (2.6, 2.0))
    places = [3.8 - 1.2 * k for k in range(len(aggregators))]
    for name, y in zip(aggregators, places, strict=True):
        _box(axis, 5.75, y, 1.45, 0.8, _SYMBOLS[name], "#D6E9F8", BLUE)
        _arrow(axis, (4.1, 2.0), (5.02, y))
    heights = [3.4 - 1.4 * k for k in range(len(scalers))]
    for name, y in zip(scalers, heights, strict=True):
        _box(axis, 8.45, y, 2.0, 1.0, _SYMBOLS[name], "#FCEBCB", ORANGE)
        for start in places:
            axis.plot([6.48, 7.45], [start, y], color="0.75", lw=0.6, zorder=0)
        _arrow(axis, (9.45, y), (9.95, 2.0 + 0.35 * (y - 2.0)))
    text = f"concatenate\n{len(scalers)} × {len(aggregators)} × F\nand Xᵢ: {width}F"
    _box(axis, 10.9, 2.0, 1.85, 1.7, text, PALE)
    _arrow(axis, (11.83, 2.0), (12.15, 2.0))
    _box(axis, 12.95, 2.0, 1.6, 1.2, f"U\n{width}F → F", "#D2EFE5", GREEN)
    for x, word in ((5.75, "aggregators"), (8.45, "scalers"), (7.1, "⊗")):
        axis.text(x, 4.8, word, ha="center", va="center", fontsize=8 if word != "⊗" else 12, weight="bold")
    return figure, {"aggregators": aggregators, "scalers": scalers, "input of U": f"{width}F"}


def figure3() -> tuple[Figure, dict]:
    """The recurrent architecture with the parameters of each of its modules, counted."""
    network = build("pna")
    counts = {name: count_parameters(module) for name, module in network.named_children()}
    numbers = {"hidden": network.hidden, "parameters": counts, "together": count_parameters(network)}

    def label(name: str, text: str) -> str:
        return f"{text}\n{counts[name]:,}"

    figure, axis = _canvas(2.3, (0, 14), (-0.55, 4.1))
    _box(axis, 0.95, 2.3, 1.5, 1.2, "input\n1-hot, x\nN × 2", PALE)
    stages = (
        (2.9, "GC_1", "GC₁", MODEL_COLOURS["pna"]),
        (4.6, "gru", "GRU", BLUE),
        (6.4, "GC_m", "GCₘ", MODEL_COLOURS["pna"]),
        (8.1, "gru", "GRU", BLUE),
    )
    for x, name, text, colour in stages:
        _box(axis, x, 2.3, 1.3, 1.1, label(name, text), "white", colour)
    for start, end in ((1.7, 2.25), (3.55, 3.95), (5.25, 5.75), (7.05, 7.45)):
        _arrow(axis, (start, 2.3), (end, 2.3))
    axis.add_patch(FancyBboxPatch((5.6, 1.55), 3.3, 1.5, boxstyle="round,pad=0.05", fill=False, ls="--", ec="0.5"))
    axis.text(7.25, 3.35, "× (⌊N/2⌋ − 1), weights shared", ha="center", fontsize=7)
    axis.text(6.3, 0.95, "one GRU serves all layers", ha="center", fontsize=7, color="#595959")
    _box(axis, 12.35, 3.3, 2.3, 1.2, label("nodes", "3 layers →\n3 node labels"), "#D2EFE5", GREEN)
    _box(axis, 10.4, 1.2, 1.3, 1.0, label("readout", "S2S"), "#FCEBCB", ORANGE)
    _box(axis, 12.75, 1.2, 2.2, 1.2, label("graphs", "3 layers →\n3 graph labels"), "#D2EFE5", GREEN)
    _arrow(axis, (8.95, 2.45), (11.15, 3.3))
    _arrow(axis, (8.95, 2.15), (9.75, 1.2))
    _arrow(axis, (11.05, 1.2), (11.65, 1.2))
    text = f"numbers: learned parameters of PNA at {network.hidden} hidden features, {numbers['together']:,} in all"
    axis.text(7, -0.15, text, ha="center", fontsize=7, color="#595959")
    return figure, numbers


def _canvas(height: float, xlim: tuple[float, float], ylim: tuple[float, float]) -> tuple[Figure, Axes]:
    """Create a figure as wide as the page and `height` inches high, with invisible axes of these limits."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axis = figure.subplots()
    axis.set(xlim=xlim, ylim=ylim)
    axis.set_axis_off()
    return figure, axis


def _box(axis: Axes, x: float, y: float, w: float, h: float, text: str, fill: str, edge: str = "0.3") -> None:
    """Draw a rounded box of width w and height h around (x, y), with a text in its middle."""
    style = {"boxstyle": "round,pad=0.02,rounding_size=0.12", "facecolor": fill, "edgecolor": edge, "linewidth": 1.1}
    axis.add_patch(FancyBboxPatch((x - w / 2, y - h / 2), w, h, **style))
    ink = "black" if fill == "white" else DARK
    axis.text(x, y, text, ha="center", va="center", fontsize=7.5, linespacing=1.2, color=ink)


def _arrow(axis: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw an arrow from one point to another."""
    axis.annotate(
        "", end, start, arrowprops={"arrowstyle": "-|>", "color": "0.3", "lw": 0.9, "shrinkA": 0, "shrinkB": 0}
    )


def _neighbourhood(axis: Axes, x: float, y: float) -> None:
    """Draw a node X_i, with edges to four neighbours X_j."""
    for dx, dy in ((-0.75, 1.1), (0.75, 1.25), (-0.85, -0.9), (0.7, -1.2)):
        axis.plot([x, x + dx], [y, y + dy], color="0.5", lw=1, zorder=1)
        axis.plot(x + dx, y + dy, "o", ms=12, color="white", mec=BLUE, mew=1.4, zorder=2)
        axis.text(x + dx, y + dy, "Xⱼ", ha="center", va="center", fontsize=7, zorder=3)
    axis.plot(x, y, "o", ms=15, color="#FBE0D0", mec=MODEL_COLOURS["pna"], mew=1.6, zorder=2)
    axis.text(x, y, "Xᵢ", ha="center", va="center", fontsize=7.5, zorder=3, color=DARK)
