"""How many convolutions a graph gets, M = f(graph) of section 3: the paper has ⌊N/2⌋, and leaves the rest open."""

from collections.abc import Callable
from typing import NamedTuple

from pna.networks.batch import GraphBatch
from pna.networks.kernels.tiles import Each

__all__ = ["DEEPEST", "DEPTHS", "Depth", "Each", "Until", "depth_named"]

DEEPEST = 12  # that ⌊N/2⌋ is in training, on graphs of 15 to 24 nodes


class Until(NamedTuple):
    """Each graph ends when no feature of its nodes has moved by `threshold` in a layer, at the latest after `most`."""

    threshold: float
    most: int


Depth = Callable[[GraphBatch], int | Each | Until]

DEPTHS: dict[str, Depth] = {
    "N/2": lambda batch: batch.N // 2,
    "N": lambda batch: batch.N,
    "cap": lambda batch: min(batch.N // 2, DEEPEST),
    "diameter": lambda batch: Each(batch.diameter.clamp(min=1), batch.widest),
}


def depth_named(name: str) -> Depth:
    """A rule of DEPTHS, a number of layers for every graph, or convergence:THRESHOLD with at most N layers."""
    if name in DEPTHS:
        return DEPTHS[name]
    if name.isascii() and name.isdecimal() and 0 < int(name) <= 10_000:
        return lambda batch: int(name)
    rule, colon, threshold = name.partition(":")
    if rule == "convergence" and colon:
        try:
            return _until(float(threshold))
        except ValueError:
            pass
    raise ValueError(
        f"depth must be one of {', '.join(DEPTHS)}, a number of layers from 1 to 10000, or convergence:THRESHOLD with "
        f"a positive threshold, as convergence:0.01; got {name!r}"
    )


def _until(threshold: float) -> Depth:
    if not 0 < threshold < float("inf"):
        raise ValueError
    return lambda batch: Until(threshold, batch.N)
