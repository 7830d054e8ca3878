import networkx as nx
import pytest

import pna
from pna.figures.plots.explore import _places, curves, drawn, extrapolation, from_family, pick, scrub, show
from pna.multitask import FAMILIES


@pytest.fixture(scope="module")
def network():
    return pna.load("multitask/described/pna/16")


@pytest.mark.parametrize("family", [family.name for family in FAMILIES])
def test_a_graph_of_a_family(family):
    one, other = from_family(family, 20), from_family(family, 20, 1)
    assert list(one) == list(range(20))
    assert one.number_of_edges() > 0
    assert nx.utils.graphs_equal(one, from_family(family, 20))
    assert not nx.utils.graphs_equal(one, other)


def test_an_edge_list_with_lines_commas_and_names():
    graph = drawn("0 1, 1 2\n\n2 home\n")
    assert sorted(map(str, graph)) == ["0", "1", "2", "home"]
    assert graph.number_of_edges() == 3


@pytest.mark.parametrize("edges", ["0 1 2", "0", "1 1"])
def test_what_is_no_edge_is_named(edges):
    with pytest.raises(ValueError, match=f"two different nodes, as '0 1'; got '{edges}'"):
        drawn(edges)


def test_no_graph_and_no_family():
    with pytest.raises(ValueError, match="at least one edge"):
        drawn(" \n")
    with pytest.raises(ValueError, match=r"family must be one of erdos_renyi, .*; got 'forest'"):
        from_family("forest", 20)


def test_predictions_stand_beside_the_truth(network):
    figure = show(network, nx.cycle_graph(16))
    assert "diameter" in figure.get_suptitle()
    assert "(true: 8)" in figure.get_suptitle()
    for axis in figure.axes[1:4]:
        assert [len(line.get_xdata()) for line in axis.lines] == [16, 16]
    assert "Beware: the graph has 5 nodes" in show(network, nx.path_graph(5)).get_suptitle()


def test_the_parts_of_a_graph_stand_side_by_side(network):
    parts = nx.disjoint_union(nx.cycle_graph(9), nx.path_graph(6))
    places = _places(parts)
    assert max(places[node][0] for node in range(9)) < min(places[node][0] for node in range(9, 15))
    assert show(network, parts)


def test_curves_end_where_they_are_cut(network):
    lines = curves(network, until=300).axes[0].lines
    assert len(lines) == 2 * 40  # forty seeds, each with the dot of its best epoch
    assert max(max(line.get_xdata()) for line in lines) <= 300
    assert max(max(line.get_xdata()) for line in curves(network).axes[0].lines) > 300


def test_extrapolation_has_a_line_for_each_family(network):
    axis = extrapolation(network, ["tree", "line"], [16, 30], graphs=1).axes[0]
    assert [line.get_label() for line in axis.lines] == ["Tree", "Line"]


def test_controls(network):
    pytest.importorskip("ipywidgets")
    family, nodes, trained, _, _ = pick(network).children
    assert family.value == "tree"
    nodes.value = 20
    assert "trained on 15 to 24 nodes" in trained.value
    assert scrub(network).children[0].max > 300


def test_the_curves_are_read_beside_the_weights_that_were_loaded(network, monkeypatch, tmp_path):
    """As in a small profile, whose own results lack the cell: the repository's weights are loaded then."""
    expected = curves(network).axes[0].get_title()
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path))
    assert curves(pna.load("multitask/described/pna/16")).axes[0].get_title() == expected
