"""DiffPool beside its formulas with dense matrices, graph by graph; what it must not depend on, and what it does."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.func import functional_call
from torch.nn import functional

from pna.experiments.realworld import Figure6Trainer
from pna.networks import count_parameters
from pna.realworld.batches import NO_GRAPH, DeviceSplit, Shape
from pna.realworld.data.datasets import DATASETS
from pna.realworld.data.graphs import Graph, Graphs
from pna.realworld.diffpool import ClusterNorm, DiffPool, clusters
from pna.realworld.hyperparameters import HYPERPARAMETERS
from pna.realworld.metrics import losses
from pna.realworld.networks import Network

INDEX = [3, 0, 7, 11, 4]
ROOM = Shape(5, 80, 300)


def make_network(toys, name="zinc", **changes):
    """A network whose weights are no special case: biases and the normalisation's too."""
    network = toys.network(name, "diffpool", **({"batch": 8, "out": 12} | changes))
    with torch.no_grad():
        for parameter in (p for p in network.parameters() if p.dim() == 1):
            parameter.normal_(0, 0.5)
    return network


def normalised(rows, norm):
    return functional.batch_norm(rows, None, None, norm.weight, norm.bias, training=True)


def with_mean(x, A):
    """[x_i, mean of the x_j that it receives], node by node."""
    rows = []
    for i in range(len(x)):
        received = [x[j] for j in range(len(x)) for _ in range(int(A[i, j]))]
        rows.append(torch.cat([x[i], torch.stack(received).mean(0) if received else torch.zeros_like(x[i])]))
    return torch.stack(rows)


def unit(rows):
    return torch.stack([row / row.norm() for row in rows])


def reference(network, graphs):
    """The predictions for graphs given as (x, A), A[i, j] being the messages from j to i: dense, one by one.

    The assignment is as the benchmark has it, over the clusters of all places with those of other graphs masked out.
    """
    sizes = [len(x) for x, _ in graphs]
    N, pool = sum(sizes), network.clusters
    adjacency = torch.block_diag(*(A for _, A in graphs))
    x = network.embedding(torch.cat([x for x, _ in graphs]))
    norm = torch.cat([torch.full((n, 1), n**-0.5, dtype=torch.double) for n in sizes])
    for k, layer in enumerate(network.layers):
        y = unit(layer.linear(with_mean(x, adjacency)))
        y = y if k == len(network.layers) - 1 else torch.relu(y)
        y = normalised(y * norm, layer.norm)
        x = x + y if y.shape == x.shape else y
    both = with_mean(x, adjacency)
    Z = normalised(torch.relu(unit(pool.feature(both))), pool.feature_norm)
    logits = normalised(torch.relu(unit(pool.assignment(both))), pool.assignment_norm)
    blocks = torch.block_diag(*(torch.ones(n, pool.k) for n in sizes)).double()
    mask = torch.cat([blocks, torch.zeros(N, pool.k * (pool.places - len(sizes)))], dim=1)
    S = torch.softmax(logits * mask, dim=1) * mask
    S = S / (S.sum(1, keepdim=True) + 1e-13)
    whole, features = S.T @ adjacency @ S, S.T @ Z
    at = [slice(b * pool.k, (b + 1) * pool.k) for b in range(len(sizes))]
    h = torch.stack([features[rows] * pool.k**-0.5 for rows in at])
    for layer in pool.layers:
        y = torch.stack([torch.relu(unit(layer.linear(whole[rows, rows] @ h[b]))) for b, rows in enumerate(at)])
        y = h + y if y.shape == h.shape else y
        h = nn.BatchNorm1d(pool.k, affine=False, dtype=torch.double)(y)
    return network.readout[0](h.sum(1))


