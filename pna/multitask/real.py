"""Real networks as graphs of the benchmark: whole ones of 15 to 100 nodes, and connected subgraphs of larger ones.

They are kept in one small file beside this module, real.npz, with their sources. `pna multitask make real` makes it
from the packages themselves (pna/multitask/sources.py); it need not be made to be used. The sampled graphs are all
connected: the task *connected* is trivial on them as described, and asks whether they are bipartite as released.
"""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pna.files import read_arrays, write_arrays
from pna.multitask.generate import Adjacencies
from pna.multitask.graphset import REAL, GraphSet
from pna.multitask.labels import label
from pna.multitask.random_numbers import FEATURES, Draws
from pna.multitask.sampling import SAMPLERS, sample
from pna.multitask.sources import SOURCES, TOPOHUB, Network, Source, network_of, topologies
from pna.multitask.specification import Spec

__all__ = ["FILE", "GROUPS", "RealSplit", "about", "adjacency_of", "facts", "graph_set", "make_file"]

FILE = Path(__file__).with_suffix(".npz")
FORMAT = 1
SMALL, LARGE = tuple(range(15, 25)), tuple(range(25, 101, 5))  # sizes of sampled subgraphs
TEST_GRAPHS = {SMALL: 8, LARGE: 5}  # of each size, source and sampler
TRAIN_GRAPHS, VALIDATION_GRAPHS = 512, 64  # of each size, over all sources and samplers in turn
BANDS = ((15, 24), (25, 40), (41, 60), (61, 100))  # sizes of whole networks that are tested together
TOPOLOGIES = ("zoo", "sndlib", "caida")


def _groups() -> Iterator[str]:
    """Yield the names of all groups of real graphs: test sets, then training and validation."""
    for source in SOURCES:
        for sampler in SAMPLERS:
            for sizes in TEST_GRAPHS:
                yield f"{source.name}-{sampler}-{sizes[0]}-{sizes[-1]}"
    for collection in TOPOLOGIES:
        for low, high in BANDS:
            yield f"{collection}-{low}-{high}"
    yield from ("train", "validation")


GROUPS: tuple[str, ...] = tuple(_groups())  # test sets by their names, then what can be trained on


