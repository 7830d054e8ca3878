"""Connected subgraphs of a large network by two samplers: a random walk with restart, and breadth-first search.

The walk keeps what it meets of a neighbourhood's structure and its hubs; breadth-first search keeps whole
neighbourhoods. Both give the subgraph that the nodes induce, which is connected.
"""

import random
from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pna.multitask.sources import Network

__all__ = ["SAMPLERS", "breadth_first", "random_walk", "sample"]

RESTART = 0.15  # the probability of going back to the start, at each step
STEPS = 200  # for each node wanted; a walk that has not met them all by then begins anew elsewhere


def random_walk(network: Network, start: int, size: int, draw: random.Random) -> list[int] | None:
    """The first `size` nodes that a random walk with restart meets; None if it does not meet so many."""
    met, node = {start: None}, start
    for _ in range(STEPS * size):
        if len(met) == size:
            return list(met)
        if draw.random() < RESTART:
            node = start
        else:
            neighbours = network.of_node(node)
            node = int(neighbours[draw.randrange(len(neighbours))])
            met[node] = None
    return list(met) if len(met) == size else None


def breadth_first(network: Network, start: int, size: int, draw: random.Random) -> list[int] | None:
    """The first `size` nodes of breadth-first search, a node's neighbours in random order; None if there are fewer."""
    met, queue = {start: None}, deque([start])
    while queue and len(met) < size:
        neighbours = network.of_node(queue.popleft()).tolist()
        draw.shuffle(neighbours)
        for node in neighbours:
            if node not in met and len(met) < size:
                met[node] = None
                queue.append(node)
    return list(met) if len(met) == size else None


Sampler = Callable[[Network, int, int, random.Random], list[int] | None]
SAMPLERS: dict[str, Sampler] = {"walk": random_walk, "breadth": breadth_first}


def sample(network: Network, sampler: str, size: int, seed: str) -> NDArray[np.bool_]:
    """Draw a connected subgraph of `size` nodes as an adjacency matrix, [size, size].

    The start is any node that has a neighbour, each as likely; `seed` decides it and all that follows.
    """
    starts = np.flatnonzero(network.degrees)
    if not len(starts):
        raise ValueError("network has no edge to begin at")
    draw = random.Random(seed)
    for _ in range(1_000):
        start = int(starts[draw.randrange(len(starts))])
        nodes = SAMPLERS[sampler](network, start, size, draw)
        if nodes is not None:
            draw.shuffle(nodes)  # so that no number tells which node was met first
            return network.adjacency(np.array(nodes))
    raise ValueError(f"network has no connected part of {size} nodes within reach of 1,000 starts")
