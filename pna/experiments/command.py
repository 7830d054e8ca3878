"""The commands `python -m pna train` and `results`, for the cells of both benchmarks."""

import argparse
import contextlib
import math
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from pna.command_line import FAILED, UNFINISHED, Interrupts, device, positive, run_command, say_if_empty, seconds
from pna.departures import SPECS
from pna.errors import GPUFull, OutOfTime
from pna.experiments.cells import Cell
from pna.experiments.dropout import MARGIN, DropoutRun, DropoutTuningRun, TunedDropoutRun, best_rate, gains
from pna.experiments.figure6 import cell_text
from pna.experiments.multitask import PROFILES, MultiTaskRun, table_of
from pna.experiments.plan import planned_cells
from pna.experiments.progress import Report
from pna.experiments.realworld import Figure6Run, summary
from pna.experiments.side_by_side import ON_A_GPU, longest_first, train_side_by_side, visible_gpus
from pna.experiments.tables import (
    EVERY_SPEC,
    EXPERIMENTS,
    PROFILE_NAMES,
    all_cells,
    fullest,
    profile_of,
    run_of,
)
from pna.experiments.tuning import TunedRun, TuningRun, ranked
from pna.files import check_writable
from pna.locks import locked
from pna.multitask import TASKS
from pna.places import results_folder
from pna.realworld.data import storage
from pna.realworld.data.datasets import DATASETS, WEIGHTS, training_set
from pna.text import table
from pna.training.run import Run, make_repeatable
from pna.training.store import Result, load

__all__ = ["budget_options", "budget_words", "named_run", "print_tests", "results", "train"]


def train(arguments: Sequence[str]) -> int:
    """Train one cell, from its checkpoint if --resume, for at most --time-budget seconds; or several side by side."""
    parser = _train_parser()
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(map(str, all_cells(EVERY_SPEC))))
        return 0
    if bool(options.cells) == options.missing:
        parser.error(f"a CELL is needed, or --missing{', not both' * options.missing}; --list shows all")
    if (options.experiment or options.spec) and not options.missing:
        parser.error("--experiment and --spec choose among what is --missing")
    several = options.missing or len(options.cells) > 1 or options.side_by_side
    if options.logs and not several:
        parser.error("--logs is for several cells, or with --side-by-side")
    resume = [] if several or options.resume else ["--resume"]
    words = list(arguments)
    if options.parent is not None:  # the process that started this one, which need not be there the next time
        del words[(at := words.index("--parent")) : at + 2]
    again = " ".join([*_folders_named(), shlex.join(["python", "-m", "pna", "train", *words, *resume])])
    run = (lambda: _train_several(options)) if several else (lambda: _train(options, again))
    return run_command("train", run, stopped=f"stopped; go on with: {again}")


def _folders_named() -> list[str]:
    """The folders that the environment names, as they are written before a command."""
    return [f"{name}={shlex.quote(os.environ[name])}" for name in ("PNA_DATA", "PNA_RESULTS") if os.environ.get(name)]


def _train_parser() -> argparse.ArgumentParser:
    """Build the parser of `pna train`."""
    about = "Train all seeds of a cell together. Several cells, or all that are missing, are trained side by side."
    parser = argparse.ArgumentParser(prog="pna train", description=about)
    names = (
        "training/spec/model/variant, such as multitask/released/pna/16 or zinc/released/pna/edges; --list shows all"
    )
    parser.add_argument("cells", nargs="*", metavar="CELL", help=names)
    parser.add_argument("--missing", action="store_true", help="train all cells that are not recorded and have data")
    parser.add_argument(
        "--experiment",
        action="append",
        choices=EXPERIMENTS,
        help="with --missing: only the cells of this experiment",
    )
    parser.add_argument("--spec", choices=SPECS, help="with --missing: only the cells of this specification")
    parser.add_argument(
        "--side-by-side",
        type=positive,
        metavar="N",
        help="how many cells to train at a time, each in its own process, which resumes from its checkpoint "
        f"(default: one per core; on a GPU at most {ON_A_GPU}, under NVIDIA's MPS if you are root); spread over all "
        "GPUs that CUDA_VISIBLE_DEVICES shows, unless --device names one",
    )
    parser.add_argument(
        "--logs", type=Path, metavar="FOLDER", help="write the output of each of several cells to a file"
    )
    parser.add_argument("--list", action="store_true", help="print the cells of every experiment")
    budget_options(parser)
    parser.add_argument(
        "--time-budget",
        type=seconds,
        metavar="SECONDS",
        help=f"stop after this time with a checkpoint and exit code {UNFINISHED}; --resume continues",
    )
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint, if there is one")
    parser.add_argument("--wait", action="store_true", help="if another process is training the cell, wait for it")
    parser.add_argument("--parent", type=positive, help=argparse.SUPPRESS)  # the process that trains side by side
    return parser


