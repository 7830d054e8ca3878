"""Neighbourhoods of hubs: what the file holds, how nodes are binned and labelled, and how the file is made."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pna.__main__ import main
from pna.multitask import hubs, sources
from pna.multitask.hubs import BINS, NETWORKS, bin_of, facts, graph_set
from pna.multitask.real import adjacency_of
from pna.multitask.sources import Network

ARRAYS = hubs._file()[0]


@given(st.integers(0, 5000))
def test_a_degree_is_in_the_bin_that_holds_it(degree):
    (place,) = bin_of(np.array([degree]))
    holding = [k for k, (low, high) in enumerate(BINS) if low <= degree <= high]
    assert [place] == (holding or [-1])


def test_bins_follow_each_other_and_begin_beyond_the_degrees_of_training():
    assert BINS[0][0] == 25  # graphs of 24 nodes have degrees up to 23
    assert all(high + 1 == low for (_, high), (low, _) in pairwise(BINS))


def test_each_graph_is_a_hub_with_all_its_neighbours():
    for k, size in enumerate(ARRAYS["size"]):
        degree = adjacency_of(ARRAYS, k).sum(axis=1)
        assert degree.max() == size - 1  # the hub
        assert bin_of(degree.max(keepdims=True)) >= 0


def test_every_bin_has_hubs():
    sizes = np.bincount(bin_of(ARRAYS["size"].astype(np.int64) - 1), minlength=len(BINS))
    assert (sizes >= 12).all()
    assert {source["name"] for source in facts()["sources"]} == set(NETWORKS)


def test_labels_are_those_of_networkx():
    graphs = graph_set(7)
    smallest = int(graphs.sizes.argmin())
    data = graphs[smallest]
    graph = nx.from_numpy_array(adjacency_of(ARRAYS, smallest))
    source = int(data.x[:, 0].argmax())
    paths = nx.single_source_shortest_path_length(graph, source)
    assert data.y_node[:, 0].tolist() == [paths[v] for v in range(len(graph))]
    assert data.y_node[:, 1].tolist() == list(nx.eccentricity(graph).values())
    expected = nx.laplacian_matrix(graph).toarray() @ data.x[:, 1].double().numpy()
    np.testing.assert_allclose(data.y_node[:, 2], expected, rtol=1e-5, atol=1e-4)


def test_features_depend_on_the_seed_and_on_nothing_else():
    assert (graph_set(7).x == graph_set(7).x).all()
    assert (graph_set(7).x != graph_set(8).x).any()


def test_the_file_is_made_from_the_networks_and_twice_the_same(tmp_path, monkeypatch, capsys):
    star = Network.of([(0, k) for k in range(1, 31)] + [(1, 2)])  # one hub, of degree 30
    monkeypatch.setattr(hubs, "network_of", lambda source, packages: star)
    for name in ("one.npz", "two.npz"):
        assert main(["multitask", "make", "hubs", "--out", str(tmp_path / name)]) == 0
    assert "internet" in capsys.readouterr().out
    arrays, _ = hubs.read_arrays(tmp_path / "one.npz", hubs.FORMAT)
    again, _ = hubs.read_arrays(tmp_path / "two.npz", hubs.FORMAT)
    assert arrays["size"].tolist() == [31] * len(NETWORKS)
    assert all((arrays[name] == again[name]).all() for name in arrays)
    degree = np.bincount(arrays["edge"][: arrays["first_edge"][1]].ravel())
    assert sorted(degree)[-3:] == [2, 2, 30]


def test_without_the_packages_a_sentence_says_where_they_are(capsys, tmp_path):
    if sources._installed(sources.SOURCES[0]) is not None:
        pytest.skip("the package is installed")
    assert main(["multitask", "make", "hubs", "--packages", str(tmp_path), "--out", str(tmp_path / "h.npz")]) != 0
    assert "apt-get download python3-graph-tool" in capsys.readouterr().err
    assert not (tmp_path / "h.npz").exists()
