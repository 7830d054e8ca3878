"""The PNA layer against PyTorch Geometric, a dense oracle of equation 8, and what users do with layers."""

import copy
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch_geometric.nn as pyg
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric import EdgeIndex

from pna import DegreeStatistics, Neighbourhoods, PNAConv, PNASimpleConv
from pna.aggregators import resolve

AGGREGATORS = ["mean", "std", "max", "min"]
SCALERS = ["identity", "amplification", "attenuation"]
ALL_SCALERS = [*SCALERS, "linear", "inverse_linear"]
DEG = torch.tensor([1, 5, 8, 4, 2])
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}

GRAPHS = {
    "random, isolated nodes": (torch.randint(0, 25, (2, 90), generator=torch.Generator().manual_seed(1)), 30),
    "self-loops": (torch.tensor([[0, 1, 2, 0, 1], [0, 1, 2, 1, 0]]), 3),
    "repeated edges": (torch.tensor([[0, 0, 0, 1, 1], [1, 1, 1, 0, 0]]), 4),
    "one node": (torch.tensor([[0], [0]]), 1),
    "no edges": (torch.empty(2, 0, dtype=torch.long), 5),
}


def layer(*args, **kwargs):
    kwargs = {"aggregators": AGGREGATORS, "scalers": SCALERS, "deg": DEG} | kwargs
    return PNAConv(*(args or (8, 6)), **kwargs)


