"""Random toggling of edges (appendix G, its only equation), and departure D2.

An existing edge is removed with probability P_e and a missing one appears with P_m, so that as many appear as are
removed, on average. The released code keeps or adds an edge where (u + v) < p for two draws u, v ~ U[0, 1/2], which
happens not with probability p but with that of a triangular variable being below p.
"""

import numpy as np
from numpy.typing import NDArray

from pna.multitask.families import from_pairs, pairs
from pna.multitask.random_numbers import Draws
from pna.multitask.specification import Spec

__all__ = ["toggle", "toggling_probabilities", "triangular"]

_RATE = 0.1


def toggle(adjacency: NDArray[np.bool_], draws: Draws, spec: Spec) -> NDArray[np.bool_]:
    """Toggle every pair of nodes independently: symmetric matrices [B, N, N] to symmetric matrices [B, N, N]."""
    N = adjacency.shape[-1]
    i, j = pairs(N)
    edge = adjacency[:, i, j]  # [B, N (N - 1) / 2]
    e = edge.sum(axis=1, keepdims=True)
    P_e, P_m = toggling_probabilities(e, edge.shape[1] - e, spec)
    return from_pairs(edge ^ (draws.uniform(edge.shape[1]) < np.where(edge, P_e, P_m)), N)


def toggling_probabilities(e: NDArray, m: NDArray, spec: Spec) -> tuple[NDArray, NDArray]:
    """The probabilities P_e and P_m of graphs with e edges and m missing edges, not both of which may be 0."""
    e, m = np.asarray(e), np.asarray(m)
    if ((e < 0) | (m < 0) | (e + m == 0)).any():
        raise ValueError("e and m count a graph's edges and missing edges: not negative, and at least 1 together")
    fewer, more = np.minimum(e, m), np.maximum(e, m)
    P_e = np.where(e <= m, _RATE, _RATE * (fewer / more))
    P_m = np.where(e <= m, _RATE * (fewer / more), _RATE)
    if spec.toggling == "released":
        return 1 - triangular(1 - P_e), triangular(P_m)  # it asks whether to keep an edge and whether to add one
    return P_e, P_m


def triangular(p: NDArray) -> NDArray:
    """The probability P(u + v < p) for independent u, v ~ U[0, 1/2]: 2 p^2 up to p = 1/2, then 1 - 2 (1 - p)^2."""
    p = np.asarray(p, dtype=float)
    if ((p < 0) | (p > 1)).any():
        raise ValueError(f"p must be a probability, from 0 to 1; got {p.min()} to {p.max()}")
    return np.where(p <= 0.5, 2 * p**2, 1 - 2 * (1 - p) ** 2)
