"""Training on the multi-task benchmark: milliseconds per epoch and run, beside the released code's and plain torch.

    python -m benchmarks.training [--models pna gcn …] [--cells standard/released/pna/16 …] [--replicas 10 40]
        [--epochs 5] [--plain] [--breakdown]

An epoch is ten steps of 512 graphs, N = 15 to 24, and the validation set. The released code's seconds are facts, as
measured by running it on one H200; our plain-torch path runs in the same call with --plain. With --breakdown the time
of each kernel within one epoch follows. Prints a table and, last, one JSON line.
"""

import argparse
import contextlib
import json
import statistics
import time

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.machine import describe
from pna.experiments import PROFILES, Cell, MultiTaskRun, Profile
from pna.kernels.choice import plain
from pna.training.replicas import Replicas
from pna.training.trainer import Trainer

RELEASED = {  # seconds per epoch of one run of the released code on one H200
    "pna": 1.445,
    "pna-no-scalers": 1.382,
    "mpnn-sum": 0.945,
    "mpnn-max": 1.085,
    "gat": 0.949,
    "gcn": 0.489,
    "gin": 0.601,
}


def prepare(
    model: str, spec: str, replicas: int, profile: Profile, device: str, dtype: torch.dtype = torch.float32
) -> tuple[Trainer, Replicas]:
    """The trainer of a model's cell, and its replicas before the first epoch."""
    return prepare_cell(f"multitask/{spec}/{model}/16", replicas, profile, device, dtype)


def prepare_cell(
    name: str, replicas: int, profile: Profile, device: str, dtype: torch.dtype = torch.float32
) -> tuple[Trainer, Replicas]:
    """The same of any cell."""
    run = MultiTaskRun(Cell.parse(name), profile.changed(seeds=replicas), device, dtype)
    return run.trainer, run.fresh()


def measure(trainer: Trainer, replicas: Replicas, epochs: int) -> float:
    """The median seconds of an epoch of all replicas together, after two that are not counted."""
    times, steps = [], trainer.epochs(replicas)
    for _ in range(epochs + 2):
        start = time.perf_counter()
        next(steps)
        if replicas.theta.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def breakdown(trainer: Trainer, replicas: Replicas) -> dict[str, float]:
    """Milliseconds of each kernel in one epoch, the longest first."""
    steps = trainer.epochs(replicas)
    next(steps)
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        next(steps)
        torch.cuda.synchronize()
    times = {event.key: event.device_time_total / 1e3 for event in recorded.key_averages()}
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def main() -> None:
    """Measure each model with each number of replicas."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=RELEASED)
    parser.add_argument("--cells", nargs="+", default=[], help="by name, as multitask/released/moments-5/16")
    parser.add_argument("--spec", default="released")
    parser.add_argument("--replicas", nargs="+", type=int, default=[10, 40])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--profile", choices=PROFILES, default="paper")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--plain", action="store_true", help="measure the plain-torch path as well, with ten replicas")
    parser.add_argument("--breakdown", action="store_true", help="print the time of each kernel")
    args = parser.parse_args()
    budget, rows = PROFILES[args.profile], []
    models = args.models or ([] if args.cells else list(RELEASED))
    names = {model: f"multitask/{args.spec}/{model}/16" for model in models} | {name: name for name in args.cells}
    print(f"{'model':<34}{'replicas':>9}{'path':>9}{'ms / epoch / run':>18}{'times the released code':>25}")
    for model, cell in names.items():
        jobs = [(replicas, "kernels") for replicas in args.replicas]
        jobs += [(min(10, args.replicas[0]), "plain")] * args.plain
        for replicas, path in jobs:
            with plain() if path == "plain" else contextlib.nullcontext():
                trainer, state = prepare_cell(cell, replicas, budget, args.device)
                ms = measure(trainer, state, args.epochs) * 1e3 / replicas
            ratio = RELEASED[model] * 1e3 / ms if model in RELEASED and args.profile == "paper" else None
            rows.append({"model": model, "replicas": replicas, "path": path, "ms": ms, "ratio": ratio})
            said = "-" if ratio is None else f"{ratio:.0f}"
            print(f"{model:<34}{replicas:>9}{path:>9}{ms:>18.3f}{said:>25}", flush=True)
            if args.breakdown and path == "kernels":
                kernels = breakdown(trainer, state)
                for name, t in list(kernels.items())[:16]:
                    print(f"    {t:9.3f} ms  {name[:90]}")
                rows[-1]["kernels"] = {name: round(t, 3) for name, t in list(kernels.items())[:16]}
    said = {"benchmark": "training", "spec": args.spec, "breakdown": args.breakdown, "rows": rows}
    print(json.dumps({**said, "machine": describe()}))


if __name__ == "__main__":
    main()
