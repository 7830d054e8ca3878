"""Breadth-first search from every node of many graphs at once, with sets of nodes as bits."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ShortestPaths", "shortest_paths"]


@dataclass(frozen=True)
class ShortestPaths:
    """Shortest-path lengths over reachable nodes; an unreachable node counts as 0, as in the released code."""

    from_source: NDArray[np.int64]  # [B, N]
    eccentricity: NDArray[np.int64]  # [B, N]
    connected: NDArray[np.bool_]  # [B]


def shortest_paths(adjacency: NDArray[np.bool_], source: NDArray[np.int64]) -> ShortestPaths:
    """Search from every node of `adjacency`, [B, N, N]; `source`, [B], is the one whose distances are kept.

    After t steps a node's set holds the nodes within distance t: the union of its neighbours' sets of step t - 1.
    The steps in which it grows are its eccentricity; those in which the source is missing are its distance.
    """
    B, N = adjacency.shape[:2]
    neighbours = _Neighbourhoods(adjacency)
    reached = _singletons(B, N)  # [words, B N]
    nodes, source_of = np.arange(B * N), np.repeat(source, N)
    eccentricity = np.zeros(B * N, dtype=np.int64)
    distance = (nodes % N != source_of).astype(np.int64)
    active = np.arange(B)  # the graphs in which some set still grows
    while active.size:
        rows, starts, members = neighbours.of(active)
        grown = np.stack([np.bitwise_or.reduceat(word[members], starts) for word in reached])
        grows = (grown != reached[:, rows]).any(axis=0)
        reached[:, rows] = grown
        eccentricity[rows] += grows
        graph_grows = grows.reshape(-1, N).any(axis=1)
        distance[rows] += ~_holds(reached, rows, source_of[rows]) & np.repeat(graph_grows, N)
        active = active[graph_grows]
    has_source = _holds(reached, nodes, source_of)
    return ShortestPaths(
        from_source=np.where(has_source, distance, 0).reshape(B, N),
        eccentricity=eccentricity.reshape(B, N),
        connected=has_source.reshape(B, N).all(axis=1),
    )


class _Neighbourhoods:
    """The neighbours of every node as lists end to end; each list holds the node itself, so that none is empty."""

    def __init__(self, adjacency: NDArray[np.bool_]) -> None:
        B, self.N = adjacency.shape[:2]
        graph, row, member = np.nonzero(adjacency | np.eye(self.N, dtype=bool))
        self.members = graph * self.N + member
        self.length = np.bincount(graph * self.N + row, minlength=B * self.N)
        self.graphs = np.arange(B)

    def of(self, graphs: NDArray[np.int64]) -> tuple[NDArray, NDArray, NDArray]:
        """Keep these graphs only, and return their nodes, where each node's list starts, and the lists."""
        if len(graphs) < len(self.graphs):
            keep = np.repeat(np.isin(self.graphs, graphs, assume_unique=True), self.N)
            self.members, self.length = self.members[np.repeat(keep, self.length)], self.length[keep]
            self.graphs = graphs
        rows = (graphs[:, None] * self.N + np.arange(self.N)).ravel()
        return rows, np.cumsum(self.length) - self.length, self.members


def _holds(sets: NDArray[np.uint64], rows: NDArray[np.int64], node: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each row's set holds that row's node."""
    return (sets[node // 64, rows] >> (node % 64).astype(np.uint64)) & np.uint64(1) == 1


def _singletons(B: int, N: int) -> NDArray[np.uint64]:
    """The sets {0}, ..., {N - 1} of each graph as bits: [words, B N]."""
    node = np.arange(N)
    bits = np.where(node // 64 == np.arange(-(-N // 64))[:, None], np.uint64(1) << (node % 64).astype(np.uint64), 0)
    return np.tile(bits.astype(np.uint64), (1, B))
