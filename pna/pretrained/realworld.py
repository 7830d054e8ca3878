"""A trained network of figure 6, and its predictions for one molecule or the superpixels of one image."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from pna.pretrained.graphs import check_nodes, edges_of
from pna.pretrained.trained import Trained
from pna.realworld.batches import DeviceSplit
from pna.realworld.data.graphs import Graph, Graphs, sort_by_target
from pna.realworld.data.molecules import molhiv_graph, zinc_graph

__all__ = ["RealWorldNetwork"]

_FROM_SMILES = {"zinc": zinc_graph, "molhiv": molhiv_graph}
_TARGETS = {"zinc": "constrained solubility", "molhiv": "probability of activity against HIV"}


class RealWorldNetwork(Trained):
    """Predicts constrained solubility (ZINC), activity against HIV (MolHIV), or an image's class (CIFAR10, MNIST)."""

    @property
    def target(self) -> str:
        """The predicted property in words."""
        return _TARGETS.get(self.run.dataset.name, "probability of class")

    @torch.no_grad()
    def predict(self, graph: str | Data) -> float | Tensor:
        """Predict ZINC's target, the probability of MolHIV's, or the probabilities of ten classes, [10].

        A molecule is a SMILES such as "CCO", which needs rdkit and for MolHIV ogb, or a Data. An image is a Data. This
        has the features of the data set: x [N, ·] (for an image, colours and position), edge_index [2, E] and
        edge_attr [E, ·].
        """
        data, model = self.run.dataset, self.run.model
        weight, one = next(self.parameters()), self._graph(graph)
        if len(one.source) == 0:
            nodes = "1 node" if len(one.x) == 1 else f"{len(one.x)} nodes"
            raise ValueError(f"graph must have an edge, got {nodes} and no edge")
        split = DeviceSplit(data, Graphs.of([one]), weight.device, weight.dtype)
        index = torch.zeros(1, dtype=torch.long, device=weight.device)
        with self.evaluating():
            output = self(split.batch(index, split.largest(1), edges=model.edge_dim > 0))[0].cpu()  # [outputs]
        if data.task == "classes":
            return output.softmax(0)
        return (output if data.task == "regression" else output.sigmoid()).item()

    def _graph(self, graph: str | Data) -> Graph:
        """Convert a SMILES or a Data to a graph of the data set, with all its features checked."""
        data = self.run.dataset
        if isinstance(graph, str):
            if data.superpixels:
                raise ValueError(f"graph must be a torch_geometric Data for {data.title}, got the text {graph!r}")
            try:
                return _FROM_SMILES[data.name]((graph, 0.0))
            except ModuleNotFoundError as error:
                words = f"a SMILES needs {error.name}, which is not installed"
                raise ImportError(f'{words}: pip install "pna[realworld]", in a clone ".[realworld]"') from error
        if not isinstance(graph, Data):
            allowed = "a torch_geometric Data" if data.superpixels else "a SMILES or a torch_geometric Data"
            raise TypeError(f"graph must be {allowed}, got {type(graph).__name__}")
        x = _rows("x", graph.x, data.node_categories, data.node_numbers)
        if len(x) == 0:
            raise ValueError("x must have a row for each node, got a graph without nodes")
        edges = edges_of(graph)
        check_nodes(edges, len(x))
        if self.run.model.edge_dim > 0:
            features = _rows("edge_attr", graph.edge_attr, data.edge_categories, data.edge_numbers)
            if len(features) != edges.shape[1]:
                raise ValueError(f"edge_attr must have a row for each of {edges.shape[1]} edges, got {len(features)}")
        else:
            features = np.zeros((edges.shape[1], 1), dtype=np.uint8)  # the network ignores them
        degree, source, order = sort_by_target(edges, len(x))
        return Graph(x, degree, source, features[order], 0.0)


def _rows(name: str, value: Tensor | None, categories: tuple[int, ...], numbers: int) -> NDArray:
    """Check features and convert them to the data set's type, [rows, features]."""
    width = len(categories) or numbers
    if value is None:
        raise ValueError(f"Data must have {name}, {width} a row; got none")
    rows = (
        value.cpu().numpy().reshape(len(value), math.prod(value.shape[1:]))
    )  # not -1, which is undefined for zero rows
    if rows.shape[1] != width:
        raise ValueError(f"{name} must have {width} {'number' if width == 1 else 'numbers'} a row, got {rows.shape[1]}")
    if not np.isfinite(rows).all():
        raise ValueError(f"{name} must be finite numbers")
    if not categories:
        return rows.astype(np.float32)
    if ((rows < 0) | (rows >= categories) | (rows != np.floor(rows))).any():
        raise ValueError(f"{name} must be categories, whole numbers from 0 and each less than {categories}")
    return rows.astype(np.uint8)
