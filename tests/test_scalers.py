"""The scalers against equations 5 and 6."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data
from torch_geometric.nn import PNAConv as PyGConv

from pna import merge_histograms, scalers
from pna.scalers import SCALERS, DegreeStatistics


@given(alpha=st.floats(-3, 3), delta=st.floats(0.1, 5))
def test_equation_6_for_any_alpha(alpha, delta):
    d = torch.arange(1, 50, dtype=torch.double)
    expected = [(math.log(k + 1) / delta) ** alpha for k in range(1, 50)]
    torch.testing.assert_close(scalers.S(d, alpha, delta), torch.tensor(expected, dtype=torch.double))


@given(alpha=st.floats(-1, 1).filter(lambda a: abs(a) > 1e-3))
def test_injective_for_positive_degrees(alpha):
    s = scalers.S(torch.arange(1, 1000, dtype=torch.double), alpha, 1.0)
    assert (s.diff().sign() == math.copysign(1, alpha)).all()


@pytest.mark.parametrize("alpha", [50, -50, 20.5])
def test_a_large_alpha_has_no_quotient_of_infinities(alpha):
    d = torch.tensor([1.0, 5.0, 30.0])
    expected = torch.tensor([(math.log(k + 1) / 12.0) ** alpha for k in (1, 5, 30)])
    torch.testing.assert_close(scalers.S(d, alpha, 12.0), expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("scaler", [*SCALERS, 0.5, -0.5, 0.0, 1])
def test_degree_zero_is_finite_with_a_finite_gradient(scaler):
    delta = torch.tensor(1.3, requires_grad=True)
    mean_degree = torch.tensor(2.5, requires_grad=True)
    factor = scalers.scale(torch.tensor([0.0, 1.0, 2.0]), scaler, delta, mean_degree)
    assert factor.isfinite().all()
    if factor.requires_grad:
        for grad in torch.autograd.grad(factor.sum(), (delta, mean_degree), allow_unused=True):
            assert grad is None or grad.isfinite().all()


def test_degree_zero_is_as_documented():
    d = torch.tensor([0.0, 1.0])
    value = {name: scalers.scale(d, name, 2.0, 4.0).tolist() for name in SCALERS}
    log2 = math.log(2)
    assert value["identity"] == [1, 1]
    assert value["amplification"] == pytest.approx([0, log2 / 2])
    assert value["attenuation"] == pytest.approx([2 / log2, 2 / log2])
    assert value["linear"] == [0, 0.25]
    assert value["inverse_linear"] == [4, 4]


def test_a_number_is_alpha():
    d = torch.arange(5.0)
    assert torch.equal(scalers.scale(d, 1, 2.0, 4.0), scalers.scale(d, "amplification", 2.0, 4.0))
    assert torch.equal(scalers.scale(d, -1.0, 2.0, 4.0), scalers.scale(d, "attenuation", 2.0, 4.0))
    assert torch.equal(scalers.scale(d, 0, 2.0, 4.0), torch.ones(5))


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
        assert torch.equal(scalers.degree_histogram(loader), PyGConv.get_degree_histogram(loader))


def test_degree_histogram_of_a_graph_without_edges_and_beside_a_default_device():
    empty = Data(edge_index=torch.empty(2, 0), num_nodes=3)  # of floats, unless one asks for another dtype
    path = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
    with torch.device("meta"):
        assert scalers.degree_histogram([empty, path]).tolist() == [4, 2]


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


@pytest.mark.parametrize("histogram", [torch.tensor(3), torch.ones(2, 3)])
def test_histograms_to_be_merged_have_one_dimension(histogram):
    with pytest.raises(ValueError, match="histogram must have one dimension"):
        merge_histograms(torch.ones(4), histogram)


def test_half_a_neighbour_is_refused():
    with pytest.raises(ValueError, match=r"degrees must be whole numbers, got 1\.5"):
        DegreeStatistics.from_degrees(torch.tensor([1.0, 1.5]))
    assert DegreeStatistics.from_degrees(torch.tensor([1.0, 2.0])).mean_degree == 1.5


@pytest.mark.parametrize(("edges", "words"), [([[0], [3]], "from 3 to 3"), ([[0], [-1]], "from -1 to -1")])
def test_a_histogram_invents_no_nodes(edges, words):
    with pytest.raises(ValueError, match=f"edge_index must hold node numbers from 0 to 2, got values {words}"):
        scalers.degree_histogram([Data(edge_index=torch.tensor(edges), num_nodes=3)])


@pytest.mark.parametrize("graphs", [Data(edge_index=torch.zeros(2, 1), num_nodes=1), [torch.ones(3)], [Data()]])
def test_a_histogram_of_something_else(graphs):
    with pytest.raises(
        TypeError, match=r"loader must yield graphs with an edge_index, got \w+; for one graph: \[data\]"
    ):
        scalers.degree_histogram(graphs)


@pytest.mark.parametrize("values", [(0.0, 1.0), (1.0, 0.0), (float("nan"), 1.0), (float("inf"), 1.0), (-1.0, 1.0)])
def test_bad_statistics(values):
    with pytest.raises(ValueError, match="must be positive and finite"):
        DegreeStatistics(*values)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, None, "1", 1j, 10**400])
def test_exponents_and_statistics_are_finite_numbers(value):
    d = torch.tensor([0.0, 1.0, 4.0])
    for call in (lambda: scalers.S(d, value, 1.0), lambda: scalers.linear(d, value, 1.0)):
        with pytest.raises(ValueError, match=r"(alpha|power) must be a finite number"):
            call()
    for call in (lambda: scalers.S(d, 1.0, value), lambda: scalers.linear(d, 1.0, value)):
        with pytest.raises(ValueError, match=r"(delta|mean_degree) must be positive and finite"):
            call()
    with pytest.raises(ValueError, match="unknown scaler"):
        scalers.scale(d, value, 1.0, 1.0)


@pytest.mark.parametrize("d", [torch.tensor([-1.0]), torch.tensor([math.nan]), torch.tensor([math.inf])])
def test_degrees_are_finite_and_not_negative(d):
    for call in (lambda: scalers.S(d, 1.0, 1.0), lambda: scalers.scale(d, "linear", 1.0, 1.0)):
        with pytest.raises(ValueError, match="d must be degrees"):
            call()


@pytest.mark.parametrize(
    "deg", [torch.ones(3, device="meta"), torch.ones(3, dtype=torch.cfloat), torch.ones(3).to_sparse()]
)
def test_a_histogram_is_a_dense_tensor_of_real_counts(deg):
    with pytest.raises(TypeError, match="histogram must be a dense tensor of real counts"):
        DegreeStatistics.from_histogram(deg)


def test_a_loader_is_iterable():
    with pytest.raises(TypeError, match="loader must be an iterable of graphs, got NoneType"):
        scalers.degree_histogram(None)
