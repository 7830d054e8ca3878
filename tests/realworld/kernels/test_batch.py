"""The kernels that put batches together, against their plain-torch twin; and a training step by all kernels."""

import numpy as np
import pytest
import torch
from torch.func import vmap

from pna import segments
from pna.experiments.realworld import Figure6Trainer
from pna.kernels import aggregation, aggregation_backward
from pna.realworld.batches import DeviceSplit, Shape
from pna.realworld.data.datasets import DATASETS
from pna.training.replicas import Lifted, Replicas

ROWS = torch.tensor([[3, 0, 7, 11, 4], [1, -1, 5, -1, -1], [2, 2, 2, 9, 8]])


def resident(toys, name, G, device, dtype=torch.float32, **options):
    return DeviceSplit(DATASETS[name], toys.graphs(name, G, **options), device, dtype, transposed=True)


def parts(batch):
    """Every tensor of a batch by its name."""
    graph = batch.neighbourhoods
    tensors = {name: t for name, t in vars(batch).items() if isinstance(t, torch.Tensor)}
    named = zip(("sender_ptr", "receiver", "place"), graph.transpose, strict=True)
    return tensors | {"ptr": graph.ptr, "source": graph.source} | dict(named)


def assert_same(tensors, expected):
    assert tensors.keys() == expected.keys()
    for name, t in expected.items():
        torch.testing.assert_close(tensors[name], t, rtol=1e-6, atol=0, msg=lambda words, name=name: f"{name}: {words}")


@pytest.mark.parametrize(
    ("name", "shape", "edges"),
    [
        ("zinc", (5, 128, 400), True),
        ("zinc", (5, 96, 1000), False),
        ("molhiv", (5, 150, 320), True),
        ("mnist", (5, 300, 320), True),
        ("cifar10", (5, 128, 400), False),
    ],
)
def test_they_are_the_plain_ones(toys, name, shape, edges, device, kernels):
    graphs, batches = resident(toys, name, 12, device), []
    for serve in (False, True):
        kernels(serve)
        names = []

        def one(index, names=names):
            tensors = parts(graphs.batch(index, Shape(*shape), edges))
            names[:] = tensors
            return tuple(tensors.values())

        batches.append(dict(zip(names, vmap(one)(ROWS.to(device)), strict=True)))
    assert_same(batches[1], batches[0])


@pytest.mark.parametrize("count", [1, 2, 7, 16])
def test_any_number_of_graphs(toys, count, device, kernels):
    graphs = resident(toys, "zinc", 16, device)
    rows = torch.from_numpy(np.random.default_rng(0).permutation(16)[:count]).to(device)
    batches = []
    for serve in (False, True):
        kernels(serve)
        batches.append(parts(graphs.batch(rows, Shape(count, 250, 700))))
    assert_same(batches[1], batches[0])


@pytest.mark.parametrize("room", [(1, 0), (1, 70), (60, 0), (60, 70)])
@pytest.mark.parametrize("index", [[0, 1, 2, 3, 4], [4, 3, 3, 4, 0], [1, 2, -1, 3, -1], [3, -1, 0, -1, 3], [-1] * 5])
def test_graphs_without_messages_or_nodes_repeated_edges_and_no_graph(toys, index, room, device, kernels):
    """In the smallest shape that has room for them, and in larger ones."""
    graphs = DeviceSplit(DATASETS["zinc"], toys.strange(), device, transposed=True)
    sizes = [sum(int(of[g]) for g in index if g >= 0) for of in (graphs.nodes, graphs.messages)]
    shape, batches = Shape(5, sizes[0] + room[0], max(1, sizes[1] + room[1])), []
    for serve in (False, True):
        kernels(serve)
        batch = graphs.batch(torch.tensor(index, device=device), shape)
        batches.append(parts(batch))
    assert_same(batches[1], batches[0])
    assert torch.equal(batch.neighbourhoods.joined.target, batch.neighbourhoods.target)
    assert torch.equal(batch.joined.target, torch.repeat_interleave(batch.graph_ptr.diff()))


def test_a_list_of_any_integers(toys, device, kernels):
    kernels()
    graphs = resident(toys, "zinc", 12, device)
    batches = [parts(graphs.batch(ROWS[0].to(device, dtype), Shape(5, 96, 400))) for dtype in (torch.int32, torch.long)]
    assert_same(*batches)


