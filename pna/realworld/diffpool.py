"""DiffPool (Ying et al., 2018), as implemented in the benchmark that the paper quotes (Dwivedi et al., March 2020).

Three GraphSage layers; then every node is assigned to k clusters, which become the nodes of a smaller graph (once:
equations 3 and 4 of DiffPool's paper); then three layers on that, the sum over the clusters, and a linear map. Facts of
that code (commit 7125b40 of github.com/graphdeeplearning/benchmarking-gnns) that are not what one would expect:

- The clusters of each of the 128 places in a batch have weights of their own: a node is mapped to 128 k numbers, which
  are scaled to length 1 and normalised together, and only the k of its graph's place are read. So a prediction depends
  on the place, and training and testing leave out a last batch that is not full. (Here, a graph that comes alone has
  the first place.) These weights are most of the parameters; with them there are exactly as many as published.
- The losses of link prediction and entropy are computed, but only those of a second pooling would be added, and there
  is none: the loss is that of the prediction alone. They are not computed here.
- Only the clusters are read out, and neighbours are averaged without a map of their own.
- The batch normalisation after pooling is over graphs and features, separately for each cluster. It is created in the
  first step, after the optimiser: its scale and shift are never learned, nor counted among the parameters.
- Weights start Xavier-uniform with gain √2, biases at 0.

The pooled adjacency has receivers as its rows, as DGL's documentation of that time says (later versions transpose it);
bonds are symmetric, but superpixels' edges are not. The benchmark's masked softmax adds 1e-13 to a sum of about 1/128,
which changes nothing in float32; it is left out.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from pna import segments
from pna.dispatch import aggregate
from pna.kernels.selection import kernels_for
from pna.networks import norm
from pna.products import Linear
from pna.realworld.batches import PaddedBatch
from pna.realworld.comparators import beside_mean
from pna.realworld.layers import BatchNorm, activated

__all__ = ["ClusterLayer", "ClusterNorm", "DiffPool", "SageLayer", "clusters", "initialise"]

RATIO = 0.15  # clusters per node of the largest graph
LARGEST = {"zinc": 37, "cifar10": 150, "mnist": 75}  # nodes of the largest graph of each data set


def clusters(data: str) -> int:
    """The number of clusters k of each graph of a data set."""
    return int(RATIO * LARGEST[data])


class SageLayer(nn.Module):
    """GraphSage layer before the pooling; the last has no ReLU, and the input is added if it has the output's size."""

    def __init__(self, sizes: tuple[int, int], last: bool = False) -> None:
        super().__init__()
        self.last, self.residual = last, sizes[0] == sizes[1]
        self.linear, self.norm = Linear(2 * sizes[0], sizes[1]), BatchNorm(sizes[1])

    def forward(self, x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None) -> Tensor:
        """Apply the layer to node features: [V, in] -> [V, out]."""
        both, x = beside_mean(x, batch.neighbourhoods)
        y = functional.normalize(self.linear(both), dim=1) if self.last else activated(both, self.linear, "unit")
        return self.norm(y, batch, batch.norm, residual=x if self.residual else None)


