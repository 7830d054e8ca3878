"""DiffPool (Ying et al., 2018), as the benchmark has it that the paper quotes (Dwivedi et al., March 2020).

Three GraphSage layers; then every node is shared out among k clusters, which become the nodes of a smaller graph (once:
equations 3 and 4 of DiffPool's paper); then three layers on that, the sum over the clusters, and a linear map. Facts of
that code (commit 7125b40 of github.com/graphdeeplearning/benchmarking-gnns) that are not what one would expect:

- The clusters of each of the 128 places in a batch have weights of their own: a node is mapped to 128 k numbers, which
  are brought to length 1 and normalised together, and only the k of its graph's place are read. So a prediction depends
  on the place, and training and testing leave out a last batch that is not full. (Here, a graph that comes alone has
  the first place.) These weights are most of the parameters, which with them are exactly as many as published.
- The losses of link prediction and entropy are computed, but only those of a second pooling would be added, and there
  is none: the loss is that of the prediction alone. Here they are not computed.
- Only the clusters are read out, and neighbours are averaged without a map of their own.
- The batch normalisation after pooling is over graphs and features, each cluster for itself. It is made in the first
  step, when the optimiser has its list already: it is never scaled or shifted, nor counted among the parameters.
- Weights start Xavier-uniform with gain √2, biases at 0.

The pooled adjacency has receivers as its rows, as DGL's documentation of that time has it (later versions turned it
round); bonds go both ways, but superpixels do not. The benchmark's masked softmax adds 1e-13 to a sum of about 1/128,
which float32 does not see; it is left out.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from pna import segments
from pna.dispatch import aggregate
from pna.kernels.selection import kernels_for
from pna.products import Linear
from pna.realworld.batches import PaddedBatch
from pna.realworld.comparators import beside_mean
from pna.realworld.layers import BatchNorm, activated

__all__ = ["ClusterLayer", "ClusterNorm", "DiffPool", "SageLayer", "clusters", "initialise"]

RATIO = 0.15  # of the clusters to the nodes of the largest graph
LARGEST = {"zinc": 37, "cifar10": 150, "mnist": 75}


def clusters(data: str) -> int:
    """Those of each graph of a data set, k."""
    return int(RATIO * LARGEST[data])


class SageLayer(nn.Module):
    """A GraphSage layer before the pooling: the last is without ReLU; the input is added if it has the same size."""

    def __init__(self, sizes: tuple[int, int], last: bool = False) -> None:
        super().__init__()
        self.last, self.residual = last, sizes[0] == sizes[1]
        self.linear, self.norm = Linear(2 * sizes[0], sizes[1]), BatchNorm(sizes[1])

    def forward(self, x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None) -> Tensor:
        """[V, in] -> [V, out]."""
        both, x = beside_mean(x, batch.neighbourhoods)
        y = functional.normalize(self.linear(both), dim=1) if self.last else activated(both, self.linear, "unit")
        return self.norm(y, batch, batch.norm, residual=x if self.residual else None)


class DiffPool(nn.Module):
    """From the nodes to one row for each graph, by k clusters and the layers on them."""

    def __init__(self, sizes: tuple[int, int, int], k: int, places: int, layers: int) -> None:
        super().__init__()
        nodes, hidden, out = sizes
        self.k, self.places = k, places
        self.feature, self.feature_norm = Linear(2 * nodes, hidden), BatchNorm(hidden)
        self.assignment, self.assignment_norm = Linear(2 * nodes, places * k), BatchNorm(places * k)
        widths = [hidden] * (layers - 1) + [out]
        self.layers = nn.ModuleList(ClusterLayer((hidden, width), k) for width in widths)

    def forward(self, x: Tensor, batch: PaddedBatch) -> Tensor:
        """[V, nodes] -> [B, out]."""
        h, A = self.pooled(x, batch)
        h = h / math.sqrt(self.k)  # 1/√n of the smaller graph
        for layer in self.layers:
            h = layer(h, A, batch.valid)
        return h.sum(1)

    def pooled(self, x: Tensor, batch: PaddedBatch) -> tuple[Tensor, Tensor]:
        """The clusters' features Sᵀ Z, [B, k, hidden], and their adjacency Sᵀ A S, [B, k, k]."""
        both, _ = beside_mean(x, batch.neighbourhoods)
        Z = self.feature_norm(activated(both, self.feature, "unit"), batch)  # [V, hidden]
        S = self.shares(both, batch)  # [V, k]
        received = aggregate(batch.neighbourhoods, ("sum",), source=S).squeeze(-2)  # A S, [V, k]
        if kernels := kernels_for("pna.realworld.kernels.pool", S, Z, batch.joined):
            return kernels.pooled(S, Z, received, batch.joined.ptr, len(batch.valid))
        outer = S.unsqueeze(2) * torch.cat([Z, received], dim=1).unsqueeze(1)  # [V, k, hidden + k]
        total = segments.sum(outer.flatten(1), batch.graph_ptr, batch.joined)[:-1]  # the last graph is padding
        return total.unflatten(1, (self.k, -1)).split([Z.shape[1], self.k], dim=2)

    def shares(self, both: Tensor, batch: PaddedBatch) -> Tensor:
        """S, how every node is shared out among the clusters of its graph: [V, 2 nodes] -> [V, k]."""
        B = len(batch.valid)
        if B > self.places:
            raise ValueError(f"batch must have at most {self.places} graphs, each place having its weights; got {B}")
        weight, norm = self.assignment.weight.unflatten(0, (self.places, self.k)), self.assignment_norm
        fused = self.training or not torch.is_grad_enabled()
        if fused and (kernels := kernels_for("pna.realworld.kernels.assignment", both, self.k, batch.joined)):
            rest = (norm.weight, norm.bias, norm.running_mean, norm.running_var), batch.count, batch.joined.ptr
            return kernels.shares(both, (weight, self.assignment.bias), *rest, B, self.training)
        logits = functional.relu(functional.normalize(self.assignment(both), dim=1))  # [V, places · k]
        logits = self.assignment_norm(logits, batch).unflatten(1, (self.places, self.k))
        place = torch.arange(B + 1, device=both.device).clamp(max=self.places - 1)  # of a graph; padding's is any
        place = segments.spread(place, batch.graph_ptr, len(both), batch.joined)  # of a node
        own = logits.gather(1, place.view(-1, 1, 1).expand(-1, 1, self.k)).squeeze(1)
        return functional.softmax(own, dim=1)


