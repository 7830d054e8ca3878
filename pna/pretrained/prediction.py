"""The predictions of a multi-task network for one graph, beside the true values."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pna.multitask.labels import GRAPH_TASKS, NODE_TASKS
from pna.text import table
from pna.training.store import finite

__all__ = ["Prediction"]

SHOWN = 60  # nodes printed; `facts` has all of them


@dataclass(frozen=True, eq=False)
class Prediction:
    """Six properties of a graph by task, predicted and true: arrays [N] for node tasks, numbers for graph tasks."""

    cell: str
    seeds: tuple[int, ...]
    nodes: tuple[Hashable, ...]  # their names, in the order of the arrays
    edges: int
    source: Hashable  # where the shortest paths start
    predicted: dict[str, NDArray[np.float64]]
    true: dict[str, NDArray[np.float32]]
    bipartite_counts_as_unconnected: bool  # D1, in the training and in `true`
    outside: tuple[str, ...] = ()  # the ways in which the graph is unlike those of the training

    def __getitem__(self, task: str) -> tuple[NDArray, NDArray]:
        """The predicted and the true values of one task."""
        if task not in self.predicted:
            raise KeyError(f"task must be one of {', '.join(self.predicted)}; got {task!r}")
        return self.predicted[task], self.true[task]

    @property
    def facts(self) -> dict:
        """The whole prediction as JSON; null for a value that is not finite."""
        predicted = {
            name: [finite(y) for y in values.tolist()] if values.ndim else finite(values.item())
            for name, values in self.predicted.items()
        }
        return {
            "cell": self.cell,
            "seeds": list(self.seeds),
            "nodes": [node if isinstance(node, str | int) else str(node) for node in self.nodes],
            "edges": self.edges,
            "source": self.source if isinstance(self.source, str | int) else str(self.source),
            "predicted": predicted,
            "true": {name: values.tolist() for name, values in self.true.items()},
            "bipartite_counts_as_unconnected": self.bipartite_counts_as_unconnected,
            "outside": list(self.outside),
        }

    def __repr__(self) -> str:
        seeds = f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"
        head = (
            f"{self.cell}, {seeds}: a graph of {len(self.nodes)} nodes and {self.edges} edge{'s' * (self.edges != 1)}"
        )
        parts = [head, self._graph(), self._nodes()]
        if self.bipartite_counts_as_unconnected:
            parts.append("* as released, a graph counts as connected if it is connected and not bipartite")
        if (self.true["sssp"] == 0).sum() > 1:  # not the source alone
            rule = "the path to a node out of reach has length 0, and eccentricities stay within a part"
            parts.append(f"The graph has several parts: as in the benchmark, {rule}.")
        return "\n\n".join([*parts, *(f"Beware: {words}." for words in self.outside)])

    def _graph(self) -> str:
        """Table of the graph's labels, predicted and true."""
        star = {"connected": "*"} if self.bipartite_counts_as_unconnected else {}
        rows = (
            (task.title + star.get(task.name, ""), _text(self.predicted[task.name]), _text(self.true[task.name]))
            for task in GRAPH_TASKS
        )
        return table(("of the graph", "predicted", "true"), rows)

    def _nodes(self) -> str:
        """Table of the first nodes' labels, predicted and true."""
        columns = [values[task.name] for task in NODE_TASKS for values in (self.predicted, self.true)]
        titles = {"sssp": f"path from {self.source}", "eccentricity": "eccentricity", "laplacian": "Laplacian"}
        header = ["node", *(word for task in NODE_TASKS for word in (titles[task.name], "true"))]
        rows = [(node, *map(_text, row)) for node, *row in zip(self.nodes, *columns, strict=True)]
        more = f"\n… and {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
        return table(header, rows[:SHOWN]) + more


def _text(value: float) -> str:
    """Format a value with two digits, and a true value that is whole without any."""
    whole = isinstance(value, np.float32) and float(value).is_integer()
    return f"{value:.0f}" if whole else f"{value:z.2f}"  # z: no -0.00
