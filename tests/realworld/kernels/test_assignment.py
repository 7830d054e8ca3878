"""The kernels of DiffPool's assignment against their plain-torch twin in float64, for several replicas."""

from types import SimpleNamespace

import pytest
import torch
from torch.func import functional_call, vmap

from pna import segments
from pna.neighbourhoods import Joined
from pna.realworld.batches import DeviceSplit, Shape
from pna.realworld.data.datasets import DATASETS
from pna.realworld.diffpool import DiffPool
from pna.realworld.kernels import assignment
from pna.training.replicas import Lifted
from tests.interpreter import RUNS

SIZES = ([3, 0, 5, 1], [4, 4, 4, 70], [0, 0, 9, 0])  # nodes of the graphs of each replica


def batch_of(ptr, real, joined):
    return SimpleNamespace(graph_ptr=ptr, real=real, count=real.sum(), joined=joined, valid=ptr[2:])


def pooling(nodes, k, places, seed=0):
    torch.manual_seed(seed)
    layer = DiffPool((nodes, 3, 2), k, places, layers=1).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 0.5)
    return layer


def run(layer, both, g, sizes, dtype, device, training=True):
    """S of the real nodes, running statistics, and the gradients of x and of all weights of the assignment."""
    R, V = both.shape[:2]
    ptr = torch.tensor([[0, *torch.tensor(row).cumsum(0).tolist(), V] for row in sizes], device=device)
    real = (torch.arange(V, device=device) < ptr[:, -2:-1]).to(dtype).unsqueeze(2)  # [R, V, 1]
    whole = segments.joined_ptr(ptr, V)
    joined = Joined(whole, torch.repeat_interleave(whole.diff()))
    layer = layer.to(device, dtype).train(training)
    used = {name: p for name, p in layer.named_parameters() if name.startswith("assignment")}
    leaves = {name: p.detach().repeat(R, *[1] * p.dim()).requires_grad_() for name, p in used.items()}
    state = {name: b.repeat(R, *[1] * b.dim()) for name, b in layer.named_buffers() if name.startswith("assignment")}
    x, g = both.to(device, dtype).requires_grad_(), g.to(device, dtype)
    layer.forward = lambda x, batch: layer.assign(x, batch)

    def one(x, weights, state, ptr, real):
        return functional_call(layer, (weights, state), (x, batch_of(ptr, real, joined)))

    with torch.set_grad_enabled(training):
        out = vmap(one)(x, leaves, state, ptr, real) * real
        grads = torch.autograd.grad((out * g).sum(), [x, *leaves.values()]) if training else []
    return [t.detach().cpu().double() for t in (out, *state.values(), *grads)]


def random_inputs(nodes, k, V, scale=1.0):
    generator = torch.Generator().manual_seed(1)
    shapes = (len(SIZES), V, 2 * nodes), (len(SIZES), V, k)
    x, g = (torch.randn(shape, dtype=torch.double, generator=generator) for shape in shapes)
    return scale * x, g


def compare(kernels, device, layer, both, g, sizes=SIZES, training=True):
    kernels(False)
    expected = run(layer, both, g, sizes, torch.float64, "cpu", training)
    kernels()
    results, *again = (run(layer, both, g, sizes, torch.float32, device, training) for _ in range(RUNS))
    for a, b, *same in zip(expected, results, *again, strict=True):
        assert (a - b).norm() <= 1e-5 * a.norm() + 1e-10
        assert all(torch.equal(b, c) for c in same)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("nodes", "k", "places", "V"), [(2, 3, 4, 83), (16, 22, 6, 130), (8, 1, 70, 100), (40, 5, 9, 90)]
)
def test_it_is_the_plain_one(nodes, k, places, V, training, device, kernels):
    """With graphs of different sizes and none, places without a graph, and rows of more than one block."""
    compare(kernels, device, pooling(nodes, k, places), *random_inputs(nodes, k, V), training=training)


def test_more_blocks_of_rows_than_parts(device, kernels, monkeypatch):
    monkeypatch.setattr(assignment, "PARTS", 2)
    sizes = [[90, 30, 99, 5], [250, 1, 1, 1], [10, 200, 0, 89]]
    compare(kernels, device, pooling(4, 3, 4), *random_inputs(4, 3, 300), sizes=sizes)