@pytest.mark.parametrize("R", [1, 3])
def test_the_graphs_of_all_replicas_come_as_one(toys, R, device, kernels):
    kernels()
    graphs, layouts = resident(toys, "zinc", 12, device), []
    V, E = 100, 400

    def one(index):
        batch = graphs.batch(index, Shape(5, V, E))
        layouts[:] = batch.neighbourhoods.joined, batch.joined
        return *batch.neighbourhoods[:2], *batch.neighbourhoods.transpose, batch.graph_ptr

    ptr, source, sender_ptr, receiver, place, graph_ptr = vmap(one)(ROWS[:R].to(device))
    nodes, messages = (size * torch.arange(R, device=device).unsqueeze(1) for size in (V, E))
    of_nodes, of_graphs = layouts
    assert torch.equal(of_nodes.ptr, segments.joined_ptr(ptr, E))
    assert torch.equal(of_nodes.source, (source + nodes).flatten())
    assert torch.equal(of_nodes.transpose.ptr, segments.joined_ptr(sender_ptr, E))
    assert torch.equal(of_nodes.transpose.receiver, (receiver + nodes).flatten())
    assert torch.equal(of_nodes.transpose.place, (place + messages).flatten())
    assert torch.equal(of_graphs.ptr, segments.joined_ptr(graph_ptr, V))
    for t in (of_nodes, of_graphs):
        assert torch.equal(t.target, torch.repeat_interleave(t.ptr.diff()))


ALONE = [("zinc", "pna", "edges"), ("mnist", "pna", "edges"), ("zinc", "gat", "no-edges")]
ALONE += [("zinc", "monet", "no-edges"), ("zinc", "gatedgcn", "edges"), ("zinc", "gin", "no-edges")]
ALONE += [("zinc", "diffpool", "no-edges"), ("molhiv", "gcn", "edges"), ("molhiv", "gin", "edges")]


@pytest.mark.parametrize("cell", ALONE, ids="/".join)
def test_a_batch_that_is_made_alone_serves_one_network_and_replicas(toys, cell, device, kernels):
    networks = [toys.network(*cell, seed=seed, layers=1).eval() for seed in (0, 1)]
    predictions = []
    for dtype in (torch.double, torch.float32):
        kernels(dtype == torch.float32)
        batch = resident(toys, cell[0], 12, device, dtype).batch(ROWS[1].to(device), Shape(5, 64, 200))
        lifted = Lifted(networks[0].to(device, dtype))
        theta, state = lifted.stack([network.to(device, dtype) for network in networks])
        alone = torch.stack([network(batch) for network in networks])
        predictions += [t.double() for t in (alone, lifted.map(theta, state, lambda network, b=batch: network(b)))]
    for other in predictions[1:]:
        torch.testing.assert_close(other, predictions[0], rtol=1e-5, atol=1e-5)


STEPS = [("zinc", "pna", "edges"), ("mnist", "mpnn-sum", "no-edges"), ("zinc", "gat", "no-edges")]
STEPS += [("cifar10", "pna", "edges"), ("mnist", "mpnn-max", "edges"), ("molhiv", "pna", "no-edges")]
STEPS += [("molhiv", "gcn", "edges"), ("molhiv", "gin", "edges")]
STEPS += [("cifar10", "monet", "no-edges"), ("cifar10", "gatedgcn", "edges"), ("zinc", "gatedgcn", "no-edges")]
STEPS += [("cifar10", model, "no-edges") for model in ("gcn", "graphsage", "gin", "mlp", "mlp-gated")]
STEPS += [("mnist", "diffpool", "no-edges")]


@pytest.mark.parametrize("cell", STEPS, ids="/".join)
def test_a_step_by_the_kernels_is_the_plain_one_in_float64(toys, cell, device, kernels, monkeypatch):
    """Weights' gradients, running statistics, and predictions with the weights before: Adam's step is as large where a
    gradient is zero but for rounding, as that of a bias before batch normalisation.

    No launch is for hubs, which such a graph has not, and none joins graphs that the batch has joined already.
    """
    for module in (aggregation, aggregation_backward):
        monkeypatch.setattr(module, "limit", lambda _: pytest.fail("hubs are looked for"))
    results = []
    for dtype in (torch.double, torch.float32):
        kernels(dtype == torch.float32)
        if dtype == torch.float32:
            for name in ("joined_ptr", "joined_index"):
                monkeypatch.setattr(segments, name, lambda *_: pytest.fail("joined again"))
        model = toys.model(*cell, dropout=0.3, layers=2)
        networks = [toys.network(*cell, seed=seed, dropout=0.3, layers=2).to(dtype) for seed in (0, 1)]
        sets = [resident(toys, cell[0], G, device, dtype, sizes=(6, 9)) for G in (12, 4)]
        trainer = Figure6Trainer(networks[0], model, *sets, 1)
        theta, state = (t.to(device) for t in trainer.lifted.stack([network.cpu() for network in networks]))
        r = Replicas.fresh([0, 1], theta, state, theta.new_ones(2, 1), model.learning_rate, model.weight_decay)
        noise = torch.rand(2, model.layers, trainer.largest.nodes, 16, generator=torch.Generator().manual_seed(0))
        trainer.step(r, ROWS[:2].to(device), trainer.largest, noise.to(device, dtype))
        results.append([t.cpu().double() for t in (r.m, r.state, trainer.predict(theta, r.state, sets[1]))])
    for a, b in zip(*results, strict=True):
        assert (a - b).norm() <= 1e-5 * a.norm()