def assert_near(out, expected, dtype):
    scale = max(1.0, float(expected.detach().abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(out, expected, rtol=0, atol=TOLERANCE[dtype] * scale)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("aggregator", ["mean", "max", "min", "sum", "var", "softmax"])
@pytest.mark.parametrize("scaler", ALL_SCALERS)
def test_from_pyg_equals_its_layer(aggregator, scaler, graph, dtype):
    edge_index, N = GRAPHS[graph]
    theirs = pyg.PNAConv(8, 6, [aggregator], [scaler], DEG, towers=2).to(dtype)
    mine = PNAConv.from_pyg(theirs)
    x = torch.randn(N, 8, dtype=dtype)
    assert_near(mine(x, edge_index), theirs(x, edge_index), dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("towers", "divide_input", "edge_dim", "pre_layers", "post_layers"),
    list(itertools.product((1, 2), (False, True), (None, 3), (1, 2, 3), (1, 2))),
)
def test_from_pyg_equals_its_layer_in_every_shape(towers, divide_input, edge_dim, pre_layers, post_layers, dtype):
    edge_index, N = GRAPHS["random, isolated nodes"]
    theirs = pyg.PNAConv(
        8, 6, ["mean", "max", "min", "sum", "var", "softmax"], ALL_SCALERS, DEG, edge_dim, towers,
        pre_layers, post_layers, divide_input, act="elu", train_norm=True,
    ).to(dtype)  # fmt: skip
    mine = PNAConv.from_pyg(theirs)
    x = torch.randn(N, 8, dtype=dtype, requires_grad=True)
    edge_attr = None if edge_dim is None else torch.randn(edge_index.shape[1], edge_dim, dtype=dtype)
    out, expected = mine(x, edge_index, edge_attr), theirs(x, edge_index, edge_attr)
    assert_near(out, expected, dtype)
    grads = [torch.autograd.grad(o.square().sum(), x)[0] for o in (out, expected)]
    assert_near(*grads, dtype)
    assert sum(p.numel() for p in mine.parameters()) == sum(p.numel() for p in theirs.parameters())


def test_from_pyg_takes_flow_training_mode_and_learned_delta_over():
    theirs = pyg.PNAConv(4, 4, ["mean"], ["amplification"], DEG, train_norm=True, flow="target_to_source").eval()
    with torch.no_grad():
        theirs.aggr_module.avg_deg_log.fill_(3.0)
    mine = PNAConv.from_pyg(theirs)
    edge_index, N = GRAPHS["random, isolated nodes"]
    x = torch.randn(N, 4)
    assert_near(mine(x, edge_index), theirs(x, edge_index), torch.float32)
    assert not mine.training
    mine.reset_parameters()
    assert mine.combined.delta.item() == pytest.approx(DegreeStatistics.from_histogram(DEG).delta)


def test_std_of_pytorch_geometric_departs_from_equation_3():
    """PyTorch Geometric's std is 0 where σ² <= 1e-5 and has no ε elsewhere; equation 3 is √(σ² + ε) everywhere."""
    edge_index = torch.tensor([[1, 2, 3, 4, 5], [0, 0, 0, 6, 6]])
    x = torch.tensor([[0.0], [1.0], [2.0], [3.0], [1.0], [1.001], [0.0]], dtype=torch.double)
    theirs = pyg.aggr.StdAggregation()(x[edge_index[0]], edge_index[1], dim_size=7).squeeze()
    mine = resolve("std").function(x[edge_index[0]], Neighbourhoods.of(edge_index, 7).ptr).squeeze()
    wide, narrow = 2 / 3, 0.0005**2
    assert mine[0].item() == pytest.approx((wide + 1e-5) ** 0.5, rel=1e-9)
    assert mine[6].item() == pytest.approx((narrow + 1e-5) ** 0.5, rel=1e-6)
    assert theirs[0].item() == pytest.approx(wide**0.5, rel=1e-9)
    assert theirs[6].item() == 0
    assert mine[1].item() == theirs[1].item() == 0  # an empty neighbourhood is 0 for both


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_from_pyg_with_std_differs_by_epsilon_alone_where_the_neighbours_differ(dtype):
    N = 12
    edge_index = torch.stack([torch.arange(N * 4) % N, torch.arange(N * 4) // 4])  # every node has four other senders
    theirs = pyg.PNAConv(8, 6, AGGREGATORS, SCALERS, DEG).to(dtype)
    x = 100 * torch.randn(N, 8, dtype=dtype)  # so that ε = 1e-5 is small against σ²
    assert_near(PNAConv.from_pyg(theirs)(x, edge_index), theirs(x, edge_index), torch.float32)


def dense_oracle(conv, x, adjacency):
    """Equation 8 written densely, with every pair's message; adjacency[i, j] = 1 for an edge from j to i."""
    N, T, F = len(x), conv.towers, conv.F_in
    parts = x.view(N, T, F) if conv.divide_input else x.view(N, 1, F).expand(N, T, F)
    pair = torch.cat([parts[:, None].expand(N, N, T, F), parts[None].expand(N, N, T, F)], -1)  # [i, j] = (x_i, x_j)
    M = torch.einsum("ijtf,tgf->ijtg", pair, conv.M[0].weight) + conv.M[0].bias
    degree = adjacency.sum(1)
    delta = conv.combined.delta
    rows = []
    for i in range(N):
        neighbours = adjacency[i].nonzero().flatten()
        aggregates = []
        for name in conv.combined.aggregators:
            swap = conv.swap_extremes and name in ("max", "min")
            m = M[neighbours, i] if swap else M[i, neighbours]
            aggregates.append(resolve(name).function(m, torch.tensor([0, len(m)]))[0])
        aggregates = torch.cat(aggregates, -1)  # [T, A·F]
        amplification = torch.log(degree[i] + 1) / delta
        combined = torch.cat([aggregates, aggregates * amplification, aggregates / amplification], -1)
        y = torch.einsum("tf,tgf->tg", torch.cat([parts[i], combined], -1), conv.U[0].weight) + conv.U[0].bias
        rows.append(conv.mix(y.flatten()))
    return torch.stack(rows)


@pytest.mark.parametrize("swap_extremes", [False, True])
@pytest.mark.parametrize("divide_input", [False, True])
def test_equals_equation_8_written_densely(divide_input, swap_extremes):
    adjacency = torch.tensor([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]]).double()
    conv = layer(8, 6, towers=2, divide_input=divide_input, swap_extremes=swap_extremes).double()
    x = torch.randn(4, 8, dtype=torch.double)
    target, source = adjacency.nonzero().t()
    out = conv(x, torch.stack([source, target]))
    torch.testing.assert_close(out, dense_oracle(conv, x, adjacency), rtol=1e-10, atol=1e-10)


def test_swapped_extremes_are_another_function():
    edge_index, N = GRAPHS["random, isolated nodes"]
    described = layer(8, 6)
    released = layer(8, 6, swap_extremes=True)
    released.load_state_dict(described.state_dict())
    x = torch.randn(N, 8)
    assert not torch.allclose(described(x, edge_index), released(x, edge_index), atol=1e-3)


@given(seed=st.integers(0, 10_000))
def test_permutation_of_nodes_and_edges(seed):
    generator = torch.Generator().manual_seed(seed)
    N, E = 7, 18
    edge_index = torch.randint(0, N, (2, E), generator=generator)
    x = torch.randn(N, 8, generator=generator, dtype=torch.double)
    edge_attr = torch.randn(E, 3, generator=generator, dtype=torch.double)
    nodes, edges = torch.randperm(N, generator=generator), torch.randperm(E, generator=generator)
    conv = layer(8, 6, towers=2, edge_dim=3).double()
    expected = conv(x, edge_index, edge_attr)[nodes]
    place = nodes.argsort()
    out = conv(x[nodes], place[edge_index[:, edges]], edge_attr[edges])
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [PNAConv, PNASimpleConv])
@pytest.mark.parametrize("names", [AGGREGATORS, ["sum", "var", "softmax", "softmin", "moment3", "moment4"]])
def test_gradcheck_of_a_whole_layer(kind, names):
    conv = kind(1, 2, names, [*ALL_SCALERS, 0.5], DEG, train_norm=True).double()
    edge_index = torch.tensor([[0, 1, 2, 3, 0], [1, 0, 0, 0, 3]])
    x = torch.randn(5, 2, dtype=torch.double)[:, :1].requires_grad_()  # not contiguous

    def run(x, *parameters):
        return torch.func.functional_call(
            conv, dict(zip(dict(conv.named_parameters()), parameters, strict=True)), (x, edge_index)
        )

    assert torch.autograd.gradcheck(run, (x, *(p.detach().clone().requires_grad_() for p in conv.parameters())))


def test_simple_layer_is_u_of_the_scaled_aggregates():
    edge_index, N = GRAPHS["random, isolated nodes"]
    conv = PNASimpleConv(3, 5, AGGREGATORS, SCALERS, DEG, post_layers=2).double()
    x = torch.randn(N, 3, dtype=torch.double)
    neighbourhoods = Neighbourhoods.of(edge_index, N)
    aggregates = torch.cat([resolve(n).function(x[neighbourhoods.source], neighbourhoods.ptr) for n in AGGREGATORS], -1)
    s = (torch.log1p(neighbourhoods.degree.double()) / conv.combined.delta).unsqueeze(1)
    combined = torch.cat([aggregates, s * aggregates, aggregates / s.masked_fill(s == 0, 1)], -1)
    torch.testing.assert_close(conv(x, edge_index), conv.U(combined.unsqueeze(1)).squeeze(1))


class Widest(TorchDispatchMode):
    """Record the largest tensor, and the widest with one row per node, that any operation returned."""

    elements, width = 0, 0

    def __init__(self, nodes):
        super().__init__()
        self.nodes = nodes

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.elements = max(self.elements, out.numel())
            if out.dim() == 2 and len(out) == self.nodes:
                self.width = max(self.width, out.shape[1])
        return out


def test_a_layer_makes_neither_messages_nor_the_concatenation_of_scaled_aggregates():
    N, E, F = 50, 5000, 16
    edge_index, x = torch.randint(0, N, (2, E)), torch.randn(N, F, requires_grad=True)
    measured = {}
    for name, conv in (("pna", layer(F, F)), ("torch_geometric", pyg.PNAConv(F, F, AGGREGATORS, SCALERS, DEG))):
        with Widest(N) as measured[name]:
            conv(x, edge_index).sum().backward()
    assert measured["pna"].elements < E * F
    assert measured["pna"].width <= 4 * F  # the aggregates
    assert measured["torch_geometric"].elements >= 2 * E * F  # the control
    assert measured["torch_geometric"].width >= 13 * F


# ---- what users do with layers ----


@pytest.mark.parametrize(("edge_dim", "pre_layers"), [(None, 1), (3, 1), (3, 2)])
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*")
def test_compiles_without_graph_breaks(edge_dim, pre_layers):
    edge_index, N = GRAPHS["random, isolated nodes"]
    conv = layer(8, 6, edge_dim=edge_dim, pre_layers=pre_layers, towers=2)
    x = torch.randn(N, 8, requires_grad=True)
    edge_attr = None if edge_dim is None else torch.randn(edge_index.shape[1], edge_dim)
    compiled = torch.compile(conv, fullgraph=True, backend="aot_eager")
    out, expected = compiled(x, edge_index, edge_attr), conv(x, edge_index, edge_attr)
    assert_near(out, expected, torch.float32)
    assert_near(*(torch.autograd.grad(o.square().sum(), x)[0] for o in (out, expected)), torch.float32)
    with pytest.raises(ValueError, match="edge_index must hold node numbers"):
        compiled(x, edge_index + 20, edge_attr)


def test_compiles_with_the_default_backend_and_changing_sizes():
    conv = PNAConv(8, 6, ["mean", "max"], ["identity", "amplification"], DEG)
    compiled = torch.compile(conv, fullgraph=True, dynamic=True)
    for graph in ("random, isolated nodes", "self-loops", "repeated edges"):
        edge_index, N = GRAPHS[graph]
        x = torch.randn(N, 8)
        with torch.no_grad():  # the gradient is compiled above
            assert_near(compiled(x, edge_index), conv(x, edge_index), torch.float32)


def test_autocast():
    edge_index, N = GRAPHS["random, isolated nodes"]
    conv = layer(8, 6, edge_dim=3, towers=2)
    x, edge_attr = torch.randn(N, 8, requires_grad=True), torch.randn(edge_index.shape[1], 3)
    with torch.autocast("cpu", torch.bfloat16):
        out = conv(x, edge_index, edge_attr)
        half = conv(x.bfloat16(), edge_index, edge_attr)
    assert out.dtype == half.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), conv(x, edge_index, edge_attr), rtol=0.05, atol=0.1)
    out.float().sum().backward()
    assert x.grad.isfinite().all()


