"""Shortest paths of one large graph, by the search for long paths and by that of the benchmark."""

import networkx as nx
import numpy as np
import pytest

from pna.multitask.distances import shortest_paths
from pna.pretrained import distances
from pna.pretrained.graphs import one_graph

GRAPHS = {
    "path": nx.path_graph(300),
    "cycle": nx.cycle_graph(61),
    "tree": nx.random_labeled_tree(80, seed=1),
    "parts": nx.disjoint_union(nx.path_graph(40), nx.cycle_graph(7)),
    "isolated nodes": nx.disjoint_union(nx.path_graph(20), nx.empty_graph(3)),
    "no edges": nx.empty_graph(4),
    "clique with a tail": nx.lollipop_graph(12, 30),
    "random": nx.gnm_random_graph(50, 70, seed=2),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_both_searches_agree(name, monkeypatch):
    monkeypatch.setattr(distances, "PAIRS", 1000)  # several parts
    _, graphs = one_graph(GRAPHS[name], None, None)
    expected, paths = shortest_paths(graphs.adjacency, graphs.source), distances.long_paths(graphs.adjacency[0], 0)
    for field in ("from_source", "eccentricity", "connected"):
        assert np.array_equal(getattr(paths, field), getattr(expected, field)), field


@pytest.mark.parametrize(("name", "long"), [("path", True), ("cycle", False), ("random", False)])
def test_the_search_for_long_paths_is_for_long_paths(name, long, monkeypatch):
    searched = []
    monkeypatch.setattr(distances, "long_paths", lambda *_: searched.append(True))
    monkeypatch.setattr(distances, "shortest_paths", lambda *_: searched.append(False))
    _, graph = one_graph(GRAPHS[name], None, None)
    assert graph.paths is None
    assert searched == [long]
