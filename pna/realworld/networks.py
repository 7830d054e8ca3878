"""The networks of figure 6: an embedding, four layers, a sum or mean over the nodes of a graph, three more layers.

There are exceptions among the comparators. The MLPs do not embed numbers. GIN reads out the input and every layer, each
by a linear map of the sum over the nodes, and adds these up. ogb's two have five layers and one linear map. DiffPool
has three layers, pooling layers in place of the sum, and one linear map.
"""

import itertools
import math
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from pna import segments
from pna.degrees import DegreeStatistics
from pna.kernels.selection import kernels_for
from pna.products import Linear
from pna.realworld.batches import PaddedBatch
from pna.realworld.comparators import OGB, QUOTED, Gated
from pna.realworld.data.datasets import Dataset
from pna.realworld.diffpool import DiffPool, SageLayer, clusters, initialise
from pna.realworld.hyperparameters import TOWERS, Hyperparameters
from pna.realworld.layers import SimpleLayer, TowersLayer

__all__ = ["Network"]


class Network(nn.Module):
    """The network of one model on one data set."""

    def __init__(self, model: Hyperparameters, data: Dataset, degrees: DegreeStatistics) -> None:
        super().__init__()
        self.mean, self.head = model.readout == "mean", model.head
        direct = model.layer.startswith("mlp") and not data.node_categories
        first = data.node_numbers if direct else model.hidden
        self.embedding = None if direct else embedding(data.node_categories, data.node_numbers, first)
        self.edge_embedding = _edge_embedding(model, data)
        sizes = [first, *[model.hidden] * (model.layers - 1), model.out]
        pairs = list(itertools.pairwise(sizes))
        last = model.layers - 1
        self.layers = nn.ModuleList(_layer(model, data, degrees, pair, k == last) for k, pair in enumerate(pairs))
        if self.head == "network":
            pairs = list(itertools.pairwise([model.out, model.out // 2, model.out // 4, data.outputs]))
        else:
            pairs = [(size, data.outputs) for size in (sizes if self.head == "every layer" else sizes[-1:])]
        self.readout = nn.ModuleList(Linear(*pair) for pair in pairs)
        self.clusters = _clusters(model, data) if model.layer == "diffpool" else None
        if self.clusters is not None:
            initialise(self)

    def forward(self, batch: PaddedBatch, noise: Tensor | None = None) -> Tensor:
        """Predict the labels of the graphs, [B, outputs]; noise [layers, V, width] for dropout, None in evaluation."""
        x = batch.x if self.embedding is None else self.embedding(batch.x)
        if (combined := getattr(self.layers[0], "combined", None)) is not None:
            batch = replace(batch, scale=combined.factors(batch.neighbourhoods.degree))  # every layer has the same δ
        states = [x]  # before every layer and after the last
        for k, layer in enumerate(self.layers):
            x = layer(x, batch, self.edge_embedding, None if noise is None else noise[k])
            states.append(x)
        if self.head == "every layer":
            return sum(linear(self._pooled(state, batch)) for linear, state in zip(self.readout, states, strict=True))
        pooled = self._pooled if self.clusters is None else self.clusters
        x = pooled(x.x if isinstance(x, Gated) else x, batch)
        *hidden, last = self.readout
        for layer in hidden:
            x = functional.relu(layer(x))
        return last(x)

    def _pooled(self, x: Tensor, batch: PaddedBatch) -> Tensor:
        """Sum or average the nodes of each graph: [V, F] -> [B, F]."""
        if kernels := kernels_for("pna.realworld.kernels.readout", x, batch.joined):
            return kernels.readout(x, batch.joined, len(batch.valid), self.mean)
        x = segments.sum(x, batch.graph_ptr, batch.joined)[:-1]  # the last graph is padding
        return x / batch.nodes.clamp(min=1).unsqueeze(1) if self.mean else x


def _layer(
    model: Hyperparameters, data: Dataset, degrees: DegreeStatistics, sizes: tuple[int, int], last: bool
) -> nn.Module:
    """Build one layer of a model; sizes: features in and out."""
    if model.layer in QUOTED:
        return QUOTED[model.layer](sizes, last, model.edge_dim > 0)
    if model.layer == "diffpool":
        return SageLayer(sizes, last)
    if model.layer in OGB:
        return OGB[model.layer](sizes, last, embedding(data.edge_categories, 0, sizes[0]), model.dropout)
    common = {"aggregators": model.aggregators, "scalers": model.scalers, "degrees": degrees, "p": model.dropout}
    if model.towers:
        return TowersLayer(sizes, **common, towers=TOWERS, edge_dim=model.edge_dim)
    return SimpleLayer(sizes, **common)


def _clusters(model: Hyperparameters, data: Dataset) -> DiffPool:
    """Build DiffPool's pooling and the layers after it."""
    sizes = (model.out, model.hidden, model.out)
    return DiffPool(sizes, clusters(data.name), places=model.batch, layers=model.layers)


def _edge_embedding(model: Hyperparameters, data: Dataset) -> nn.Linear | None:
    """Build the embedding of edges that all layers share, if there is one; each of ogb's layers has its own."""
    if model.edge_dim > 0 and model.layer not in OGB:
        return embedding(data.edge_categories, data.edge_numbers, model.edge_dim)
    return Linear(1, model.hidden) if model.layer == "gatedgcn" else None  # without edge features every edge is 1 there


def embedding(categories: tuple[int, ...], numbers: int, features: int) -> nn.Linear:
    """Build a linear map of numbers, or of categories given as zeros and ones.

    The weights of one categorical feature start standard normal; those of several are Xavier-uniform, each for itself.
    """
    if not categories:
        return Linear(numbers, features)
    layer = Linear(sum(categories), features, bias=False)
    with torch.no_grad():
        for part in layer.weight.split(list(categories), dim=1):  # [features, categories]
            if len(categories) > 1:  # as in ogb
                bound = math.sqrt(6 / sum(part.shape))
                part.uniform_(-bound, bound)
            else:
                part.normal_()
    return layer
