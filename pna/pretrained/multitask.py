"""A trained network of the multi-task benchmark, and its predictions for one graph."""

import warnings
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import networkx as nx
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch_geometric.data import Data

from pna.multitask import TASKS, GraphSet, Spec, Split, make
from pna.multitask.generate import Adjacencies
from pna.multitask.labels import GRAPH_TASKS, NODE_TASKS, label
from pna.multitask.real import RealSplit
from pna.networks import GraphBatch
from pna.pretrained.graphs import one_graph
from pna.pretrained.prediction import Prediction
from pna.pretrained.structure import warning_of
from pna.pretrained.trained import Trained
from pna.training.run import Run

__all__ = ["MultiTaskNetwork", "SingleTaskEnsemble"]

_DIAMETER = [task.name for task in GRAPH_TASKS].index("diameter")


class SingleTaskEnsemble(nn.Module):
    """Six networks, each trained on one task, which predict one task each."""

    def __init__(self, networks: Sequence[nn.Module], tasks: Sequence[int]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(network for _, network in sorted(zip(tasks, networks, strict=True)))

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Node predictions [V, 3] and graph predictions [G, 3]."""
        parts = self.networks[: len(NODE_TASKS)], self.networks[len(NODE_TASKS) :]
        nodes, graphs = ([network(batch)[k][:, i] for i, network in enumerate(part)] for k, part in enumerate(parts))
        return torch.stack(nodes, dim=1), torch.stack(graphs, dim=1)


class MultiTaskNetwork(Trained):
    """Predicts six properties of a graph; trained on random graphs of a few sizes, or on real ones.

    `depth` is the rule for the number of layers; None for an architecture with a fixed number.
    """

    def __init__(
        self, network: nn.Module, run: Run, seeds: Sequence[int], validation: Tensor, depth: str | None = None
    ) -> None:
        super().__init__(network, run, seeds, validation)
        self.depth = depth

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of nodes of the training graphs."""
        return self._train.sizes

    @property
    def maxima(self) -> NDArray[np.float32]:
        """The largest training label of each task, [6], which are the units of the network's raw outputs."""
        return _maxima(self.run.cell.data_spec, self._train)

    @property
    def _deepest(self) -> int | None:
        """The largest number of layers, if `depth` caps it; else None."""
        return self.run.training.deepest if self.depth == "cap" else None

    @property
    def _train(self) -> Split | RealSplit:
        """Split that the network was trained on."""
        return self.run.splits_of(self.run.training.collection)[0]

    @torch.no_grad()
    def predict(self, graph: nx.Graph | Data, source: Hashable = None, x: ArrayLike | None = None) -> Prediction:
        """Predict six properties of an undirected graph, beside their true values; edge weights are ignored.

        Warns if the graph is unlike those of the training, or if the network has a large error on real graphs of its
        size, degrees and diameter.

        Parameters
        ----------
        graph
            A networkx graph, or a Data with every edge in both directions.
        source
            The node at which shortest paths start. By default that of Data.x in the benchmark's form, else the first.
        x
            The feature of each node, [N], that the Laplacian is applied to. By default that of Data.x, else random
            numbers from [0, 1), the same in every call.
        """
        nodes, adjacencies = one_graph(graph, source, x)
        spec = self.run.cell.data_spec
        labelled = GraphSet.of(adjacencies, *label(adjacencies, spec))  # in their own units
        outside = tuple(self._outside(adjacencies, float(labelled.graph_labels[0, _DIAMETER])))
        for words in outside:
            warnings.warn(words, stacklevel=3)  # past no_grad, where the caller is
        (batch,) = replace(labelled, maxima=self.maxima).batches(1)
        weight = next(self.parameters())
        with self.evaluating():
            outputs = self(GraphBatch.of(batch, weight.device, weight.dtype))
        predicted = [column.cpu().numpy() for part in outputs for column in part.double().T]  # [N] or [1] for each task
        true = [*labelled.node_labels.T, *labelled.graph_labels.T]
        return Prediction(
            cell=self.cell,
            seeds=self.seeds,
            nodes=nodes,
            edges=int(adjacencies.adjacency.sum()) // 2,
            source=nodes[int(adjacencies.source[0])],
            predicted=_by_task([y * unit for y, unit in zip(predicted, self.maxima.tolist(), strict=True)]),
            true=_by_task(true),
            bipartite_counts_as_unconnected=spec.connected == "released",
            outside=outside,
        )

    def _outside(self, graphs: Adjacencies, diameter: float) -> Iterator[str]:
        """The ways in which a graph is unlike those of the training, or hard for the network, a sentence each."""
        N, low, high = graphs.x.shape[1], min(self.sizes), max(self.sizes)
        if not low <= N <= high:
            trained = f"{low} to {high}" if low < high else str(low)
            yield (
                f"the graph has {N} nodes, and {self.cell} was trained on graphs of {trained}: "
                "errors grow outside that range, and quickly for larger graphs"
            ) + (f"; its layers stay at most {self._deepest}, as in training" if N > high and self._deepest else "")
        if words := warning_of(self.cell, self.depth, graphs.adjacency[0], diameter):
            yield words
        if isinstance(self._train, RealSplit) and not graphs.paths.connected.all():
            yield f"the graph is not connected, and all training graphs of {self.cell} were: it knows no other answer"
        if isolated := int((~graphs.adjacency[0].any(axis=1)).sum()):
            yield f"the graph has {isolated} isolated node{'s' * (isolated > 1)}, and no training graph had any"
        if not ((graphs.x >= 0) & (graphs.x <= 1)).all():
            yield "x has numbers outside [0, 1], from which the features of the training graphs were drawn"


def _by_task(columns: Sequence[NDArray]) -> dict[str, NDArray]:
    """Predictions by the name of the task: an array [N] for a node task, a number for a graph task."""
    pairs = zip(TASKS, columns, strict=True)
    return {task.name: column if task in NODE_TASKS else column[0] for task, column in pairs}


@lru_cache
def _maxima(spec: Spec, train: Split | RealSplit) -> NDArray[np.float32]:
    """The largest labels of a training set, which is generated again in a second or less."""
    return make(spec, [train]).maxima
