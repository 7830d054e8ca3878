"""Training on the multi-task benchmark: milliseconds per epoch and run, beside the released code's and plain torch.

    python -m benchmarks.training [--cells standard/released/pna/16 …] [--replicas 10 40] [--plain] [--breakdown]
    python -m benchmarks.training --all    # every cell, and the hours of the whole paper alone and side by side

An epoch is ten steps of 512 graphs, N = 15 to 24, and the validation set. The released code's seconds are facts, as
measured by running it on one H200; our plain-torch path runs in the same call with --plain. With --breakdown the time
of each kernel within one epoch follows. Cells are prepared side by side and timed alone (crew.py). When the time budget
is over, the rows so far are printed. Prints a table and, last, JSON lines; --keep puts them into results.jsonl.

The hours of a cell: the time of an epoch is a straight line in the number of replicas that still run, through what is
measured with all of them and with two fifths; how long each ran is recorded, or else taken to be 4,000 epochs. The
hours do not include setting up, recording again when a replica leaves, and tests.

Side by side: as many cells as `pna train` takes at once run together for some seconds under MPS. The time that their
epochs would take one after the other, divided by the time that went by, is the factor by which the hours shrink.
"""

import argparse
import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from benchmarks.crew import Crew, Job
from benchmarks.machine import describe, keep
from pna.command_line import seconds
from pna.experiments import PROFILES, TRAININGS, Cell, all_cells, run_of
from pna.experiments.mps import mps
from pna.experiments.side_by_side import ON_A_GPU, visible_gpus
from pna.figures.published import RELEASED_SECONDS
from pna.training.store import load
from report.speed import in_figures

ROWS: dict[str, float] = {  # the goal with ten seeds, ms
    "multitask/released/pna/16": 1.2,
    "multitask/released/pna-no-scalers/16": 1.2,
    "multitask/released/mpnn-max/16": 1.2,
    "multitask/released/mpnn-sum/16": 1.2,
    "multitask/released/mean-max-min/16": 1.2,
    "multitask/released/moments-1/16": 1.2,
    "multitask/released/moments-2/16": 1.2,
    "multitask/released/moments-5/16": 2.5,
    "multitask/released/gat/16": 1.9,
    "multitask/released/gcn/16": 0.95,
    "multitask/released/gin/16": 1.2,
    "multitask/released/pna-no-scalers/20": 2.5,
    "multitask/released/mpnn-max/20": 2.5,
    "standard/released/pna/16": 2.5,
}
GOAL_40 = {"multitask/released/pna/16": 1.0}  # with forty seeds
GOAL_HOURS = 2
ASSUMED = 4_000  # epochs of a run that is not recorded
FEWER = 4  # of ten seeds
STRETCH = 15.0  # seconds side by side


# ---- the table ----


def table(cells: Sequence[str], options: argparse.Namespace, end: float) -> list[dict]:
    """A line for each cell, with a row for each number of replicas and path."""
    jobs = [Job(cell, count) for cell in cells for count in options.replicas]
    jobs += [Job(cell, min(10, options.replicas[0]), path="plain") for cell in cells if options.plain]
    lines: dict[str, list[dict]] = {cell: [] for cell in cells}
    print(f"{'cell':<38}{'seeds':>6}{'path':>9}{'ms / epoch / run':>18}{'goal':>6}{'times the released code':>25}")
    with Crew(jobs, PROFILES[options.profile], options.device) as crew:
        for ready in crew.rounds(end):
            for member, job in ready:
                times = crew.time(member, job, options.epochs) if time.monotonic() < end else None
                if times is None:
                    continue
                lines[job.cell].append(row := _row(job, *times[0], options.profile))
                print(_said(row), flush=True)
                if options.breakdown and job.path == "kernels" and (breakdown := crew.breakdown(member, job)):
                    row["kernels"] = {name: round(t, 3) for name, t in list(breakdown.items())[:16]}
                    print("\n".join(f"    {t:9.3f} ms  {name[:90]}" for name, t in row["kernels"].items()))
    _say_failed(crew)
    facts = {"benchmark": "training", "breakdown": options.breakdown}
    return [{**facts, "cell": cell, "rows": rows, "machine": describe()} for cell, rows in lines.items() if rows]


