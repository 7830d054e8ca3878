"""The benchmark's data: its labels under both specifications, and what D1 to D4 change."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pna.experiments import SPECS
from pna.figures.style import SMALL, WIDTH
from pna.multitask import COLLECTIONS, FAMILIES, TASKS, MultiTask, Spec, make
from pna.multitask.gallery import gallery_figure

__all__ = ["departures", "gallery", "labels", "training_sets"]

COLOURS = {"described": "#0072B2", "released": "#E69F00"}


def training_sets(divisor: int = 4) -> dict[str, MultiTask]:
    """The training set of each specification, thinned: 1,280 of its 5,120 graphs."""
    sets = {}
    for name in SPECS:
        spec = Spec.parse(name)
        (train, *_) = COLLECTIONS["multitask"](spec)
        sets[name] = make(spec, [type(train)("train", "train", train.sizes, train.per_size // divisor)])
    return sets


def gallery(spec: str) -> tuple[Figure, dict]:
    """Draw one graph of every family after toggling."""
    drawn = {name: gallery_figure(Spec.parse(name), width=WIDTH) for name in SPECS}
    dots = {name: [one for axis in figure.axes for one in axis.collections] for name, figure in drawn.items()}
    farthest = max(one.get_clim()[1] or 0 for row in dots.values() for one in row)
    for one in dots[spec]:
        one.set_clim(0, farthest)  # the same colours in both pictures
    for axis in drawn[spec].axes:
        axis.set_title(axis.get_title().replace(" (", "\n("))
    shares = {family.title: family.share for family in FAMILIES}
    return drawn[spec], {"share of the benchmark": shares, "farthest from a source": farthest}


def labels(sets: dict[str, MultiTask]) -> tuple[Figure, dict]:
    """The distribution of each of the six labels, in units of its maximum over the training set."""
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    numbers: dict[str, dict] = {}
    axes = figure.subplots(2, 3)
    for column, (task, axis) in enumerate(zip(TASKS, axes.flat, strict=True)):
        left = task.name == "connected"  # where there is room
        for row, (name, data) in enumerate(sets.items()):
            values = _labels(data, column)
            low = -1.0 if task.name == "laplacian" else 0.0
            shares, edges = np.histogram(values, bins=24, range=(low, 1))
            style = {"color": COLOURS[name], "lw": 1.3, "label": name}
            axis.stairs(shares / len(values), edges, fill=False, **style)
            place = {"transform": axis.transAxes, "ha": "left" if left else "right", "va": "top"}
            words = f"{name}: mean {values.mean():.3f}"
            axis.text(0.08 if left else 0.98, 0.98 - 0.13 * row, words, fontsize=SMALL, **place)
            numbers.setdefault(name, {})[task.name] = {"mean": values.mean(), "maximum": data.maxima[column]}
        axis.set_title(f"{task.title} ({task.level})")
        axis.set_ylim(0, 1.45 * axis.get_ylim()[1])  # room for the words
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    figure.supylabel("share of the labels", fontsize=8)
    return figure, numbers


def departures(sets: dict[str, MultiTask]) -> tuple[Figure, dict]:
    """Draw what the departures change: connected graphs and their labels (D1, D2), and sizes (D3, D4)."""
    figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.0, 1.2, 1.2])
    connected = _connected(left, sets)
    families = _by_family(middle, sets)
    sizes = _sizes(right)
    handles, names = middle.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=2)
    return figure, {"connected": connected, "connected by family": families, "sizes": sizes}


def _connected(axis: Axes, sets: dict[str, MultiTask]) -> dict:
    """Draw and return the shares of graphs that are connected and that are labelled so, by specification."""
    column = [task.name for task in TASKS].index("connected")
    rows = {name: (data["train"].truly_connected().mean(), _labels(data, column).mean()) for name, data in sets.items()}
    for shift, (name, row) in zip((-0.2, 0.2), rows.items(), strict=True):
        bars = axis.bar(np.arange(2) + shift, row, width=0.38, color=COLOURS[name])
        axis.bar_label(bars, [f"{share:.0%}" for share in row], fontsize=SMALL)
    axis.set_xticks(range(2), ["are", "labelled"])
    axis.set_ylim(0, 1.1)
    axis.set_ylabel("share of the graphs")
    axis.set_title("D1, D2: connected")
    return {name: {"connected": row[0], "labelled": row[1]} for name, row in rows.items()}


def _by_family(axis: Axes, sets: dict[str, MultiTask]) -> dict:
    """Draw and return the share of connected graphs in each family, by specification."""
    numbers = {}
    for shift, (name, data) in zip((-0.2, 0.2), sets.items(), strict=True):
        graphs = data["train"]
        truly = graphs.truly_connected()
        shares = [truly[graphs.family == place].mean() for place in range(len(FAMILIES))]
        axis.barh(np.arange(len(FAMILIES)) + shift, shares, height=0.38, color=COLOURS[name], label=name)
        numbers[name] = {family.name: share for family, share in zip(FAMILIES, shares, strict=True)}
    axis.set_yticks(range(len(FAMILIES)), [family.title for family in FAMILIES])
    axis.invert_yaxis()
    axis.set_xlabel("share that are connected")
    axis.set_title("D2: by family")
    return numbers


def _sizes(axis: Axes) -> dict:
    """Draw and return the smallest and largest graphs of the splits that D3 and D4 change, by specification."""
    rows = (("multitask", "validation"), ("multitask", "test"), ("extrapolation", "validation"))
    numbers: dict[str, dict] = {}
    for y, (collection, split) in enumerate(rows):
        for shift, name in zip((-0.16, 0.16), SPECS, strict=True):
            sizes = next(s.sizes for s in COLLECTIONS[collection](Spec.parse(name)) if s.name == split)
            axis.plot([min(sizes), max(sizes)], [y + shift] * 2, "-o", ms=3, lw=3, color=COLOURS[name])
            numbers.setdefault(name, {})[f"{collection} {split}"] = [min(sizes), max(sizes)]
    axis.axvspan(15, 24, color="0.93", zorder=0)
    axis.text(19.5, -0.55, "training sizes", ha="center", fontsize=SMALL, color="0.4")
    axis.set_yticks(range(3), ["validation\n(D3)", "test\n(D3)", "extrap.,\nvalid. (D4)"])
    axis.set_ylim(2.5, -0.75)
    axis.set_xlabel("nodes")
    axis.set_title("D3, D4: sizes")
    return numbers


def _labels(data: MultiTask, column: int) -> np.ndarray:
    """The labels of one task over the training set, divided by their maximum."""
    train = data["train"]
    nodes = train.node_labels.shape[1]
    values = train.node_labels[:, column] if column < nodes else train.graph_labels[:, column - nodes]
    return values / data.maxima[column]
