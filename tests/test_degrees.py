"""The degrees of a training set, counted and summarised. tests/test_model.py counts those of sampled batches."""

import math

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import PNAConv as PyGConv

from pna.degrees import DegreeStatistics, degree_histogram, merge_histograms


def test_delta_is_an_average_over_nodes_not_over_bins():
    degrees = torch.tensor([1, 1, 1, 3])
    expected = (3 * math.log(2) + math.log(4)) / 4
    assert DegreeStatistics.from_degrees(degrees) == DegreeStatistics.from_histogram(torch.tensor([0, 3, 0, 1]))
    assert DegreeStatistics.from_degrees(degrees).delta == pytest.approx(expected, rel=1e-12)
    assert DegreeStatistics.from_degrees(degrees).mean_degree == 1.5
    over_bins = (math.log(2) + math.log(4)) / 2
    assert expected != pytest.approx(over_bins, rel=0.05)


def test_delta_counts_isolated_nodes():
    assert DegreeStatistics.from_degrees(torch.tensor([0, 1])).delta == pytest.approx(math.log(2) / 2)


def test_degree_histogram_equals_pytorch_geometrics():
    graphs = [
        Data(edge_index=torch.randint(0, n, (2, 3 * n)), num_nodes=n + isolated)
        for n, isolated in ((5, 0), (20, 3), (2, 1))
    ]
    for loader in (graphs, [Batch.from_data_list(graphs)], graphs[::-1]):
        assert torch.equal(degree_histogram(loader), PyGConv.get_degree_histogram(loader))


def test_degree_histogram_of_a_graph_without_edges_and_beside_a_default_device():
    empty = Data(edge_index=torch.empty(2, 0), num_nodes=3)  # of floats, unless one asks for another dtype
    path = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    with torch.device("meta"):
        assert degree_histogram([empty, path]).tolist() == [4, 2]


@pytest.mark.parametrize("histogram", [torch.tensor(3), torch.ones(2, 3)])
def test_histograms_to_be_merged_have_one_dimension(histogram):
    with pytest.raises(ValueError, match="histogram must have one dimension"):
        merge_histograms(torch.ones(4), histogram)


@pytest.mark.parametrize(("edges", "words"), [([[0], [3]], "from 3 to 3"), ([[0], [-1]], "from -1 to -1")])
def test_a_histogram_invents_no_nodes(edges, words):
    with pytest.raises(ValueError, match=f"edge_index must hold node numbers from 0 to 2, got values {words}"):
        degree_histogram([Data(edge_index=torch.tensor(edges), num_nodes=3)])


@pytest.mark.parametrize("graphs", [Data(edge_index=torch.zeros(2, 1), num_nodes=1), [torch.ones(3)], [Data()]])
def test_a_histogram_of_something_else(graphs):
    with pytest.raises(
        TypeError, match=r"loader must yield graphs with an edge_index, got \w+; for one graph: \[data\]"
    ):
        degree_histogram(graphs)


def test_a_loader_is_iterable():
    with pytest.raises(TypeError, match="loader must be an iterable of graphs, got NoneType"):
        degree_histogram(None)


@pytest.mark.parametrize(
    ("histogram", "error", "words"),
    [
        (None, TypeError, "histogram must be a tensor of counts, got NoneType"),
        ([1, 2], TypeError, "histogram must be a tensor of counts, got list"),
        (torch.tensor([]), ValueError, "histogram is empty"),
        (torch.ones(2, 3), ValueError, r"histogram must have one dimension, .*; got \[2, 3\]"),
        (torch.tensor(3), ValueError, r"histogram must have one dimension, .*; got \[\]"),
        (torch.tensor([3, 0, 0]), ValueError, "no node of positive degree"),
        (torch.tensor([0, -1]), ValueError, "not negative, got values from -1 to 0"),
        (torch.tensor([0.0, float("nan")]), ValueError, "must be finite"),
    ],
)
def test_bad_histograms(histogram, error, words):
    with pytest.raises(error, match=words):
        DegreeStatistics.from_histogram(histogram)


def test_half_a_neighbour_is_refused():
    with pytest.raises(ValueError, match=r"degrees must be whole numbers, got 1\.5"):
        DegreeStatistics.from_degrees(torch.tensor([1.0, 1.5]))
    assert DegreeStatistics.from_degrees(torch.tensor([1.0, 2.0])).mean_degree == 1.5


@pytest.mark.parametrize("values", [(0.0, 1.0), (1.0, 0.0), (float("nan"), 1.0), (float("inf"), 1.0), (-1.0, 1.0)])
def test_bad_statistics(values):
    with pytest.raises(ValueError, match="must be positive and finite"):
        DegreeStatistics(*values)


@pytest.mark.parametrize(
    "deg", [torch.ones(3, device="meta"), torch.ones(3, dtype=torch.cfloat), torch.ones(3).to_sparse()]
)
def test_a_histogram_is_a_dense_tensor_of_real_counts(deg):
    with pytest.raises(TypeError, match="histogram must be a dense tensor of real counts"):
        DegreeStatistics.from_histogram(deg)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.half, torch.double])
def test_merged_histograms_do_not_overflow(dtype):
    largest = 200 if dtype == torch.uint8 else 2**31 - 1 if dtype == torch.int32 else 2048
    one, other = torch.tensor([largest, 2]).to(dtype), torch.tensor([largest - 1, 2, 3]).to(dtype)
    assert merge_histograms(one, other).tolist() == [one[0].item() + other[0].item(), 4, 3]


def test_edges_that_are_no_integers_are_named():
    graph = Data(edge_index=torch.tensor([[0.0, 1.0], [1.0, 0.0]]), num_nodes=2)
    with pytest.raises(TypeError, match="edge_index must be of integers, got"):
        degree_histogram([graph])
