"""Folders of their own, and networks put there as a training leaves them."""

import pytest
import torch

from pna.degrees import DegreeStatistics
from pna.experiments import Cell, Figure6Run, profile_of, run_of
from pna.files import write_tensors
from pna.networks import build
from pna.realworld.networks import Network
from pna.training.replicas import Lifted

DEGREES = DegreeStatistics(1.3, 2.4)


class Shelf:
    """Writes the weights of freshly drawn networks to where those of trained ones are kept."""

    def __init__(self, folder):
        self.folder = folder

    @staticmethod
    def run(name, profile="paper", seeds=None, epochs=None):
        cell = Cell.parse(name)
        return run_of(cell, profile_of(cell, profile, seeds, epochs))

    @staticmethod
    def network(run, seed):
        torch.manual_seed(seed)
        if isinstance(run, Figure6Run):
            return Network(run.model, run.dataset, DEGREES)
        return build(run.cell.model, run.cell.hidden, run.cell.network_spec, DEGREES, run.training.architecture)

    def put(self, run, path, rows, **facts):
        """Rows as the run numbers its replicas: seed by seed, and of each seed task by task."""
        per_seed = len(getattr(run, "tasks", [None]))
        networks = [self.network(run, row) for row in rows]
        theta, state = Lifted(networks[0]).stack(networks)
        tensors = {"theta": theta, "state": state, "validation": torch.tensor([0.1 + row for row in rows])}
        said = {"hash": run.hash, "cell": str(run.cell), "rows": rows, "seeds": [row // per_seed for row in rows]}
        write_tensors(path, tensors, said | facts)
        return networks


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PNA_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("pna.pretrained.loading.weights_folders", lambda: (tmp_path / "results",))
    return Shelf(tmp_path)
