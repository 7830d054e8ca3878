"""The result of a real-world cell: what is written of it, and the mean and deviation that figure 6 shows."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pna.networks import count_parameters
from pna.realworld.run import RealRun
from pna.training.files import write_json, write_tensors
from pna.training.store import finite, provenance, thinned

__all__ = ["record_real", "summary"]


def record_real(run: RealRun) -> Path:
    """Tests a finished cell, then writes its best weights and its result; the checkpoint goes last."""
    tests, r = run.test(), run.replicas
    write_tensors(
        run.weights,
        {"theta": r.best_theta, "state": r.best_state, "validation": r.best_metric},
        {"hash": run.hash, "cell": str(run.cell), "seeds": run.seeds},
    )
    facts = {
        "cell": str(run.cell),
        "hash": run.hash,
        "configuration": run.configuration,
        "data": run.data.facts | {"graphs": {split: len(graphs) for split, graphs in run.splits.items()}},
        "metric": run.cell.dataset.metric,
        "parameters": count_parameters(run.trainer.lifted.network),
        "delta": run.degrees.delta,
        "seconds": round(run.seconds, 1),
        **provenance(r.theta.is_cuda),
        "replicas": [_replica(run, row, tests) for row in range(len(r))],
    }
    write_json(run.result, facts)
    run.checkpoint.unlink(missing_ok=True)
    return run.result


def _replica(run: RealRun, row: int, tests: dict[str, Tensor]) -> dict:
    r = run.replicas
    epochs, diverged = int(r.epoch[row]), bool(r.diverged[row])
    slow = float(r.learning_rate[row]) < run.model.min_learning_rate
    return {
        "seed": run.seeds[row],
        "epochs": epochs,
        "ended_by": "divergence" if diverged else "learning rate" if slow else "epochs",
        "best_epoch": int(r.best_epoch[row]),
        "learning_rate": float(f"{r.learning_rate[row].item():.6g}"),
        "validation": finite(float(r.best_metric[row])),
        "test": {name: finite(float(values[row])) for name, values in tests.items()},
        "curve": thinned(torch.stack(run.curves)[:epochs, row]),
    }


def summary(facts: dict) -> dict[str, tuple[float, float]]:
    """Mean and deviation (n - 1) over the replicas of the test metric, with the best and with the last weights."""
    rows = {}
    for name in ("best", "last"):
        values = [replica["test"][name] for replica in facts["replicas"] if replica["test"][name] is not None]
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        rows[name] = (float(np.mean(values)) if values else float("nan"), deviation)
    return rows
