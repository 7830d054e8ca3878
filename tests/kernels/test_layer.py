"""The whole layer as one function against the layer step by step: sizes, scalers, graphs, strides, what is wanted."""

import gc
from types import SimpleNamespace

import pytest
import torch

from pna import Neighbourhoods, PNAConv, compiled
from pna import fused as layers
from pna.fused import layer as fused
from pna.kernels import csr, operators
from pna.kernels.launch import Form
from pna.kernels.layer import WEIGHTS, allocate
from pna.kernels.layer_weights import Places, Sizes
from pna.kernels.selection import plain
from pna.neighbourhoods import transpose_edges

DEG = torch.tensor([1, 5, 8, 4, 2])
PAPER = (["mean", "max", "min", "std"], ["identity", "amplification", "attenuation"])
EVERY = (["sum", "std", "moment4", "max"], ["linear", "inverse_linear", 0.5, -2.0, "identity"])
N, E = 21, 60


def graph():
    """The last three nodes get nothing, and some edges are repeated."""
    return torch.stack([torch.randint(0, N, (E,)), torch.randint(0, N - 3, (E,))])


def make(device, dtype=torch.double, towers=1, divide_input=False, sort=PAPER, **kwargs):
    return PNAConv(10, 15, *sort, DEG, towers=towers, divide_input=divide_input, **kwargs).to(device, dtype)


def step_by_step(conv, x, edges):
    with plain():
        return conv(x, edges)


def results(run, conv, x, edges):
    """The output and the gradients of x, where it has one, and of every weight."""
    leaves = [t for t in (x, *conv.parameters()) if t.requires_grad]
    out = run(conv, x, edges)
    g = torch.linspace(-1, 1, out.numel(), dtype=out.dtype, device=out.device).view(out.shape)
    return [out, *torch.autograd.grad(out, leaves, g)]


def assert_same(conv, x, edges, others=None, forward=1e-10, backward=1e-9):
    mine, theirs = results(fused, conv, x, edges), results(step_by_step, conv, x, edges if others is None else others)
    for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        tolerance = backward if k else forward
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * max(1.0, float(b.detach().abs().max())))


@pytest.mark.parametrize(
    ("towers", "divide_input", "sort", "dtype"),
    [  # every pair of two of them
        (1, False, PAPER, torch.float),
        (1, False, EVERY, torch.double),
        (5, False, PAPER, torch.double),
        (5, False, EVERY, torch.float),
        (5, True, PAPER, torch.float),
        (5, True, EVERY, torch.double),
    ],
)
def test_equals_the_layer_step_by_step(towers, divide_input, sort, dtype, device):
    conv = make(device, dtype, towers, divide_input, sort)
    x = torch.randn(N, 10, dtype=dtype, device=device, requires_grad=True)
    tolerances = (1e-5, 1e-4) if dtype == torch.float else (1e-10, 1e-9)
    assert_same(conv, x, graph().to(device), None, *tolerances)


@pytest.mark.parametrize(
    ("sizes", "towers", "divide_input", "sort", "nodes"),
    [
        ((7, 6), 1, False, PAPER, 150),  # odd sizes, several blocks of nodes and several shares of them
        ((15, 10), 5, True, (["mean", "std"], ["identity"]), 150),  # towers of three features, one scaler
        ((11, 10), 5, False, PAPER, 70),  # channels padded at the end of every tower, and behind the last
        ((64, 40), 1, False, (["max"], ["attenuation", 2.0]), 40),  # nothing to pad; three blocks of outputs
        ((12, 132), 2, False, (["min", "var"], ["amplification"]), 33),  # more outputs than one tile holds
    ],
)
def test_float32_is_close_to_float64_step_by_step(sizes, towers, divide_input, sort, nodes, device):
    conv = PNAConv(*sizes, *sort, DEG, towers=towers, divide_input=divide_input).to(device)
    x = torch.randn(nodes, sizes[0], device=device, requires_grad=True)
    edges = torch.randint(0, nodes - 2, (2, 3 * nodes), device=device)  # two nodes get nothing
    mine = results(fused, conv, x, edges)
    exact = results(step_by_step, conv.double(), x.detach().double().requires_grad_(), edges)
    for a, b in zip(mine, exact, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4 * float(b.detach().abs().max()))


