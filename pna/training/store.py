"""The store: one small JSON per finished cell, with its configuration, per-seed errors, curves and provenance."""

import hashlib
import json
import math
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

import pna
from pna.departures import departures_of
from pna.experiments import Cell, Profile
from pna.multitask import TASKS
from pna.training.cells import CellRun
from pna.training.files import read_json, write_json, write_tensors

__all__ = ["finite", "five_best", "load", "mean_log_errors", "provenance", "record", "result_path", "results_folder"]
__all__ += ["table_of", "test_more", "thinned", "untested"]

CURVE_POINTS = 500


def results_folder() -> Path:
    """Where results are kept: the folder in the environment variable PNA_RESULTS, or else ./results."""
    return Path(os.environ.get("PNA_RESULTS") or "results")


def result_path(cell: Cell, profile: Profile) -> Path:
    """The file of one cell under one profile."""
    return results_folder() / profile.name / cell.training / cell.spec / f"{cell.model}-{cell.hidden}.json"


def record(run: CellRun) -> Path:
    """Tests the best weights of a finished cell, then writes them and the result; the checkpoint goes last."""
    tests = {f"{name}/{split}": e for name in run.cell.tests for split, e in run.test(name).items()}
    r = run.replicas
    write_tensors(
        run.weights,
        {"theta": r.best_theta, "state": r.best_state, "validation": r.best},
        {"hash": run.hash, "cell": str(run.cell), "seeds": run.seeds},
    )
    curves = torch.stack(run.curves)  # [epochs, R, 2]
    facts = {
        "cell": str(run.cell),
        "hash": run.hash,
        "configuration": run.configuration,
        "tasks": [task.name for task in TASKS],
        "maxima": run.own_data.maxima.tolist(),
        "baseline": _baselines(run, run.cell.tests),
        "seconds": round(run.seconds, 1),
        **provenance(r.theta.is_cuda),
        "replicas": [_replica(run, row, tests, curves[:, row]) for row in range(len(r.best))],
    }
    path = result_path(run.cell, run.profile)
    write_json(path, facts)
    run.checkpoint.unlink(missing_ok=True)
    return path


def untested(run: CellRun, facts: dict) -> list[str]:
    """The collections that a recorded cell is to be tested on and has not been."""
    tested = {split.partition("/")[0] for split in facts["replicas"][0]["test"]}
    return [collection for collection in run.cell.tests if collection not in tested]


def test_more(run: CellRun, facts: dict) -> Path:
    """Tests a recorded cell's saved weights on the collections that it has not been tested on, and adds the errors."""
    collections = untested(run, facts)
    tests = {f"{name}/{split}": e for name in collections for split, e in run.test(name).items()}
    for row, replica in enumerate(facts["replicas"]):
        replica["test"] |= _errors(run, row, tests)
    facts["baseline"] = _baselines(run, run.cell.tests)
    path = result_path(run.cell, run.profile)
    write_json(path, facts)
    return path


def provenance(on_gpu: bool) -> dict:
    """What a result says of where it comes from: device, versions, code, time."""
    return {
        "device": torch.cuda.get_device_name() if on_gpu else platform.machine(),
        "versions": {name: version(name) for name in ("torch", "torch_geometric", "numpy", "networkx")}
        | {"python": platform.python_version()},
        "code": _code_hash(),
        "commit": _commit(),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def load(path: Path) -> dict:
    """A result; a file whose configuration does not have the hash it claims is refused."""
    facts = read_json(path)
    text = json.dumps(facts.get("configuration"), sort_keys=True)
    if hashlib.sha256(text.encode()).hexdigest() != facts.get("hash"):
        raise ValueError(f"{path} has been altered: its configuration does not have the hash that it claims")
    return facts


def five_best(validation: Tensor, tasks: Sequence[int | None], task: int) -> Tensor:
    """The paper's choice for one task: of the replicas trained on it, the five with the least validation error."""
    trained = torch.tensor([own is None or own == task for own in tasks]) & validation.isfinite()
    rows = trained.nonzero().flatten()
    return rows[validation[rows].argsort(stable=True)[:5]]


def mean_log_errors(errors: Tensor, validation: Tensor, tasks: Sequence[int | None]) -> list[float]:
    """The mean log10 MSE of the five best replicas on each task, from errors [R, 6]: what figure 4b shows."""
    return [float(errors[five_best(validation, tasks, k), k].log10().mean()) for k in range(len(TASKS))]


def table_of(facts: dict) -> dict[str, list[float]]:
    """mean_log_errors of a result on each of its test sets."""
    replicas = facts["replicas"]
    validation = _tensor([replica["validation"] for replica in replicas])
    tasks = [None if replica["task"] is None else facts["tasks"].index(replica["task"]) for replica in replicas]
    tests = {split: _tensor([replica["test"][split] for replica in replicas]) for split in replicas[0]["test"]}
    return {split: mean_log_errors(errors, validation, tasks) for split, errors in tests.items()}


def _tensor(values: list) -> Tensor:
    """Of numbers, null standing for what is not finite."""
    return torch.tensor([_tensor(v).tolist() if isinstance(v, list) else math.inf if v is None else v for v in values])


def _replica(run: CellRun, row: int, tests: dict[str, Tensor], curve: Tensor) -> dict:
    r = run.replicas
    task = list(run.tasks)[row % len(run.tasks)]
    epochs, diverged = int(r.epoch[row]), bool(r.diverged[row])
    return {
        "seed": run.seeds[row // len(run.tasks)],
        "task": None if task is None else TASKS[task].name,
        "epochs": epochs,
        "best_epoch": int(r.best_epoch[row]),
        "diverged_at_epoch": epochs if diverged else None,
        "validation": finite(float(r.best[row])),
        "test": _errors(run, row, tests),
        "curve": thinned(curve[:epochs]),
    }


def _errors(run: CellRun, row: int, tests: dict[str, Tensor]) -> dict[str, list[float | None]]:
    """The errors of a replica; null where no epoch gave it weights."""
    learned = math.isfinite(run.replicas.best[row])
    return {split: [finite(e) if learned else None for e in errors[row].tolist()] for split, errors in tests.items()}


def thinned(curve: Tensor) -> list[list[float | None]]:
    """[epoch, training loss, validation loss, …] of at most CURVE_POINTS epochs, the first and the last among them."""
    points = torch.linspace(0, len(curve) - 1, min(CURVE_POINTS, len(curve))).round().long().unique().tolist()
    return [[epoch + 1, *(finite(float(f"{loss:.6g}")) for loss in curve[epoch].tolist())] for epoch in points]


def _baselines(run: CellRun, collections: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """log10 MSE of predicting the training mean, on each test split, in the units of the training set."""
    rows, batched = {}, "D14" in departures_of(run.cell.spec)
    for collection in collections:
        data = run.data(collection)
        for split in data.splits:
            if split.role == "test":
                row = run.own_data.baseline(data[split.name], run.own_data.maxima, batched)
                rows[f"{collection}/{split.name}"] = {task: finite(round(value, 5)) for task, value in row.items()}
    return rows


def finite(value: float) -> float | None:
    """A number that JSON knows, or null."""
    return value if math.isfinite(value) else None


def _commit() -> str | None:
    """The commit that the package is of: PNA_COMMIT, or what git says of its folder; null if neither knows."""
    if named := os.environ.get("PNA_COMMIT"):
        return named
    try:
        asked = ["git", "-C", str(Path(pna.__file__).parent), "rev-parse", "HEAD"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _code_hash() -> str:
    """Of the package's sources."""
    root = Path(pna.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".cu", ".cuh")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
