"""The fused aggregation against its plain-torch twin in float64: every aggregator, hubs, ties, odd sizes, strides."""

import pytest
import torch
from torch.autograd import gradcheck

from pna import Neighbourhoods
from pna import gather as twin
from pna.dispatch import aggregate
from pna.kernels import aggregation, aggregation_backward, operators
from pna.kernels.hubs import AT_ONCE
from pna.neighbourhoods import transpose_edges
from tests.interpreter import RUNS

PAPER = "mean max min std"
EVERY = "mean sum max min std var moment2 moment3 moment4 moment5"
SMOOTH = "mean sum max min std var moment2 moment4"  # an odd moment near 0 amplifies float32's rounding, ours or any
N = 12
PARTS = ["source", "edge", "source target", "source edge", "source edge target"]


def random_graph(N=N, E=120, hub=34):
    """One node receives much, one sends much, the last two get nothing, and no two messages balance each other."""
    target = torch.randint(0, N - 2, (E,))
    target[:hub] = 3
    target[-3 * (N - 2) :] = torch.arange(N - 2).repeat(3)  # at least three messages: an odd moment of two is rounding
    source = torch.randint(0, N, (E,))
    source[hub : 2 * hub] = 5
    return Neighbourhoods.of(torch.stack([source, target]), N)


def inputs(neighbourhoods, roles, G, F, dtype=torch.double, offset=0.0):
    rows = {"source": neighbourhoods.num_nodes, "edge": neighbourhoods.num_edges, "target": neighbourhoods.num_nodes}
    return {name: (torch.randn(rows[name], G, F, dtype=torch.double) + offset).to(dtype) for name in roles.split()}


def fused(neighbourhoods, names, tensors, g, device="cpu"):
    """The output and the gradients by the kernels, on the CPU and in float64."""
    ptr, source = (t.to(device) for t in neighbourhoods[:2])
    transpose = neighbourhoods.transpose or (None,) * 3
    transpose = (t if t is None else t.to(device) for t in transpose)
    parts = [tensors.get(name) for name in ("source", "edge", "target")]
    parts = [t if t is None else t.detach().to(device).requires_grad_() for t in parts]
    out = twin._fused(*parts, ptr, source, *transpose, names)
    grads = torch.autograd.grad(out, [t for t in parts if t is not None], g.to(device, out.dtype))
    return [t.detach().cpu().double() for t in (out, *grads)]


def plain(neighbourhoods, names, tensors, g):
    """The output and the gradients by the equations, in float64."""
    tensors = {name: t.double().requires_grad_() for name, t in tensors.items()}
    out = aggregate(neighbourhoods, names.split(), **tensors)
    return [t.detach() for t in (out, *torch.autograd.grad(out, list(tensors.values()), g))]


def assert_same(neighbourhoods, names, tensors, device, forward, backward):
    G, F = next(iter(tensors.values())).shape[1:]
    dtype = next(iter(tensors.values())).dtype
    g = torch.randn(neighbourhoods.num_nodes, G, len(names.split()), F, dtype=dtype).double()
    mine, theirs = fused(neighbourhoods, names, tensors, g, device), plain(neighbourhoods, names, tensors, g)
    for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        tolerance = forward if k == 0 else backward
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
    return mine


LIMITS = [1 << 20, 16]  # from how many messages on a node is split: none here, or several


def by_turns(*cases):
    """The cases with one limit and the other by turns, in an order in which every two values meet."""
    return [(*case, LIMITS[k % 2]) for k, case in enumerate(cases)]


@pytest.fixture(params=LIMITS, ids=["whole", "split"])
def limit(request, monkeypatch):
    for module in (aggregation, aggregation_backward):
        monkeypatch.setattr(module, "limit", lambda _: request.param)
    return request.param


TWINS = by_turns(*((names, roles) for names in (PAPER, EVERY) for roles in PARTS))


@pytest.mark.parametrize(("names", "roles", "limit"), TWINS, indirect=["limit"])
def test_equals_the_twin_in_float64(names, roles, limit, device):
    neighbourhoods = random_graph()
    assert_same(neighbourhoods, names, inputs(neighbourhoods, roles, 2, 5), device, 1e-10, 1e-9)


OFFSETS = by_turns((PAPER, 0), (PAPER, 1000), (SMOOTH, 1000), (SMOOTH, 0))


