"""Beyond Theorem 1, in numbers: where messages are piecewise linear, no number of channels helps.

`formal/piecewise_linear.v` proves that a PNA layer with linear or ReLU messages does not tell apart all multisets of
five or more reals, whatever its width, its scalers and U. Established here:
- the pair for a ReLU network with random weights, exactly over the rationals and in float64 (`thousand_aggregates`);
- how wide the linear pieces are, since the pair has to lie inside one. `pieces` finds those of a network R -> R^C;
  `linear_messages` says that M is linear in every trained PNA network of results/, so that in each layer the piece is
  the whole line; `trained_pieces` measures the next best thing, the message of the second layer as a function of a
  node's own input, which has passed the first layer's LeakyReLU.

What is not established: that a pair of a trained network's narrow piece occurs in data.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pna.towers import TowerLinear

__all__ = ["PAIR", "Network", "Pieces", "aggregates", "linear_messages", "pair_inside", "pieces", "thousand_aggregates",
           "trained_pieces"]  # fmt: skip

PAIR = ((0, 0, 3, 3, 4), (0, 1, 1, 4, 4))
"""One mean, variance, maximum and minimum, and so for every affine image."""
BOUND = 3
"""Pieces of random networks are looked for in [-BOUND, BOUND]."""


@dataclass(frozen=True)
class Network:
    """A ReLU network R -> R^C: x -> W_L ReLU(… ReLU(W_1 x + b_1) …) + b_L. Weights are dyadic rationals, so exact."""

    layers: tuple[tuple[NDArray, NDArray], ...]  # W [out, in] and b [out]

    @classmethod
    def random(cls, widths: Sequence[int], seed: int = 0) -> "Network":
        """Normal weights of variance 2/in and normal biases, in multiples of 1/1024."""
        generator = np.random.default_rng(seed)

        def normal(*shape: int, scale: float) -> NDArray:
            return np.round(generator.normal(size=shape) * scale * 1024) / 1024

        sizes = list(zip([1, *widths[:-1]], widths, strict=True))
        return cls(tuple((normal(m, k, scale=(2 / k) ** 0.5), normal(m, scale=1.0)) for k, m in sizes))

    def __call__(self, x: NDArray) -> NDArray:
        """The messages of elements x [n]: [n, C], in float64."""
        hidden = x[:, None]
        for place, (W, b) in enumerate(self.layers):
            hidden = (np.maximum(hidden, 0) if place else hidden) @ W.T + b
        return hidden

    def exactly(self, x: Fraction) -> list[Fraction]:
        """The messages of one element, [C]."""
        hidden = [x]
        for place, (W, b) in enumerate(self.layers):
            inputs = [max(h, Fraction(0)) for h in hidden] if place else hidden
            hidden = [
                sum((Fraction(w) * h for w, h in zip(row, inputs, strict=True)), Fraction(c))
                for row, c in zip(W, b, strict=True)
            ]
        return hidden


@dataclass(frozen=True)
class Pieces:
    """The ends of the linear pieces of an interval, in increasing order."""

    ends: NDArray

    @property
    def widths(self) -> NDArray:
        """The width of each piece."""
        return np.diff(self.ends)

    @property
    def widest(self) -> tuple[float, float]:
        """The ends of the widest piece."""
        k = int(np.argmax(self.widths))
        return float(self.ends[k]), float(self.ends[k + 1])

    def around(self, x: float) -> tuple[float, float]:
        """The ends of the piece that holds x."""
        k = min(max(int(np.searchsorted(self.ends, x)) - 1, 0), len(self.ends) - 2)
        return float(self.ends[k]), float(self.ends[k + 1])


def pieces(network: Network, low: float = -BOUND, high: float = BOUND) -> Pieces:
    """The pieces of [low, high] on which every unit of the network is affine, layer by layer."""
    ends = np.array([low, high])
    for depth in range(1, len(network.layers)):
        before = Network(network.layers[:depth])(ends)  # [ends, units]; affine between neighbours
        ends = np.unique(np.concatenate([ends, _crossings(ends, before)]))
    return Pieces(ends)


def _crossings(ends: NDArray, values: NDArray) -> NDArray:
    """Where a unit that is affine between neighbouring ends is 0; values: [ends, units]."""
    first, last = values[:-1], values[1:]
    crosses = first * last < 0
    share = first[crosses] / (first[crosses] - last[crosses])
    left, right = (np.broadcast_to(e[:, None], crosses.shape)[crosses] for e in (ends[:-1], ends[1:]))
    return left + share * (right - left)


def pair_inside(low: float, high: float) -> tuple[list[Fraction], list[Fraction]]:
    """The pair moved into [low, high], in dyadic numbers of at most 40 bits after the point."""
    step = Fraction(round((high - low) * 2**38 * 0.9), 2**40)
    start = Fraction(round((low + 0.05 * (high - low)) * 2**40), 2**40)
    return tuple([start + k * step for k in side] for side in PAIR)


def aggregates(messages: NDArray) -> NDArray:
    """Mean, standard deviation, maximum and minimum of each channel: [n, C] -> [4C]."""
    return np.concatenate([messages.mean(0), messages.std(0), messages.max(0), messages.min(0)])


@dataclass(frozen=True)
class Agreement:
    """Two multisets, how many aggregates of a network's messages there are, and how far they differ in float64.

    `difference` is the largest difference, as a share of the largest aggregate.
    """

    pair: tuple[list[Fraction], list[Fraction]]
    aggregates: int
    difference: float
    pieces: Pieces


def thousand_aggregates(widths: Sequence[int] = (32, 32, 256), seed: int = 0) -> Agreement:
    """Four aggregates of each channel of a random ReLU network on the pair in its widest piece.

    Raises ArithmeticError unless mean, variance, maximum and minimum of every channel agree exactly.
    """
    network = Network.random(widths, seed)
    found = pieces(network)
    pair = pair_inside(*found.widest)
    values = {x: network.exactly(x) for side in pair for x in set(side)}
    for channel in range(widths[-1]):
        first, second = (_four([values[x][channel] for x in side]) for side in pair)
        if first != second:
            raise ArithmeticError(f"channel {channel} tells the pair apart")
    first, second = (aggregates(network(np.array([float(x) for x in side]))) for side in pair)
    return Agreement(pair, len(first), float(np.abs(first - second).max() / np.abs(first).max()), found)


def _four(x: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Mean, sum of squared deviations, maximum and minimum of a multiset, exactly."""
    mu = sum(x) / len(x)
    return mu, sum((y - mu) ** 2 for y in x), max(x), min(x)