def test_functional_call_deepcopy_and_state_dict():
    edge_index, N = GRAPHS["random, isolated nodes"]
    conv, other = layer(8, 6, towers=2, post_layers=2), layer(8, 6, towers=2, post_layers=2)
    x = torch.randn(N, 8)
    assert not torch.equal(conv(x, edge_index), other(x, edge_index))
    expected = conv(x, edge_index)
    assert torch.equal(torch.func.functional_call(other, conv.state_dict(), (x, edge_index)), expected)
    assert torch.equal(copy.deepcopy(conv)(x, edge_index), expected)
    other.load_state_dict(conv.state_dict())
    assert torch.equal(other(x, edge_index), expected)
    assert set(conv.state_dict()) >= {"combined.delta", "combined.mean_degree", "M.0.weight", "U.2.bias", "mix.weight"}


def test_many_layers_at_once_with_vmap():
    edge_index, N = GRAPHS["random, isolated nodes"]
    layers = [layer(8, 6, towers=2).double() for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(layers)
    x = torch.randn(3, N, 8, dtype=torch.double)
    out = torch.func.vmap(lambda p, b, x: torch.func.functional_call(layers[0], (p, b), (x, edge_index)))(
        parameters, buffers, x
    )
    for r in range(3):
        torch.testing.assert_close(out[r], layers[r](x[r], edge_index))
    out.sum().backward()
    assert parameters["M.0.weight"].grad.abs().sum() > 0


@pytest.mark.parametrize("edge_dim", [None, 3])
def test_torch_func_transforms_see_through_the_layer(edge_dim):
    edge_index, N = GRAPHS["repeated edges"]
    conv = layer(8, 6, towers=2, edge_dim=edge_dim).double()
    edges = () if edge_dim is None else (torch.randn(edge_index.shape[1], edge_dim, dtype=torch.double),)
    x = torch.randn(N, 8, dtype=torch.double)

    def loss(x):
        return conv(x, edge_index, *edges).square().sum()

    expected = torch.autograd.functional.jacobian(loss, x)
    torch.testing.assert_close(torch.func.grad(loss)(x), expected)
    torch.testing.assert_close(torch.func.jacrev(loss)(x), expected)
    many = torch.stack([x, 2 * x])
    one_by_one = torch.stack([torch.func.grad(loss)(x) for x in many])
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(many), one_by_one)
    torch.testing.assert_close(torch.func.jacfwd(loss)(x), expected)


