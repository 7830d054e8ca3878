"""What limits a training step of figure 6, or the aggregation of a large graph, by the GPU's own counters.

    python -m benchmarks.counters [cifar10/released/pna/edges] [--steps 1] [--keep]
    python -m benchmarks.counters power-law

Starts itself under Nsight Compute (ncu, which must be allowed to read the counters), does some steps, and counts the
last --steps of them, kernel by kernel: how long each takes, and its use of memory, both caches, instruction issue and
float32 units, as a share of the most that is possible. A step of a cell trains all its seeds on one batch, filled up to
the largest shape (on CIFAR10 a tenth more nodes than usual). A step of `uniform` or `power-law` is both passes of
benchmarks.aggregation on its graph of this name. Kernels run one by one, from cold caches, so their sum is longer than
a step of a training; the shares are what counts.

Prints the kernels by time and, weighted by time, what limits the step. A kernel that uses more than half of some
resource is limited by the one it uses most; any other waits, for memory or to be started.
"""

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.aggregation import AGGREGATORS, power_law, uniform
from benchmarks.machine import describe, keep
from pna import Neighbourhoods
from pna.dispatch import aggregate
from pna.experiments import Cell, Figure6Run
from pna.experiments.realworld import PROFILES, epoch_batches

TIME = "gpu__time_duration.sum"
# Shares of the most that is possible, in percent.
SHARES = {
    "memory": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    "L1": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "issue": "sm__inst_issued.avg.pct_of_peak_sustained_elapsed",
    "float32": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed",
}
WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
LIMITED = 50.0  # percent
WAITS = "waiting"
GRAPHS = {"uniform": uniform, "power-law": power_law}
NODES, EDGES, FEATURES = 1_000_000, 10_000_000, 64  # of these graphs, as in benchmarks.aggregation
WARM = 3  # steps before, in which kernels are compiled
TOP = 12  # kernels that are listed
NANOSECONDS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6}


@dataclass(frozen=True)
class Counted:
    """One launch: its nanoseconds, its use of each resource and its active warps, in percent."""

    kernel: str
    time: float
    shares: dict[str, float]
    warps: float

    @property
    def limit(self) -> str:
        """The resource that it uses most, if that is by more than half."""
        name = max(self.shares, key=self.shares.__getitem__)
        return name if self.shares[name] > LIMITED else WAITS


def launches(text: str) -> list[Counted]:
    """Read launches from ncu's CSV, a row for each counter of each launch; lines before the header are ignored."""
    lines = text.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise ValueError(f"ncu counted nothing; its last words: {' / '.join(lines[-5:]) or 'none'}")
    metrics: dict[str, dict[str, float]] = defaultdict(dict)
    names = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        value = float(row["Metric Value"].replace(",", ""))
        scale = NANOSECONDS[row["Metric Unit"]] if row["Metric Name"] == TIME else 1.0
        metrics[row["ID"]][row["Metric Name"]] = value * scale
        names[row["ID"]] = row["Kernel Name"]
    return [
        Counted(names[k], of[TIME], {name: of[metric] for name, metric in SHARES.items()}, of[WARPS])
        for k, of in metrics.items()
    ]


def by_kernel(counted: Iterable[Counted], steps: int) -> list[dict]:
    """Add up launches of the same name, the longest first; shares are weighted by time."""
    groups = defaultdict(list)
    for launch in counted:
        groups[launch.kernel].append(launch)
    rows = []
    for name, group in groups.items():
        time = sum(launch.time for launch in group)
        mean = {key: sum(x.time * x.shares[key] for x in group) / time for key in SHARES}
        warps = sum(x.time * x.warps for x in group) / time
        rows.append(
            {"kernel": name, "launches": len(group) / steps, "microseconds": time / steps / 1e3, "warps": warps} | mean
        )
    return sorted(rows, key=lambda row: -row["microseconds"])


def limits(counted: Iterable[Counted]) -> dict[str, float]:
    """Share of the total time that each resource limits, the largest first."""
    times = defaultdict(float)
    for launch in counted:
        times[launch.limit] += launch.time
    total = sum(times.values())
    return {name: time / total for name, time in sorted(times.items(), key=lambda item: -item[1])}


