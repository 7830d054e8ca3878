"""Weights in the repository repeat the errors that are recorded of them."""

import pytest
import torch

from pna.experiments import Cell, profile_of, run_of
from pna.training.store import load

CELLS = ["multitask/released/pna/16", "multitask/described/gat/16", "multitask/released/gin/16"]
CELLS += ["multitask/described/moments-2/16", "multitask/released/mpnn-sum/16"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Where the graphs are made, once for each specification."""
    return tmp_path_factory.mktemp("data")


@pytest.mark.parametrize("name", CELLS)
def test_the_shipped_seed_has_its_recorded_errors(name, data, monkeypatch):
    """To 1e-4 in log10, on a CPU, though the recorded errors come from a GPU."""
    monkeypatch.setenv("PNA_DATA", str(data))
    cell = Cell.parse(name)
    run = run_of(cell, profile_of(cell, "paper"))
    run.load_weights()
    (seed,) = run.replicas.seed.tolist()
    replica = load(run.result).replicas[seed]
    assert replica.validation == run.replicas.best.item() == min(r.validation for r in load(run.result).replicas)
    (errors,) = run.test("multitask").values()
    recorded = torch.tensor([replica.test["multitask/test"]])
    torch.testing.assert_close(errors.log10(), recorded.log10(), rtol=0, atol=1e-4)
