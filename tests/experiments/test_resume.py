"""Interrupted and continued is uninterrupted, bit for bit; no kill leaves a checkpoint that cannot be read."""

import itertools
import os
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from pna.experiments import Cell, MultiTaskRun
from pna.experiments.progress import Report
from pna.files import read_tensors, write_tensors
from pna.training import run as run_module
from pna.training.run import Progress
from pna.training.store import load

NAMES = ("multitask/released/pna/8", "multitask/described/gin/8", "depth-varied/described/mpnn-max/8")
CELLS = {name: Cell.parse(name) for name in NAMES}
EPOCHS = 9


@pytest.fixture
def clock(monkeypatch):
    """Time stands still unless a test moves it, or lets it tick whenever it is read."""
    clock = SimpleNamespace(now=0.0, tick=0.0)

    def monotonic():
        clock.now += clock.tick
        return clock.now

    monkeypatch.setattr(run_module, "time", SimpleNamespace(monotonic=monotonic))
    return clock


@pytest.fixture
def profile(few_graphs):
    return replace(few_graphs.profile, epochs=EPOCHS)


def train_for(run, clock, steps):
    """Trains so many steps, batches on a CPU, after which the deadline has passed; within an epoch or at its end."""
    before = _steps_of(run)
    clock.tick = 1.0
    finished = run.train(deadline=clock.now + 1 + steps)
    clock.tick = 0.0
    assert _steps_of(run) == before + steps
    return finished


def _steps_of(run):
    if not run.checkpoint.exists():
        return 0
    tensors, _ = read_tensors(run.checkpoint)
    return len(tensors["curves"]) * len(run.trainer.train) + int(tensors["position"].max())


def facts_of(run):
    """All bits of a training, in memory and as recorded."""
    tensors = run.replicas.tensors() | {"curves": torch.stack(run.curves)}
    result = load(run.record())
    return tensors, (result.hash, result.replicas, result.facts)


def assert_same(one, other):
    (tensors, facts), (expected_tensors, expected_facts) = one, other
    assert tensors.keys() == expected_tensors.keys()
    for name, t in tensors.items():
        torch.testing.assert_close(t, expected_tensors[name], rtol=0, atol=0, equal_nan=True, msg=name)
    assert facts == expected_facts


@pytest.mark.parametrize("name", CELLS)
def test_interrupted_five_times_equals_uninterrupted(profile, clock, monkeypatch, name):
    expected = MultiTaskRun(CELLS[name], profile)
    assert expected.train()
    expected = facts_of(expected)

    monkeypatch.setenv("PNA_RESULTS", os.environ["PNA_RESULTS"] + "-again")
    last = MultiTaskRun(CELLS[name], profile)
    batches = len(last.trainer.train)
    points = [0, *sorted(random.Random(0).sample(range(1, EPOCHS * batches), 5))]
    assert any(point % batches for point in points)  # within an epoch, too
    for steps in (b - a for a, b in itertools.pairwise(points)):
        assert not train_for(MultiTaskRun(CELLS[name], profile), clock, steps)
    assert last.train()
    assert_same(facts_of(last), expected)
    assert not last.checkpoint.exists()


def test_single_tasks_and_early_stopping_are_continued_too(profile, clock, monkeypatch):
    cell, profile = Cell.parse("single-task/released/gcn/8"), replace(profile, epochs=6, patience=1)
    expected = MultiTaskRun(cell, profile)
    assert expected.train()
    assert len(set(expected.replicas.epoch.tolist())) > 1  # some replicas had left early
    expected = facts_of(expected)
    monkeypatch.setenv("PNA_RESULTS", os.environ["PNA_RESULTS"] + "-again")
    for steps in (1, 2, 4):
        train_for(MultiTaskRun(cell, profile), clock, steps)
    last = MultiTaskRun(cell, profile)
    assert last.train()
    assert_same(facts_of(last), expected)


def test_a_crash_loses_no_more_than_the_epochs_since_the_checkpoint(profile, clock):
    class CrashError(Exception):
        pass

    def crash(progress):
        if progress.epoch == 7:
            raise CrashError

    cell = CELLS["multitask/described/gin/8"]
    expected = MultiTaskRun(cell, profile)
    assert expected.train()
    expected = facts_of(expected)
    train_for(MultiTaskRun(cell, profile), clock, 4 * len(MultiTaskRun(cell, profile).trainer.train))
    with pytest.raises(CrashError):
        MultiTaskRun(cell, profile).train(report=crash)
    assert len(read_tensors(MultiTaskRun(cell, profile).checkpoint)[0]["curves"]) == 4
    last, epochs = MultiTaskRun(cell, profile), []
    assert last.train(report=lambda progress: epochs.append(progress.epoch))
    assert epochs == list(range(5, EPOCHS + 1))
    assert_same(facts_of(last), expected)


