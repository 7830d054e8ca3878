"""The CUDA kernels, emulated on the CPU, against Triton's."""

from types import SimpleNamespace

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import Linear, ModuleDict

from pna import Neighbourhoods, PNAConv
from pna.networks.kernels import recurrence
from pna.networks.kernels.tiles import ROWS, Tiles
from tests.networks.kernels import emulation

pytestmark = emulation.needed

HIDDEN, TOWERS = 16, 4
THREE = ["identity", "amplification", "attenuation"]


@pytest.fixture
def emulated(monkeypatch):
    def use():
        monkeypatch.setattr(recurrence.cuda, "available", lambda x: True)
        monkeypatch.setattr(recurrence.cuda, "compiled", emulation.compiled)

    return use


def random_graphs(G, N, E):
    """Undirected, with edges that appear twice; the last node has no neighbour."""
    ends = torch.randint(0, N - 1, (2, G, E)) + N * torch.arange(G).view(1, G, 1)
    ends = ends.flatten(1)
    neighbourhoods = Neighbourhoods.of(torch.cat([ends, ends.flip(0)], dim=1), G * N)
    ptr, source = neighbourhoods[:2]
    return SimpleNamespace(compact=(ptr.int(), source.int()), tiles=Tiles.of(ptr, source, N))


class Network(torch.nn.Module):
    def __init__(self, aggregators, scalers, swapped, layers):
        super().__init__()
        self.layers = layers
        options = {"deg": torch.tensor([1, 4, 6, 5]), "towers": TOWERS, "swap_extremes": swapped}
        self.first, self.shared = ModuleDict(), ModuleDict()
        self.first.conv = PNAConv(2, HIDDEN, aggregators, scalers, **options)
        self.shared.conv = PNAConv(HIDDEN, HIDDEN, aggregators, scalers, divide_input=True, **options)
        self.gates = ModuleDict({"input": Linear(HIDDEN, 3 * HIDDEN), "state": Linear(HIDDEN, 3 * HIDDEN)})

    def forward(self, x, graph):
        return recurrence.recurrence(x, graph, (self.first, self.shared), self.gates, self.layers)


def results(networks, x, graph, g):
    """The states and the gradients of all parameters, for two replicas."""
    parameters, buffers = stack_module_state(networks)
    out = vmap(lambda *weights: functional_call(networks[0], weights, (x, graph)))(parameters, buffers)
    return [out.detach(), *torch.autograd.grad(out, list(parameters.values()), g)]


@pytest.mark.parametrize(
    ("aggregators", "scalers", "swapped", "layers"),
    [
        ("mean std max min", THREE, True, 3),
        ("mean std max min", THREE, False, 1),
        ("max mean sum std", ["identity"], False, 2),
        ("min", ["identity"], True, 2),
        ("sum", THREE, True, 2),
    ],
)
def test_same_as_triton(aggregators, scalers, swapped, layers, emulated):
    torch.manual_seed(0)
    G, N = 7, 19  # two tiles, both with rows that have no node
    graphs = random_graphs(G, N, 40)
    networks = [Network(aggregators.split(), scalers, swapped, layers) for _ in range(2)]
    x = torch.zeros(G * N, HIDDEN)
    x[:, :2] = torch.randn(G * N, 2).round()  # so that extremes are tied
    g = torch.randn(2, G * N, HIDDEN)
    expected = results(networks, x, graphs, g)
    emulated()
    found = results(networks, x, graphs, g)
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine - theirs).norm() <= 3e-6 * theirs.norm()
    if layers == 1:
        assert all(torch.equal(a, b) for a, b in zip(found, results(networks, x, graphs, g), strict=True))


def test_tiles_hold_every_node_and_its_neighbours():
    torch.manual_seed(0)
    G, N = 11, 17
    graphs = random_graphs(G, N, 30)
    ptr, source = graphs.compact
    node, lists, rows = graphs.tiles
    assert sorted(node[node >= 0].tolist()) == list(range(G * N))
    assert len(node) == 2 * ROWS
    for place, (i, (start, degree)) in enumerate(zip(node.tolist(), lists.tolist(), strict=True)):
        neighbours = node[place // ROWS * ROWS + rows[4 * start : 4 * start + degree].long()]
        assert neighbours.tolist() == (source[ptr[i] : ptr[i + 1]].tolist() if i >= 0 else [])


def test_a_graph_larger_than_a_tile_has_none():
    N = ROWS + 1
    assert Tiles.of(torch.zeros(N + 1, dtype=torch.long), torch.zeros(0, dtype=torch.long), N) is None
