"""Replay: the first epochs of a recorded cell, trained again, have the recorded losses in every digit."""

from dataclasses import replace

import pytest
import torch

from pna.__main__ import main
from pna.command_line import FAILED
from pna.experiments import Cell, run_of
from pna.experiments.replay import Replayed, _print_replay, replayed
from pna.training.store import load, save

NAMES = ("multitask/released/gcn/16", "single-task/described/mpnn-max/8")


@pytest.fixture(params=NAMES)
def recorded(request, few_graphs):
    run = run_of(Cell.parse(request.param), few_graphs.profile)
    assert run.train()
    run.record()
    return run


def test_a_replay_repeats_every_digit(recorded, capsys):
    assert main(["replay", str(recorded.cell), "--profile", "smoke", "--device", "cpu"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    points = 3 * len(recorded.replicas)  # as many as the profile has epochs
    assert first.endswith("device, versions and code as recorded")
    assert last == f"{points} of {points} recorded points repeated in every digit, to epoch 3"


def test_a_replay_leaves_no_file(recorded, few_graphs):
    before = sorted(few_graphs.folder.rglob("*"))
    again = run_of(recorded.cell, recorded.profile)
    epochs = list(replayed(again, load(again.result), epochs=2))
    assert [{point.epoch for point in points} for points in epochs] == [{1}, {2}]
    assert sorted(few_graphs.folder.rglob("*")) == before


@pytest.fixture
def threads():
    """Set the number of threads; the test's end restores it."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def altered(run, by, column=2, seeds=1, **fields):
    """Change the losses in a column of the last seeds' second epoch by a factor, and other fields of the result."""
    result = load(run.result)
    rows = [
        replace(
            replica,
            curve=[[x * by if (row[0], k) == (2, column) else x for k, x in enumerate(row)] for row in replica.curve],
        )
        for replica in result.replicas
    ]
    save(run.result, replace(result, replicas=(*result.replicas[:-seeds], *rows[-seeds:]), **fields))


def test_it_computes_with_one_thread_as_training_does(recorded, threads):
    threads(2)
    assert main(["replay", str(recorded.cell), "--device", "cpu"]) == 0
    assert torch.get_num_threads() == 1


def test_another_digit_is_named(recorded, capsys):
    altered(recorded, 1.0001)
    assert main(["replay", str(recorded.cell), "--device", "cpu"]) == FAILED
    assert f"largest difference 1.0e-04 of a loss, at epoch 2 of seed {recorded.seeds[-1]}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("by", "column", "seeds", "code"),
    [
        (1.15, 1, 100, 0),  # the training loss of all seeds
        (1.3, 1, 100, FAILED),
        (2.0, 1, 1, 0),  # of one seed: the median is judged
        (1e20, 2, 100, 0),  # validation losses may explode
    ],
)
def test_another_machine_may_differ_by_rounding(recorded, capsys, by, column, seeds, code):
    assert len(recorded.replicas) >= 3 or seeds == 100 or pytest.skip("one of two seeds is in the median")
    altered(recorded, by, column, seeds, device="another machine")
    assert main(["replay", str(recorded.cell), "--device", "cpu"]) == code
    said = capsys.readouterr().out
    assert "recorded with other device than here" in said
    off = abs(1 - 1 / by) if column == 1 and seeds == 100 else 0.0
    assert f"training loss, median over seeds: {off:.1%} off at most" in said


def test_of_many_epochs_only_the_first_are_judged_elsewhere(capsys):
    far = [Replayed(epoch, seed, (2.0,), (1.0,)) for epoch in (4, 30) for seed in range(3)]
    near = [Replayed(epoch, seed, (1.01,), (1.0,)) for epoch in (1, 3) for seed in range(3)]
    assert _print_replay([*near, *far], elsewhere=True) == 0
    assert _print_replay(far, elsewhere=True) == FAILED  # the first that there are
    assert _print_replay([*near, *far], elsewhere=False) == FAILED
    assert _print_replay([], elsewhere=True) == FAILED


@pytest.mark.parametrize(
    ("now", "then", "distance"),
    [((1.0,), (1.0,), 0.0), ((1.1,), (1.0,), 0.1), ((None,), (None,), 0.0), ((None,), (1.0,), float("inf"))],
)
def test_distances(now, then, distance):
    assert Replayed(1, 0, then, now).distance == pytest.approx(distance)


def test_a_cell_that_is_not_recorded(few_graphs, capsys):
    assert main(["replay", NAMES[0], "--device", "cpu"]) != 0
    assert "is not recorded: train it first" in capsys.readouterr().err
    assert main(["replay", NAMES[0], "--device", "cpu", "--profile", "smoke"]) != 0
    words = f"is not recorded under the profile smoke: train it first, python -m pna train {NAMES[0]} --profile smoke"
    assert words in capsys.readouterr().err
