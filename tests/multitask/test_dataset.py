"""Data sets: graphs again alone, units and averages of the training set, the baseline."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from pna.multitask import (
    DESCRIBED,
    RELEASED,
    RELEASED_MAXIMA,
    TASKS,
    MultiTask,
    Split,
    make,
    make_graph,
    make_split,
    multitask,
)
from pna.multitask import dataset as module
from pna.multitask.generate import Adjacencies
from pna.multitask.graphset import GraphSet
from pna.multitask.labels import label

SMALL = [Split("train", "train", (8, 9), 40), Split("test", "test", (8, 9), 10)]

# What the released code gives (SSSP, eccentricity, Laplacian, connected, diameter, spectral radius).
RELEASED_BASELINE = {
    "15-24": (-1.873, -1.504, -1.577, -0.615, -1.303, -1.389),
    "15-19": (-1.967, -1.621, -1.684, -0.619, -1.427, -1.507),
}


@pytest.fixture(scope="module")
def released():
    return make(RELEASED, multitask(RELEASED))


def identical(one, other):
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))


@pytest.mark.parametrize("spec", [DESCRIBED, RELEASED], ids=str)
def test_a_graph_made_again_alone_is_the_same(spec):
    split = SMALL[0]
    data = make(spec, SMALL)
    for index in (0, 39, 40, 79):
        alone = make_graph(spec, split, index, data.seed)[0]
        graph = data["train"][index]
        assert torch.equal(alone.edge_index, graph.edge_index)
        assert torch.equal(alone.x, graph.x)
        np.testing.assert_array_equal(alone.y_node.numpy() / data.maxima[:3], graph.y_node)
        np.testing.assert_array_equal(alone.y_graph.numpy() / data.maxima[3:], graph.y_graph)


def test_one_seed_fixes_every_bit_whatever_the_batch(monkeypatch):
    whole = make_split(DESCRIBED, SMALL[0], 5)
    assert identical(whole, make_split(DESCRIBED, SMALL[0], 5))
    monkeypatch.setattr(module, "_CELLS", 300)
    assert identical(whole, make_split(DESCRIBED, SMALL[0], 5))
    assert not identical(whole, make_split(DESCRIBED, SMALL[0], 6))


def test_a_shorter_split_is_the_start_of_a_longer_one():
    short, long = (make_split(RELEASED, Split("test", "test", (9,), count)) for count in (5, 20))
    np.testing.assert_array_equal(short.x, long.x[: len(short.x)])
    np.testing.assert_array_equal(short.neighbour, long.neighbour[: len(short.neighbour)])


def test_a_label_that_is_never_positive_is_divided_by_one():
    train = make_split(DESCRIBED, SMALL[0])
    none = replace(train, graph_labels=np.zeros_like(train.graph_labels))
    data = MultiTask(DESCRIBED, 1234, (SMALL[0],), {"train": none})
    assert data.maxima[3:].tolist() == [1, 1, 1]
    assert data["train"][0].y_graph.tolist() == [[0, 0, 0]]


def test_labels_are_divided_by_the_training_maxima():
    data = make(RELEASED, SMALL)
    train = next(data["train"].batches(1000, mixed=True))
    np.testing.assert_allclose(torch.cat([train.y_node.amax(0), train.y_graph.amax(0)]), np.ones(6))
    test = next(data["test"].batches(1000, mixed=True))
    np.testing.assert_allclose(
        test.y_node.numpy() * data.maxima[:3], data["test"].node_labels[_interleaved()], rtol=1e-6
    )


def _interleaved():
    """Nodes of SMALL's test split in the order of a mixed batch: graph 0 of size 8, graph 0 of size 9, graph 1 ..."""
    eights, nines = np.arange(80).reshape(10, 8), 80 + np.arange(90).reshape(10, 9)
    return np.concatenate([np.concatenate(pair) for pair in zip(eights, nines, strict=True)])


def test_delta_is_equation_5s():
    data = make(RELEASED, SMALL)
    degrees = np.concatenate([graph.edge_index[1].bincount().numpy() for graph in data["train"]])
    assert data.degrees.delta == pytest.approx(np.log(degrees + 1).mean())
    assert data.degrees.mean_degree == pytest.approx(degrees.mean())


def test_baseline_by_hand():
    """Mean over the sizes of the mean squared distance to the training mean."""
    data = make(RELEASED, SMALL)
    train, test = data["train"], data["test"]
    mean = train.node_labels[:, 0].mean() / data.maxima[0]
    squares = (test.node_labels[:, 0] / data.maxima[0] - mean) ** 2
    row = data.baseline(test)
    assert row["sssp"] == pytest.approx(math.log10((squares[:80].mean() + squares[80:].mean()) / 2), abs=1e-6)
    assert list(row) == [*(task.name for task in TASKS), "average"]
    assert row["average"] == pytest.approx(np.mean([row[task.name] for task in TASKS]))


