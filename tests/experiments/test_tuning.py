"""The search for hyper-parameters: the same draws for every model, halving by validation loss, no test set."""

import json
import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from pna.__main__ import main
from pna.errors import MissingData
from pna.experiments import Cell, run_of
from pna.experiments.multitask import PROFILES, MultiTaskRun
from pna.experiments.tuning import (
    DRAWS,
    FIRST_SEED,
    LEARNING_RATES,
    NEAR,
    WEIGHT_DECAYS,
    TunedRun,
    TuningRun,
    TuningTrainer,
    draws,
    near,
    ranked,
)
from pna.places import repository
from pna.training.store import load

CELL = Cell.parse("tuning/described/gin/16")


def left_behind(best, epoch, diverged=()):
    """Which of some replicas, given their best losses, are left behind at rungs of 2 and 4 epochs for 2 and 1 of 4."""
    trainer = TuningTrainer.__new__(TuningTrainer)
    trainer.rungs = ((2, 2), (4, 1))
    mask = torch.zeros(len(best), dtype=torch.bool)
    mask[list(diverged)] = True

    class Some:
        pass

    some = Some()
    some.best, some.epoch, some.diverged = torch.tensor(best), torch.tensor(epoch), mask
    return trainer.left_behind(some).tolist()


def test_draws_lie_in_their_ranges_on_a_logarithmic_scale():
    rates, decays = draws(DRAWS)
    for values, (low, high) in ((rates, LEARNING_RATES), (decays, WEIGHT_DECAYS)):
        assert len(values) == DRAWS
        assert low <= min(values) < max(values) <= high
        middle = sum(value < math.sqrt(low * high) for value in values)
        assert 0.3 * DRAWS < middle < 0.7 * DRAWS
    assert draws(8) == (rates[:8], decays[:8])


def test_every_model_gets_the_same_draws_and_rungs():
    runs = [run_of(Cell.parse(f"tuning/described/{model}/16"), PROFILES["paper"]) for model in ("pna", "gcn")]
    assert all(isinstance(run, TuningRun) for run in runs)
    assert runs[0].configuration["search"] == runs[1].configuration["search"]
    assert runs[0].rungs == ((500, 32), (1_000, 16), (2_000, 8), (4_000, 4))
    assert runs[0].seeds == list(range(FIRST_SEED, FIRST_SEED + 64))
    assert runs[0].collections == ()


def test_a_search_is_no_other_training():
    assert CELL.trained == CELL
    assert Cell.parse("multitask/described/gin/16").trainings == ("multitask",)
    assert "search" not in MultiTaskRun(Cell.parse("multitask/described/gin/16"), PROFILES["paper"]).configuration


@pytest.mark.parametrize(
    ("best", "epoch", "behind"),
    [
        ([4.0, 3.0, 2.0, 1.0], [1, 1, 1, 1], [False, False, False, False]),  # no rung yet
        ([4.0, 3.0, 2.0, 1.0], [2, 2, 2, 2], [True, True, False, False]),
        ([4.0, 3.0, 0.5, 0.6], [2, 2, 3, 3], [True, True, False, False]),  # who went on has improved
        ([4.0, 3.0, 0.5, 0.6], [2, 2, 4, 4], [True, True, False, True]),
    ],
)
def test_who_is_left_behind(best, epoch, behind):
    assert left_behind(best, epoch) == behind


def test_a_diverged_replica_takes_nobodys_place():
    assert left_behind([0.1, 3.0, 2.0, 4.0], [2, 2, 2, 2], diverged=[0]) == [True, False, False, True]


def test_a_search_at_smoke_size_records_every_draw(tmp_path, monkeypatch):
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PNA_DATA", str(tmp_path / "data"))
    run = TuningRun(CELL, PROFILES["smoke"].changed(epochs=6))
    assert run.train()
    result = load(run.record())
    assert json.loads(json.dumps(result.configuration))["search"]["learning_rates"] == list(run.learning_rates)
    assert [replica.seed for replica in result.replicas] == run.seeds
    assert all(replica.test == {} for replica in result.replicas)
    epochs = sorted(replica.epochs for replica in result.replicas)
    survivors = min(count for _, count in run.rungs)
    assert epochs[-survivors:] == [6] * survivors
    assert epochs[0] < 6
    assert {replica.ended_by for replica in result.replicas} <= {"search", "epochs", "divergence"}
    best = min(replica.validation for replica in result.replicas)
    assert [replica.validation for replica in result.replicas if replica.ended_by == "epochs"] == [best]


