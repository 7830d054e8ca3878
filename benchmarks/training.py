"""Training on the multi-task benchmark: milliseconds per epoch and run, beside the released code's and plain torch.

    python -m benchmarks.training [--models pna gcn …] [--cells standard/released/pna/16 …] [--replicas 10 40]
        [--epochs 5] [--plain] [--breakdown]
    python -m benchmarks.training --all    # every cell for a few epochs, and the hours that all of them would take

An epoch is ten steps of 512 graphs, N = 15 to 24, and the validation set. The released code's seconds are facts, as
measured by running it on one H200; our plain-torch path runs in the same call with --plain. With --breakdown the time
of each kernel within one epoch follows. Prints a table and, last, one JSON line.
"""

import argparse
import contextlib
import json
import multiprocessing
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.machine import describe
from pna.experiments import PROFILES, TRAININGS, Cell, MultiTaskRun, Profile, all_cells, run_of
from pna.kernels.choice import plain
from pna.published import RELEASED_SECONDS
from pna.training.replicas import Replicas
from pna.training.store import load
from pna.training.trainer import Trainer

ASSUMED = 4_000  # epochs of a run that is not recorded
SPAWN = multiprocessing.get_context("spawn")  # a forked process has no CUDA


def prepare(
    model: str, spec: str, replicas: int, profile: Profile, device: str, dtype: torch.dtype = torch.float32
) -> tuple[Trainer, Replicas]:
    """The trainer of a model's cell, and its replicas before the first epoch."""
    return prepare_cell(f"multitask/{spec}/{model}/16", replicas, profile, device, dtype)


def prepare_cell(
    name: str, replicas: int, profile: Profile, device: str, dtype: torch.dtype = torch.float32
) -> tuple[Trainer, Replicas]:
    """The same of any cell."""
    endless = replace(profile, seeds=replicas, epochs=PROFILES["paper"].epochs)
    run = MultiTaskRun(Cell.parse(name), endless, device, dtype)
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


def time_when_asked(cells: list[Cell], profile: Profile, epochs: int, device: str, asked: Connection) -> None:
    """In a process of its own: prepare one cell after another, and time each once the other processes are quiet."""
    for cell in cells:
        trainer, state = prepare_cell(str(cell), PROFILES["paper"].seeds, profile, device)
        next(trainer.epochs(state))  # compiles and records
        asked.send(len(state))
        asked.recv()
        asked.send(measure(trainer, state, epochs) * 1e3 / len(state))
        del trainer, state  # before the next cell takes its memory


def timed(cells: list[Cell], profile: Profile, epochs: int, device: str) -> Iterator[tuple[Cell, int, float]]:
    """Each cell, its runs and its milliseconds per epoch and run.

    Cells of one model and width share compiled kernels, and so a process. The processes prepare a cell each side by
    side; then each times its own, one process at a time.
    """
    families = defaultdict(list)
    for cell in cells:
        families[cell.model, cell.variant].append(cell)
    waiting, processes = [], []
    for family in families.values():
        ours, theirs = SPAWN.Pipe()
        processes.append(SPAWN.Process(target=time_when_asked, args=(family, profile, epochs, device, theirs)))
        processes[-1].start()
        theirs.close()  # so that a process that dies is an EOFError here, not a wait without end
        waiting.append((ours, family))
    for turn in range(max(len(family) for family in families.values())):
        waiting = [(pipe, family) for pipe, family in waiting if turn < len(family)]
        runs = [pipe.recv() for pipe, _ in waiting]
        for (pipe, family), count in zip(waiting, runs, strict=True):
            pipe.send("now")
            yield family[turn], count, pipe.recv()
    for process in processes:
        process.join()


def all_cells_take(profile: Profile, epochs: int, device: str) -> list[dict]:
    """Each cell's milliseconds per epoch and run, and its hours: by its recorded epochs, or 4,000 for each run."""
    rows = []
    print(f"{'cell':<42}{'runs':>6}{'ms / epoch / run':>18}{'epochs of all':>15}{'hours':>8}")
    cells = [cell for cell in all_cells() if cell.training in TRAININGS]
    for cell, runs, ms in timed(cells, profile, epochs, device):
        path = run_of(cell, PROFILES["paper"]).result
        recorded = path.exists()
        count = sum(r.epochs for r in load(path).replicas) if recorded else ASSUMED * runs
        hours = ms * count / 3.6e6
        rows.append({"cell": str(cell), "runs": runs, "ms": ms, "epochs": count, "hours": hours, "recorded": recorded})
        said = f"{count:,}" + ("" if recorded else " ?")
        print(f"{cell!s:<42}{runs:>6}{ms:>18.3f}{said:>15}{hours:>8.3f}", flush=True)
    print(f"all {len(rows)} cells, one after the other: {sum(row['hours'] for row in rows):.2f} hours")
    return rows


def main() -> None:
    """Measure each model with each number of replicas."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=RELEASED_SECONDS)
    parser.add_argument("--cells", nargs="+", default=[], help="by name, as multitask/released/moments-5/16")
    parser.add_argument("--spec", default="released")
    parser.add_argument("--replicas", nargs="+", type=int, default=[10, 40])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--profile", choices=PROFILES, default="paper")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--plain", action="store_true", help="measure the plain-torch path as well, with ten replicas")
    parser.add_argument("--breakdown", action="store_true", help="print the time of each kernel")
    parser.add_argument("--all", action="store_true", help="measure every cell, with the paper's ten seeds")
    args = parser.parse_args()
    budget, rows = PROFILES[args.profile], []
    if args.all:
        rows = all_cells_take(budget, args.epochs, args.device)
        print(json.dumps({"benchmark": "training --all", "rows": rows, "machine": describe()}))
        return
    models = args.models or ([] if args.cells else list(RELEASED_SECONDS))
    names = {model: f"multitask/{args.spec}/{model}/16" for model in models} | {name: name for name in args.cells}
    print(f"{'model':<34}{'replicas':>9}{'path':>9}{'ms / epoch / run':>18}{'times the released code':>25}")
    for model, cell in names.items():
        jobs = [(replicas, "kernels") for replicas in args.replicas]
        jobs += [(min(10, args.replicas[0]), "plain")] * args.plain
        for replicas, path in jobs:
            with plain() if path == "plain" else contextlib.nullcontext():
                trainer, state = prepare_cell(cell, replicas, budget, args.device)
                ms = measure(trainer, state, args.epochs) * 1e3 / replicas
            ratio = (
                RELEASED_SECONDS[model] * 1e3 / ms if model in RELEASED_SECONDS and args.profile == "paper" else None
            )
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
