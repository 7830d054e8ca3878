"""The ten families of random graphs (appendix G, "Random graph generation"), before toggling and shuffling.

A generator gives the adjacency matrices of as many graphs as its draws have, [B, N, N], symmetric with an empty
diagonal. Where networkx has the family, the distribution is networkx's. Five families are trees, for which a
generator only says each node's parent.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pna.multitask.powerlaw import tree_degrees
from pna.multitask.random_numbers import Draws

__all__ = ["FAMILIES", "Family", "family_named"]

Adjacency = NDArray[np.bool_]  # [B, N, N]


def erdos_renyi(draws: Draws, N: int) -> Adjacency:
    """Erdős–Rényi graphs: each edge is present with probability p, and p ~ U[0, 1] for each graph."""
    p = draws.uniform(1)  # [B, 1]
    return from_pairs(draws.uniform(N * (N - 1) // 2) < p, N)


def barabasi_albert(draws: Draws, N: int) -> Adjacency:
    """Barabási–Albert graphs: a new node brings k edges to nodes chosen by degree; k uniform on {1, ..., N - 1}.

    The first k + 1 nodes are a star. The k nodes with the least E_j / d_j, where E_j ~ Exp(1), are a sample without
    repetition in which the chance of each next node is proportional to its degree d_j: no rejection is needed.
    """
    k = draws.integers(1, N)  # [B, 1]
    adjacency = np.zeros((len(draws), N, N), dtype=bool)
    adjacency[:, 0, 1] = adjacency[:, 1, 0] = True
    degree = np.ones((len(draws), N))  # of the nodes before `new`
    E = from_pairs(-np.log1p(-draws.uniform(N * (N - 1) // 2)), N)  # [B, N, N]: row `new` is for that node's choice
    for new in range(2, N):
        key = E[:, new, :new] / degree[:, :new]
        chosen = np.zeros((len(draws), new), dtype=bool)
        np.put_along_axis(chosen, key.argsort(axis=1), np.arange(new) < k, axis=1)
        chosen[k[:, 0] >= new] = np.arange(new) == 0  # still in the star
        adjacency[:, new, :new] = adjacency[:, :new, new] = chosen
        degree[:, :new] += chosen
        degree[:, new] = chosen.sum(axis=1)
    return adjacency


def grid(draws: Draws, N: int) -> Adjacency:
    """An m x k grid with N = mk, as square as possible: a line where N is prime."""
    row, column = np.divmod(np.arange(N), N // _rows(N))
    steps = np.abs(row[:, None] - row) + np.abs(column[:, None] - column)
    return _copies(steps == 1, draws)


def caveman(draws: Draws, N: int) -> Adjacency:
    """A caveman graph: m cliques of size k with N = mk, as square as possible, so one clique where N is prime."""
    cave = np.arange(N) // (N // _rows(N))
    return _copies((cave[:, None] == cave) & ~np.eye(N, dtype=bool), draws)


def ladder(draws: Draws, N: int) -> Adjacency:
    """A ladder of floor(N / 2) rungs; for odd N the last node hangs on node 0, as in the released code."""
    half = N // 2
    adjacency = np.zeros((N, N), dtype=bool)
    first = np.arange(half)
    for start, end in ((first, first + half), (first[:-1], first[1:]), (first[:-1] + half, first[1:] + half)):
        adjacency[start, end] = True
    if N % 2:
        adjacency[0, N - 1] = True
    return _copies(adjacency | adjacency.T, draws)


def line(draws: Draws, N: int) -> Adjacency:
    """A path of N nodes."""
    return _from_parents(np.tile(np.arange(N) - 1, (len(draws), 1)))


def star(draws: Draws, N: int) -> Adjacency:
    """A star of one centre and N - 1 leaves."""
    return _from_parents(np.zeros((len(draws), N), dtype=np.int64))


def tree(draws: Draws, N: int) -> Adjacency:
    """A tree with power-law degrees of exponent 3, built as networkx builds it from the degrees.

    networkx puts the inner nodes on a path, by ascending degree, and hangs the leaves on them: its random power-law
    tree is a caterpillar.
    """
    degree = np.sort(tree_degrees(draws, N), axis=1)  # [B, N]
    inner = (degree > 1).sum(axis=1, keepdims=True)  # [B, 1]; the path is 0, ..., inner + 1
    leaves = np.cumsum(np.maximum(degree - 2, 0), axis=1)  # hung on the inner nodes up to this one
    leaf = np.arange(N) - (inner + 2)  # [B, N], negative on the path
    holder = (leaves[:, None, :] <= leaf[:, :, None]).sum(axis=2) - (N - inner) + 1
    return _from_parents(np.where(leaf < 0, np.arange(N) - 1, holder))


def caterpillar(draws: Draws, N: int) -> Adjacency:
    """A caterpillar: a backbone of b nodes, b uniform on {1, ..., N - 1}, and N - b nodes hung uniformly on it."""
    b = draws.integers(1, N)  # [B, 1]
    node = np.arange(N)
    hung = draws.integers(0, b[:, 0], N)
    return _from_parents(np.where(node < b, node - 1, hung))


def lobster(draws: Draws, N: int) -> Adjacency:
    """A lobster: a backbone of b nodes, p nodes hung on it, p uniform on {1, ..., N - b}, the rest hung on those p."""
    b = draws.integers(1, N)  # [B, 1]
    p = draws.integers(1, N - b[:, 0] + 1)  # [B, 1]
    node = np.arange(N)
    hung = draws.integers(0, b[:, 0], N)
    hung_again = b + draws.integers(0, p[:, 0], N)
    return _from_parents(np.where(node < b, node - 1, np.where(node < b + p, hung, hung_again)))


def from_pairs(value: NDArray, N: int) -> NDArray:
    """Symmetric matrices [B, N, N] with an empty diagonal, from the values of the pairs [B, N (N - 1) / 2]."""
    matrix = np.zeros((len(value), N, N), dtype=value.dtype)
    i, j = pairs(N)
    matrix[:, i, j] = matrix[:, j, i] = value
    return matrix


@cache
def pairs(N: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The N (N - 1) / 2 pairs of nodes i < j."""
    return np.triu_indices(N, k=1)


