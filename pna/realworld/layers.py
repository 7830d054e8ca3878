"""The layers of the real-world networks, for padded batches: the PNA layer with towers, and MolHIV's simple one.

Written with elementary operations for one network; torch.func.vmap makes many replicas of it.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from pna.arguments import divisible
from pna.combined import CombinedAggregation
from pna.degrees import DegreeStatistics
from pna.dispatch import aggregate
from pna.fused import split
from pna.kernels.selection import kernels_for
from pna.networks import norm
from pna.networks.layers import initialise
from pna.networks.specification import RELEASED
from pna.products import Linear, linear
from pna.realworld.batches import PaddedBatch
from pna.towers import TowerLinear

__all__ = ["BatchNorm", "SimpleLayer", "TowersLayer", "activated", "dropout"]

# The activations that each kernel has: after batch normalisation, and after a linear map.
AFTER_NORM = {"relu": functional.relu, "elu": functional.elu}
AFTER_LINEAR = {
    "leaky": functional.leaky_relu,
    "relu": functional.relu,
    "unit": lambda y: functional.relu(functional.normalize(y, dim=1)),  # GraphSage's: rows are scaled to length 1
}


class BatchNorm(norm.BatchNorm):
    """Batch normalisation over the real nodes of a padded batch, with the operations that mostly follow it."""

    def forward(
        self,
        x: Tensor,
        batch: PaddedBatch,
        factor: Tensor | None = None,
        activation: str | None = None,
        residual: Tensor | None = None,
        noise: Tensor | None = None,
        p: float = 0.0,
    ) -> Tensor:
        """Normalise x, or factor · x, over the real nodes, [V, F] -> [V, F]; then activate, add and drop out.

        factor: [V, 1], 0 for padding. activation: a name in AFTER_NORM. residual: [V, F], added to the result. noise:
        uniform numbers in [0, 1), at least as wide as x; features whose noise is below p are dropped.
        """
        rows = batch.real if factor is None else factor
        tensors, running = (x, rows, batch.count, self.weight, self.bias), (self.running_mean, self.running_var)
        fused = self.training or (noise is None and not torch.is_grad_enabled())
        if fused and (kernels := kernels_for("pna.realworld.kernels.norm", *tensors)):
            then = kernels.Then(activation, residual, noise, p)
            if self.training:
                return kernels.normalise(*tensors, running, then)
            return kernels.evaluate(x, rows, self.weight, self.bias, running, then)
        centred, _, var = self.moments(x if factor is None else x * factor, batch.real, batch.count)
        y = centred * (torch.rsqrt(var + norm.EPSILON) * self.weight) + self.bias
        y = y if activation is None else AFTER_NORM[activation](y)
        return dropout(y if residual is None else residual + y, p, noise)


def activated(x: Tensor, layer: nn.Linear, kind: str, residual: Tensor | None = None) -> Tensor:
    """Apply a linear map and an activation of AFTER_LINEAR, and add the residual: [V, in] -> [V, out]."""
    if kernels := kernels_for("pna.realworld.kernels.activation", x, layer.weight, layer.bias):
        return kernels.activated(linear(x, layer.weight, None), layer.bias, kind, residual)
    y = AFTER_LINEAR[kind](layer(x))
    return y if residual is None else residual + y


def dropout(x: Tensor, p: float, noise: Tensor | None) -> Tensor:
    """Set numbers to zero with probability p, and scale the others by 1/(1 - p).

    noise: uniform in [0, 1), at least as wide as x; without it nothing is dropped.
    """
    if noise is None or p == 0:
        return x
    return x * (noise[:, : x.shape[1]] >= p).to(x.dtype) / (1 - p)


class TowersLayer(nn.Module):
    """Equations 7 and 8 with linear M and U, in the layer of the released code.

    Per tower: U, times 1/√n, batch normalisation, dropout. Then the mixing layer with LeakyReLU, and the input is added
    if it has the size of the output. Each tower takes an equal part of the input features.

    There is one difference from PyTorch Geometric's layer with edge features: M takes the embedded edge as it is, where
    theirs first encodes it to the size of the node features.
    """

    def __init__(
        self,
        sizes: tuple[int, int],
        aggregators: Sequence[str],
        scalers: Sequence[str],
        degrees: DegreeStatistics,
        towers: int,
        edge_dim: int = 0,
        p: float = 0.0,
    ) -> None:
        super().__init__()
        self.towers, self.p = towers, p
        self.F = divisible("hidden", sizes[0], towers)
        self.combined = CombinedAggregation(aggregators, scalers, degrees)
        self.M = TowerLinear(towers, 2 * self.F + edge_dim, self.F)  # takes x_i, x_j and the embedded e_ij
        self.U = TowerLinear(towers, (1 + self.combined.width) * self.F, divisible("out", sizes[1], towers))
        self.norm = BatchNorm(sizes[1])
        self.mix = Linear(sizes[1], sizes[1])
        self.residual = sizes[0] == sizes[1]
        for layer in (self.M, self.U, self.mix):
            initialise(layer.weight, RELEASED, layer.bias)

    def forward(self, x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None) -> Tensor:
        """Apply the layer to node features: x [V, in] -> [V, out].

        embedding: linear map of the edge features; noise: for dropout, or None.
        """
        graph, names = batch.neighbourhoods, self.combined.aggregators
        if kernels := kernels_for("pna.realworld.kernels.towers", x, names, graph):
            y = self._by_kernels(kernels.towers, x, batch, embedding)  # [V, out]
        else:
            h = x.unflatten(1, (self.towers, self.F))  # [V, T, F]
            edge = None if embedding is None else batch.edge
            y = split(h, h, graph, [self.M], self.U, self.combined, edge, embedding, scale=batch.scale).flatten(1)
        y = self.norm(y, batch, batch.norm, noise=noise, p=self.p)  # [V, out]
        residual = x if self.residual else None
        return activated(y, self.mix, "leaky", residual)

    def _by_kernels(
        self, towers: Callable[..., Tensor], x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None
    ) -> Tensor:
        """Equation 8 by the kernels, [V, in] -> [V, out]."""
        W, edge = self.M.weight, None
        if embedding is not None:
            W, W3 = W.split([2 * self.F, W.shape[-1] - 2 * self.F], dim=-1)
            edge = (batch.edge, W3, embedding)
        scale = None if self.combined.scalers == ("identity",) else batch.scale
        parts = ((W, self.M.bias), (self.U.weight, self.U.bias))
        return towers(x, *parts, scale, edge, self.combined.aggregators, batch.neighbourhoods)


class SimpleLayer(nn.Module):
    """MolHIV's layer: U of the scaled aggregates, batch normalisation, ReLU, plus the input, dropout."""

    def __init__(
        self,
        sizes: tuple[int, int],
        aggregators: Sequence[str],
        scalers: Sequence[str],
        degrees: DegreeStatistics,
        p: float = 0.0,
    ) -> None:
        super().__init__()
        self.p = p
        self.combined = CombinedAggregation(aggregators, scalers, degrees)
        self.U = TowerLinear(1, self.combined.width * sizes[0], sizes[1])
        self.norm = BatchNorm(sizes[1])
        self.residual = sizes[0] == sizes[1]
        initialise(self.U.weight, RELEASED, self.U.bias)

    def forward(self, x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None) -> Tensor:
        """Apply the layer to node features: [V, in] -> [V, out]. This layer does not use edge features."""
        graph = batch.neighbourhoods
        aggregates = aggregate(graph, self.combined.aggregators, source=x.unsqueeze(1))  # [V, 1, A, in]
        y = (self.combined.mapped(aggregates, graph.degree, self.U.weight, batch.scale) + self.U.bias).squeeze(1)
        return self.norm(y, batch, activation="relu", residual=x if self.residual else None, noise=noise, p=self.p)