@pytest.mark.parametrize("options", [{}, {"divide_input": True}, {"edge_dim": 3}, {"pre_layers": 2}], ids=str)
def test_many_gradients_at_once_are_those_one_by_one(options):
    """A vectorised Jacobian asks torch.autograd for is_grads_batched."""
    edge_index, N = GRAPHS["repeated edges"]
    conv = layer(8, 6, towers=2, **options).double()
    edges = (torch.randn(edge_index.shape[1], 3, dtype=torch.double),) if "edge_dim" in options else ()
    inputs = [torch.randn(N, 8, dtype=torch.double, requires_grad=True), *conv.parameters()]
    out = conv(inputs[0], edge_index, *edges)
    g = torch.randn(3, *out.shape, dtype=torch.double)
    grads = torch.autograd.grad(out, inputs, g, retain_graph=True, is_grads_batched=True)
    assert not any(grad.requires_grad for grad in grads)
    for k in range(3):
        torch.testing.assert_close([grad[k] for grad in grads], list(torch.autograd.grad(out, inputs, g[k], True)))


def test_a_cached_graph_survives_no_move_no_error_and_no_inference_mode():
    edge_index, N = GRAPHS["random, isolated nodes"]
    conv, x = layer(8, 6, cached=True), torch.randn(N, 8)
    with pytest.raises(ValueError, match="row for each of 31 nodes"):
        conv(x, Neighbourhoods.of(edge_index, 31))
    with torch.inference_mode():
        expected = conv(x, edge_index).clone()
    conv(x, edge_index).sum().backward()
    assert conv._cache is not None
    assert conv.double()._cache is None
    assert_near(conv(x.double(), edge_index).float(), expected, torch.float32)


def test_any_function_may_be_the_activation_and_is_not_shared_with_pyg():
    edge_index, N = GRAPHS["random, isolated nodes"]
    mine = layer(8, 6, post_layers=2, act=torch.sin)
    x = torch.randn(N, 8)
    other = layer(8, 6, post_layers=2, act=torch.cos)
    other.load_state_dict(mine.state_dict())
    assert not torch.allclose(mine(x, edge_index), other(x, edge_index))
    theirs = pyg.PNAConv(4, 4, ["mean"], ["identity"], DEG, post_layers=2)
    assert PNAConv.from_pyg(theirs).U[1] is not theirs.post_nns[0][1]


def test_from_pyg_refuses_a_subclass_with_other_messages():
    class Louder(pyg.PNAConv):
        def message(self, x_i, x_j, edge_attr):
            return 2 * super().message(x_i, x_j, edge_attr)

    with pytest.raises(TypeError, match="Louder has its own"):
        PNAConv.from_pyg(Louder(4, 4, ["mean"], ["identity"], DEG))


def test_float64_under_autocast_is_named():
    edge_index, N = GRAPHS["random, isolated nodes"]
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(TypeError, match=r"x must have the dtype .* got torch.float64"),
    ):
        layer(8, 6)(torch.randn(N, 8).double(), edge_index)


def test_a_half_layer_at_a_degree_beyond_float16():
    edge_index = torch.stack([torch.zeros(70_000, dtype=torch.long), torch.ones(70_000, dtype=torch.long)])
    conv = layer(2, 2, aggregators=["mean"]).half()
    assert conv(torch.ones(2, 2, dtype=torch.half), edge_index).isfinite().all()


@pytest.mark.parametrize("kind", [PNAConv, PNASimpleConv])
def test_a_layer_without_sizes_has_a_state_that_can_be_saved_and_loaded(kind, tmp_path):
    lazy, again = (kind(-1, 6, AGGREGATORS, SCALERS, DEG, edge_dim=3) for _ in range(2))
    torch.save(lazy.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=False)
    assert set(state) == set(kind(8, 6, AGGREGATORS, SCALERS, DEG, edge_dim=3).state_dict())
    again.load_state_dict(state)
    assert again(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]]), torch.randn(2, 3)).shape == (3, 6)
    assert not any(torch.nn.parameter.is_lazy(weight) for weight in again.state_dict().values())


def test_in_a_pytorch_geometric_sequential():
    edge_index, N = GRAPHS["random, isolated nodes"]
    model = pyg.Sequential(
        "x, edge_index",
        [
            (layer(8, 6), "x, edge_index -> x"),
            torch.nn.ReLU(),
            (PNASimpleConv(6, 2, ["mean"], ["identity"]), "x, edge_index -> x"),
        ],
    )
    assert model(torch.randn(N, 8), edge_index).shape == (N, 2)


