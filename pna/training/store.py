"""The store: one small JSON per finished cell, with its configuration, per-seed errors, curves and provenance."""

import hashlib
import json
import math
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

import pna
from pna.experiments import Cell, Profile
from pna.multitask import TASKS
from pna.training.cells import CellRun
from pna.training.files import read_json, write_json, write_tensors

__all__ = ["finite", "five_best", "load", "mean_log_errors", "provenance", "record", "result_path", "results_folder"]
__all__ += ["table_of", "thinned"]

CURVE_POINTS = 500


def results_folder() -> Path:
    """Where results are kept: the folder in the environment variable PNA_RESULTS, or else ./results."""
    return Path(os.environ.get("PNA_RESULTS") or "results")


def result_path(cell: Cell, profile: Profile) -> Path:
    """The file of one cell under one profile."""
    return results_folder() / profile.name / cell.training / cell.spec / f"{cell.model}-{cell.hidden}.json"


def record(run: CellRun) -> Path:
    """Tests the best weights of a finished cell, then writes them and the result; the checkpoint goes last."""
    tests = {f"{name}/{split}": e for name in run.training.tests for split, e in run.test(name).items()}
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
        "baseline": _baselines(run),
        "seconds": round(run.seconds, 1),
        **provenance(r.theta.is_cuda),
        "replicas": [_replica(run, row, tests, curves[:, row]) for row in range(len(r.best))],
    }
    path = result_path(run.cell, run.profile)
    write_json(path, facts)
    run.checkpoint.unlink(missing_ok=True)
    return path


def provenance(on_gpu: bool) -> dict:
    """What a result says of where it comes from: device, versions, code, time."""
    return {
        "device": torch.cuda.get_device_name() if on_gpu else platform.machine(),
        "versions": {name: version(name) for name in ("torch", "torch_geometric", "numpy", "networkx")}
        | {"python": platform.python_version()},
        "code": _code_hash(),
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
        "test": {
            split: [finite(error) if r.best_epoch[row] else None for error in errors[row].tolist()]
            for split, errors in tests.items()
        },
        "curve": thinned(curve[:epochs]),
    }


def thinned(curve: Tensor) -> list[list[float | None]]:
    """[epoch, training loss, validation loss, …] of at most CURVE_POINTS epochs, the first and the last among them."""
    points = torch.linspace(0, len(curve) - 1, min(CURVE_POINTS, len(curve))).round().long().unique().tolist()
    return [[epoch + 1, *(finite(float(f"{loss:.6g}")) for loss in curve[epoch].tolist())] for epoch in points]


def _baselines(run: CellRun) -> dict[str, dict[str, float | None]]:
    """log10 MSE of predicting the training mean, on each test split, in the units of the training set."""
    rows = {}
    for collection in run.training.tests:
        data = run.data(collection)
        for split in data.splits:
            if split.role == "test":
                row = run.own_data.baseline(data[split.name], units=run.own_data.maxima)
                rows[f"{collection}/{split.name}"] = {task: finite(round(value, 5)) for task, value in row.items()}
    return rows


def finite(value: float) -> float | None:
    """A number that JSON knows, or null."""
    return value if math.isfinite(value) else None


def _code_hash() -> str:
    """Of the package's sources."""
    root = Path(pna.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".cu", ".cuh")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