@pytest.mark.parametrize(("names", "offset", "limit"), OFFSETS, indirect=["limit"])
def test_float32_is_as_near_as_claimed(names, offset, limit, device):
    """Forward 1e-5, gradients 1e-4; also where the mean is a thousand times the standard deviation."""
    neighbourhoods = random_graph()
    tensors = inputs(neighbourhoods, "source", 1, 64, torch.float, offset)
    assert_same(neighbourhoods, names, tensors, device, 1e-5, 1e-4)


@pytest.mark.parametrize("roles", ["source", "source edge"])
def test_moments_of_any_spread_are_those_of_the_equation(roles, limit, device):
    """No power of a deviation leaves float32's range, neither below, where the equation gives ±ε^(1/n), nor above."""
    neighbourhoods, names = random_graph(), "moment2 moment3 moment4 moment5"
    spread = torch.tensor([1e-20, 1e-10, 1e-3, 1e3, 1e7])  # of a channel each
    tensors = {name: t * spread for name, t in inputs(neighbourhoods, roles, 1, 5, torch.float).items()}
    g = torch.randn(N, 1, 4, 5, dtype=torch.float).double()
    mine, theirs = fused(neighbourhoods, names, tensors, g, device), plain(neighbourhoods, names, tensors, g)
    torch.testing.assert_close(mine[0], theirs[0], rtol=1e-4, atol=1e-8)
    for grad, expected in zip(mine[1:], theirs[1:], strict=True):
        torch.testing.assert_close(grad, expected, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", EVERY.split())
def test_each_aggregator_alone(name, device):
    neighbourhoods = random_graph()
    assert_same(neighbourhoods, name, inputs(neighbourhoods, "source target", 1, 4), device, 1e-10, 1e-9)


@pytest.mark.parametrize(("G", "F"), [(1, 1), (1, 3), (5, 15), (3, 128), (1, 513), (27, 19)])
def test_any_number_of_channels(G, F, device):
    neighbourhoods = random_graph(N=6, E=24, hub=6)
    assert_same(neighbourhoods, PAPER, inputs(neighbourhoods, "source target", G, F), device, 1e-10, 1e-9)


@pytest.mark.parametrize("limit", LIMITS[1:], indirect=True)
def test_a_hub_of_more_chunks_than_are_merged_at_once(limit, device):
    neighbourhoods = random_graph(N=6, E=1200, hub=1100)
    assert neighbourhoods.degree.max() > AT_ONCE.value * limit
    assert_same(neighbourhoods, EVERY, inputs(neighbourhoods, "edge", 1, 4), device, 1e-9, 1e-7)


HALVES = by_turns(*((torch.float16, roles) for roles in ("source", "source edge")))
HALVES += by_turns(*((torch.bfloat16, roles) for roles in ("source edge", "source")))


@pytest.mark.parametrize(("dtype", "roles", "limit"), HALVES, indirect=["limit"])
def test_half_precision_is_accumulated_in_float32(dtype, roles, limit, device):
    neighbourhoods = random_graph()
    tolerance = 2 * torch.finfo(dtype).eps
    tensors = inputs(neighbourhoods, roles, 1, 8, dtype)
    assert_same(neighbourhoods, PAPER, tensors, device, tolerance, 10 * tolerance)


def test_equal_extremes_share_the_gradient_and_equal_messages_have_no_spread(limit, device):
    neighbourhoods = random_graph()
    tensors = {"source": torch.randint(0, 3, (N, 1, 8)).double()}
    assert_same(neighbourhoods, PAPER, tensors, device, 1e-10, 1e-9)
    equal = {"source": torch.full((N, 1, 8), 0.1)}  # whose sums are rounded: their mean is still 0.1, to the bit
    assert_same(neighbourhoods, PAPER, equal, device, 1e-6, 1e-6)


def test_strides(limit, device):
    neighbourhoods = random_graph()
    wide = torch.randn(N, 30, dtype=torch.double)
    for source in (
        wide[:, :12].unflatten(1, (3, 4)),
        wide.view(N, 5, 6).transpose(1, 2),
        torch.randn(3, N, 4, dtype=torch.double).transpose(0, 1),
        torch.randn(1, 3, 4, dtype=torch.double).expand(N, 3, 4),
    ):
        assert_same(neighbourhoods, PAPER, {"source": source, "target": source * 2}, device, 1e-10, 1e-9)


def test_gradient_of_a_sum(device):
    """Its gradient is one number, expanded."""
    neighbourhoods = random_graph()
    g = torch.ones((), dtype=torch.double).expand(N, 2, 4, 3)
    tensors = inputs(neighbourhoods, "source target", 2, 3)
    mine, theirs = fused(neighbourhoods, PAPER, tensors, g, device), plain(neighbourhoods, PAPER, tensors, g)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(("N", "E"), [(0, 0), (1, 0), (3, 0), (1, 4), (3, 1)])
def test_no_nodes_no_edges_one_node(N, E, device):
    neighbourhoods = Neighbourhoods.of(torch.zeros(2, E, dtype=torch.long), N)
    assert_same(neighbourhoods, EVERY, inputs(neighbourhoods, "source target", 1, 3), device, 1e-10, 1e-9)
    assert_same(neighbourhoods, PAPER, inputs(neighbourhoods, "edge", 1, 3), device, 1e-10, 1e-9)


NUMBERS = [(PAPER, 2, 7, 5, 15), (PAPER, 3, 12, 1, 6), (SMOOTH, 1, 8, 1, 4), ("max", 2, 12, 2, 3)]
NUMBERS += [("sum", 3, 9, 1, 1), ("std", 2, 16, 2, 3)]


@pytest.mark.parametrize(("names", "R", "V", "G", "F"), NUMBERS)
@pytest.mark.parametrize("dtype", [torch.double, torch.float32])
def test_edges_that_are_one_number_are_weighed_on_the_way(names, R, V, G, F, dtype, device):
    """source_j + e_ij w, with another w in each of R graphs, is the same as with e_ij w as edge features."""
    forward, backward = (1e-9, 1e-9) if dtype == torch.double else (1e-5, 1e-4)
    graphs = [torch.stack([g.source, g.target]) + r * V for r in range(R) for g in [random_graph(V)]]
    graph = Neighbourhoods.of(torch.cat(graphs, dim=1), R * V)
    tensors = inputs(graph, "source target", G, F, dtype)
    number = torch.rand(graph.num_edges, dtype=dtype)
    weight = torch.randn(R, G, F, dtype=dtype)
    g = torch.randn(R * V, G, len(names.split()), F, dtype=dtype)

    source, target = tensors.values()
    ptr, column = (t.to(device) for t in graph[:2])
    operands = [t.to(device) for t in (source, number)]
    out, saved = aggregation.forward(*operands, target.to(device), ptr, column, names, True, weight=weight.to(device))
    transpose = transpose_edges(ptr, column)
    grads, *again = (
        aggregation_backward.backward(
            g.to(device), *operands, ptr, column, transpose, names, saved, True, weight=weight.to(device)
        )
        for _ in range(RUNS)
    )
    assert all(torch.equal(a, b) for other in again for a, b in zip(grads, other, strict=True))

    wide = [t.double().requires_grad_() for t in (source, weight, target)]
    edge = number.double()[:, None, None] * wide[1][graph.target // V]
    expected = aggregate(graph, names.split(), source=wide[0], edge=edge, target=wide[2])
    torch.testing.assert_close(out.cpu().double(), expected.detach(), rtol=forward, atol=forward)
    for mine, theirs in zip(grads, torch.autograd.grad(expected, wide, g.double()), strict=True):
        torch.testing.assert_close(mine.cpu().double(), theirs, rtol=backward, atol=backward)


@pytest.mark.parametrize(("N", "E"), [(0, 0), (4, 0)])
def test_a_weight_of_no_edges_has_no_gradient(N, E, device):
    weight, source = torch.randn(2, 3, 4, device=device), torch.randn(N, 3, 4, device=device)
    ptr, column = torch.zeros(N + 1, dtype=torch.long, device=device), torch.zeros(E, dtype=torch.long, device=device)
    operands = (source, source.new_empty(E))
    out, saved = aggregation.forward(*operands, None, ptr, column, PAPER, True, weight=weight)
    transpose = (ptr, column, column)
    grads = aggregation_backward.backward(out, *operands, ptr, column, transpose, PAPER, saved, False, weight=weight)
    assert torch.equal(grads[0], torch.zeros_like(source))
    assert torch.equal(grads[1], torch.zeros_like(weight))


def test_hubs_at_every_place(limit, device):
    """A hub before, behind and beside another; chunks that begin in it, end in it, and do neither."""
    degrees = torch.tensor([0, 17, 16, 40, 33, 1, 0, 64, 15, 100])
    target = torch.repeat_interleave(degrees)
    for source in (torch.randint(0, 10, target.shape), target.flip(0)):
        neighbourhoods = Neighbourhoods.of(torch.stack([source, target]), 10)
        assert_same(neighbourhoods, PAPER, inputs(neighbourhoods, "source target", 1, 4), device, 1e-10, 1e-9)


def test_the_transpose_given_told_or_made(device):
    edge_index = torch.randint(0, 20, (2, 60))
    undirected = torch.cat([edge_index, edge_index.flip(0)], dim=1).unique(dim=1)
    neighbourhoods = Neighbourhoods.of(undirected, 20)
    source, target = neighbourhoods.source, neighbourhoods.target
    reverse = torch.empty_like(source)
    reverse[(target * 20 + source).argsort()] = (source * 20 + target).argsort()
    forms = (neighbourhoods, neighbourhoods.with_transpose(), neighbourhoods.with_transpose(reverse))
    for name, a, b in zip(("ptr", "receiver", "place"), forms[1].transpose, forms[2].transpose, strict=True):
        assert torch.equal(a, b), name
    tensors = inputs(neighbourhoods, "source edge", 1, 4)
    g = torch.randn(20, 1, 4, 4, dtype=torch.double)
    results = [fused(form, PAPER, tensors, g, device) for form in forms]
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], result, strict=True))


