"""`python -m pna train`, `results` and `evaluate`."""

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from pna.experiments import EXPERIMENTS, PROFILES, SPECS, Cell, Profile, all_cells
from pna.multitask import TASKS
from pna.multitask.card import table
from pna.multitask.splits import COLLECTIONS
from pna.realworld.models import REAL_PROFILES, RealCell, RealProfile, is_real, real_cells
from pna.realworld.published import cell_text
from pna.realworld.record import record_real, summary
from pna.realworld.run import RealRun
from pna.training.cells import CellRun, Progress
from pna.training.store import load, mean_log_errors, record, result_path, table_of, test_more, untested

__all__ = ["evaluate", "results", "train"]

UNFINISHED = 3  # exit code of a training that its time budget stopped


def train(arguments: Sequence[str]) -> int:
    """Train one cell, from its checkpoint if --resume, for at most --time-budget seconds."""
    parser = argparse.ArgumentParser(prog="pna train", description="Train all seeds of one cell together.")
    names = "training/spec/model/hidden, or dataset/released/model/edges; --list shows all"
    parser.add_argument("cell", nargs="?", metavar="CELL", help=names)
    parser.add_argument("--list", action="store_true", help="print the cells of every experiment")
    parser.add_argument("--profile", choices=PROFILES, default="paper", help="the budget (default: paper)")
    parser.add_argument("--seeds", type=_positive, help="other than the profile's")
    parser.add_argument("--epochs", type=_positive, help="other than the profile's")
    parser.add_argument(
        "--device", type=_device, default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda"
    )
    parser.add_argument(
        "--time-budget",
        type=_seconds,
        metavar="SECONDS",
        help=f"stop after this time with a checkpoint and exit code {UNFINISHED}; --resume goes on",
    )
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint, if there is one")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(map(str, (*all_cells(), *real_cells()))))
        return 0
    if options.cell is None:
        parser.error("a CELL is needed; --list shows all")
    return _told("train", lambda: _train(options))


def _train(options: argparse.Namespace) -> int:
    start = time.monotonic()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # the same bits in every run on a GPU
    if options.device == "cpu":
        torch.set_num_threads(1)  # its operations are small; cells run side by side instead
    job = _job(options)
    run, path = job.run, job.path
    if path.exists():
        if not run.matches(load(path)):
            raise ValueError(f"{path} holds the result of another configuration; remove it to make a new one")
        return _test_more(job)
    if run.checkpoint.exists() and not options.resume:
        raise ValueError(f"{run.checkpoint} holds an unfinished training: go on with --resume, or remove it")
    with _Report() as report:
        deadline = None if options.time_budget is None else start + options.time_budget
        finished = run.train(deadline, report)
    if not finished:
        print(f"{run.cell}: stopped after {len(run.curves)} epochs by the time budget; go on with --resume")
        return UNFINISHED
    print(f"{job.record(run)} written")
    job.show(load(path))
    return 0


def _test_more(job: "_Job") -> int:
    """What is left to do for a cell that is recorded: tests that were not asked for when it was trained."""
    facts = load(job.path)
    missing = untested(job.run, facts) if isinstance(job.run, CellRun) else []
    if not missing:
        print(f"{job.path} is there already")
    elif not job.run.weights.exists():
        print(f"{job.path} is there already, without tests on {', '.join(missing)}: {job.run.weights} is missing")
    else:
        job.run.load_weights()
        print(f"{test_more(job.run, facts)}: tested on {', '.join(missing)} too")
    return 0


class _Job(NamedTuple):
    """A cell of the multi-task benchmark or of the real-world ones: both are trained by the same command."""

    run: CellRun | RealRun
    path: Path  # of the result
    record: Callable[[CellRun | RealRun], Path]
    show: Callable[[dict], None]  # prints a result


def _job(options: argparse.Namespace) -> _Job:
    """What the command names."""
    if is_real(options.cell):
        real_profile = REAL_PROFILES[options.profile].changed(options.seeds, options.epochs)
        real = RealRun(RealCell.parse(options.cell), real_profile, options.device)
        return _Job(real, real.result, record_real, _print_real)
    profile = PROFILES[options.profile].changed(options.seeds, options.epochs)
    run = CellRun(Cell.parse(options.cell).trained, profile, options.device)
    return _Job(run, result_path(run.cell, profile), record, lambda facts: _print_table(table_of(facts)))


def results(arguments: Sequence[str]) -> int:
    """List what is recorded, partial and missing for each figure."""
    parser = argparse.ArgumentParser(prog="pna results", description=results.__doc__)
    parser.add_argument("--profile", choices=PROFILES, default="paper")
    parser.add_argument("--epochs", type=_positive, help="of a training with other epochs than the profile's")
    parser.add_argument("--seeds", type=_positive, help="of a training with other seeds than the profile's")
    options = parser.parse_args(arguments)
    profiles = (table[options.profile].changed(options.seeds, options.epochs) for table in (PROFILES, REAL_PROFILES))
    return _told("results", lambda: _results(*profiles))