def dense(batch, b):
    """A graph of a batch as (x, A)."""
    start, end = batch.graph_ptr[b : b + 2].tolist()
    A = torch.zeros(end - start, end - start, dtype=torch.double)
    for source, target in zip(batch.neighbourhoods.source.tolist(), batch.neighbourhoods.target.tolist(), strict=True):
        if start <= target < end:
            A[target - start, source - start] += 1
    return batch.x[start:end], A


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", ["zinc", "cifar10"])
def test_it_is_the_dense_formula_graph_by_graph(toys, name, transposed):
    network = make_network(toys, name)
    batch = toys.resident(name, transposed=transposed).batch(torch.tensor(INDEX), Shape(5, 80, 400))
    out = network(batch)
    expected = reference(network, [dense(batch, b) for b in range(5)])
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
    g = torch.randn_like(out)
    ours, theirs = (
        torch.autograd.grad(y, list(network.parameters()), g, materialize_grads=True) for y in (out, expected)
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


def test_the_normalisation_of_clusters_is_torchs():
    ours, theirs = ClusterNorm(3).double(), nn.BatchNorm1d(3, affine=False).double()
    h, valid = torch.randn(6, 3, 4, dtype=torch.double), torch.tensor([1, 1, 0, 1, 1, 0]).double()
    real = valid == 1
    for _ in range(2):
        torch.testing.assert_close(ours(h, valid)[real], theirs(h[real]))
    torch.testing.assert_close((ours.running_mean, ours.running_var), (theirs.running_mean, theirs.running_var))
    torch.testing.assert_close(ours.eval()(h, valid)[real], theirs.eval()(h[real]))
    assert list(ours.parameters()) == []


def pooling(k=2, places=1, layers=1, sizes=(1, 1, 1)):
    """With weights 1 and biases 0, and the running statistics of a fresh network."""
    layer = DiffPool(sizes, k, places, layers).double().eval()
    with torch.no_grad():
        for name, p in layer.named_parameters():
            p.fill_(float("bias" not in name))
    return layer


def test_a_graph_of_two_nodes_by_hand():
    """1 -> 2 alone, with the features 1 and 3. [x_i, mean] has a positive sum, which at length 1 is 1."""
    none = np.zeros((2, 1), np.uint8)
    path = Graph(none, np.array([0, 1], np.uint8), np.array([0], np.uint8), none[:1], 0.0)
    batch = DeviceSplit(DATASETS["zinc"], Graphs.of([path]), dtype=torch.double).batch(
        torch.tensor([0]), Shape(1, 3, 1)
    )
    layer, x = pooling(), torch.tensor([[1.0], [3.0], [5.0]]).double()
    h, A = layer.pooled(x, batch)
    near = 1 / np.sqrt(1 + 1e-5)  # what a fresh normalisation leaves of 1
    assert h.flatten().tolist() == pytest.approx([near, near])  # two nodes, half of each in either cluster
    assert A.flatten().tolist() == pytest.approx([0.25] * 4)  # one message, from and to halves
    with torch.no_grad():
        layer.assignment.weight.copy_(torch.tensor([[-1.0, 0.0], [0.0, 3.0]]))  # x_i counts against the first cluster
    h, A = layer.pooled(x, batch)
    first, second = 1 / 2, 1 / (1 + np.exp(near / np.sqrt(2)))  # [-1, 0] and [-3, 3]: ReLU leaves [0, 0] and [0, 1/√2]
    assert h.flatten().tolist() == pytest.approx([near * (first + second), near * (2 - first - second)])
    to = np.array([second, 1 - second])  # rows are those that receive
    assert A[0].detach().numpy() == pytest.approx(np.outer(to, [first, 1 - first]))
    # Then a layer with W = 1: each cluster is 1 plus its input, which is 1/√k of h
    assert layer(x, batch).item() == pytest.approx(near * (2 + near * 2 / np.sqrt(2)))


@pytest.mark.parametrize("training", [True, False])
def test_gradcheck(toys, training):
    resident = toys.resident("zinc", 3, transposed=True)
    batch = resident.batch(torch.tensor([0, 2]), resident.largest(2))
    torch.manual_seed(0)
    layer = DiffPool((4, 3, 2), k=2, places=3, layers=2).double().train(training)
    x = torch.randn(len(batch.x), 4, dtype=torch.double, requires_grad=True)
    names = [name for name, _ in layer.named_parameters()]

    def function(x, *parameters):
        buffers = {name: b.clone() for name, b in layer.named_buffers()}
        return functional_call(layer, dict(zip(names, parameters, strict=True)) | buffers, (x, batch))

    assert gradcheck(function, [x, *layer.parameters()], fast_mode=True)


def outputs(network, resident, index, shape):
    """Predictions, gradients and running statistics after one pass in training."""
    buffers = {name: b.clone() for name, b in network.named_buffers()}
    parameters = {name: p.detach().requires_grad_() for name, p in network.named_parameters()}
    batch = resident.batch(torch.tensor(index), shape)
    out = functional_call(network.train(), (parameters, buffers), (batch,))
    loss = (losses(resident.data, out, batch.y) * batch.valid).sum() / batch.valid.sum()
    grads = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True)
    return [out[: len(INDEX)], loss, *grads, *buffers.values()]


