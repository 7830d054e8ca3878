"""The layer as a drop-in replacement: what users of PyTorch Geometric's layer do, and its tests, written again."""

import copy
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch.ao.quantization
import torch.nn.utils.prune
import torch_geometric
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explainer, GNNExplainer, GraphMaskExplainer, PGExplainer
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.loader import DataLoader
from torch_geometric.utils import get_embeddings, k_hop_subgraph

from pna import Neighbourhoods, PNAConv, PNASimpleConv

NAMES = ["mean", "max", "min", "sum", "var", "softmax"]  # std differs by its ε
SCALERS = ["identity", "amplification", "attenuation", "linear", "inverse_linear"]
DEG = torch.tensor([1, 5, 8, 4, 2])
N, E = 14, 50
EDGES = torch.randint(0, N - 2, (2, E), generator=torch.Generator().manual_seed(1))


def layer(*sizes, **kwargs):
    kwargs = {"aggregators": NAMES, "scalers": SCALERS, "deg": DEG} | kwargs
    return PNAConv(*(sizes or (8, 6)), **kwargs).double()


def nodes(n=N, features=8):
    return torch.randn(n, features, dtype=torch.double)


def assert_near(out, expected):
    torch.testing.assert_close(out, expected, rtol=1e-8, atol=1e-8)


# ---- PyTorch Geometric's own tests of the layer, by what they assert ----


def test_shape_repr_and_sparse_edges():
    names = ["sum", "mean", "min", "max", "var", "std"]
    x, edge_index = torch.randn(4, 16), torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    edge_attr = torch.randn(6, 16)
    conv = PNAConv(16, 32, names, SCALERS, deg=torch.tensor([0, 3, 0, 1]), edge_dim=16, towers=4)
    assert str(conv) == "PNAConv(16, 32, towers=4, edge_dim=16)"
    out = conv(x, edge_index, edge_attr)
    assert out.shape == (4, 32)
    plain = PNAConv(16, 32, names, SCALERS, deg=torch.tensor([0, 3, 0, 1]), towers=4)
    adj_t = torch.sparse_coo_tensor(edge_index.flip(0), torch.ones(6), (4, 4))
    for sparse in (adj_t, adj_t.to_sparse_csr(), adj_t.to_sparse_csc()):
        torch.testing.assert_close(plain(x, sparse), plain(x, edge_index), atol=1e-6, rtol=0)


@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_degree_histogram_of_a_loader(batch_size):
    edges = [
        [[0, 0, 0, 1, 1, 2, 3], [1, 2, 3, 2, 0, 0, 0]],
        [[1, 1, 2, 2, 0, 3, 3], [2, 3, 3, 1, 1, 0, 2]],
        [[1, 3, 2, 0, 0, 4, 2], [2, 0, 4, 1, 1, 0, 3]],
        [[0, 1, 2, 4, 0, 1, 3], [2, 3, 3, 1, 1, 0, 2]],
    ]
    loader = DataLoader([Data(x=torch.randn(5, 16), edge_index=torch.tensor(e)) for e in edges], batch_size)
    assert PNAConv.get_degree_histogram(loader).tolist() == [3, 7, 9, 1]


# ---- hooks, and other modules in place of the layer's ----


@pytest.mark.parametrize("kwargs", [{}, {"edge_dim": 3}, {"towers": 2, "divide_input": True}, {"swap_extremes": True}])
@pytest.mark.parametrize("where", ["M", "M.0", "U", "U.0", "combined", "edge_encoder"])
def test_hooks_fire_and_change_nothing_by_themselves(where, kwargs):
    conv, x = layer(**kwargs), nodes()
    edge = (torch.randn(E, 3).double(),) if "edge_dim" in kwargs else ()
    if where == "edge_encoder" and not edge:
        return
    expected, calls = conv(x, EDGES, *edge), []
    conv.get_submodule(where).register_forward_hook(lambda *_: calls.append(where))
    assert_near(conv(x, EDGES, *edge), expected)
    assert calls


