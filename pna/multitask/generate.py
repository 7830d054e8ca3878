"""Random graphs of one size: drawn by family, toggled, without isolated nodes, shuffled, with input features.

Graph g of (seed, role, family, N) is the same in every batch. Its specification changes neither its family nor
its features.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from pna.multitask.distances import ShortestPaths, shortest_paths
from pna.multitask.families import FAMILIES, Family, family_named
from pna.multitask.random_numbers import FAMILY, FEATURES, MIXTURE, ORDER, TOGGLING, Draws, check_seed
from pna.multitask.specification import Spec
from pna.multitask.toggling import toggle

__all__ = ["ROLES", "Adjacencies", "check_size", "generate"]

ROLES = ("train", "validation", "test")  # each has graphs of its own

_CELLS = 2**18  # entries of adjacency matrices tried together, for the sake of the cache
_MOST_ATTEMPTS = 100_000


@dataclass(frozen=True)
class Adjacencies:
    """B graphs of N nodes with their input features: the random x and the source of the shortest-path task."""

    adjacency: NDArray[np.bool_]  # [B, N, N]
    x: NDArray[np.float32]  # [B, N]
    source: NDArray[np.int64]  # [B]
    family: NDArray[np.int8]  # [B], places in FAMILIES

    @cached_property
    def paths(self) -> ShortestPaths:
        """Shortest paths by breadth-first search, from which four of the six labels come."""
        return shortest_paths(self.adjacency, self.source)


def generate(spec: Spec, seed: int, role: str, N: int, graph: NDArray, family: str | None = None) -> Adjacencies:
    """Draw the graphs with the numbers `graph` ([B], from 0 on) of size N, of one family or, with None, the mixture."""
    graph = np.asarray(graph, dtype=np.int64)
    if graph.ndim != 1 or ((graph < 0) | (graph >= 2**32)).any():
        raise ValueError(f"graph must be a list of numbers from 0 to 2^32 - 1, got {graph}")
    numbers = partial(Draws, check_seed(seed), _stream(role, family, N))
    if family is None:
        kind = _mixture(numbers(graph, MIXTURE))
    else:
        kind = np.full(len(graph), FAMILIES.index(family_named(family)))

    adjacency = np.empty((len(graph), N, N), dtype=bool)
    for place in np.unique(kind):
        rows = np.flatnonzero(kind == place)
        adjacency[rows] = _without_isolated(FAMILIES[place], N, graph[rows], numbers, spec)
    order = numbers(graph, ORDER).uniform(N).argsort(axis=1)
    adjacency = adjacency[np.arange(len(graph))[:, None, None], order[:, :, None], order[:, None, :]]
    features = numbers(graph, FEATURES)
    source = features.integers(0, N)[:, 0]
    # 24 bits are what float32 holds: sums of a hundred of them are exact in float64, in whatever order they come.
    x = np.floor(features.uniform(N) * 2**24) / 2**24
    return Adjacencies(adjacency, x.astype(np.float32), source, kind.astype(np.int8))


def _stream(role: str, family: str | None, N: int) -> int:
    """The random stream of a role, size and family; a family's graphs are not those that the mixture draws from it."""
    check_size(N)
    if role not in ROLES:
        raise ValueError(f"role must be one of {', '.join(ROLES)}; got {role!r}")
    only = 0 if family is None else 1 + FAMILIES.index(family_named(family))
    return (ROLES.index(role) << 24) + (only << 16) + N


def _mixture(numbers: Draws) -> NDArray[np.int64]:
    """Draw the family of each graph by the shares of the appendix: [B]."""
    ends = np.cumsum([family.share for family in FAMILIES])[:-1]
    return np.searchsorted(ends, numbers.uniform(1)[:, 0], side="right")


def _without_isolated(
    family: Family, N: int, graph: NDArray, numbers: Callable[..., Draws], spec: Spec
) -> NDArray[np.bool_]:
    """Draw graphs of one family and toggle them: for each, the first attempt that leaves no node isolated."""
    family.check_size(N)
    accepted = np.empty((len(graph), N, N), dtype=bool)
    pending = np.arange(len(graph))
    attempt, together = 0, 1
    while pending.size:
        if attempt > _MOST_ATTEMPTS:
            raise ValueError(
                f"family {family.name!r} at N = {N} (spec {spec}) had an isolated node in each of {attempt} attempts: "
                f"toggling spares too few graphs of this size"
            )
        number = np.repeat(graph[pending], together)
        attempts = np.tile(attempt + np.arange(together), pending.size)
        drawn = family.generator(numbers(number, FAMILY, attempts), N)
        drawn = toggle(drawn, numbers(number, TOGGLING, attempts), spec)
        good = drawn.any(axis=2).all(axis=1).reshape(pending.size, together)
        done, first = good.any(axis=1), good.argmax(axis=1)
        accepted[pending[done]] = drawn.reshape(pending.size, together, N, N)[done, first[done]]
        pending, attempt = pending[~done], attempt + together
        # The few graphs that go on failing try ever more attempts at once; the first good one counts all the same.
        together = max(1, min(2 * together, _CELLS // max(1, pending.size * N * N)))
    return accepted


def check_size(N: int) -> None:
    """Raise if N is no number of nodes of a graph with edges."""
    if isinstance(N, bool) or not isinstance(N, int | np.integer):
        raise TypeError(f"N must be an integer, got {type(N).__name__}")
    if N < 2:
        raise ValueError(f"N must be at least 2 (a graph of one node has only an isolated node), got {N}")
    if N >= 2**16:
        raise ValueError(f"N must be less than 65536 (a graph's random numbers have 16 bits for it), got {N}")
