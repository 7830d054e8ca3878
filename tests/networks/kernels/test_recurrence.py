"""All layers of the recurrent network by the CUDA kernels against the plain modules in float64."""

import copy
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

from pna import DegreeStatistics, Neighbourhoods
from pna.networks import DESCRIBED, MODELS, RELEASED, NetworkSpec, build
from pna.networks.architectures import Standard
from pna.networks.convolutions import PNA
from pna.networks.depths import Each, Until
from pna.networks.kernels import recurrence as fused
from pna.networks.kernels.tiles import Tiles
from pna.networks.models import Model

R, G, N = 2, 7, 19  # replicas; of seven graphs six fill a tile of 128 rows, but for some
PARTS = ("GC_1", "GC_m", "gru", "convolutions")


class States(nn.Module):
    """The nodes after all layers, or in the standard architecture after each, by the modules or by the kernels."""

    def __init__(self, network, layers, kernels):
        super().__init__()
        self.network, self.layers, self.kernels = network, layers, kernels

    def forward(self, batch):
        network, x = self.network, nn.functional.pad(batch.x, (0, self.network.hidden - 2))
        if isinstance(network, Standard):
            of_all = (x, batch, network.convolutions, network.LAYERS, None, True)
            return fused.all_layers(*of_all) if self.kernels else network._layers(batch)
        if not self.kernels:
            return network._states(x, self.layers, batch)
        gates = network.gru and network.gru.gates
        return fused.all_layers(x, batch, (network.GC_1, network.GC_m), self.layers, gates, False)


def networks_of(model, hidden, spec, architecture="recurrent"):
    networks = [build(model, hidden, spec, DegreeStatistics(1.3, 4.0), architecture) for _ in range(R)]
    for parameter in (p for network in networks for p in network.parameters()):
        nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    return networks


def graphs_of(graphs, seed=1, N=N):
    """Random graphs in which the last node of each has no neighbour, and every other at least three.

    An odd moment of two neighbours is zero but for rounding, and its root is anything.
    """
    A = graphs.adjacency(seed, G, N, 0.35)
    A[:, -1] = A[:, :, -1] = 0
    for g, n in (A[:, :-1].sum(2) < 3).nonzero().tolist():
        for other in range(1, 4):
            A[g, n, (n + other) % (N - 1)] = A[g, (n + other) % (N - 1), n] = 1
    return A


def states_and_gradients(networks, batch, layers, kernels):
    """Of all replicas, in float64 on the CPU."""
    stacked = stack_module_state([network.cpu() for network in networks])  # the first may be where it was called
    called = States(networks[0], layers, kernels).to(batch.x.device, batch.x.dtype)
    weights, buffers = ({k: t.detach().to(batch.x) for k, t in part.items() if k.startswith(PARTS)} for part in stacked)
    weights = {k: t.requires_grad_() for k, t in weights.items()}
    named = [{f"network.{k}": t for k, t in part.items()} for part in (weights, buffers)]
    out = vmap(lambda p, b: functional_call(called, (p, b), (batch,)))(*named)
    g = torch.linspace(-1, 2, out.numel()).view(out.shape).to(out)
    return [
        t.detach().cpu().double()
        for t in (out, *torch.autograd.grad(out, list(weights.values()), g, materialize_grads=True))
    ]


def assert_same(networks, batch_of, x, device, layers, layers_there=None):
    """In norm: forward within 1e-5, the gradient within 1e-4, each weight's own part of it within 2e-4.

    A product by three TF32 ones rounds ten times as far as one in float32, which in eight layers of GIN is 1e-5 away.
    """
    expected = states_and_gradients([n.double() for n in networks], batch_of(x), layers, False)
    networks, batch = [n.float() for n in networks], batch_of(x, dtype=torch.float, device=device)
    found = states_and_gradients(networks, batch, layers_there or layers, True)
    whole = [torch.cat([t.flatten() for t in tensors[1:]]) for tensors in (expected, found)]
    assert (found[0] - expected[0]).norm() <= 1e-5 * expected[0].norm()
    assert (whole[1] - whole[0]).norm() <= 1e-4 * whole[0].norm()
    for k, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert (b - a).norm() <= 2e-4 * a.norm() + 1e-6 * whole[0].norm(), k


@pytest.mark.parametrize("hidden", [16, 20])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_and_width_of_the_paper(model, hidden, graphs, device, cuda):
    A = graphs_of(graphs)
    x = torch.rand(G * N, 2, dtype=torch.double).float().double()
    spec = RELEASED if hidden == 16 else DESCRIBED
    assert_same(networks_of(model, hidden, spec), partial(graphs.batch, A), x, device, layers=2)


