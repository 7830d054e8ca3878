"""The convolutions against PyTorch Geometric's, and against dense oracles where the released code has its own."""

import math
from dataclasses import replace

import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from pna import DegreeStatistics, PNAConv
from pna.networks import DESCRIBED, MODELS, NetworkSpec
from pna.networks import RELEASED as AS_RELEASED
from pna.networks.convolutions import GAT, GCN, GIN, PNA

RELEASED = replace(AS_RELEASED, centred_once=False)  # D12 is rounding, which no two computations share

DEGREES = DegreeStatistics(1.3, 3.0)
SWAPPED = NetworkSpec(swapped_extremes=True)  # D5
MISPAIRED = NetworkSpec(mispaired_attention=True)  # D6
POSITION_NORM = NetworkSpec(position_norm=True)  # D7
SIZES = [(2, 8), (8, 8)]  # the first convolution of a network and a later one
G, N = 3, 7


def assert_near(out, expected, tolerance=1e-12):
    torch.testing.assert_close(out, expected, rtol=0, atol=tolerance)


def same_gradients(out, expected, inputs, expected_inputs, tolerance=1e-10):
    weight = torch.randn_like(out)
    grads = torch.autograd.grad((out * weight).sum(), inputs)
    for grad, other in zip(grads, torch.autograd.grad((expected * weight).sum(), expected_inputs), strict=True):
        assert_near(grad, other.view_as(grad), tolerance)


def convolution(model, sizes, spec=DESCRIBED):
    """A convolution with weights large enough to matter, whatever their first draw."""
    conv = MODELS[model].convolution(sizes, spec=spec, degrees=DEGREES).double()
    for parameter in conv.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return conv


def features(F, rows=G * N):
    return torch.randn(rows, F, dtype=torch.double, requires_grad=True)


# ---- GCN and GIN ----


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_gcn_equals_pytorch_geometrics_with_leaky_relu(graphs, sizes, isolated):
    A = graphs.adjacency(1, G, N, 0.2, isolated)
    mine, theirs = convolution("gcn", sizes), pyg.GCNConv(*sizes).double()
    theirs.load_state_dict({"lin.weight": mine.weight.t(), "bias": mine.bias})
    x = features(sizes[0])
    out, expected = mine(x, graphs.batch(A)), functional.leaky_relu(theirs(x, graphs.edge_index(A)))
    assert_near(out, expected)
    assert (out < 0).any()
    same_gradients(out, expected, [x, mine.bias], [x, theirs.bias])


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("spec", [DESCRIBED, RELEASED], ids=["described", "released"])
def test_gcn_starts_uniform_in_one_over_root_of_out(sizes, spec):
    conv = GCN((sizes[0], 400), spec, DEGREES)
    for parameter in conv.parameters():
        assert parameter.abs().max().item() == pytest.approx(1 / 20, rel=0.02)
        assert (parameter < 0).any()


def theirs_of_gin(mine):
    first, last = (torch.nn.Linear(layer.in_features, layer.out_features) for layer in mine.U.layers)
    norm = torch.nn.BatchNorm1d(first.out_features)
    layers = torch.nn.Sequential(first, torch.nn.ReLU(), norm, last, torch.nn.ReLU())
    theirs = pyg.GINConv(layers, eps=0.1, train_eps=True).double()
    first.load_state_dict(mine.U.layers[0].state_dict())
    last.load_state_dict(mine.U.layers[1].state_dict())
    norm.load_state_dict(mine.U.norms[0].state_dict(), strict=False)  # all but the count of batches
    with torch.no_grad():
        theirs.eps.copy_(mine.epsilon)
    return theirs


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_gin_equals_pytorch_geometrics_with_its_mlp(graphs, sizes, isolated):
    A = graphs.adjacency(2, G, N, 0.2, isolated)
    mine = convolution("gin", sizes)
    theirs = theirs_of_gin(mine)
    for _ in range(3):
        x = features(sizes[0])
        out, expected = mine(x, graphs.batch(A)), theirs(x, graphs.edge_index(A))
        assert_near(out, expected)
        same_gradients(out, expected, [x, mine.epsilon], [x, theirs.eps])
    mine.eval(), theirs.eval()
    assert_near(mine(x, graphs.batch(A)), theirs(x, graphs.edge_index(A)))
    assert (out > 0).any()


def test_epsilon_of_gin_is_learned_and_starts_at_a_tenth():
    conv = GIN((2, 8), RELEASED, DEGREES)
    assert conv.epsilon.item() == pytest.approx(0.1)
    assert "epsilon" in dict(conv.named_parameters())


