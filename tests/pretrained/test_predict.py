"""`predict`: the six properties of one graph, beside the truth."""

import warnings

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx

import pna
from pna.experiments import Cell, profile_named, run_of
from pna.multitask import DESCRIBED, RELEASED, TASKS, make, multitask
from pna.networks import GraphBatch
from pna.pretrained import loading
from pna.training.store import load as read_result

TASK_NAMES = [task.name for task in TASKS]


@pytest.fixture(scope="module")
def released():
    return pna.load("multitask/released/pna/16")


@pytest.fixture(scope="module")
def described():
    return pna.load("multitask/described/pna/16")


def quietly(network, graph, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return network.predict(graph, *arguments, **options)


def tree(N=20, seed=1):
    return nx.random_labeled_tree(N, seed=seed)


# ---- properties ----


@pytest.mark.parametrize("spec", [DESCRIBED, RELEASED], ids=str)
def test_a_graph_of_the_benchmark_gets_what_the_network_says_and_its_labels(spec):
    network = pna.load(f"multitask/{spec}/pna/16")
    train, _, test = multitask(spec)
    data = make(spec, [train, test])
    np.testing.assert_array_equal(network.maxima, data.maxima)
    for index in (0, 700):
        graph = data["test"][index]
        found = network.predict(graph)
        (batch,) = (GraphBatch.of(batch) for batch in [data["test"].batch(np.array([index]))])
        with torch.no_grad():
            nodes, graphs = network(batch)
        said = [*nodes.T, *graphs.T]
        for name, y, label, unit in zip(
            TASK_NAMES, said, [*batch.y_node.T, *batch.y_graph.T], data.maxima.tolist(), strict=True
        ):
            predicted, true = found[name]
            np.testing.assert_allclose(np.atleast_1d(predicted), y.numpy() * unit, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(np.atleast_1d(true), label.numpy() * unit, rtol=1e-5, atol=1e-5)
        assert found.outside == ()


def test_a_trained_network_is_near_the_truth(described):
    found = described.predict(nx.florentine_families_graph())
    for name in TASK_NAMES:
        predicted, true = found[name]
        assert np.abs(predicted - true).mean() < 0.8, name


def test_other_names_and_another_order_of_the_nodes_change_nothing(released):
    graph, x = tree(), np.linspace(0, 0.9, 20)
    order = np.random.default_rng(3).permutation(20)
    other = nx.Graph()
    other.add_nodes_from(f"v{k}" for k in order)
    other.add_edges_from((f"v{a}", f"v{b}") for a, b in graph.edges)
    plain, renamed = released.predict(graph, 7, x), released.predict(other, "v7", x[order])
    assert renamed.source == "v7"
    for name in TASK_NAMES:
        for one, two in zip(plain[name], renamed[name], strict=True):
            np.testing.assert_allclose(one[order] if one.ndim else one, two, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_the_truth_is_networkxs(described, seed):
    graph = nx.gnp_random_graph(17, 0.25, seed=seed)
    graph.add_edges_from((node, (node + 1) % 17) for node in list(nx.isolates(graph)))
    graph = graph.subgraph(max(nx.connected_components(graph), key=len)).copy()
    x = np.random.default_rng(seed).random(len(graph)).astype(np.float32)
    source = list(graph)[3]
    true = quietly(described, graph, source, x).true
    paths = nx.single_source_shortest_path_length(graph, source)
    assert true["sssp"].tolist() == [paths[node] for node in graph]
    assert true["eccentricity"].tolist() == list(nx.eccentricity(graph).values())
    np.testing.assert_allclose(true["laplacian"], nx.laplacian_matrix(graph) @ x, atol=1e-5)
    assert true["connected"] == 1
    assert true["diameter"] == nx.diameter(graph)
    assert true["spectral_radius"] == pytest.approx(max(nx.adjacency_spectrum(graph).real), rel=1e-5)


def test_data_and_networkx_agree(released):
    graph = nx.petersen_graph()
    one, two = quietly(released, graph, 3), quietly(released, from_networkx(graph), 3)
    for name in TASK_NAMES:
        np.testing.assert_allclose(one.predicted[name], two.predicted[name], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(one.true[name], two.true[name])


def test_the_maxima_are_those_that_are_recorded():
    for name in ("multitask/released/pna/16", "multitask/D5/pna/16", "standard/released/pna/16"):
        network = pna.load(name)
        run = run_of(Cell.parse(name), profile_named(network.budget))
        assert network.maxima.tolist() == read_result(run.result).facts["maxima"]


def test_the_caller_s_modes_are_no_concern(released):
    before = released.predict(tree())
    released.train()
    with torch.enable_grad():
        after = released.predict(tree())
    assert after.facts == before.facts
    assert released.training
    released.eval()


# ---- literal cases ----


def test_the_truth_of_a_graph_of_several_parts_is_explained(released):
    words = "The graph has several parts: as in the benchmark, the path to a node out of reach has length 0"
    assert words not in repr(quietly(released, tree()))
    assert words in repr(quietly(released, nx.disjoint_union(tree(), nx.path_graph(2))))


def test_a_bipartite_graph_is_not_connected_as_released(released, described):
    star = nx.star_graph(19)
    assert (released.predict(star).true["connected"], described.predict(star).true["connected"]) == (0, 1)
    assert "not bipartite" in repr(released.predict(star))
    assert "bipartite" not in repr(described.predict(star))


def test_what_the_source_does_not_reach_is_at_distance_zero(described):
    graph = nx.disjoint_union(nx.path_graph(10), nx.cycle_graph(10))
    true = described.predict(graph, source=9).true
    assert true["sssp"].tolist() == [*range(9, -1, -1), *[0] * 10]
    assert (true["connected"], true["diameter"]) == (0, 9)


def test_the_source_is_the_callers_or_the_datas_or_the_first_node(released):
    graph = tree()
    data = from_networkx(graph)
    assert released.predict(graph).source == 0
    assert released.predict(graph, source=5).source == 5
    data.x = torch.stack([torch.eye(20)[11], torch.linspace(0, 0.9, 20)], dim=1)
    assert released.predict(data).source == 11
    assert released.predict(data, source=4).source == 4
    x = data.x[:, 1].numpy()
    laplacian = released.predict(data).true["laplacian"]
    np.testing.assert_allclose(laplacian, nx.laplacian_matrix(graph) @ x, atol=1e-5)
    data.x = data.x[:, 1:]
    np.testing.assert_allclose(released.predict(data).true["laplacian"], laplacian)


def test_the_table_shows_both(released):
    text = repr(quietly(released, nx.petersen_graph()))
    lines = text.splitlines()
    assert lines[0] == f"multitask/released/pna/16, seed {released.seeds[0]}: a graph of 10 nodes and 15 edges"
    for title, true in (("Connected*", "1"), ("Diameter", "2"), ("Spectral radius", "3")):
        (line,) = (line for line in lines if line.startswith(title))
        assert line.split()[-1] == true
    assert sum(line[:1].isdecimal() for line in lines) == 10
    assert "Beware: the graph has 10 nodes" in text


def test_of_a_large_graph_the_table_shows_some_nodes_and_facts_all(released):
    found = quietly(released, nx.cycle_graph(75))
    assert sum(line[:1].isdecimal() for line in repr(found).splitlines()) == 60
    assert "… and 15 more" in repr(found)
    assert len(found.facts["predicted"]["sssp"]) == len(found.facts["nodes"]) == 75


def test_a_task_that_is_not_there(released):
    with pytest.raises(KeyError, match=r"task must be one of sssp, .*; got 'girth'"):
        quietly(released, nx.petersen_graph())["girth"]


# ---- outside the training ----


@pytest.mark.parametrize(("N", "warned"), [(14, True), (15, False), (24, False), (25, True)])
def test_other_sizes_than_those_of_the_training_are_warned_of(released, N, warned):
    assert (min(released.sizes), max(released.sizes)) == (15, 24)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = released.predict(nx.cycle_graph(N))
    words = f"the graph has {N} nodes, and multitask/released/pna/16 was trained on graphs of 15 to 24"
    assert [str(w.message)[: len(words)] for w in heard] == [words] * warned
    assert all(w.filename == __file__ for w in heard)
    assert list(found.outside) == [str(w.message) for w in heard]
    assert [str(w.message).endswith("; its layers stay at most 12, as in training") for w in heard] == [N > 24] * warned


def test_the_quick_networks_know_one_size(monkeypatch):
    every = loading._shipped
    monkeypatch.setattr(loading, "_shipped", lambda cell: [one for one in every(cell) if one[0].name == "quick"])
    network = pna.load("standard/released/pna/16")
    with pytest.warns(UserWarning, match="was trained on graphs of 15:"):
        network.predict(nx.cycle_graph(16))


def test_a_network_trained_on_real_graphs_predicts_and_warns_of_graphs_in_parts():
    network = pna.load("real/described/pna/16")
    assert network.sizes == tuple(range(15, 25))
    prediction = network.predict(nx.cycle_graph(20))
    assert prediction.outside == ()
    assert prediction.predicted["connected"] == pytest.approx(1, abs=0.1)
    with pytest.warns(UserWarning, match="not connected, and all training graphs of real/described/pna/16 were"):
        network.predict(nx.disjoint_union(nx.path_graph(8), nx.cycle_graph(9)))


def test_isolated_nodes_and_large_features_are_warned_of(released):
    graph = nx.cycle_graph(19)
    graph.add_node("alone")
    with pytest.warns(UserWarning, match="1 isolated node, and no training graph had any"):
        assert np.isfinite(released.predict(graph).predicted["sssp"]).all()
    with pytest.warns(UserWarning, match="x has numbers outside"):
        released.predict(tree(), x=np.arange(20))


def test_a_prediction_that_overflows_is_shown_as_it_is_and_null_in_json():
    found = quietly(pna.load("multitask/released/mpnn-sum/16", depth="N/2"), nx.complete_graph(120))
    assert found.predicted["sssp"].shape == (120,)
    assert not np.isfinite(found.predicted["diameter"])
    assert found.facts["predicted"]["diameter"] is None
    assert "nan" in repr(found) or "inf" in repr(found)


# ---- bad input ----


def loop():
    graph = tree()
    graph.add_edge(3, 3)
    return graph


BOTH = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("graph", "error", "message"),
    [
        ([(0, 1)], TypeError, "graph must be a networkx graph or a torch_geometric Data, got list"),
        (nx.DiGraph([(0, 1)]), ValueError, "graph must be undirected, got a directed one"),
        (nx.MultiGraph([(0, 1), (0, 1)]), ValueError, "at most one edge between two nodes"),
        (nx.Graph(), ValueError, "from 2 to 4,096 nodes, got 0"),
        (nx.empty_graph(5000), ValueError, "from 2 to 4,096 nodes, got 5,000"),
        (loop(), ValueError, "graph must have no loops, .*, got one at 3: see networkx.selfloop_edges"),
        (Data(edge_index=torch.tensor([[1], [1]]), num_nodes=2), ValueError, "one at 1: .*utils.remove_self_loops"),
        (
            Batch.from_data_list([Data(edge_index=BOTH, num_nodes=2)] * 3),
            ValueError,
            "graph must be one, got a batch of 3",
        ),
        (Data(num_nodes=3), ValueError, "Data must have an edge_index"),
        (Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2), ValueError, "every edge in both directions"),
        (Data(edge_index=torch.cat([BOTH, BOTH], 1), num_nodes=2), ValueError, "no edge twice"),
        (Data(edge_index=BOTH + 5, num_nodes=2), ValueError, "nodes from 0 to 1, got 5 to 6"),
        (Data(edge_index=BOTH.double(), num_nodes=2), ValueError, r"integers of shape \[2, E\], got float64"),
        (Data(edge_index=BOTH[:1], num_nodes=2), ValueError, r"of shape \[2, E\], got int64 of shape \[1, 2\]"),
        (Data(edge_index=BOTH, x=torch.rand(2, 3)), ValueError, r"Data.x must be one feature a node.*\[2, 3\]"),
        (Data(edge_index=BOTH, x=torch.rand(2, 2)), ValueError, "Data.x must be one feature a node"),
    ],
)
def test_a_graph_that_it_cannot_take(released, graph, error, message):
    with pytest.raises(error, match=message):
        released.predict(graph)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": 99}, r"source must be a node of the graph \(0, 1, 2, 3, 4, …\), got 99"),
        ({"x": [1.0]}, r"x must be a finite number for each of the 20 nodes, \[20\]; got shape \[1\]"),
        ({"x": [1.0, float("nan"), *[1.0] * 18]}, "x must be a finite number .* 20 nodes; got nan in place 1"),
        ({"x": ["a"] * 20}, "x must be a number for each node"),
    ],
)
def test_other_bad_arguments(released, options, message):
    with pytest.raises(ValueError, match=message):
        released.predict(tree(), **options)


@pytest.mark.parametrize("depth", ["cap", "N/2", "diameter", "convergence:0.1", "7"])
def test_a_network_that_is_saved_whole_predicts_the_same(tmp_path, depth):
    network = pna.load("multitask/released/pna/16", depth=depth)
    torch.save(network, tmp_path / "network.pt")
    again, graph = torch.load(tmp_path / "network.pt", weights_only=False), nx.path_graph(16)
    for name, values in network.predict(graph).predicted.items():
        assert np.array_equal(again.predict(graph).predicted[name], values)