@pytest.mark.parametrize("hidden", [16, 20])
@pytest.mark.parametrize("model", ["pna", "pna-soft", "mpnn-sum", "moments-5", "gcn", "gat", "gin"])
def test_the_standard_architecture(model, hidden, graphs, device, cuda):
    torch.manual_seed(1 if model == "moments-5" else 0)  # with 0 an odd moment of it is zero but for rounding
    A = graphs_of(graphs)
    x = torch.rand(G * N, 2, dtype=torch.double).float().double()
    networks = networks_of(model, hidden, RELEASED if hidden == 20 else DESCRIBED, "standard")
    assert_same(networks, partial(graphs.batch, A), x, device, layers=None)


@pytest.mark.parametrize(("model", "layers"), [("pna", 3), ("gcn", 3), ("gat", 1), ("gin", 3), ("gin", 1)])
def test_without_gru(model, layers, graphs, device, cuda):
    """One output, of the last layer, whose convolution is that of all but the first."""
    A = graphs_of(graphs)
    x = torch.rand(G * N, 2, dtype=torch.double).float().double()
    networks = networks_of(model, 16, DESCRIBED, "no-gru")
    assert_same(networks, partial(graphs.batch, A), x, device, layers)


@pytest.mark.parametrize(("model", "architecture"), [("pna", "recurrent"), ("gat", "recurrent"), ("pna", "no-gru")])
def test_each_graph_has_its_own_depth(model, architecture, graphs, device, cuda):
    """Seven graphs of 1 to 4 layers, two tiles of which the second ends before the first."""
    A = graphs_of(graphs)
    x = torch.rand(G * N, 2, dtype=torch.double).float().double()
    depth = Each(torch.tensor([3, 1, 2, 4, 2, 1, 2]), 4)
    networks = networks_of(model, 16, DESCRIBED, architecture)
    moved = Each(depth.layers.to(device), 4)
    assert_same(networks, partial(graphs.batch, A), x, device, depth, moved)


def test_a_graph_with_its_own_depth_has_the_bits_that_it_has_alone(graphs, device, cuda):
    A = graphs_of(graphs)
    batch = graphs.batch(A, dtype=torch.float, device=device)
    layers = torch.tensor([3, 1, 2, 4, 2, 1, 2], device=device)
    network = networks_of("pna", 16, DESCRIBED)[0].float().to(device)
    whole = States(network, Each(layers, 4), True)(batch)
    for g in (0, 3, 6):
        alone = graphs.batch(A[g : g + 1], batch.x[N * g : N * (g + 1)].cpu(), torch.float, device)
        assert torch.equal(States(network, int(layers[g]), True)(alone), whole[N * g : N * (g + 1)])