def by_hand():
    """Training graphs of two sizes: a path of 2; a path of 3 and a triangle. Each has its source at node 0."""
    path_2 = np.array([[[0, 1], [1, 0]]], dtype=bool)
    of_3 = np.array([[[0, 1, 0], [1, 0, 1], [0, 1, 0]], [[0, 1, 1], [1, 0, 1], [1, 1, 0]]], dtype=bool)
    sets = []
    for A in (path_2, of_3):
        zeros = np.zeros(len(A), dtype=np.int64)
        graphs = Adjacencies(A, np.zeros(A.shape[:2], dtype=np.float32), zeros, zeros.astype(np.int8))
        sets.append(GraphSet.of(graphs, *label(graphs, RELEASED)))
    return MultiTask(RELEASED, 0, (), {"train": GraphSet.joined(sets)})


def test_d11_by_hand():
    """The mean of two batches' means, whatever their numbers of nodes: degrees 1, 1 and 1, 2, 1, 2, 2, 2."""
    data, log = by_hand(), math.log
    assert data.degrees.delta == pytest.approx((4 * log(2) + 4 * log(3)) / 8)
    assert data.batched_degrees.delta == pytest.approx((log(2) + (2 * log(2) + 4 * log(3)) / 6) / 2)
    assert data.degrees.mean_degree == pytest.approx(12 / 8)
    assert data.batched_degrees.mean_degree == pytest.approx((1 + 10 / 6) / 2)


def test_d14_by_hand():
    """Node labels are the distances 0, 1 and 0, 1, 2, 0, 1, 1 in units of 2; graphs weigh the same in both means."""
    data = by_hand()
    assert data.mean[0] == pytest.approx(6 / 8 / 2)
    assert data.batched_mean[0] == pytest.approx((1 / 2 + 5 / 6) / 2 / 2)
    np.testing.assert_array_equal(data.batched_mean[3:], data.mean[3:])
    row, batched = (data.baseline(data["train"], batched_mean=b)["sssp"] for b in (False, True))
    errors = [[np.mean((np.array(d) / 2 - m) ** 2) for d in ([0, 1], [0, 1, 2, 0, 1, 1])] for m in (3 / 8, 1 / 3)]
    assert [row, batched] == pytest.approx(np.log10(np.mean(errors, axis=1)).tolist(), abs=1e-6)


# -- the released code's data, which this must agree with --------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(15, 24), (15, 19)], ids=RELEASED_BASELINE)
def test_released_baseline(released, sizes):
    """Within 0.03 of the released code's row, in the units of its own training maxima, for seed 1234."""
    graphs = make_split(RELEASED, Split("test", "test", tuple(range(sizes[0], sizes[1] + 1)), 256))
    row = released.baseline(graphs, units=RELEASED_MAXIMA)
    expected = RELEASED_BASELINE[f"{sizes[0]}-{sizes[1]}"]
    np.testing.assert_allclose([row[task.name] for task in TASKS], expected, atol=0.03)


def test_released_averages_are_of_batches(released):
    """D11 and D14: the numbers that released networks and the baseline beside them have; and those without them."""
    assert released.batched_degrees.delta == pytest.approx(1.52763, abs=1e-5)
    assert released.degrees.delta == pytest.approx(1.53715, abs=1e-5)
    of_nodes, of_batches = (released.baseline(released["test"], batched_mean=b)["sssp"] for b in (False, True))
    assert (of_nodes, of_batches) == pytest.approx((-1.96407, -1.96483), abs=1e-5)


def test_released_baseline_over_seeds():
    """The mean over five seeds is within 0.015: what is left in the test above is chance."""
    test = Split("test", "test", tuple(range(15, 25)), 256)
    rows = [make(RELEASED, [*multitask(RELEASED)[:1], test], seed) for seed in range(5)]
    rows = [list(data.baseline(data["test"], units=RELEASED_MAXIMA).values())[:6] for data in rows]
    np.testing.assert_allclose(np.mean(rows, axis=0), RELEASED_BASELINE["15-24"], atol=0.015)


def test_released_maxima(released):
    """Path lengths as in the released set, exactly; Laplacian features and spectral radius vary with the seed."""
    np.testing.assert_array_equal(released.maxima[[0, 1, 3, 4]], RELEASED_MAXIMA[[0, 1, 3, 4]])
    np.testing.assert_allclose(released.maxima[[2, 5]], RELEASED_MAXIMA[[2, 5]], rtol=0.1)


def test_fraction_connected(released):
    train = released["train"]
    labelled, true = train.graph_labels[:, 0].mean(), train.truly_connected().mean()
    assert labelled == pytest.approx(0.41, abs=0.02)
    assert true == pytest.approx(0.90, abs=0.02)
    assert (train.truly_connected() >= train.graph_labels[:, 0]).all()


def test_sizes_and_order_of_the_training_set(released):
    np.testing.assert_array_equal(released["train"].sizes, np.repeat(np.arange(15, 25), 512))
    batches = list(released["train"].batches(512))
    assert [int(batch.sizes[0]) for batch in batches] == list(range(15, 25))


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("splits", [[], SMALL[1:], [SMALL[0], SMALL[0]]])
def test_splits_need_names_and_a_training_set(splits):
    with pytest.raises(ValueError, match="splits must have names that differ, 'train' among them"):
        make(DESCRIBED, splits)


def test_unknown_split():
    with pytest.raises(KeyError, match="split must be one of train, test; got 'dev'"):
        make(DESCRIBED, SMALL)["dev"]
