"""Weights in the repository repeat the errors that are recorded of them."""

import pytest
import torch

from pna.experiments import Cell, fullest
from pna.training.store import load

CELLS = ["multitask/released/pna/16", "multitask/described/gat/16", "standard/released/gin/16"]
CELLS += ["multitask/described/gcn/20", "single-task/released/mpnn-max/16"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Where the graphs are made, once for each specification."""
    return tmp_path_factory.mktemp("data")


@pytest.mark.parametrize("name", CELLS)
def test_the_shipped_seeds_have_their_recorded_errors(name, data, monkeypatch):
    """To 1e-4 in log10, on a CPU, though the recorded errors come from a GPU."""
    monkeypatch.setenv("PNA_DATA", str(data))
    run, _ = fullest(Cell.parse(name))
    rows, recorded = run.load_weights(), load(run.result).replicas
    assert run.replicas.seed.tolist() == [recorded[row].seed for row in rows]
    for row, best in zip(rows, run.replicas.best.tolist(), strict=True):  # one or, of single tasks, one of each
        task = recorded[row].task
        assert recorded[row].validation == best == min(r.validation for r in recorded if r.task == task)
    (errors,) = run.test("multitask").values()
    expected = torch.tensor([recorded[row].test["multitask/test"] for row in rows])
    torch.testing.assert_close(errors.log10(), expected.log10(), rtol=0, atol=1e-4)


def test_how_far_errors_are_from_those_recorded():
    """The largest relative difference; an error that is null on one side alone, or was 0, is infinitely far."""
    run, _ = fullest(Cell.parse("multitask/released/pna/16"))
    (row,), recorded = run.load_weights(), load(run.result).replicas
    errors = torch.tensor([recorded[row].test["multitask/test"]])
    assert run.distance_from_recorded([row], {"multitask/test": errors}) == pytest.approx(0, abs=1e-6)
    assert run.distance_from_recorded([row], {"multitask/test": 1.5 * errors}) == pytest.approx(0.5)
    assert run.distance_from_recorded([row], {"multitask/test": errors * torch.inf}) == float("inf")
    assert run.distance_from_recorded([row], {"another/test": errors}) is None
