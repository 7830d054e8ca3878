"""Many graphs end to end: features of all nodes, messages of all nodes in CSR order, one label per graph."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Graph", "Graphs", "sort_by_target"]


class Graph(NamedTuple):
    """One graph, its messages sorted by their target."""

    x: NDArray  # [n, features]
    degree: NDArray[np.uint8]  # [n] messages that each node receives
    source: NDArray[np.uint8]  # [m] the node that each message comes from, 0 <= source < n
    edge: NDArray  # [m, features]
    y: float


def sort_by_target(edges: NDArray, num_nodes: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray]:
    """Sort edges [2, m] of (source, target): degree [n], source [m], and the order that sorts the edge features."""
    order = np.argsort(edges[1], kind="stable")
    degree = np.bincount(edges[1], minlength=num_nodes)
    if degree.max(initial=0) > 255:
        raise ValueError(f"a node must receive at most 255 messages, got one that receives {degree.max()}")
    return degree.astype(np.uint8), edges[0][order].astype(np.uint8), order


@dataclass(frozen=True)
class Graphs:
    """G graphs with V nodes and E messages in all. No graph has more than 255 nodes, so a byte names a node in it."""

    nodes: NDArray[np.uint8]  # [G] nodes of each graph
    degree: NDArray[np.uint8]  # [V]
    source: NDArray[np.uint8]  # [E] counted from the first node of the graph
    x: NDArray  # [V, node features]
    edge: NDArray  # [E, edge features]
    y: NDArray  # [G]

    def __post_init__(self) -> None:
        V, E = int(self.nodes.sum(dtype=np.int64)), int(self.degree.sum(dtype=np.int64))
        for name, rows in (("degree", V), ("x", V), ("source", E), ("edge", E), ("y", len(self.nodes))):
            if len(getattr(self, name)) != rows:
                raise ValueError(
                    f"{name} must have {rows} rows to fit nodes and degree, got {len(getattr(self, name))}"
                )

    @classmethod
    def of(cls, graphs: Sequence[Graph]) -> Self:
        """Join graphs end to end."""
        x, degree, source, edge, y = zip(*graphs, strict=True)
        nodes = np.array([len(rows) for rows in x])
        if nodes.max() > 255:
            raise ValueError(f"a graph must have at most 255 nodes, got one with {nodes.max()}")
        join = np.concatenate
        return cls(nodes.astype(np.uint8), join(degree), join(source), join(x), join(edge), np.array(y))

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def node_ptr(self) -> NDArray[np.int64]:
        """The first node of each graph, [G + 1]: graph g has the rows node_ptr[g] : node_ptr[g + 1]."""
        return _starts(self.nodes)

    @cached_property
    def message_ptr(self) -> NDArray[np.int64]:
        """The first message of each node, [V + 1]: node v has the rows message_ptr[v] : message_ptr[v + 1]."""
        return _starts(self.degree)

    @property
    def sent(self) -> NDArray[np.int64]:
        """The number of messages that each node sends: [V]."""
        return np.bincount(np.repeat(self.node_ptr[:-1], self.messages) + self.source, minlength=len(self.degree))

    @property
    def messages(self) -> NDArray[np.int64]:
        """The number of messages of each graph: [G]."""
        return np.diff(self.message_ptr[self.node_ptr])

    def take(self, index: NDArray[np.int64]) -> "Graphs":
        """Take some of the graphs, in the order of `index`."""
        rows = _ranges(self.node_ptr[index], self.nodes[index])
        messages = _ranges(self.message_ptr[self.node_ptr[index]], self.messages[index])
        return Graphs(
            self.nodes[index],
            self.degree[rows],
            self.source[messages],
            self.x[rows],
            self.edge[messages],
            self.y[index],
        )

    def arrays(self) -> dict[str, NDArray]:
        """The arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _starts(counts: NDArray) -> NDArray[np.int64]:
    """Place at which each of n consecutive groups begins, and the end of the last: counts [n] -> [n + 1]."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _ranges(starts: NDArray, counts: NDArray) -> NDArray[np.int64]:
    """The numbers starts[0], starts[0] + 1, … (counts[0] of them), then starts[1], …"""
    counts = counts.astype(np.int64)
    offsets = np.repeat(starts - (_starts(counts)[:-1]), counts)
    return offsets + np.arange(counts.sum())