def test_edge_index_in_any_order_and_form_with_edge_features():
    edge_index, N = GRAPHS["random, isolated nodes"]
    conv = layer(8, 6, edge_dim=3).double()
    x, edge_attr = torch.randn(N, 8).double(), torch.randn(edge_index.shape[1], 3).double()
    expected = conv(x, edge_index, edge_attr)
    by_source = edge_index[0].argsort()
    torch.testing.assert_close(conv(x, edge_index[:, by_source], edge_attr[by_source]), expected)
    torch.testing.assert_close(conv(x, EdgeIndex(edge_index, sparse_size=(N, N)), edge_attr), expected)
    torch.testing.assert_close(conv(x, Neighbourhoods.of(edge_index, N), edge_attr), expected)


def test_a_cached_graph_is_sorted_once(monkeypatch):
    edge_index, N = GRAPHS["random, isolated nodes"]
    calls = []
    original = Neighbourhoods.of
    monkeypatch.setattr(Neighbourhoods, "of", lambda *args: calls.append(1) or original(*args))
    x = torch.randn(N, 8)
    for cached, expected in ((False, 3), (True, 1)):
        calls.clear()
        conv = layer(8, 6, cached=cached)
        outs = [conv(x, edge_index) for _ in range(3)]
        assert len(calls) == expected
        assert torch.equal(outs[0], outs[2])
    with pytest.raises(ValueError, match=r"row for each of 30 nodes, got 29; cached=True keeps the first graph"):
        conv(x[1:], edge_index)
    conv.forget_graph()
    assert conv(x[1:], edge_index[:, :0]).shape == (29, 6)


def test_reset_parameters_draws_as_pytorch_geometric():
    torch.manual_seed(3)
    conv = layer(64, 64, towers=4)
    first = conv.M[0].weight.clone()
    conv.reset_parameters()
    assert not torch.equal(first, conv.M[0].weight)
    theirs = pyg.PNAConv(64, 64, AGGREGATORS, SCALERS, DEG, towers=4)
    assert conv.M[0].weight.std().item() == pytest.approx(theirs.pre_nns[0][0].weight.std().item(), rel=0.03)
    assert conv.U[0].weight.std().item() == pytest.approx(theirs.post_nns[0][0].weight.std().item(), rel=0.03)


def test_repr():
    assert repr(layer(8, 6, towers=2)) == "PNAConv(8, 6, towers=2, edge_dim=None)"
    assert repr(PNASimpleConv(8, 6, ["mean"], [0.5], DEG)) == "PNASimpleConv(8, 6, aggregators=['mean'], scalers=[0.5])"


@pytest.mark.parametrize("more", [["sum"], ["sum", "softmax", "moment3"]], ids=["as one function", "in parts"])
@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_what_an_isolated_node_holds_spoils_no_aggregate(value, more):
    """U's part for x_i is infinite then, but M's must not come in as 0 · ∞."""
    conv = layer(2, 1, aggregators=[*AGGREGATORS, *more])
    with torch.no_grad():
        conv.U[0].weight[..., :2] = 1
        conv.mix.weight.fill_(1)
    x = torch.tensor([[value, 1.0], [1.0, 2.0], [3.0, 4.0]])
    out = conv(x, torch.tensor([[1], [2]]))
    assert out[0].item() == value
    assert out[1:].isfinite().all()


def test_same_bits_every_time():
    edge_index, N = GRAPHS["random, isolated nodes"]
    conv = layer(8, 6, towers=2)
    x = torch.randn(N, 8, requires_grad=True)
    runs = []
    for _ in range(3):
        out = conv(x, edge_index)
        runs.append((out, *torch.autograd.grad(out.square().sum(), [x, *conv.parameters()])))
    for run in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(runs[0], run, strict=True))