def training_steps(cell: Cell, steps: int, profile: str) -> Iterator[None]:
    """Train a cell for WARM + steps steps, and yield before each."""
    run = Figure6Run(cell, PROFILES[profile], "cuda")
    replicas, trainer = run.fresh(), run.trainer
    orders = np.stack([epoch_batches(len(trainer.train), trainer.size, seed, 0) for seed in run.seeds], axis=1)
    rows = torch.from_numpy(orders[: WARM + steps]).cuda()  # [batches, R, size]
    width = max(trainer.model.hidden, trainer.model.out)
    of_noise = (len(replicas), trainer.model.layers, trainer.largest.nodes, width)
    noise = torch.rand(of_noise, device="cuda") if trainer.model.dropout > 0 else None
    for row in rows:
        yield
        trainer.step(replicas, row, trainer.largest, noise)


def aggregations(graph: str, steps: int) -> Iterator[None]:
    """Aggregate a graph forward and backward WARM + steps times, and yield before each."""
    torch.manual_seed(0)
    neighbourhoods = Neighbourhoods.of(GRAPHS[graph](NODES, EDGES), NODES).with_transpose()
    x = torch.randn(NODES, FEATURES, device="cuda", requires_grad=True)
    g = torch.rand(NODES, len(AGGREGATORS), FEATURES, device="cuda")
    for _ in range(WARM + steps):
        yield
        torch.autograd.grad(aggregate(neighbourhoods, AGGREGATORS, x), x, g)


def work(what: str, steps: int, profile: str) -> None:
    """Do some steps to warm up, then `steps` more between the marks that ncu looks for."""
    each = aggregations(what, steps) if what in GRAPHS else training_steps(Cell.parse(what), steps, profile)
    for k, _ in enumerate(each):
        if k == WARM:
            torch.cuda.synchronize()
            print("counting", flush=True)
            torch.cuda.profiler.start()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def count(what: str, steps: int, profile: str) -> list[Counted]:
    """Run this file under ncu and return its output."""
    if shutil.which("ncu") is None:
        raise ValueError("ncu is not on the PATH: install NVIDIA's Nsight Compute")
    metrics = ",".join((TIME, WARPS, *SHARES.values()))
    command = [sys.executable, "-m", "benchmarks.counters", what, "--steps", str(steps), "--profile", profile]
    words = ["ncu", "--csv", "--metrics", metrics, "--profile-from-start", "off", "--clock-control", "none"]
    done = subprocess.run([*words, *command, "--work"], stdout=subprocess.PIPE, text=True)
    return launches(done.stdout)


def main() -> None:
    """Count the kernels of a step and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "what", nargs="?", default="cifar10/released/pna/edges", help="a cell of figure 6, uniform or power-law"
    )
    parser.add_argument("--steps", type=int, default=1, help="that are counted")
    parser.add_argument("--profile", choices=PROFILES, default="paper", help="smoke: a few graphs, to try it")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)  # the process under ncu
    parser.add_argument("--keep", action="store_true", help="put the JSON line into benchmarks/results.jsonl")
    options = parser.parse_args()
    try:
        what = options.what if options.what in GRAPHS else str(Cell.parse(options.what))
        if options.work:
            work(what, options.steps, options.profile)
            return
        counted = count(what, options.steps, options.profile)
    except ValueError as error:
        parser.error(str(error))
    rows, limited = by_kernel(counted, options.steps), limits(counted)
    print(f"{'kernel':<50}{'launches':>9}{'us':>8}" + "".join(f"{name:>9}" for name in (*SHARES, "warps")))
    for row in rows[:TOP]:
        shares = "".join(f"{row[name]:>8.0f}%" for name in (*SHARES, "warps"))
        print(f"{row['kernel'][:49]:<50}{row['launches']:>9.0f}{row['microseconds']:>8.0f}{shares}")
    whole = sum(row["microseconds"] for row in rows) / 1e3
    print(f"{what}: {whole:.2f} ms of kernels a step, limited by " + ", ".join(
        f"{name} {100 * share:.0f} %" for name, share in limited.items()
    ))  # fmt: skip
    row = {"cell": what, "milliseconds": whole, "limited_by": limited, "kernels": rows}
    line = {"benchmark": "counters", "rows": [row], "machine": describe()}
    print(json.dumps(line))
    if options.keep:
        keep([line], ("cell",))


if __name__ == "__main__":
    main()
