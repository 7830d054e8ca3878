"""The table of paths: its rows, which path computes which call, and that all paths compute the same."""

import dataclasses

import pytest
import torch

from pna import Neighbourhoods, PNAConv, PNASimpleConv, dispatch
from pna.dispatch import AGGREGATION, LAYER
from pna.kernels import operators

DEG = torch.tensor([1, 5, 8, 4, 2])
N = 11
EDGES = torch.randint(0, N, (2, 40), generator=torch.Generator().manual_seed(1))
PAPER = (["mean", "std", "max", "min"], ["identity", "amplification", "attenuation"])


def make(kind=PNAConv, sort=PAPER, **kwargs):
    return kind(6, 8, *sort, DEG, **kwargs).double()


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.double)


def taken(monkeypatch, table):
    """The names of the paths that are computed from here on."""
    names = []

    def seen(path):
        return dataclasses.replace(path, compute=lambda *inputs: names.append(path.name) or path.compute(*inputs))

    monkeypatch.setattr(dispatch, table, tuple(map(seen, getattr(dispatch, table))))
    return names


@pytest.fixture
def layers(monkeypatch):
    return taken(monkeypatch, "LAYER")


@pytest.fixture
def aggregations(monkeypatch):
    return taken(monkeypatch, "AGGREGATION")


# ---- the rows ----


@pytest.mark.parametrize("table", [LAYER, AGGREGATION])
def test_every_row_has_a_name_of_its_own_and_a_reason_and_the_last_supports_every_call(table):
    assert len({path.name for path in table}) == len(table)
    assert all(path.reason for path in table)
    assert table[-1].supports()
    with pytest.raises(dataclasses.FrozenInstanceError):
        table[0].name = "another"


def test_what_is_not_checked_is_asked_first():
    assert [path.unchecked for path in LAYER] == sorted((path.unchecked for path in LAYER), reverse=True)


# ---- all paths compute the same ----


@pytest.mark.parametrize("edge_dim", [None, 3])
@pytest.mark.parametrize("kind", [PNAConv, PNASimpleConv])
def test_every_path_that_supports_a_call_has_the_same_result(kind, edge_dim):
    conv = make(kind, edge_dim=edge_dim)
    inputs = conv.prepare(drawn(N, 6), EDGES, None if edge_dim is None else drawn(40, edge_dim))
    results = [path.compute(conv, *inputs) for path in LAYER if not path.unchecked and path.supports(conv, *inputs)]
    assert len(results) == (3 if kind is PNAConv else 2)
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=1e-9, atol=1e-9)


# ---- which path computes which call ----


def hooked(conv):
    conv.U[0].register_forward_hook(lambda *_: None)
    return conv


@pytest.mark.parametrize(
    ("conv", "path"),
    [
        (make(), "whole layer on a CPU"),
        (make(towers=2, divide_input=True), "whole layer on a CPU"),
        (make(post_layers=2), "split"),
        (make(pre_layers=2), "split"),
        (make(swap_extremes=True), "split"),
        (make(sort=(["softmax"], ["identity"])), "split"),
        (make(PNASimpleConv), "split"),
        (hooked(make()), "messages"),
        (hooked(make(PNASimpleConv)), "messages"),
    ],
)
def test_the_path_of_a_layer_on_a_cpu(conv, path, layers):
    conv(drawn(N, 6), EDGES)
    assert layers == [path]


@pytest.mark.parametrize(("options", "path"), [({}, "split"), ({"swap_extremes": True}, "messages")])
@pytest.mark.parametrize("name", ["M", "U"])
def test_what_is_appended_to_a_network_is_applied(name, options, path, layers):
    conv, x = make(**options), drawn(N, 6)
    getattr(conv, name).append(torch.nn.Tanh())
    out = conv(x, EDGES)
    assert layers == [path if name == "M" else "split"]
    torch.testing.assert_close(out, conv._with_messages(*conv.prepare(x, EDGES)), rtol=1e-9, atol=1e-9)
    theirs = make(**options)
    theirs.load_state_dict(conv.state_dict())
    assert not torch.allclose(out, theirs(x, EDGES))  # without the appended module


@pytest.mark.parametrize(("swap_extremes", "path"), [(False, "split"), (True, "messages")])
def test_two_kinds_of_nodes(swap_extremes, path, layers):
    make(swap_extremes=swap_extremes)((drawn(N, 6), drawn(N, 6)), EDGES)
    assert layers == [path]


@pytest.mark.parametrize(
    ("conv", "path"),
    [
        (make(edge_dim=3), "whole layer on a CPU"),
        (make(edge_dim=3, post_layers=2), "split"),
        (make(PNASimpleConv, edge_dim=3), "split"),
        (hooked(make(edge_dim=3)), "messages"),
    ],
)
def test_the_path_of_a_layer_with_edge_features(conv, path, layers):
    conv(drawn(N, 6), EDGES, drawn(40, 3))
    assert layers == [path]


def test_edge_features_are_split_off_under_torch_compile(monkeypatch):
    calls, split = [], PNAConv._split
    monkeypatch.setattr(PNAConv, "_split", lambda *inputs: calls.append(1) or split(*inputs))
    conv, inputs = make(edge_dim=3), (drawn(N, 6), EDGES, drawn(40, 3))
    expected = conv(*inputs)
    assert not calls
    torch.testing.assert_close(torch.compile(conv, backend="eager")(*inputs), expected, rtol=1e-9, atol=1e-9)
    assert calls


def test_missing_edge_features_are_said_though_a_path_does_not_check(monkeypatch):
    monkeypatch.setattr(operators, "supports", lambda *_: True)  # as on a GPU
    with pytest.raises(ValueError, match="edge_attr is missing: the layer was made with edge_dim=3"):
        make(edge_dim=3)(drawn(N, 6), EDGES)


def test_the_path_of_aggregates_on_a_cpu(aggregations):
    graph, x = Neighbourhoods.of(EDGES, N), drawn(N, 2, 3)
    dispatch.aggregate(graph, ["mean"], source=x)
    torch.func.grad(lambda x: dispatch.aggregate(graph, ["mean"], source=x).sum())(x)
    with torch.autocast("cpu", torch.bfloat16):
        dispatch.aggregate(graph, ["mean"], source=x)
    torch.func.jvp(lambda x: dispatch.aggregate(graph, ["mean"], source=x), (x,), (x,))
    assert aggregations == ["blocks", "operator", "operator", "equations"]


def test_kernels_come_first_but_know_one_kind_of_nodes(monkeypatch):
    monkeypatch.setattr(operators, "supports", lambda *_: True)
    one, two = Neighbourhoods.of(EDGES, N), Neighbourhoods.of(EDGES, (N, N))
    firsts = [[path.supports(graph, ["mean"], drawn(N, 2, 3)) for path in AGGREGATION[1:]] for graph in (one, two)]
    assert firsts == [[False, True, True, True], [False, False, True, True]]  # forward mode is not asked for


# ---- bad input ----


def test_aggregates_of_nothing():
    with pytest.raises(ValueError, match="give source, edge or both"):
        dispatch.aggregate(Neighbourhoods.of(EDGES, N), ["mean"], target=drawn(N, 3))


@pytest.mark.parametrize("x", [None, [1.0], drawn(N, 5), drawn(N, 6).float(), (drawn(N, 6),)])
def test_what_is_no_input_is_refused_by_the_check_and_not_by_a_condition(x):
    with pytest.raises((TypeError, ValueError), match="x"):
        make()(x, EDGES)
