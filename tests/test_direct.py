"""The layer as one function on a CPU against the layer in parts: outputs, gradients, second derivatives, conditions."""

import copy

import pytest
import torch
from torch.func import functional_call

from pna import PNAConv, direct, dispatch, gather
from pna.neighbourhoods import Neighbourhoods

DEG = torch.tensor([1, 5, 8, 4, 2])
EDGES, N = torch.randint(0, 9, (2, 40), generator=torch.Generator().manual_seed(1)), 11
CASES = {
    "the paper's": (["mean", "std", "max", "min"], ["identity", "amplification", "attenuation"]),
    "others": (["sum", "var", "max"], ["linear", 0.5]),
    "twice": (["mean", "sum", "mean", "max", "max", "std"], ["identity"]),
    "one": (["min"], ["identity"]),
}


def make(case, **kwargs):
    return PNAConv(6, 8, *CASES[case], DEG, **kwargs).double()


@pytest.fixture
def in_parts(monkeypatch):
    """A call of a layer that leaves out the path of the whole layer."""

    def run(conv, *inputs):
        with monkeypatch.context() as patch:
            patch.setattr(dispatch, "LAYER", [path for path in dispatch.LAYER if path.name != "whole layer on a CPU"])
            return conv(*inputs)

    return run


@pytest.fixture
def calls(monkeypatch):
    """One entry for each call that is computed as a whole."""
    calls, layer = [], direct.layer
    monkeypatch.setattr(direct, "layer", lambda *inputs: calls.append(1) or layer(*inputs))
    return calls


def drawn(conv):
    """Node features and, if the layer has them, edge features; all ask for gradients."""
    x = torch.randn(N, 6, dtype=torch.double, requires_grad=True)
    edge = torch.randn(EDGES.shape[1], conv.edge_dim or 1, dtype=torch.double, requires_grad=True)
    return [x] if conv.edge_dim is None else [x, edge]


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("shape", [{}, {"towers": 2}, {"towers": 2, "divide_input": True}], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_equals_the_layer_in_parts(case, shape, edge_dim, in_parts, calls):
    conv = make(case, edge_dim=edge_dim, **shape)
    x, *edge = drawn(conv)
    inputs, results = [x, *edge, *conv.parameters()], []
    for run in (conv, lambda *inputs: in_parts(conv, *inputs)):
        out = run(x, EDGES, *edge)
        grads = torch.autograd.grad(out.square().sum(), inputs, create_graph=True)
        results.append((out, *grads, *torch.autograd.grad(grads[0].square().sum(), inputs)))
    assert len(calls) == 1
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("towers", [1, 2])
def test_without_second_derivatives_the_gradient_is_written_out(towers, edge_dim, in_parts):
    conv = make("the paper's", towers=towers, edge_dim=edge_dim)
    x, *edge = drawn(conv)
    mine, theirs = (
        torch.autograd.grad(out.square().sum(), [x, *edge, *conv.parameters()])
        for out in (conv(x, EDGES, *edge), in_parts(conv, x, EDGES, *edge))
    )
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_what_is_frozen_gets_no_gradient(in_parts, calls):
    conv = make("the paper's", edge_dim=3).requires_grad_(False)
    conv.edge_encoder.weight.requires_grad_()
    x, edge = (t.detach() for t in drawn(conv))
    mine, theirs = (
        torch.autograd.grad(out.square().sum(), conv.edge_encoder.weight)
        for out in (conv(x, EDGES, edge), in_parts(conv, x, EDGES, edge))
    )
    assert len(calls) == 1
    torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_an_edge_feature_that_is_not_finite_is_seen_at_its_receiver_alone(value, in_parts, calls):
    conv = make("the paper's", edge_dim=3)
    x, edge = (t.detach() for t in drawn(conv))
    edge[7, 1] = value
    out = conv(x, EDGES, edge)
    assert len(calls) == 1
    assert out.isnan().any(1).nonzero().flatten().tolist() == [EDGES[1, 7]]
    torch.testing.assert_close(out, in_parts(conv, x, EDGES, edge), equal_nan=True)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_second_derivative_has_the_weights_and_the_delta_of_its_functional_call(device, calls):
    x = torch.randn(N, 6, dtype=torch.double, requires_grad=True)
    conv = make("the paper's")
    state = conv.state_dict() | {"combined.delta": torch.tensor(3.0).double()}
    other = make("the paper's")
    other.load_state_dict(state)
    outputs = functional_call(copy.deepcopy(conv).to(device), state, (x, EDGES)), other(x, EDGES)
    first, expected = (torch.autograd.grad(out.square().sum(), x, create_graph=True)[0] for out in outputs)
    torch.testing.assert_close(first, expected, rtol=1e-9, atol=1e-9)
    assert len(calls) == 2


@pytest.mark.parametrize("name", ["delta", "mean_degree"])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_buffer_that_asks_for_a_gradient_gets_it(name, compiled):
    conv, x = make("others" if name == "mean_degree" else "the paper's"), torch.randn(N, 6, dtype=torch.double)
    learned = make("others" if name == "mean_degree" else "the paper's", train_norm=True)
    learned.load_state_dict(conv.state_dict())
    getattr(conv.combined, name).requires_grad_()
    run = torch.compile(conv, backend="aot_eager") if compiled else conv
    run(x, EDGES).square().sum().backward()
    learned(x, EDGES).square().sum().backward()
    torch.testing.assert_close(getattr(conv.combined, name).grad, getattr(learned.combined, name).grad)


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize(("nodes", "edges"), [(0, 0), (1, 0), (4, 0), (1, 3)])
def test_no_nodes_no_edges_one_node(nodes, edges, edge_dim, calls):
    conv = make("others", towers=2, edge_dim=edge_dim)
    x = torch.randn(nodes, 6, dtype=torch.double, requires_grad=True)
    edge = None if edge_dim is None else torch.randn(edges, edge_dim, dtype=torch.double)
    out = conv(x, torch.zeros(2, edges, dtype=torch.long), edge)
    out.sum().backward()
    assert calls
    assert out.shape == (nodes, 8)
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    "kwargs", [{"pre_layers": 2}, {"post_layers": 2}, {"train_norm": True}, {"swap_extremes": True}]
)
def test_other_layers_go_in_parts(kwargs, calls):
    make("the paper's", **kwargs)(torch.randn(N, 6, dtype=torch.double), EDGES)
    assert calls == []


