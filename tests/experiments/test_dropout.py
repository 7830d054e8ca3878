"""Dropout: what is dropped, each replica's own rate and nothing else different, the search for it, the tuned runs."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from pna.errors import MissingData
from pna.experiments import TRAININGS, Cell, run_of
from pna.experiments.command import _SHOW, _print_dropout
from pna.experiments.dropout import (
    MARGIN,
    RATES,
    SEARCHED,
    DropoutRun,
    DropoutTuningRun,
    TunedDropoutRun,
    best_rate,
    gains,
)
from pna.experiments.multitask import PROFILES, MultiTaskRun
from pna.experiments.tuning import NEAR, TuningRun, ranked
from pna.networks.dropout import Dropped
from pna.training.store import load, save
from report.comparisons import MARGIN as PLANNED

CELL = Cell.parse("dropout/described/gcn/16")


class Ones(nn.Module):
    """A convolution that returns ones."""

    def forward(self, x, batch):
        return torch.ones_like(x)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PNA_DATA", str(tmp_path / "data"))
    smoke_run = run_of(CELL, PROFILES["smoke"].changed(epochs=20))
    assert isinstance(smoke_run, DropoutRun)
    return smoke_run


@pytest.mark.parametrize("rate", RATES)
def test_a_share_is_dropped_and_the_mean_stays(rate):
    layer, x = Dropped(Ones(), rate, seed=3), torch.zeros(500, 40)
    first, second = layer(x, None), layer(x, None)
    for y in (first, second):
        dropped = (y == 0).double()
        assert dropped.mean().item() == pytest.approx(rate, abs=0.01)
        assert y.mean().item() == pytest.approx(1, abs=0.01)
        assert dropped.mean(dim=0).max().item() <= rate + 0.1  # no column and no row is chosen
        assert dropped.mean(dim=1).max().item() <= rate + 0.35
    together = ((first == 0) & (second == 0)).double().mean().item()
    assert together == pytest.approx(rate**2, abs=0.01)  # calls are independent
    assert torch.equal(layer.eval()(x, None), torch.ones_like(x))


def test_seeds_drop_apart_and_the_same_seed_drops_the_same():
    x = torch.zeros(100, 16)
    one, same, other = (Dropped(Ones(), 0.5, seed)(x, None) for seed in (7, 7, 8))
    assert torch.equal(one, same)
    assert ((one == 0) & (other == 0)).double().mean().item() == pytest.approx(0.25, abs=0.05)


def test_without_dropout_a_replica_trains_like_any_other(run):
    """The first replicas have rate 0: their curves are those of the plain training with the same seeds."""
    plain = MultiTaskRun(replace(CELL, training="multitask"), run.profile)
    plain.seeds = run.seeds[:4]
    plain.learning_rates, plain.weight_decays = (
        [values[0]] * 4 for values in (plain.learning_rates, plain.weight_decays)
    )
    for with_dropout, without in zip(run.replay(2), plain.replay(2), strict=True):
        torch.testing.assert_close(with_dropout[:4], without, rtol=1e-4, atol=1e-6)
        assert not torch.isclose(with_dropout[4:8, 0], without[:, 0], rtol=1e-3).any()


def test_each_rate_gets_the_same_seeds_and_no_test_set(run):
    replicas = run.fresh()
    assert replicas.seed.tolist() == run.seeds
    theta = replicas.theta.view(len(RATES), -1, replicas.theta.shape[1])
    assert torch.equal(theta, theta[:1].expand_as(theta))
    assert run.collections == ()
    assert run.settings.epochs == 3
    assert MultiTaskRun(replace(CELL, training="multitask"), run.profile).cell.trainings == ("multitask",)


def test_a_result_is_recorded_and_printed(run, capsys):
    assert run.train()
    result = load(run.record())
    assert result.configuration["dropout"] == [rate for rate in RATES for _ in range(4)]
    assert all(replica.test == {} for replica in result.replicas)
    table = gains(result)
    assert list(table) == list(RATES)
    assert table[0.0][1] == 0
    worse = [replace(r, validation=10 * r.validation) for r in result.replicas[:4]]
    shifted = gains(replace(result, replicas=(*worse, *result.replicas[4:])))
    assert shifted[0.3][1] == pytest.approx(table[0.3][1] + 1)
    _print_dropout(result)
    header, *rows, last = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "dropout"
    assert [float(row.split()[0]) for row in rows] == list(RATES)
    assert last == "means over seeds; a gain above 0.1 counts"
    assert MARGIN == PLANNED


def test_a_training_goes_on_where_it_stopped(run):
    whole = list(run.replay(3))
    again = DropoutRun(CELL, run.profile)
    stops = iter([False] * 2 + [True])
    assert not again.train(stop=lambda: next(stops))
    resumed = DropoutRun(CELL, run.profile)
    assert resumed.train()
    torch.testing.assert_close(torch.stack(resumed.curves), torch.stack(whole), rtol=0, atol=0)


# ---- the search for the rate, and the runs with the best of it ----

TUNED, SEARCH = (replace(CELL, training=name) for name in ("tuned-dropout", "dropout-tuning"))


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Empty folders for results and data."""
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PNA_DATA", str(tmp_path / "data"))


def recorded(run):
    """Train a run and record it."""
    assert run.train()
    return load(run.record())


def with_losses(result, losses):
    """A recorded search in which each rate has these losses, one for each of its seeds."""
    pairs = [(rate, loss) for rate, values in losses.items() for loss in values]
    replicas = tuple(replace(result.replicas[0], validation=loss) for _, loss in pairs)
    return replace(result, configuration={"dropout": [rate for rate, _ in pairs]}, replicas=replicas)


