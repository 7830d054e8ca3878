"""The ten families against networkx's own generators and, where networkx has none, against plain Python."""

import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pna.multitask import FAMILIES
from pna.multitask.families import family_named
from pna.multitask.random_numbers import FAMILY, Draws

TREES = ("tree", "line", "star", "caterpillar", "lobster")


def draw(name, N, count, seed=0):
    return family_named(name).generator(Draws(seed, N, np.arange(count), FAMILY), N)


@given(st.sampled_from(FAMILIES), st.integers(2, 40), st.integers(0, 2**32))
def test_adjacency_is_symmetric_without_self_loops(family, N, seed):
    adjacency = draw(family.name, N, 3, seed)
    assert adjacency.shape == (3, N, N)
    assert adjacency.dtype == bool
    np.testing.assert_array_equal(adjacency, adjacency.transpose(0, 2, 1))
    assert not np.diagonal(adjacency, axis1=1, axis2=2).any()


@given(st.sampled_from(TREES), st.integers(2, 40), st.integers(0, 2**32))
def test_trees_are_trees(name, N, seed):
    assert all(nx.is_tree(nx.from_numpy_array(a)) for a in draw(name, N, 2, seed))


@given(st.integers(3, 40), st.integers(0, 2**32))
def test_caterpillars_and_lobsters_have_their_backbone(N, seed):
    for name, layers in (("caterpillar", 1), ("tree", 1), ("lobster", 2)):
        graph = nx.from_numpy_array(draw(name, N, 1, seed)[0])
        for _ in range(layers):
            graph.remove_nodes_from([node for node, degree in list(graph.degree) if degree <= 1])
        assert all(degree <= 2 for _, degree in graph.degree)


def test_shares_are_the_appendix_and_sum_to_one():
    assert [round(100 * family.share) for family in FAMILIES] == [20, 20, 5, 5, 15, 5, 5, 5, 10, 10]
    assert sum(family.share for family in FAMILIES) == pytest.approx(1)


# -- distributions, 10,000 graphs each ---------------------------------------------------------------------------------

COUNT, SIZE = 10_000, 15


def caterpillar(rng, N):
    b = rng.randrange(1, N)
    return nx.Graph([(v, v - 1) for v in range(1, b)] + [(v, rng.randrange(b)) for v in range(b, N)])


def lobster(rng, N):
    b = rng.randrange(1, N)
    p = rng.randint(1, N - b)
    edges = [(v, v - 1) for v in range(1, b)] + [(v, rng.randrange(b)) for v in range(b, b + p)]
    return nx.Graph(edges + [(v, rng.randrange(b, b + p)) for v in range(b + p, N)])


def powerlaw_tree(rng, N):
    # Of the released code's 10,000 tries the first 1,200 are enough here, and drawing all of them would take minutes.
    return nx.random_powerlaw_tree(N, gamma=3, seed=rng, tries=1200)


REFERENCES = {
    "erdos_renyi": lambda rng, N: nx.gnp_random_graph(N, rng.random(), seed=rng),
    "barabasi_albert": lambda rng, N: nx.barabasi_albert_graph(N, rng.randrange(1, N), seed=rng),
    "tree": powerlaw_tree,
    "caterpillar": caterpillar,
    "lobster": lobster,
}

# One number per graph, so that the samples are independent.
STATISTICS = {
    "degree of a random node": lambda degrees, rng: rng.permuted(degrees, axis=1)[:, 0],
    "largest degree": lambda degrees, rng: degrees.max(axis=1),
    "edges": lambda degrees, rng: degrees.sum(axis=1) // 2,
    "leaves": lambda degrees, rng: (degrees == 1).sum(axis=1),
    "sum of squared degrees": lambda degrees, rng: (degrees**2).sum(axis=1),
}


def same_distribution(a, b):
    """Chi-squared p-value of two samples of integers; neighbouring values are pooled to at least 40 cases."""
    low = min(a.min(), b.min())
    counts = np.stack([np.bincount(sample - low, minlength=max(a.max(), b.max()) - low + 1) for sample in (a, b)])
    group = np.cumsum(counts.sum(axis=0)) // 40
    pooled = np.stack([np.bincount(group, row) for row in counts])
    pooled = pooled[:, pooled.sum(axis=0) > 0]
    return 1.0 if pooled.shape[1] < 2 else stats.chi2_contingency(pooled).pvalue


@pytest.mark.parametrize("name", REFERENCES)
def test_degrees_are_distributed_as_in_networkx(name):
    rng = random.Random(0)
    theirs = (REFERENCES[name](rng, SIZE) for _ in range(COUNT))
    theirs = np.array([[degree for _, degree in graph.degree] for graph in theirs])
    ours = draw(name, SIZE, COUNT).sum(axis=2)
    for statistic, function in STATISTICS.items():
        p = same_distribution(function(ours, np.random.default_rng(1)), function(theirs, np.random.default_rng(2)))
        assert p > 1e-3, f"{name}: {statistic}"


@pytest.mark.parametrize("k", [1, 3, 8])
def test_barabasi_albert_grows_as_in_networkx(k, monkeypatch):
    """The degree of each node by its age agrees for a fixed k, over 10,000 graphs."""
    monkeypatch.setattr(Draws, "integers", lambda self, low, high: np.full((len(self), 1), k))
    ours = draw("barabasi_albert", 12, COUNT).sum(axis=2)
    theirs = (nx.barabasi_albert_graph(12, k, seed=seed) for seed in range(COUNT))
    theirs = np.array([[degree for _, degree in sorted(graph.degree)] for graph in theirs])
    assert all(same_distribution(ours[:, node], theirs[:, node]) > 1e-3 for node in range(12))


# -- literal cases -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "N", "expected"),
    [
        ("grid", 20, nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 5))),
        ("grid", 16, nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 4))),
        ("grid", 17, nx.path_graph(17)),
        ("caveman", 20, nx.caveman_graph(4, 5)),
        ("caveman", 19, nx.complete_graph(19)),
        ("ladder", 16, nx.ladder_graph(8)),
        ("ladder", 2, nx.path_graph(2)),
        ("line", 18, nx.path_graph(18)),
        ("star", 18, nx.star_graph(17)),
    ],
)
def test_fixed_graphs_are_networkx(name, N, expected):
    np.testing.assert_array_equal(draw(name, N, 2), np.stack([nx.to_numpy_array(expected, nodelist=range(N))] * 2))


def test_an_odd_ladder_has_one_node_more_on_node_0():
    expected = nx.ladder_graph(8)
    expected.add_edge(16, 0)
    np.testing.assert_array_equal(draw("ladder", 17, 1)[0], nx.to_numpy_array(expected, nodelist=range(17)))


def test_backbones_are_uniform():
    """The backbone b of a caterpillar of four nodes is 1, 2 or 3: how often it comes out as a star."""
    stars = (draw("caterpillar", 4, COUNT).sum(axis=2).max(axis=1) == 3).mean()
    # b = 1: always a star; b = 2: both hang on the same node, 1/2, and then it has degree 3; b = 3: on the middle, 1/3
    assert stars == pytest.approx((1 + 1 / 2 + 1 / 3) / 3, abs=3 * np.sqrt(0.25 / COUNT))


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_unknown_family():
    with pytest.raises(ValueError, match=r"family must be one of erdos_renyi, .*lobster; got 'wheel'"):
        family_named("wheel")


def test_a_family_that_cannot_have_the_size():
    with pytest.raises(ValueError, match="family 'ladder' has no graph of N = 1 nodes: it needs at least 2"):
        family_named("ladder").check_size(1)