def test_d7_reaches_gin_where_the_graphs_have_as_many_nodes_as_features(graphs):
    for nodes, differs in ((7, False), (8, True), (9, False)):
        A = graphs.adjacency(3, G, nodes)
        described, released = convolution("gin", (8, 8)), convolution("gin", (8, 8), POSITION_NORM)
        released.load_state_dict(described.state_dict())
        x = features(8, G * nodes)
        batch = graphs.batch(A)
        assert torch.allclose(described(x, batch), released(x, batch)) != differs


# ---- GAT ----


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_described_gat_equals_pytorch_geometrics(graphs, sizes, isolated):
    A = graphs.adjacency(4, G, N, 0.2, isolated)
    mine = convolution("gat", sizes)
    theirs = pyg.GATConv(sizes[0], sizes[1] // 4, heads=4, add_self_loops=False, bias=False).double()
    assert theirs.negative_slope == 0.2
    receiver, sender = mine.attention.split(sizes[1] // 4, dim=1)
    theirs.load_state_dict(
        {"lin.weight": mine.weight.flatten(0, 1), "att_dst": receiver.unsqueeze(0), "att_src": sender.unsqueeze(0)}
    )
    x = features(sizes[0])
    out, expected = mine(x, graphs.batch(A)), functional.elu(theirs(x, graphs.edge_index(A)))
    assert_near(out, expected)
    same_gradients(out, expected, [x, mine.weight], [x, theirs.lin.weight])


def mispaired_oracle(conv, x, A):
    """D6 written densely, as the released code has it: output [B·N, out] and the heads' weights [B, N, N]."""
    B, nodes, _ = A.shape
    x = x.view(B, nodes, -1)
    outs, weights = [], []
    for W, a in zip(conv.weight, conv.attention, strict=True):
        h = x @ W.t()  # [B, N, F]
        repeated = torch.stack([h[:, n] for n in range(nodes) for _ in range(nodes)], dim=1)  # h_0 N times, h_1, …
        tiled = torch.stack([h[:, n] for _ in range(nodes) for n in range(nodes)], dim=1)  # h_0, h_1, …, N times
        rows = torch.cat([repeated, tiled], dim=1)  # [B, 2N², F]: on the wrong axis
        pairs = rows.reshape(B, nodes, nodes, -1)  # two rows after each other make one pair, [B, N, N, 2F]
        logits = functional.leaky_relu(pairs @ a, 0.2).masked_fill(A == 0, -math.inf)
        weight = torch.softmax(logits, dim=1)  # over the receivers i of each sender j
        weights.append(weight)
        outs.append(functional.elu(weight @ h))
    return torch.cat(outs, dim=-1).flatten(0, 1), weights


@pytest.mark.parametrize("nodes", [2, 5, 8])
@pytest.mark.parametrize("sizes", SIZES)
def test_gat_under_d6_equals_the_released_code_written_densely(graphs, sizes, nodes):
    A = graphs.adjacency(5, 4, nodes)
    conv = convolution("gat", sizes, MISPAIRED)
    x = features(sizes[0], 4 * nodes)
    out, (expected, _) = conv(x, graphs.batch(A)), mispaired_oracle(conv, x, A)
    assert_near(out, expected)
    inputs = [x, conv.weight, conv.attention]
    same_gradients(out, expected, inputs, inputs)


def test_gat_under_d6_is_not_gat_as_defined(graphs):
    A = graphs.adjacency(6, G, N)
    described, released = convolution("gat", (8, 8)), convolution("gat", (8, 8), MISPAIRED)
    released.load_state_dict(described.state_dict())
    x = features(8)
    batch = graphs.batch(A)
    assert (described(x, batch) - released(x, batch)).abs().max() > 0.1


def test_weights_of_d6_sum_to_one_over_receivers_not_over_senders(graphs):
    A = graphs.adjacency(7, G, N)
    conv = convolution("gat", (8, 8), MISPAIRED)
    x = features(8)
    out, weights = mispaired_oracle(conv, x, A)
    assert_near(conv(x, graphs.batch(A)), out)
    for weight in weights:
        assert_near(weight.sum(1), torch.ones_like(weight.sum(1)))
        assert (weight.sum(2) - 1).abs().max() > 0.1


@pytest.mark.parametrize("spec", [DESCRIBED, MISPAIRED], ids=["as defined", "D6"])
def test_gat_of_equal_nodes_on_a_path(graphs, spec):
    """Equal nodes have equal logits: as defined, each averages its neighbours; under D6, each sender is shared out."""
    A = torch.tensor([[[0, 1, 0], [1, 0, 1], [0, 1, 0]]]).double()
    conv = convolution("gat", (8, 8), spec)
    x = torch.randn(1, 8, dtype=torch.double).expand(3, 8)
    sums = [1.0, 1.0, 1.0] if spec == DESCRIBED else [0.5, 2.0, 0.5]  # of the weights over the senders
    expected = torch.tensor(sums, dtype=torch.double).unsqueeze(1) * (x @ conv.weight.flatten(0, 1).t())
    assert_near(conv(x, graphs.batch(A)), functional.elu(expected))


@pytest.mark.parametrize("spec", [DESCRIBED, RELEASED], ids=["described", "released"])
def test_gat_starts_xavier_with_gain_0_1414(spec):
    conv = GAT((300, 400), spec, DEGREES)
    W = torch.nn.init.xavier_uniform_(torch.empty(300, 100), gain=0.1414)
    a = torch.nn.init.xavier_uniform_(torch.empty(200, 1), gain=0.1414)
    assert conv.weight.abs().max().item() == pytest.approx(W.abs().max().item(), rel=1e-3)
    assert conv.weight.std().item() == pytest.approx(W.std().item(), rel=0.01)
    assert conv.attention.abs().max().item() == pytest.approx(a.abs().max().item(), rel=0.05)


def test_large_logits_do_not_overflow(graphs):
    A = graphs.adjacency(8, G, N)
    for spec in (DESCRIBED, MISPAIRED):
        conv = convolution("gat", (8, 8), spec)
        assert conv(1e4 * features(8), graphs.batch(A)).isfinite().all()


# ---- PNA and MPNN ----


TABLE = {
    "pna": (["mean", "std", "max", "min"], ["identity", "amplification", "attenuation"]),
    "pna-no-scalers": (["mean", "std", "max", "min"], ["identity"]),
    "mpnn-max": (["max"], ["identity"]),
    "mpnn-sum": (["sum"], ["identity"]),
    "mean-max-min": (["mean", "max", "min"], ["identity"]),
    "pna-soft": (["mean", "std", "softmax", "softmin"], ["identity", "amplification", "attenuation"]),
    "moments-1": (["mean"], ["identity", "amplification", "attenuation"]),
    "moments-2": (["mean", "std"], ["identity", "amplification", "attenuation"]),
    "moments-3": (["mean", "std", "moment3"], ["identity", "amplification", "attenuation"]),
    "moments-4": (["mean", "std", "moment3", "moment4"], ["identity", "amplification", "attenuation"]),
    "moments-5": (["mean", "std", "moment3", "moment4", "moment5"], ["identity", "amplification", "attenuation"]),
}


def test_the_table_of_models_is_complete():
    assert {name for name in MODELS if name not in ("gat", "gcn", "gin")} == set(TABLE)


@pytest.mark.parametrize("spec", [DESCRIBED, SWAPPED], ids=["described", "D5"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("model", TABLE)
def test_pna_models_are_the_pna_layer_with_four_towers_and_leaky_relu(graphs, model, sizes, spec):
    A = graphs.adjacency(9, G, N)
    conv = convolution(model, sizes, spec)
    assert isinstance(conv, PNA)
    layer = PNAConv(
        *sizes, *TABLE[model], DEGREES, towers=4, divide_input=sizes == (8, 8), swap_extremes=spec == SWAPPED
    ).double()
    layer.load_state_dict(conv.conv.state_dict())
    x = features(sizes[0])
    assert_near(conv(x, graphs.batch(A)), functional.leaky_relu(layer(x, graphs.edge_index(A))))


def test_the_first_convolution_gives_each_tower_all_features_and_a_later_one_shares_them_out():
    first, later = (convolution("pna", sizes).conv for sizes in SIZES)
    assert first.M[0].weight.shape == (4, 2, 2 * 2)
    assert first.U[0].weight.shape == (4, 8 // 4, 13 * 2)
    assert later.M[0].weight.shape == (4, 2, 2 * 8 // 4)
    assert later.U[0].weight.shape == (4, 2, 13 * 8 // 4)


def mpnn_oracle(layer, x, A, aggregator, swapped):
    """The appendix's equation of MPNN, written densely tower by tower: U(x_i, ⊕_j M(x_i, x_j))."""
    graph = torch.block_diag(*A)
    rows, towers = len(graph), []
    for t in range(4):
        inputs = x.view(rows, 4, -1)[:, t] if layer.divide_input else x
        pair = torch.cat([inputs.unsqueeze(1).expand(-1, rows, -1), inputs.unsqueeze(0).expand(rows, -1, -1)], -1)
        M = pair @ layer.M[0].weight[t].t() + layer.M[0].bias[t]  # [i, j] = M(x_i, x_j)
        if swapped:
            M = M.transpose(0, 1)
        mask = graph.unsqueeze(-1) > 0
        reduced = {"sum": torch.where(mask, M, 0).sum(1), "max": torch.where(mask, M, -math.inf).amax(1)}
        aggregate = reduced[aggregator]
        towers.append(torch.cat([inputs, aggregate], -1) @ layer.U[0].weight[t].t() + layer.U[0].bias[t])
    return functional.leaky_relu(layer.mix(torch.cat(towers, -1)))


@pytest.mark.parametrize(
    ("model", "spec", "swapped"),
    [("mpnn-sum", DESCRIBED, False), ("mpnn-max", DESCRIBED, False), ("mpnn-sum", SWAPPED, False),
     ("mpnn-max", SWAPPED, True)],
    ids=["sum", "max", "sum under D5", "max under D5"],
)  # fmt: skip
@pytest.mark.parametrize("sizes", SIZES)
def test_mpnn_equals_the_appendix_written_densely(graphs, sizes, model, spec, swapped):
    A = graphs.adjacency(10, G, N)
    conv = convolution(model, sizes, spec)
    x = features(sizes[0])
    out = conv(x, graphs.batch(A))
    expected = mpnn_oracle(conv.conv, x, A, model.removeprefix("mpnn-"), swapped)
    assert_near(out, expected)
    same_gradients(out, expected, [x], [x])


@pytest.mark.parametrize(("model", "differs"), [("pna", True), ("mpnn-max", True), ("mpnn-sum", False), ("gcn", False)])
def test_d5_changes_the_models_with_max_or_min_only(graphs, model, differs):
    described, released = convolution(model, (8, 8)), convolution(model, (8, 8), SWAPPED)
    released.load_state_dict(described.state_dict())
    x = features(8)
    batch = graphs.batch(graphs.adjacency(11, G, N))
    assert torch.allclose(described(x, batch), released(x, batch), atol=1e-9) != differs


# ---- the order of the nodes ----


def permutation_error(graphs, conv, seed, nodes=N):
    """How far the convolution of permuted nodes is from the permuted convolution."""
    A = graphs.adjacency(seed, G, nodes)
    x = torch.randn(G * nodes, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    B, y, rows = graphs.permuted(A, x, seed)
    return (conv(y, graphs.batch(B)) - conv(x, graphs.batch(A))[rows]).abs().max().item()


@pytest.mark.parametrize("model", MODELS)
@settings(max_examples=12)
@given(seed=st.integers(0, 10_000), nodes=st.integers(2, 9))
def test_described_convolutions_are_permutation_equivariant(graphs, model, seed, nodes):
    conv = convolution(model, (8, 8))
    assert permutation_error(graphs, conv, seed, nodes) < 1e-9


@pytest.mark.parametrize("model", [model for model in MODELS if model not in ("gat", "gin")])
def test_d5_leaves_the_convolutions_permutation_equivariant(graphs, model):
    assert permutation_error(graphs, convolution(model, (8, 8), RELEASED), 1) < 1e-9


def test_d6_breaks_permutation_equivariance(graphs):
    assert permutation_error(graphs, convolution("gat", (8, 8), MISPAIRED), 1) > 0.01


def test_d7_breaks_permutation_equivariance_where_n_equals_the_features(graphs):
    conv = convolution("gin", (8, 8), POSITION_NORM)
    assert permutation_error(graphs, conv, 1, nodes=8) > 0.01
    assert permutation_error(graphs, conv, 1, nodes=7) < 1e-9


# ---- many graphs at once ----


@pytest.mark.parametrize("spec", [DESCRIBED, RELEASED], ids=["described", "released"])
@pytest.mark.parametrize("model", MODELS)
def test_a_batch_is_its_graphs_one_by_one(graphs, model, spec):
    A = graphs.adjacency(12, G, 8)
    conv = convolution(model, (8, 8), spec).eval()
    x = features(8, G * 8)
    alone = [conv(x[8 * g : 8 * g + 8], graphs.batch(A[g : g + 1])) for g in range(G)]
    assert_near(conv(x, graphs.batch(A)), torch.cat(alone))


@pytest.mark.parametrize("spec", [DESCRIBED, RELEASED], ids=["described", "released"])
@pytest.mark.parametrize("model", MODELS)
def test_derivatives_by_gradcheck(graphs, model, spec):
    conv = convolution(model, (4, 4), spec)
    batch = graphs.batch(graphs.adjacency(13, 2, 4))
    names = list(dict(conv.named_parameters()))

    def run(x, *parameters):
        fresh = {name: buffer.clone() for name, buffer in conv.named_buffers()}
        return torch.func.functional_call(conv, (dict(zip(names, parameters, strict=True)), fresh), (x, batch))

    assert torch.autograd.gradcheck(run, (features(4, 8), *conv.parameters()), fast_mode=True)
