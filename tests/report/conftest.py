import hashlib
import json
from dataclasses import asdict

import numpy as np
import pytest

from pna.experiments import Cell, all_cells
from pna.multitask import FAMILIES, RELEASED_MAXIMA, TASKS
from pna.realworld.models import REAL_PROFILES, RealCell
from pna.report.runs import profile_named
from pna.training.cells import CellRun
from pna.training.store import result_path, results_folder

NAMES = [task.name for task in TASKS]
SIZES = (20, 25, 30, 35, 40, 45, 60, 75, 95)


def tests_of(cell, level):
    """The test sets of a cell with log10 errors at `level` on each task."""
    row = [level] * len(NAMES)
    if cell.training == "extrapolation":
        return {f"extrapolation/test_{start}_{start + 5}": row for start in SIZES}
    sets = {"multitask/test": row}
    if cell.training == "multitask":
        sets |= {f"families/{family.name}": row for family in FAMILIES}
    return sets


def write_result(cell, profile="paper", level=-2.0, noise=0.0, levels=None, baseline=-1.0, diverged=()):
    """A result as the store writes it, with known errors: log10 MSE `level`, a little more for later seeds."""
    cell = Cell.parse(cell) if isinstance(cell, str) else cell
    profile = profile_named(profile)
    run = CellRun(cell, profile)
    rng = np.random.default_rng(0)
    replicas = []
    for seed in run.seeds:
        for task in run.tasks:
            shift = 0.01 * seed + noise * float(rng.normal())
            sets = tests_of(cell, level) | (levels or {})
            errors = {name: [float(10 ** (value + shift)) for value in row] for name, row in sets.items()}
            gone = seed in diverged
            replicas.append(
                {
                    "seed": seed,
                    "task": None if task is None else NAMES[task],
                    "epochs": profile.epochs,
                    "best_epoch": 1,
                    "diverged_at_epoch": 1 if gone else None,
                    "validation": None if gone else float(10 ** (level + shift)),
                    "test": {name: [None] * 6 if gone else row for name, row in errors.items()},
                    "curve": [[1, 1.0, 1.0]],
                }
            )
    facts = {
        "cell": str(cell),
        "hash": run.hash,
        "configuration": run.configuration,
        "tasks": NAMES,
        "maxima": RELEASED_MAXIMA.tolist(),
        "baseline": {
            name: dict.fromkeys([*NAMES, "average"], baseline) for name in tests_of(cell, level) | (levels or {})
        },
        "seconds": 1.0,
        "device": "none",
        "versions": {},
        "code": "0" * 64,
        "written": "2000-01-01T00:00:00+00:00",
        "replicas": replicas,
    }
    path = result_path(cell, profile)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts))
    return path


def write_real(cell, profile, last, best=None, epochs=1_000, train="official"):
    """A result of a real-world cell as its trainer writes it: a seed for each of the numbers after the last epoch."""
    cell = RealCell.parse(cell)
    configuration = {
        "cell": str(cell),
        "profile": asdict(REAL_PROFILES["paper"].changed(epochs=epochs if profile != "paper" else None)),
        "model": asdict(cell.hyperparameters),
        "epochs": epochs,
        "seeds": list(range(len(last))),
    }
    curve = [[1, 0.9, 0.8, 0.8], [epochs, 0.2, 0.3, 0.3]]
    replica = {"epochs": epochs, "ended_by": "epochs", "best_epoch": 1, "validation": 0.1, "curve": curve}
    facts = {
        "cell": str(cell),
        "hash": hashlib.sha256(json.dumps(configuration, sort_keys=True).encode()).hexdigest(),
        "configuration": configuration,
        "data": {"train": train},
        "device": "none",
        "written": "2000-01-01T00:00:00+00:00",
        "replicas": [
            replica | {"seed": seed, "test": {"best": best or value, "last": value}} for seed, value in enumerate(last)
        ],
    }
    path = results_folder() / profile / cell.training / "released" / f"{cell.model}-{cell.edges}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts))
    return path


def write_all(profile="paper", specs=("described", "released")):
    """Every cell, with levels that make most of the paper's claims true."""
    rank = {
        "pna": -3.0,
        "pna-no-scalers": -2.8,
        "mpnn-max": -2.6,
        "mpnn-sum": -2.4,
        "gat": -2.2,
        "gcn": -2.0,
        "gin": -1.8,
    }
    rank |= {
        "mean-max-min": -2.7,
        "moments-1": -2.1,
        "moments-2": -2.3,
        "moments-3": -2.7,
        "moments-4": -2.6,
        "moments-5": -2.5,
    }
    penalty = {"standard": 0.3, "single-task": 0.2}
    for cell in all_cells(specs):
        level = rank[cell.model] + penalty.get(cell.training, 0.0)
        levels = {"families/line": [level + 0.4] * 6} if cell.training == "multitask" else None
        write_result(cell, profile, level, noise=0.001, levels=levels)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """An empty folder of results, and one of figures."""
    monkeypatch.setenv("PNA_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PNA_FIGURES", str(tmp_path / "figures"))
    return tmp_path / "results"


@pytest.fixture(scope="session")
def full(tmp_path_factory):
    """A folder with every cell under the paper's profile, made once."""
    folder = tmp_path_factory.mktemp("full")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PNA_RESULTS", str(folder / "results"))
        write_all()
    return folder / "results"
