"""The kernels of GatedGCN's training against their plain-torch twin in float64, for several replicas."""

import pytest
import torch

from pna.neighbourhoods import Joined, Neighbourhoods
from pna.realworld.batches import DeviceSplit, Shape
from pna.realworld.comparators import GatedGCNLayer
from pna.realworld.data.datasets import DATASETS
from pna.realworld.kernels import gated
from pna.training.replicas import Lifted
from tests.interpreter import RUNS

INDEX, SHAPE = torch.tensor([[3, 0, 7, -1], [1, 2, 5, 11], [-1, 4, -1, -1]]), Shape(4, 64, 192)


class Stack(torch.nn.Module):
    """An embedding of edges and some layers, the last of which is told so."""

    def __init__(self, F, layers, last):
        super().__init__()
        self.embedding = torch.nn.Linear(1, F)
        self.layers = torch.nn.ModuleList(GatedGCNLayer((F, F), last and k == layers - 1) for k in range(layers))

    def forward(self, x, batch):
        for layer in self.layers:
            x = layer(x, batch, self.embedding, None)
        return x


def networks(F, layers=1, last=False):
    stacks = []
    for seed in range(len(INDEX)):
        torch.manual_seed(seed)
        stacks.append(Stack(F, layers, last).double())
        with torch.no_grad():
            for parameter in stacks[-1].parameters():
                parameter.normal_(0, 0.4)
    return stacks


def run(toys, kernels, stacks, x, gs, dtype, device, last=False):
    """What real nodes and messages have in the end, running statistics, and the gradients of x and of all weights."""
    kernels(dtype == torch.float32)
    graphs = DeviceSplit(DATASETS["cifar10"], toys.graphs("cifar10"), device, dtype, transposed=True)
    lifted = Lifted(stacks[0].to(device, dtype))
    theta, state = lifted.stack([stack.to(device, dtype) for stack in stacks])
    leaves = [x.to(device, dtype).requires_grad_(), theta.requires_grad_()]

    def one(stack, index, x):
        batch = graphs.batch(index, SHAPE)
        out = stack(x, batch)
        y = torch.where(batch.real > 0, out.x, 0)
        return (y,) if last else (y, torch.where(out.real > 0, out.e, 0))

    out = lifted.map(leaves[1], state, one, INDEX.to(device), leaves[0], training=True)
    grads = torch.autograd.grad(sum((t * g.to(t)).sum() for t, g in zip(out, gs, strict=False)), leaves)
    sizes = [p.numel() for p in stacks[0].parameters()]
    return [t.detach().cpu().double() for t in (*out, state, grads[0], *grads[1].split(sizes, 1))]


def random_inputs(F):
    generator = torch.Generator().manual_seed(1)
    shapes = [(len(INDEX), rows, F) for rows in (SHAPE.nodes, SHAPE.nodes, SHAPE.messages)]
    x, *gs = (torch.randn(shape, dtype=torch.double, generator=generator) for shape in shapes)
    return x, gs


def compare(toys, kernels, device, F, layers=1, last=False):
    stacks, (x, gs) = networks(F, layers, last), random_inputs(F)
    expected = run(toys, kernels, stacks, x, gs, torch.double, "cpu", last)
    results, *again = (run(toys, kernels, stacks, x, gs, torch.float32, device, last) for _ in range(RUNS))
    for a, b, *same in zip(expected, results, *again, strict=True):
        assert a.isfinite().all()
        assert (a - b).norm() <= 1e-5 * a.norm() + 1e-10
        assert all(torch.equal(b, c) for c in same)


@pytest.mark.parametrize("F", [1, 16, 21, 32, 33, 64, 70, 80])
def test_a_layer_is_the_plain_one(toys, F, device, kernels):
    """With graphs of different sizes and none, and with features that the head and the tail of a row share in any way:
    its output, running statistics and all gradients, each for itself; on a GPU the same bits again."""
    compare(toys, kernels, device, F)


@pytest.mark.parametrize("last", [False, True])
def test_layers_after_one_another_are_the_plain_ones(toys, last, device, kernels):
    """After the last one nobody asks for the messages: its running statistics move on all the same."""
    compare(toys, kernels, device, 20, layers=2, last=last)


def test_more_blocks_of_messages_than_parts(toys, device, kernels, monkeypatch):
    monkeypatch.setattr(gated, "PARTS", 2)
    compare(toys, kernels, device, 6)


def test_the_last_layer_makes_no_messages(toys, device, kernels):
    kernels()
    (stack, *_), (x, _) = networks(5, last=True), random_inputs(5)
    graphs = DeviceSplit(DATASETS["cifar10"], toys.graphs("cifar10"), device, torch.float32, transposed=True)
    batch, stack = graphs.batch(INDEX[0].to(device), SHAPE), stack.to(device, torch.float32)
    start = stack.layers[0]._start(x[0].to(device, torch.float32), batch)
    start = start._replace(e=stack.embedding(start.e))
    assert stack.layers[0](start, batch, None, None).e is start.e


def test_what_is_no_number_stays_in_the_padding(toys, device, kernels):
    """Without it the same bits come out, and the padding has no gradient."""
    stacks, (x, gs) = networks(20, 2), random_inputs(20)
    sizes, wild = torch.from_numpy(toys.graphs("cifar10").nodes.astype(int)), x.clone()
    real = torch.where(INDEX >= 0, sizes[INDEX], 0).sum(1)
    for row, n in zip(wild, real, strict=True):
        row[n:] = torch.nan
    a, b = (run(toys, kernels, stacks, t, gs, torch.float32, device) for t in (x, wild))
    assert all(torch.equal(s, t) for s, t in zip(a[:4], b[:4], strict=True))
    for row, n in zip(b[3], real, strict=True):
        assert row[n:].abs().max() == 0


def test_what_the_kernels_have_no_room_for_is_left_to_others():
    ptr = torch.tensor([0, 1, 2])
    graph = Neighbourhoods(ptr, ptr[:2], None, joined=Joined(ptr, ptr))
    x, wide, few, many = (torch.zeros(2, width) for width in (80, 81, 15, 16))
    assert gated.supports(x, x, graph)
    assert not gated.supports(x, x, graph._replace(joined=None))
    assert gated.trains(x, x, first=False)
    assert gated.trains(x, few, first=True)
    assert not gated.trains(wide, wide, first=False)
    assert not gated.trains(x, many, first=True)