def _results(profile: Profile, real_profile: RealProfile) -> int:
    print(f"profile {profile.name}: {profile.seeds} seeds, at most {profile.epochs} epochs")
    rows = []
    for experiment in EXPERIMENTS.values():
        for spec in SPECS:
            runs = [CellRun(cell, profile) for cell in experiment.cells(spec)]
            states = {
                f"{run.cell.training}/{run.cell.model}/{run.cell.hidden}": _state(run, result_path(run.cell, profile))
                for run in runs
            }
            rows += _rows(experiment.where, spec, states)
    runs = [RealRun(cell, real_profile) for cell in real_cells()]
    states = {f"{run.cell.training}/{run.cell.model}/{run.cell.edges}": _state(run, run.result) for run in runs}
    rows += _rows("figure 6", runs[0].cell.spec, states)
    width = [max(len(row[k]) for row in rows) for k in range(4)]
    for row in rows:
        print("  ".join(text.ljust(w) for text, w in zip(row, [*width, 0], strict=True)).rstrip())
    return 0


def _rows(where: str, spec: str, states: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """A line for each state that a cell is in."""
    for state in ("recorded", "partial", "missing"):
        cells = [name for name, found in states.items() if found == state]
        if cells:
            yield where, spec, state, f"{len(cells)} of {len(states)}", " ".join(cells)


def _state(run: CellRun | RealRun, path: Path) -> str:
    if path.exists() and load(path)["hash"] == run.hash:
        return "recorded"
    return "partial" if run.checkpoint.exists() else "missing"


def evaluate(arguments: Sequence[str]) -> int:
    """Test the saved weights of a cell on any collection of graphs."""
    parser = argparse.ArgumentParser(prog="pna evaluate", description=evaluate.__doc__)
    parser.add_argument("cell", metavar="CELL", help="training/spec/model/hidden")
    parser.add_argument("--on", choices=COLLECTIONS, required=True, help="the collection whose test sets are used")
    parser.add_argument("--profile", choices=PROFILES, default="paper")
    parser.add_argument("--seeds", type=_positive)
    parser.add_argument("--epochs", type=_positive)
    parser.add_argument("--device", type=_device, default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    return _told("evaluate", lambda: _evaluate(options))


def _evaluate(options: argparse.Namespace) -> int:
    if is_real(options.cell):
        raise ValueError(f"{options.cell} is tested on its own test set, when it is recorded; see its result")
    profile = PROFILES[options.profile].changed(options.seeds, options.epochs)
    run = CellRun(Cell.parse(options.cell).trained, profile, options.device)
    if not run.weights.exists():
        wanted = {name: getattr(options, name) for name in ("profile", "seeds", "epochs")}
        how = " ".join(f"--{name} {value}" for name, value in wanted.items() if value is not None)
        raise ValueError(f"{run.weights} is missing: train the cell first, python -m pna train {run.cell} {how}")
    run.load_weights()
    validation, tasks = run.replicas.best.cpu(), run.replica_tasks
    rows = {split: mean_log_errors(e, validation, tasks) for split, e in run.test(options.on).items()}
    print(f"{run.cell}, {profile.name}")
    _print_table(rows)
    return 0


def _print_table(rows: dict[str, list[float]]) -> None:
    """Test sets by tasks: mean log10 MSE of the five best replicas by validation error."""
    header = ("log10 MSE, five best", *(task.name for task in TASKS), "average")
    lines = ((split, *(f"{value:.3f}" for value in (*row, sum(row) / len(row)))) for split, row in rows.items())
    print(table(header, lines))


def _print_real(facts: dict) -> None:
    """The test metric of all replicas, as figure 6 has it."""
    data = facts["cell"].split("/")[0]
    best, last = (cell_text(data, *row) for row in summary(facts).values())
    print(
        f"{facts['metric']} on the test set, {len(facts['replicas'])} seeds: {best} with the weights best on validation"
    )
    print(f"(after the last epoch: {last}); {facts['parameters']:,} parameters; training set {facts['data']['train']}")


class _Report:
    """A progress bar on a terminal, a plain line every ten seconds elsewhere."""

    def __enter__(self) -> "_Report":
        self.bar, self.said, self.start, self.first = None, 0.0, time.monotonic(), None
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def __call__(self, progress: Progress) -> None:
        text = f"best validation {progress.best:.5f}, {progress.running} of {progress.replicas} replicas running"
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = self.bar or tqdm(total=progress.epochs, initial=progress.epoch - 1, unit="epoch")
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.update()
            return
        now = time.monotonic()
        self.first = self.first or (progress.epoch, now)
        if now - self.said >= 10 or progress.epoch == progress.epochs:
            pace = (now - self.first[1]) / max(1, progress.epoch - self.first[0])
            left = pace * (progress.epochs - progress.epoch)
            print(f"epoch {progress.epoch} of at most {progress.epochs}: {text}, {left:.0f} s left", flush=True)
            self.said = now


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return int(text)


def _device(text: str) -> str:
    if text.partition(":")[0] not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"must be cpu or cuda, got {text!r}")
    try:
        torch.empty(0, device=text)
    except (RuntimeError, AssertionError) as error:  # torch raises either
        raise argparse.ArgumentTypeError(f"{text!r} cannot be used here: {str(error).splitlines()[0]}") from error
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not negative, got {text!r}")
    return seconds


def _told(name: str, run: Callable[[], int]) -> int:
    """An error in words instead of a traceback, with exit code 1."""
    try:
        return run()
    except (ValueError, OSError, ImportError) as error:
        print(f"pna {name}: {error}", file=sys.stderr)
        return 1
