"""A replica among others is the same seed trained alone."""

from dataclasses import replace

import pytest
import torch

from pna.experiments.multitask import task_errors
from pna.multitask import TASKS
from pna.networks import MODELS

EPOCHS = 3


def assert_near(out, expected):
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=0)


def curves(small, model, seeds, architecture="recurrent", tasks=None):
    return small.run(
        small.trainer(model, architecture, epochs=EPOCHS), small.replicas(model, seeds, architecture, tasks)
    )


def one_hot(tasks):
    return torch.nn.functional.one_hot(torch.tensor(tasks), len(TASKS))


@pytest.mark.parametrize("model", MODELS)
def test_a_replica_of_three_equals_its_seed_alone(small, model):
    together = curves(small, model, [0, 1, 2])
    assert together.shape == (EPOCHS, 3, 2)
    assert len(set(together[-1, :, 0].tolist())) == 3  # three seeds, three losses
    assert_near(together[:, 1:2], curves(small, model, [1]))


@pytest.mark.parametrize("model", ["pna", "gin"])
def test_in_the_standard_architecture_too(small, model):
    together = curves(small, model, [0, 1, 2], "standard")
    assert_near(together[:, 2:], curves(small, model, [2], "standard"))


def test_a_replica_of_ten_equals_its_seed_alone(small):
    together = curves(small, "gcn", range(10))
    assert together.shape == (EPOCHS, 10, 2)
    for seed in (0, 4, 9):
        assert_near(together[:, seed : seed + 1], curves(small, "gcn", [seed]))


def test_the_order_of_replicas_does_not_matter(small):
    order = [3, 0, 2, 1]
    assert_near(curves(small, "gin", order), curves(small, "gin", range(4))[:, order])


def test_parts_trained_one_after_the_other_are_the_whole(small):
    trainer, whole, replicas = small.trainer("gcn", epochs=EPOCHS), *(small.replicas("gcn", range(3)) for _ in range(2))
    small.run(trainer, whole)
    for part in replicas.parts(2):
        small.run(trainer, part)
    assert_near(replicas.best_theta, whole.best_theta)
    assert replicas.epoch.tolist() == [EPOCHS] * 3
    assert [len(part) for part in replicas.parts(5)] == [1, 1, 1]


def test_replicas_of_one_task_beside_others_equal_those_among_their_like(small):
    mixed = curves(small, "gcn", [5] * 6, tasks=one_hot(range(6)))
    for task in (0, 4):
        alike = curves(small, "gcn", [5, 6], tasks=one_hot([task, task]))
        assert_near(mixed[:, task : task + 1], alike[:, :1])


@pytest.mark.parametrize("task", [0, 2, 5])
def test_the_loss_of_one_task_is_blind_to_the_labels_of_the_others(small, task):
    def disturbed(batch):
        noise = torch.cat([torch.ones(3), torch.ones(3)])
        noise[task] = 0
        return replace(batch, y_node=batch.y_node + noise[:3], y_graph=batch.y_graph + noise[3:])

    trainer = small.trainer("gcn", epochs=2)
    expected = small.run(trainer, small.replicas("gcn", [0], tasks=one_hot([task])))
    trainer.train, trainer.validation = (list(map(disturbed, s)) for s in (trainer.train, trainer.validation))
    assert torch.equal(small.run(trainer, small.replicas("gcn", [0], tasks=one_hot([task]))), expected)
    assert (small.run(trainer, small.replicas("gcn", [0])) > expected.max()).all()  # all six together do see them


def test_the_loss_is_the_mean_of_the_tasks_that_count(small):
    trainer, replicas = (
        small.trainer("gcn", epochs=1),
        small.replicas("gcn", [0], tasks=torch.tensor([[1, 0, 1, 0, 1, 1]])),
    )
    small.run(trainer, replicas)
    errors = trainer.set_errors(replicas.theta, replicas.state, trainer.validation)
    assert_near(replicas.validation, errors[:, [0, 2, 4, 5]].mean(1))


def test_the_errors_of_a_batch_are_mean_squares_per_task(small):
    batch = small.batches("validation")[0]
    shift = torch.tensor([1.0, -2, 3, 4, 0, -6], dtype=torch.double)
    errors = task_errors((batch.y_node + shift[:3], batch.y_graph + shift[3:]), batch)
    torch.testing.assert_close(errors, shift.square())


def test_stacked_networks_lie_row_by_row(small):
    networks = [small.network("gin", seed) for seed in (0, 1)]
    trainer = small.trainer("gin")
    theta, state = trainer.lifted.stack(networks)
    batch = small.batches("train")[0]
    with torch.no_grad():
        errors = trainer.errors(theta, state.clone(), batch)
        for row, network in enumerate(networks):
            assert_near(errors[row], task_errors(network.eval()(batch), batch))
    assert not theta.requires_grad
    assert theta.shape == (2, sum(p.numel() for p in networks[0].parameters()))


def test_running_statistics_move_in_training_only(small):
    trainer = small.trainer("gin")
    theta, state = trainer.lifted.stack([small.network("gin", seed) for seed in (0, 1)])
    before = state.clone()
    trainer.errors(theta, state, small.batches("train")[0], training=False)
    assert torch.equal(state, before)
    trainer.errors(theta, state, small.batches("train")[0], training=True)
    assert ((state != before).float().mean(1) > 0.5).all()
