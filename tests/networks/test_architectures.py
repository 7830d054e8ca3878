"""Both architectures against their definition, parameter counts against the released code's, and the batch."""

from dataclasses import replace
from functools import partial

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch_geometric.nn.aggr import Set2Set

from pna import DegreeStatistics
from pna.multitask import DESCRIBED as DATA
from pna.multitask import Split, make
from pna.networks import DESCRIBED, MODELS, GraphBatch, build, count_parameters
from pna.networks import RELEASED as AS_RELEASED
from pna.networks import layers as ours
from pna.networks.architectures import ARCHITECTURES, Recurrent
from pna.networks.convolutions import PNA
from pna.networks.depths import depth_named

RELEASED = replace(AS_RELEASED, centred_once=False)  # D12 is rounding, which no two computations share

DEGREES = DegreeStatistics(1.3, 3.0)
KINDS = [model for model in MODELS if model not in ("moments-1", "moments-2", "moments-3", "moments-4")]
SPECS = pytest.mark.parametrize("spec", [DESCRIBED, RELEASED], ids=["described", "released"])
PAIRS = [  # of model, architecture and specification, every two
    pytest.param(model, architecture, (DESCRIBED, RELEASED)[(i + k) % 2], id=f"{model}-{architecture}-{(i + k) % 2}")
    for i, model in enumerate(KINDS)
    for k, architecture in enumerate(ARCHITECTURES)
]


def assert_near(out, expected, tolerance=1e-10):
    torch.testing.assert_close(out, expected, rtol=0, atol=tolerance)


def network(model, architecture="recurrent", spec=DESCRIBED, hidden=8, depth=None):
    """A network whose layers, even as released, are large enough to matter."""
    net = build(model, hidden, spec, DEGREES, architecture).double()
    if spec.small_initialisation:
        for parameter in net.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
    if depth is not None:
        net.depth = depth_named(depth)
    return net


# ---- parameters ----

COUNTS = {  # released-code.md, at hidden 16 and 20
    "pna": (8350, 12726),
    "pna-no-scalers": (7582, 11606),
    "mpnn-max": (7294, 11186),
    "mpnn-sum": (7294, 11186),
    "gat": (6694, 10286),
    "gcn": (6662, 10246),
    "gin": (7272, 11168),
}

COMBINED = {  # aggregators times scalers
    "pna": 12,
    "pna-no-scalers": 4,
    "mpnn-max": 1,
    "mpnn-sum": 1,
    "mean-max-min": 3,
    "pna-soft": 12,
    **{f"moments-{n}": 3 * n for n in range(1, 6)},
}


