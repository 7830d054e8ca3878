"""The fused attention of GAT against its plain-torch twin in float64: both specifications, replicas, sizes, ties."""

import pytest
import torch
from torch.func import functional_call, vmap

from pna import DegreeStatistics
from pna.multitask import Batch
from pna.networks import DESCRIBED, GraphBatch, NetworkSpec, convolutions
from pna.networks.kernels import attention

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


def drawn(conv, rows, replicas=REPLICAS, scale=1.0):
    """Parameters of each replica, large enough to matter, and the input, [R, rows, in]."""
    parameters = [torch.randn(replicas, *p.shape) * 0.6 for p in conv.parameters()]
    return [*parameters, scale * torch.randn(replicas, rows, conv.weight.shape[-1])]


def results(conv, tensors, A, g, device="cpu", dtype=torch.double):
    """The output of all replicas and its gradients, in float64 on the CPU."""
    batch = batch_of(A, device, dtype)
    names = [name for name, _ in conv.named_parameters()]
    tensors = [t.to(device, dtype).requires_grad_() for t in tensors]

    def run(*tensors):
        *parameters, x = tensors
        return functional_call(conv, dict(zip(names, parameters, strict=True)), (x, batch))

    out = vmap(run)(*tensors)
    grads = torch.autograd.grad(out, tensors, g.to(device, dtype))
    return [t.detach().cpu().double() for t in (out, *grads)]


@pytest.fixture
def fused(monkeypatch, device):
    """The kernels, wherever they run, in float32; all nodes are one program's, for the interpreter is slow."""
    monkeypatch.setattr(attention, "BLOCK", 32)

    def run(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(convolutions, "serving", lambda *_: attention)
            return results(*arguments, device, torch.float)

    return run


def assert_same(fused, conv, tensors, A, forward=1e-5, backward=1e-4):
    g = torch.randn(len(tensors[0]), tensors[-1].shape[1], conv.weight.shape[0] * conv.weight.shape[1])
    mine, theirs = fused(conv, tensors, A, g), results(conv, tensors, A, g)
    for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        tolerance = backward if k else forward
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance * max(b.abs().max().item(), 0.1))
    return mine


@SPECS
@pytest.mark.parametrize("sizes", [(2, 8), (16, 16), (20, 20)])
def test_equals_the_twin(fused, sizes, spec):
    conv = convolution(sizes, spec)
    assert_same(fused, conv, drawn(conv, G * N), adjacency())


@SPECS
def test_programs_share_out_the_nodes(fused, spec, monkeypatch):
    monkeypatch.setattr(attention, "BLOCK", 8)
    monkeypatch.setattr(attention, "PROGRAMS", 2)  # of three blocks of nodes the first program takes two
    conv = convolution((16, 16), spec)
    assert_same(fused, conv, drawn(conv, G * N, replicas=1), adjacency())


@SPECS
def test_same_bits_every_time(fused, spec):
    conv, A = convolution((16, 16), spec), adjacency()
    tensors, g = drawn(conv, G * N, replicas=1), torch.randn(1, G * N, 16)
    once, again = (fused(conv, tensors, A, g) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))


@SPECS
def test_equal_nodes_have_equal_weights(fused, spec):
    conv = convolution((8, 8), spec)
    tensors = drawn(conv, G * N, replicas=1)
    tensors[-1] = tensors[-1][:, :1].expand(-1, G * N, -1)
    assert_same(fused, conv, tensors, adjacency())


@SPECS
def test_logits_of_zero_have_the_twins_slope(fused, spec):
    conv = convolution((8, 8), spec)
    weight, vectors, x = drawn(conv, G * N, replicas=1)
    assert_same(fused, conv, [weight, torch.zeros_like(vectors), x], adjacency())


@SPECS
def test_paths_and_stars(fused, spec):
    """Nodes of degree one, and one that all others send to."""
    A = torch.zeros(2, 9, 9, dtype=torch.bool)
    A[0, torch.arange(8), torch.arange(1, 9)] = True
    A[1, 0, 1:] = True
    conv = convolution((8, 8), spec)
    assert_same(fused, conv, drawn(conv, 2 * 9, replicas=1), A | A.transpose(1, 2))


@SPECS
def test_large_logits(fused, spec):
    """A softmax whose logits are hundreds apart is near a maximum; float32 logits are known to 1e-4 there."""
    conv = convolution((8, 8), spec)
    tensors = drawn(conv, G * N, replicas=1, scale=300)
    assert_same(fused, conv, tensors, adjacency(), forward=1e-3, backward=1e-2)


@SPECS
def test_no_edges(fused, spec):
    conv = convolution((8, 8), spec)
    out, *grads = assert_same(fused, conv, drawn(conv, 2 * 5), torch.zeros(2, 5, 5, dtype=torch.bool))
    assert not any(t.any() for t in (out, *grads))


def test_routes_are_made_once_for_a_batch(monkeypatch, device):
    monkeypatch.setattr(convolutions, "serving", lambda *_: attention)
    monkeypatch.setattr(attention, "BLOCK", 32)
    batch, x = batch_of(adjacency(), device, torch.float), torch.randn(G * N, 8, device=device)
    for spec, mispaired in ((DESCRIBED, False), (MISPAIRED, True)):
        conv = convolution((8, 8), spec).to(device)
        out = conv(x, batch)
        routes = batch.routes[mispaired]
        assert torch.equal(conv(x, batch), out)
        assert batch.routes[mispaired] is routes
    assert set(batch.routes) == {False, True}