# ---- wrong arguments ----


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"aggregators": ["mean", "median"]}, ValueError, "unknown aggregator 'median'; allowed: mean, max, min"),
        ({"aggregators": "mean"}, TypeError, "aggregators must be a list, got 'mean'"),
        ({"aggregators": []}, ValueError, "aggregators must name at least one"),
        ({"scalers": ["log"]}, ValueError, "unknown scaler 'log'; allowed: identity, amplification, attenuation"),
        ({"scalers": [None]}, ValueError, "unknown scaler None"),
        ({"deg": None}, ValueError, "deg is missing: the scalers .* need the histogram"),
        ({"deg": [1, 2]}, TypeError, "deg must be a tensor of counts, got list"),
        ({"aggregators": [["mean"]]}, ValueError, r"unknown aggregator \['mean'\]"),
        ({"scalers": [float("nan")]}, ValueError, "unknown scaler nan"),
        ({"towers": 4}, ValueError, "out_channels must be divisible .* got out_channels=6 and towers=4"),
        (
            {"towers": 3, "divide_input": True},
            ValueError,
            "in_channels must be divisible .* in_channels=8 and towers=3",
        ),
        ({"towers": 0}, ValueError, "towers must be an integer of at least 1, got 0"),
        ({"towers": 2.0}, TypeError, "towers must be an integer of at least 1, got 2.0"),
        ({"edge_dim": 0}, ValueError, "edge_dim must be an integer of at least 1, got 0"),
        ({"post_layers": 10**30}, ValueError, "post_layers must be an integer of at most 1,000, got 1000000"),
        ({"pre_layers": 1001}, ValueError, "pre_layers must be an integer of at most 1,000, got 1001"),
        ({"towers": 10**30}, ValueError, "towers must be an integer of at most 1,048,576, got 1000000"),
        ({"edge_dim": 4_000_000}, ValueError, "edge_dim must be an integer of at most 1,048,576, got 4000000"),
        ({"in_channels": 4_000_000}, ValueError, "in_channels must be an integer of at most 1,048,576, got 4000000"),
        ({"out_channels": -2}, ValueError, "out_channels must be an integer of at least 1, got -2"),
        ({"in_channels": 2.5}, TypeError, "in_channels must be an integer of at least 1, got 2.5"),
        ({"divide_input": "no"}, TypeError, "divide_input must be True or False, got 'no'"),
        ({"train_norm": None}, TypeError, "train_norm must be True or False, got None"),
        ({"cached": 1}, TypeError, "cached must be True or False, got 1"),
        ({"act": "reluu"}, ValueError, "act='reluu' with act_kwargs=None is no activation"),
        ({"act": 3}, TypeError, "act must be a name, a function of a tensor or None, got 3"),
        ({"act_kwargs": {"slope": 1}}, ValueError, "act='relu' with act_kwargs=.* is no activation"),
        ({"pre_layers": 0}, ValueError, "pre_layers must be an integer of at least 1, got 0"),
        ({"post_layers": -1}, ValueError, "post_layers must be an integer of at least 1, got -1"),
        ({"flow": "sideways"}, ValueError, "flow must be one of source_to_target, target_to_source, got 'sideways'"),
        ({"swap_extremes": True, "edge_dim": 3}, ValueError, "swap_extremes .* without edge features"),
    ],
)
def test_wrong_constructor_arguments(change, error, words):
    good = {"in_channels": 8, "out_channels": 6, "aggregators": AGGREGATORS, "scalers": SCALERS, "deg": DEG}
    with pytest.raises(error, match=words):
        PNAConv(**good | change)


def test_only_the_identity_does_without_degrees():
    assert layer(8, 6, scalers=["identity"], deg=None)(torch.randn(2, 8), torch.tensor([[0], [1]])).shape == (2, 6)


GOOD = {"x": torch.randn(3, 8), "edge_index": torch.tensor([[0, 1], [1, 2]]), "edge_attr": torch.randn(2, 3)}


@pytest.mark.parametrize(
    ("edge_dim", "change", "error", "words"),
    [
        (None, {}, ValueError, r"edge_attr \(2, 3\) was given, but the layer was made without edge_dim"),
        (3, {"edge_attr": None}, ValueError, "edge_attr is missing: the layer was made with edge_dim=3"),
        (3, {"edge_attr": torch.randn(3, 3)}, ValueError, r"\[E, edge_dim\] = \(2, 3\), got \(3, 3\)"),
        (3, {"edge_attr": torch.randn(2)}, ValueError, r"got \(2,\)"),
        (3, {"edge_attr": torch.randn(2, 3).double()}, TypeError, "edge_attr must have the dtype .* got torch.float64"),
        (3, {"edge_attr": torch.ones(2, 3).long()}, TypeError, "edge_attr must have a floating dtype"),
        (3, {"x": [[1.0] * 8]}, TypeError, "x must be a tensor, got list"),
        (3, {"x": None}, TypeError, "x must be a tensor, got NoneType"),
        (3, {"edge_attr": [[1.0] * 3]}, TypeError, "edge_attr must be a tensor, got list"),
        (3, {"x": torch.randn(3, 7)}, ValueError, r"\[N, in_channels = 8\], got \(3, 7\)"),
        (3, {"x": torch.randn(3, 8, 1)}, ValueError, r"got \(3, 8, 1\)"),
        (3, {"x": torch.randn(3, 8).double()}, TypeError, "x must have the dtype .* got torch.float64"),
        (3, {"x": torch.ones(3, 8).long()}, TypeError, "x must have a floating dtype, got torch.int64"),
        (3, {"x": torch.randn(3, 8, device="meta")}, ValueError, "x and the layer's weights must be on one device"),
        (3, {"edge_index": torch.tensor([[0, 1], [1, 3]])}, ValueError, "from 0 to 2"),
        (3, {"edge_index": torch.tensor([[0, -1], [1, 2]])}, ValueError, "got values from -1 to 2"),
        (3, {"edge_index": torch.tensor([[0.0, 1.0], [1.0, 2.0]])}, TypeError, "integers .* got torch.float32"),
        (3, {"edge_index": torch.tensor([0, 1])}, ValueError, r"shape \[2, E\]"),
        (3, {"edge_index": [[0, 1], [1, 2]]}, TypeError, "got list"),
        (3, {"edge_index": torch.ones(2, 2, dtype=torch.long, device="meta")}, ValueError, "edge_index and x must be"),
        (3, {"edge_attr": torch.randn(2, 3, device="meta")}, ValueError, "edge_attr and x must be on one device"),
    ],
)
def test_wrong_inputs(edge_dim, change, error, words):
    with pytest.raises(error, match=words):
        layer(8, 6, edge_dim=edge_dim)(**(GOOD | change))


