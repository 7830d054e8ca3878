"""Labelled graphs as flat arrays: PyTorch Geometric reads them one by one, the trainer as batches in CSR form."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pna.multitask.families import FAMILIES
from pna.multitask.generate import Adjacencies
from pna.multitask.labels import GRAPH_TASKS, NODE_TASKS, TASKS

if TYPE_CHECKING:  # its import takes seconds, and only a graph that is asked for needs it
    from torch_geometric.data import Data

__all__ = ["REAL", "Batch", "GraphSet"]

REAL = -1  # in the place of a family


@dataclass(frozen=True)
class Batch:
    """G graphs with V nodes and E directed edges, end to end; node i hears source[ptr[i] : ptr[i + 1]]."""

    ptr: Tensor  # [V + 1]
    source: Tensor  # [E]
    x: Tensor  # [V, 2]: one-hot source of the shortest-path task, random feature
    y_node: Tensor  # [V, 3], labels of NODE_TASKS divided by the training maxima
    y_graph: Tensor  # [G, 3], labels of GRAPH_TASKS likewise
    sizes: Tensor  # [G], nodes of each graph

    def to(self, device: torch.device | str) -> Self:
        """Copy the batch to another device."""
        return type(self)(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})


@dataclass(frozen=True)
class GraphSet:
    """G graphs with V nodes and E directed edges; `graph_set[i]` is a PyTorch Geometric Data.

    Labels are stored as computed, and divided by `maxima`, those of the training set, when they are read.
    """

    sizes: NDArray[np.int64]  # [G], nodes of each graph
    family: NDArray[np.int8]  # [G], places in FAMILIES; REAL for a real network
    source: NDArray[np.int64]  # [G], source of the shortest-path task
    degree: NDArray[np.int64]  # [V]
    neighbour: NDArray[np.int32]  # [E], numbers within the graph, the lists of all nodes end to end
    x: NDArray[np.float32]  # [V]
    node_labels: NDArray[np.float32]  # [V, 3]
    graph_labels: NDArray[np.float32]  # [G, 3]
    maxima: NDArray[np.float32]  # [6], in the order of TASKS

    @classmethod
    def of(cls, graphs: Adjacencies, node_labels: NDArray, graph_labels: NDArray) -> Self:
        """Build a set from graphs of one size and their labels, [B, N, 3] and [B, 3], with maxima of 1."""
        B, N = graphs.x.shape
        return cls(
            sizes=np.full(B, N),
            family=graphs.family,
            source=graphs.source,
            degree=graphs.adjacency.sum(axis=2).ravel(),
            neighbour=np.nonzero(graphs.adjacency)[2].astype(np.int32),
            x=graphs.x.ravel(),
            node_labels=node_labels.reshape(B * N, -1),
            graph_labels=graph_labels,
            maxima=np.ones(len(TASKS), dtype=np.float32),
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join the graphs of all parts, in order; the maxima are the first part's."""
        names = [field.name for field in fields(cls) if field.name != "maxima"]
        arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return cls(**arrays, maxima=parts[0].maxima)

    @cached_property
    def first_node(self) -> NDArray[np.int64]:
        """The first node of each graph, and the end: [G + 1]."""
        return _starts(self.sizes)

    @cached_property
    def first_edge(self) -> NDArray[np.int64]:
        """The first edge of each node, and the end: [V + 1]."""
        return _starts(self.degree)

    @property
    def num_node_features(self) -> int:
        """The width of Data.x, under the name that PyTorch Geometric's data sets give it."""
        return 2

    def truly_connected(self) -> NDArray[np.bool_]:
        """Whether each graph is connected, whatever its label says: only the source is at distance 0 then. [G]."""
        return np.add.reduceat(self.node_labels[:, 0] == 0, self.first_node[:-1], dtype=np.int64) == 1

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator["Data"]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> "Data":
        """The graph at `index`: x [N, 2], edge_index [2, E], y_node [N, 3], y_graph [1, 3], and its family's name."""
        from torch_geometric.data import Data

        if not -len(self) <= index < len(self):
            raise IndexError(f"index must be from 0 to {len(self) - 1}, got {index}")
        batch = self.batch(np.array([index % len(self)]))
        target = torch.arange(len(batch.x)).repeat_interleave(batch.ptr.diff())
        return Data(
            x=batch.x,
            edge_index=torch.stack([batch.source, target]),
            y_node=batch.y_node,
            y_graph=batch.y_graph,
            family="real" if self.family[index] == REAL else FAMILIES[self.family[index]].name,
        )

    def batch(self, graphs: NDArray[np.int64]) -> Batch:
        """The graphs with these numbers, in this order, as one batch."""
        sizes = self.sizes[graphs]
        nodes = _ranges(self.first_node[graphs], sizes)
        degree = self.degree[nodes]
        edges = _ranges(self.first_edge[nodes], degree)
        first = _starts(sizes)[:-1]
        is_source = np.zeros(len(nodes), dtype=np.float32)
        is_source[first + self.source[graphs]] = 1
        arrays = {
            "ptr": _starts(degree),
            "source": self.neighbour[edges] + np.repeat(np.repeat(first, sizes), degree),
            "x": np.stack([is_source, self.x[nodes]], axis=1),
            "y_node": self.node_labels[nodes] / self.maxima[: len(NODE_TASKS)],
            "y_graph": self.graph_labels[graphs] / self.maxima[-len(GRAPH_TASKS) :],
            "sizes": sizes,
        }
        return Batch(**{name: torch.from_numpy(array) for name, array in arrays.items()})

    def batches(self, graphs_per_batch: int, *, mixed: bool = False) -> Iterator[Batch]:
        """Yield all graphs in batches of one size each or, mixed, of all sizes in turn, always in the same order.

        A batch may be smaller than `graphs_per_batch`: the last of a size or, mixed, the last of all.
        """
        if graphs_per_batch < 1:
            raise ValueError(f"graphs_per_batch must be at least 1, got {graphs_per_batch}")
        by_size = [np.flatnonzero(self.sizes == N) for N in dict.fromkeys(self.sizes.tolist())]
        if mixed:
            turn = np.concatenate([np.arange(len(group)) for group in by_size])  # a graph's place within its size
            by_size = [np.concatenate(by_size)[np.argsort(turn, kind="stable")]]
        for group in by_size:
            for start in range(0, len(group), graphs_per_batch):
                yield self.batch(group[start : start + graphs_per_batch])


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places where pieces of these lengths start, and where the last ends."""
    return np.concatenate([[0], np.cumsum(lengths)])


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers start, start + 1, ... for each start, end to end."""
    return np.arange(lengths.sum()) + np.repeat(starts - _starts(lengths)[:-1], lengths)
