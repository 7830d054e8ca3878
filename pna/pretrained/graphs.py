"""Graphs of the user, from networkx, PyTorch Geometric or a file: checked, and converted to the benchmark's form."""

import csv
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch_geometric.data import Batch, Data

from pna.files import check_file, parse_json
from pna.pretrained.distances import OneGraph

__all__ = ["FORMATS", "MOST_NODES", "check_nodes", "edges_of", "one_graph", "read_graph"]

MOST_NODES = 4096  # the true values come from a dense matrix: half a minute, half of it for eigenvalues; soon hours
MOST_BYTES = 1 << 28  # of a file: a complete graph of so many nodes has half of it as an edge list

Nodes = tuple[Hashable, ...]


def one_graph(graph: nx.Graph | Data, source: Hashable, x: ArrayLike | None) -> tuple[Nodes, OneGraph]:
    """Convert a graph: the names of its nodes, and a batch of this one graph with its source and features.

    A source or features that are None are taken from Data.x if it has them.
    """
    if isinstance(graph, nx.Graph):
        nodes, adjacency, data_source, data_x = *_from_networkx(graph), None, None
    elif isinstance(graph, Data):
        nodes, adjacency, data_source, data_x = _from_data(graph)
    else:
        raise TypeError(f"graph must be a networkx graph or a torch_geometric Data, got {type(graph).__name__}")
    if adjacency.diagonal().any():
        cure = "networkx.selfloop_edges" if isinstance(graph, nx.Graph) else "torch_geometric.utils.remove_self_loops"
        at = nodes[int(adjacency.diagonal().argmax())]
        raise ValueError(f"graph must have no loops, an edge from a node to itself, got one at {at!r}: see {cure}")
    source = data_source if source is None else source
    place = 0 if source is None else _place(source, nodes)
    features = _features(data_x if x is None else x, len(nodes))
    return nodes, OneGraph(adjacency[None], features[None], np.array([place]), np.zeros(1, dtype=np.int8))


def _from_networkx(graph: nx.Graph) -> tuple[Nodes, NDArray[np.bool_]]:
    """Nodes and adjacency [N, N] of a simple undirected graph of networkx."""
    if graph.is_directed():
        raise ValueError("graph must be undirected, got a directed one: graph.to_undirected() makes one of it")
    if graph.is_multigraph():
        raise ValueError("graph must have at most one edge between two nodes: networkx.Graph(graph) merges them")
    _check_size(len(graph))
    nodes = tuple(graph)
    if strange := [node for node in nodes if node != node]:
        raise ValueError(f"graph must have nodes that equal themselves, got {strange[0]!r}, which no edge can name")
    return nodes, nx.to_numpy_array(graph, nodes, dtype=bool, weight=None)


def _from_data(data: Data) -> tuple[Nodes, NDArray[np.bool_], int | None, NDArray | None]:
    """Nodes, adjacency [N, N], source and feature [N] of a torch_geometric Data."""
    edges = edges_of(data)
    N = data.num_nodes or 0
    _check_size(N)
    check_nodes(edges, N)
    adjacency = np.zeros((N, N), dtype=bool)
    adjacency[edges[0], edges[1]] = True
    if (adjacency != adjacency.T).any():
        raise ValueError("edge_index must hold every edge in both directions: torch_geometric.utils.to_undirected")
    if int(adjacency.sum()) != edges.shape[1]:
        raise ValueError("edge_index must hold no edge twice: torch_geometric.utils.coalesce")
    return tuple(range(N)), adjacency, *_source_and_feature(data.x)


def edges_of(data: Data) -> NDArray[np.int64]:
    """The edge_index [2, E] of a Data, checked to be one graph."""
    if data.edge_index is None:
        raise ValueError("Data must have an edge_index, got none")
    if isinstance(data, Batch) and data.num_graphs != 1:
        raise ValueError(f"graph must be one, got a batch of {data.num_graphs}: batch.to_data_list() takes it apart")
    edges = data.edge_index.cpu().numpy()
    if edges.ndim != 2 or len(edges) != 2 or edges.dtype.kind not in "iu":
        raise ValueError(f"edge_index must be integers of shape [2, E], got {edges.dtype} of shape {list(edges.shape)}")
    return edges


def check_nodes(edges: NDArray[np.int64], N: int) -> None:
    """Raise if an edge names a node outside 0 to N - 1."""
    if edges.size and not (0 <= edges.min() and edges.max() < N):
        raise ValueError(f"edge_index must name nodes from 0 to {N - 1}, got {edges.min()} to {edges.max()}")


def _source_and_feature(x: object) -> tuple[int | None, NDArray | None]:
    """Read Data.x: one column is the feature; two are the benchmark's one-hot source and the feature."""
    if x is None:
        return None, None
    columns = np.atleast_2d(x.detach().cpu().numpy().T)
    if len(columns) == 1:
        return None, columns[0]
    if len(columns) == 2 and sorted(columns[0].tolist()) == [*[0] * (columns.shape[1] - 1), 1]:
        return int(columns[0].argmax()), columns[1]
    raise ValueError(
        f"Data.x must be one feature a node, [N, 1], or the benchmark's one-hot source and feature, [N, 2]; "
        f"got {list(x.shape)}"
    )