def budget_options(parser: argparse.ArgumentParser, default: str | None = "paper") -> None:
    """Add the options of the budget and the device; without a default budget, the fullest recorded one is meant."""
    words = default or "the fullest that is recorded"
    parser.add_argument("--profile", choices=PROFILE_NAMES, default=default, help=f"the budget (default: {words})")
    parser.add_argument("--seeds", type=positive, help="number of seeds (default: the profile's)")
    parser.add_argument("--epochs", type=positive, help="largest number of epochs (default: the profile's)")
    parser.add_argument(
        "--device", type=device, default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda"
    )


def named_run(options: argparse.Namespace) -> Run:
    """Create the run of the cell that the command names."""
    return _run_of(Cell.parse(options.cell).trained, options)


def _run_of(cell: Cell, options: argparse.Namespace) -> Run:
    """Create the run of a cell at the budget and on the device that the options name."""
    run = run_of(cell, profile_of(cell, options.profile, options.seeds, options.epochs), options.device)
    if run.own_seeds and options.seeds is not None:
        raise ValueError(f"{cell} has a number of replicas of its own: leave out --seeds")
    if not run.seeds:
        raise ValueError(f"{cell} is not in the plan ({results_folder() / 'plan.json'}); other profiles train any cell")
    return run


def _train_several(options: argparse.Namespace) -> int:
    """Train the named cells, or all that are missing, side by side."""
    cells = dict.fromkeys(_missing(options) if options.missing else [Cell.parse(c).trained for c in options.cells])
    if not cells:
        print("nothing to train: every cell whose data are here is recorded")
        return 0
    in_order = list(cells) if options.profile == "planned" else longest_first(cells)  # the plan has its own order
    kind, gpus = options.device.partition(":")[0], _gpus(options.device)
    return train_side_by_side(
        in_order,
        [*budget_words(options), "--device", kind],
        at_once=options.side_by_side or min(os.cpu_count() or 1, ON_A_GPU * len(gpus) or math.inf),
        gpus=gpus,
        seconds=options.time_budget,
        logs=options.logs,
    )


def budget_words(options: argparse.Namespace) -> list[str]:
    """The options of the budget as words of a command."""
    settings = {name: getattr(options, name) for name in ("profile", "seeds", "epochs")}
    return [word for name, value in settings.items() if value is not None for word in (f"--{name}", str(value))]


def _gpus(device: str) -> tuple[str, ...]:
    """The GPUs that a device stands for: "cuda" for all that are visible, "cuda:1" for the second of them."""
    kind, _, number = device.partition(":")
    gpus = visible_gpus(torch.cuda.device_count()) if kind == "cuda" else ()
    return (gpus[int(number)],) if number and gpus else gpus


def _missing(options: argparse.Namespace) -> list[Cell]:
    """List the cells that are not recorded and whose data are here; print how many are left out for lack of data."""
    chosen = dict.fromkeys(
        cell
        for experiment in (EXPERIMENTS[name] for name in options.experiment or EXPERIMENTS)
        for spec in ((options.spec,) if options.spec else experiment.specs)
        for cell in experiment.cells(spec, options.profile)
    )
    if options.profile == "planned":
        everything = not (options.experiment or options.spec)
        chosen = [cell for cell in planned_cells() if everything or cell in chosen]
    if options.seeds is not None:
        searches = {cell for cell in chosen if run_of(cell, profile_of(cell, options.profile)).own_seeds}
        chosen = [cell for cell in chosen if cell not in searches]
        if searches:
            print(f"{len(searches)} cells are left out: --seeds does not change how many replicas they have")
    runs = {cell: _run_of(cell, options) for cell in chosen}
    missing = [cell for cell, run in runs.items() if not run.recorded]
    ready = [cell for cell in missing if runs[cell].ready]
    if len(ready) < len(missing):
        print(
            f"{len(missing) - len(ready)} cells are left out: their data sets are not here (pna realworld prepare), "
            "or the searches that they start from are not recorded"
        )
    return ready


