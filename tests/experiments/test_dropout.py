"""The study of dropout: what is dropped, that each replica has its own rate, and that nothing else differs."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from pna.experiments import Cell, run_of
from pna.experiments.command import _print_dropout
from pna.experiments.dropout import MARGIN, RATES, DropoutRun, gains
from pna.experiments.multitask import PROFILES, MultiTaskRun
from pna.networks.dropout import Dropped
from pna.training.store import load
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
