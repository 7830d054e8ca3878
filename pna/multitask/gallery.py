"""A picture of the ten families: one graph of each, its nodes coloured by the distance from the source."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pna.files import write_whole
from pna.multitask.dataset import SEED
from pna.multitask.families import FAMILIES
from pna.multitask.generate import Adjacencies, generate
from pna.multitask.specification import Spec

if TYPE_CHECKING:  # matplotlib is needed for drawing only
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure

__all__ = ["draw_gallery", "gallery_figure"]

_N = 16


def gallery_figure(spec: Spec, seed: int = SEED, width: float = 13.0) -> "Figure":
    """Draw one graph of every family, with 16 nodes, after toggling."""
    from matplotlib.figure import Figure

    drawn = [generate(spec, seed, "test", _N, np.array([0]), family.name) for family in FAMILIES]
    farthest = max(graphs.paths.from_source.max() for graphs in drawn)
    figure = Figure(figsize=(width, width * 6 / 13), layout="constrained")
    axes = figure.subplots(2, 5)
    for family, graphs, axis in zip(FAMILIES, drawn, axes.flat, strict=True):
        dots = _draw(axis, graphs, farthest, scale=width / 13)
        axis.set_title(f"{family.title} ({family.share:.0%})")
    figure.colorbar(dots, ax=axes, shrink=0.6, label="distance from the source (star);\nwhite: not reached")
    figure.suptitle(f"The ten families of random graphs after toggling: N = {_N}, as {spec}, seed {seed}")
    return figure


def draw_gallery(path: Path | str, spec: Spec, seed: int = SEED) -> None:
    """Write gallery_figure to a PNG file, whole or not at all."""
    figure = gallery_figure(spec, seed)
    write_whole(Path(path), lambda file: figure.savefig(file, format="png", dpi=150))


def _draw(axis: "Axes", graphs: Adjacencies, farthest: int, scale: float) -> "PathCollection":
    """Draw the only graph of `graphs`, and return its dots, which the colour bar reads."""
    distance, source = graphs.paths.from_source[0].astype(float), graphs.source[0]
    distance[(distance == 0) & (np.arange(_N) != source)] = np.nan  # not reached
    place = _layout(graphs.adjacency[0])
    for i, j in np.argwhere(np.triu(graphs.adjacency[0])):
        axis.plot(*place[[i, j]].T, color="0.55", linewidth=0.9, zorder=1)
    # Viridis is told apart by colour-blind eyes, and in grey as well.
    style = {
        "s": 70 * scale**2,
        "edgecolors": "black",
        "linewidths": 0.8 * scale,
        "cmap": "viridis_r",
        "vmin": 0,
        "vmax": farthest,
    }
    dots = axis.scatter(*place.T, c=distance, plotnonfinite=True, zorder=2, **style)
    dots.set_cmap(dots.cmap.with_extremes(bad="white"))
    axis.scatter(*place[source], marker="*", s=260 * scale**2, color="white", edgecolors="black", zorder=3)
    axis.set_axis_off()
    axis.margins(0.12)
    return dots


def _layout(adjacency: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Places of the nodes, [N, 2]: each component laid out by itself, side by side."""
    import networkx as nx

    graph = nx.from_numpy_array(adjacency)
    components = sorted(nx.connected_components(graph), key=len, reverse=True)
    columns = int(np.ceil(np.sqrt(len(components))))
    place = np.empty((len(graph), 2))
    for number, component in enumerate(components):
        centre = 2.6 * np.array([number % columns, number // columns])
        scale = np.sqrt(len(component) / len(components[0]))
        for node, at in nx.kamada_kawai_layout(graph.subgraph(component), scale=scale).items():
            place[node] = centre + at
    return place