@pytest.mark.parametrize(
    ("T", "F", "H", "padded"),
    [(5, 75, 15, (76, 384, 848)), (1, 7, 6, (8, 16, 48)), (5, 2, 3, (4, 32, 80)), (1, 64, 64, (64, 64, 192))],
)
def test_rows_of_channels_begin_at_64_bytes(T, F, H, padded):
    places = Places.of(Sizes(T, F, H, 4, F, (0.0,), (False,)))
    assert (places.FP, places.C, places.W) == padded
    assert all(place % 16 == 0 for place in places[2:])


@pytest.mark.parametrize("divide_input", [False, True])
def test_strides_of_x_of_the_weights_and_of_the_gradient(divide_input, device):
    conv = make(device, towers=5, divide_input=divide_input)
    weight = conv.M[0].weight
    conv.M[0].weight = torch.nn.Parameter(weight.detach().transpose(1, 2).contiguous().transpose(1, 2))
    x = torch.randn(10, N, dtype=torch.double, device=device).t().requires_grad_()
    edges = graph().to(device)
    assert_same(conv, x, edges)
    a, b = (torch.autograd.grad(run(conv, x, edges).sum(), x) for run in (fused, step_by_step))
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("frozen", ["x", "weights", "mix.weight"])
def test_only_the_gradients_that_are_wanted(frozen, device):
    conv = make(device, towers=5)
    x = torch.randn(N, 10, dtype=torch.double, device=device, requires_grad=frozen != "x")
    for name, parameter in conv.named_parameters():
        parameter.requires_grad_(frozen not in ("weights", name))
    assert_same(conv, x, graph().to(device))
    with torch.no_grad():
        assert not fused(conv, x, graph().to(device)).requires_grad


def test_neighbourhoods_with_and_without_a_transpose_and_the_other_flow(device):
    conv = make(device, towers=5)
    x = torch.randn(N, 10, dtype=torch.double, device=device, requires_grad=True)
    edges = graph().to(device)
    neighbourhoods = Neighbourhoods.of(edges, N)
    assert_same(conv, x, neighbourhoods)
    assert_same(conv, x, neighbourhoods.with_transpose())
    assert_same(make(device, towers=5, flow="target_to_source"), x, edges)
    assert_same(make(device, towers=5, cached=True), x, edges)
    assert_same(conv, x, edges.int())
    assert_same(conv, x, edges.t().contiguous().t())


def test_a_second_derivative_has_the_delta_of_its_functional_call(device):
    conv, x = make(device), torch.randn(N, 10, dtype=torch.double, device=device, requires_grad=True)
    other, edges = make(device), graph().to(device)
    other.load_state_dict(conv.state_dict())
    for name in ("delta", "mean_degree"):
        getattr(other.combined, name).fill_(3.0)
    out = fused(other, x, edges)
    expected = torch.autograd.grad(out.square().sum(), x, create_graph=True)[0]
    buffers = {name: t.clone() for name, t in conv.combined.named_buffers()}
    for name in buffers:
        getattr(conv.combined, name).data = torch.full_like(buffers[name], 3.0)
    out = fused(conv, x, edges)
    for name, t in buffers.items():  # as functional_call puts them back
        conv.combined._buffers[name] = t
    torch.testing.assert_close(torch.autograd.grad(out.square().sum(), x, create_graph=True)[0], expected)


def test_second_derivatives(device):
    conv = make(device, towers=5, sort=(["mean", "std"], PAPER[1]))
    x = torch.randn(N, 10, dtype=torch.double, device=device, requires_grad=True)
    edges = graph().to(device)
    seconds = []
    for run in (fused, step_by_step):
        leaves = [x, *conv.parameters()]
        firsts = torch.autograd.grad(run(conv, x, edges).square().sum(), leaves, create_graph=True)
        seconds.append(torch.autograd.grad(sum(t.square().sum() for t in firsts), leaves))
    for a, b in zip(*seconds, strict=True):
        torch.testing.assert_close(a, b)


def at_once(out, inputs, g):
    return torch.autograd.grad(out, inputs, g, retain_graph=True, is_grads_batched=True)


def mapped(out, inputs, g):
    return torch.func.vmap(lambda g: torch.autograd.grad(out, inputs, g, retain_graph=True))(g)


