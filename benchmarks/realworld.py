"""Training of PNA on ZINC and CIFAR10, all seeds at once, beside a plain PyTorch Geometric implementation.

    python -m benchmarks.realworld [--data zinc cifar10] [--edges] [--batches 60] [--epochs 3] [--device cuda]

Both train the same network (embedding, four PNA layers with five towers, 1/√n, BatchNorm, LeakyReLU, residual, sum
readout) with Adam on batches of 128 graphs, and evaluate the validation set after each epoch. Ours trains the 4 seeds
of the paper together. Theirs is what one writes with torch_geometric: a DataLoader that shuffles, nn.PNAConv, one seed;
its layer mixes the towers before the normalisation, which changes no size. Theirs is timed on --batches training
batches and one pass over the validation set, and its epoch reckoned from them; ours on --epochs whole epochs after one
to warm up. The data set must be prepared (python -m pna realworld prepare).

Prints a table, then where our time goes: set-up (reading, moving to the device, the first step, in which kernels are
compiled and recorded), a step, an evaluation, and the kernels of a step by time. The last line is JSON; --keep puts it
into results.jsonl, in place of older rows of the same cells.

    python -m benchmarks.realworld --cells molhiv cifar10 mnist [--seconds 300] [--compile-in 12] [--batches 60]

measures ours alone, for any cells of figure 6 or all of a data set: the time of an epoch, reckoned from its last
--batches batches and its evaluation. A data set is read once for all its cells. With --seconds, cells that would
probably end later are left out and named. With --compile-in N the kernels of all cells are compiled beforehand, in N
processes at once; the set-up is then that of a training whose kernels are on disk. `pna figure6` and the report take
the hours that a cell would need from this JSON line, if it was kept.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks.machine import describe, keep
from benchmarks.plain_realworld import time_plain, wait
from pna.experiments import EXPERIMENTS, Cell, Figure6Run, Profile
from pna.experiments.realworld import PROFILES
from pna.realworld.data.datasets import DATASETS

DATA = ("zinc", "cifar10", "mnist")
PROFILED = 20  # steps of ours
TOP = 8  # kernels that are listed
CHUNK = 8  # batches of a cell; the median over chunks leaves one out in which something is compiled


def time_ours(run: Figure6Run, epochs: int) -> dict[str, float]:
    """Measure our seconds per epoch and run, and those of the set-up."""
    clock = Clock(run.device)
    set_up = {"read": clock.lap(run.data), "move": clock.lap(run.splits)}
    replicas = run.fresh()
    steps = run.trainer.steps(replicas)
    set_up["first_step"] = clock.lap(next(steps))
    whole(steps)
    clock.lap()
    for _ in range(epochs):
        whole(steps)
    seconds = clock.lap() / epochs
    in_epoch = -(-len(run.splits["train"]) // run.trainer.size)
    for _ in range(in_epoch - 1):
        next(steps)
    step = clock.lap() / max(1, in_epoch - 1)
    return {
        "seconds_per_epoch": seconds,
        "seconds_per_epoch_and_run": seconds / len(replicas),
        "runs": len(replicas),
        "set_up_seconds": sum(set_up.values()),
        "set_up": set_up,
        "steps_per_epoch": in_epoch,
        "step_seconds": step,
        "evaluation_seconds": clock.lap(next(steps)) - step,
        "kernels": kernels_of(steps, min(PROFILED, in_epoch - 1), run.device),
    }


class Clock:
    """A stopwatch whose laps end when the device has finished."""

    def __init__(self, device: str) -> None:
        self.device, self.start = device, time.perf_counter()

    def lap(self, _: object = None) -> float:
        """Seconds since the last lap; the tensors given are computed by then."""
        wait(self.device)
        before, self.start = self.start, time.perf_counter()
        return self.start - before


def whole(steps: Iterator[Tensor | None]) -> None:
    """Train to the end of the epoch."""
    while next(steps) is None:
        pass


def kernels_of(steps: Iterator[Tensor | None], count: int, device: str) -> dict:
    """Number of kernels that a training step launches, and the shares of the longest, by torch's profiler."""
    on_gpu = device.startswith("cuda")
    if count < 1:
        return {}
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as profiler:
        for _ in range(count):
            next(steps)
        wait(device)
    took = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    events = sorted(profiler.key_averages(), key=lambda event: -getattr(event, took))
    total = sum(getattr(event, took) for event in events)  # microseconds
    return {
        "per_step": sum(event.count for event in events) / count,
        "busy_seconds_per_step": total / count / 1e6,
        "longest": [[event.key[:60], event.count / count, getattr(event, took) / total] for event in events[:TOP]],
    }


