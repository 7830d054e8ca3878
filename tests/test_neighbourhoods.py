"""Edges in any form give the same neighbourhoods."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric import EdgeIndex

from pna import Neighbourhoods


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
    ptr, source, order, _ = Neighbourhoods.of(edge_index, N)
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


def test_a_sparse_transposed_adjacency_is_taken_as_it_is():
    edge_index = torch.tensor([[0, 2, 1, 1], [1, 1, 0, 2]])
    adj_t = torch.sparse_coo_tensor(edge_index.flip(0), torch.ones(4), (4, 4))
    expected = Neighbourhoods.of(edge_index, 4)
    for sparse in (adj_t.coalesce(), adj_t.to_sparse_csr(), adj_t.to_sparse_csc()):
        got = Neighbourhoods.of(sparse, 4)
        assert torch.equal(got.ptr, expected.ptr)
        assert torch.equal(got.source, expected.source)
        assert got.order is None


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


def test_a_sparse_adjacency_has_its_own_direction():
    with pytest.raises(ValueError, match="flow must be source_to_target, got target_to_source"):
        Neighbourhoods.of(torch.eye(3).to_sparse(), 3, flow="target_to_source")