@cache
def linear_messages() -> dict[str, bool]:
    """Whether M is one linear layer, or absent, in every layer of each trained PNA network, by its name."""
    import pna
    from pna.pretrained import names

    return {name: _linear(pna.load(name)) for name in sorted(names()) if name.split("/")[2].startswith("pna")}


def _linear(network: torch.nn.Module) -> bool:
    """Whether each M among the modules is one linear map; MolHIV's simple layer has none, and aggregates features."""
    messages = [module.M for module in network.modules() if hasattr(module, "M")]
    layers = [list(M) if isinstance(M, torch.nn.Sequential) else [M] for M in messages]
    return all(len(M) == 1 and isinstance(M[0], torch.nn.Linear | TowerLinear) for M in layers)


@dataclass(frozen=True)
class TrainedPieces:
    """Kinks of the second layer's messages over the range [0, 1] of a node's brightness, for several nodes."""

    kinks: list[int]
    around: list[float]  # the width of the piece that holds the node's own brightness
    widest: list[float]


@cache
def trained_pieces(name: str = "mnist/released/pna/no-edges", nodes: int = 20, seed: int = 0) -> TrainedPieces:
    """The pieces of a trained superpixel network's second messages, at nodes of random graphs of its kind.

    A message of the second layer is linear in x + LeakyReLU(z), and z, before the first layer's activation, is affine
    in the node's own input while its neighbours stay; so two evaluations give every kink. The graphs have 75 nodes at
    uniform places with uniform brightness and their 8 nearest neighbours.
    """
    import pna

    network, draw = pna.load(name).eval(), random.Random(seed)
    colours = network.run.dataset.node_numbers - 2
    measured = TrainedPieces([], [], [])
    for k in range(nodes):
        x, edges = _graph(colours, seed * nodes + k)
        node = draw.randrange(len(x))
        own = float(x[node, 0])
        z = _pre_activation(network, x, edges, node)
        at_0, at_1, at_half = (z(t).double().numpy() for t in (0.0, 1.0, 0.5))
        if np.abs(at_half - (at_0 + at_1) / 2).max() > 1e-3 * max(1.0, np.abs(at_0 - at_1).max()):
            raise ArithmeticError("the pre-activation is not affine in the node's own input")
        found = Pieces(
            np.unique(np.concatenate([[0.0, 1.0], _crossings(np.array([0.0, 1.0]), np.stack([at_0, at_1]))]))
        )
        low, high = found.around(own)
        measured.kinks.append(len(found.ends) - 2)
        measured.around.append(high - low)
        measured.widest.append(float(found.widths.max()))
    return measured


def _graph(colours: int, seed: int, nodes: int = 75, neighbours: int = 8) -> tuple[Tensor, Tensor]:
    """Colours and places of the nodes, [75, colours + 2], and the edges from each node's nearest to it, [2, E]."""
    generator = torch.Generator().manual_seed(seed)
    place = torch.rand(nodes, 2, generator=generator)
    brightness = torch.rand(nodes, 1, generator=generator).expand(nodes, colours)
    nearest = torch.cdist(place, place).topk(neighbours + 1, largest=False).indices[:, 1:]  # without the node itself
    edges = torch.stack([nearest.flatten(), torch.arange(nodes).repeat_interleave(neighbours)])
    return torch.cat([brightness, place], dim=1), edges


def _pre_activation(network: torch.nn.Module, x: Tensor, edges: Tensor, node: int) -> Callable[[float], Tensor]:
    """What enters the first layer's activation at the node, [F], as a function of the node's brightness."""
    from torch_geometric.data import Data

    def z(brightness: float) -> Tensor:
        """The input of the first activation at the node, [F], if all its colours have this brightness."""
        moved, seen = x.clone(), []
        moved[node, : x.shape[1] - 2] = brightness
        hook = network.network.layers[0].mix.register_forward_hook(lambda *call: seen.append(call[-1]))
        try:
            network.predict(Data(x=moved, edge_index=edges))
        finally:
            hook.remove()
        return seen[0][node]

    return z
