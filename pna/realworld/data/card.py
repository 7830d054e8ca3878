"""The card of a real-world data set: its graphs, nodes, edges, degrees, δ and labels, with the published numbers."""

import numpy as np

from pna.realworld.data.datasets import training_set
from pna.realworld.data.graphs import Graphs
from pna.realworld.data.storage import Splits
from pna.text import table

__all__ = ["card"]


def card(data: Splits) -> str:
    """Write the card of a data set as text."""
    about, degrees = data.dataset, data.degrees
    lines = [
        f"{about.title}: {data.facts['origin']}, training set {training_set(about.name, data.facts)}",
        f"published: {about.published}",
        f"here: {_overall(data)}",
        f"training set: δ = {degrees.delta:.4f}, mean degree {degrees.mean_degree:.4f} (edges that leave a node)",
        f"sha256 {data.facts['sha256']}",
    ]
    dropped = sum(int((graphs.nodes < about.min_nodes).sum()) for graphs in data.sets.values())
    if dropped:
        lines.insert(
            4, f"{dropped} graphs have fewer than {about.min_nodes} nodes and take no part in training or test"
        )
    return "\n\n".join(("\n".join(lines), _splits(data), _labels(data)))


def _overall(data: Splits) -> str:
    """Number and sizes of the graphs of all splits together, in words."""
    sizes = np.concatenate([graphs.nodes for graphs in data.sets.values()]).astype(np.int64)
    messages = sum(len(graphs.source) for graphs in data.sets.values())
    return (
        f"{len(sizes):,} graphs, {sizes.mean():.2f} nodes ({sizes.min()} to {sizes.max()}), "
        f"{messages / len(sizes):.2f} directed edges on average"
    )


def _splits(data: Splits) -> str:
    """Table of the sizes and degrees of each split."""
    header = ("split", "graphs", "nodes", "mean nodes", "sizes", "mean edges", "degrees", "degree std", "mean log(d+1)")
    return table(header, (_split(name, graphs) for name, graphs in data.sets.items()))


def _split(name: str, graphs: Graphs) -> tuple[object, ...]:
    """Row of one split in the table of sizes and degrees."""
    degree = graphs.degree
    counts = np.bincount(degree)
    d = np.arange(len(counts))
    mean = counts @ d / len(degree)
    return (
        name,
        f"{len(graphs):,}",
        f"{len(graphs.x):,}",
        f"{len(graphs.x) / len(graphs):.3f}",
        f"{graphs.nodes.min()}-{graphs.nodes.max()}",
        f"{len(graphs.source) / len(graphs):.3f}",
        f"{degree.min()}-{degree.max()}",
        f"{np.sqrt(counts @ (d - mean) ** 2 / len(degree)):.3f}",
        f"{counts @ np.log1p(d) / len(degree):.4f}",
    )


def _labels(data: Splits) -> str:
    """Table of each split's labels: statistics of a number, or counts of the classes."""
    if data.dataset.task == "regression":
        header = ("label", "mean", "std", "min", "max")
        rows = ((s, *(f"{v:.4f}" for v in (g.y.mean(), g.y.std(), g.y.min(), g.y.max()))) for s, g in data.sets.items())
    else:
        classes = 10 if data.dataset.task == "classes" else 2
        header = ("graphs of label", *range(classes))
        rows = ((s, *np.bincount(g.y.astype(np.int64), minlength=classes)) for s, g in data.sets.items())
    return table(header, rows)