@pytest.mark.parametrize("model", ["pna", "pna-no-scalers", "mpnn-max", "mpnn-sum", "gat", "gcn", "gin"])
def test_the_recorded_searches_have_one_budget(model):
    """64 draws each; past each rung at most its number, and one more for each that diverged; no test error."""
    run = TuningRun(Cell.parse(f"tuning/described/{model}/16"), PROFILES["paper"])
    result = load(repository() / "results" / "paper" / run.cell.place)
    assert result.hash == run.hash
    assert all(replica.test == {} for replica in result.replicas)
    trials = ranked(result)
    assert len(trials) == DRAWS
    for epochs, survivors in run.rungs:
        diverged = sum(trial.ended_by == "divergence" for trial in trials)
        assert sum(trial.epochs > epochs for trial in trials) <= survivors + diverged
    assert trials[0].loss < math.inf


def test_tuned_runs_are_close_to_the_best_of_the_search():
    planned = TunedRun(Cell.parse("tuned/described/gat/16"), PROFILES["paper"])
    best = ranked(load(planned.search.result))[0]
    for values, middle in ((planned.learning_rates, best.learning_rate), (planned.weight_decays, best.weight_decay)):
        assert len(set(values)) == len(planned.seeds)
        assert all(middle / NEAR <= value <= middle * NEAR for value in values)
    assert planned.configuration["learning_rates"] == planned.learning_rates
    assert near(1.0, [100, 101], 0) == near(1.0, [100, 101, 102], 0)[:2]  # a seed's draw does not depend on the others


def test_tuned_runs_are_trained_with_their_own_rates(tmp_path, monkeypatch):
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PNA_DATA", str(tmp_path / "data"))
    tuned = TunedRun(replace(CELL, training="tuned"), PROFILES["smoke"])
    with pytest.raises(
        MissingData, match="run the search first, python -m pna train tuning/described/gin/16 --profile smoke"
    ):
        tuned.train()
    search = TuningRun(CELL, PROFILES["smoke"])
    assert search.train()
    search.record()
    tuned = TunedRun(tuned.cell, tuned.profile)
    assert tuned.fresh().learning_rate.flatten().tolist() == pytest.approx(tuned.learning_rates)
    assert tuned.train()
    result = load(tuned.record())
    assert result.configuration["weight_decays"] == tuned.weight_decays
    assert set(result.replicas[0].test) >= {"multitask/test", "redrawn/test_1"}


def test_the_search_is_printed(capsys):
    from pna.experiments.command import _print_search

    _print_search(load(repository() / "results" / "paper" / "tuning" / "described" / "pna-16.json"))
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:3] == ["draw", "learning", "rate"]
    assert len(rows) == 5
    assert [float(row.split()[3]) for row in rows] == sorted(float(row.split()[3]) for row in rows)


# ---- who diverges after a rung ----


@pytest.fixture
def poisoned(monkeypatch, tmp_path):
    """Searches of eight draws in forty epochs, some of which diverge: a function of their seeds and last epochs."""
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PNA_DATA", str(tmp_path / "data"))
    end_epoch = TuningTrainer.end_epoch

    def arrange(ends):
        def end(self, r, summed, validation, metric):
            for row, (seed, epoch) in enumerate(zip(r.seed.tolist(), r.epoch.tolist(), strict=True)):
                if ends.get(seed) == epoch + 1:
                    validation = validation.clone()
                    validation[row] = math.inf
            end_epoch(self, r, summed, validation, metric)

        monkeypatch.setattr(TuningTrainer, "end_epoch", end)
        return TuningRun(Cell.parse("tuning/described/gcn/4"), PROFILES["smoke"].changed(epochs=40))

    return arrange