@pytest.mark.parametrize("way", [at_once, mapped])
@pytest.mark.parametrize(("run", "sort"), [(fused, PAPER), (fused, EVERY), (step_by_step, (["softmax"], PAPER[1]))])
def test_many_gradients_at_once_are_those_one_by_one(run, way, sort, device):
    """As a vectorised Jacobian asks for."""
    conv = make(device, towers=5, sort=sort)
    inputs = [torch.randn(N, 10, dtype=torch.double, device=device, requires_grad=True), *conv.parameters()]
    out = run(conv, inputs[0], graph().to(device))
    g = torch.randn(3, *out.shape, dtype=torch.double, device=device)
    gradients = way(out, inputs, g)
    assert not any(grad.requires_grad for grad in gradients)
    for k in range(3):
        torch.testing.assert_close([grad[k] for grad in gradients], list(torch.autograd.grad(out, inputs, g[k], True)))


def test_a_vectorised_jacobian_and_those_of_torch_func(device):
    conv, edges = make(device, towers=5), graph().to(device)
    x = torch.randn(N, 10, dtype=torch.double, device=device)
    expected = torch.autograd.functional.jacobian(lambda x: step_by_step(conv, x, edges), x)
    jacobian = torch.autograd.functional.jacobian(lambda x: fused(conv, x, edges), x, vectorize=True)
    torch.testing.assert_close(jacobian, expected)
    torch.testing.assert_close(torch.func.jacrev(lambda x: conv(x, edges))(x), expected)


@pytest.mark.parametrize("nodes", [N, 70])
def test_same_bits_every_time(nodes, device):
    conv = make(device, torch.float, towers=5)
    x = torch.randn(nodes, 10, device=device, requires_grad=True)
    edges = graph().to(device)
    once, again = (results(fused, conv, x, edges) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("nodes", "edges"), [(1, 1), (1, 5), (40, 7), (7, 300), (300, 600)])
def test_one_sort_gives_the_graph_and_its_transpose(nodes, edges, reverse, device):
    edge_index = torch.randint(0, nodes, (2, edges), device=device)
    expected = Neighbourhoods.of(edge_index.flip(0) if reverse else edge_index, nodes)
    result, bad = csr.sort(edge_index, nodes, reverse, transpose=True)
    assert int(bad) == 0
    for name in ("ptr", "source", "order"):
        assert torch.equal(getattr(result, name), getattr(expected, name)), name
    sender_ptr, receiver, place = result.transpose
    assert torch.equal(sender_ptr, transpose_edges(result.ptr, result.source)[0])
    assert torch.equal(receiver, result.target[place])
    assert torch.equal(result.source[place], torch.repeat_interleave(sender_ptr.diff()))
    without, _ = csr.sort(edge_index, nodes, reverse, transpose=False)
    assert without.transpose is None
    assert all(torch.equal(a, b) for a, b in zip(without[:3], result[:3], strict=True))


@pytest.mark.parametrize("form", [lambda g: [g], lambda g: list(Neighbourhoods.of(g, N)[:2])])
@pytest.mark.parametrize(("sort", "reverse"), [(PAPER, False), (EVERY, True)])
def test_the_operator_of_compilers_has_the_layers_numbers_in_the_shapes_that_it_announces(form, sort, reverse, device):
    conv = make(device, towers=5, sort=sort, flow="target_to_source" if reverse else "source_to_target")
    x = torch.randn(N, 10, dtype=torch.double, device=device, requires_grad=True)
    edges = graph().to(device)
    expected = results(step_by_step, conv, x, edges)
    tensors = form(edges.flip(0) if reverse and len(form(edges)) > 1 else edges)
    weights = [dict(conv.named_parameters())[name] for name in WEIGHTS]
    names = " ".join(sort[0]), " ".join(map(str, sort[1]))
    statistics = (conv.combined.delta, conv.combined.mean_degree)
    with torch.no_grad():
        for _ in range(2):  # sorted, then remembered
            out, *saved = compiled._forward_on_gpu(x, *weights, *statistics, tensors, *names, reverse, True)
            sizes = [t.shape for t in allocate(x, conv, N, E)]
            assert [t.shape for t in (out, *saved[1:])] == sizes
            assert len(saved[0]) == (csr.whole_size(N, E) if len(tensors) == 1 else 0)
            g = torch.linspace(-1, 1, out.numel(), dtype=out.dtype, device=out.device).view(out.shape)
            backward = (g, x, weights[0], weights[2], weights[4], *statistics, tensors, *names, saved, True, True)
            grads = compiled._backward_on_gpu(*backward)
            for a, b in zip((out, *grads), _in_order(expected, conv), strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9 * max(1.0, float(b.abs().max())))
            assert len({t.untyped_storage().data_ptr() for t in (out, *saved) if t.numel()}) == sum(
                t.numel() > 0 for t in (out, *saved)
            )  # no two share memory
        alone = compiled._forward_on_gpu(x, *weights, *statistics, tensors, *names, reverse, False)
        assert len(alone) == 1
        torch.testing.assert_close(alone[0], out)