def test_same_bits_every_time(limit, device):
    neighbourhoods = random_graph()
    tensors = inputs(neighbourhoods, "source edge target", 2, 7, torch.float)
    g = torch.randn(N, 2, 10, 7)
    once, again = (fused(neighbourhoods, EVERY, tensors, g, device) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))


def test_no_tensor_of_all_messages_is_kept():
    """What the backward pass keeps: nothing without a gradient; else numbers per node, and two bits per message."""
    x = torch.empty(100, 1, 64)
    sizes = [t.numel() for t in aggregation.allocate(x, 100, 5000, PAPER, save=False)[1:]]
    assert sum(sizes) == 0
    *numbers, marks = aggregation.allocate(x, 100, 5000, PAPER, save=True)[1:]
    assert sum(t.numel() for t in numbers) <= 64 + 3 * 100 * 64
    assert marks.dtype == torch.uint8
    assert marks.numel() == 5000 * 64 // 4


def test_gradcheck(device):
    neighbourhoods = random_graph(N=6, E=30, hub=5)
    ptr, source = (t.to(device) for t in neighbourhoods[:2])
    parts = [torch.randn(n, 1, 2, dtype=torch.double, device=device, requires_grad=True) for n in (6, 30, 6)]
    assert gradcheck(lambda *parts: twin._fused(*parts, ptr, source, None, None, None, EVERY), parts, fast_mode=True)


