"""Early stopping, best weights and divergence: each replica for itself."""

import itertools

import pytest
import torch

from pna.experiments import EXPERIMENTS, PROFILES, Cell, MultiTaskRun
from pna.training.trainer import Settings

MODEL = "gcn"
ASCENT = -0.01  # a learning rate that makes every epoch worse than the one before


def take_part(trainer, replicas):
    return [index.tolist() for index in trainer.epochs(replicas)]


def equal_rows(replicas, rows, others):
    """Whether some replicas have every bit of others."""
    return all(
        torch.equal(t[rows], other)
        for t, other in zip(replicas.tensors().values(), others.tensors().values(), strict=True)
    )


def assert_same_losses(replicas, rows, others):
    """A matrix product of another batch size may round otherwise, so the bits need not be the same; nor the weights, of
    which Adam moves those whose gradient is rounding alone. The losses do not see them, and agree in float64.
    """
    for name in ("train", "validation", "best", "best_epoch", "epoch"):
        torch.testing.assert_close(getattr(replicas, name)[rows], getattr(others, name), rtol=1e-9, atol=0, msg=name)


def test_the_paper_profile_has_the_papers_settings():
    run = MultiTaskRun(Cell.parse("multitask/described/pna/16"), PROFILES["paper"])
    assert run.settings == Settings(learning_rate=0.003, weight_decay=1e-6, epochs=10_000, patience=1_000)
    assert len(run.seeds) == 10


def test_training_ends_with_the_last_epoch(small):
    replicas = small.replicas(MODEL, [0, 1])
    assert take_part(small.trainer(MODEL, epochs=4), replicas) == [[0, 1]] * 4
    assert replicas.epoch.tolist() == [4, 4]
    assert replicas.step.flatten().tolist() == [8, 8]  # two batches an epoch
    assert take_part(small.trainer(MODEL, epochs=4), replicas) == []
    assert take_part(small.trainer(MODEL, epochs=5), replicas) == [[0, 1]]


def test_a_replica_out_of_patience_leaves_and_the_others_do_not_notice(small):
    trainer, replicas = small.trainer(MODEL, epochs=6, patience=2), small.replicas(MODEL, [0, 1, 2])
    replicas.learning_rate[1] = ASCENT
    assert take_part(trainer, replicas) == [[0, 1, 2]] * 3 + [[0, 2]] * 3
    assert replicas.epoch.tolist() == [6, 3, 6]
    assert replicas.best_epoch[1] == 1
    assert not replicas.diverged.any()

    others = small.replicas(MODEL, [0, 2])
    take_part(trainer, others)
    assert_same_losses(replicas, [0, 2], others)


def test_one_that_has_left_is_not_touched_any_more(small):
    trainer, replicas = small.trainer(MODEL, epochs=6, patience=2), small.replicas(MODEL, [0, 1])
    replicas.learning_rate[1] = ASCENT
    epochs = trainer.epochs(replicas)
    row = next(replicas.rows([1]) for index in epochs if replicas.epoch[1] == 3)
    assert len(list(epochs)) == 3
    assert equal_rows(replicas, [1], row)


def test_patience_starts_again_with_every_better_epoch(small):
    trainer, replicas = small.trainer(MODEL, epochs=30, patience=3), small.replicas(MODEL, [0, 1, 2])
    replicas.learning_rate += torch.tensor([[0.0], [0.03], [0.1]])
    validation = small.run(trainer, replicas)[..., 1]
    for row, epochs in enumerate(replicas.epoch.tolist()):
        losses = validation[:epochs, row].tolist()
        best = list(itertools.accumulate(losses, min))
        since = [k - best.index(best[k]) for k in range(epochs)]  # epochs since the best one
        assert max(since[:-1], default=0) < 3
        assert since[-1] == 3 or epochs == 30
        assert validation[epochs:, row].isnan().all()
    assert replicas.epoch.min() < 30


def test_an_epoch_that_is_as_good_as_the_best_one_is_no_better(small):
    trainer, replicas = small.trainer(MODEL, epochs=6, patience=2), small.replicas(MODEL, [0])
    loss = torch.ones(1, dtype=torch.double)
    for _ in range(3):
        assert len(trainer.running(replicas)) == 1
        trainer.end_epoch(replicas, 1, loss, loss)
    assert replicas.best_epoch.item() == 1
    assert len(trainer.running(replicas)) == 0


def test_the_best_weights_are_those_of_the_best_epoch(small):
    trainer, replicas = small.trainer(MODEL, epochs=8), small.replicas(MODEL, [0, 1, 2])
    replicas.learning_rate += torch.tensor([[0.0], [0.2], [ASCENT]])
    history = []
    for _ in trainer.epochs(replicas):
        history.append(replicas.rows([0, 1, 2]))
    validation = torch.stack([h.validation for h in history])  # [epochs, R]
    assert torch.equal(replicas.best, validation.min(0).values)
    assert torch.equal(replicas.best_epoch, validation.argmin(0) + 1)
    assert (replicas.best_epoch < 8).any()
    for row, epoch in enumerate(replicas.best_epoch.tolist()):
        assert torch.equal(replicas.best_theta[row], history[epoch - 1].theta[row])
        assert torch.equal(replicas.best_state[row], history[epoch - 1].state[row])
    with torch.no_grad():
        errors = trainer.set_errors(replicas.best_theta, replicas.best_state, trainer.validation)
    torch.testing.assert_close(errors.mean(1), replicas.best, rtol=1e-12, atol=0)


