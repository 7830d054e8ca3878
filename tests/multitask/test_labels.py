"""The six labels against networkx and numpy, D1's label against the released procedure."""

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pna.multitask import DESCRIBED, FAMILIES, RELEASED, TASKS, Spec
from pna.multitask.families import from_pairs
from pna.multitask.generate import Adjacencies, generate
from pna.multitask.labels import connected_as_released, label


def graphs_of(adjacency, source=0, x=None):
    adjacency = np.asarray(adjacency, dtype=bool)[None]
    x = np.zeros(adjacency.shape[1]) if x is None else x
    return Adjacencies(adjacency, np.asarray(x, dtype=np.float32)[None], np.array([source]), np.zeros(1, dtype=np.int8))


@st.composite
def any_graph(draw):
    """Any graph of 2 to 9 nodes, isolated nodes and disconnected ones included."""
    N = draw(st.integers(2, 9))
    pairs = draw(st.lists(st.booleans(), min_size=N * (N - 1) // 2, max_size=N * (N - 1) // 2))
    return from_pairs(np.array([pairs]), N)[0]


def squared_until_positive(A):
    """The released label: square A ceil(log2 N) + 1 times and ask whether every entry is positive."""
    A = A.astype(float)
    for _ in range(1 + math.ceil(math.log2(len(A)))):
        A = np.minimum(A @ A, 1)
    return A.min() > 0


@given(any_graph())
def test_released_connected_label_is_connected_and_not_bipartite(adjacency):
    graph = nx.from_numpy_array(adjacency)
    expected = nx.is_connected(graph) and not nx.is_bipartite(graph)
    assert connected_as_released(graphs_of(adjacency))[0] == expected == squared_until_positive(adjacency)


@given(any_graph(), st.data())
def test_labels_of_any_graph(adjacency, data):
    source = data.draw(st.integers(0, len(adjacency) - 1))
    check(graphs_of(adjacency, source, np.arange(len(adjacency)) / 16), DESCRIBED)


def check(graphs, spec):
    """Labels of `graphs` by networkx: breadth-first lengths; what is not reachable counts as 0."""
    node_labels, graph_labels = label(graphs, spec)
    for b, adjacency in enumerate(graphs.adjacency):
        graph = nx.from_numpy_array(adjacency)
        lengths = dict(nx.all_pairs_shortest_path_length(graph))
        eccentricity = [max(lengths[node].values()) for node in graph]
        sssp = [lengths[graphs.source[b]].get(node, 0) for node in graph]
        connected = nx.is_connected(graph)
        if connected:
            assert eccentricity == list(nx.eccentricity(graph, sp=lengths).values())
        if spec.connected == "released":
            connected = connected and not nx.is_bipartite(graph)
            assert connected == squared_until_positive(adjacency)
        A = nx.to_numpy_array(graph)
        laplacian = (np.diag(A.sum(axis=0)) - A) @ graphs.x[b].astype(float)
        np.testing.assert_array_equal(node_labels[b, :, 0], sssp)
        np.testing.assert_array_equal(node_labels[b, :, 1], eccentricity)
        np.testing.assert_array_equal(node_labels[b, :, 2], laplacian.astype(np.float32))
        np.testing.assert_array_equal(graph_labels[b, :2], [connected, max(eccentricity)])
        np.testing.assert_allclose(graph_labels[b, 2], np.abs(np.linalg.eigvals(A)).max(), rtol=1e-6)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_labels_are_networkx_on_2000_graphs_per_family(family):
    for number, spec in enumerate((DESCRIBED, RELEASED)):
        for N in (7, 12):
            check(generate(spec, number, "test", N, np.arange(500), family.name), spec)


@pytest.mark.parametrize("N", [63, 64, 65, 100])
def test_labels_of_large_graphs(N):
    """The sets of nodes are kept in words of 64 bits."""
    for family in ("line", "lobster", "erdos_renyi"):
        check(generate(RELEASED, 0, "test", N, np.arange(4), family), RELEASED)


# -- literal cases -----------------------------------------------------------------------------------------------------


def test_path_of_three():
    node_labels, graph_labels = label(graphs_of(nx.to_numpy_array(nx.path_graph(3)), 0, [0.25, 0.5, 1]), DESCRIBED)
    np.testing.assert_array_equal(node_labels[0], [[0, 2, -0.25], [1, 1, -0.25], [2, 2, 0.5]])
    np.testing.assert_allclose(graph_labels[0], [1, 2, math.sqrt(2)])


def test_triangle_is_connected_under_both_specs_and_an_edge_only_as_described():
    for graph, released in ((nx.complete_graph(3), 1), (nx.complete_graph(2), 0)):
        graphs = graphs_of(nx.to_numpy_array(graph))
        assert label(graphs, DESCRIBED)[1][0, 0] == 1
        assert label(graphs, Spec(connected="released"))[1][0, 0] == released


def test_disconnected_graph_follows_the_released_conventions():
    adjacency = nx.to_numpy_array(nx.disjoint_union(nx.path_graph(3), nx.path_graph(2)))
    node_labels, graph_labels = label(graphs_of(adjacency), DESCRIBED)
    np.testing.assert_array_equal(node_labels[0, :, 0], [0, 1, 2, 0, 0])  # 0 where the source does not reach
    np.testing.assert_array_equal(node_labels[0, :, 1], [2, 1, 2, 1, 1])  # over the nodes it reaches
    np.testing.assert_array_equal(graph_labels[0, :2], [0, 2])  # the largest finite distance


def test_no_edge_at_all():
    node_labels, graph_labels = label(graphs_of(np.zeros((3, 3))), RELEASED)
    assert not node_labels.any()
    assert not graph_labels.any()


def test_tasks_are_the_papers():
    assert [(task.name, task.level) for task in TASKS] == [
        ("sssp", "node"),
        ("eccentricity", "node"),
        ("laplacian", "node"),
        ("connected", "graph"),
        ("diameter", "graph"),
        ("spectral_radius", "graph"),
    ]