def measure(name: str, edges: bool, profile: Profile, device: str, batches: int, epochs: int) -> dict:
    """Measure both implementations on one data set, and the ratio of their times per epoch and run."""
    cell = Cell.parse(f"{name}/released/pna/{'edges' if edges else 'no-edges'}")
    run = Figure6Run(cell, profile.changed(epochs=epochs + 3), device)
    ours, plain = time_ours(run, epochs), time_plain(run, batches)
    ratio = plain["seconds_per_epoch_and_run"] / ours["seconds_per_epoch_and_run"]
    graphs = {split: len(graphs) for split, graphs in run.splits.items()}
    return {"cell": str(cell), "graphs": graphs, "pna": ours, "torch_geometric": plain, "ratio": ratio}


# ---- ours alone, many cells ----


def cells_named(names: list[str]) -> list[Cell]:
    """Parse cells, each named itself or by its data set, grouped by data set."""
    every = EXPERIMENTS["figure6"].cells("released")
    cells = [
        cell
        for name in names
        for cell in (every if name in DATASETS else [Cell.parse(name)])
        if name in (cell.training, str(cell))
    ]
    if strange := [str(cell) for cell in cells if cell.training not in DATASETS]:
        raise ValueError(f"cells must be of figure 6, got {', '.join(strange)}")
    return sorted(
        dict.fromkeys(cells), key=lambda cell: list(dict.fromkeys(c.training for c in cells)).index(cell.training)
    )