@pytest.mark.parametrize("shape", [(5, 64, 320), (8, 200, 1000), (6, 71, 1500)])
def test_no_output_gradient_or_statistic_depends_on_the_padding(toys, shape):
    resident, network = toys.resident("mnist"), make_network(toys, "mnist")
    tight = Shape(5, int(resident.nodes[INDEX].sum()) + 1, int(resident.messages[INDEX].sum()))
    expected = outputs(network, resident, INDEX, tight)
    padded_outputs = outputs(network, resident, INDEX + [NO_GRAPH] * (shape[0] - 5), Shape(*shape))
    for a, b in zip(expected, padded_outputs, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-11, atol=1e-11)


def test_a_prediction_depends_on_the_place_and_on_nothing_else_of_the_batch(toys):
    resident, network = toys.resident("zinc"), make_network(toys).eval()
    together = network(resident.batch(torch.tensor(INDEX), ROOM))
    for place, g in enumerate(INDEX):
        alone = torch.full((5,), NO_GRAPH)
        alone[place] = g
        torch.testing.assert_close(network(resident.batch(alone, ROOM))[place], together[place])
        others = torch.full((5,), g)  # the same graph at every place
        assert not torch.allclose(network(resident.batch(others, ROOM))[place - 1], together[place])


def test_more_graphs_than_places_are_refused(toys):
    resident = toys.resident("zinc")
    with pytest.raises(ValueError, match="batch must have at most 4 graphs, each place having its weights; got 5"):
        make_network(toys, batch=4)(resident.batch(torch.tensor(INDEX), ROOM))


def test_clusters_are_a_share_of_the_largest_published_graph():
    assert [clusters(name) for name in ("zinc", "cifar10", "mnist")] == [5, 22, 11]


@pytest.mark.parametrize(("name", "expected"), [("zinc", 110_561), ("cifar10", 108_042), ("mnist", 106_538)])
def test_parameters_are_the_published_ones_and_mostly_of_the_places(toys, name, expected):
    network = Network(HYPERPARAMETERS[name, "diffpool", "no-edges"], DATASETS[name], toys.degrees)
    places = (*network.clusters.assignment.parameters(), *network.clusters.assignment_norm.parameters())
    assert count_parameters(network) == expected
    assert sum(p.numel() for p in places) > 0.6 * expected
    assert len(network.clusters.assignment.weight) == 128 * clusters(name)


def test_the_start_of_the_weights(toys):
    torch.manual_seed(0)
    for name in ("zinc", "cifar10"):
        network = Network(HYPERPARAMETERS[name, "diffpool", "no-edges"], DATASETS[name], toys.degrees)
        maps = [layer for layer in network.modules() if isinstance(layer, nn.Linear) and layer.bias is not None]
        assert len(maps) == 3 + 2 + 3 + 1 + (name == "cifar10")
        for layer in maps:
            bound = np.sqrt(2) * np.sqrt(6 / sum(layer.weight.shape))
            assert 0.9 * bound < layer.weight.abs().max() <= bound * 1.0001
            assert layer.bias.abs().max() == 0
    embedding = Network(HYPERPARAMETERS["zinc", "diffpool", "no-edges"], DATASETS["zinc"], toys.degrees).embedding
    assert embedding.weight.std().item() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(("graphs", "count"), [(12, 10), (10, 10), (4, 4)])
def test_whole_batches_alone_are_trained_on_and_tested_in(toys, graphs, count):
    network, held_out = toys.network("zinc", "diffpool"), toys.resident("zinc", graphs, 2)
    trainer = Figure6Trainer(network, toys.model("zinc", "diffpool"), toys.resident("zinc", 12, 1), held_out, 1)
    assert trainer.taken(held_out) == count
    assert trainer.evaluated(held_out).tolist() == np.arange(count).reshape(-1, min(5, graphs)).tolist()
    theta, state = trainer.lifted.stack([network])
    expected = [network.eval()(held_out.batch(torch.tensor(row), ROOM)) for row in trainer.evaluated(held_out)]
    torch.testing.assert_close(trainer.predict(theta, state, held_out)[0], torch.cat(expected).detach())
    other = Figure6Trainer(toys.network("zinc", "gin"), toys.model("zinc", "gin"), held_out, held_out, 1)
    assert other.taken(held_out) == graphs