class Features(torch.Tensor):
    """Edge features of a class of their own, which may give operations another meaning."""


def without_bias(conv):
    conv.edge_encoder.bias = None


def hooked(conv):
    conv.edge_encoder.register_forward_hook(lambda *_: None)


def replaced(conv):
    conv.edge_encoder = torch.nn.Sequential(conv.edge_encoder)


@pytest.mark.parametrize("change", [without_bias, hooked, replaced])
def test_an_encoder_that_was_changed_goes_in_parts(change, calls):
    conv = make("the paper's", edge_dim=3)
    x, edge = drawn(conv)
    conv(x, EDGES, edge)
    assert len(calls) == 1
    change(conv)
    out = conv(x, EDGES, edge)
    assert len(calls) == 1
    torch.testing.assert_close(out, conv._with_messages(*conv.prepare(x, EDGES, edge)), rtol=1e-9, atol=1e-9)


def test_edge_features_of_a_class_of_their_own_go_in_parts(calls):
    conv = make("the paper's", edge_dim=3)
    x, edge = drawn(conv)
    conv(x, EDGES, edge.detach().as_subclass(Features))
    assert calls == []


def test_a_large_graph_an_unusual_aggregator_and_a_hook_go_in_parts(calls, monkeypatch):
    conv, x = make("the paper's"), torch.randn(N, 6, dtype=torch.double)
    PNAConv(6, 8, ["moment3"], ["identity"]).double()(x, EDGES)
    conv.half()(x.half(), EDGES)
    conv.double().mix.register_forward_hook(lambda *_: None)
    conv(x, EDGES)
    monkeypatch.setattr(gather, "BLOCK", 100)
    make("the paper's")(x, Neighbourhoods.of(EDGES, N))
    assert calls == []


@pytest.mark.parametrize("edges", [40, 4000])
def test_a_default_device_is_not_that_of_the_graph(edges, monkeypatch):
    monkeypatch.setattr(gather, "BLOCK", 1000)  # 40 messages are one block
    conv, x = PNAConv(6, 8, ["mean", "sum", "max"], ["identity"], DEG), torch.randn(N, 6)
    edge_index = torch.randint(0, N, (2, edges))
    expected = conv(x, edge_index)
    with torch.device("meta"):
        assert torch.equal(conv(x, edge_index), expected)