def compile_beforehand(cells: list[Cell], profile: str, device: str, processes: int, seconds: float) -> None:
    """Run this command for a share of the cells in each process, so that their kernels are on disk."""
    size = -(-len(cells) // processes)
    shares = [[str(cell) for cell in cells[k : k + size]] for k in range(0, len(cells), size)]
    words = [sys.executable, "-m", "benchmarks.realworld", "--profile", profile, "--device", device, "--batches", "2"]
    words += ["--seconds", str(seconds)]
    running = [subprocess.Popen([*words, "--cells", *share], stdout=subprocess.DEVNULL) for share in shares]
    for process in running:
        process.wait()


def measure_cells(
    cells: list[Cell], profile: Profile, device: str, batches: int, seconds: float
) -> tuple[list[dict], list[str]]:
    """Measure a row for each cell; return the rows, and the cells for which no time was left."""
    begun, longest, rows, left = time.perf_counter(), 0.0, [], []
    shared: Figure6Run | None = None
    for cell in cells:
        start = time.perf_counter()
        if start - begun + longest > seconds:
            left.append(str(cell))
            continue
        run = Figure6Run(cell, profile, device)
        if shared is None or shared.cell.training != cell.training:
            clock = Clock(device)
            read = {"read": clock.lap(run.data), "move": clock.lap(run.splits)}
            shared, start = run, time.perf_counter()  # what is read for many is not one cell's
        run.data, run.splits = shared.data, shared.splits
        row = {"cell": str(cell)} | time_cell(run, read, batches)
        del run.trainer
        gc.collect()  # with its recordings
        longest = max(longest, time.perf_counter() - start)
        rows.append(row | {"measured_in_seconds": time.perf_counter() - start})
        print(cell_line(rows[-1]), flush=True)
    return rows, left


def time_cell(run: Figure6Run, read: dict[str, float], batches: int) -> dict:
    """Seconds of an epoch: its shuffles, its steps by the median of some of them, and its evaluation."""
    clock = Clock(run.device)
    replicas = run.fresh()
    in_epoch = -(-len(run.splits["train"]) // run.trainer.size)
    timed = min(batches, in_epoch - 1)
    steps = run.trainer.steps(replicas)
    replicas.position.fill_(in_epoch - min(2, in_epoch))  # as a training that goes on near the end of its epoch
    set_up = read | {"first_step": clock.lap(next(steps))}
    whole(steps)
    replicas.position.fill_(in_epoch - 1 - timed)
    clock.lap()
    first = clock.lap(next(steps))
    chunks = [min(CHUNK, timed - done) for done in range(1, timed, CHUNK)]
    laps = [clock.lap([next(steps) for _ in range(count)]) / count for count in chunks]
    step = statistics.median(laps or [first])
    last = clock.lap(next(steps)) if timed else first
    shuffle, evaluation = max(0.0, first - step), max(0.0, last - step)
    epoch = shuffle + in_epoch * step + evaluation
    return {
        "seconds_per_epoch": epoch,
        "seconds_per_epoch_and_run": epoch / len(replicas),
        "runs": len(replicas),
        "steps_per_epoch": in_epoch,
        "timed_steps": timed,
        "step_seconds": step,
        "evaluation_seconds": evaluation,
        "set_up_seconds": sum(set_up.values()),
        "set_up": set_up,
    }


def cell_line(row: dict) -> str:
    """Describe one cell's times in a line."""
    return (
        f"{row['cell']:<36}{row['seconds_per_epoch_and_run']:>9.4f} s per epoch and run of {row['runs']} "
        f"({row['steps_per_epoch']} steps of {1e3 * row['step_seconds']:.2f} ms, evaluation "
        f"{1e3 * row['evaluation_seconds']:.0f} ms); set-up {row['set_up_seconds']:.1f} s; "
        f"measured in {row['measured_in_seconds']:.1f} s"
    )


def print_breakdown(row: dict) -> None:
    """Describe where our time goes."""
    ours = row["pna"]
    parts = ", ".join(f"{name.replace('_', ' ')} {seconds:.1f} s" for name, seconds in ours["set_up"].items())
    print(f"\n{row['cell']}: set-up {ours['set_up_seconds']:.1f} s ({parts})")
    print(
        f"an epoch of {ours['runs']} seeds {ours['seconds_per_epoch']:.3f} s: {ours['steps_per_epoch']} steps of "
        f"{1e3 * ours['step_seconds']:.2f} ms and an evaluation of {1e3 * ours['evaluation_seconds']:.1f} ms"
    )
    if kernels := ours["kernels"]:
        busy = 1e3 * kernels["busy_seconds_per_step"]
        print(f"{kernels['per_step']:.0f} kernels a step, busy {busy:.2f} ms; by time:")
        for name, count, share in kernels["longest"]:
            print(f"  {100 * share:5.1f} %  {count:6.1f} times  {name}")


def main() -> None:
    """Measure the data sets or cells asked for, and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA[:2]))
    parser.add_argument("--edges", action="store_true", help="with edge features")
    parser.add_argument("--profile", choices=PROFILES, default="paper", help="smoke: a few graphs, to try it")
    parser.add_argument(
        "--batches", type=int, default=60, help="batches that are timed: of the plain implementation, or of a cell"
    )
    parser.add_argument("--epochs", type=int, default=3, help="timed epochs of ours")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cells", nargs="+", metavar="CELL", help="ours alone, of these cells or data sets")
    parser.add_argument(
        "--compile-in", type=int, default=0, metavar="N", help="of --cells: compile in N processes first"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of --cells: begin none that ends later")
    parser.add_argument("--keep", action="store_true", help="put the JSON line into benchmarks/results.jsonl")
    options = parser.parse_args()
    profile = PROFILES[options.profile]
    if options.cells:
        begun, cells = time.perf_counter(), cells_named(options.cells)
        if options.compile_in:
            compile_beforehand(cells, options.profile, options.device, options.compile_in, options.seconds / 2)
            print(f"kernels compiled in {time.perf_counter() - begun:.0f} s", flush=True)
        changed = profile.changed(epochs=4) if profile.epochs else profile
        left_for_it = options.seconds - (time.perf_counter() - begun)
        measured, left = measure_cells(cells, changed, options.device, options.batches, left_for_it)
        print(f"{len(measured)} cells in {time.perf_counter() - begun:.0f} s; no time for: {' '.join(left) or 'none'}")
        _end({"benchmark": "realworld_cells", "rows": measured, "left": left, "machine": describe()}, options.keep)
        return
    rows = []
    for name in options.data:
        rows.append(measure(name, options.edges, profile, options.device, options.batches, options.epochs))
    print(f"{'seconds per epoch and run':<34}{'ours':>10}{'seeds':>7}{'PyG':>10}{'ratio':>8}")
    for row in rows:
        ours, plain = row["pna"], row["torch_geometric"]
        print(
            f"{row['cell']:<34}{ours['seconds_per_epoch_and_run']:>10.4f}{ours['runs']:>7}"
            f"{plain['seconds_per_epoch_and_run']:>10.4f}{row['ratio']:>8.1f}"
        )
    for row in rows:
        print_breakdown(row)
    _end({"benchmark": "realworld", "rows": rows, "machine": describe()}, options.keep)


def _end(line: dict, record: bool) -> None:
    """Print a measurement as JSON, and record it if asked to."""
    print(json.dumps(line))
    if record:
        keep([line], ("cell",))


if __name__ == "__main__":
    main()