def test_second_derivatives_and_replicas(device):
    neighbourhoods = random_graph(N=8, E=40, hub=5)
    ptr, source = (t.to(device) for t in neighbourhoods[:2])
    many = torch.randn(3, 8, 2, 4, dtype=torch.double, device=device, requires_grad=True)

    def run(x):
        return twin._fused(x, None, 2 * x, ptr, source, None, None, None, PAPER)

    out, one_by_one = torch.func.vmap(run)(many), torch.stack([run(x) for x in many])
    torch.testing.assert_close(out, one_by_one)
    g = torch.randn_like(out)
    torch.testing.assert_close(torch.autograd.grad(out, many, g), torch.autograd.grad(one_by_one, many, g))
    one = many[0, :, :1, :1].detach().requires_grad_()
    assert torch.autograd.gradgradcheck(run, one, fast_mode=True)


@pytest.mark.parametrize("transposed", [False, True])
def test_replicas_on_graphs_of_their_own(device, transposed):
    graphs = [random_graph(N=8, E=40, hub=5) for _ in range(3)]
    graphs = [graph.with_transpose() for graph in graphs] if transposed else graphs
    tensors = [[*graph[:2], *(graph.transpose or ())] for graph in graphs]
    many = torch.randn(3, 8, 2, 4, dtype=torch.double, device=device, requires_grad=True)

    def run(x, *graph):
        return twin._fused(x, None, 2 * x, *graph, *(None,) * (5 - len(graph)), PAPER)

    stacked = [torch.stack(column).to(device) for column in zip(*tensors, strict=True)]
    out = torch.func.vmap(run)(many, *stacked)
    one_by_one = torch.stack([run(x, *(t[r] for t in stacked)) for r, x in enumerate(many)])
    torch.testing.assert_close(out, one_by_one)
    g = torch.randn_like(out)
    torch.testing.assert_close(torch.autograd.grad(out, many, g), torch.autograd.grad(one_by_one, many, g))


