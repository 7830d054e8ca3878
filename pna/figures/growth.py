"""Why depth hurts: how the features of trained networks grow from layer to layer, in training's depth and beyond.

Measured on the networks that come with the package, the best seed of each cell, on random graphs as large as the
largest of training and four times as large.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pna.departures import SPECS
from pna.experiments import Cell
from pna.multitask import Spec, Split, make
from pna.networks import GraphBatch
from pna.networks.depths import DEEPEST

__all__ = ["CUT", "KINDS", "LAYERS", "SIZES", "Growth", "growth_of", "growths", "without_amplification"]

SIZES = (24, 96)  # nodes
FOLLOWED = ("pna", "mpnn-max", "mpnn-sum", "gin")  # models in which a small change is followed as well
LAYERS = 48  # ⌊N/2⌋ of the larger graphs
GRAPHS = 10  # graphs of each size
SMALL_STEP = 1e-6  # the size of a change relative to the features, in float64

CUT = "pna without amplification"

KINDS: dict[str, str] = {
    "pna": "PNA",
    "pna-no-scalers": "PNA, no scalers",
    "mean-max-min": "mean, max & min,\nno scalers",
    "moments-1": "mean, scalers",
    "moments-2": "mean & std,\nscalers",
    "mpnn-max": "MPNN (max)",
    "mpnn-sum": "MPNN (sum)",
    "gin": "GIN",
    "gcn": "GCN",
    "gat": "GAT",
}
"""The aggregators and scalers for which trained networks come with the package, by model."""

Array = NDArray[np.float64]


def networks_of(model: str) -> Iterator[tuple[str, nn.Module]]:
    """The trained networks of a model as described, and of PNA as released: figure 5's or else figure 4's."""
    from pna.pretrained import load, names  # which need PyTorch Geometric, as no other figure does

    here = set(names())
    for spec in SPECS if model == "pna" else ("described",):
        cells = [f"{training}/{spec}/{model}/16" for training in ("extrapolation", "multitask")]
        if cell := next((cell for cell in cells if cell in here), None):
            yield cell, load(cell).network.to(_dtype(model))


@dataclass(frozen=True)
class Growth:
    """A network's features on graphs of one size."""

    norm: Array  # [layers, graphs], root mean square over nodes and features
    change: Array | None  # [layers, graphs], factor by which a small change of the features grows
    degree: Array  # [graphs], largest degree

    def quantile(self, share: float) -> Array:
        """A quantile of the norm over graphs, layer by layer, [layers]."""
        return np.quantile(self.norm, share, axis=1)

    @property
    def per_layer(self) -> Array:
        """The factor by which the norm grows per layer, from the deepest of training to the last, [graphs]."""
        return (self.norm[-1] / self.norm[DEEPEST - 1]) ** (1 / (LAYERS - DEEPEST))

    @property
    def change_per_layer(self) -> Array:
        """The factor by which a small change grows per layer, over the layers of `per_layer`, [graphs]."""
        return np.exp(np.log(self.change[DEEPEST - 1 :]).mean(axis=0))


def growths() -> dict[tuple[str, str, int], Growth]:
    """The growth in networks of all kinds, by (model, cell, nodes); PNA without amplification on large graphs alone."""
    by_size = {}
    for model in KINDS:
        for cell, network in networks_of(model):
            spec = Cell.parse(cell).data_spec
            for size in SIZES:
                by_size[model, cell, size] = growth_of(network, spec, size, model in FOLLOWED)
            if model == "pna":
                by_size[CUT, cell, SIZES[-1]] = growth_of(without_amplification(network), spec, SIZES[-1], True)
    return by_size


@torch.no_grad()
def growth_of(network: nn.Module, spec: Spec, size: int, with_change: bool = False) -> Growth:
    """The growth of a network's features on graphs of one size, layer by layer.

    A change is made small again after every layer (Benettin et al., 1980), and so turns into the direction that grows
    most: with a factor above 1, two states that differ slightly drift further and further apart.
    """
    network = network.eval()
    batch = graphs(spec, size, next(network.parameters()).dtype)
    states = [network._gated(functional.pad(batch.x, (0, network.hidden - 2)), network.GC_1(batch.x, batch))]
    change, factors = torch.rand(states[0].shape, generator=torch.Generator().manual_seed(0)).to(batch.x) - 0.5, []
    for _ in range(LAYERS - 1):
        x = states[-1]
        states.append(network._gated(x, network.GC_m(x, batch)))
        if with_change:
            step = batch.to_nodes(SMALL_STEP * _norm(x, batch) / _norm(change, batch).clamp(min=1e-300)) * change
            change = network._gated(x + step, network.GC_m(x + step, batch)) - states[-1]
            factors.append((_norm(change, batch) / _norm(step, batch)).nan_to_num(0.0).clamp(min=1e-3))  # if it is gone
    degree = batch.by_graph(batch.neighbourhoods.degree).amax(dim=(1, 2)).double()
    norm = torch.stack([_norm(x, batch) for x in states]).double()
    return Growth(norm.numpy(), torch.stack(factors).numpy() if with_change else None, degree.numpy())


def _norm(x: Tensor, batch: GraphBatch) -> Tensor:
    """The root mean square of each graph's features, [graphs]."""
    return batch.by_graph(x).square().mean(dim=(1, 2)).sqrt()


def _dtype(model: str) -> torch.dtype:
    """The precision of a model's run: a small change needs float64; without one, float32 takes half the time."""
    return torch.float64 if model in FOLLOWED else torch.float32


@cache
def graphs(spec: Spec, size: int, dtype: torch.dtype) -> GraphBatch:
    """Test graphs of one size."""
    splits = [Split("train", "train", (15,), 2), Split("test", "test", (size,), GRAPHS)]
    (batch,) = make(spec, splits)["test"].batches(GRAPHS)
    return GraphBatch.of(batch, dtype=dtype)


def without_amplification(network: nn.Module) -> nn.Module:
    """A copy of a trained PNA whose amplification is 1 for every node: its weights are added to the identity's."""
    network = copy.deepcopy(network)
    for convolution in (network.GC_1, network.GC_m):
        combined, weight = convolution.conv.combined, convolution.conv.U[0].weight.data
        F = convolution.conv.F_in
        scaled = weight[..., F:].unflatten(-1, (len(combined.scalers), -1))  # a view: [towers, out, S, A·F]
        place = combined.scalers.index("amplification")
        scaled[..., combined.scalers.index("identity"), :] += scaled[..., place, :]
        scaled[..., place, :] = 0
    return network
