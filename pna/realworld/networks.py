"""The networks of figure 6: an embedding, four layers, a sum or mean over the nodes of a graph, three more layers."""

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
from pna.scalers import DegreeStatistics

__all__ = ["Network"]


class Network(nn.Module):
    """The network of one model on one data set."""

    def __init__(self, model: Hyperparameters, data: Dataset, degrees: DegreeStatistics) -> None:
        super().__init__()
        self.mean = model.readout == "mean"
        self.embedding = embedding(data.node_categories, data.node_numbers, model.hidden, spread=not model.towers)
        edges = model.edge_dim > 0
        self.edge_embedding = embedding(data.edge_categories, data.edge_numbers, model.edge_dim) if edges else None
        sizes = [*[model.hidden] * LAYERS, model.out]
        common = {"aggregators": model.aggregators, "scalers": model.scalers, "degrees": degrees, "p": model.dropout}
        kind = (TowersLayer, {"towers": TOWERS, "edge_dim": model.edge_dim}) if model.towers else (SimpleLayer, {})
        self.layers = nn.ModuleList(kind[0](pair, **common, **kind[1]) for pair in itertools.pairwise(sizes))
        self.readout = nn.ModuleList(
            nn.Linear(a, b) for a, b in itertools.pairwise([model.out, model.out // 2, model.out // 4, data.outputs])
        )

    def forward(self, batch: PaddedBatch, noise: Tensor | None = None) -> Tensor:
        """Predictions [B, outputs]; noise [layers, V, width] for dropout, none in evaluation."""
        x = self.embedding(batch.x)
        for k, layer in enumerate(self.layers):
            x = layer(x, batch, self.edge_embedding, None if noise is None else noise[k])
        x = segments.sum(x, batch.graph_ptr)[:-1]  # the last graph is padding
        if self.mean:
            x = x / batch.nodes.clamp(min=1).unsqueeze(1)
        *hidden, last = self.readout
        for layer in hidden:
            x = functional.relu(layer(x))
        return last(x)


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
