"""Batches put together by index arithmetic: right in every part, and no result depends on the padding."""

import numpy as np
import pytest
import torch
from torch.func import functional_call

from pna.neighbourhoods import transpose_edges
from pna.realworld.batches import NO_GRAPH, DeviceSplit, Shape, shape_of
from pna.realworld.data.datasets import DATASETS
from pna.realworld.data.graphs import Graph, Graphs
from pna.realworld.metrics import losses

CELLS = [
    ("zinc", "pna", "no-edges"),
    ("zinc", "pna", "edges"),
    ("zinc", "mpnn-sum", "edges"),
    ("cifar10", "mpnn-max", "no-edges"),
    ("mnist", "pna-no-scalers", "edges"),
    ("molhiv", "pna", "no-edges"),
    ("cifar10", "mlp-gated", "no-edges"),
    *(("zinc", model, "no-edges") for model in ("mlp", "gcn", "graphsage", "gin", "gat", "monet")),
    *(("zinc", "gatedgcn", edges) for edges in ("no-edges", "edges")),
    *(("molhiv", model, "edges") for model in ("gcn", "gin")),
]
INDEX = np.array([3, 0, 7, 11, 4])


def tight(resident, index=INDEX):
    """The shape with the one node of padding that there must be, which sends to itself if there is a message left."""
    return Shape(len(index), resident.nodes[index].sum() + 1, resident.messages[index].sum())


def padded(index, empty):
    return torch.from_numpy(np.concatenate([index, np.full(empty, NO_GRAPH)]))


@pytest.mark.parametrize("name", DATASETS)
def test_a_batch_holds_its_graphs_and_nothing_else(toys, name):
    resident, graphs = toys.resident(name), toys.graphs(name)
    batch = resident.batch(padded(INDEX, 2), Shape(7, 100, 400))
    ptr, source = batch.neighbourhoods[:2]
    start = 0
    for place, g in enumerate(INDEX):
        n = int(graphs.nodes[g])
        rows, messages = slice(*graphs.node_ptr[g : g + 2]), slice(*graphs.message_ptr[graphs.node_ptr[g : g + 2]])
        here = slice(start, start + n)
        assert batch.graph_ptr[place] == start
        assert batch.neighbourhoods.degree[here].tolist() == graphs.degree[rows].tolist()
        received = slice(int(ptr[start]), int(ptr[start + n]))
        assert (source[received] - start).tolist() == graphs.source[messages].tolist()
        if DATASETS[name].node_categories:
            hot = [batch.x[v].nonzero().flatten().tolist() for v in range(start, start + n)]
            offsets = np.cumsum([0, *DATASETS[name].node_categories[:-1]])
            assert hot == (graphs.x[rows] + offsets).tolist()
        else:
            assert torch.equal(batch.x[here], torch.from_numpy(graphs.x[rows]).double())
            assert torch.equal(batch.edge[received], torch.from_numpy(graphs.edge[messages]).double())
        torch.testing.assert_close(batch.norm[here, 0], torch.full((n,), n**-0.5, dtype=torch.double))
        start += n
    assert batch.count == start == batch.real.sum()
    assert (batch.x[start:] == 0).all()
    assert (batch.norm[start:] == 0).all()
    assert batch.valid.tolist() == [1] * 5 + [0] * 2
    assert batch.nodes.tolist() == [*graphs.nodes[INDEX], 0, 0]
    assert batch.y[:5].tolist() == pytest.approx(graphs.y[INDEX].tolist())
    assert (source[int(ptr[start]) :] >= start).all()  # padding hears of padding only
    assert (source < 100).all()
    assert (ptr[0], ptr[-1]) == (0, 400)
    assert (ptr.diff() >= 0).all()
    assert batch.graph_ptr[-1] == 100


@pytest.mark.parametrize("shape", [(7, 100, 400), (7, 64, 1000), (7, 300, 200)])
def test_the_transpose_is_that_of_the_messages(toys, shape):
    resident = toys.resident("zinc", transposed=True)
    batch = resident.batch(padded(INDEX, 2), Shape(*shape))
    expected = transpose_edges(batch.neighbourhoods.ptr, batch.neighbourhoods.source)
    for ours, theirs in zip(batch.neighbourhoods.transpose, expected, strict=True):
        assert torch.equal(ours, theirs)