def _row(job: Job, replicas: int, epoch: float, profile: str) -> dict:
    """Facts of one measurement, with its goal and the speed relative to the released code where there are such."""
    training, spec, model, variant = job.cell.split("/")
    ms = epoch * 1e3 / replicas
    known = (training, spec, variant) == ("multitask", "released", "16") and model in RELEASED_SECONDS
    ratio = RELEASED_SECONDS[model] * 1e3 / ms if known and profile == "paper" else None
    goal = {10: ROWS, 40: GOAL_40}.get(job.seeds, {}).get(job.cell) if job.path == "kernels" else None
    name = model if known else job.cell
    return {"cell": job.cell, "model": name, "replicas": replicas, "path": job.path, "ms": ms, "ratio": ratio} | (
        {} if goal is None else {"goal": goal}
    )


def _said(row: dict) -> str:
    """Line of the table for one measurement."""
    goal, ratio = row.get("goal", "-"), "-" if row["ratio"] is None else f"{row['ratio']:,.0f}"
    return f"{row['cell']:<38}{row['replicas']:>6}{row['path']:>9}{row['ms']:>18.3f}{goal:>6}{ratio:>25}"


# ---- all cells ----


@dataclass(frozen=True)
class Epoch:
    """Time of an epoch as a straight line in the number R of replicas that run: alone + each · R seconds."""

    alone: float
    each: float

    @classmethod
    def through(cls, many: tuple[int, float], few: tuple[int, float]) -> "Epoch":
        """Fit the line to two measurements (replicas, seconds), with neither term negative."""
        each = max(0.0, (many[1] - few[1]) / (many[0] - few[0])) if many[0] > few[0] else many[1] / many[0]
        each = min(each, many[1] / many[0])
        return cls(many[1] - each * many[0], each)

    def seconds(self, epochs: Sequence[int]) -> float:
        """Seconds of a training whose replicas run the given numbers of epochs and then leave."""
        return self.alone * max(epochs) + self.each * sum(epochs)


def epochs_of(cell: Cell, runs: int) -> tuple[list[int], bool]:
    """Epochs that each run of a cell takes, and whether they are recorded."""
    path = run_of(cell, PROFILES["paper"]).result
    if not path.exists():
        return [ASSUMED] * runs, False
    return [replica.epochs for replica in load(path).replicas], True


def whole_paper(options: argparse.Namespace, end: float) -> dict:
    """Time every cell, those of the figures first and the large single tasks last; then some side by side."""
    figures = sorted(in_figures(), key=lambda cell: TRAININGS[cell.training].single_task)
    others = [cell for cell in all_cells() if cell.training in TRAININGS and cell not in figures]
    jobs = [Job(str(cell), PROFILES["paper"].seeds, FEWER) for cell in (*figures, *others)]
    on_gpu, rows, rates = options.device != "cpu", {}, {}
    begun, end = time.monotonic(), end - STRETCH - 10
    sharing = mps(visible_gpus(1)[0], print) if on_gpu else contextlib.nullcontext({})
    print(f"{'cell':<42}{'runs':>6}{'ms / epoch / run':>18}{'with fewer':>12}{'epochs':>15}{'hours':>8}")
    with sharing as environment, Crew(jobs, PROFILES[options.profile], options.device, environment) as crew:
        for ready in crew.rounds(end):
            print(f"-- {len(ready)} cells ready after {time.monotonic() - begun:.0f} s", flush=True)
            for member, job in ready:
                times = crew.time(member, job, options.epochs) if time.monotonic() < end else None
                if times is not None:
                    rows[job.cell] = _cell_row(job.cell, *times)
                    print(_cell_said(rows[job.cell]), flush=True)
            rates = rates or _side_by_side(crew, ready, rows)
    _say_failed(crew)
    facts = {"benchmark": "training --all", "mps": bool(environment), "at_once": len(rates)}
    factor = sum(rates[name] * rows[name]["epoch_ms"] / 1e3 for name in rates) if rates else None
    hours = _totals(rows, {str(cell) for cell in figures}, len(jobs) - len(figures), factor, len(rates))
    return facts | {"factor": factor, "hours": hours, "rows": list(rows.values()), "machine": describe()}


def _cell_row(name: str, many: tuple[int, float], few: tuple[int, float]) -> dict:
    """Facts of one cell, with the estimated hours of its whole training."""
    runs, epoch = many
    epochs, recorded = epochs_of(Cell.parse(name), runs)
    hours = Epoch.through(many, few).seconds(epochs) / 3600
    ms = {"epoch_ms": epoch * 1e3, "ms": epoch * 1e3 / runs, "fewer": few[0], "fewer_ms": few[1] * 1e3 / few[0]}
    return {"cell": name, "runs": runs, **ms, "epochs": sum(epochs), "hours": hours, "recorded": recorded}