@pytest.mark.parametrize("N", [16, 19])
def test_batch_normalisation_within_a_layer(N, graphs, device, cuda):
    """GIN: D7 where graphs have as many nodes as features; its running statistics; and its use of them afterwards."""
    A = graphs_of(graphs, N=N)
    x = torch.rand(G * N, 2, dtype=torch.double).float().double()
    networks = networks_of("gin", 16, RELEASED)
    assert_same(networks, partial(graphs.batch, A), x, device, layers=3)
    (one, batch), (two, there) = (
        (copy.deepcopy(networks[0]).to(where, dtype), graphs.batch(A, x, dtype, where))
        for dtype, where in ((torch.double, "cpu"), (torch.float, device))
    )
    for training in (True, False):
        with torch.no_grad():
            expected, found = States(one.train(training), 3, False)(batch), States(two.train(training), 3, True)(there)
        assert (found.cpu() - expected).norm() <= 1e-5 * expected.norm()
        for a, b in zip(one.buffers(), two.buffers(), strict=True):
            torch.testing.assert_close(b.cpu().double(), a, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", ["moments-5", "pna-soft"])
def test_large_messages(model, graphs, device, cuda):
    """Of which the fifth powers and the exponentials overflow."""
    A, x = graphs_of(graphs), 1e9 * torch.rand(G * N, 2, dtype=torch.double).float().double()
    networks = [network.double() for network in networks_of(model, 16, RELEASED)]
    expected, *_ = states_and_gradients(networks, graphs.batch(A, x), 2, False)
    networks, batch = [network.float() for network in networks], graphs.batch(A, x, torch.float, device)
    found, *gradients = states_and_gradients(networks, batch, 2, True)
    assert (found - expected).norm() <= 1e-5 * expected.norm()
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("hidden", [8, 12, 24, 28, 32])
def test_other_widths(hidden, graphs, device, cuda):
    A = graphs_of(graphs)
    x = torch.rand(G * N, 2, dtype=torch.double).float().double()
    assert_same(networks_of("pna", hidden, DESCRIBED), partial(graphs.batch, A), x, device, layers=2)


@pytest.mark.parametrize(
    ("aggregators", "swapped", "layers"),
    [(("max", "sum", "std"), False, 1), (("softmin", "min", "moment4", "max"), True, 2)],
)
def test_other_aggregators_with_ties(aggregators, swapped, layers, graphs, device, cuda, monkeypatch):
    """The std and a moment without the mean, D5; whole numbers, so that extremes are tied; a single layer."""
    convolution = partial(PNA, aggregators=aggregators, scalers=("identity",))
    monkeypatch.setitem(MODELS, "other", Model("other", convolution, ""))
    A = graphs_of(graphs)
    x = torch.randint(-2, 3, (G * N, 2)).double()
    networks = networks_of("other", 16, NetworkSpec(swapped_extremes=swapped))
    assert_same(networks, partial(graphs.batch, A), x, device, layers)


@pytest.mark.parametrize("model", ["pna", "gin"])
def test_same_bits_every_time(model, graphs, device, cuda):
    batch = graphs.batch(graphs_of(graphs), dtype=torch.float, device=device)
    networks = networks_of(model, 20, RELEASED)
    once, again = (states_and_gradients(networks, batch, 2, True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))


def test_a_block_of_four_warps_where_shared_memory_is_scarce(graphs, device, cuda, monkeypatch):
    monkeypatch.setattr(fused, "shared_memory", lambda device: (101_376, 102_400))  # of an RTX 4090
    A = graphs_of(graphs)
    x = torch.rand(G * N, 2, dtype=torch.double).float().double()
    networks = networks_of("pna", 16, RELEASED)
    assert fused.Shape.of(x, graphs.batch(A, x), [networks[0].GC_m], 2, True, False).warps == 4
    assert_same(networks, partial(graphs.batch, A), x, device, layers=2)


def taken(network, depth=3, N=19):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, batch = torch.zeros(1, network.hidden, device=device), SimpleNamespace(N=N)
    if isinstance(network, Standard):
        return fused.takes(x, batch, network.convolutions, network.LAYERS, None, True)
    return fused.takes(x, batch, (network.GC_1, network.GC_m), depth, network.gru and network.gru.gates, False)


def test_which_networks_are_taken(cuda):
    for architecture in ("recurrent", "standard", "no-gru", "mean-readout"):
        assert all(taken(build(model, hidden, architecture=architecture)) for model in MODELS for hidden in (8, 20, 32))
    assert taken(build("pna"), N=128)
    assert not taken(build("pna"), N=129)
    assert not taken(build("pna", hidden=36))
    assert not taken(build("pna", hidden=32), N=100)  # four warps fit into shared memory, which hold 64 nodes
    assert not taken(build("gat"), N=100)  # with all their messages
    with torch.no_grad():
        assert taken(build("gat"), N=100)
    assert taken(build("pna"), depth=Each(torch.tensor([3, 4]), 4))
    assert not taken(build("pna"), depth=Until(0.1, 4))
    assert not taken(build("gin"), depth=Each(torch.tensor([3, 4]), 4))
    assert not taken(build("gin").eval())  # with a gradient
    with torch.no_grad():
        assert taken(build("gin").eval(), depth=Each(torch.tensor([3, 4]), 4))


@pytest.mark.parametrize("warps", [4, 8])
def test_tiles_hold_every_node_and_its_neighbours(warps):
    V, N, rows = 11 * 17, 17, 16 * warps
    ends = torch.randint(0, N - 1, (2, 11, 30)) + N * torch.arange(11).view(1, 11, 1)
    ends = ends.flatten(1)  # some edges appear twice, and the last node of each graph has no neighbour
    ptr, source, *_ = Neighbourhoods.of(torch.cat([ends, ends.flip(0)], dim=1), V)
    node, lists, neighbours, _ = Tiles.of(ptr, source, N, warps)
    assert sorted(node[node >= 0].tolist()) == list(range(V))
    assert len(node) == -(-11 // (rows // N)) * rows
    for place, (i, (start, degree)) in enumerate(zip(node.tolist(), lists.tolist(), strict=True)):
        found = node[place // rows * rows + neighbours[4 * start : 4 * start + degree].long()]
        assert found.tolist() == (source[ptr[i] : ptr[i + 1]].tolist() if i >= 0 else [])