def test_a_checkpoint_is_written_at_least_once_a_minute(profile, clock, monkeypatch):
    assert run_module.CHECKPOINT_SECONDS <= 60
    run, saved = MultiTaskRun(CELLS["multitask/described/gin/8"], profile), []
    monkeypatch.setattr(run, "save", lambda: saved.append(clock.now))

    def report(_):
        clock.now += 10.0

    run.train(report=report)
    assert len(saved) > 1
    assert max(b - a for a, b in zip([0.0, *saved], saved, strict=False)) <= 60


def test_the_seconds_of_all_parts_are_added(profile, clock):
    def report(_):
        clock.now += 1.0

    for epochs in (3, 6):
        start = clock.now
        run = MultiTaskRun(CELLS["multitask/described/gin/8"], profile)
        run.train(deadline=start + 3.0, report=report)
        assert (len(run.curves), run.seconds) == (epochs, float(epochs))


def test_a_finished_training_that_was_not_recorded_is_not_trained_again(profile):
    cell = CELLS["multitask/described/gin/8"]
    first = MultiTaskRun(cell, profile)
    assert first.train()
    second = MultiTaskRun(cell, profile)
    assert second.train(report=lambda progress: pytest.fail("trained again"))
    assert_same(facts_of(second), facts_of(first))


def test_progress_tells_epoch_and_running_replicas(profile):
    reports = []
    run = MultiTaskRun(Cell.parse("single-task/released/gcn/8"), replace(profile, epochs=2))
    run.train(report=reports.append)
    assert [(p.epoch, p.epochs, p.running, p.replicas) for p in reports] == [(1, 2, 12, 12), (2, 2, 12, 12)]
    assert reports[-1].best == run.replicas.best.min().item()


def test_no_time_left_is_told_before_one_can_be_known(capsys):
    with Report(0.0) as report:
        for epoch in (1, 2):
            report(Progress(epoch=epoch, epochs=450, best=0.5, running=2, replicas=2))
    first, second = capsys.readouterr().out.splitlines()
    assert first == "epoch 1 of at most 450: best validation 0.50000, 2 of 2 replicas running"
    assert second.startswith("epoch 2 of at most 450: ")
    assert second.endswith(" s left")


# ---- checkpoints of strangers ----


def altered(run, change):
    """Write the checkpoint again, checksums included, with other tensors or facts."""
    tensors, facts = read_tensors(run.checkpoint)
    change(tensors, facts)
    write_tensors(run.checkpoint, tensors, facts)


def put_nan(name):
    return lambda tensors, _: tensors[name][0, :3].fill_(torch.nan)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tensors, _: tensors.pop("theta"), "'theta'"),
        (lambda tensors, _: tensors.pop("curves"), "'curves'"),
        (lambda tensors, _: tensors.update(theta=tensors["theta"][:, :-1]), "theta has the shape"),
        (lambda tensors, _: tensors.update(m=tensors["m"][:1]), "m has the shape"),
        (lambda tensors, _: tensors.update(curves=tensors["curves"][:, :1]), "curves have the shape"),
        (lambda tensors, _: tensors.update(other=tensors["theta"].clone()), "unexpected keyword"),
        (lambda _, facts: facts.pop("seconds"), "'seconds'"),
        (lambda _, facts: facts.update(seconds="soon"), "could not convert"),
        (lambda _, facts: facts.update(seconds=10**400), "too large"),
        (put_nan("theta"), "theta has weights that are not finite"),
        (put_nan("best_theta"), "best_theta has weights that are not finite"),
    ],
)
def test_a_checkpoint_that_no_training_wrote_is_refused_in_a_line(profile, clock, change, words):
    run = MultiTaskRun(CELLS[NAMES[0]], profile)
    train_for(run, clock, 2 * len(run.trainer.train))  # to the end of an epoch
    altered(run, change)
    with pytest.raises(ValueError, match=f"does not hold what this version keeps .*{words}"):
        MultiTaskRun(CELLS[NAMES[0]], profile).train()
    assert not run.result.exists()


def test_a_replica_that_diverged_goes_on_to_be_recorded_as_such(profile, clock):
    run = MultiTaskRun(CELLS[NAMES[0]], profile)
    train_for(run, clock, 2 * len(run.trainer.train))

    def diverge(tensors, _):
        tensors["theta"][0], tensors["diverged"][0] = torch.nan, True

    altered(run, diverge)
    again = MultiTaskRun(CELLS[NAMES[0]], profile)
    assert again.train()
    assert [replica.ended_by for replica in load(again.record()).replicas] == ["divergence", "epochs"]