def _cell_said(row: dict) -> str:
    """Line of the table for one cell."""
    epochs = f"{row['epochs']:,}" + ("" if row["recorded"] else " ?")
    times = f"{row['ms']:>18.3f}{row['fewer_ms']:>12.3f}"
    return f"{row['cell']:<42}{row['runs']:>6}{times}{epochs:>15}{row['hours']:>8.3f}"


def _side_by_side(crew: Crew, ready: list, rows: dict[str, dict]) -> dict[str, float]:
    """Epochs a second of several cells at once, each in its own process."""
    by_member = defaultdict(list)
    for member, job in ready:
        by_member[member] += [(member, job)] if member.open and job.cell in rows else []
    # Another place in each member's list, so that the cells are of different kinds.
    chosen = [jobs[k % len(jobs)] for k, jobs in enumerate(filter(None, by_member.values()))][:ON_A_GPU]
    if len(chosen) < 2:
        return {}
    rates = {job.cell: rate for job, rate in crew.together(chosen, STRETCH).items()}
    for name, rate in rates.items():
        print(f"-- side by side: {name:<42}{rate:8.1f} epochs a second; alone {1e3 / rows[name]['epoch_ms']:.1f}")
    return rates


def _totals(
    rows: dict[str, dict], figures: set[str], others: int, factor: float | None, at_once: int
) -> dict[str, float]:
    """Print the hours of the figures' cells and of the rest, one after the other and side by side."""
    sums = {"figures": [row["hours"] for name, row in rows.items() if name in figures]}
    sums["others"] = [row["hours"] for name, row in rows.items() if name not in figures]
    guessed = sum(not row["recorded"] for row in rows.values())
    aside = (
        f"{at_once} at once give {factor:.2f} times the throughput of one" if factor else "side by side not measured"
    )
    print(f"{guessed} cells are not recorded: {ASSUMED:,} epochs a run; {aside}")
    for part, what, count in (("others", "beyond the figures", others), ("figures", "the whole paper", len(figures))):
        hours, measured = sum(sums[part]), len(sums[part])
        beside = f", {hours / factor:.2f} h side by side" if factor else ""
        of = "" if measured == count else f" ({measured} of {count} cells: the rest was not measured)"
        goal = f" (goal {GOAL_HOURS} h)" if part == "figures" else ""
        print(f"{what}, {measured} cells: {hours:.2f} h one after the other{beside}{goal}{of}")
    return {part: sum(of) for part, of in sums.items()} | (
        {} if factor is None else {f"{part}, side by side": sum(of) / factor for part, of in sums.items()}
    )


def _say_failed(crew: Crew) -> None:
    """Print the jobs that failed, by reason."""
    for why in dict.fromkeys(crew.failed.values()):
        jobs = [job for job, reason in crew.failed.items() if reason == why]
        print(f"not measured, {why}: {' '.join(f'{job.cell}:{job.seeds}' for job in jobs)}")


def main() -> None:
    """Measure the rows of the table, or all cells with --all."""
    start = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", nargs="+", default=list(ROWS), help="by name, as multitask/released/moments-5/16")
    parser.add_argument("--replicas", nargs="+", type=int, default=[10, 40], help="how many seeds at once")
    parser.add_argument("--epochs", type=int, default=15, help="of which the median is taken")
    parser.add_argument("--profile", choices=PROFILES, default="paper")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--plain", action="store_true", help="measure the plain-torch path as well, with ten replicas")
    parser.add_argument("--breakdown", action="store_true", help="print the time of each kernel")
    parser.add_argument("--all", action="store_true", help="measure every cell, with the paper's ten seeds")
    parser.add_argument("--time-budget", type=seconds, help="print what there is after these seconds (140; --all: 275)")
    parser.add_argument(
        "--keep", action="store_true", help="put the JSON lines into results.jsonl, instead of older ones"
    )
    options = parser.parse_args()
    if options.keep and options.profile != "paper":
        parser.error("--keep keeps times at the paper's size: leave out --profile")
    end = start + (options.time_budget or (275 if options.all else 140))
    if options.all:
        lines = [whole_paper(options, end)]
    else:
        lines = table([str(Cell.parse(name)) for name in options.cells], options, end)
    for line in lines:
        print(json.dumps(line))
    if options.keep:
        keep(lines, None if options.all else ("model", "replicas", "path"))


if __name__ == "__main__":
    main()
