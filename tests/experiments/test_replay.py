"""Replay: the first epochs of a recorded cell, trained again, have the recorded losses in every digit."""

from dataclasses import replace

import pytest

from pna.__main__ import main
from pna.command_line import FAILED
from pna.experiments import Cell, run_of
from pna.experiments.replay import Replayed, replayed
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


def altered(run, by, **fields):
    """Change the validation loss of the last seed's second epoch by a factor, and other fields of the result."""
    result = load(run.result)
    replica = result.replicas[-1]
    curve = [[epoch, train, loss * by if epoch == 2 else loss] for epoch, train, loss in replica.curve]
    replicas = (*result.replicas[:-1], replace(replica, curve=curve))
    save(run.result, replace(result, replicas=replicas, **fields))


def test_another_digit_is_named(recorded, capsys):
    altered(recorded, 1.0001)
    assert main(["replay", str(recorded.cell), "--device", "cpu"]) == FAILED
    assert f"largest difference 1.0e-04 of a loss, at epoch 2 of seed {recorded.seeds[-1]}" in capsys.readouterr().out


@pytest.mark.parametrize(("by", "code"), [(1.001, 0), (1.05, FAILED)])
def test_another_machine_may_differ_by_rounding(recorded, capsys, by, code):
    altered(recorded, by, device="another machine")
    assert main(["replay", str(recorded.cell), "--device", "cpu"]) == code
    assert "recorded with other device than here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("now", "then", "distance"),
    [((1.0,), (1.0,), 0.0), ((1.1,), (1.0,), 0.1), ((None,), (None,), 0.0), ((None,), (1.0,), float("inf"))],
)
def test_distances(now, then, distance):
    assert Replayed(1, 0, then, now).distance == pytest.approx(distance)


def test_a_cell_that_is_not_recorded(few_graphs, capsys):
    assert main(["replay", NAMES[0], "--device", "cpu"]) != 0
    assert "is not recorded: train it first" in capsys.readouterr().err
