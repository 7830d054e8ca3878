"""The degrees of networkx's random power-law tree (family "Tree": exponent 3), for many trees at once.

networkx draws N degrees and, until they sum to 2 (N - 1), puts a fresh degree in a random place. The result is not
the power law given its sum, so the loop must be followed; but all trees can follow it together, many steps at a
time. Unlike networkx, which gives up after a set number of tries, it is followed to its end.
"""

import numpy as np
from numpy.typing import NDArray

from pna.multitask.random_numbers import Draws

__all__ = ["tree_degrees"]

_STEPS = 128  # replacements looked at together; of 24 nodes, nine trees in ten need no more


def tree_degrees(draws: Draws, N: int) -> NDArray[np.int64]:
    """Draw N positive degrees that sum to 2 (N - 1) for every graph: [B, N]."""
    degree = _pareto(draws.uniform(N), N)
    unfinished = np.flatnonzero(degree.sum(axis=1) != 2 * (N - 1))
    draws = draws.of(unfinished)
    while unfinished.size:
        place = draws.integers(0, N, _STEPS)
        fresh = _pareto(draws.uniform(_STEPS), N)
        degree[unfinished], finished = _replace(degree[unfinished], place, fresh)
        unfinished, draws = unfinished[~finished], draws.of(np.flatnonzero(~finished))
    return degree


def _pareto(u: NDArray[np.float64], N: int) -> NDArray[np.int64]:
    """Turn uniform numbers into a Pareto variable of exponent 3 (density 2 z^-3 from 1 on), rounded, at most N."""
    return np.minimum(np.rint(1 / np.sqrt(1 - u)), N).astype(np.int64)


def _replace(
    degree: NDArray[np.int64], place: NDArray[np.int64], fresh: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Write fresh[t] to place[t] for t = 0, 1, ... until the sum is a tree's: the degrees, and which got there.

    degree is [B, N]; place and fresh are [B, T].
    """
    N, T = degree.shape[1], place.shape[1]
    total = degree.sum(axis=1, keepdims=True) + np.cumsum(fresh - _overwritten(degree, place, fresh), axis=1)
    is_tree = total == 2 * (N - 1)  # [B, T]
    finished = is_tree.any(axis=1)
    last = np.where(finished, is_tree.argmax(axis=1), T)[:, None]
    spare = np.concatenate([degree, degree[:, :1]], axis=1)  # steps after the last are written to column N and dropped
    np.put_along_axis(spare, np.where(np.arange(T) <= last, place, N), fresh, axis=1)  # of equal places the last stays
    return spare[:, :N], finished


def _overwritten(degree: NDArray[np.int64], place: NDArray[np.int64], fresh: NDArray[np.int64]) -> NDArray[np.int64]:
    """The value that each step finds at its place: that of the last step there, or else the one at the start."""
    by_place = np.argsort(place, axis=1, kind="stable")  # [B, T]
    where = np.take_along_axis(place, by_place, axis=1)
    values = np.take_along_axis(degree, where, axis=1)
    again = where[:, 1:] == where[:, :-1]
    values[:, 1:][again] = np.take_along_axis(fresh, by_place, axis=1)[:, :-1][again]
    in_order = np.empty_like(values)
    np.put_along_axis(in_order, by_place, values, axis=1)
    return in_order