@pytest.mark.parametrize("scale", [0.1, 1e3])
def test_any_length(scale, device, kernels):
    """z is brought to length 1: with a bias it is not the same for x of any length."""
    compare(kernels, device, pooling(4, 3, 4), *random_inputs(4, 3, 83, scale))


def test_a_node_that_is_mapped_to_nothing(device, kernels):
    layer, (both, g) = pooling(4, 3, 4), random_inputs(4, 3, 83)
    with torch.no_grad():
        layer.assignment.bias.zero_()
    both[:, ::2] = 0
    compare(kernels, device, layer, both, g)


def test_the_padding_changes_nothing_and_has_no_gradient(device, kernels):
    kernels()
    layer, (both, g) = pooling(4, 3, 4), random_inputs(4, 3, 120)
    wild = both.clone()
    for r, sizes in enumerate(SIZES):
        wild[r, sum(sizes) :] = float("nan")
    a, b = (run(layer, x, g, SIZES, torch.float32, device) for x in (both, wild))
    for s, t in zip(a[1:], b[1:], strict=True):
        assert torch.equal(s, t)
    for r, sizes in enumerate(SIZES):
        assert a[3][r, sum(sizes) :].abs().max() == 0


def test_two_clusters_by_hand(device, kernels):
    """z = (3 x, 4 x) at length 1 is (0.6, 0.8), or its opposite, of which ReLU leaves nothing; fresh running statistics
    leave that as it is but for ε."""
    kernels()
    layer = DiffPool((1, 1, 1), 2, 1, 1).to(device).eval()
    with torch.no_grad():
        layer.assignment.weight.copy_(torch.tensor([[3.0, 0.0], [4.0, 0.0]]))
        layer.assignment.bias.zero_()
        ptr = torch.tensor([0, 2, 3], device=device)
        batch = batch_of(ptr, torch.tensor([[1.0], [1.0], [0.0]], device=device), Joined(ptr, ptr))
        S = layer.assign(torch.tensor([[5.0, 7.0], [-2.0, 1.0], [1.0, 1.0]], device=device), batch)
    first = 1 / (1 + torch.tensor(0.2 / (1 + 1e-5) ** 0.5).exp())
    torch.testing.assert_close(S.cpu(), torch.tensor([[first, 1 - first], [0.5, 0.5], [0, 0]]))


@pytest.mark.parametrize("training", [True, False])
def test_graphs_without_messages_or_nodes_and_fewer_graphs_than_places(toys, training, device, kernels):
    """The whole network: predictions, running statistics and the gradients of all weights."""
    networks, results = [toys.network("zinc", "diffpool", seed=seed, batch=8) for seed in (0, 1)], []
    index = torch.tensor([[0, 1, 2, 3, 4], [4, -1, 0, -1, 1]])
    for dtype in (torch.double, torch.float32):
        kernels(dtype == torch.float32)
        graphs = DeviceSplit(DATASETS["zinc"], toys.strange(), device, dtype, transposed=True)
        lifted = Lifted(networks[0].to(device, dtype))
        theta, state = lifted.stack([network.to(device, dtype) for network in networks])
        theta.requires_grad_(training)
        out = lifted.map(
            theta, state, lambda network, row, graphs=graphs: network(graphs.batch(row, Shape(5, 20, 30))),
            index.to(device), training=training,
        )  # fmt: skip
        out = torch.where(index.to(device).unsqueeze(2) >= 0, out, 0)
        grads = torch.autograd.grad(out.square().sum(), theta) if training else ()
        results.append([t.detach().cpu().double() for t in (out, state, *grads)])
    for a, b in zip(*results, strict=True):
        assert (a - b).norm() <= 1e-4 * a.norm()


@pytest.mark.parametrize(("width", "k", "joined"), [(assignment.WIDEST + 1, 2, True), (4, 65, True), (4, 2, False)])
def test_what_the_kernels_have_no_room_for_is_left_to_the_plain_one(width, k, joined):
    ptr = torch.tensor([0, 1, 2])
    assert assignment.supports(torch.zeros(2, 4), 2, Joined(ptr, ptr))
    assert not assignment.supports(torch.zeros(2, width), k, Joined(ptr, ptr) if joined else None)
