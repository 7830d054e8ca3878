"""The networks of figure 6: an embedding, four layers, a sum or mean over the nodes of a graph, three more layers.

There are two exceptions among the quoted models: the MLPs have no embedding of numbers, and GIN adds up a linear map
of the sum over the nodes after every layer, and before the first.
"""

import itertools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from pna import segments
from pna.realworld.batches import PaddedBatch
from pna.realworld.data.datasets import Dataset
from pna.realworld.hyperparameters import LAYERS, TOWERS, Hyperparameters
from pna.realworld.layers import SimpleLayer, TowersLayer
from pna.realworld.quoted import QUOTED, Gated
from pna.scalers import DegreeStatistics

__all__ = ["Network"]


class Network(nn.Module):
    """The network of one model on one data set."""

    def __init__(self, model: Hyperparameters, data: Dataset, degrees: DegreeStatistics) -> None:
        super().__init__()
        self.mean, self.every_layer = model.readout == "mean", model.every_layer
        direct = model.layer.startswith("mlp") and not data.node_categories
        first = data.node_numbers if direct else model.hidden
        spread = model.layer == "pna" and not model.towers
        self.embedding = None if direct else embedding(data.node_categories, data.node_numbers, first, spread)
        self.edge_embedding = _edge_embedding(model, data)
        sizes = [first, *[model.hidden] * (LAYERS - 1), model.out]
        self.layers = nn.ModuleList(
            _layer(model, degrees, pair, last=k == LAYERS) for k, pair in enumerate(itertools.pairwise(sizes), start=1)
        )
        if self.every_layer:
            self.readout = nn.ModuleList(nn.Linear(size, data.outputs) for size in sizes)
        else:
            widths = [model.out, model.out // 2, model.out // 4, data.outputs]
            self.readout = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))

    def forward(self, batch: PaddedBatch, noise: Tensor | None = None) -> Tensor:
        """Predictions [B, outputs]; noise [layers, V, width] for dropout, none in evaluation."""
        x = batch.x if self.embedding is None else self.embedding(batch.x)
        steps = [x]
        for k, layer in enumerate(self.layers):
            x = layer(x, batch, self.edge_embedding, None if noise is None else noise[k])
            steps.append(x)
        if self.every_layer:
            return sum(linear(self._pooled(step, batch)) for linear, step in zip(self.readout, steps, strict=True))
        x = self._pooled(x.x if isinstance(x, Gated) else x, batch)
        *hidden, last = self.readout
        for layer in hidden:
            x = functional.relu(layer(x))
        return last(x)

    def _pooled(self, x: Tensor, batch: PaddedBatch) -> Tensor:
        x = segments.sum(x, batch.graph_ptr)[:-1]  # the last graph is padding
        return x / batch.nodes.clamp(min=1).unsqueeze(1) if self.mean else x


def _layer(model: Hyperparameters, degrees: DegreeStatistics, sizes: tuple[int, int], last: bool) -> nn.Module:
    if model.layer in QUOTED:
        return QUOTED[model.layer](sizes, last, model.edge_dim > 0)
    common = {"aggregators": model.aggregators, "scalers": model.scalers, "degrees": degrees, "p": model.dropout}
    if model.towers:
        return TowersLayer(sizes, **common, towers=TOWERS, edge_dim=model.edge_dim)
    return SimpleLayer(sizes, **common)


def _edge_embedding(model: Hyperparameters, data: Dataset) -> nn.Linear | None:
    if model.edge_dim > 0:
        return embedding(data.edge_categories, data.edge_numbers, model.edge_dim)
    return nn.Linear(1, model.hidden) if model.layer == "gatedgcn" else None  # every edge is 1 there


def embedding(categories: tuple[int, ...], numbers: int, features: int, spread: bool = False) -> nn.Linear:
    """A linear map of numbers, or a row for each category: standard normal, or Xavier-uniform by feature (`spread`)."""
    if not categories:
        return nn.Linear(numbers, features)
    layer = nn.Linear(sum(categories), features, bias=False)
    with torch.no_grad():
        for part in layer.weight.split(list(categories), dim=1):  # [features, categories]
            if spread:
                bound = math.sqrt(6 / sum(part.shape))
                part.uniform_(-bound, bound)
            else:
                part.normal_()
    return layer
