"""The card of a multi-task data set: its sizes, families, label statistics and share of connected graphs, as text."""

import numpy as np

from pna.multitask.dataset import MultiTask
from pna.multitask.families import FAMILIES
from pna.multitask.graphset import REAL
from pna.multitask.labels import GRAPH_TASKS, TASKS
from pna.multitask.specification import RELEASED
from pna.text import table

__all__ = ["card"]


def card(data: MultiTask) -> str:
    """Write the card of a data set as text."""
    over, degrees = ("batches (D11)", data.batched_degrees) if data.spec == RELEASED else ("nodes", data.degrees)
    return "\n\n".join(
        (
            f"Multi-task benchmark, spec {data.spec}, seed {data.seed}\n"
            f"training set, means over {over}: δ = {degrees.delta:.4f}, mean degree {degrees.mean_degree:.3f}",
            _splits(data),
            "Graphs per family\n" + _families(data),
            "Labels of the training set, not yet divided by their maxima\n" + _labels(data),
        )
    )


def _splits(data: MultiTask) -> str:
    """Table of each split's sizes, and of how many graphs are connected."""
    header = ("split", "graphs", "sizes", "nodes", "edges", "labelled connected", "connected")
    connected = [task.name for task in GRAPH_TASKS].index("connected")
    rows = (
        (
            name,
            len(graphs),
            f"{graphs.sizes.min()}-{graphs.sizes.max()}",
            len(graphs.x),
            len(graphs.neighbour) // 2,
            f"{graphs.graph_labels[:, connected].mean():.1%}",
            f"{graphs.truly_connected().mean():.1%}",
        )
        for name, graphs in data.sets.items()
    )
    return table(header, rows)


def _families(data: MultiTask) -> str:
    """Table of the number of graphs of each family in each split, real graphs left out."""
    families = {name: graphs.family[graphs.family != REAL] for name, graphs in data.sets.items()}
    counts = [np.bincount(family, minlength=len(FAMILIES)) for family in families.values()]
    rows = ((row.name, f"{row.share:.0%}", *(count[place] for count in counts)) for place, row in enumerate(FAMILIES))
    return table(("family", "share", *data.sets), rows)


def _labels(data: MultiTask) -> str:
    """Table of the range, mean and deviation of each task's training labels."""
    train = data["train"]
    columns = [*train.node_labels.T, *train.graph_labels.T]
    rows = (
        (
            task.name,
            *(f"{value:.4f}" for value in (y.min(), y.mean(dtype=np.float64), y.std(dtype=np.float64), y.max())),
        )
        for task, y in zip(TASKS, columns, strict=True)
    )
    return table(("task", "min", "mean", "std", "max"), rows)