def _from_parents(parent: NDArray[np.int64]) -> Adjacency:
    """Trees in which node v > 0 is joined to parent[v] < v; parent[0] is ignored: [B, N] to [B, N, N]."""
    node = np.arange(parent.shape[1])
    adjacency = (parent[:, :, None] == node) & (node[:, None] > 0)
    return adjacency | adjacency.transpose(0, 2, 1)


def _rows(N: int) -> int:
    """The m of N = mk: the largest divisor of N that is not above its square root."""
    return max(m for m in range(1, math.isqrt(N) + 1) if N % m == 0)


def _copies(adjacency: Adjacency, draws: Draws) -> Adjacency:
    """Repeat a fixed graph for each of B draws: [N, N] -> [B, N, N]."""
    return np.tile(adjacency, (len(draws), 1, 1))


@dataclass(frozen=True)
class Family:
    """One row of the appendix's list: its share of the benchmark, and how its graphs are drawn."""

    name: str
    share: float
    generator: Callable[[Draws, int], Adjacency]
    least_size: int
    title: str
    section: str = "appendix G, Random graph generation"

    def check_size(self, N: int) -> None:
        """Raise if the family has no graph of N nodes."""
        if N < self.least_size:
            raise ValueError(f"family {self.name!r} has no graph of N = {N} nodes: it needs at least {self.least_size}")


# Appendix G, in its order.
FAMILIES: tuple[Family, ...] = (
    Family("erdos_renyi", 0.20, erdos_renyi, 2, "Erdős-Rényi"),
    Family("barabasi_albert", 0.20, barabasi_albert, 2, "Barabási-Albert"),
    Family("grid", 0.05, grid, 2, "Grid"),
    Family("caveman", 0.05, caveman, 2, "Caveman"),
    Family("tree", 0.15, tree, 2, "Tree"),
    Family("ladder", 0.05, ladder, 2, "Ladder"),
    Family("line", 0.05, line, 2, "Line"),
    Family("star", 0.05, star, 2, "Star"),
    Family("caterpillar", 0.10, caterpillar, 2, "Caterpillar"),
    Family("lobster", 0.10, lobster, 2, "Lobster"),
)


def family_named(name: str) -> Family:
    """The family with this name."""
    for family in FAMILIES:
        if family.name == name:
            return family
    raise ValueError(f"family must be one of {', '.join(family.name for family in FAMILIES)}; got {name!r}")