def test_global_hooks_fire():
    conv, seen = layer(), []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(module))
    try:
        conv(nodes(), EDGES)
    finally:
        handle.remove()
    assert conv.M[0] in seen


class LowRank(nn.Module):
    """A layer plus a change of low rank, as LoRA adds it."""

    def __init__(self, base):
        super().__init__()
        self.base, self.factor = base, nn.Parameter(torch.ones(1, dtype=torch.double))

    def forward(self, x):
        return self.factor * self.base(x)


@pytest.mark.parametrize("part", ["M", "U"])
def test_a_layer_put_in_the_place_of_a_linear_map(part):
    conv, x = layer(towers=2), nodes()
    expected = conv(x, EDGES)
    getattr(conv, part)[0] = LowRank(getattr(conv, part)[0])
    assert_near(conv(x, EDGES), expected)
    (grad,) = torch.autograd.grad(conv(x, EDGES).square().sum(), getattr(conv, part)[0].factor)
    assert grad.abs() > 0
    with torch.no_grad():
        getattr(conv, part)[0].factor.fill_(2.0)
    assert not torch.allclose(conv(x, EDGES), expected)


def test_a_network_as_edge_encoder():
    conv, edge = layer(edge_dim=3), torch.randn(E, 3).double()
    conv.edge_encoder = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 8)).double()
    other = layer(edge_dim=5)
    other.load_state_dict({k: v for k, v in conv.state_dict().items() if "encoder" not in k}, strict=False)
    other.edge_encoder = conv.edge_encoder[2]
    x = nodes()
    assert_near(conv(x, EDGES, edge), other(x, EDGES, conv.edge_encoder[:2](edge)))


@pytest.mark.parametrize("change", ["prune", "spectral_norm", "parametrized"])
@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_weights_that_are_computed(change):
    conv, x = layer(), nodes()
    first = conv.M[0]
    if change == "prune":
        nn.utils.prune.l1_unstructured(first, "weight", 0.5)
    elif change == "spectral_norm":
        nn.utils.spectral_norm(first)
    else:
        nn.utils.parametrize.register_parametrization(first, "weight", nn.Tanh())
    conv.eval()
    out = conv(x, EDGES)
    plain = layer()
    plain.load_state_dict({k: v for k, v in conv.state_dict().items() if k in plain.state_dict()}, strict=False)
    with torch.no_grad():
        plain.M[0].weight.copy_(first.weight)
        plain.M[0].bias.copy_(first.bias)
    assert_near(out, plain(x, EDGES))
    conv.train()(x, EDGES).sum().backward()


