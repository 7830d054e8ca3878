"""Aggregation without messages against the equations on messages."""

import copy
import pickle

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from pna import Neighbourhoods, segments
from pna import gather as module
from pna.aggregators import AGGREGATORS, resolve
from pna.dispatch import aggregate
from pna.neighbourhoods import Joined, Transpose

NAMES = [*AGGREGATORS, "moment3", "moment4", "moment5"]


def random_graph(N=9, E=40, hub=None):
    target = torch.randint(0, N - 2, (E,))  # the last two nodes stay empty
    if hub is not None:
        target[: E // 2] = hub
    return Neighbourhoods.of(torch.stack([torch.randint(0, N, (E,)), target]), N)


def parts(neighbourhoods, *channels, dtype=torch.double):
    N, E = neighbourhoods.num_nodes, neighbourhoods.num_edges
    return [torch.randn(n, *channels, dtype=dtype, requires_grad=True) for n in (N, E, N)]


def on_messages(neighbourhoods, names, source=None, edge=None, target=None):
    """The definition: compute all messages, and apply the equations."""
    m = 0
    m = m if source is None else m + source[neighbourhoods.source]
    m = m if edge is None else m + edge
    m = m if target is None else m + target[neighbourhoods.target]
    return torch.stack([resolve(name).function(m, neighbourhoods.ptr) for name in names], dim=-2)


@pytest.mark.parametrize(
    ("names", "channels", "block"),
    [  # every pair of two of them
        (names, channels, (1, 16, 1 << 20)[(i + k) % 3])
        for i, names in enumerate(["source", "edge", "source edge", "source target", "source edge target"])
        for k, channels in enumerate([(1,), (5,), (2, 3), (2, 3, 4)])
    ],
)
def test_equals_the_equations_on_messages_with_gradients(channels, names, block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    neighbourhoods = random_graph(hub=3)
    tensors = dict(zip(("source", "edge", "target"), parts(neighbourhoods, *channels), strict=True))
    tensors = {name: tensors[name] for name in names.split()}
    out, expected = (f(neighbourhoods, NAMES, **tensors) for f in (aggregate, on_messages))
    assert out.shape == (9, *channels[:-1], len(NAMES), channels[-1])
    torch.testing.assert_close(out, expected)
    g = torch.randn_like(out)
    grads = [torch.autograd.grad(o, tensors.values(), g) for o in (out, expected)]
    for mine, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("name", NAMES)
def test_gradcheck_to_second_order(name):
    target = torch.tensor(
        [0, 0, 0, 1, 2, 2, 2, 2, 2]
    )  # not two messages: their odd moments are 0, where the root jumps
    neighbourhoods = Neighbourhoods.of(torch.stack([torch.randint(0, 5, (9,)), target]), 5)
    tensors = parts(neighbourhoods, 2)
    assert gradcheck(lambda s, e, t: aggregate(neighbourhoods, [name], s, e, t), tensors)
    assert gradgradcheck(lambda s, e, t: aggregate(neighbourhoods, [name], s, e, t), tensors)


def test_many_replicas_are_channels():
    neighbourhoods = random_graph()
    _, edge, target = parts(neighbourhoods, 2, 3)
    many = torch.randn(4, 9, 2, 3, dtype=torch.double, requires_grad=True)
    out = torch.func.vmap(lambda s: aggregate(neighbourhoods, NAMES, s, edge, target))(many)
    one_by_one = torch.stack([aggregate(neighbourhoods, NAMES, s, edge, target) for s in many])
    torch.testing.assert_close(out, one_by_one)
    torch.testing.assert_close(
        torch.autograd.grad(out.sum(), [many, edge]), torch.autograd.grad(one_by_one.sum(), [many, edge])
    )


@pytest.mark.parametrize("shared", [None, "edge", "column"])
def test_replicas_on_graphs_of_their_own_are_one_graph(shared):
    graphs = [random_graph() for _ in range(4)]
    ptr, column = (torch.stack([graph[k] for graph in graphs], dim=k) for k in (0, 1))  # [R, N + 1] and [E, R]
    many = torch.randn(4, 9, 2, 3, dtype=torch.double, requires_grad=True)
    edge = torch.randn(4, 40, 2, 3, dtype=torch.double, requires_grad=True)
    dims = [0, 0, 0, 1]
    if shared == "edge":
        edge, dims[1] = parts(graphs[0], 2, 3)[1], None
    if shared == "column":
        column, dims[3] = column[:, 0], None

    def run(source, edge, ptr, column):
        return aggregate(Neighbourhoods(ptr, column, None), NAMES, source, edge, 2 * source)

    out = torch.func.vmap(run, in_dims=tuple(dims))(many, edge, ptr, column)
    inputs = list(zip((many, edge, ptr, column), dims, strict=True))
    picked = [[t if d is None else t.select(d, r) for t, d in inputs] for r in range(4)]
    one_by_one = torch.stack([run(*each) for each in picked])
    torch.testing.assert_close(out, one_by_one)
    g = torch.randn_like(out)
    grads = (torch.autograd.grad(o, [many, edge], g) for o in (out, one_by_one))
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("function", [segments.sum, segments.max, lambda m, ptr: segments.spread(m[:9], ptr, 40)])
def test_sums_maxima_and_copies_on_graphs_of_their_own(function):
    graphs = [random_graph() for _ in range(3)]
    ptr, m = torch.stack([graph.ptr for graph in graphs], dim=1), torch.randn(3, 40, 2, requires_grad=True)
    out = torch.func.vmap(function, in_dims=(0, 1))(m, ptr)
    one_by_one = torch.stack([function(each, graph.ptr) for each, graph in zip(m, graphs, strict=True)])
    torch.testing.assert_close(out, one_by_one)
    g = torch.randn_like(out)
    torch.testing.assert_close(torch.autograd.grad(out, m, g), torch.autograd.grad(one_by_one, m, g))


def stacked(graphs):
    """Graphs of one size for torch.func.vmap: each of their tensors has a row per graph."""
    tensors = [(graph.ptr, graph.source, *graph.transpose) for graph in graphs]
    return [torch.stack(column) for column in zip(*tensors, strict=True)]


@pytest.mark.parametrize(
    "call", [segments.sent, lambda x, graph: aggregate(graph, NAMES, x)], ids=["sent", "aggregate"]
)
def test_graphs_of_their_own_with_senders_of_another_kind(call):
    edges = [torch.stack([torch.randint(0, 7, (30,)), torch.randint(0, 4, (30,))]) for _ in range(3)]
    graphs = [Neighbourhoods.of(each, (7, 4)).with_transpose() for each in edges]
    x = torch.randn(3, 7, 2, dtype=torch.double, requires_grad=True)

    def one(x, ptr, source, *transpose):
        return call(x, Neighbourhoods(ptr, source, None, Transpose(*transpose), senders=7))

    out, one_by_one = torch.func.vmap(one)(x, *stacked(graphs)), torch.stack(list(map(call, x, graphs)))
    torch.testing.assert_close(out, one_by_one)
    g = torch.randn_like(out)
    torch.testing.assert_close(torch.autograd.grad(out, x, g), torch.autograd.grad(one_by_one, x, g))


def joined(graphs):
    """Graphs of one size joined into one, by the definition: the nodes of each are numbered after the previous ones."""
    N, E = graphs[0].num_nodes, graphs[0].num_edges
    edges = [torch.stack([graph.source, graph.target]) + k * N for k, graph in enumerate(graphs)]
    whole = Neighbourhoods.of(torch.cat(edges, dim=1), len(graphs) * N).with_transpose()
    assert torch.equal(whole.order, torch.arange(len(graphs) * E))
    return Joined(whole.ptr, whole.target, whole.source, whole.transpose)


ON_GRAPHS = {
    "sum": lambda x, graph: segments.sum(x.repeat(5, 1)[:40], graph.ptr, graph.joined),
    "max": lambda x, graph: segments.max(x.repeat(5, 1)[:40], graph.ptr, graph.joined),
    "spread": lambda x, graph: segments.spread(x, graph.ptr, 40, graph.joined),
    "sent": segments.sent,
}


@pytest.mark.parametrize("call", ON_GRAPHS.values(), ids=ON_GRAPHS)
def test_graphs_that_are_joined_already_are_not_joined_again(call, monkeypatch):
    graphs = [random_graph().with_transpose() for _ in range(3)]
    x = torch.randn(3, 9, 2, dtype=torch.double, requires_grad=True)
    whole = joined(graphs)

    def one(x, ptr, source, *transpose):
        return call(x, Neighbourhoods(ptr, source, None, Transpose(*transpose), joined=whole))

    one_by_one = torch.stack(list(map(call, x, graphs)))
    for name in ("joined_ptr", "joined_index"):
        monkeypatch.setattr(segments, name, lambda *_: pytest.fail("joined again"))
    out = torch.func.vmap(one)(x, *stacked(graphs))
    torch.testing.assert_close(out, one_by_one)
    g = torch.randn_like(out)
    torch.testing.assert_close(torch.autograd.grad(out, x, g), torch.autograd.grad(one_by_one, x, g))


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))], ids=["deep", "pickle"]
)
def test_copies_keep_what_is_joined(copied):
    graph = random_graph().with_transpose()
    graph = graph._replace(joined=joined([graph]))
    assert torch.equal(copied(graph).joined.target, graph.target)
    assert all(map(torch.equal, copied(graph).joined.transpose, graph.transpose))


