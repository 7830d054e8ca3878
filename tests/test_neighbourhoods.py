"""Edges in any form give the same neighbourhoods."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric import EdgeIndex

from pna import Neighbourhoods, PNAConv


@st.composite
def graphs(draw):
    """edge_index [2, E] and N: with self-loops, repeated edges, isolated nodes, one node, no edges."""
    N = draw(st.integers(1, 8))
    node = st.integers(0, N - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20))
    return torch.tensor(edges, dtype=torch.long).view(-1, 2).t().contiguous(), N


@given(graph=graphs())
def test_each_node_gets_its_senders(graph):
    edge_index, N = graph
    ptr, source, order, *_ = Neighbourhoods.of(edge_index, N)
    for i in range(N):
        expected = [j for j, k in edge_index.t().tolist() if k == i]
        assert source[ptr[i] : ptr[i + 1]].tolist() == expected  # a stable sort: the caller's order is kept
    assert torch.equal(edge_index[0][order], source)


@given(graph=graphs())
def test_degree_target_and_edge_features_follow(graph):
    edge_index, N = graph
    neighbourhoods = Neighbourhoods.of(edge_index, N)
    assert torch.equal(neighbourhoods.degree, torch.bincount(edge_index[1], minlength=N))
    assert torch.equal(neighbourhoods.sort(edge_index[1]), neighbourhoods.target)
    assert (neighbourhoods.num_nodes, neighbourhoods.num_edges) == (N, edge_index.shape[1])


@given(graph=graphs())
def test_every_form_of_the_edges_is_the_same_graph(graph):
    edge_index, N = graph
    expected = Neighbourhoods.of(edge_index, N)
    forms = {
        "int32": edge_index.int(),
        "EdgeIndex": EdgeIndex(edge_index, sparse_size=(N, N)),
        "sorted EdgeIndex": EdgeIndex(edge_index, sparse_size=(N, N)).sort_by("col")[0],
        "not contiguous": edge_index.t().contiguous().t(),
    }
    for form, edges in forms.items():
        got = Neighbourhoods.of(edges, N)
        assert torch.equal(got.ptr, expected.ptr), form
        assert got.source.dtype == torch.long
        for i in range(N):
            row = slice(expected.ptr[i], expected.ptr[i + 1])
            assert got.source[row].sort().values.tolist() == expected.source[row].sort().values.tolist(), form
    flipped = Neighbourhoods.of(edge_index.flip(0), N, flow="target_to_source")
    assert torch.equal(flipped.source, expected.source)


def sparse_forms(edge_index, N):
    """Edges as sparse matrices, each with the edges' numbers in the order in which it stores them."""
    numbers = torch.arange(edge_index.shape[1], dtype=torch.double)
    adj_t = torch.sparse_coo_tensor(edge_index.flip(0), numbers, (N, N))
    forms = {"COO, not coalesced": adj_t}
    if edge_index.unique(dim=1).shape[1] == edge_index.shape[1]:  # the others add up what is there twice
        forms |= {"COO": adj_t.coalesce(), "CSR": adj_t.to_sparse_csr(), "CSC": adj_t.to_sparse_csc()}
    return {form: (sparse, sparse._values() if sparse.is_sparse else sparse.values()) for form, sparse in forms.items()}


@given(graph=graphs())
def test_edge_features_follow_a_sparse_adjacency_of_any_form(graph):
    edge_index, N = graph
    expected = Neighbourhoods.of(edge_index, N)
    for form, (sparse, numbers) in sparse_forms(edge_index, N).items():
        got = Neighbourhoods.of(sparse, N)
        assert torch.equal(got.ptr, expected.ptr), form
        number = got.sort(numbers).long()  # of each message: which edge it is
        assert torch.equal(edge_index[0][number], got.source), form
        assert torch.equal(edge_index[1][number], got.target), form


def test_a_sorted_adjacency_is_taken_as_it_is():
    adj_t = torch.eye(4).to_sparse_csr()
    got = Neighbourhoods.of(adj_t, 4)
    assert got.order is None
    assert got.source.data_ptr() == adj_t.col_indices().data_ptr()


@given(graph=graphs(), more=st.integers(0, 3))
def test_two_kinds_of_nodes(graph, more):
    edge_index, N = graph
    expected, got = Neighbourhoods.of(edge_index, N), Neighbourhoods.of(edge_index, (N + more, N))
    assert (got.senders, got.num_nodes) == (N + more, N)
    assert torch.equal(got.source, expected.source)
    sender_ptr, receiver, _ = got.with_transpose().transpose
    assert sender_ptr.shape == (N + more + 1,)
    assert torch.equal(receiver.sort().values, expected.target)
    back = Neighbourhoods.of(edge_index.flip(0), (N, N + more), flow="target_to_source")
    assert torch.equal(back.ptr, got.ptr)
    assert back.senders == N + more


@pytest.mark.parametrize(
    ("edges", "error", "words"),
    [
        ([[0], [1]], TypeError, "must be a tensor .* got list"),
        (torch.zeros(3, 4, dtype=torch.long), ValueError, r"must have the shape \[2, E\], got \(3, 4\)"),
        (torch.zeros(2, dtype=torch.long), ValueError, r"must have the shape \[2, E\], got \(2,\)"),
        (torch.zeros(2, 4), TypeError, "integers .* got torch.float32"),
        (torch.zeros(2, 4, dtype=torch.bool), TypeError, "integers .* got torch.bool"),
        (torch.tensor([[0], [3]]), ValueError, r"from 0 to 2 \(x has 3 rows\), got values from 0 to 3"),
        (torch.tensor([[-1], [0]]), ValueError, "got values from -1 to 0"),
        (torch.eye(2).to_sparse(), ValueError, r"must be \[3, 3\], got \[2, 2\]"),
    ],
)
def test_bad_edges(edges, error, words):
    with pytest.raises(error, match=words):
        Neighbourhoods.of(edges, 3)


