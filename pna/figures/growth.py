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
FOLLOWED = ("pna", "mpnn-max", "mpnn-sum", "gin")  # in which a small change is followed too
LAYERS = 48  # ⌊N/2⌋ of the larger graphs
GRAPHS = 10  # of each size
SMALL_STEP = 1e-6  # of a change whose growth is followed, beside the features; in float64

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
    """A trained network as described, of PNA also as released: that of figure 5, or else that of figure 4."""
    from pna.pretrained import load, names  # which need PyTorch Geometric, as no other figure does

    here = set(names())
    for spec in SPECS if model == "pna" else ("described",):
        cells = [f"{training}/{spec}/{model}/16" for training in ("extrapolation", "multitask")]
        if cell := next((cell for cell in cells if cell in here), None):
            yield cell, load(cell).network.to(_dtype(model))


@dataclass(frozen=True)
class Growth:
    """A network's features on graphs of one size."""

    norm: Array  # [layers, graphs], the root mean square over nodes and features
    change: Array | None  # [layers, graphs], by how much a small change of the features grows in a layer
    degree: Array  # [graphs], the largest

    def quantile(self, share: float) -> Array:
        """Of the norm over graphs, layer by layer."""
        return np.quantile(self.norm, share, axis=1)

    @property
    def per_layer(self) -> Array:
        """By how much the norm grows in a layer, on average from the deepest of training to the last, [graphs]."""
        return (self.norm[-1] / self.norm[DEEPEST - 1]) ** (1 / (LAYERS - DEEPEST))

    @property
    def change_per_layer(self) -> Array:
        """By how much a small change grows in a layer, on average over the same layers, [graphs]."""
        return np.exp(np.log(self.change[DEEPEST:]).mean(axis=0))


def growths() -> dict[tuple[str, str, int], Growth]:
    """Of all kinds, by (model, cell, nodes); and of PNA without its amplification, on the larger graphs."""
    found = {}
    for model in KINDS:
        for cell, network in networks_of(model):
            spec = Cell.parse(cell).data_spec
            for size in SIZES:
                found[model, cell, size] = growth_of(network, spec, size, model in FOLLOWED)
            if model == "pna":
                found[CUT, cell, SIZES[-1]] = growth_of(without_amplification(network), spec, SIZES[-1], True)
    return found


@torch.no_grad()
def growth_of(network: nn.Module, spec: Spec, size: int, with_change: bool = False) -> Growth:
    """A network on the graphs of a size, layer by layer.

    A change is made small again after every layer (Benettin et al., 1980), and so turns into the direction that grows
    most: above 1, two states that differ a little part further and further.
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
    """A small change needs float64; the norm alone does not, and is found in half the time."""
    return torch.float64 if model in FOLLOWED else torch.float32


@cache
def graphs(spec: Spec, size: int, dtype: torch.dtype) -> GraphBatch:
    """Test graphs of one size."""
    splits = [Split("train", "train", (15,), 2), Split("test", "test", (size,), GRAPHS)]
    (batch,) = make(spec, splits)["test"].batches(GRAPHS)
    return GraphBatch.of(batch, dtype=dtype)


def without_amplification(network: nn.Module) -> nn.Module:
    """The same trained PNA with the amplification's factor set to 1 for every node: its weights go to the identity."""
    network = copy.deepcopy(network)
    for convolution in (network.GC_1, network.GC_m):
        combined, weight = convolution.conv.combined, convolution.conv.U[0].weight.data
        F = convolution.conv.F_in
        scaled = weight[..., F:].unflatten(-1, (len(combined.scalers), -1))  # a view: [towers, out, S, A·F]
        place = combined.scalers.index("amplification")
        scaled[..., combined.scalers.index("identity"), :] += scaled[..., place, :]
        scaled[..., place, :] = 0
    return network
