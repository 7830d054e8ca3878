"""A data set of the benchmark: labelled splits, with the statistics of the training set that a model may use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from pna.degrees import DegreeStatistics
from pna.multitask.generate import generate
from pna.multitask.graphset import GraphSet
from pna.multitask.labels import GRAPH_TASKS, NODE_TASKS, TASKS, label
from pna.multitask.random_numbers import check_seed
from pna.multitask.real import RealSplit, graph_set
from pna.multitask.specification import Spec
from pna.multitask.splits import Split

__all__ = ["RELEASED_MAXIMA", "SEED", "MultiTask", "make", "make_graph", "make_split"]

SEED = 1234  # the released code's

# The training maxima of the released code's own set, in the order of TASKS: the units of the published errors. The
# maximum of the Laplacian features ranges from 12.6 to 15.3 over seeds, which moves their log10 MSE by 0.17.
RELEASED_MAXIMA = np.array([23, 23, 13.6, 1, 23, 22.7], dtype=np.float32)

_CELLS = 2**21  # entries of adjacency matrices labelled together


@dataclass(frozen=True)
class MultiTask:
    """Splits of one specification and seed, by name. The split "train" gives the units and the averages."""

    spec: Spec
    seed: int
    splits: tuple[Split | RealSplit, ...]
    sets: dict[str, GraphSet]

    def __post_init__(self) -> None:
        if "train" not in self.sets:
            raise ValueError(f"splits must hold one with the name 'train', got {', '.join(self.sets)}")
        sets = {name: replace(graphs, maxima=self.maxima) for name, graphs in self.sets.items()}
        object.__setattr__(self, "sets", sets)

    def __getitem__(self, name: str) -> GraphSet:
        """The split with this name."""
        if name not in self.sets:
            raise KeyError(f"split must be one of {', '.join(self.sets)}; got {name!r}")
        return self.sets[name]

    @cached_property
    def maxima(self) -> NDArray[np.float32]:
        """The largest label of each task over the training set, [6]; 1 if no label is positive."""
        train = self.sets["train"]
        largest = np.concatenate([train.node_labels.max(axis=0), train.graph_labels.max(axis=0)])
        return np.where(largest > 0, largest, np.float32(1))

    @cached_property
    def mean(self) -> NDArray[np.float64]:
        """The mean label of each task over the training set, in units of the maxima: [6]."""
        train = self.sets["train"]
        means = [labels.mean(axis=0, dtype=np.float64) for labels in (train.node_labels, train.graph_labels)]
        return np.concatenate(means) / self.maxima

    @cached_property
    def batched_mean(self) -> NDArray[np.float64]:
        """D14: the mean label of each task as the mean of the training batches' means, a batch for each size: [6]."""
        train, size = self.sets["train"], self._size_of_node
        nodes = np.mean([train.node_labels[size == N].mean(axis=0, dtype=np.float64) for N in np.unique(size)], axis=0)
        return np.concatenate([nodes, train.graph_labels.mean(axis=0, dtype=np.float64)]) / self.maxima

    @property
    def _size_of_node(self) -> NDArray[np.int64]:
        """The size of each training node's graph, [V]: as released, the graphs of one size are one batch."""
        return np.repeat(self.sets["train"].sizes, self.sets["train"].sizes)

    @cached_property
    def degrees(self) -> DegreeStatistics:
        """δ of equation 5 and the mean degree, over the nodes of the training set."""
        return DegreeStatistics.from_degrees(torch.from_numpy(self.sets["train"].degree))

    @cached_property
    def batched_degrees(self) -> DegreeStatistics:
        """D11: δ and the mean degree as means of the training batches' means, a batch for each size."""
        degree, size = torch.from_numpy(self.sets["train"].degree), self._size_of_node
        parts = [DegreeStatistics.from_degrees(degree[torch.from_numpy(size == N)]) for N in np.unique(size)]
        delta, mean_degree = np.mean([(part.delta, part.mean_degree) for part in parts], axis=0)
        return DegreeStatistics(float(delta), float(mean_degree))

    def baseline(
        self, graphs: GraphSet, units: NDArray[np.float32] | None = None, batched_mean: bool = False
    ) -> dict[str, float]:
        """Section 5.1's baseline: log10 of the MSE of predicting the training mean, per task, and their average.

        The error of a set is the mean over its batches, one per size, as in the released code.

        Args:
            graphs: the set to predict.
            units: what labels are divided by, [6]; this set's maxima unless others are asked for.
            batched_mean: whether the mean is that of D14.
        """
        units = self.maxima if units is None else units
        mean = torch.from_numpy((self.batched_mean if batched_mean else self.mean) * self.maxima / units)
        node, graph = mean.split([len(NODE_TASKS), len(GRAPH_TASKS)])
        errors = [
            torch.cat([((batch.y_node - node) ** 2).mean(dim=0), ((batch.y_graph - graph) ** 2).mean(dim=0)])
            for batch in replace(graphs, maxima=units).batches(len(graphs))
        ]
        log_mse = torch.stack(errors).mean(dim=0).log10()  # [sizes, 6] to [6]
        row = {task.name: float(error) for task, error in zip(TASKS, log_mse, strict=True)}
        return row | {"average": float(log_mse.mean())}


def make(spec: Spec, splits: Sequence[Split | RealSplit], seed: int = SEED, *, progress: bool = False) -> MultiTask:
    """Draw and label the graphs of all splits, one of which must be called "train"."""
    names = [split.name for split in splits]
    if len(set(names)) < len(names) or "train" not in names:
        raise ValueError(f"splits must have names that differ, 'train' among them; got {', '.join(names) or 'none'}")
    from tqdm import tqdm  # a dependency of PyTorch Geometric; only needed here

    with tqdm(total=sum(map(len, splits)), unit="graph", disable=not progress) as bar:
        sets = {split.name: make_split(spec, split, seed, report=bar.update) for split in splits}
    return MultiTask(spec, check_seed(seed), tuple(splits), sets)


def make_split(
    spec: Spec, split: Split | RealSplit, seed: int = SEED, report: Callable[[int], object] | None = None
) -> GraphSet:
    """Draw and label the graphs of one split, with maxima of 1; `report` is called with how many more are done."""
    if isinstance(split, RealSplit):
        graphs = graph_set(spec, split, seed)
        if report:
            report(len(graphs))
        return graphs
    parts = []
    for N in split.sizes:
        numbers = split.first + np.arange(split.per_size)
        for graph in np.array_split(numbers, -(-split.per_size * N * N // _CELLS)):
            parts.append(_make(spec, split, seed, N, graph))
            if report:
                report(len(graph))
    return GraphSet.joined(parts)


def make_graph(spec: Spec, split: Split, index: int, seed: int = SEED) -> GraphSet:
    """Make the index-th graph of a split alone: a set of one graph, with maxima of 1."""
    N, graph = split.locate(index)
    return _make(spec, split, seed, N, np.array([graph]))


def _make(spec: Spec, split: Split, seed: int, N: int, graph: NDArray[np.int64]) -> GraphSet:
    """Draw and label the graphs of N nodes that have the numbers `graph` [B]."""
    graphs = generate(spec, seed, split.role, N, graph, split.family)
    return GraphSet.of(graphs, *label(graphs, spec))