@dataclass(frozen=True)
class RealSplit:
    """A group of real graphs as a split of a data set; every `every`-th of them, to thin it."""

    name: str
    role: str
    group: str
    every: int = 1

    def __post_init__(self) -> None:
        if self.group not in GROUPS:
            raise ValueError(f"group must be one of {', '.join(GROUPS)}; got {self.group!r}")

    def __len__(self) -> int:
        return len(_numbers(self))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of nodes of its graphs, in ascending order, each once."""
        return tuple(np.unique(_file()[0]["size"][_numbers(self)]).tolist())

    def thinned(self, step: int, divisor: int) -> Self:
        """One in `step` · `divisor` of the graphs, and at least one."""
        return replace(self, every=step * divisor)


# ---- reading ----


@cache
def _file() -> tuple[dict[str, NDArray], dict]:
    """Arrays and facts of the file of real graphs, read once."""
    return read_arrays(FILE, FORMAT)


def facts() -> dict:
    """The sources of the graphs: packages, versions, licences, checksums and statistics."""
    return _file()[1]


def _numbers(split: RealSplit) -> NDArray[np.int64]:
    """Which graphs of the file a split has."""
    return np.flatnonzero(_file()[0]["group"] == GROUPS.index(split.group))[:: split.every]


def graph_set(spec: Spec, split: RealSplit, seed: int) -> GraphSet:
    """Label the graphs of a split, in order of size; `seed` draws the features and the source of shortest paths."""
    arrays, numbers = _file()[0], _numbers(split)
    sizes = arrays["size"][numbers].astype(np.int64)
    parts = []
    for N in np.unique(sizes):
        graph = numbers[sizes == N]
        adjacency = np.stack([adjacency_of(arrays, g) for g in graph])
        features = Draws(seed, _STREAM + int(N), graph, FEATURES)
        source = features.integers(0, N)[:, 0]
        x = np.floor(features.uniform(int(N)) * 2**24) / 2**24  # 24 bits, as in generate.py
        graphs = Adjacencies(adjacency, x.astype(np.float32), source, np.full(len(graph), REAL, np.int8))
        parts.append(GraphSet.of(graphs, *label(graphs, spec)))
    return GraphSet.joined(parts)


_STREAM = 200 << 16  # random numbers that no family's graphs use


def adjacency_of(arrays: dict[str, NDArray], graph: int) -> NDArray[np.bool_]:
    """The symmetric matrix of one graph, from the pairs of its edges."""
    N, begin, end = int(arrays["size"][graph]), *arrays["first_edge"][graph : graph + 2]
    adjacency = np.zeros((N, N), dtype=bool)
    a, b = arrays["edge"][begin:end].T
    adjacency[a, b] = adjacency[b, a] = True
    return adjacency


# ---- making ----


def make_file(packages: Path | None, path: Path = FILE) -> dict:
    """Read every source, sample, and write the file; returns its facts."""
    from tqdm import tqdm

    networks: dict[str, Network] = {}
    for source in tqdm(SOURCES, desc="reading", unit="network"):
        networks[source.name] = network_of(source, packages)
    groups, graphs = [], []
    for group, adjacency in tqdm(_drawn(networks, packages), desc="sampling", unit="graph"):
        groups.append(GROUPS.index(group))
        graphs.append(adjacency)
    edges = [np.argwhere(np.triu(adjacency)) for adjacency in graphs]
    arrays = {
        "group": np.array(groups, np.uint8),
        "size": np.array([len(adjacency) for adjacency in graphs], np.uint8),
        "first_edge": np.concatenate([[0], np.cumsum([len(pairs) for pairs in edges])]).astype(np.int32),
        "edge": np.concatenate(edges).astype(np.uint8),
    }
    content = {"sources": [about(source, networks.get(source.name)) for source in (*SOURCES, TOPOHUB)]}
    write_arrays(path, arrays, content, FORMAT, zipfile.ZIP_LZMA)
    return content


def _drawn(networks: dict[str, Network], packages: Path | None) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield (group, adjacency matrix) of every graph, group by group."""
    pairs = [(source, sampler) for source in networks for sampler in SAMPLERS]
    for source, sampler in pairs:
        for sizes, count in TEST_GRAPHS.items():
            group = f"{source}-{sampler}-{sizes[0]}-{sizes[-1]}"
            for N in sizes:
                for k in range(count):
                    yield group, sample(networks[source], sampler, N, f"{group}/{N}/{k}")
    whole = sorted(topologies(packages), key=lambda row: (row[0], len(row[2]), row[1]))
    for collection, _, network in whole:
        band = next((band for band in BANDS if band[0] <= len(network) <= band[1]), None)
        if band and (adjacency := network.adjacency(np.arange(len(network)))).any(axis=1).all():
            yield f"{collection}-{band[0]}-{band[1]}", adjacency
    for role, count in (("train", TRAIN_GRAPHS), ("validation", VALIDATION_GRAPHS)):
        for N in SMALL:
            for k in range(count):
                source, sampler = pairs[k % len(pairs)]
                yield role, sample(networks[source], sampler, N, f"{role}/{N}/{k}")


def about(source: Source, network: Network | None) -> dict:
    """A source as JSON, with the statistics of its network if it is one."""
    row = {name: getattr(source, name) for name in ("name", "title", "package", "version", "registry", "licence")}
    row |= {"path": source.path, "sha256": source.sha256}
    if network is None:
        return row
    d = network.degrees[network.degrees > 0]
    delta = float(np.log1p(d).mean())
    return row | {
        "nodes": len(d),
        "edges": len(network.neighbours) // 2,
        "mean_degree": round(float(d.mean()), 3),
        "max_degree": int(d.max()),
        "delta": round(delta, 4),
    }
