"""Depth rules: how many convolutions a graph gets, M = f(graph) in section 3.

The paper uses ⌊N/2⌋ and leaves other rules open. A rule maps a batch to a number of layers for all of its graphs, to
one for each (Each), or to a criterion by which each graph stops on its own (Until).
"""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from pna.networks.batch import GraphBatch

__all__ = ["DEEPEST", "DEPTHS", "Depth", "Each", "Until", "capped", "depth_named", "varied"]

DEEPEST = 12  # ⌊N/2⌋ of the largest training graphs, which have 24 nodes


class Each(NamedTuple):
    """A number of layers for each graph, [G], none of them above `most`."""

    layers: Tensor
    most: int

    @property
    def threshold(self) -> None:
        """No threshold: the numbers are known beforehand."""


class Until(NamedTuple):
    """A graph stops once no feature of its nodes changes by `threshold` or more in a layer, at the latest at `most`."""

    threshold: float
    most: int

    @property
    def layers(self) -> None:
        """No numbers of layers: they turn out as the network runs."""


Depth = Callable[[GraphBatch], int | Each | Until]  # named functions, so that a network can be pickled


def _half(batch: GraphBatch) -> int:
    """The paper's rule, ⌊N/2⌋ layers."""
    return batch.N // 2


def _whole(batch: GraphBatch) -> int:
    """As many layers as nodes."""
    return batch.N


def _diameter(batch: GraphBatch) -> Each:
    """As many layers as the diameter of each graph, at least one."""
    return Each(batch.diameter.clamp(min=1), batch.widest)


def _number(layers: int, batch: GraphBatch) -> int:
    """A fixed number of layers."""
    return layers


def _until(threshold: float, batch: GraphBatch) -> Until:
    """Layers until convergence, at most as many as nodes."""
    return Until(threshold, batch.N)


def _at_most(most: int, depth: Depth, batch: GraphBatch) -> int | Each | Until:
    """The depths of another rule, limited to `most` layers."""
    value = depth(batch)
    if isinstance(value, int):
        return min(value, most)
    if isinstance(value, Each):
        return Each(value.layers.clamp(max=most), min(value.most, most))
    return value._replace(most=min(value.most, most))


DEPTHS: dict[str, Depth] = {
    "N/2": _half,
    "N": _whole,
    "cap": partial(_at_most, DEEPEST, _half),  # for a network trained with N/2
    "diameter": _diameter,
}


def depth_named(name: str) -> Depth:
    """Return the rule of this name: one of DEPTHS, a number of layers, or convergence:THRESHOLD, at most N layers."""
    if name in DEPTHS:
        return DEPTHS[name]
    if name.isascii() and name.isdecimal() and 0 < int(name) <= 10_000:
        return partial(_number, int(name))
    rule, colon, threshold = name.partition(":")
    if rule == "convergence" and colon:
        with suppress(ValueError):
            if 0 < float(threshold) < math.inf:
                return partial(_until, float(threshold))
    raise ValueError(
        f"depth must be one of {', '.join(DEPTHS)}, a number of layers from 1 to 10000, or convergence:THRESHOLD with "
        f"a positive threshold, as convergence:0.01; got {name!r}"
    )


def capped(depth: Depth, most: int) -> Depth:
    """Limit a rule to at most `most` layers."""
    return partial(_at_most, most, depth)


def varied(batch: GraphBatch, epoch: Tensor) -> Each:
    """Draw a depth for each graph, uniformly from ⌊N/2⌋ - ⌊N/4⌋ to ⌊N/2⌋ + ⌊N/4⌋; epoch: a counter, [].

    The draw is a hash of the epoch, the size and the graph's place in the batch. So it is the same for all seeds, as
    the batches are, and after every resumption. It is computed on the device from the counter: a recorded epoch that is
    replayed draws new depths each time.
    """
    N, word = batch.N, 0xFFFFFFFF
    x = (epoch * 64 + N) * 1024 + torch.arange(batch.G, device=epoch.device)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):  # each of the 32 bits affects all others
        x = (x & word) ^ ((x & word) >> shift)
        x = x * factor
    return Each(N // 2 - N // 4 + (x & word) % (2 * (N // 4) + 1), N // 2 + N // 4)
