"""Many graphs end to end."""

import numpy as np
import pytest

from pna.realworld.data.graphs import Graph, Graphs, sort_by_target


def test_messages_are_sorted_by_target():
    degree, source, order = sort_by_target(np.array([[0, 1, 2, 0], [2, 0, 0, 1]]), 4)
    assert degree.tolist() == [2, 1, 1, 0]
    assert source.tolist() == [1, 2, 0, 0]
    assert order.tolist() == [1, 2, 3, 0]


def test_a_node_that_receives_more_than_a_byte_can_count_is_refused():
    edges = np.zeros((2, 300), dtype=np.int64)
    with pytest.raises(ValueError, match="at most 255 messages, got one that receives 300"):
        sort_by_target(edges, 2)
    assert sort_by_target(edges[:, :255], 2)[0].tolist() == [255, 0]
    assert sort_by_target(edges[:, :0], 2)[0].tolist() == [0, 0]


def test_one_after_the_other(toys):
    graphs = toys.graphs("zinc", 7)
    assert len(graphs) == 7
    assert graphs.node_ptr[-1] == len(graphs.x) == len(graphs.degree)
    assert graphs.message_ptr[-1] == len(graphs.source) == len(graphs.edge) == graphs.messages.sum()
    assert (graphs.source < np.repeat(graphs.nodes, graphs.messages)).all()


def test_taking_all_changes_nothing_and_taking_back_undoes(toys):
    graphs = toys.graphs("molhiv", 9)
    order = np.random.default_rng(0).permutation(9)
    back = graphs.take(order).take(np.argsort(order))
    for name, array in graphs.arrays().items():
        assert np.array_equal(getattr(back, name), array), name


def test_taking_some(toys):
    graphs = toys.graphs("mnist", 9)
    some = graphs.take(np.array([4, 1]))
    rows = slice(*graphs.node_ptr[4:6])
    assert some.nodes.tolist() == graphs.nodes[[4, 1]].tolist()
    assert np.array_equal(some.x[: some.nodes[0]], graphs.x[rows])
    assert np.array_equal(some.degree[: some.nodes[0]], graphs.degree[rows])
    assert some.y.tolist() == graphs.y[[4, 1]].tolist()


def test_arrays_that_do_not_fit_are_refused(toys):
    arrays = toys.graphs("zinc", 3).arrays()
    with pytest.raises(ValueError, match=r"edge must have \d+ rows to fit nodes and degree, got 1"):
        Graphs(**arrays | {"edge": arrays["edge"][:1]})


def test_a_graph_too_large_for_a_byte_is_refused():
    n = 256
    empty = Graph(np.zeros((n, 1)), np.zeros(n, np.uint8), np.zeros(0, np.uint8), np.zeros((0, 1)), 0.0)
    with pytest.raises(ValueError, match="at most 255 nodes, got one with 256"):
        Graphs.of([empty])
