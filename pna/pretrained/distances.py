"""Shortest paths of one large graph: as for the benchmark's small graphs, but quickly also where the paths are long.

pna.multitask.distances takes as many steps as the longest path has edges, and in each looks at every node from every
other. In a sparse graph with long paths few nodes are new in a step, and here only those are looked at.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pna.multitask.distances import ShortestPaths, shortest_paths
from pna.multitask.generate import Adjacencies

__all__ = ["OneGraph", "long_paths"]

LONG = 256  # edges of a path from the source to the farthest node
SPARSE = 8  # the mean degree of a graph that is searched from the new nodes alone
PAIRS = 1 << 22  # upper bound for the pairs of a start and a node that are looked at together


class OneGraph(Adjacencies):
    """A batch of one graph, with the shortest paths that Adjacencies has."""

    @cached_property
    def paths(self) -> ShortestPaths:
        """Shortest paths by the faster of two breadth-first searches."""
        (adjacency,), (source,) = self.adjacency, self.source
        edges, N = int(adjacency.sum()), len(adjacency)
        if edges <= SPARSE * N and _distances(*_lists(adjacency), np.array([source])).max() > LONG:
            return long_paths(adjacency, int(source))
        return shortest_paths(self.adjacency, self.source)


def long_paths(adjacency: NDArray[np.bool_], source: int) -> ShortestPaths:
    """Search from every node of a sparse graph, [N, N], a part of the nodes at a time."""
    N, lists = len(adjacency), _lists(adjacency)
    together = max(1, PAIRS // (N + len(lists[0])))
    parts = [np.arange(k, min(k + together, N)) for k in range(0, N, together)]
    eccentricity = np.concatenate([_distances(*lists, starts).max(axis=1) for starts in parts])
    (from_source,) = _distances(*lists, np.array([source]))
    return ShortestPaths(
        from_source=np.maximum(from_source, 0)[None],
        eccentricity=eccentricity[None],
        connected=np.array([(from_source >= 0).all()]),
    )


def _lists(adjacency: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The neighbours of every node as lists end to end; where each begins, and its length."""
    row, neighbours = np.nonzero(adjacency)
    length = np.bincount(row, minlength=len(adjacency))
    return neighbours, np.cumsum(length) - length, length


def _distances(
    neighbours: NDArray[np.int64], begin: NDArray[np.int64], length: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The distance from each of S starts to each of N nodes, -1 to those out of reach: [S, N]."""
    N = len(length)
    distance = np.full(len(starts) * N, -1, dtype=np.int32)
    new = np.arange(len(starts)) * N + starts  # places of `distance`: pairs of a start and a node
    step = 0
    while new.size:
        distance[new] = step
        node = new % N
        count = length[node]
        ends = np.cumsum(count)
        within = np.arange(ends[-1]) - np.repeat(ends - count, count)
        beside = np.repeat(new - node, count) + neighbours[np.repeat(begin[node], count) + within]
        new = np.unique(beside[distance[beside] < 0])
        step += 1
    return distance.reshape(-1, N)
