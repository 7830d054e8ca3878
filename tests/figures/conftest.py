import numpy as np
import pytest

from pna.experiments import TRAININGS, Cell, Figure6Run, all_cells, run_of
from pna.experiments.realworld import PROFILES as FIGURE6_PROFILES
from pna.figures.runs import profile_named
from pna.multitask import FAMILIES, RELEASED_MAXIMA, TASKS
from pna.multitask.real import GROUPS
from pna.training.store import ReplicaResult, Result, save

NAMES = [task.name for task in TASKS]
SIZES = (20, 25, 30, 35, 40, 45, 60, 75, 95)


def tests_of(run, level):
    """The test sets of a run with log10 errors at `level` on each task; real and redrawn graphs only by `levels`."""
    sets = {
        "multitask": ["test"],
        "multitask-15-24": ["test"],
        "families": [family.name for family in FAMILIES],
        "extrapolation": [f"test_{start}_{start + 5}" for start in SIZES],
        "redrawn": [f"test_{k}" for k in range(1, 6)],
        "real": [group for group in GROUPS if group not in ("train", "validation")],
    }
    return {
        f"{name}/{split}": [level] * len(NAMES)
        for name in run.collections
        for split in sets.get(name.partition("@")[0], ())
    }


def result_of(run, facts, replicas):
    """A result without a history."""
    past = {"seconds": 1.0, "device": "none", "versions": {}, "code": "0" * 64, "commit": None}
    written = "2000-01-01T00:00:00+00:00"
    configuration = run.configuration
    return Result(str(run.cell), run.hash, configuration, facts, **past, written=written, replicas=tuple(replicas))


def write_result(cell, profile="paper", level=-2.0, noise=0.0, levels=None, baseline=-1.0, diverged=()):
    """A result as the store writes it, with known errors: log10 MSE `level`, a little more for later seeds."""
    cell = Cell.parse(cell) if isinstance(cell, str) else cell
    profile = profile_named(profile)
    run = run_of(cell, profile)
    rng = np.random.default_rng(0)
    replicas, sets = [], tests_of(run, level) | (levels or {})
    for seed in run.seeds:
        for task in run.tasks:
            shift = 0.01 * (seed % 1_000) + noise * float(rng.normal())
            errors = {name: [float(10 ** (value + shift)) for value in row] for name, row in sets.items()}
            gone = seed in diverged
            replicas.append(
                ReplicaResult(
                    seed=seed,
                    task=None if task is None else NAMES[task],
                    epochs=profile.epochs,
                    best_epoch=1,
                    ended_by="divergence" if gone else "epochs",
                    validation=None if gone else float(10 ** (level + shift)),
                    test={name: [None] * 6 if gone else row for name, row in errors.items()},
                    curve=[[1, 1.0, 1.0]],
                )
            )
    facts = {
        "tasks": NAMES,
        "maxima": RELEASED_MAXIMA.tolist(),
        "baseline": {name: dict.fromkeys([*NAMES, "average"], baseline) for name in sets},
    }
    save(run.result, result_of(run, facts, replicas))
    return run.result


def write_real(cell, profile, last, best=None, epochs=1_000, train="official"):
    """A result of a real-world cell as its trainer writes it: a seed for each of the numbers after the last epoch."""
    budget = FIGURE6_PROFILES["paper"].changed(epochs=epochs if profile != "paper" else None)
    run = Figure6Run(Cell.parse(cell), budget)
    run.seeds = list(range(len(last)))
    curve = [[1, 0.9, 0.8, 0.8], [epochs, 0.2, 0.3, 0.3]]
    replicas = (
        ReplicaResult(seed, None, epochs, 1, "epochs", 0.1, {"test/best": [best or value], "test/last": [value]}, curve)
        for seed, value in enumerate(last)
    )
    result = result_of(run, {"data": {"train": train}}, replicas)
    path = run.result.parents[3] / profile / run.cell.place
    save(path, result)
    return path


def write_score(cell, mean, deviation, seeds):
    """A real-world result at the paper's budget with a given mean and deviation (n - 1) over an even number of seeds,
    or one, in figure 6's unit.
    """
    unit = 1 if cell.training == "zinc" else 100
    reach = deviation * np.sqrt((seeds - 1) / seeds)
    values = [(mean + (reach if seed % 2 else -reach)) / unit for seed in range(seeds)]
    return write_real(str(cell), "paper", values)


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
        "pna-soft": -2.9,
        "moments-1": -2.1,
        "moments-2": -2.3,
        "moments-3": -2.7,
        "moments-4": -2.6,
        "moments-5": -2.5,
    }
    penalty = {"standard": 0.3, "single-task": 0.2, "no-gru": 0.4, "mean-readout": 0.1}
    for cell in (cell for cell in all_cells(specs) if cell.training in TRAININGS):
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