def test_the_operators_pass_torchs_own_checks(device):
    neighbourhoods = random_graph(N=8, E=40, hub=5)
    ptr, column = (t.to(device) for t in neighbourhoods[:2])
    source, edge = torch.randn(8, 1, 4, device=device), torch.randn(40, 1, 4, device=device)
    for save in (True, False):
        torch.library.opcheck(operators.aggregate, (source, edge, source, ptr, column, PAPER, save))
    saved = operators.aggregate(source, edge, None, ptr, column, PAPER, True)[1:]
    g = torch.randn(8, 1, 4, 4, device=device)
    arguments = (g, source, edge, ptr, column, None, None, None, PAPER, *saved, True)
    torch.library.opcheck(operators.aggregate_backward, arguments)


def test_without_hubs_nothing_is_launched_for_them(monkeypatch, device):
    """Those who know that there is none say so; the operator's own checks hold there too."""
    for module in (aggregation, aggregation_backward):
        monkeypatch.setattr(module, "limit", lambda _: 16)  # so that node 5 would be one
    neighbourhoods = random_graph(N=8, E=40, hub=5)
    ptr, column = (t.to(device) for t in neighbourhoods[:2])
    source, g = torch.randn(8, 1, 4, device=device), torch.randn(8, 1, 4, 4, device=device)
    results = []
    for hubs in (True, False):
        if not hubs:
            for module in (aggregation, aggregation_backward):
                monkeypatch.setattr(module, "limit", lambda _: pytest.fail("hubs are looked for"))
        out, *saved = operators.aggregate(source, None, None, ptr, column, PAPER, True, hubs)
        assert (saved[3].numel() > 0) == hubs
        arguments = (g, source, None, ptr, column, None, None, None, PAPER, *saved, True, hubs)
        results.append((out, *operators.aggregate_backward(*arguments)))
    torch.library.opcheck(operators.aggregate, (source, None, None, ptr, column, PAPER, True, False))
    torch.library.opcheck(operators.aggregate_backward, arguments)
    torch.testing.assert_close(*results)


def test_which_aggregators_have_a_kernel():
    assert not operators.supports(PAPER.split(), torch.empty(1))  # the twin serves on a CPU
    if torch.cuda.is_available():
        x = torch.empty(1, device="cuda")
        assert operators.supports(EVERY.split(), x)
        assert not operators.supports(["mean", "softmax"], x)
        assert not operators.supports(["moment6"], x)
        assert not operators.supports(["mean", "mean"], x)


@pytest.mark.parametrize("way", ["at once", "mapped"])
@pytest.mark.parametrize("roles", ["source", "source edge"])
@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "twin"])
def test_many_gradients_at_once_are_those_one_by_one(kernels, roles, way, device):
    """By the kernels' function and by the one that serves elsewhere on a GPU."""
    graph = random_graph()
    parts = [t.to(device).requires_grad_() for t in inputs(graph, roles, 2, 3).values()]
    flat, (ptr, column) = (*parts, None)[:2], (t.to(device) for t in graph[:2])
    if kernels:
        out = twin._fused(*flat, None, ptr, column, None, None, None, SMOOTH)
    else:
        out = twin._GatherAggregate.apply(*flat, ptr, column, f"softmax {SMOOTH}")
    g = torch.randn(3, *out.shape, dtype=torch.double, device=device)
    if way == "at once":
        gradients = torch.autograd.grad(out, parts, g, retain_graph=True, is_grads_batched=True)
    else:
        gradients = torch.func.vmap(lambda g: torch.autograd.grad(out, parts, g, retain_graph=True))(g)
    for k in range(3):
        torch.testing.assert_close([grad[k] for grad in gradients], list(torch.autograd.grad(out, parts, g[k], True)))