def _train(options: argparse.Namespace, again: str) -> int:
    """Train one cell and record it, or stop with a checkpoint; return the exit code."""
    start = time.monotonic()
    make_repeatable()
    (options.cell,) = options.cells
    run = named_run(options)
    deadline = None if options.time_budget is None else start + options.time_budget

    def orphaned() -> bool:
        return options.parent is not None and os.getppid() != options.parent

    def wait() -> None:
        """Raise if waiting for the lock must end: the parent process is gone, or the time budget is spent."""
        if orphaned():
            raise KeyboardInterrupt(signal.SIGTERM)
        if deadline is not None and time.monotonic() >= deadline:
            whose = f"another process was training {run.cell}"
            raise OutOfTime(f"{whose} to the end of the time budget; go on with: {again}")

    lock = locked(run.checkpoint, f"training {run.cell}", wait if options.wait else None)
    with Interrupts() as interrupts, lock, _full(f"{run.cell} goes on from its last checkpoint with: {again}"):
        if run.result.exists() and (code := _already(run, options)) is not None:
            return code
        if run.checkpoint.exists() and not options.resume:
            raise ValueError(f"{run.checkpoint} holds an unfinished training: go on with --resume, or remove it")
        check_writable(run.result)
        if options.device == "cpu" and run.profile.full:
            print("The paper's budget can take days on a CPU; --profile quick takes minutes.", flush=True)
        with Report(every=10.0 if options.parent is None else 1.0) as report:
            finished = run.train(deadline, report, lambda: interrupts() or report.error is not None or orphaned())
        if finished:
            interrupts.no_more_steps()  # the checkpoint is complete: resuming it would only test and record
            print(f"{run.record()} written")
            _SHOW[type(run)](load(run.result))
            return 0
    if report.error is not None:
        raise report.error
    unasked = "the end of its parent process" if orphaned() else "the time budget"
    why = {0: unasked, signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}[interrupts.signal]
    print(f"{run.cell}: stopped after {len(run.curves)} epochs by {why}; go on with: {again}")
    return 128 + interrupts.signal if interrupts.signal else UNFINISHED


