"""Training of many replicas on padded batches: each as if alone, and as a plain loop with torch's parts."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pna.experiments import realworld as module
from pna.experiments.realworld import Figure6Trainer, epoch_batches
from pna.realworld.batches import NO_GRAPH, Shape
from pna.realworld.metrics import criterion, losses, metric
from pna.training.replicas import Replicas

CELLS = [("zinc", "pna", "edges"), ("mnist", "mpnn-sum", "edges"), ("molhiv", "pna", "no-edges")]
QUOTED = [("zinc", "gatedgcn", "edges"), ("mnist", "gat", "no-edges"), ("molhiv", "gin", "edges")]
QUOTED += [("zinc", "diffpool", "no-edges")]


@pytest.fixture
def training(toys):
    """A trainer of a cell and its replicas."""

    def make(cell, seeds=(0, 1), epochs=3, **changes):
        model = toys.model(*cell, **changes)
        networks = [toys.network(*cell, seed=seed, **changes) for seed in seeds]
        sets = (toys.resident(cell[0], 12, 1), toys.resident(cell[0], 6, 2))
        trainer = Figure6Trainer(networks[0], model, *sets, epochs)
        theta, state = trainer.lifted.stack(networks)
        replicas = Replicas.fresh(
            seeds, theta, state, torch.ones(len(networks), 1), model.learning_rate, model.weight_decay
        )
        return SimpleNamespace(trainer=trainer, replicas=replicas)

    return make


def finished(it):
    for _ in it.trainer.epochs(it.replicas):
        pass
    return it.replicas


def assert_same_rows(a, rows, b):
    for name, t in a.tensors().items():
        torch.testing.assert_close(t[rows], b.tensors()[name], rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.parametrize("cell", [*CELLS, *QUOTED], ids="/".join)
def test_a_replica_trains_as_if_alone(training, cell):
    together = finished(training(cell, seeds=(0, 1, 2), dropout=0.2))
    for row, seed in enumerate((0, 1, 2)):
        assert_same_rows(together, [row], finished(training(cell, seeds=(seed,), dropout=0.2)))


@pytest.mark.parametrize("cell", CELLS, ids="/".join)
def test_it_is_a_plain_loop_with_torchs_adam(training, toys, cell):
    it = training(cell, seeds=(3,), epochs=2, dropout=0.0)
    network, trainer = toys.network(*cell, seed=3, dropout=0.0), it.trainer
    adam = torch.optim.Adam(network.parameters(), lr=trainer.model.learning_rate, weight_decay=3e-6)
    for epoch in range(2):
        network.train()
        total = 0.0
        for batch in epoch_batches(12, 5, 3, epoch):
            graphs = trainer.train.batch(torch.from_numpy(batch), trainer.largest)
            each = losses(trainer.train.data, network(graphs), graphs.y)[batch != NO_GRAPH]
            adam.zero_grad()
            each.mean().backward()
            adam.step()
            total += each.sum().item()
    replicas = finished(it)
    theta = torch.cat([p.detach().flatten() for p in network.parameters()])
    torch.testing.assert_close(replicas.theta[0], theta, rtol=1e-8, atol=1e-10)
    assert replicas.train[0].item() == pytest.approx(total / 12)
    network.eval()
    held_out = trainer.validation
    with torch.no_grad():
        out = network(held_out.batch(torch.arange(6), held_out.largest(6)))[None]
    of = held_out.data, out, held_out.y, 5
    assert replicas.validation.item() == pytest.approx(criterion(*of).item())
    assert replicas.metric.item() == pytest.approx(metric(*of).item())


def test_dropout_differs_between_seeds_epochs_and_batches():
    seeds = [module._mix(*numbers) for numbers in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))]
    assert len(set(seeds)) == 4
    assert seeds == [module._mix(*numbers) for numbers in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))]
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_dropout_is_at_work_in_training_only(training):
    with_it, without = (finished(training(CELLS[0], dropout=p)) for p in (0.5, 0.0))
    assert not torch.allclose(with_it.theta, without.theta)
    it = training(CELLS[0], dropout=0.5)
    a, b = (it.trainer.predict(it.replicas.theta, it.replicas.state, it.trainer.validation) for _ in range(2))
    assert torch.equal(a, b)


@pytest.mark.parametrize("stop", [1, 2, 4, 7])
@pytest.mark.parametrize("cell", CELLS, ids="/".join)
def test_stopping_at_any_batch_changes_no_bit(training, cell, stop):
    expected = finished(training(cell, dropout=0.3))
    first, second = training(cell, dropout=0.3), training(cell, dropout=0.3)
    for k, _ in enumerate(first.trainer.steps(first.replicas), start=1):
        if k == stop:
            break
    second.replicas = Replicas(**{name: t.clone() for name, t in first.replicas.tensors().items()})
    resumed = finished(second)
    for name, t in expected.tensors().items():
        assert torch.equal(resumed.tensors()[name], t), name


def test_a_step_is_a_batch_and_an_epoch_ends_with_the_last(training):
    it = training(CELLS[0], epochs=2)
    steps = [index is not None for index in it.trainer.steps(it.replicas)]
    assert steps == [False, False, True] * 2
    assert it.replicas.epoch.tolist() == [2, 2]
    assert it.replicas.position.tolist() == [0, 0]


def test_a_replica_whose_rate_is_too_small_leaves_and_the_other_goes_on(training):
    it = training(CELLS[0], epochs=4)
    it.replicas.learning_rate[0] = 0.5e-5
    before = it.replicas.theta[0].clone()
    assert [index.tolist() for index in it.trainer.epochs(it.replicas)] == [[1]] * 4
    assert torch.equal(it.replicas.theta[0], before)
    assert_same_rows(it.replicas, [1], finished(training(CELLS[0], seeds=(1,), epochs=4)))


def test_the_rate_is_halved_on_a_plateau_until_the_end(training):
    it = training(CELLS[0], epochs=1000, patience=0, learning_rate=1e-3, min_learning_rate=2e-4)
    it.replicas.plateau.fill_(-1.0)  # nothing is ever better
    assert len(list(it.trainer.epochs(it.replicas))) == 3
    assert it.replicas.learning_rate.flatten().tolist() == pytest.approx([1.25e-4] * 2)


def test_a_replica_that_diverges_leaves(training):
    it = training(CELLS[0])
    it.replicas.theta[0, 0] = torch.nan
    epochs = [index.tolist() for index in it.trainer.epochs(it.replicas)]
    assert epochs == [[0, 1], [1], [1]]
    assert it.replicas.diverged.tolist() == [True, False]
    assert it.replicas.best_epoch[0] == 0


def test_a_validation_loss_that_is_not_finite_does_not_end_a_run(training, monkeypatch):
    it, epochs = training(CELLS[0], epochs=3, patience=0), iter((2.0, torch.nan, torch.inf))
    monkeypatch.setattr(module, "criterion", lambda *_: torch.full((2,), next(epochs)))
    finished(it)
    assert it.replicas.epoch.tolist() == [3, 3]
    assert not it.replicas.diverged.any()
    assert it.replicas.best_epoch.tolist() == [1, 1]
    assert it.replicas.learning_rate.flatten().tolist() == pytest.approx([0.25e-3] * 2)  # two bad epochs


def test_every_seed_takes_the_graphs_in_an_order_of_its_own(training):
    it = training(CELLS[0], seeds=(0, 1), epochs=1)
    batches, step = [], it.trainer.step
    it.trainer.step = lambda r, index, *rest: (batches.append(index.clone()), step(r, index, *rest))
    finished(it)
    orders = torch.cat(batches, dim=1)  # [R, graphs]
    assert not torch.equal(orders[0], orders[1])
    assert all(sorted(order[order != NO_GRAPH].tolist()) == list(range(12)) for order in orders)


def test_the_best_weights_are_those_of_the_best_epoch(training):
    it = training(CELLS[0], epochs=6, learning_rate=0.05)
    epochs = []
    for _ in it.trainer.epochs(it.replicas):
        epochs.append((it.replicas.validation.clone(), it.replicas.theta.clone(), it.replicas.metric.clone()))
    for row in range(2):
        best = min(range(6), key=lambda k: epochs[k][0][row])
        assert it.replicas.best_epoch[row] == best + 1
        assert it.replicas.best[row] == epochs[best][0][row]
        assert it.replicas.best_metric[row] == epochs[best][2][row]
        assert torch.equal(it.replicas.best_theta[row], epochs[best][1][row])


def test_a_batch_that_needs_more_room_gets_it(training):
    it, other = training(CELLS[0], epochs=1), training(CELLS[0], epochs=1)
    it.trainer.usual = Shape(5, 2, 1)
    assert_same_rows(finished(it), [0, 1], finished(other))


def test_a_step_has_the_smallest_shape_that_has_room(training):
    trainer = training(CELLS[0]).trainer
    graphs, index = trainer.train, np.arange(12).reshape(2, 2, 3)  # two steps of two replicas
    nodes, messages = (sizes[index].sum(2).max(1) for sizes in (graphs.nodes, graphs.messages))  # [steps]
    smallest = [Shape(3, *map(int, sizes)) for sizes in zip(nodes + 1, messages, strict=True)]
    small, large = sorted(smallest)
    none = small._replace(nodes=small.nodes - 1)
    trainer.usual, trainer.largest, trainer.others = small, large._replace(messages=1_000), [none]
    assert trainer.shapes(index) == [shape if shape == small else trainer.largest for shape in smallest]


def test_ogbs_models_have_shapes_with_less_padding_and_the_same_dropout_in_each(training):
    it, other = (training(("molhiv", "gin", "edges"), epochs=2, dropout=0.5) for _ in range(2))
    assert it.trainer.model.deviations == (1, 2, 3, 6)
    assert training(CELLS[0]).trainer.model.deviations == ()
    used, step = set(), it.trainer.step
    usual = it.trainer.usual
    it.trainer.others = [Shape(usual.graphs, nodes, usual.messages) for nodes in range(30, usual.nodes)]
    it.trainer.step = lambda r, index, shape, noise: (used.add(shape), step(r, index, shape, noise))
    assert_same_rows(finished(it), [0, 1], finished(other))
    assert len(used) > 1


def test_batches_of_an_epoch():
    first, again, second, other = (epoch_batches(12, 5, *by) for by in ((0, 0), (0, 0), (0, 1), (1, 0)))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, other)
    assert first.shape == (3, 5)
    assert sorted(first.flatten()) == [NO_GRAPH] * 3 + list(range(12))
    assert epoch_batches(4, 2).tolist() == [[0, 1], [2, 3]]
