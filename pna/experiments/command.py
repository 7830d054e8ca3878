"""`python -m pna train`, `results` and `evaluate`: one road from a cell's name to its run, for every benchmark."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence

import torch

from pna.command_line import FAILED, UNFINISHED, device, positive, seconds, told
from pna.experiments.cells import Cell
from pna.experiments.figure6 import cell_text
from pna.experiments.multitask import PROFILES, MultiTaskRun, mean_log_errors, table_of
from pna.experiments.realworld import Figure6Run, summary
from pna.experiments.tables import EXPERIMENTS, PROFILE_NAMES, all_cells, fullest, profile_of, run_of
from pna.multitask import TASKS
from pna.multitask.card import table
from pna.multitask.splits import COLLECTIONS
from pna.training.run import Progress, Run
from pna.training.store import Result, load

__all__ = ["evaluate", "results", "train"]


def train(arguments: Sequence[str]) -> int:
    """Train one cell, from its checkpoint if --resume, for at most --time-budget seconds."""
    parser = argparse.ArgumentParser(prog="pna train", description="Train all seeds of one cell together.")
    names = "training/spec/model/variant, as multitask/released/pna/16 or zinc/released/pna/edges; --list shows all"
    parser.add_argument("cell", nargs="?", metavar="CELL", help=names)
    parser.add_argument("--list", action="store_true", help="print the cells of every experiment")
    _budget(parser)
    parser.add_argument(
        "--time-budget",
        type=seconds,
        metavar="SECONDS",
        help=f"stop after this time with a checkpoint and exit code {UNFINISHED}; --resume goes on",
    )
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint, if there is one")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(map(str, all_cells())))
        return 0
    if options.cell is None:
        parser.error("a CELL is needed; --list shows all")
    return told("train", lambda: _train(options))


def _budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", choices=PROFILE_NAMES, default="paper", help="the budget (default: paper)")
    parser.add_argument("--seeds", type=positive, help="other than the profile's")
    parser.add_argument("--epochs", type=positive, help="other than the profile's")
    parser.add_argument(
        "--device", type=device, default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda"
    )


def _run(options: argparse.Namespace) -> Run:
    """What the command names."""
    cell = Cell.parse(options.cell).trained
    return run_of(cell, profile_of(cell, options.profile, options.seeds, options.epochs), options.device)


def _train(options: argparse.Namespace) -> int:
    start = time.monotonic()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # the same bits in every run on a GPU
    if options.device == "cpu":
        torch.set_num_threads(1)  # its operations are small; cells run side by side instead
    run = _run(options)
    if run.result.exists():
        return _already(run)
    if run.checkpoint.exists() and not options.resume:
        raise ValueError(f"{run.checkpoint} holds an unfinished training: go on with --resume, or remove it")
    deadline = None if options.time_budget is None else start + options.time_budget
    with _Report() as report:
        finished = run.train(deadline, report)
    if not finished:
        print(f"{run.cell}: stopped after {len(run.curves)} epochs by the time budget; go on with --resume")
        return UNFINISHED
    print(f"{run.record()} written")
    _SHOW[type(run)](load(run.result))
    return 0


def _already(run: Run) -> int:
    """What is left to do for a cell that is recorded: tests that were not asked for when it was trained."""
    if not run.matches(load(run.result)):
        raise ValueError(f"{run.result} holds the result of another configuration; remove it to make a new one")
    missing = run.untested()
    if not missing:
        print(f"{run.result} is there already")
    elif not run.weights.exists():
        print(f"{run.result} is there already, without tests on {', '.join(missing)}: {run.weights} is missing")
    else:
        run.load_weights()
        run.test_more()
        print(f"{run.result}: tested on {', '.join(missing)} too")
    return 0


def results(arguments: Sequence[str]) -> int:
    """List what is recorded, partial and missing for each figure."""
    parser = argparse.ArgumentParser(prog="pna results", description=results.__doc__)
    parser.add_argument("--profile", choices=PROFILE_NAMES, help="of one budget (default: each cell at its fullest)")
    parser.add_argument("--epochs", type=positive, help="of a training with other epochs than the profile's")
    parser.add_argument("--seeds", type=positive, help="of a training with other seeds than the profile's")
    options = parser.parse_args(arguments)
    return told("results", lambda: _results(options))


def _results(options: argparse.Namespace) -> int:
    any_budget = (options.profile, options.seeds, options.epochs) == (None, None, None)
    options.profile = options.profile or "paper"
    named = PROFILES[options.profile].changed(options.seeds, options.epochs).name
    print("each cell at the fullest budget recorded" if any_budget else f"profile {named}")
    rows, damaged = [], []
    for experiment in EXPERIMENTS.values():
        for spec in experiment.specs:
            states = {}
            for cell in experiment.cells(spec):
                run = run_of(cell, profile_of(cell, options.profile, options.seeds, options.epochs))
                state = _state(run, damaged)
                if any_budget and state != "damaged":
                    state = _budget_of(cell, state, damaged)
                states[f"{cell.training}/{cell.model}/{cell.variant}"] = state
            rows += _rows(experiment.where, spec, states)
    width = [max(len(row[k]) for row in rows) for k in range(4)]
    for row in rows:
        print("  ".join(text.ljust(w) for text, w in zip(row, [*width, 0], strict=True)).rstrip())
    for words in dict.fromkeys(damaged):
        print(f"pna results: {words}", file=sys.stderr)
    return FAILED if damaged else 0


def _rows(where: str, spec: str, states: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """A line for each state that a cell is in; a budget is one, and the last of them come last."""
    last = ("partial", "missing", "damaged")
    for state in (*dict.fromkeys(state for state in states.values() if state not in last), *last):
        cells = [name for name, found in states.items() if found == state]
        if cells:
            yield where, spec, state, f"{len(cells)} of {len(states)}", " ".join(cells)


def _state(run: Run, damaged: list[str]) -> str:
    try:
        if run.result.exists() and load(run.result).hash == run.hash:
            return "recorded"
    except ValueError as error:  # named at the end, and no other cell suffers
        damaged.append(str(error))
        return "damaged"
    return "partial" if run.checkpoint.exists() else "missing"


def _budget_of(cell: Cell, state: str, damaged: list[str]) -> str:
    """The fullest budget of a cell instead of `recorded`, or else its state under the paper's."""
    try:
        found = fullest(cell)
    except ValueError as error:
        damaged.append(str(error))
        return "damaged"
    return found[0].profile.name + ", outdated" * (not found[1]) if found else state


