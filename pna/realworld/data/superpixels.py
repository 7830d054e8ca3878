"""The edges of a superpixel graph, from the positions of its nodes (Dwivedi et al., Benchmarking GNNs, first version).

The affinity of two nodes at distance d is exp(-(d/σ_i)²), σ_i being the mean distance of node i to its eight nearest,
made symmetric by averaging. Node i sends to eight of the nine nodes of greatest affinity: all but the one that numpy's
partition leaves in the last place, which depends on the order of the nodes. The published order is a random one and
is not known, so here too the nodes are put in a random order for this; the graphs are the published ones in
distribution, not edge by edge.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pna.realworld.data.graphs import sort_by_target
from pna.realworld.data.introselect import last_after_partition

__all__ = ["NEIGHBOURS", "SCALE", "Superpixels", "affinity", "dropped", "edges", "edges_together"]

NEIGHBOURS = 8
SCALE = 2048  # positions are kept as pixels times this
TOGETHER = 512  # images on a device, whose affinities take 92 MB
OF_ONE_SIZE = 32  # images on a processor, whose affinities stay in its cache


class Superpixels(NamedTuple):
    """The nodes of one image."""

    position: NDArray[np.uint16]  # [n, 2] in pixels times SCALE
    side: int  # of the image in pixels
    number: int  # of the graph: seeds the order of its nodes
    dropped: NDArray[np.uint8] | None = None  # [n], once known


def affinity(position: NDArray[np.uint16], side: int) -> NDArray[np.float64]:
    """The symmetric affinities [..., n, n] of nodes at position [..., n, 2], 0 on the diagonal."""
    row, column = np.moveaxis(position.astype(np.float64) / (SCALE * side), -1, 0)  # [..., n] each
    d = np.sqrt(sum(np.square(c[..., :, None] - c[..., None, :]) for c in (row, column)))
    nearest = np.partition(d, NEIGHBOURS, axis=-1)[..., : NEIGHBOURS + 1]  # the node itself among them, at distance 0
    sigma = np.sort(nearest, axis=-1).sum(-1) / NEIGHBOURS + 1e-8
    A = np.exp(-np.square(d / sigma[..., None]))
    A = (A + np.swapaxes(A, -1, -2)) / 2
    diagonal = np.arange(A.shape[-1])
    A[..., diagonal, diagonal] = 0
    return A


def dropped(images: Sequence[Superpixels]) -> list[NDArray[np.uint8]]:
    """For each image, which of its nine nearest each node goes without: [n], 0 being the nearest."""
    places = defaultdict(list)  # of the images, by their number of nodes
    for k, image in enumerate(images):
        places[_checked(image)].append(k)
    ranks: dict[int, NDArray[np.uint8]] = {}
    for same in places.values():
        for some in (same[k : k + OF_ONE_SIZE] for k in range(0, len(same), OF_ONE_SIZE)):
            ranks |= zip(some, _dropped([images[k] for k in some]), strict=True)
    return [ranks[k] for k in range(len(images))]


def _dropped(images: Sequence[Superpixels]) -> NDArray[np.uint8]:
    """Compute `dropped` for g images of one size: [g, n]."""
    rank = _rank(affinity(np.stack([image.position for image in images]), images[0].side))  # [g, n, n]
    g, n = rank.shape[:2]
    counter = np.array([[image.number] for image in images], np.uint64) * np.uint64(256) + np.arange(n, dtype=np.uint64)
    order = np.argsort(_hash(counter))  # [g, n]
    shuffled = np.take_along_axis(rank, order[:, None], 2).reshape(g * n, n)
    last = last_after_partition(shuffled, n - NEIGHBOURS - 2)
    return (shuffled > last[:, None]).sum(1).astype(np.uint8).reshape(g, n)


def edges(image: Superpixels) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float16]]:
    """The edges of one image: in-degree [n], source [8n] sorted by target, and affinity [8n, 1]."""
    n = _checked(image)
    A = affinity(image.position, image.side)
    rank = _rank(A)
    nine = np.argpartition(rank, n - NEIGHBOURS - 1, axis=1)[:, n - NEIGHBOURS - 1 :]
    nearest_first = np.argsort(-np.take_along_axis(rank, nine, 1), axis=1)
    nine = np.take_along_axis(nine, nearest_first, 1)  # [n, 9]
    without = dropped([image])[0] if image.dropped is None else image.dropped
    target = nine[np.arange(NEIGHBOURS + 1) != without[:, None]]  # [8n]
    source = np.repeat(np.arange(n), NEIGHBOURS)
    degree, sorted_source, order = sort_by_target(np.stack([source, target]), n)
    return degree, sorted_source, A[source, target][order].astype(np.float16)[:, None]


def edges_together(
    nodes: NDArray[np.uint8], position: NDArray[np.uint16], without: NDArray[np.uint8], side: int, device: str
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float16]]:
    """The edges of many images, made on a device, as `edges` makes them: nodes [G], position [V, 2], dropped [V]."""
    parts, ends = [], np.cumsum(nodes, dtype=np.int64)
    for first in range(0, len(nodes), TOGETHER):
        n = torch.from_numpy(nodes[first : first + TOGETHER].astype(np.int64))
        rows = slice(ends[first] - nodes[first], ends[first + len(n) - 1])
        c, d = (torch.from_numpy(t[rows].astype(np.int64)).to(device) for t in (position, without))
        parts.append([t.cpu().numpy() for t in _edges_of_some(n.to(device), c.double() / (SCALE * side), d)])
    degree, source, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    return degree, source, weight.astype(np.float16)[:, None]  # numpy rounds once, torch by way of float32


def _edges_of_some(n: Tensor, c: Tensor, without: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The edges of g images by target: n [g], c [V, 2], dropped [V] -> degree [V], source [8V] (bytes), weight [8V]."""
    N = int(n.max())
    column = torch.arange(N, device=n.device)
    real = column < n.unsqueeze(1)  # [g, N]
    placed = c.new_zeros(len(n), N, 2)
    placed[real] = c
    d = (placed.unsqueeze(2) - placed.unsqueeze(1)).square().sum(-1).sqrt()  # [g, N, N]
    both = real.unsqueeze(2) & real.unsqueeze(1)
    nearest = d.masked_fill(~both, torch.inf).topk(NEIGHBOURS + 1, largest=False).values  # in increasing order
    sigma = nearest.sum(-1, keepdim=True) / NEIGHBOURS + 1e-8
    A = torch.exp(-(d / sigma).square())
    A = ((A + A.mT) / 2).masked_fill(torch.eye(N, dtype=torch.bool, device=n.device), 0)
    rank = (A * 2**40).round().long() * 256 + (n.view(-1, 1, 1) - 1 - column)
    nine = rank.masked_fill(~both, -1).topk(NEIGHBOURS + 1).indices[real]  # [V, 9], the nearest first
    chosen = torch.arange(NEIGHBOURS + 1, device=n.device) != without.unsqueeze(1)
    target = nine[chosen].view(-1, NEIGHBOURS)  # [V, 8]
    graph, source = (t.unsqueeze(1).expand_as(target) for t in real.nonzero().unbind(1))
    received = (graph * N + target).flatten()
    order = (received * N + source.flatten()).argsort()
    degree = torch.bincount(received, minlength=real.numel())[real.flatten()]
    return degree.byte(), source.flatten()[order].byte(), A[graph, source, target].flatten()[order]


def _checked(image: Superpixels) -> int:
    """Number of nodes of an image, checked to have enough neighbours and to fit in a byte."""
    n = len(image.position)
    if not NEIGHBOURS + 1 < n <= 255:
        raise ValueError(f"a superpixel graph must have {NEIGHBOURS + 2} to 255 nodes, got {n}")
    return n


def _rank(A: NDArray[np.float64]) -> NDArray[np.int64]:
    """The affinities as distinct integers: those that differ by rounding only go by node, the same on any machine."""
    return np.round(A * 2**40).astype(np.int64) * 256 + np.arange(A.shape[-1])[::-1]


def _hash(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Turn a counter into 64 random bits (SplitMix64: Steele, Lea and Flood, 2014)."""
    z = (z + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