@pytest.mark.parametrize("conv", [torch.nn.Linear(2, 2), None])
def test_from_pyg_of_something_else(conv):
    with pytest.raises(TypeError, match=r"conv must be a torch_geometric\.nn\.PNAConv, got"):
        PNAConv.from_pyg(conv)


@pytest.mark.parametrize("aggregator", ["median", pyg.SoftmaxAggregation(t=2.0), pyg.SoftmaxAggregation(learn=True)])
def test_from_pyg_with_an_aggregator_that_is_not_ours(aggregator):
    with pytest.raises(ValueError, match=r"conv has the aggregator .* those taken over are mean, max"):
        PNAConv.from_pyg(pyg.PNAConv(4, 4, [aggregator], ["identity"], DEG))


@pytest.mark.parametrize("towers", [1, 2])
def test_learned_activations_are_each_towers_own_as_in_pyg(towers):
    arguments = (4, 4, ["mean", "max"], ["identity", "amplification"], DEG, None, towers)
    theirs = pyg.PNAConv(*arguments, pre_layers=3, post_layers=2, act="prelu")
    slopes = [weight for name, weight in theirs.named_parameters() if weight.shape == (1,) and "aggr" not in name]
    assert len(slopes) == 3 * towers  # two in each M, one in each U
    with torch.no_grad():
        for k, slope in enumerate(slopes):
            slope.fill_(0.1 * (k + 1))
    ours, loaded = PNAConv.from_pyg(theirs), PNAConv(*arguments, pre_layers=3, post_layers=2, act="prelu")
    loaded.load_state_dict(theirs.state_dict())
    x, edges = torch.randn(9, 4), torch.randint(0, 9, (2, 30))
    expected = theirs(x, edges)
    for layer in (ours, loaded, ours.to_pyg(), copy.deepcopy(ours)):
        torch.testing.assert_close(layer(x, edges), expected, rtol=1e-4, atol=1e-5)
    assert sum(weight.numel() for weight in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    assert {name: tuple(value.shape) for name, value in ours.to_pyg().state_dict().items()} == {
        name: tuple(value.shape) for name, value in theirs.state_dict().items()
    }


def test_an_activation_that_is_passed_as_a_module_is_shared_as_in_pyg():
    slope = torch.nn.PReLU()
    ours = PNAConv(4, 4, ["mean"], ["identity"], towers=2, pre_layers=3, act=slope)
    theirs = pyg.PNAConv(4, 4, ["mean"], ["identity"], DEG, towers=2, pre_layers=3, act=slope)
    assert sum(weight is slope.weight for weight in ours.parameters()) == 1
    x, edges = torch.randn(9, 4), torch.randint(0, 9, (2, 30))
    for layer in (PNAConv.from_pyg(theirs), PNAConv.from_pyg(theirs).to_pyg()):
        torch.testing.assert_close(layer(x, edges), theirs(x, edges), rtol=1e-4, atol=1e-5)
        assert sum(weight.shape == (1,) for weight in layer.parameters()) == 1


@pytest.mark.parametrize("layers", [1, 2])
def test_an_activation_that_is_a_class_is_refused(layers):
    with pytest.raises(TypeError, match="got the class LeakyReLU: create one"):
        PNAConv(4, 4, ["mean"], ["identity"], pre_layers=layers, act=torch.nn.LeakyReLU)


def test_a_histogram_of_isolated_nodes_is_enough_for_the_identity():
    deg = torch.tensor([5])
    x, edges = torch.randn(9, 4), torch.randint(0, 9, (2, 30))
    assert PNAConv(4, 4, ["mean"], ["identity"], deg)(x, edges).shape == (9, 4)
    with pytest.raises(ValueError, match="no node of positive degree"):
        PNAConv(4, 4, ["mean"], ["amplification"], deg)
    with pytest.raises(ValueError, match="deg"):
        PNAConv(4, 4, ["mean"], ["identity"], torch.tensor([-1]))


# ---- arguments of strangers ----


def test_eight_threads_that_call_a_layer_first_get_its_answer():
    """The weights are drawn once, and nobody computes with weights that are not there yet."""
    x, edge_index = torch.randn(6, 5), torch.randint(0, 6, (2, 20))
    for _ in range(20):
        conv = PNAConv(-1, 4, ["mean", "max"], ["identity"], pre_layers=3, post_layers=2, towers=2)
        barrier = threading.Barrier(8)

        def call(_, conv=conv, barrier=barrier):
            barrier.wait()
            return conv(x, edge_index).detach()

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(call, range(8)))
        assert all(torch.equal(answer, conv(x, edge_index).detach()) for answer in answers)


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_an_edge_feature_that_is_not_finite_does_not_vanish_behind_an_activation(value):
    for seed in range(30):
        torch.manual_seed(seed)
        conv = PNAConv(4, 6, ["mean", "std", "max"], ["identity"], edge_dim=3, pre_layers=2)
        x, edge_index, edge_attr = torch.randn(5, 4), torch.randint(0, 5, (2, 8)), torch.randn(8, 3)
        finite = conv(x, edge_index, edge_attr)
        edge_attr[0, 0] = value
        out = conv(x, edge_index, edge_attr)
        hit = torch.arange(5) == edge_index[1, 0]
        assert not out[hit].isfinite().any()
        assert torch.equal(out[~hit], finite[~hit])