def _in_order(expected, conv):
    """The output and the gradients in the order of x and WEIGHTS."""
    out, of_x, *rest = (t.detach() for t in expected)
    by_name = dict(zip((name for name, _ in conv.named_parameters()), rest, strict=True))
    return out, of_x, *(by_name[name] for name in WEIGHTS)


def test_an_edge_index_is_sorted_once_until_it_is_written_to(device, monkeypatch):
    sorted_, conv = [], make(device)
    monkeypatch.setattr(csr, "sort", lambda *a, sort=csr.sort: sorted_.append(1) or sort(*a))
    x, edges = torch.randn(N, 10, dtype=torch.double, device=device), graph().to(device)
    with torch.no_grad():
        first, second = fused(conv, x, edges), fused(make(device), x, edges)
        assert len(sorted_) == 1
        assert not torch.equal(first, second)
    assert_same(conv, x, edges)  # a gradient needs the transpose too
    assert_same(conv, x, edges)
    assert len(sorted_) == 2
    edges[:, 3:9] = 1  # through a view
    assert_same(conv, x, edges)
    assert_same(conv, torch.cat([x, x]), edges)  # nodes without edges behind them
    assert_same(make(device, flow="target_to_source"), x, edges)
    assert_same(conv, x, edges.clone())
    assert len(sorted_) == 6