@pytest.mark.parametrize("names", [["sum", "max"], ["mean", "std"], ["mean", "moment3"], ["softmax", "sum"]], ids=str)
def test_one_gradient_of_many_replicas(names):
    """The derivative of a sum or a mean does not depend on the messages, that of another aggregator does."""
    neighbourhoods, g = random_graph(), torch.randn(9, len(names), 2, dtype=torch.double)

    def pulled_back(x):
        return torch.func.vjp(lambda x: aggregate(neighbourhoods, names, x), x)[1](g)[0]

    many = torch.randn(3, 9, 2, dtype=torch.double)
    torch.testing.assert_close(torch.func.vmap(pulled_back)(many), torch.stack(list(map(pulled_back, many))))


class LargestTensor(TorchDispatchMode):
    """Record the largest number of elements that any operation returned in fresh memory."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor) and not out._is_view():
            self.largest = max(self.largest, out.numel())
        return out


@pytest.mark.parametrize(("hub", "C", "F"), [(None, 1, 16), (0, 1, 16), (None, 16, 1)])
def test_no_tensor_of_all_messages_is_made(hub, C, F, monkeypatch):
    """A mode does not see inside operators, so their functions are called without them."""
    monkeypatch.setattr(module, "BLOCK", 1 << 10)
    N, E = 60, 2400
    neighbourhoods = random_graph(N, E, hub)
    ptr, column = neighbourhoods[:2]
    names = ["mean", "std", "max", "min", "softmax", "moment3"]
    source = torch.randn(N, C, F)
    with LargestTensor() as mode:
        out = module.aggregate_blocks(source, None, ptr, column, " ".join(names))
        module.differentiate_blocks(torch.ones_like(out), source, None, ptr, column, " ".join(names))
    assert mode.largest <= out.numel() < E * C * F
    with LargestTensor() as mode:  # the control: the definition does make it
        on_messages(neighbourhoods, names, source=source.requires_grad_()).sum().backward()
    assert mode.largest == E * C * F


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_lower_precision_follows_float64(dtype):
    neighbourhoods = random_graph(N=20, E=200, hub=1)
    source = torch.randn(20, 4).to(dtype).requires_grad_()
    exact = source.detach().double().requires_grad_()
    names = ["mean", "std", "max", "min", "sum", "softmax"]
    out, expected = aggregate(neighbourhoods, names, source), aggregate(neighbourhoods, names, exact)
    assert out.dtype == dtype
    tolerance = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)
    out.sum().backward()
    expected.sum().backward()
    assert (source.grad - exact.grad).norm() < 10 * tolerance * exact.grad.norm()


@pytest.mark.parametrize("names", [["max", "min"], ["mean", "sum", "max", "min", "var", "std", "max"]], ids=str)
def test_what_is_computed_together_shares_the_gradient_of_equal_extremes(names):
    neighbourhoods = random_graph()
    source = torch.randn(9, 3, dtype=torch.double).round().requires_grad_()
    g = torch.randn(9, len(names), 3, dtype=torch.double)
    mine, theirs = (
        torch.autograd.grad(f(neighbourhoods, names, source), source, g)[0] for f in (aggregate, on_messages)
    )
    torch.testing.assert_close(mine, theirs)


def test_the_rounding_of_a_large_mean_is_no_part_of_the_spread():
    neighbourhoods = random_graph(N=20, E=400)
    source = 1e4 + 0.01 * torch.randn(20, 8)
    out, exact = (aggregate(neighbourhoods, ["std", "var"], x) for x in (source, source.double()))
    torch.testing.assert_close(out.double(), exact, rtol=1e-5, atol=0)


def test_not_contiguous_parts():
    neighbourhoods = random_graph()
    source = torch.randn(6, 9, dtype=torch.double).t()[:, ::2].requires_grad_()
    out = aggregate(neighbourhoods, NAMES, source)
    torch.testing.assert_close(out, on_messages(neighbourhoods, NAMES, source))
    g = torch.randn(9, 3, len(NAMES), dtype=torch.double).transpose(1, 2)
    mine, theirs = (
        torch.autograd.grad(f(neighbourhoods, NAMES, source), source, g)[0] for f in (aggregate, on_messages)
    )
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(("N", "E"), [(0, 0), (1, 0), (3, 0), (1, 4)])
def test_no_nodes_no_edges_one_node(N, E):
    neighbourhoods = Neighbourhoods.of(torch.zeros(2, E, dtype=torch.long), N)
    source = torch.randn(N, 2, 3, requires_grad=True)
    out = aggregate(neighbourhoods, NAMES, source, target=torch.ones(N, 2, 3))
    assert out.shape == (N, 2, len(NAMES), 3)
    assert E > 0 or (out == 0).all()
    out.sum().backward()
    assert source.grad.isfinite().all()


def test_the_operators_pass_torchs_own_checks():
    neighbourhoods = random_graph()
    source, edge, _ = (t.detach() for t in parts(neighbourhoods, 2, 3, dtype=torch.float))
    ptr, column = neighbourhoods[:2]
    torch.library.opcheck(module.gather_aggregate, (source, edge, ptr, column, "mean std max"))
    torch.library.opcheck(module.gather_aggregate, (source, None, ptr, column, "mean"))


@pytest.mark.parametrize("names", ["mean std max", "mean softmax"])
@pytest.mark.parametrize("block", [1, 1 << 20])
def test_the_gradient_lies_in_memory_as_a_compiler_is_told(names, block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    neighbourhoods = random_graph()
    ptr, column = neighbourhoods[:2]
    both = [t.detach().permute(2, 1, 0).contiguous().permute(2, 1, 0) for t in parts(neighbourhoods, 2, 3)[:2]]
    g = torch.randn(9, 2, len(names.split()), 3, dtype=both[0].dtype)
    for source, edge in (both, (None, both[1]), (both[0], None)):
        torch.library.opcheck(module.gather_aggregate_backward, (g, source, edge, ptr, column, names))


def test_without_messages():
    with pytest.raises(ValueError, match="give source, edge or both"):
        aggregate(random_graph(), ["mean"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_degree_beyond_float16_leaves_the_sum_right(dtype):
    """70,000 messages of 1/64 are 1,094, half of it from the target, although float16 has no 70,000."""
    graph = Neighbourhoods.of(torch.stack([torch.zeros(70_000).long(), torch.ones(70_000).long()]), 2)
    source, target = (torch.full((2, 3), 1 / 128, dtype=dtype, requires_grad=True) for _ in range(2))
    out = aggregate(graph, ["sum", "mean"], source, None, target)
    torch.testing.assert_close(out[1, 0].double(), torch.full((3,), 70_000 / 64).double(), rtol=1e-2, atol=0)
    assert out.dtype == dtype
    grad = torch.autograd.grad(out[1, 1].sum(), target)[0]  # of the mean: 1 for its receiver
    torch.testing.assert_close(grad[1], torch.ones(3, dtype=dtype))