def evaluate(arguments: Sequence[str]) -> int:
    """Test the best weights of a cell on other graphs."""
    parser = argparse.ArgumentParser(prog="pna evaluate", description=evaluate.__doc__)
    parser.add_argument("cell", metavar="CELL", help="training/spec/model/variant")
    parser.add_argument("--on", choices=COLLECTIONS, help="the collection whose test sets are used (default: its own)")
    _budget(parser)
    options = parser.parse_args(arguments)
    return told("evaluate", lambda: _evaluate(options))


def _evaluate(options: argparse.Namespace) -> int:
    run = _run(options)
    if isinstance(run, Figure6Run) and options.on:
        raise ValueError(f"{run.cell} is tested on its own test set alone: leave out --on")
    if not (run.weights.exists() or run.shipped.exists()):
        wanted = {name: getattr(options, name) for name in ("profile", "seeds", "epochs")}
        how = " ".join(f"--{name} {value}" for name, value in wanted.items() if value is not None)
        raise ValueError(f"{run.weights} is missing: train the cell first, python -m pna train {run.cell} {how}")
    run.load_weights()
    print(f"{run.cell}, {run.profile.name}")
    found = run.test(options.on or run.collections[0])
    if isinstance(run, Figure6Run):
        values = found["test/best"].flatten()
        print(f"{run.dataset.metric} on the test set, with the weights best on validation, seed by seed:")
        print("  ".join(f"{value:.5f}" for value in values.tolist()))
        return 0
    validation, tasks = run.replicas.best.cpu(), run.tasks_of(run.replicas)
    seeds = sorted(set(run.replicas.seed.tolist()))
    print(f"weights of {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}")
    _print_table({name: mean_log_errors(e, validation, tasks) for name, e in found.items()})
    return 0


def _print_table(rows: dict[str, list[float]]) -> None:
    """Test sets by tasks: mean log10 MSE of the five best replicas by validation error."""
    header = ("log10 MSE, five best", *(task.name for task in TASKS), "average")
    lines = ((split, *(f"{value:.3f}" for value in (*row, sum(row) / len(row)))) for split, row in rows.items())
    print(table(header, lines))


def _print_metric(result: Result) -> None:
    """The test metric of all replicas, as figure 6 has it."""
    data, facts = result.cell.split("/")[0], result.facts
    best, last = (cell_text(data, *row) for row in summary(result).values())
    print(
        f"{facts['metric']} on the test set, {len(result.replicas)} seeds: {best} with the weights best on validation"
    )
    print(f"(after the last epoch: {last}); {facts['parameters']:,} parameters; training set {facts['data']['train']}")


_SHOW = {MultiTaskRun: lambda result: _print_table(table_of(result)), Figure6Run: _print_metric}


class _Report:
    """A progress bar on a terminal, a plain line every ten seconds elsewhere."""

    def __enter__(self) -> "_Report":
        self.bar, self.said, self.first = None, 0.0, None
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