@contextlib.contextmanager
def _full(then: str) -> Iterator[None]:
    """Turn an out-of-memory error of the GPU into GPUFull, whose message says what to do then."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise GPUFull(f"the memory of the GPU is full: {str(error).partition('. ')[0]}. {then}") from error


def _already(run: Run, options: argparse.Namespace) -> int | None:
    """Handle a cell that is already recorded: run the tests that it lacks, and return the exit code.

    None if it must be trained all the same, because the recorded result is of another data set.
    """
    if not run.matches(load(run.result)):
        if run.other_data is None:
            raise ValueError(f"{run.result} holds the result of another configuration; remove it to make a new one")
        here, to = training_set(run.cell.training, storage.facts_of(run.cell.training)), run.aside.result
        print(f"{run.result} is of another data set (training set {run.other_data}) than yours ({here}).")
        print(f"The cell is trained on yours, and at the end the other result moves to {to}.", flush=True)
        return None
    run.forget()  # the process may have been killed after writing the result and before removing the checkpoint
    missing = run.untested()
    again = shlex.join(["python", "-m", "pna", "train", str(run.cell), *budget_words(options)])
    anew = f"{run.result} is there already; to train it anew: PNA_RESULTS=FOLDER {again}"
    if not missing:
        print(anew)
    elif not run.weights.exists():
        print(
            f"{anew}\nIt is not tested on {', '.join(missing)}, which needs the weights of all seeds in {run.weights}."
        )
    else:
        run.load_weights()
        run.test_more()
        print(f"{run.result}: tested on {', '.join(missing)} too")
    return 0


def results(arguments: Sequence[str]) -> int:
    """List what is recorded, partial and missing for each figure."""
    parser = argparse.ArgumentParser(prog="pna results", description=results.__doc__)
    parser.add_argument("--profile", choices=PROFILE_NAMES, help="only this profile (default: each cell's fullest)")
    parser.add_argument("--epochs", type=positive, help="show trainings with this number of epochs")
    parser.add_argument("--seeds", type=positive, help="show trainings with this number of seeds")
    options = parser.parse_args(arguments)
    return run_command("results", lambda: _results(options))


def _results(options: argparse.Namespace) -> int:
    """Print which cells of each experiment are recorded; return the exit code."""
    any_budget = (options.profile, options.seeds, options.epochs) == (None, None, None)
    options.profile = options.profile or "paper"
    named = PROFILES[options.profile].changed(options.seeds, options.epochs).name
    print("each cell at the fullest budget recorded" if any_budget else f"profile {named}", f"in {results_folder()}")
    say_if_empty(results_folder())
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
    """The lines of the table for one figure: one for each state or profile, with the cells in it."""
    last = ("outdated", "other data", "partial", "missing", "damaged")
    for state in (*dict.fromkeys(state for state in states.values() if state not in last), *last):
        cells = [name for name, other in states.items() if other == state]
        if cells:
            yield where, spec, state, f"{len(cells)} of {len(states)}", " ".join(cells)


def _state(run: Run, damaged: list[str]) -> str:
    """The state of a run in one word; what is wrong with a damaged result is added to `damaged`."""
    path = run.result
    try:
        if path.exists():
            state = "recorded" if load(path).hash == run.hash else "outdated"
            return state if run.recorded else "other data"
    except ValueError as error:  # printed at the end, so that all other cells are still listed
        damaged.append(str(error))
        return "damaged"
    return "partial" if run.checkpoint.exists() else "missing"


def _budget_of(cell: Cell, state: str, damaged: list[str]) -> str:
    """The name of the fullest profile under which a cell is recorded; `state` if there is none."""
    try:
        recorded = fullest(cell)
    except ValueError as error:
        damaged.append(str(error))
        return "damaged"
    if recorded is None:
        return state
    run, current = recorded
    return run.profile.name + ", outdated" * (not current) + ", of other data than yours" * (not run.recorded)


def print_tests(rows: dict[str, list[float]], seeds: int | str) -> None:
    """Print test sets by tasks: the mean log10 MSE of the five seeds with the lowest validation error, or of fewer.

    Errors are in the units of the training set, as recorded; figures use the published units (pna/figures/runs.py).
    """
    of = seeds if isinstance(seeds, str) else "five best" if seeds > 5 else {1: "one seed"}.get(seeds, f"{seeds} seeds")
    header = (f"log10 MSE, {of}", *(task.name for task in TASKS), "average")
    lines = ((split, *(f"{value:.3f}" for value in (*row, sum(row) / len(row)))) for split, row in rows.items())
    print("in units of this training set's maxima; figures and documents have those of the released code's set")
    print(table(header, lines))


def _print_metric(result: Result) -> None:
    """Print the test metric over all replicas in figure 6's format."""
    data, facts = DATASETS[result.cell.split("/")[0]], result.facts
    texts = {name: f"{cell_text(data.name, *row)} {WEIGHTS[name]}" for name, row in summary(result).items()}
    words = training_set(data.name, facts["data"])
    print(f"{facts['metric']} on the test set, {len(result.replicas)} seeds: {texts.pop(data.reported)}, as released")
    print(f"({', '.join(texts.values())}); {facts['parameters']:,} parameters; training set {words}")


def _print_errors(result: Result) -> None:
    """Print the table of a multi-task result."""
    print_tests(table_of(result), len({replica.seed for replica in result.replicas}))


def _print_search(result: Result) -> None:
    """Print the five best draws of a search, by validation loss."""
    header = ("draw", "learning rate", "weight decay", "validation loss", "epochs")
    draws = (
        (draw.seed, f"{draw.learning_rate:.2e}", f"{draw.weight_decay:.1e}", f"{draw.loss:.5f}", draw.epochs)
        for draw in ranked(result)[:5]
    )
    print(table(header, draws))


def _print_gains(result: Result) -> None:
    """Print the validation loss at each rate of dropout, and what it gains over none."""
    rows = ((f"{rate:g}", f"{mean:.3f}", f"{gain:+.3f}") for rate, (mean, gain) in gains(result).items())
    print(table(("dropout", "log10 validation loss", "gain"), rows))


def _print_dropout(result: Result) -> None:
    """Print the study of dropout: its rates, and which gain counts."""
    _print_gains(result)
    print(f"means over seeds; a gain above {MARGIN:g} counts")


def _print_dropout_search(result: Result) -> None:
    """Print a search for the rate of dropout: its rates, and the best of them."""
    _print_gains(result)
    print(f"means over seeds; the tuned runs get the rate {best_rate(result):g}")


_SHOW = {
    DropoutRun: _print_dropout,
    DropoutTuningRun: _print_dropout_search,
    MultiTaskRun: _print_errors,
    TunedDropoutRun: _print_errors,
    TunedRun: _print_errors,
    TuningRun: _print_search,
    Figure6Run: _print_metric,
}