@pytest.mark.parametrize("model", ["pna", "gcn", "gin"])
def test_each_searched_rate_gets_the_same_seeds_and_the_best_learning_rate(model):
    run = run_of(replace(SEARCH, model=model), PROFILES["paper"])
    best = ranked(load(run.search.result))[0]
    assert isinstance(run, DropoutTuningRun)
    assert run.dropout == [rate for rate in SEARCHED for _ in range(5)]
    assert run.seeds == [3_000, 3_001, 3_002, 3_003, 3_004] * len(SEARCHED)
    assert set(run.learning_rates) == {best.learning_rate}
    assert set(run.weight_decays) == {best.weight_decay}
    assert len(run.learning_rates) == len(run.weight_decays) == len(run.seeds)
    assert run.settings.epochs == 10_000
    assert run.configuration["dropout"] == run.dropout
    assert run.collections == ()


def test_tuned_runs_have_twenty_seeds_of_their_own_and_the_tests_of_those_without_dropout():
    run = run_of(TUNED, PROFILES["paper"])
    best = ranked(load(run.search.result))[0]
    assert isinstance(run, TunedDropoutRun)
    assert run.seeds == list(range(4_000, 4_020))
    for values, middle in ((run.learning_rates, best.learning_rate), (run.weight_decays, best.weight_decay)):
        assert len(set(values)) == 20
        assert all(middle / NEAR <= value <= middle * NEAR for value in values)
    assert run.collections == run_of(replace(CELL, training="tuned"), PROFILES["paper"]).collections
    assert run_of(TUNED, PROFILES["planned"]).seeds == []  # the plan has no such cell


def test_they_are_no_other_training():
    assert TUNED.trainings == ("tuned-dropout",)
    assert SEARCH.trainings == ("dropout-tuning",)
    assert Cell.parse("tuned/described/gcn/16").trainings == ("tuned",)
    assert len({training.rates for training in TRAININGS.values()}) == 6


def test_one_search_after_the_other_then_the_tuned_runs(folders, capsys):
    """Each says which search must come first; the last ones get the recorded rate, near the recorded learning rate."""
    for cell in (SEARCH, TUNED):
        with pytest.raises(
            MissingData, match="run the search first, python -m pna train tuning/described/gcn/16 --profile smoke"
        ):
            run_of(cell, PROFILES["smoke"]).train()
    recorded(TuningRun(replace(CELL, training="tuning"), PROFILES["smoke"]))
    tuned = run_of(TUNED, PROFILES["smoke"])
    assert not tuned.ready
    with pytest.raises(
        MissingData, match="rate of dropout first, python -m pna train dropout-tuning/described/gcn/16 --profile smoke"
    ):
        tuned.train()
    search = run_of(SEARCH, PROFILES["smoke"])
    assert (search.ready, search.dropout, search.seeds) == (True, [0.0, 0.2], [3_000, 3_000])
    result = recorded(search)
    assert all(replica.test == {} for replica in result.replicas)
    _SHOW[type(search)](result)
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"the rate {best_rate(result):g}")
    for losses, rate in (((0.1, 0.2), 0.0), ((0.2, 0.1), 0.2)):
        replicas = (replace(r, validation=loss) for r, loss in zip(result.replicas, losses, strict=True))
        save(search.result, replace(result, replicas=tuple(replicas)))
        tuned = run_of(TUNED, PROFILES["smoke"])
        assert (tuned.ready, tuned.dropout, tuned.seeds) == (True, [rate, rate], [4_000, 4_001])
    replicas = tuned.fresh()
    rows = [tuned.trainer.lifted.weights(*row) for row in zip(replicas.theta, replicas.state, strict=True)]
    assert [row["GC_m.rate"].item() for row in rows] == pytest.approx([0.2, 0.2])
    assert [row["GC_m.seed"].item() for row in rows] == [8_001, 8_003]
    assert replicas.learning_rate.flatten().tolist() == pytest.approx(tuned.learning_rates)
    result = recorded(tuned)
    assert result.configuration["dropout"] == [0.2, 0.2]
    assert set(result.replicas[0].test) >= {"multitask/test", "redrawn/test_1"}
    assert not tuned.shipped.exists()


@pytest.mark.parametrize(
    ("losses", "best"),
    [
        ({0.0: [0.1, 0.1], 0.02: [0.2, 0.01], 0.1: [0.1, 0.2]}, 0.02),  # the mean of log10, not that of the losses
        ({0.0: [0.1, 0.1], 0.02: [0.1, 0.1]}, 0.0),  # of equals, the first
        ({0.0: [0.1, 0.1], 0.02: [1e-9, None]}, 0.0),  # a run that diverged
        ({0.0: [None], 0.02: [None]}, 0.0),
    ],
)
def test_the_rate_with_the_least_mean_wins(losses, best, run):
    assert best_rate(with_losses(recorded(run), losses)) == best


def test_the_search_goes_on_where_it_stopped(folders):
    recorded(TuningRun(replace(CELL, training="tuning"), PROFILES["smoke"]))
    whole = list(run_of(SEARCH, PROFILES["smoke"]).replay(2))
    stops = iter([False, True])
    assert not run_of(SEARCH, PROFILES["smoke"]).train(stop=lambda: next(stops))
    resumed = run_of(SEARCH, PROFILES["smoke"])
    assert resumed.train()
    torch.testing.assert_close(torch.stack(resumed.curves), torch.stack(whole), rtol=0, atol=0)
