"""How many convolutions a graph gets."""

import itertools

import networkx as nx
import pytest
import torch

from pna import DegreeStatistics
from pna.networks import build
from pna.networks.depths import DEEPEST, DEPTHS, Each, Until, capped, depth_named, varied


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


@pytest.mark.parametrize(
    ("name", "most", "expected"),
    [("N/2", 3, 3), ("N/2", 12, 4), ("convergence:0.1", 5, Until(0.1, 5)), ("convergence:0.1", 12, Until(0.1, 9))],
)
def test_at_most_so_many_layers(graphs, name, most, expected):
    assert capped(depth_named(name), most)(graphs.batch(graphs.adjacency(3, 2, 9))) == expected


def test_at_most_so_many_layers_of_each_graph(graphs):
    batch = graphs.batch(torch.stack([matrix(nx.path_graph(8)), matrix(nx.star_graph(7))]))
    for most, layers in ((12, [7, 2]), (5, [5, 2])):
        depth = capped(DEPTHS["diameter"], most)(batch)
        assert (depth.layers.tolist(), depth.most) == (layers, layers[0])


@pytest.mark.parametrize(("N", "least", "most"), [(15, 4, 10), (24, 6, 18), (3, 1, 1)])
def test_a_varied_depth_is_drawn_for_each_graph_and_epoch(graphs, N, least, most):
    batch = graphs.batch(torch.zeros(400, N, N))
    depths = [varied(batch, torch.tensor(epoch)) for epoch in (0, 1, 9_999, 0)]
    assert isinstance(depths[0], Each)
    assert {depth.most for depth in depths} == {most}
    assert torch.equal(depths[0].layers, depths[3].layers)
    for depth in depths:
        counts = depth.layers.bincount(minlength=most + 1)
        assert counts[:least].sum() == 0
        assert counts[least:].min() > 0.5 * 400 / (most - least + 1)  # each about as often
    if most > least:
        same = [(a.layers == b.layers).float().mean() for a, b in itertools.combinations(depths[:3], 2)]
        assert max(same) < 2 / (most - least + 1)


@torch.no_grad()
@pytest.mark.parametrize("threshold", [1e-9, 0.02, 0.1, 1e9])
def test_convergence_leaves_each_graph_where_it_stood_still(graphs, threshold):
    """Layer by layer: the first after which nothing moved by the threshold is a graph's last."""
    A = torch.stack([matrix(nx.path_graph(8)), matrix(nx.complete_graph(8)), matrix(nx.star_graph(7))])
    x = torch.rand(24, 2, dtype=torch.double)
    outputs = network(f"convergence:{threshold}")(graphs.batch(A, x))[0]
    for g in range(3):
        alone = graphs.batch(A[g : g + 1], x[8 * g : 8 * g + 8])
        states = [network(str(m))._states(torch.nn.functional.pad(alone.x, (0, 6)), m, alone) for m in range(1, 9)]
        moved = [float((b - a).abs().max()) for a, b in itertools.pairwise(states)]
        last = next((m for m, change in enumerate(moved, 2) if change < threshold), 8)
        torch.testing.assert_close(outputs[8 * g : 8 * g + 8], network(str(last))(alone)[0])


@pytest.mark.parametrize("name", ["", "0", "-1", "10001", "N/3", "convergence", "convergence:", "convergence:0", "²"])
@pytest.mark.parametrize("more", ["", "nan"])
def test_another_rule_is_named(name, more):
    with pytest.raises(ValueError, match=r"depth must be one of N/2, N, cap, diameter, a number of layers"):
        depth_named(f"{name}:{more}" if more else name)
