"""The six labels of the multi-task benchmark (section 4, "Multi-task graph properties"), and departure D1."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pna.multitask.generate import Adjacencies
from pna.multitask.specification import Spec

__all__ = ["GRAPH_TASKS", "NODE_TASKS", "TASKS", "Task", "label"]


def shortest_path(graphs: Adjacencies) -> NDArray:
    """Length of the shortest path from the source to each node: [B, N]."""
    return graphs.paths.from_source


def eccentricity(graphs: Adjacencies) -> NDArray:
    """Largest distance from each node to another that it reaches: [B, N]."""
    return graphs.paths.eccentricity


def laplacian(graphs: Adjacencies) -> NDArray:
    """Laplacian features L x with L = D - A: [B, N]."""
    A, x = graphs.adjacency.astype(np.float64), graphs.x.astype(np.float64)
    return A.sum(axis=2) * x - (A @ x[:, :, None])[:, :, 0]


def connected(graphs: Adjacencies) -> NDArray:
    """Whether the graph is connected: [B]."""
    return graphs.paths.connected


def connected_as_released(graphs: Adjacencies) -> NDArray:
    """D1: whether all entries of A^(2^s), s large, are positive: [B].

    A connected graph has walks of every large even length between all pairs of nodes unless it is bipartite, that is
    unless no edge joins two nodes at the same distance from the source.
    """
    distance = graphs.paths.from_source
    same = distance[:, :, None] == distance[:, None, :]
    return graphs.paths.connected & (graphs.adjacency & same).any(axis=(1, 2))


def diameter(graphs: Adjacencies) -> NDArray:
    """Largest eccentricity of a node: [B]."""
    return graphs.paths.eccentricity.max(axis=1)


def spectral_radius(graphs: Adjacencies) -> NDArray:
    """Largest absolute eigenvalue of A, [B]: its largest eigenvalue, since A has no negative entry."""
    return np.linalg.eigvalsh(graphs.adjacency.astype(np.float64))[:, -1]


@dataclass(frozen=True)
class Task:
    """One label of every node or of every graph, with its function, and that of the released code if it differs."""

    name: str
    level: Literal["node", "graph"]
    label: Callable[[Adjacencies], NDArray]
    title: str
    released: Callable[[Adjacencies], NDArray] | None = None


# Section 4, "Multi-task graph properties", in its order.
TASKS: tuple[Task, ...] = (
    Task("sssp", "node", shortest_path, "Single-source shortest path"),
    Task("eccentricity", "node", eccentricity, "Eccentricity"),
    Task("laplacian", "node", laplacian, "Laplacian features"),
    Task("connected", "graph", connected, "Connected", released=connected_as_released),
    Task("diameter", "graph", diameter, "Diameter"),
    Task("spectral_radius", "graph", spectral_radius, "Spectral radius"),
)
NODE_TASKS = tuple(task for task in TASKS if task.level == "node")
GRAPH_TASKS = tuple(task for task in TASKS if task.level == "graph")


def label(graphs: Adjacencies, spec: Spec) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Compute the labels before normalisation: those of the nodes [B, N, 3] and of the graphs [B, 3]."""

    def of(tasks: tuple[Task, ...]) -> NDArray[np.float32]:
        """Labels of some tasks, stacked along a new last axis; under D1, by the released code's functions."""
        released = spec.connected == "released"
        functions = [task.released if released and task.released else task.label for task in tasks]
        return np.stack([function(graphs) for function in functions], axis=-1).astype(np.float32)

    return of(NODE_TASKS), of(GRAPH_TASKS)
