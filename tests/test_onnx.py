"""torch.onnx.export: the layers in onnxruntime have their own numbers, for graphs of any size."""

import pytest
import torch
from torch import nn

from pna import Neighbourhoods, PNAConv, PNASimpleConv
from pna.dispatch import aggregate
from pna.onnx import Edges

NAMES = ["mean", "max", "min", "std", "var", "sum", "softmax", "softmin", "moment3", "moment4"]
SCALERS = ["identity", "amplification", "attenuation", "linear", "inverse_linear", 0.5]
DEG = torch.tensor([1, 5, 8, 4, 2])


class Network(nn.Module):
    """Layers of every kind, one after another."""

    def __init__(self):
        super().__init__()
        self.first = PNAConv(8, 10, NAMES, SCALERS, DEG, edge_dim=3, towers=5)
        self.second = PNAConv(10, 6, ["mean", "std"], SCALERS, DEG, pre_layers=2, flow="target_to_source")
        self.third = PNASimpleConv(6, 5, ["max", "std"], SCALERS, DEG, edge_dim=3)

    def forward(self, x, edge_index, edge_attr):
        x = self.first(x, edge_index, edge_attr).relu()
        return self.third(self.second(x, edge_index).relu(), edge_index, edge_attr)


class Fixed(nn.Module):
    """A layer that is always called with one graph."""

    def __init__(self, conv, graph):
        super().__init__()
        self.conv, self.graph = conv, graph

    def forward(self, x, edge_attr):
        return self.conv(x, self.graph, edge_attr)


def inputs(n, e):
    return torch.randn(n, 8), torch.randint(0, n, (2, e)), torch.randn(e, 3)


@pytest.mark.parametrize("name", NAMES)
def test_every_aggregate_by_plain_operations(name):
    edges, x = torch.randint(0, 9, (2, 40)), torch.randn(12, 2, 3).double()  # three nodes get nothing
    edge, target = torch.randn(40, 2, 3).double(), torch.randn(12, 2, 3).double()
    graph = Neighbourhoods.of(edges, 12)
    for parts in ((x, edge, target), (x, None, None), (None, edge, None), (x, None, target)):
        expected = aggregate(graph, [name], parts[0], None if parts[1] is None else graph.sort(edge), parts[2])
        found = aggregate(Edges(*edges, 12, None), [name], *parts)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["a cached graph", "a sorted graph in the model"])
def test_a_graph_that_was_sorted_before_is_exported(kind, tmp_path):
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    x, edges, attributes = inputs(9, 30)
    conv = PNAConv(8, 6, ["mean", "max"], SCALERS, DEG, edge_dim=3, cached=kind == "a cached graph").eval()
    model, tensors = conv, (x, edges, attributes)
    conv(*tensors)
    if not conv.cached:
        model, tensors = Fixed(conv, Neighbourhoods.of(edges, 9)), (x, attributes)
    torch.onnx.export(model, tensors, dynamo=True, verbose=False).save(tmp_path / "layer.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "layer.onnx")
    (out,) = session.run(None, {known.name: t.numpy() for known, t in zip(session.get_inputs(), tensors, strict=True)})
    torch.testing.assert_close(torch.from_numpy(out), model(*tensors), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_onnxruntime_has_the_layers_numbers_for_any_size(tmp_path):
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    network = Network().eval()
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    shapes = ({0: nodes}, {1: edges}, {0: edges})
    program = torch.onnx.export(network, inputs(20, 60), dynamo=True, dynamic_shapes=shapes, verbose=False)
    program.save(tmp_path / "network.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "network.onnx")
    for n, e in ((20, 60), (9, 5), (40, 200)):
        tensors = inputs(n, e)
        feed = {known.name: t.numpy() for known, t in zip(session.get_inputs(), tensors, strict=True)}
        (out,) = session.run(None, feed)
        torch.testing.assert_close(torch.from_numpy(out), network(*tensors), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [2, 4, 8, 12])  # even: an odd one of rounding errors has any sign
def test_moments_of_almost_equal_and_of_huge_neighbours(n):
    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7], [8, 8, 8, 8, 9, 9, 9, 9]])
    x = torch.cat([1 + 1e-6 * torch.randn(4, 3), 1e6 * torch.randn(4, 3), torch.zeros(2, 3)])  # float32
    expected = aggregate(Neighbourhoods.of(edges, 10), [f"moment{n}"], x)
    found = aggregate(Edges(*edges, 10, None), [f"moment{n}"], x)
    assert expected.isfinite().all()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