def _check_size(N: int) -> None:
    """Raise unless a graph has a size that the networks accept."""
    if not 2 <= N <= MOST_NODES:
        raise ValueError(f"graph must have from 2 to {MOST_NODES:,} nodes, got {N:,}")


def _place(source: Hashable, nodes: Nodes) -> int:
    """Position of the source among the nodes."""
    if source not in nodes:
        some = ", ".join(map(repr, nodes[:5])) + (", …" if len(nodes) > 5 else "")
        raise ValueError(f"source must be a node of the graph ({some}), got {source!r}")
    return nodes.index(source)


def _features(x: ArrayLike | None, N: int) -> NDArray[np.float32]:
    """Feature of each node, [N], checked to be finite; random but reproducible where none is passed."""
    if x is None:
        return np.random.default_rng(0).random(N, dtype=np.float32)
    try:
        features = np.asarray(x, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"x must be a number for each node: {error}") from error
    if features.shape != (N,):
        shape = list(features.shape)
        raise ValueError(f"x must be a finite number for each of the {N} nodes, [{N}]; got shape {shape}")
    if not np.isfinite(features).all():
        place = int(np.isfinite(features).argmin())
        raise ValueError(f"x must be a finite number for each of the {N} nodes; got {features[place]} in place {place}")
    return features


# ---- files ----


HEADERS = (("source", "target"), ("src", "dst"), ("from", "to"), ("node1", "node2"))  # column names, in any case


def _edges(path: Path, comma: bool = False) -> nx.Graph:
    """Read an edge list: two nodes per line, then attributes, which are ignored.

    A table with a header may have the two nodes in any columns; without one they are the first two. networkx's own
    reader skips lines that it cannot read, and keeps blanks around names.
    """
    edges: list[list[str]] = []
    first, second = 0, 1
    text = path.read_text(encoding="utf-8-sig").splitlines()
    rows = csv.reader(text, skipinitialspace=True) if comma else (line.split("#")[0].split() for line in text)
    for number, words in enumerate(rows, 1):
        named = [] if edges else _header_columns(words)
        if named:
            first, second = named
        nodes = [word.strip() for word in (*words[first : first + 1], *words[second : second + 1])]
        if named or not any(nodes) or nodes[0].startswith(("#", "%")):
            continue
        if not comma and len(words) > 3 and all(word.isdecimal() for word in words):
            raise ValueError(f"line {number} must hold two nodes; an adjacency list is to be named .adjlist")
        if len(nodes) < 2 or not all(nodes):
            between = " with a comma between them" * comma
            raise ValueError(f"line {number} must hold two nodes{between}, got {text[number - 1]!r}")
        edges.append(nodes)
    return nx.Graph(edges[1:] if _has_other_header(edges) else edges)


def _header_columns(words: list[str]) -> list[int]:
    """The positions of a pair of HEADERS in the first line; empty if it holds no such pair."""
    names = [word.strip().lower() for word in words]
    return next(([names.index(name) for name in pair] for pair in HEADERS if set(pair) <= set(names)), [])


def _has_other_header(edges: list[list[str]]) -> bool:
    """Whether the first line is a header with other names: words, where all other lines hold numbers."""
    words, *others = edges or [[]]
    return bool(others) and not any(map(str.isdecimal, words)) and all(all(map(str.isdecimal, edge)) for edge in others)


def _node_link_or_adjacency(path: Path) -> nx.Graph:
    """Read a graph from networkx's JSON, either of its two forms."""
    facts = parse_json(path.read_text(encoding="utf-8-sig"))
    if not isinstance(facts, dict) or not {"adjacency", "edges", "links"} & facts.keys():
        raise ValueError("networkx's node-link data or adjacency data are wanted")
    if "adjacency" in facts:
        return nx.adjacency_graph(facts, multigraph=False)
    return nx.node_link_graph(facts, multigraph=False, edges="edges" if "edges" in facts else "links")


FORMATS: dict[str, Callable[[Path], nx.Graph]] = {
    ".edgelist": _edges,
    ".txt": _edges,
    ".csv": partial(_edges, comma=True),
    ".adjlist": nx.read_adjlist,
    ".graphml": nx.read_graphml,
    ".gml": nx.read_gml,
    ".g6": nx.read_graph6,
    ".json": _node_link_or_adjacency,
}


def read_graph(path: Path) -> nx.Graph:
    """Read a graph from a file whose ending names the format."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise ValueError(f"{path} must end in one of {', '.join(FORMATS)}, each a format that networkx reads")
    try:
        check_file(path, MOST_BYTES)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    try:
        graph = FORMATS[ending](path)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except Exception as error:  # networkx raises many kinds for a file that it cannot read
        raise ValueError(f"{path} does not hold one graph in the format of {ending}: {error}") from error
    if not isinstance(graph, nx.Graph):
        raise ValueError(f"{path} must hold one graph, got several")
    return graph