@torch.no_grad()
def test_memory_that_is_reused_and_other_data_of_the_same_tensor_are_sorted_again(device):
    conv, x = make(device, sort=(["sum"], ["identity"])), torch.randn(N, 10, dtype=torch.double, device=device)
    first, second = graph().to(device), graph().to(device)
    memory = first.clone().untyped_storage()
    for edges in (first, second):  # both tensors lie in the same place and have the same version
        there = torch.empty(0, dtype=torch.int64, device=device).set_(memory, 0, (2, E))
        there.data.copy_(edges)
        assert csr.remembered(there, N, False, False) is None
        torch.testing.assert_close(fused(conv, x, there), step_by_step(conv, x, edges))
        assert csr.remembered(there, N, False, False) is not None
        del there
    fused(conv, x, first)
    first.data = second[:, : E // 2]
    torch.testing.assert_close(fused(conv, x, first), step_by_step(conv, x, second[:, : E // 2]))


def test_what_is_remembered_of_an_edge_index_goes_with_it_and_a_large_one_is_not_kept(device, monkeypatch):
    conv, x, edges = make(device), torch.randn(N, 10, dtype=torch.double, device=device), graph().to(device)
    before = len(csr._graphs)
    fused(conv, x, edges)
    assert len(csr._graphs) == before + 1
    del edges
    gc.collect()
    assert len(csr._graphs) == before
    monkeypatch.setattr(csr, "SMALL", E - 1)
    edges = graph().to(device)
    fused(conv, x, edges)
    with torch.inference_mode():
        fused(conv, x, edges[:, :9].clone())
    assert len(csr._graphs) == before


@pytest.mark.gpu
def test_on_another_stream_it_is_sorted_again():
    conv, x, edges = make("cuda"), torch.randn(N, 10, dtype=torch.double, device="cuda"), graph().cuda()
    expected = fused(conv, x, edges)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        assert csr.remembered(edges, N, False, False) is None
        out = fused(conv, x, edges)
    torch.cuda.current_stream().wait_stream(side)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("differentiable", [False, True])
@pytest.mark.parametrize(("end", "node"), [(0, -1), (0, N), (1, -1), (1, N), (1, 1 << 40), (0, -(1 << 40))])
def test_a_node_that_is_not_there_is_named(end, node, differentiable, device):
    conv, edges = make(device), graph().to(device)
    edges[end, 7] = node
    x = torch.randn(N, 10, dtype=torch.double, device=device, requires_grad=differentiable)
    with (
        torch.set_grad_enabled(differentiable),
        pytest.raises(ValueError, match=f"from 0 to {N - 1} .* got values from"),
    ):
        fused(conv, x, edges)


@pytest.mark.gpu
def test_it_can_be_recorded_from_an_edge_index():
    conv = make("cuda", torch.float, towers=5)
    x = torch.randn(N, 10, device="cuda", requires_grad=True)
    edges = graph().cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        results(fused, conv, x, edges)
    torch.cuda.current_stream().wait_stream(side)
    recording = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recording):
        recorded = results(fused, conv, x, edges)
    with torch.no_grad():
        x.copy_(torch.randn(N, 10))
        edges.copy_(graph())
    recording.replay()
    for a, b in zip(recorded, results(fused, conv, x, edges), strict=True):
        assert torch.equal(a, b)


class Launcher36:
    def __call__(self, gridX, gridY, gridZ, stream, function, *args): ...


class Launcher37:
    def __call__(
        self, gridX, gridY, gridZ, stream, function,
        kernel_metadata, launch_metadata, launch_enter_hook, launch_exit_hook, *args,
    ): ...  # fmt: skip


class OtherLauncher:
    def __call__(self, grid, stream, function, *args): ...


@pytest.mark.parametrize(("kind", "expected"), [(Launcher36, True), (Launcher37, True), (OtherLauncher, False)])
def test_only_a_launcher_that_is_known_is_called_itself(kind, expected):
    kernel = SimpleNamespace(run=kind())
    assert Form.of(kernel, ()).launcher is (kernel.run if expected else None)


@pytest.fixture
def calls(monkeypatch):
    """Kernels wherever Triton runs at all; counts how often the layer is taken as a whole."""
    calls = []
    monkeypatch.setattr(operators, "supports", lambda *_: True)
    monkeypatch.setattr(layers, "layer", lambda *arguments: calls.append(1) or fused(*arguments))
    return calls


def test_a_layer_takes_it_by_itself(calls, device):
    conv, x = make(device, torch.float, towers=5), torch.randn(N, 10, device=device)
    conv(x, graph().to(device))
    conv(x, Neighbourhoods.of(graph().to(device), N))
    assert len(calls) == 2


@pytest.mark.parametrize(
    "kwargs",
    [{"pre_layers": 2}, {"post_layers": 2}, {"train_norm": True}, {"swap_extremes": True}, {"edge_dim": 3}],
)
def test_other_layers_go_step_by_step(kwargs, calls, device):
    conv, x = make(device, torch.float, **kwargs), torch.randn(N, 10, device=device)
    edge_attr = (torch.randn(E, 3, device=device),) if "edge_dim" in kwargs else ()
    conv(x, graph().to(device), *edge_attr)
    assert not calls


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda x, g: (x[:, 1:], g), "in_channels = 10"),
        (lambda x, g: (x.double(), g), "dtype of the layer's weights"),
        (lambda x, g: (x[1:], Neighbourhoods.of(g, N)), "a row for each of 21 nodes"),
        (lambda x, g: (x, Neighbourhoods.of(g, N, "target_to_source")), "flow='target_to_source'"),
        (lambda x, g: (x, Neighbourhoods.of(g, (N + 1, N))), "rows for 22 senders and 21 receivers"),
    ],
)
def test_what_does_not_fit_is_named(wrong, match, calls, device):
    conv, x, edges = make(device, torch.float), torch.randn(N, 10, device=device), graph().to(device)
    with pytest.raises((TypeError, ValueError), match=match):
        conv(*wrong(x, edges))
    assert not calls


def test_weights_that_are_no_parameters_any_more(calls, device):
    conv, x, edges = make(device, torch.float), torch.randn(N, 10, device=device), graph().to(device)
    expected = conv(x, edges)
    for module in (conv.M[0], conv.U[0], conv.mix):
        weight = module.weight.detach()
        del module.weight
        module.weight = weight
        torch.testing.assert_close(conv(x, edges), expected)
    assert len(calls) == 3  # the mixing layer's are looked for among its parameters


def test_whoever_looks_inside_sees_the_steps(calls, device):
    conv, x, edges = make(device, torch.float), torch.randn(N, 10, device=device), graph().to(device)
    torch.func.grad(lambda x: conv(x, edges).sum())(x)
    torch.func.vmap(lambda x: conv(x, edges))(x.expand(2, -1, -1))
    with torch.autocast(device, torch.bfloat16):
        conv(x, edges)
    torch.compile(conv, backend="eager", fullgraph=True)(x, edges)
    visits = []
    handle = conv.mix.register_forward_hook(lambda *_: visits.append(1))
    conv(x, edges)
    assert visits
    assert not calls
    handle.remove()
    conv(x, edges)
    assert calls
