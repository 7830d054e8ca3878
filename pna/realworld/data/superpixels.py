"""The edges of a superpixel graph, from the positions of its nodes (Dwivedi et al., Benchmarking GNNs, first version).

The affinity of two nodes at distance d is exp(-(d/σ_i)²), σ_i being the mean distance of node i to its eight nearest,
made symmetric by averaging. Node i sends to eight of the nine nodes of greatest affinity: all but the one that numpy's
partition leaves in the last place, which depends on the order of the nodes. The published order is a random one and
is not known, so here too the nodes are put in a random order for this; the graphs are the published ones in
distribution, not edge by edge.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pna.realworld.data.graphs import sort_by_target
from pna.realworld.data.introselect import introselect

__all__ = ["NEIGHBOURS", "SCALE", "Superpixels", "affinity", "dropped", "edges"]

NEIGHBOURS = 8
SCALE = 2048  # positions are kept as pixels times this


class Superpixels(NamedTuple):
    """The nodes of one image."""

    position: NDArray[np.uint16]  # [n, 2] in pixels times SCALE
    side: int  # of the image in pixels
    number: int  # of the graph: seeds the order of its nodes
    dropped: NDArray[np.uint8] | None = None  # [n], once known


def affinity(position: NDArray[np.uint16], side: int) -> NDArray[np.float64]:
    """The symmetric affinities [n, n], 0 on the diagonal."""
    c = position.astype(np.float64) / (SCALE * side)
    d = np.sqrt(((c[:, None] - c[None]) ** 2).sum(-1))
    nearest = np.partition(d, NEIGHBOURS, axis=1)[:, : NEIGHBOURS + 1]  # the node itself among them, at distance 0
    sigma = np.sort(nearest, axis=1).sum(1) / NEIGHBOURS + 1e-8
    A = np.exp(-np.square(d / sigma[:, None]))
    A = (A + A.T) / 2
    np.fill_diagonal(A, 0)
    return A


def dropped(image: Superpixels) -> NDArray[np.uint8]:
    """Which of its nine nearest each node goes without, [n], 0 being the nearest."""
    n = _checked(image)
    rank = _rank(affinity(image.position, image.side))
    order = np.argsort(_hash(np.uint64(image.number) * np.uint64(256) + np.arange(n, dtype=np.uint64)))
    shuffled = rank[:, order]
    last = introselect(shuffled, n - NEIGHBOURS - 2)[:, -1:]
    return (shuffled > np.take_along_axis(shuffled, last, 1)).sum(1).astype(np.uint8)


def edges(image: Superpixels) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float16]]:
    """In-degree [n], source [8n] sorted by target, and affinity [8n, 1] of the edges."""
    n = _checked(image)
    A = affinity(image.position, image.side)
    rank = _rank(A)
    nine = np.argpartition(rank, n - NEIGHBOURS - 1, axis=1)[:, n - NEIGHBOURS - 1 :]
    nearest_first = np.argsort(-np.take_along_axis(rank, nine, 1), axis=1)
    nine = np.take_along_axis(nine, nearest_first, 1)  # [n, 9]
    without = dropped(image) if image.dropped is None else image.dropped
    target = nine[np.arange(NEIGHBOURS + 1) != without[:, None]]  # [8n]
    source = np.repeat(np.arange(n), NEIGHBOURS)
    degree, sorted_source, order = sort_by_target(np.stack([source, target]), n)
    return degree, sorted_source, A[source, target][order].astype(np.float16)[:, None]


def _checked(image: Superpixels) -> int:
    n = len(image.position)
    if not NEIGHBOURS + 1 < n <= 255:
        raise ValueError(f"a superpixel graph must have {NEIGHBOURS + 2} to 255 nodes, got {n}")
    return n


def _rank(A: NDArray[np.float64]) -> NDArray[np.int64]:
    """The affinities as distinct integers: those that differ by rounding only go by node, the same on any machine."""
    return np.round(A * 2**40).astype(np.int64) * 256 + np.arange(len(A))[::-1]


def _hash(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64 random bits of a counter (SplitMix64: Steele, Lea and Flood, 2014)."""
    z = (z + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
