"""How many convolutions a graph gets, M = f(graph) of section 3: the paper has ⌊N/2⌋, and leaves the rest open."""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import torch
from torch import Tensor

from pna.networks.batch import GraphBatch
from pna.networks.kernels.tiles import Each, Until

__all__ = ["DEEPEST", "DEPTHS", "Depth", "Each", "Until", "capped", "depth_named", "varied"]

DEEPEST = 12  # that ⌊N/2⌋ is in training, on graphs of 15 to 24 nodes

Depth = Callable[[GraphBatch], int | Each | Until]  # by functions with names, so that a network can be pickled


def _half(batch: GraphBatch) -> int:
    return batch.N // 2


def _whole(batch: GraphBatch) -> int:
    return batch.N


def _diameter(batch: GraphBatch) -> Each:
    return Each(batch.diameter.clamp(min=1), batch.widest)


def _number(layers: int, batch: GraphBatch) -> int:
    return layers


def _until(threshold: float, batch: GraphBatch) -> Until:
    return Until(threshold, batch.N)


def _at_most(most: int, depth: Depth, batch: GraphBatch) -> int | Each | Until:
    own = depth(batch)
    if isinstance(own, int):
        return min(own, most)
    if isinstance(own, Each):
        return Each(own.layers.clamp(max=most), min(own.most, most))
    return own._replace(most=min(own.most, most))


DEPTHS: dict[str, Depth] = {
    "N/2": _half,
    "N": _whole,
    "cap": partial(_at_most, DEEPEST, _half),  # of a network that was trained with N/2
    "diameter": _diameter,
}


def depth_named(name: str) -> Depth:
    """A rule of DEPTHS, a number of layers for every graph, or convergence:THRESHOLD with at most N layers."""
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
    """The same, with at most so many layers."""
    return partial(_at_most, most, depth)


def varied(batch: GraphBatch, epoch: Tensor) -> Each:
    """⌊N/2⌋ layers and up to ⌊N/4⌋ more or fewer, each number as likely, for each graph anew in every epoch.

    A number is a hash of epoch, size and place in the batch, and so the same for all seeds, as batches are, and after
    every resumption. It is computed where the epoch is counted, on the device: an epoch that is recorded and replayed
    draws anew each time.
    """
    N, word = batch.N, 0xFFFFFFFF
    x = (epoch * 64 + N) * 1024 + torch.arange(batch.G, device=epoch.device)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):  # of 32 bits, each of which moves all others
        x = (x & word) ^ ((x & word) >> shift)
        x = x * factor
    return Each(N // 2 - N // 4 + (x & word) % (2 * (N // 4) + 1), N // 2 + N // 4)
