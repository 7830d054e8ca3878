"""The two faces of a set: PyTorch Geometric's Data, graph by graph, and the trainer's batches."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.loader import DataLoader
from torch_geometric.utils import to_dense_adj

from pna.multitask import DESCRIBED, FAMILIES, Split, make
from pna.multitask.generate import generate
from pna.multitask.labels import label

TRAIN = Split("train", "train", (5, 8, 11), 7)


@pytest.fixture(scope="module")
def data():
    return make(DESCRIBED, [TRAIN])


def test_data_is_the_graph_that_was_generated(data):
    for place, N in enumerate(TRAIN.sizes):
        graphs = generate(DESCRIBED, data.seed, "train", N, np.arange(7))
        node_labels, graph_labels = label(graphs, DESCRIBED)
        for number in range(7):
            graph = data["train"][7 * place + number]
            np.testing.assert_array_equal(
                to_dense_adj(graph.edge_index, max_num_nodes=N)[0] > 0, graphs.adjacency[number]
            )
            assert graph.x[:, 0].nonzero().item() == graphs.source[number]
            np.testing.assert_array_equal(graph.x[:, 1], graphs.x[number])
            np.testing.assert_array_equal(graph.y_node, node_labels[number] / data.maxima[:3])
            np.testing.assert_array_equal(graph.y_graph, graph_labels[[number]] / data.maxima[3:])
            assert graph.family == FAMILIES[graphs.family[number]].name
            graph.validate()


def test_data_has_the_usual_shapes(data):
    graph = data["train"][0]
    assert graph.num_nodes == 5
    assert (graph.x.shape, graph.y_node.shape, graph.y_graph.shape) == ((5, 2), (5, 3), (1, 3))
    assert (graph.x.dtype, graph.edge_index.dtype) == (torch.float32, torch.int64)
    assert not graph.is_directed()
    assert not graph.has_isolated_nodes()
    assert graph.num_node_features == data["train"].num_node_features


def test_works_with_the_data_loader(data):
    loader = DataLoader(data["train"], batch_size=4, shuffle=True)
    batches = list(loader)
    assert [batch.num_graphs for batch in batches] == [4, 4, 4, 4, 4, 1]
    assert sum(batch.num_nodes for batch in batches) == 7 * (5 + 8 + 11)
    assert batches[0].y_graph.shape == (4, 3)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("graphs_per_batch", [1, 4, 7, 100])
def test_batches_hold_every_graph_once(data, graphs_per_batch, mixed):
    train = data["train"]
    batches = list(train.batches(graphs_per_batch, mixed=mixed))
    assert sum(len(batch.sizes) for batch in batches) == len(train)
    assert max(len(batch.sizes) for batch in batches) <= graphs_per_batch
    x = np.sort(torch.cat([batch.x[:, 1] for batch in batches]))
    np.testing.assert_array_equal(x, np.sort(train.x))
    assert mixed or all(len(batch.sizes.unique()) == 1 for batch in batches)


def test_mixed_batches_take_the_sizes_in_turn(data):
    assert next(data["train"].batches(6, mixed=True)).sizes.tolist() == [5, 8, 11, 5, 8, 11]


def test_a_batch_is_pygs_batch_in_csr_form(data):
    train = data["train"]
    batch, expected = train.batch(np.array([20, 3, 9])), PyGBatch.from_data_list([train[20], train[3], train[9]])
    target = torch.arange(len(batch.x)).repeat_interleave(batch.ptr.diff())
    assert torch.equal(torch.stack([batch.source, target]), expected.edge_index)
    assert torch.equal(batch.x, expected.x)
    assert torch.equal(batch.y_node, expected.y_node)
    assert torch.equal(batch.y_graph, expected.y_graph)
    assert torch.equal(batch.sizes, expected.ptr.diff())
    assert torch.equal(batch.to("cpu").source, batch.source)


def test_truly_connected(data):
    connected = np.concatenate(
        [generate(DESCRIBED, data.seed, "train", N, np.arange(7)).paths.connected for N in TRAIN.sizes]
    )
    np.testing.assert_array_equal(data["train"].truly_connected(), connected)


def test_indices(data):
    train = data["train"]
    assert torch.equal(train[-1].x, train[20].x)
    assert len(list(train)) == 21
    with pytest.raises(IndexError, match="index must be from 0 to 20, got 21"):
        train[21]
    with pytest.raises(ValueError, match="graphs_per_batch must be at least 1, got 0"):
        next(train.batches(0))