class DiffPool(nn.Module):
    """Pooling of each graph's nodes to k clusters, layers on these, and their sum: one row for each graph."""

    def __init__(self, sizes: tuple[int, int, int], k: int, places: int, layers: int) -> None:
        super().__init__()
        nodes, hidden, out = sizes
        self.k, self.places = k, places
        self.feature, self.feature_norm = Linear(2 * nodes, hidden), BatchNorm(hidden)
        self.assignment, self.assignment_norm = Linear(2 * nodes, places * k), BatchNorm(places * k)
        widths = [hidden] * (layers - 1) + [out]
        self.layers = nn.ModuleList(ClusterLayer((hidden, width), k) for width in widths)

    def forward(self, x: Tensor, batch: PaddedBatch) -> Tensor:
        """Pool and classify the graphs: node features [V, nodes] -> [B, out]."""
        h, A = self.pooled(x, batch)
        h = h / math.sqrt(self.k)  # 1/√n, the smaller graph having k nodes
        for layer in self.layers:
            h = layer(h, A, batch.valid)
        return h.sum(1)

    def pooled(self, x: Tensor, batch: PaddedBatch) -> tuple[Tensor, Tensor]:
        """The clusters' features Sᵀ Z, [B, k, hidden], and their adjacency Sᵀ A S, [B, k, k]."""
        both, _ = beside_mean(x, batch.neighbourhoods)
        Z = self.feature_norm(activated(both, self.feature, "unit"), batch)  # [V, hidden]
        S = self.assign(both, batch)  # [V, k]
        received = aggregate(batch.neighbourhoods, ("sum",), source=S).squeeze(-2)  # A S, [V, k]
        if kernels := kernels_for("pna.realworld.kernels.pool", S, Z, batch.joined):
            return kernels.pooled(S, Z, received, batch.joined.ptr, len(batch.valid))
        outer = S.unsqueeze(2) * torch.cat([Z, received], dim=1).unsqueeze(1)  # [V, k, hidden + k]
        total = segments.sum(outer.flatten(1), batch.graph_ptr, batch.joined)[:-1]  # the last graph is padding
        return total.unflatten(1, (self.k, -1)).split([Z.shape[1], self.k], dim=2)

    def assign(self, both: Tensor, batch: PaddedBatch) -> Tensor:
        """Assign every node to the clusters of its graph: [V, 2 · features] -> S [V, k], whose rows sum to one.

        both: the features of a node beside their mean over its neighbours.
        """
        B = len(batch.valid)
        if B > self.places:
            raise ValueError(f"batch must have at most {self.places} graphs, each place having its weights; got {B}")
        weight, norm = self.assignment.weight.unflatten(0, (self.places, self.k)), self.assignment_norm
        fused = self.training or not torch.is_grad_enabled()
        if fused and (kernels := kernels_for("pna.realworld.kernels.assignment", both, self.k, batch.joined)):
            rest = (norm.weight, norm.bias, norm.running_mean, norm.running_var), batch.count, batch.joined.ptr
            return kernels.assign(both, (weight, self.assignment.bias), *rest, B, self.training)
        logits = functional.relu(functional.normalize(self.assignment(both), dim=1))  # [V, places · k]
        logits = self.assignment_norm(logits, batch).unflatten(1, (self.places, self.k))
        place = torch.arange(B + 1, device=both.device).clamp(max=self.places - 1)  # of each graph, and of the padding
        place = segments.spread(place, batch.graph_ptr, len(both), batch.joined)  # of each node
        cluster_logits = logits.gather(1, place.view(-1, 1, 1).expand(-1, 1, self.k)).squeeze(1)
        return functional.softmax(cluster_logits, dim=1)


class ClusterLayer(nn.Module):
    """Layer on the clusters: ReLU of W (A h) scaled to length 1, plus an input of the same size, then the norm."""

    def __init__(self, sizes: tuple[int, int], k: int) -> None:
        super().__init__()
        self.residual = sizes[0] == sizes[1]
        self.linear, self.norm = Linear(*sizes), ClusterNorm(k)

    def forward(self, h: Tensor, A: Tensor, valid: Tensor) -> Tensor:
        """Apply the layer to the clusters: h [B, k, in], A [B, k, k] and valid [B] -> [B, k, out]."""
        received, features = (A @ h).flatten(0, 1), h.flatten(0, 1)  # [B · k, in]
        y = activated(received, self.linear, "unit", residual=features if self.residual else None)
        return self.norm(y.unflatten(0, h.shape[:2]), valid)


class ClusterNorm(norm.BatchNorm):
    """Batch normalisation of each cluster over the graphs and the features, without learnt scale and shift."""

    def __init__(self, k: int) -> None:
        super().__init__(k, affine=False)

    def forward(self, h: Tensor, valid: Tensor) -> Tensor:
        """Normalise: [B, k, F] -> [B, k, F]; valid [B]: 1 for a graph, 0 where there is none."""
        _, mean, var = self.moments(h, valid.view(-1, 1, 1), valid.sum() * h.shape[2])
        return (h - mean) * torch.rsqrt(var + norm.EPSILON)  # a new difference: its gradient is added in this order


def initialise(network: nn.Module) -> None:
    """Initialise all linear maps except the embedding of categories, the only one without a bias."""
    for layer in network.modules():
        if isinstance(layer, nn.Linear) and layer.bias is not None:
            nn.init.xavier_uniform_(layer.weight, gain=math.sqrt(2))
            nn.init.zeros_(layer.bias)
