"""A layer of GAT by the CUDA kernels against its plain-torch twin in float64: both specifications, sizes, ties."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn import functional

from pna import DegreeStatistics, Neighbourhoods
from pna.multitask import Batch
from pna.networks import DESCRIBED, GraphBatch, NetworkSpec, convolutions
from pna.networks.kernels import recurrence

MISPAIRED = NetworkSpec(mispaired_attention=True)  # D6
SPECS = pytest.mark.parametrize("spec", [DESCRIBED, MISPAIRED], ids=["as defined", "D6"])
G, N = 3, 7
REPLICAS = 2


def adjacency(p=0.4):
    """Random undirected graphs [G, N, N]: in each the last node but one has one neighbour, and the last has none."""
    A = (torch.rand(G, N, N) < p).triu(1)
    A[:, :, -2:] = False
    A[:, 0, -2] = True
    return A | A.transpose(1, 2)


def batch_of(A, device, dtype):
    G, N, _ = A.shape
    graph, _, sender = A.nonzero().t()
    degree = A.sum(2).flatten()
    raw = Batch(
        ptr=torch.cat([torch.zeros(1, dtype=torch.long), degree.cumsum(0)]),
        source=graph * N + sender,
        x=torch.zeros(G * N, 2),
        y_node=torch.zeros(G * N, 3),
        y_graph=torch.zeros(G, 3),
        sizes=torch.full((G,), N),
    )
    return GraphBatch.of(raw, device, dtype)


def convolution(sizes, spec):
    return convolutions.GAT(sizes, spec, DegreeStatistics(1.3, 3.0))


def draw(conv, rows, replicas=REPLICAS, scale=1.0):
    """Parameters of each replica, large enough to matter, and the input of all, [rows, in]."""
    parameters = [torch.randn(replicas, *p.shape) * 0.6 for p in conv.parameters()]
    return [*parameters, scale * torch.randn(rows, conv.weight.shape[-1])]


def results(conv, tensors, A, g, device="cpu", dtype=torch.double, kernels=False):
    """The output of all replicas and the gradients of the parameters, in float64 on the CPU."""
    batch, out_features = batch_of(A, device, dtype), g.shape[-1]
    *parameters, x = (t.to(device, dtype) for t in tensors)
    named = {
        f"conv.{name}": p.requires_grad_() for (name, _), p in zip(conv.named_parameters(), parameters, strict=True)
    }

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = conv

        def forward(self):
            if not kernels:
                return self.conv(x, batch)
            padded = functional.pad(x, (0, out_features - x.shape[1]))
            return recurrence.all_layers(padded, batch, [self.conv], 1, None, True)

    out = vmap(lambda weights: functional_call(Layer(), weights, ()))(named)
    grads = torch.autograd.grad(out, list(named.values()), g.to(device, dtype))
    return [t.detach().cpu().double() for t in (out, *grads)]


@pytest.fixture
def fused(cuda, device):
    """One layer of GAT by the kernels of all layers, wherever they run, in float32."""
    return lambda *arguments: results(*arguments, device, torch.float, kernels=True)


def assert_same(fused, conv, tensors, A, forward=1e-5, backward=1e-4):
    g = torch.randn(len(tensors[0]), len(tensors[-1]), conv.weight.shape[0] * conv.weight.shape[1])
    mine, theirs = fused(conv, tensors, A, g), results(conv, tensors, A, g)
    for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        tolerance = backward if k else forward
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance * max(b.abs().max().item(), 0.1))
    return mine


@SPECS
@pytest.mark.parametrize("hidden", [8, 12, 32])
def test_equals_the_twin(fused, hidden, spec):
    conv = convolution((2, hidden), spec)
    assert_same(fused, conv, draw(conv, G * N), adjacency())


@SPECS
def test_equal_nodes_have_equal_weights(fused, spec):
    conv = convolution((2, 8), spec)
    tensors = draw(conv, G * N, replicas=1)
    tensors[-1] = tensors[-1][:1].expand(G * N, -1)
    assert_same(fused, conv, tensors, adjacency())


@SPECS
def test_logits_of_zero_have_the_twins_slope(fused, spec):
    conv = convolution((2, 8), spec)
    weight, vectors, x = draw(conv, G * N, replicas=1)
    assert_same(fused, conv, [weight, torch.zeros_like(vectors), x], adjacency())


@SPECS
def test_paths_and_stars(fused, spec):
    """Nodes of degree one, and one that all others send to."""
    A = torch.zeros(2, 9, 9, dtype=torch.bool)
    A[0, torch.arange(8), torch.arange(1, 9)] = True
    A[1, 0, 1:] = True
    conv = convolution((2, 8), spec)
    assert_same(fused, conv, draw(conv, 2 * 9, replicas=1), A | A.transpose(1, 2))


@SPECS
def test_large_logits(fused, spec):
    """A softmax whose logits are hundreds apart is near a maximum; float32 logits are known to 1e-4 there."""
    conv = convolution((2, 8), spec)
    tensors = draw(conv, G * N, replicas=1, scale=300)
    assert_same(fused, conv, tensors, adjacency(), forward=1e-3, backward=1e-2)


@SPECS
def test_no_edges(fused, spec):
    conv = convolution((2, 8), spec)
    out, *grads = assert_same(fused, conv, draw(conv, 2 * 5), torch.zeros(2, 5, 5, dtype=torch.bool))
    assert not any(t.any() for t in (out, *grads))


def test_edges_that_appear_twice_are_refused(cuda, device):
    """A tile has room for the messages of simple graphs."""
    ends = torch.cartesian_prod(torch.arange(8), torch.arange(8)).repeat(3, 1)
    ends = ends[ends[:, 0] != ends[:, 1]].t()
    ptr, source, *_ = Neighbourhoods.of(ends, 8)
    many = 16  # graphs
    raw = Batch(
        ptr=torch.cat([ptr[:1], *(ptr[1:] + g * len(source) for g in range(many))]),
        source=torch.cat([source + 8 * g for g in range(many)]),
        x=torch.zeros(8 * many, 2),
        y_node=torch.zeros(8 * many, 3),
        y_graph=torch.zeros(many, 3),
        sizes=torch.full((many,), 8),
    )
    batch, conv = GraphBatch.of(raw, device), convolution((2, 8), DESCRIBED).to(device)
    with pytest.raises(ValueError, match="edges that appear twice"):
        recurrence.all_layers(torch.zeros(8 * many, 8, device=device), batch, [conv], 1, None, True)
