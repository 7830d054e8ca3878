"""How many convolutions a graph gets."""

import itertools

import networkx as nx
import pytest
import torch

from pna import DegreeStatistics
from pna.networks import build
from pna.networks.depths import DEEPEST, DEPTHS, depth_named


def matrix(graph):
    return torch.from_numpy(nx.to_numpy_array(graph)).double()


def network(depth, model="pna"):
    torch.manual_seed(0)
    return build(model, 8, degrees=DegreeStatistics(1.3, 3.0), depth=depth).double().eval()


@pytest.mark.parametrize(("N", "layers"), [(15, 7), (24, 12), (25, 12), (97, 12)])
def test_the_cap_is_the_deepest_of_training(graphs, N, layers):
    assert DEEPEST == 24 // 2
    assert DEPTHS["cap"](graphs.batch(torch.zeros(1, N, N))) == layers


@pytest.mark.parametrize(("name", "layers"), [("N/2", 4), ("N", 9), ("cap", 4), ("1", 1), ("12", 12)])
def test_a_rule_is_so_many_layers(graphs, name, layers):
    batch = graphs.batch(graphs.adjacency(3, 2, 9))
    assert depth_named(name)(batch) == layers


def test_a_graph_without_edges_has_one_layer(graphs):
    depth = depth_named("diameter")(graphs.batch(torch.zeros(2, 5, 5)))
    assert depth.layers.tolist() == [1, 1]
    assert depth.most == 1


@torch.no_grad()
@pytest.mark.parametrize("threshold", [1e-9, 0.02, 0.1, 1e9])
def test_convergence_leaves_each_graph_where_it_stood_still(graphs, threshold):
    """Layer by layer: the first after which nothing moved by the threshold is a graph's last."""
    A = torch.stack([matrix(nx.path_graph(8)), matrix(nx.complete_graph(8)), matrix(nx.star_graph(7))])
    x = torch.rand(24, 2, dtype=torch.double)
    found = network(f"convergence:{threshold}")(graphs.batch(A, x))[0]
    for g in range(3):
        alone = graphs.batch(A[g : g + 1], x[8 * g : 8 * g + 8])
        states = [network(str(m))._states(torch.nn.functional.pad(alone.x, (0, 6)), m, alone) for m in range(1, 9)]
        moved = [float((b - a).abs().max()) for a, b in itertools.pairwise(states)]
        last = next((m for m, change in enumerate(moved, 2) if change < threshold), 8)
        torch.testing.assert_close(found[8 * g : 8 * g + 8], network(str(last))(alone)[0])


@pytest.mark.parametrize("name", ["", "0", "-1", "10001", "N/3", "convergence", "convergence:", "convergence:0", "²"])
@pytest.mark.parametrize("more", ["", "nan"])
def test_another_rule_is_named(name, more):
    with pytest.raises(ValueError, match=r"depth must be one of N/2, N, cap, diameter, a number of layers"):
        depth_named(f"{name}:{more}" if more else name)