@pytest.mark.parametrize("flow", ["sideways", None, 0, ("source_to_target",)])
def test_other_flows(flow):
    with pytest.raises(ValueError, match="flow must be one of source_to_target, target_to_source, got"):
        Neighbourhoods.of(torch.zeros(2, 1, dtype=torch.long), 3, flow)


@pytest.mark.parametrize("num_nodes", [np.int64(5), (np.int32(5), 5)])
def test_numbers_of_nodes_may_be_numpys(num_nodes):
    edges = torch.tensor([[0, 4, 1], [2, 2, 0]])
    got, expected = Neighbourhoods.of(edges, num_nodes), Neighbourhoods.of(edges, 5)
    assert torch.equal(got.ptr, expected.ptr)
    assert torch.equal(got.source, expected.source)


@pytest.mark.parametrize("num_nodes", [-1, 2.0, None, True, (1, 2, 3), (3, -1), [3, 3]])
def test_other_numbers_of_nodes(num_nodes):
    with pytest.raises(ValueError, match="num_nodes must be an integer of at least 0, or a pair of them, got"):
        Neighbourhoods.of(torch.zeros(2, 1, dtype=torch.long), num_nodes)


def test_a_number_that_is_no_node_among_two_kinds():
    with pytest.raises(ValueError, match="senders from 0 to 1 and receivers from 0 to 4, got values from 2 to 2 and"):
        Neighbourhoods.of(torch.tensor([[2], [4]]), (2, 5))


def test_blocks_are_no_edges():
    with pytest.raises(ValueError, match=r"a sparse edge_index must be COO, CSR or CSC, got torch.sparse_bsr"):
        Neighbourhoods.of(torch.eye(4).to_sparse_bsr((2, 2)), 4)


def test_a_sparse_adjacency_has_its_own_direction():
    with pytest.raises(ValueError, match="flow must be source_to_target, got target_to_source"):
        Neighbourhoods.of(torch.eye(3).to_sparse(), 3, flow="target_to_source")


# ---- graphs of strangers ----

GRAPH = Neighbourhoods.of(torch.tensor([[0, 1, 2, 1], [1, 2, 0, 0]]), 3)
CONV = PNAConv(2, 2, ["mean"], ["identity"], pre_layers=2)


@pytest.mark.parametrize("column", [-1, 3, 10**9])
def test_a_csr_matrix_names_nodes_that_are_there(column):
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        matrix = torch.sparse_csr_tensor(torch.tensor([0, 1, 1, 1]), torch.tensor([column]), torch.ones(1), (3, 3))
    with pytest.raises(ValueError, match=r"edge_index, must be from 0 to 2, got values from"):
        Neighbourhoods.of(matrix, 3)
    with pytest.raises(ValueError, match=r"edge_index, must be from 0 to 2, got values from"):
        CONV(torch.randn(3, 2), matrix)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": torch.tensor([0, 1, -1, 0])}, "source of Neighbourhoods"),
        ({"source": torch.tensor([0, 1, 3, 0])}, "source of Neighbourhoods"),
        ({"source": torch.tensor([0.0, 1, 2, 0])}, "source of Neighbourhoods must be a tensor of integers"),
        ({"order": torch.tensor([0, 1, 2, 4])}, "order of Neighbourhoods"),
        ({"order": torch.tensor([0, 1, 2, 2])}, "order of Neighbourhoods must hold every place of an edge once"),
        ({"order": torch.tensor([0, 1, 2])}, "order as long as source"),
        ({"ptr": torch.tensor([0, 3, 2, 4])}, "ptr of Neighbourhoods must rise"),
        ({"ptr": torch.tensor([0, 1, 2, 5])}, "ptr of Neighbourhoods must rise"),
        ({"ptr": torch.tensor([1, 1, 2, 4])}, "ptr of Neighbourhoods must rise"),
        ({"ptr": torch.tensor([], dtype=torch.long)}, "ptr of Neighbourhoods must be"),
    ],
)
def test_a_graph_that_was_put_together_by_hand_is_checked(change, words):
    CONV(torch.randn(3, 2), GRAPH._replace(flow=None))
    with pytest.raises((TypeError, ValueError), match=words):
        CONV(torch.randn(3, 2), GRAPH._replace(flow=None, **change))


@pytest.mark.parametrize(
    ("value", "error"),
    [(None, TypeError), ([1.0] * 4, TypeError), (torch.randn(4, 2).to_sparse(), TypeError)]
    + [(torch.randn(n, 2), ValueError) for n in (0, 3, 5, 9)]
    + [(torch.tensor(1.0), ValueError)],
)
def test_features_to_sort_have_a_row_for_each_edge(value, error):
    for graph in (GRAPH, GRAPH._replace(order=None)):
        with pytest.raises(error, match="edge_attr must"):
            graph.sort(value)


def test_a_graph_moves_to_a_device_with_all_that_it_holds():
    graph = Neighbourhoods.of(torch.tensor([[0, 1, 2], [1, 0, 0]]), 3).with_transpose()
    moved = graph.to("meta")
    assert type(moved.transpose) is type(graph.transpose)
    assert all(t.is_meta for t in (moved.ptr, moved.source, moved.order, *moved.transpose))
    assert (moved.flow, moved.num_nodes) == (graph.flow, 3)