def survivors(run, rung):
    """The seeds that go on past a rung."""
    run.replicas = run.fresh()
    for _ in run.trainer.steps(run.replicas):
        if int(run.replicas.epoch.max()) == run.rungs[rung][0]:
            return run.replicas.seed[run.trainer.running(run.replicas)].tolist()
    raise AssertionError("the rung is never reached")


def test_the_place_of_a_draw_that_diverges_passes_on_at_once_and_slices_repeat_every_digit(poisoned):
    first, *_ = survivors(poisoned({}), 0)
    run = poisoned({first: 3})
    assert run.rungs == ((2, 4), (4, 2), (8, 1), (16, 1))
    assert run.train()
    whole, curves = run.replicas.tensors(), torch.stack(run.curves)
    row = run.seeds.index(first)
    assert int(whole["epoch"][row]) == 3
    result = load(run.record())
    assert [len(replica.curve) for replica in result.replicas] == [replica.epochs for replica in result.replicas]
    for replica in result.replicas:
        assert all(None not in point for point in replica.curve[:-1])  # no gap where a draw paused
    run.result.unlink()
    for count in (3, 7):
        again = poisoned({first: 3})
        finished, steps = False, 0
        while not finished:
            finished = again.train(stop=partial(next, iter([*[False] * (count - 1), True])))
            steps += count
            assert steps < 10_000
        for name, tensor in again.replicas.tensors().items():
            torch.testing.assert_close(tensor, whole[name], rtol=0, atol=0, equal_nan=True, msg=name)
        torch.testing.assert_close(torch.stack(again.curves), curves, rtol=0, atol=0, equal_nan=True)
        again.forget()


def test_a_search_ends_when_all_survivors_of_a_rung_diverge(poisoned):
    run = poisoned(dict.fromkeys(survivors(poisoned({}), 0), 3))
    assert run.train()
    assert len(run.curves) <= 2 * 40


def test_the_recorded_draws_with_wrong_epochs_are_those_that_the_documentation_counts():
    late, gaps = [], []
    for path in sorted(repository().glob("results/paper/tuning/*/*.json")):
        result = load(path)
        best = ranked(result)[0].seed
        rungs = [epochs for epochs, _ in result.configuration["search"]["rungs"]]
        for replica in result.replicas:
            diverged = replica.ended_by == "divergence"
            if diverged and replica.epochs in rungs:
                late.append((path, replica.epochs))
            elif not diverged and any(point[1] is None for point in replica.curve):
                gaps.append((path, replica.epochs))
            else:
                continue
            assert replica.seed != best
    assert (len(late), {epochs for _, epochs in late}, len({path for path, _ in late})) == (22, {1_000}, 9)
    assert len(gaps) == 29
    text = " ".join((repository() / "docs" / "recording.md").read_text(encoding="utf-8").split())
    assert "22 draws in nine searches are recorded as ending at epoch 1,000" in text
    assert "curves of 29 draws have gaps" in text


def test_a_search_that_is_missing_is_named_with_the_command_of_its_budget(tmp_path, monkeypatch):
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path))
    run = run_of(Cell.parse("tuned/described/gcn/4"), PROFILES["smoke"].changed(seeds=3, epochs=6))
    words = "run the search first, python -m pna train tuning/described/gcn/4 --profile smoke --epochs 6$"
    with pytest.raises(MissingData, match=words):
        run.fresh()


@pytest.mark.parametrize("name", ["tuning", "dropout", "dropout-tuning"])
def test_a_search_has_its_own_number_of_seeds(name, capsys):
    assert main(["train", f"{name}/described/gcn/4", "--profile", "smoke", "--seeds", "3", "--device", "cpu"]) == 2
    assert "has a number of replicas of its own: leave out --seeds" in capsys.readouterr().err


def test_a_search_is_never_tested(capsys):
    assert main(["evaluate", "tuning/described/gcn/4", "--profile", "smoke", "--device", "cpu"]) == 2
    assert "tuning/described/gcn/4 is not tested: name a collection with --on" in capsys.readouterr().err