@pytest.mark.parametrize("model", ["pna", "gat", "gin"])
def test_a_replica_that_diverges_is_marked_and_the_others_go_on(small, model):
    trainer, replicas = small.trainer(model, epochs=3), small.replicas(model, [0, 1, 2])
    replicas.learning_rate[1] = torch.nan
    assert take_part(trainer, replicas) == [[0, 1, 2], [0, 2], [0, 2]]
    assert replicas.diverged.tolist() == [False, True, False]
    assert replicas.epoch.tolist() == [3, 1, 3]
    assert replicas.best[1] == torch.inf
    assert replicas.best_epoch[1] == 0

    others = small.replicas(model, [0, 2])
    take_part(trainer, others)
    assert_same_losses(replicas, [0, 2], others)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_a_replica_that_diverges_late_keeps_its_best_weights(small, wrong):
    trainer, replicas = small.trainer(MODEL, epochs=5), small.replicas(MODEL, [0, 1])
    assert len(list(itertools.islice(trainer.epochs(replicas), 2))) == 2
    best = replicas.rows([0])
    replicas.theta[0, 7] = wrong
    assert take_part(trainer, replicas) == [[0, 1], [1], [1]]
    assert replicas.diverged.tolist() == [True, False]
    assert replicas.epoch.tolist() == [3, 5]
    for name in ("best", "best_epoch", "best_theta", "best_state"):
        assert torch.equal(getattr(replicas, name)[:1], getattr(best, name))


def test_a_rate_far_too_large_diverges_or_stays_worse(small):
    trainer, replicas = small.trainer("mpnn-sum", epochs=4), small.replicas("mpnn-sum", [0, 1])
    replicas.learning_rate[1] = 1e6
    small.run(trainer, replicas)
    assert replicas.diverged[1] or replicas.train[1] > 1e3 * replicas.train[0]
    others = small.replicas("mpnn-sum", [0])
    small.run(trainer, others)
    assert equal_rows(replicas, [0], others)


@pytest.mark.parametrize("model", [cell.model for cell in EXPERIMENTS["figure4"].cells("released")])
def test_the_loss_of_each_model_falls(small, model):
    curve = small.run(small.trainer(model, epochs=8), small.replicas(model, [0]))[:, 0]
    assert curve[-1, 0] < 0.9 * curve[0, 0]
    assert curve[-1, 1] < curve[0, 1]


def test_the_error_of_a_set_is_the_mean_over_its_batches(small):
    trainer, replicas = small.trainer(MODEL), small.replicas(MODEL, [0, 1])
    weights = replicas.theta, replicas.state
    first, second = (trainer.errors(*weights, batch, training=False) for batch in trainer.validation)
    assert not torch.allclose(first, second)
    errors = trainer.set_errors(*weights, trainer.validation)
    assert errors.shape == (2, 6)
    torch.testing.assert_close(errors, (first + second) / 2)


def test_stopped_between_any_two_epochs_it_goes_on_to_the_same_bits(small):
    trainer, expected = small.trainer(MODEL, epochs=6, patience=2), small.replicas(MODEL, [0, 1])
    expected.learning_rate[1] = ASCENT
    parts = take_part(trainer, expected)
    replicas, again = small.replicas(MODEL, [0, 1]), []
    replicas.learning_rate[1] = ASCENT
    while index := list(itertools.islice(trainer.epochs(replicas), 1)):
        again += [i.tolist() for i in index]
    assert again == parts
    assert equal_rows(replicas, [0, 1], expected)


def test_a_validation_loss_that_is_not_finite_ends_a_replica_unless_d13(small, monkeypatch):
    for borne, epochs in ((False, 2), (True, 6)):
        trainer, replicas = small.trainer(MODEL, epochs=6, infinite_validation=borne), small.replicas(MODEL, [0, 1])
        good = trainer.set_errors

        def bad(theta, state, batches, good=good, replicas=replicas):
            errors = good(theta, state, batches)
            if len(errors) == 2 and replicas.epoch[1] == 1:
                errors[1] = torch.inf  # in the second epoch alone
            return errors

        monkeypatch.setattr(trainer, "set_errors", bad)
        take_part(trainer, replicas)
        assert replicas.epoch.tolist() == [6, epochs]
        assert replicas.diverged.tolist() == [False, not borne]
        assert replicas.best.isfinite().all()


def test_a_training_loss_that_is_not_finite_ends_a_replica_even_with_d13(small):
    trainer, replicas = small.trainer(MODEL, epochs=3, infinite_validation=True), small.replicas(MODEL, [0, 1])
    replicas.theta[1] = torch.nan
    take_part(trainer, replicas)
    assert replicas.epoch.tolist() == [3, 1]
    assert replicas.diverged.tolist() == [False, True]


def test_replicas_that_train_on_are_copied_back_with_every_epoch_and_when_asked(small, monkeypatch):
    """On a GPU a copy takes a good part of a step."""
    trainer, replicas = small.trainer(MODEL, epochs=6, patience=2), small.replicas(MODEL, [0, 1])
    replicas.learning_rate[1] = ASCENT
    copied, put = [], type(replicas).put
    monkeypatch.setattr(type(replicas), "put", lambda *arguments: (copied.append(1), put(*arguments)))
    for index in trainer.steps(replicas):
        if index is None and replicas.epoch.tolist() == [4, 3] and replicas.position[0] == 0:
            trainer.sync()  # within the fifth epoch
            assert replicas.position.tolist() == [1, 0]
    assert len(copied) == 1 + 3  # and after epochs 4 to 6
    assert replicas.epoch.tolist() == [6, 3]