def quantised(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(copy.deepcopy(module), {nn.Linear}, dtype=torch.qint8)


def test_quantised_linear_layers():
    try:
        quantised(nn.Sequential(nn.Linear(2, 2)))
    except RuntimeError as error:  # so it is on some ARM processors
        pytest.skip(f"torch quantises no linear layer of its own on this processor: {error}")
    conv = PNAConv(8, 6, NAMES, SCALERS, DEG, edge_dim=3)
    x, edge = torch.randn(N, 8), torch.randn(E, 3)
    small = quantised(conv)
    assert type(small.mix) is not nn.Linear
    expected = conv(x, EDGES, edge)
    assert (small(x, EDGES, edge) - expected).abs().max() < 0.1 * expected.abs().max()


# ---- explanations, embeddings, several relations ----


class Model(nn.Module):
    """A node classifier of two layers, ours or theirs."""

    def __init__(self, kind, **kwargs):
        super().__init__()
        self.one = kind(8, 6, ["mean", "max"], ["identity", "amplification"], DEG, **kwargs)
        self.two = kind(6, 3, ["mean", "max"], ["identity", "amplification"], DEG)

    def forward(self, x, edge_index):
        return self.two(self.one(x, edge_index).relu(), edge_index)


def both_models():
    torch.manual_seed(2)
    theirs = Model(pyg.PNAConv)
    ours = Model(PNAConv)
    ours.load_state_dict(theirs.state_dict())
    return ours.double(), theirs.double()


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_an_edge_mask_masks_the_messages_as_theirs(flow):
    theirs = pyg.PNAConv(8, 6, ["mean", "max"], ["identity"], DEG, edge_dim=3, towers=2, flow=flow).double()
    ours, x, edge = PNAConv.from_pyg(theirs), nodes(), torch.randn(E, 3).double()
    mask = torch.randn(E, dtype=torch.double, requires_grad=True)
    unmasked = ours(x, EDGES, edge)
    results = []
    for conv in (ours, theirs):
        set_masks(conv, mask, EDGES)
        out = conv(x, EDGES, edge)
        results.append((out, *torch.autograd.grad(out.square().sum(), mask)))
        clear_masks(conv)
    assert_near(*results)
    assert not torch.allclose(results[0][0], unmasked)
    assert_near(ours(x, EDGES, edge), unmasked)


def test_an_edge_mask_on_the_simple_layer():
    conv, x = PNASimpleConv(8, 6, ["mean", "sum"], ["identity"], DEG).double(), nodes()
    mask = torch.rand(E) > 0.5
    only_sum = PNASimpleConv(8, 6, ["sum"], ["identity"], DEG).double()
    expected = only_sum(x, EDGES[:, mask])
    set_masks(only_sum, mask.double(), EDGES, apply_sigmoid=False)
    assert_near(only_sum(x, EDGES), expected)
    set_masks(conv, torch.ones(E).double(), EDGES, apply_sigmoid=False)
    masked = conv(x, EDGES)
    clear_masks(conv)
    assert_near(masked, conv(x, EDGES))


def explain(model, algorithm):
    torch.manual_seed(3)
    explainer = Explainer(
        model, algorithm, explanation_type="model", edge_mask_type="object", node_mask_type="attributes",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )  # fmt: skip
    return explainer(torch.randn(N, 8, dtype=torch.double), EDGES, index=3)


def test_gnn_explainer_finds_what_it_finds_with_theirs():
    ours, theirs = (explain(model, GNNExplainer(epochs=5)) for model in both_models())
    assert ours.edge_mask.abs().sum() > 0
    torch.testing.assert_close(ours.edge_mask, theirs.edge_mask, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(ours.node_mask, theirs.node_mask, rtol=1e-3, atol=1e-5)


def graph_mask(conv):
    torch.manual_seed(3)
    explainer = Explainer(
        conv, GraphMaskExplainer(1, epochs=5, lr=0.5, log=False), explanation_type="model", edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )  # fmt: skip
    return explainer(torch.randn(N, 8), EDGES, index=3).edge_mask


@pytest.mark.parametrize("towers", [1, 2])
def test_graph_mask_explainer_finds_what_it_finds_with_theirs(towers):
    theirs = pyg.PNAConv(8, 6, ["mean", "max"], ["identity", "amplification"], DEG, towers=towers)
    ours = graph_mask(PNAConv.from_pyg(theirs))
    assert_near(ours, graph_mask(theirs))
    assert graph_mask(PNASimpleConv(8, 8, ["mean"], ["identity"])).shape == (E,)


def test_pg_explainer_runs_as_with_theirs():
    masks = []
    for model in both_models():
        torch.manual_seed(3)
        explainer = Explainer(
            model.float(), PGExplainer(epochs=2), explanation_type="phenomenon", edge_mask_type="object",
            model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
        )  # fmt: skip
        x, target = torch.randn(N, 8), torch.randint(0, 3, (N,))
        for epoch in range(2):
            explainer.algorithm.train(epoch, explainer.model, x, EDGES, target=target, index=3)
        masks.append(explainer(x, EDGES, target=target, index=3).edge_mask)
    torch.testing.assert_close(*masks, rtol=1e-2, atol=1e-4)


def test_embeddings_are_found():
    ours, theirs = (get_embeddings(model, nodes.x, EDGES) for nodes in [Data(x=nodes())] for model in both_models())
    assert len(ours) == 2
    for mine, other in zip(ours, theirs, strict=True):
        assert_near(mine, other)


@pytest.mark.skipif(
    torch_geometric.__version__.startswith("2.6."),
    reason="to_hetero of PyTorch Geometric 2.6 asks torch.fx for a name that torch has dropped, whatever the layer",
)
def test_to_hetero_with_two_relations():
    data = HeteroData()
    data["paper"].x, data["author"].x = nodes(5), nodes(4)
    for relation, (a, b) in {("author", "writes", "paper"): (4, 5), ("paper", "by", "author"): (5, 4)}.items():
        data[relation].edge_index = torch.stack([torch.randint(0, a, (9,)), torch.randint(0, b, (9,))])
    hetero = pyg.to_hetero(both_models()[0], data.metadata(), aggr="sum")
    out = hetero(data.x_dict, data.edge_index_dict)
    x = data.x_dict
    for name in ("one", "two"):
        after = {}
        for sender, relation, receiver in data.edge_types:
            conv = hetero.get_submodule(f"{name}.{sender}__{relation}__{receiver}")
            after[receiver] = conv((x[sender], x[receiver]), data[sender, relation, receiver].edge_index)
        x = {kind: h.relu() for kind, h in after.items()} if name == "one" else after
    for kind, expected in x.items():
        assert_near(out[kind], expected)


@pytest.mark.parametrize("step", ["message", "update", "aggregate", "propagate", "message_and_aggregate"])
@pytest.mark.parametrize("kind", [PNAConv, PNASimpleConv])
def test_a_class_that_overrides_a_step_is_refused(step, kind):
    with pytest.raises(TypeError, match=rf"Mine overrides {step}\(\), which pna's layers never call"):
        type("Mine", (kind,), {step: lambda self, *args: None})


def test_hooks_on_messages_are_refused():
    with pytest.raises(NotImplementedError, match=r"PNAConv has no register_message_forward_hook\(\)"):
        layer().register_message_forward_hook(lambda *_: None)
    with pytest.raises(NotImplementedError, match=r"PNAConv has no propagate\(\)"):
        layer().propagate(EDGES, x=nodes())


# ---- two kinds of nodes, sampled subgraphs, sizes that are not known yet ----


@pytest.mark.parametrize("kind", [PNAConv, PNASimpleConv])
@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_two_kinds_of_nodes_are_one_graph_with_no_edges_among_each(kind, flow):
    conv = kind(8, 6, ["mean", "max", "std"], SCALERS, DEG, flow=flow).double()
    users, items = nodes(5).requires_grad_(), nodes(9).requires_grad_()
    edges = torch.stack([torch.randint(0, 5, (30,)), torch.randint(0, 9, (30,))])
    out = conv((users, items), edges)
    whole = conv(torch.cat([users, items]), edges + torch.tensor([[0], [5]]))
    expected = whole[5:] if flow == "source_to_target" else whole[:5]
    assert_near(out, expected)
    grads = [
        torch.autograd.grad(o.square().sum(), (users, items), retain_graph=True, materialize_grads=True)
        for o in (out, expected)
    ]
    for mine, theirs in zip(*grads, strict=True):
        assert_near(mine, theirs)
    sparse = torch.sparse_coo_tensor(edges.flip(0), torch.ones(30).double(), (9, 5))
    if flow == "source_to_target":
        assert_near(conv((users, items), sparse), out)
    assert_near(conv((users, items), Neighbourhoods.of(edges, (5, 9), flow)), out)


@pytest.mark.parametrize("kwargs", [{"edge_dim": 3}, {"pre_layers": 2}, {"swap_extremes": True}, {"towers": 2}])
def test_a_pair_of_the_same_nodes_is_the_graph_itself(kwargs):
    conv, x = layer(**kwargs), nodes()
    edge = (torch.randn(E, 3).double(),) if "edge_dim" in kwargs else ()
    assert_near(conv((x, x.clone()), EDGES, *edge), conv(x, EDGES, *edge))


def test_a_sampled_subgraph_gives_its_seeds_what_the_graph_gives():
    conv, x = layer(), nodes()
    sampled, edges, seeds, _ = k_hop_subgraph([2, 5], 1, EDGES, relabel_nodes=True, num_nodes=N)
    whole = conv(x, EDGES)
    assert_near(conv(x[sampled], edges)[seeds], whole[[2, 5]])
    senders, receivers = x[sampled], x[sampled][seeds]  # a bipartite block, as samplers return it: the seeds receive
    block = edges[:, torch.isin(edges[1], seeds)]
    renumbered = torch.stack([block[0], torch.searchsorted(seeds, block[1])])
    assert_near(conv((senders, receivers), renumbered), whole[[2, 5]])


@pytest.mark.parametrize(
    ("x", "edges", "words"),
    [
        ((nodes(5),), EDGES, "x must be a tensor or a pair of them, got a tuple of 1"),
        ((nodes(5), None), EDGES, r"x\[1\] must be a tensor, got NoneType"),
        ((nodes(5), nodes(5, 7)), EDGES, r"x\[1\] must have the shape \[N, in_channels = 8\], got \(5, 7\)"),
        ((nodes(12), nodes(3)), EDGES, "senders from 0 to 11 and receivers from 0 to 2"),
        ((nodes(12), nodes(3)), Neighbourhoods.of(EDGES, N), "rows for 14 senders and 14 receivers, got 12 and 3"),
        (nodes(), Neighbourhoods.of(EDGES, (20, N)), "rows for 20 senders and 14 receivers, got 14 and 14"),
        (nodes(), Neighbourhoods.of(EDGES, N, "target_to_source"), "flow='target_to_source', the layer has 'source_to"),
    ],
)
def test_wrong_pairs_and_graphs(x, edges, words):
    with pytest.raises((TypeError, ValueError), match=words):
        layer()(x, edges)


@pytest.mark.parametrize("kwargs", [{}, {"edge_dim": 3, "pre_layers": 2}, {"towers": 2, "divide_input": True}])
def test_the_size_of_the_first_x_is_the_layers(kwargs):
    lazy, x = layer(-1, 6, **kwargs), nodes()
    edge = (torch.randn(E, 3).double(),) if "edge_dim" in kwargs else ()
    assert str(lazy).startswith("PNAConv(-1, 6")
    optimizer = torch.optim.SGD(lazy.parameters(), 0.1)
    out = lazy(x, EDGES, *edge)
    eager = layer(8, 6, **kwargs)
    eager.load_state_dict(lazy.state_dict())
    assert_near(out, eager(x, EDGES, *edge))
    assert {k: v.shape for k, v in lazy.state_dict().items()} == {k: v.shape for k, v in eager.state_dict().items()}
    assert lazy.M[0].weight.abs().max() <= 1 / lazy.M[0].weight.shape[-1] ** 0.5
    before = lazy.M[0].weight.clone()
    out.square().sum().backward()
    optimizer.step()
    assert not torch.equal(lazy.M[0].weight, before)
    other = layer(-1, 6, **kwargs)
    other.load_state_dict(eager.state_dict())
    assert_near(other(x, EDGES, *edge), eager(x, EDGES, *edge))
    with pytest.raises(ValueError, match=r"in_channels = 8\], got \(14, 7\)"):
        lazy(nodes(N, 7), EDGES, *edge)


def test_a_simple_layer_takes_the_size_of_the_first_x():
    lazy = PNASimpleConv(-1, 6, NAMES, SCALERS, DEG).double()
    out = lazy(nodes(), EDGES)
    assert out.shape == (N, 6)
    assert lazy.in_channels == 8
    with pytest.raises(ValueError, match="in_channels must be divisible"):
        layer(-1, 6, towers=3, divide_input=True)(nodes(), EDGES)


@pytest.mark.parametrize("kind", [PNAConv, PNASimpleConv])
def test_modules_that_are_added_before_the_sizes_are_known(kind):
    lazy = kind(-1, 6, NAMES, SCALERS, DEG).double()
    lazy.U.append(torch.nn.Tanh()).append(torch.nn.Dropout(0.0))
    if kind is PNAConv:
        lazy.M.insert(0, torch.nn.Dropout(0.0))
        lazy.M.append(torch.nn.Tanh())
    assert lazy(nodes(), EDGES).shape == (N, 6)


@pytest.mark.parametrize("kind", [PNAConv, PNASimpleConv])
def test_sizes_that_are_inferred_in_inference_mode_can_be_trained_later(kind):
    lazy, other = (kind(-1, 6, NAMES, SCALERS, DEG).double() for _ in range(2))
    with torch.inference_mode():
        expected = lazy(nodes(), EDGES)
        other.load_state_dict(lazy.state_dict())
    for conv in (lazy, other):
        out = conv(nodes(), EDGES)
        assert out.shape == expected.shape
        out.sum().backward()
        assert all(weight.grad is not None for weight in conv.parameters())


# ---- compilers and devices ----


@pytest.mark.parametrize("kwargs", [{}, {"edge_dim": 3}, {"pre_layers": 2, "towers": 2}, {"swap_extremes": True}])
def test_export_with_sizes_that_change(kwargs):
    conv, edges = layer(**kwargs), torch.export.Dim("edges", min=2)
    attributes = (torch.randn(E, 3).double(),) if "edge_dim" in kwargs else ()
    dynamic = ({0: torch.export.Dim("nodes", min=2)}, {1: edges}, *({0: edges} for _ in attributes))
    program = torch.export.export(conv, (nodes(), EDGES, *attributes), dynamic_shapes=dynamic).module()
    for n, e in ((N, E), (5, 9), (40, 3)):
        x, edge_index = nodes(n), torch.randint(0, n, (2, e))
        edge = tuple(torch.randn(e, 3).double() for _ in attributes)
        assert_near(program(x, edge_index, *edge), conv(x, edge_index, *edge))


def test_a_program_that_was_exported_and_saved_is_trained_on(tmp_path):
    conv, x = layer(edge_dim=3), nodes().requires_grad_()
    edge = torch.randn(E, 3).double()
    torch.export.save(torch.export.export(conv, (nodes(), EDGES, edge)), tmp_path / "conv.pt2")
    program = torch.export.load(tmp_path / "conv.pt2").module()
    expected, grads = (
        torch.autograd.grad(f(x, EDGES, edge).square().sum(), (x, *f.parameters())) for f in (conv, program)
    )
    for a, b in zip(grads, expected, strict=True):
        assert_near(a, b)


def test_a_saved_program_is_loaded_without_torch_geometric(tmp_path):
    torch.export.save(torch.export.export(layer(), (nodes(), EDGES)), tmp_path / "conv.pt2")
    script = (
        "import sys; sys.modules['torch_geometric'] = None; import torch, pna.gather;"
        f"program = torch.export.load({str(tmp_path / 'conv.pt2')!r}).module();"
        f"print(program(torch.randn({N}, 8).double(), torch.randint(0, {N}, (2, {E}))).shape)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.stdout == f"torch.Size([{N}, 6])\n", done.stderr


def test_on_the_meta_device_and_from_there():
    with torch.device("meta"):
        conv = PNAConv(8, 6, NAMES, SCALERS, DEG.to("cpu"), edge_dim=3)
    out = conv(*(torch.empty(*s, device="meta") for s in ((N, 8),)), EDGES.to("meta"), torch.empty(E, 3, device="meta"))
    assert out.shape == (N, 6)
    assert out.is_meta
    conv = conv.to_empty(device="cpu")
    conv.reset_parameters()
    assert conv(torch.randn(N, 8), EDGES, torch.randn(E, 3)).isfinite().all()
    assert conv.combined.delta.item() == pytest.approx(PNAConv(8, 6, NAMES, SCALERS, DEG).combined.delta.item())


@pytest.mark.filterwarnings("ignore:.*torch.jit.*", "ignore::torch.jit.TracerWarning")
def test_tracing_is_refused():
    with pytest.raises(RuntimeError, match=r"PNAConv cannot be traced .* use torch.export"):
        torch.jit.trace(layer(), (nodes(), EDGES))