def convolution_formula(model, F, H):
    """Weights of a convolution from F to H features, counted by hand; gcn, gat and gin, or towers with M, U, mixing."""
    if model == "gcn":
        return F * H + H
    if model == "gat":
        return F * H + 2 * H
    if model == "gin":
        return 1 + (F * H + H) + (H * H + H) + 2 * H
    f = F if F != H else H // 4  # features of a tower
    return 4 * (2 * f * f + f) + 4 * ((1 + COMBINED[model]) * f * (H // 4) + H // 4) + (H * H + H)


def recurrent_formula(model, H):
    gru = 2 * 3 * H * H + 2 * 3 * H
    nodes = 2 * (H * H + H) + 3 * H + 3
    set2set = 4 * H * 2 * H + 4 * H * H + 2 * 4 * H
    graphs = (2 * H * H + H) + (H * H + H) + 2 * 2 * H + 3 * H + 3
    convolutions = convolution_formula(model, 2, H) + convolution_formula(model, H, H)
    return convolutions + gru + nodes + set2set + graphs


def standard_formula(model, H):
    skips = 2 + 8 * H
    head = (skips * H + H) + (H * H + H) + 3 * H + 3
    return convolution_formula(model, 2, H) + 7 * convolution_formula(model, H, H) + 2 * head + 2 * 2 * H


@SPECS
@pytest.mark.parametrize("model", COUNTS)
def test_parameters_equal_the_released_codes(model, spec):
    assert tuple(count_parameters(build(model, hidden, spec)) for hidden in (16, 20)) == COUNTS[model]


@pytest.mark.parametrize("hidden", [4, 16, 20, 32])
@pytest.mark.parametrize("model", MODELS)
def test_parameters_equal_the_formula(model, hidden):
    assert count_parameters(build(model, hidden)) == recurrent_formula(model, hidden)
    assert count_parameters(build(model, hidden, architecture="standard")) == standard_formula(model, hidden)
    gru, s2s = 6 * hidden**2 + 6 * hidden, 12 * hidden**2 + 8 * hidden + hidden**2  # and half of the head's first layer
    assert count_parameters(build(model, hidden, architecture="no-gru")) == recurrent_formula(model, hidden) - gru
    assert count_parameters(build(model, hidden, architecture="mean-readout")) == recurrent_formula(model, hidden) - s2s


def test_parameters_of_the_released_flags_for_eight_layers():
    """`--skip --conv_layers=8` is not the appendix's: S2S and heads on all 2 + 8 · 16 features side by side."""
    standard, wide = build("pna", 16, RELEASED, architecture="standard"), 2 + 8 * 16
    heads = [ours.head([wide, wide, wide, 3], RELEASED), ours.head([2 * wide, wide, wide, 3], RELEASED, norm=True)]
    parts = [standard.convolutions, ours.Set2Set(wide), *heads]
    assert sum(map(count_parameters, parts)) == 299_758 != count_parameters(standard)


# ---- the recurrent architecture ----


def test_without_gru_the_states_are_the_convolutions(graphs):
    batch = graphs.batch(graphs.adjacency(3, 4, 9), torch.rand(36, 2, dtype=torch.double))
    net = network("pna", "no-gru")
    x = net.GC_1(batch.x, batch)
    for _ in range(3):
        x = net.GC_m(x, batch)
    assert_near(net(batch)[0], net.nodes(x))


def test_without_s2s_the_readout_is_the_mean(graphs):
    batch = graphs.batch(graphs.adjacency(3, 4, 9), torch.rand(36, 2, dtype=torch.double))
    net = network("gcn", "mean-readout").eval()
    mean = net._states(torch.nn.functional.pad(batch.x, (0, 6)), 4, batch).view(4, 9, 8).mean(1)
    assert_near(net(batch)[1], net.graphs(mean))


def applications(net, batch):
    """How often GC_1 and GC_m are applied."""
    calls = {"GC_1": 0, "GC_m": 0}
    for name in calls:
        getattr(net, name).register_forward_hook(lambda *_, name=name: calls.update({name: calls[name] + 1}))
    net(batch)
    return calls


@pytest.mark.parametrize(
    ("depth", "N", "expected"),
    [("N/2", 2, 0), ("N/2", 3, 0), ("N/2", 4, 1), ("N/2", 15, 6), ("N/2", 16, 7), ("N/2", 24, 11),
     ("N", 2, 1), ("N", 9, 8), ("8", 5, 7), ("8", 20, 7)],
)  # fmt: skip
def test_the_shared_convolution_is_applied_once_less_than_the_depth(graphs, depth, N, expected):
    net = network("gcn", depth=depth)
    assert applications(net, graphs.batch(graphs.adjacency(1, 3, N))) == {"GC_1": 1, "GC_m": expected}


def test_the_default_depth_is_half_the_nodes(graphs):
    batch = graphs.batch(graphs.adjacency(1, 3, 11))
    assert applications(network("gcn"), batch) == {"GC_1": 1, "GC_m": 11 // 2 - 1}


def test_the_depth_diameter_applies_the_shared_convolution_as_the_widest_graph_needs(graphs):
    A = torch.stack([matrix(nx.path_graph(6)), matrix(nx.complete_graph(6)), matrix(nx.star_graph(5))])
    net = network("gcn", depth="diameter")
    assert applications(net, graphs.batch(A)) == {"GC_1": 1, "GC_m": 4}
    assert applications(net, graphs.batch(A[1:])) == {"GC_1": 1, "GC_m": 1}
    assert applications(net, graphs.batch(A[1:2])) == {"GC_1": 1, "GC_m": 0}


@SPECS
@pytest.mark.parametrize("model", KINDS)
def test_with_the_depth_diameter_each_graph_ends_as_it_does_alone(graphs, model, spec):
    parts = [nx.path_graph(6), nx.complete_graph(6), nx.star_graph(5), nx.cycle_graph(6), nx.ladder_graph(3)]
    A = torch.stack([matrix(graph) for graph in parts])
    x = torch.rand(30, 2, dtype=torch.double)
    net = network(model, spec=spec, depth="diameter").eval()
    nodes, whole = net(graphs.batch(A, x))
    for g in range(5):
        alone = net(graphs.batch(A[g : g + 1], x[6 * g : 6 * g + 6]))
        assert_near(nodes[6 * g : 6 * g + 6], alone[0])
        assert_near(whole[g : g + 1], alone[1])


def test_a_frozen_state_is_that_of_its_own_number_of_layers(graphs):
    """A star has diameter 2: one application of GC_m, although the path beside it needs four."""
    x = torch.rand(12, 2, dtype=torch.double)
    star = matrix(nx.star_graph(5))
    net = network("pna", depth="diameter").eval()
    nodes, _ = net(graphs.batch(torch.stack([matrix(nx.path_graph(6)), star]), x))
    net.depth = lambda batch: 2
    assert_near(nodes[6:], net(graphs.batch(star.unsqueeze(0), x[6:]))[0])
    net.depth = lambda batch: 3
    assert not torch.allclose(nodes[6:], net(graphs.batch(star.unsqueeze(0), x[6:]))[0], atol=1e-6)


def torchs_cell(gates, cell):
    names = {"weight_ih": "input.weight", "weight_hh": "state.weight", "bias_ih": "input.bias", "bias_hh": "state.bias"}
    weights = gates.state_dict()
    cell.load_state_dict({theirs: weights[mine] for theirs, mine in names.items()})
    return cell


def head(mlp, x, training):
    """Three layers, with ReLU and batch normalisation if it has norms and LeakyReLU if not."""
    for k in range(2):
        x = mlp.layers[k](x)
        if mlp.norms is None:
            x = functional.leaky_relu(x)
        else:
            norm = mlp.norms[k]
            statistics = (norm.running_mean.clone(), norm.running_var.clone())
            x = functional.batch_norm(functional.relu(x), *statistics, norm.weight, norm.bias, training)
    return mlp.layers[2](x)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_batch_first_seen_in_inference_mode_can_be_trained_with(graphs, architecture):
    batch, net = graphs.batch(graphs.adjacency(2, 4, 6)), network("pna", architecture)
    with torch.inference_mode():
        expected = net(batch)[1].clone()
    nodes, whole = net(batch)
    assert_near(whole, expected)
    (nodes.sum() + whole.sum()).backward()
    assert all(p.grad is not None for p in net.parameters())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("model", ["pna", "gcn", "gat", "mpnn-sum"])
def test_recurrent_network_equals_figure_3_put_together_from_its_parts(graphs, model, training):
    G, N, H = 5, 9, 8
    batch = graphs.batch(graphs.adjacency(2, G, N))
    net = network(model).train(training)
    cell = torchs_cell(net.gru.gates, torch.nn.GRUCell(H, H).double())
    readout = Set2Set(H, processing_steps=N).double()
    weights = torchs_cell(net.readout.gates, torch.nn.LSTMCell(2 * H, H).double()).state_dict()
    readout.lstm.load_state_dict({f"{name}_l0": weight for name, weight in weights.items()})

    padded = torch.cat([batch.x, torch.zeros(G * N, H - 2, dtype=torch.double)], dim=1)
    state = cell(padded, net.GC_1(batch.x, batch))  # input: the state before; hidden: what the convolution made of it
    for _ in range(N // 2 - 1):
        state = cell(state, net.GC_m(state, batch))
    summary = readout(state, torch.arange(G).repeat_interleave(N))
    expected = head(net.nodes, state, training), head(net.graphs, summary, training)

    nodes, whole = net(batch)
    assert nodes.shape == (G * N, 3)
    assert whole.shape == (G, 3)
    assert_near(nodes, expected[0])
    assert_near(whole, expected[1])


def test_one_gru_and_one_convolution_are_shared_by_all_layers_but_the_first():
    names = {name.split(".")[0] for name, _ in network("pna").named_parameters()}
    assert names == {"GC_1", "GC_m", "gru", "nodes", "readout", "graphs"}


# ---- the standard architecture ----


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("model", ["pna", "gcn", "gat", "mpnn-max"])
def test_standard_network_equals_the_appendix_put_together_from_its_parts(graphs, model, training):
    G, N = 5, 6
    batch = graphs.batch(graphs.adjacency(3, G, N))
    net = network(model, "standard").train(training)
    layers, x = [batch.x], batch.x
    for k in range(8):
        x = net.convolutions[k](x, batch)
        layers.append(x)
    skips = torch.cat(layers, dim=1)  # the input, then every layer
    means = torch.stack([skips[g * N : (g + 1) * N].sum(0) / N for g in range(G)])
    nodes, whole = net(batch)
    assert skips.shape == (G * N, 2 + 8 * 8)
    assert_near(nodes, head(net.nodes, skips, training))
    assert_near(whole, head(net.graphs, means, training))


def test_standard_network_has_eight_convolutions_of_their_own_and_no_gru():
    net = network("pna", "standard")
    assert len(net.convolutions) == 8
    assert len({id(parameter) for parameter in net.convolutions.parameters()}) == 8 * 6  # M, U and mix, two each
    assert {name.split(".")[0] for name, _ in net.named_parameters()} == {"convolutions", "nodes", "graphs"}


@pytest.mark.parametrize("N", [3, 15])
def test_standard_network_has_the_same_depth_for_graphs_of_any_size(graphs, N):
    net, calls = network("gcn", "standard"), []
    for k, convolution in enumerate(net.convolutions):
        convolution.register_forward_hook(lambda *_, k=k: calls.append(k))
    net(graphs.batch(graphs.adjacency(3, 2, N)))
    assert calls == list(range(8))


# ---- the order of the nodes, and of the graphs ----


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("model", KINDS)
@settings(max_examples=2)
@given(seed=st.integers(0, 10_000))
def test_described_networks_are_equivariant_for_nodes_and_invariant_for_graphs(graphs, model, architecture, seed):
    A = graphs.adjacency(seed, 4, 8)
    x = torch.rand(32, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    net = network(model, architecture)
    B, y, rows = graphs.permuted(A, x, seed)
    nodes, whole = net(graphs.batch(A, x))
    permuted_nodes, permuted_whole = net(graphs.batch(B, y))
    assert_near(permuted_nodes, nodes[rows], 1e-8)
    assert_near(permuted_whole, whole, 1e-8)


@pytest.mark.parametrize("model", ["gat", "gin"])
def test_released_gat_and_gin_depend_on_the_order_of_the_nodes(graphs, model):
    """D6 at any size, D7 at N = hidden."""
    A, x = graphs.adjacency(4, 4, 8), torch.rand(32, 2, dtype=torch.double)
    net = network(model, spec=RELEASED)
    B, y, rows = graphs.permuted(A, x, 4)
    assert (net(graphs.batch(B, y))[0] - net(graphs.batch(A, x))[0][rows]).abs().max() > 1e-4


@pytest.mark.parametrize(("model", "architecture", "spec"), PAIRS)
def test_graphs_of_a_batch_do_not_hear_each_other_in_evaluation(graphs, model, architecture, spec):
    A, x = graphs.adjacency(5, 3, 8), torch.rand(24, 2, dtype=torch.double)
    net = network(model, architecture, spec).eval()
    nodes, whole = net(graphs.batch(A, x))
    for g in range(3):
        alone = net(graphs.batch(A[g : g + 1], x[8 * g : 8 * g + 8]))
        assert_near(nodes[8 * g : 8 * g + 8], alone[0])
        assert_near(whole[g : g + 1], alone[1])


# ---- the benchmark's own batches ----


@pytest.fixture(scope="module")
def data():
    return make(DATA, [Split("train", "train", (15, 16), 6)], 3)


@pytest.mark.parametrize(("model", "architecture", "spec"), PAIRS)
def test_every_network_has_finite_gradients_on_a_batch_of_the_benchmark(data, model, architecture, spec):
    net = build(model, 16, spec, data.degrees, architecture)
    *_, raw = data["train"].batches(6)
    batch = GraphBatch.of(raw)
    assert (batch.G, batch.N) == (6, 16)
    nodes, whole = net(batch)
    loss = functional.mse_loss(nodes, batch.y_node) + functional.mse_loss(whole, batch.y_graph)
    grads = torch.autograd.grad(loss, list(net.parameters()))
    assert all(grad.isfinite().all() for grad in grads)
    assert sum(bool(grad.any()) for grad in grads) > len(grads) / 2


def test_a_graph_batch_keeps_what_the_benchmark_gives(data):
    raw = next(data["train"].batches(6))
    batch = GraphBatch.of(raw, dtype=torch.double)
    assert torch.equal(batch.x, raw.x.double())
    assert torch.equal(batch.y_node, raw.y_node.double())
    assert torch.equal(batch.y_graph, raw.y_graph.double())
    assert torch.equal(batch.neighbourhoods.ptr, raw.ptr)
    assert torch.equal(batch.neighbourhoods.source, raw.source)
    assert GraphBatch.of(raw).x.dtype == torch.float32


def test_diameter_equals_the_benchmarks_label(data):
    for raw in data["train"].batches(6):
        label = raw.y_graph[:, 1] * data.maxima[4]
        assert torch.equal(GraphBatch.of(raw).diameter, label.round().long())


def test_a_batch_of_graphs_of_several_sizes_is_refused(data):
    (mixed,) = data["train"].batches(12, mixed=True)
    with pytest.raises(ValueError, match=r"graphs of one size, got the sizes \[15, 16\]"):
        GraphBatch.of(mixed)


# ---- the batch ----


def matrix(graph):
    return torch.from_numpy(nx.to_numpy_array(graph, sorted(graph)))


def test_reverse_is_the_place_of_the_message_in_the_other_direction(graphs):
    A = graphs.adjacency(6, 4, 7, 0.3, isolated=True)
    batch = graphs.batch(A)
    sender, receiver = graphs.edge_index(A)
    assert torch.equal(sender[batch.reverse], receiver)
    assert torch.equal(receiver[batch.reverse], sender)
    assert torch.equal(batch.reverse[batch.reverse], torch.arange(len(sender)))


@given(seed=st.integers(0, 10_000), N=st.integers(2, 12), p=st.floats(0.02, 0.8))
def test_diameter_is_the_largest_finite_distance(graphs, seed, N, p):
    A = graphs.adjacency(seed, 4, N, p, isolated=True)
    lengths = [nx.all_pairs_shortest_path_length(nx.from_numpy_array(a.numpy())) for a in A]
    expected = [max(max(row.values()) for _, row in graph) for graph in lengths]
    assert graphs.batch(A).diameter.tolist() == expected


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (nx.path_graph(30), 29),
        (nx.complete_graph(5), 1),
        (nx.empty_graph(4), 0),
        (nx.disjoint_union(nx.path_graph(5), nx.path_graph(3)), 4),
    ],
    ids=["path", "clique", "no edges", "two paths"],
)
def test_diameter_of_known_graphs(graphs, graph, expected):
    assert graphs.batch(matrix(graph).unsqueeze(0)).diameter.tolist() == [expected]


def test_by_graph_and_to_nodes(graphs):
    batch = graphs.batch(graphs.adjacency(7, 2, 3))
    assert torch.equal(batch.by_graph(torch.arange(6).view(6, 1)), torch.tensor([[[0], [1], [2]], [[3], [4], [5]]]))
    assert batch.to_nodes(torch.tensor([7, 9])).tolist() == [[7], [7], [7], [9], [9], [9]]


# ---- building ----


def test_an_unknown_model_is_named_with_those_there_are():
    with pytest.raises(ValueError, match=r"model must be one of pna, pna-no-scalers, .*moments-5; got 'PNA'"):
        build("PNA")


def test_an_unknown_architecture_is_named_with_those_there_are():
    with pytest.raises(
        ValueError, match="architecture must be one of recurrent, standard, no-gru, mean-readout; got 'deep'"
    ):
        build("pna", architecture="deep")


@pytest.mark.parametrize("hidden", [0, -4, 2, 15, 18, 16.0, True, "16", None])
def test_hidden_must_be_a_positive_multiple_of_four(hidden):
    with pytest.raises(ValueError, match="hidden must be a positive multiple of 4"):
        build("pna", hidden)


def test_a_network_is_drawn_from_torchs_generator():
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(build("pna", spec=RELEASED).state_dict()["GC_m.conv.mix.weight"])
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_delta_comes_from_the_degrees_given():
    net = build("pna", degrees=DegreeStatistics(1.7, 4.0))
    assert net.GC_1.conv.combined.delta.item() == pytest.approx(1.7)
    assert net.GC_m.conv.combined.delta.item() == pytest.approx(1.7)


def test_an_architecture_takes_any_convolution_and_any_depth(graphs):
    convolution = partial(
        PNA, spec=DESCRIBED, degrees=DEGREES, aggregators=["softmax", "moment3"], scalers=["identity", "linear", 0.5]
    )
    net = Recurrent(convolution, 8, DESCRIBED, depth=lambda batch: 3).double()
    batch = graphs.batch(graphs.adjacency(8, 2, 5))
    assert applications(net, batch) == {"GC_1": 1, "GC_m": 2}
    assert net(batch)[0].isfinite().all()
