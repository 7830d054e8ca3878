"""Neighbourhoods of hubs: a node of a real network, all its neighbours, and the edges between them.

Their degrees, 25 to 2,000, lie beyond those of the subgraphs that networks are trained on (pna/multitask/real.py), so
they show which scaler of section 2.2 extrapolates. They are kept in one small file beside this module, hubs.npz, with
their sources; `pna multitask make hubs` makes it from the packages themselves. Only the labels of nodes are computed.
"""

import random
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pna.files import read_arrays, write_arrays
from pna.multitask.generate import Adjacencies
from pna.multitask.graphset import REAL, GraphSet
from pna.multitask.labels import GRAPH_TASKS, NODE_TASKS
from pna.multitask.random_numbers import FEATURES, Draws
from pna.multitask.real import about, adjacency_of
from pna.multitask.sources import SOURCES, Network, network_of

__all__ = ["BINS", "FILE", "NETWORKS", "bin_of", "facts", "graph_set", "make_file"]

FILE = Path(__file__).with_suffix(".npz")
FORMAT = 1
BINS = ((25, 49), (50, 99), (100, 199), (200, 499), (500, 999), (1000, 2000))  # degrees that are tested together
NETWORKS = ("internet", "enron", "pgp", "wordnet", "metabolism", "phenotypes")  # those with nodes of such degrees
HUBS = 4  # of each network and bin, if it has so many
_STREAM = 300 << 16  # random numbers that no other graphs use


@cache
def _file() -> tuple[dict[str, NDArray], dict]:
    """Arrays and facts of the file of neighbourhoods, read once."""
    return read_arrays(FILE, FORMAT)


def facts() -> dict:
    """The sources of the neighbourhoods: packages, versions, licences, checksums and statistics."""
    return _file()[1]


def bin_of(degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place in BINS of each degree, or -1 if it is in none: [V] -> [V]."""
    lowest = np.array([low for low, _ in BINS])
    place = np.searchsorted(lowest, degrees, side="right") - 1
    return np.where(degrees > BINS[-1][1], -1, place)


def graph_set(seed: int) -> GraphSet:
    """Label the nodes of all neighbourhoods, with maxima of 1; `seed` draws the features and the sources of paths."""
    arrays = _file()[0]
    return GraphSet.joined([_labelled(adjacency_of(arrays, k), k, seed) for k in range(len(arrays["size"]))])


def _labelled(adjacency: NDArray[np.bool_], number: int, seed: int) -> GraphSet:
    """Draw features for one graph [N, N], and label its nodes; the labels of the graph are 0."""
    N = len(adjacency)
    draws = Draws(seed, _STREAM, np.array([number]), FEATURES)
    source = draws.integers(0, N)[:, 0]
    x = np.floor(draws.uniform(N) * 2**24) / 2**24  # 24 bits, as in generate.py
    graphs = Adjacencies(adjacency[None], x.astype(np.float32), source, np.full(1, REAL, np.int8))
    nodes = np.stack([task.label(graphs) for task in NODE_TASKS], axis=2).astype(np.float32)  # [1, N, 3]
    return GraphSet.of(graphs, nodes, np.zeros((1, len(GRAPH_TASKS)), np.float32))


# ---- making ----


def make_file(packages: Path | None, path: Path = FILE) -> dict:
    """Read the networks, draw their hubs, and write the file; returns its facts."""
    from tqdm import tqdm

    sources = [source for source in SOURCES if source.name in NETWORKS]
    networks = {source.name: network_of(source, packages) for source in tqdm(sources, desc="reading", unit="network")}
    graphs = [graph for name, network in networks.items() for graph in _neighbourhoods(name, network)]
    edges = [np.argwhere(np.triu(adjacency)) for adjacency in graphs]
    arrays = {
        "size": np.array([len(adjacency) for adjacency in graphs], np.uint16),
        "first_edge": np.concatenate([[0], np.cumsum([len(pairs) for pairs in edges])]).astype(np.int32),
        "edge": np.concatenate(edges).astype(np.uint16),
    }
    content = {"sources": [about(source, networks[source.name]) for source in sources]}
    write_arrays(path, arrays, content, FORMAT, zipfile.ZIP_LZMA)
    return content


def _neighbourhoods(name: str, network: Network) -> list[NDArray[np.bool_]]:
    """Adjacency matrices of the neighbourhoods of the hubs that are drawn from one network, bin by bin."""
    places = bin_of(network.degrees)
    graphs = []
    for k, (low, high) in enumerate(BINS):
        hubs = np.flatnonzero(places == k).tolist()
        draw = random.Random(f"hubs/{name}/{low}-{high}")
        for hub in draw.sample(hubs, min(HUBS, len(hubs))):
            nodes = [hub, *network.of_node(hub).tolist()]
            draw.shuffle(nodes)  # so that no number tells which node is the hub
            graphs.append(network.adjacency(np.array(nodes)))
    return graphs
