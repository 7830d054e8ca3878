"""Graphs of one size: the same in every batch, without isolated nodes, in the appendix's proportions."""

from concurrent.futures import ThreadPoolExecutor

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pna.multitask import DESCRIBED, FAMILIES, RELEASED, Spec
from pna.multitask import generate as module
from pna.multitask.generate import ROLES, generate

specs = st.builds(Spec, *[st.sampled_from(("described", "released"))] * 4)
names = st.sampled_from([None, *(family.name for family in FAMILIES)])


def assert_same(one, other):
    for field in ("adjacency", "x", "source", "family"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


def part(graphs, rows):
    return module.Adjacencies(graphs.adjacency[rows], graphs.x[rows], graphs.source[rows], graphs.family[rows])


@settings(max_examples=40, deadline=None)
@given(specs, st.integers(0, 2**64 - 1), st.sampled_from(ROLES), st.integers(2, 26), names)
def test_no_isolated_node_and_features_in_range(spec, seed, role, N, family):
    graphs = generate(spec, seed, role, N, np.arange(6), family)
    assert graphs.adjacency.any(axis=2).all()
    np.testing.assert_array_equal(graphs.adjacency, graphs.adjacency.transpose(0, 2, 1))
    assert not np.diagonal(graphs.adjacency, axis1=1, axis2=2).any()
    assert ((graphs.x >= 0) & (graphs.x < 1)).all()
    assert ((graphs.source >= 0) & (graphs.source < N)).all()


@settings(max_examples=15, deadline=None)
@given(specs, st.integers(0, 2**32), st.integers(2, 26), st.lists(st.integers(0, 99), min_size=1, max_size=5))
def test_a_graph_is_the_same_in_every_batch(spec, seed, N, graph):
    assert_same(
        generate(spec, seed, "test", N, np.array(graph)), part(generate(spec, seed, "test", N, np.arange(100)), graph)
    )


def test_neither_workers_nor_attempts_made_together_matter(monkeypatch):
    whole = generate(DESCRIBED, 3, "train", 18, np.arange(200))
    with ThreadPoolExecutor(4) as workers:
        chunks = list(
            workers.map(lambda chunk: generate(DESCRIBED, 3, "train", 18, chunk), np.split(np.arange(200), 8))
        )
    for place, chunk in enumerate(chunks):
        assert_same(chunk, part(whole, slice(25 * place, 25 * place + 25)))
    monkeypatch.setattr(module, "_CELLS", 1)
    assert_same(generate(DESCRIBED, 3, "train", 18, np.arange(200)), whole)


def test_seed_role_size_and_family_give_other_graphs():
    first = generate(RELEASED, 0, "train", 16, np.arange(30), "star")
    others = [
        generate(RELEASED, 1, "train", 16, np.arange(30), "star"),
        generate(RELEASED, 0, "test", 16, np.arange(30), "star"),
        generate(RELEASED, 0, "train", 16, np.arange(30), "line"),
        generate(RELEASED, 0, "train", 16, np.arange(30)),
    ]
    assert all((first.x != other.x).mean() > 0.99 for other in others)


def test_the_specification_changes_neither_family_nor_features():
    described, released = (generate(spec, 0, "train", 20, np.arange(100)) for spec in (DESCRIBED, RELEASED))
    np.testing.assert_array_equal(described.family, released.family)
    np.testing.assert_array_equal(described.x, released.x)
    np.testing.assert_array_equal(described.source, released.source)


def test_mixture_is_the_appendixs():
    """40,000 graphs: every family within 3 standard errors of its share."""
    family = generate(RELEASED, 0, "train", 5, np.arange(40_000)).family
    shares = np.array([family.share for family in FAMILIES])
    frequency = np.bincount(family, minlength=len(FAMILIES)) / len(family)
    assert (np.abs(frequency - shares) < 3 * np.sqrt(shares * (1 - shares) / len(family))).all()


def test_nodes_are_shuffled_and_sources_uniform():
    """A star's centre and the source are each at every node equally often, and independently."""
    graphs = generate(RELEASED, 0, "train", 6, np.arange(10_000), "star")
    centre = graphs.adjacency.sum(axis=2).argmax(axis=1)
    for place in (centre, graphs.source, (centre - graphs.source) % 6):
        assert np.abs(np.bincount(place) / 10_000 - 1 / 6).max() < 3.5 * np.sqrt(5 / 36 / 10_000)


def test_shuffling_keeps_the_graph(monkeypatch):
    monkeypatch.setattr(module, "toggle", lambda adjacency, draws, spec: adjacency)
    graphs = generate(RELEASED, 0, "train", 12, np.arange(20), "grid")
    expected = nx.grid_2d_graph(3, 4)
    assert all(nx.is_isomorphic(nx.from_numpy_array(adjacency), expected) for adjacency in graphs.adjacency)
    assert len(np.unique(graphs.adjacency, axis=0)) == 20


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"N": 1}, ValueError, "N must be at least 2 .* got 1"),
        ({"N": 15.0}, TypeError, "N must be an integer, got float"),
        ({"role": "dev"}, ValueError, "role must be one of train, validation, test; got 'dev'"),
        ({"seed": -1}, ValueError, "seed must be from 0"),
        ({"graph": np.array([-1])}, ValueError, "graph must be a list of numbers"),
        ({"family": "wheel"}, ValueError, "family must be one of"),
    ],
)
def test_bad_arguments(change, error, message):
    arguments = {"spec": DESCRIBED, "seed": 0, "role": "train", "N": 15, "graph": np.arange(2)} | change
    with pytest.raises(error, match=message):
        generate(**arguments)


def test_a_family_that_toggling_never_spares(monkeypatch):
    monkeypatch.setattr(module, "toggle", lambda adjacency, draws, spec: np.zeros_like(adjacency))
    monkeypatch.setattr(module, "_MOST_ATTEMPTS", 100)
    with pytest.raises(ValueError, match=r"family 'star' at N = 10 .* had an isolated node in each of"):
        generate(DESCRIBED, 0, "train", 10, np.arange(2), "star")