def test_what_torch_offers_and_the_layer_does_not_is_said_in_words():
    conv = PNAConv(4, 6, ["mean"], ["identity"])
    with pytest.raises(RuntimeError, match=r"cannot be compiled by torch.jit.script, .*: use torch.compile"):
        torch.jit.script(conv)


# ---- forward-mode derivatives ----


def of_both(edge_dim=None, aggregators=("mean", "max", "min", "var", "sum", "softmax"), **options):
    """Their layer and ours with its weights, as functions of x, with an isolated node and repeated edges."""
    scalers = ["identity", "amplification", "attenuation", "linear", "inverse_linear"]
    theirs = pyg.PNAConv(2, 2, list(aggregators), scalers, DEG, edge_dim=edge_dim, act="tanh", **options).double()
    ours, edge_index = PNAConv.from_pyg(theirs), torch.randint(0, 5, (2, 14))
    edges = () if edge_dim is None else (torch.randn(14, edge_dim, dtype=torch.double),)
    return [lambda x, conv=conv: conv(x, edge_index, *edges) for conv in (ours, theirs)]


FORWARD_MODE = [{}, {"towers": 2}, {"towers": 2, "divide_input": True}, {"pre_layers": 2, "post_layers": 2}]
FORWARD_MODE += [{"edge_dim": 3}, {"edge_dim": 3, "pre_layers": 2}, {"train_norm": True}, {"flow": "target_to_source"}]


@pytest.mark.parametrize("options", FORWARD_MODE, ids=str)
def test_forward_mode_derivatives_are_those_of_pytorch_geometric(options):
    ours, theirs = of_both(**options)
    x, along = torch.randn(2, 6, 2, dtype=torch.double)
    torch.testing.assert_close(torch.func.jvp(ours, (x,), (along,)), torch.func.jvp(theirs, (x,), (along,)))
    squares, expected = (lambda x, f=f: f(x).square().sum() for f in (ours, theirs))
    torch.testing.assert_close(torch.func.hessian(squares)(x), torch.func.hessian(expected)(x))


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")  # torch.func.linearize's own
def test_every_order_of_forward_and_reverse_mode_and_a_linearised_layer():
    ours, theirs = of_both()
    x, along = torch.randn(2, 6, 2, dtype=torch.double)
    torch.testing.assert_close(torch.func.linearize(ours, x)[1](along), torch.func.jvp(theirs, (x,), (along,))[1])
    squares, expected = (lambda x, f=f: f(x).square().sum() for f in (ours, theirs))
    hessian = torch.func.hessian(expected)(x)
    for outer, inner in itertools.product((torch.func.jacfwd, torch.func.jacrev), repeat=2):
        torch.testing.assert_close(outer(inner(squares))(x), hessian)


@pytest.mark.parametrize("kind", [PNAConv, PNASimpleConv])
@pytest.mark.parametrize("names", [["std", "max", "min"], ["softmax", "softmin"], ["moment2", "moment3", "moment5"]])
def test_forward_mode_agrees_with_reverse_mode(kind, names):
    conv, edge_index = kind(4, 6, names, ["identity", 0.5], DEG).double(), torch.randint(0, 5, (2, 14))
    x, along = torch.randn(2, 6, 4, dtype=torch.double)

    def f(x):
        return conv(x, edge_index)

    for at in (x, torch.ones_like(x)):  # all messages are equal there, so that maxima share a derivative
        torch.testing.assert_close(torch.func.jacfwd(f)(at), torch.func.jacrev(f)(at))
    parameters = dict(conv.named_parameters())
    by_weights = [
        transform(lambda p: torch.func.functional_call(conv, p, (x, edge_index)))(parameters)
        for transform in (torch.func.jacfwd, torch.func.jacrev)
    ]
    torch.testing.assert_close(*by_weights)
    tangent = torch.func.jvp(f, (x,), (along,))[1]
    replicas = torch.func.jvp(torch.func.vmap(f), (torch.stack([x, x]),), (torch.stack([along, 2 * along]),))[1]
    torch.testing.assert_close(replicas, torch.stack([tangent, 2 * tangent]))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, along)
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(f(dual)).tangent, tangent)


def test_a_compiled_forward_mode_derivative_is_not_zero_where_an_operator_has_none():
    ours, theirs = of_both(aggregators=["mean", "max"])
    x, along = torch.randn(2, 6, 2, dtype=torch.double)
    expected = torch.func.jvp(theirs, (x,), (along,))[1]
    inside = torch.compile(lambda x, along: torch.func.jvp(ours, (x,), (along,))[1], backend="aot_eager")
    torch.testing.assert_close(inside(x, along), expected)
    compiled = torch.compile(ours, backend="aot_eager")
    compiled(x)  # compiled without forward mode first
    torch.testing.assert_close(torch.func.jvp(compiled, (x,), (along,))[1], expected)


def test_forward_mode_without_edges_or_nodes():
    conv = PNAConv(4, 6, ["mean", "std", "max"], ["identity"])
    edge_index = torch.zeros(2, 0, dtype=torch.long)
    for N in (0, 3):
        x = torch.randn(N, 4)
        tangent = torch.func.jvp(lambda x: conv(x, edge_index), (x,), (x,))[1]
        assert tangent.shape == (N, 6)
        assert tangent.isfinite().all()