class ClusterLayer(nn.Module):
    """A layer on the clusters: ReLU of W (A h) at length 1, the input added if it has the same size, normalisation."""

    def __init__(self, sizes: tuple[int, int], k: int) -> None:
        super().__init__()
        self.residual = sizes[0] == sizes[1]
        self.linear, self.norm = Linear(*sizes), ClusterNorm(k)

    def forward(self, h: Tensor, A: Tensor, valid: Tensor) -> Tensor:
        """h [B, k, in], A [B, k, k] and valid [B] -> [B, k, out]."""
        received, own = (A @ h).flatten(0, 1), h.flatten(0, 1)  # [B · k, in]
        y = activated(received, self.linear, "unit", residual=own if self.residual else None)
        return self.norm(y.unflatten(0, h.shape[:2]), valid)


class ClusterNorm(nn.Module):
    """Batch normalisation of each cluster over the graphs and the features, neither scaled nor shifted."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(k))
        self.register_buffer("running_var", torch.ones(k))

    def forward(self, h: Tensor, valid: Tensor) -> Tensor:
        """[B, k, F] -> [B, k, F]; valid [B] is zero where there is no graph."""
        mean, var = self._of(h, valid) if self.training else (self.running_mean, self.running_var)
        return (h - mean.unsqueeze(1)) * torch.rsqrt(var + 1e-5).unsqueeze(1)

    def _of(self, h: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of a batch, [k] each, which also move the running ones."""
        graphs, count = valid.view(-1, 1, 1), valid.sum() * h.shape[2]
        mean = (h * graphs).sum((0, 2)) / count
        var = ((h - mean.unsqueeze(1)).square() * graphs).sum((0, 2)) / count
        with torch.no_grad():
            self.running_mean.mul_(0.9).add_(mean, alpha=0.1)
            self.running_var.mul_(0.9).add_(count / (count - 1).clamp(min=1) * var, alpha=0.1)
        return mean, var


def initialise(network: nn.Module) -> None:
    """Draws all linear maps, but not the embedding of categories, which is the one without a bias."""
    for layer in network.modules():
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            nn.init.xavier_uniform_(layer.weight, gain=math.sqrt(2))
            nn.init.zeros_(layer.bias)