def outputs(network, resident, index, shape):
    """Predictions, gradients and running statistics after one pass in training."""
    network.train()
    buffers = {name: b.clone() for name, b in network.named_buffers()}
    parameters = {name: p.detach().requires_grad_() for name, p in network.named_parameters()}
    batch = resident.batch(index, shape)
    out = functional_call(network, (parameters, buffers), (batch,))
    loss = (losses(resident.data, out, batch.y) * batch.valid).sum() / batch.valid.sum()
    grads = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)
    return [out[: len(INDEX)], loss, *grads, *buffers.values()]


@pytest.mark.parametrize("cell", CELLS, ids="/".join)
@pytest.mark.parametrize("shape", [(5, 64, 320), (8, 200, 1000), (6, 71, 1500)])
def test_no_output_gradient_or_statistic_depends_on_the_padding(toys, cell, shape):
    resident, network = toys.resident(cell[0]), toys.network(*cell)
    expected = outputs(network, resident, torch.from_numpy(INDEX), tight(resident))
    padded_outputs = outputs(network, resident, padded(INDEX, shape[0] - 5), Shape(*shape))
    for a, b in zip(expected, padded_outputs, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS, ids="/".join)
def test_a_graph_does_not_depend_on_its_place_or_its_batch(toys, cell):
    resident, network = toys.resident(cell[0]), toys.network(*cell).eval()
    together = network(resident.batch(torch.from_numpy(INDEX), tight(resident)))
    for place, g in enumerate(INDEX):
        alone = np.array([g])
        out = network(resident.batch(torch.from_numpy(alone), tight(resident, alone)))
        torch.testing.assert_close(out[0], together[place], rtol=1e-12, atol=1e-12)


def test_shapes(toys):
    resident = toys.resident("zinc", 40)
    usual, largest = resident.usual(8), resident.largest(8)
    assert usual.graphs == largest.graphs == 8
    assert usual.nodes <= largest.nodes
    assert usual.messages <= largest.messages
    top = np.argsort(resident.nodes)[-8:]
    assert resident.fits(top, largest)
    assert not resident.fits(top, Shape(8, resident.nodes[top].sum(), 10_000))  # no node of padding left
    batches = np.array([[0, 1, 2], [3, 4, NO_GRAPH]])
    smallest = shape_of(resident, batches)
    assert all(resident.fits(batch, smallest) for batch in batches)


def test_almost_no_batch_needs_more_than_the_usual_shape(toys):
    resident = toys.resident("zinc", 300)
    usual, rng = resident.usual(64), np.random.default_rng(0)
    assert all(resident.fits(rng.permutation(300)[:64], usual) for _ in range(1_000))
    assert usual.nodes < 1.4 * 64 * resident.nodes.mean()


def test_a_graph_without_edges_between_others(toys):
    graphs = toys.graphs("zinc", 3)
    lone = Graph(graphs.x[:4], np.zeros(4, np.uint8), np.zeros(0, np.uint8), graphs.edge[:0], 1.0)
    parts = [graphs.take(np.array([k])) for k in range(2)]
    both = [Graph(g.x, g.degree, g.source, g.edge, g.y[0]) for g in parts]
    resident = DeviceSplit(DATASETS["zinc"], Graphs.of([both[0], lone, both[1]]), dtype=torch.double, transposed=True)
    batch = resident.batch(torch.arange(3), resident.largest(3))
    assert batch.neighbourhoods.degree[batch.graph_ptr[1] : batch.graph_ptr[2]].tolist() == [0] * 4
    without = DeviceSplit(DATASETS["zinc"], Graphs.of(both), dtype=torch.double)
    network = toys.network("zinc", "pna", "edges").eval()
    expected = network(without.batch(torch.arange(2), without.largest(2)))
    torch.testing.assert_close(network(batch)[[0, 2]], expected, rtol=1e-12, atol=1e-12)
