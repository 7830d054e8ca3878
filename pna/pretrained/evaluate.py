"""The command `python -m pna evaluate`: the errors of trained weights, and how far they are from those recorded."""

import argparse
from collections.abc import Sequence
from statistics import median

import torch

from pna.command_line import run_command
from pna.errors import MissingData
from pna.experiments.cells import Cell
from pna.experiments.command import budget_options, budget_words, named_run, print_tests
from pna.experiments.figure6 import cell_text
from pna.experiments.multitask import mean_log_errors
from pna.experiments.realworld import Figure6Run, summary
from pna.experiments.tables import PROFILE_NAMES, budgets, fullest, run_of
from pna.multitask import TASKS
from pna.multitask.splits import COLLECTIONS
from pna.places import results_folder
from pna.realworld.data import storage
from pna.realworld.data.datasets import DATASETS, WEIGHTS, training_set
from pna.text import table
from pna.training.run import Run
from pna.training.store import load

__all__ = ["evaluate"]

ROUNDING = 1e-3  # the relative difference of an error that two machines may show


def evaluate(arguments: Sequence[str]) -> int:
    """Test the trained weights of a cell on its own test graphs or on others."""
    parser = argparse.ArgumentParser(prog="pna evaluate", description=evaluate.__doc__)
    parser.add_argument("cell", nargs="?", metavar="CELL", help="training/spec/model/variant")
    parser.add_argument(
        "--all",
        action="store_true",
        help="every recorded multi-task network, on its own test graphs: only say how far its errors are from those "
        "recorded",
    )
    parser.add_argument("--on", choices=COLLECTIONS, help="the collection to test on (default: the cell's own)")
    parser.add_argument(
        "--depth",
        metavar="RULE",
        help="rule for the number of layers: N/2, N, cap, diameter, convergence or a number (default: the cell's own)",
    )
    budget_options(parser, default=None)
    options = parser.parse_args(arguments)
    if (options.cell is None) != options.all:
        parser.error(f"a CELL is needed, or --all{', not both' * options.all}")
    if options.all and any((options.on, options.depth, options.profile, options.seeds, options.epochs)):
        parser.error("of the options, --all goes with --device alone")
    return run_command("evaluate", lambda: _evaluate_all(options.device) if options.all else _evaluate(options))


def _recorded(options: argparse.Namespace) -> Run:
    """The run of the cell that the command names, by default at the fullest budget that is recorded."""
    if (options.profile, options.seeds, options.epochs) == (None, None, None):
        cell = Cell.parse(options.cell).trained
        if recorded := fullest(cell):
            return run_of(cell, recorded[0].profile, options.device)
    options.profile = options.profile or "paper"
    return named_run(options)


def _evaluate(options: argparse.Namespace) -> int:
    """Print the errors of recorded weights on a test set; return the exit code."""
    run = _recorded(options)
    if isinstance(run, Figure6Run) and options.on:
        raise ValueError(f"{run.cell} is tested on its own test set alone: leave out --on")
    if isinstance(run, Figure6Run) and options.depth:
        raise ValueError(f"{run.cell} always has {run.model.layers} layers: leave out --depth")
    if not (options.on or run.collections):
        raise ValueError(f"{run.cell} is not tested: name a collection with --on")
    if run.weights_file is None:
        raise MissingData(_no_weights(run, options))
    rows = run.load_weights()
    print(f"{run.cell}, {run.profile.name}")
    tests = run.test((options.on or run.collections[0]) + (f"@{options.depth}" if options.depth else ""))
    if run.other_data is None:
        _print_distances(_distances(run, rows, tests))
    else:
        here = training_set(run.cell.training, storage.facts_of(run.cell.training))
        print(
            f"the recorded errors are of another version of the data set (training set {run.other_data}) than yours "
            f"({here}), so they may differ"
        )
    if isinstance(run, Figure6Run):
        _print_seeds(run, {name.partition("/")[2]: values.flatten().tolist() for name, values in tests.items()})
        return 0
    validation, tasks = run.replicas.best.cpu(), run.tasks_of(run.replicas)
    seeds = sorted(set(run.replicas.seed.tolist()))
    print(f"weights of {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}")
    errors = {name: mean_log_errors(e, validation, tasks) for name, e in tests.items()}
    print_tests(errors, "the best of each task" if None not in tasks and len(tasks) == len(TASKS) else len(seeds))
    return 0


def _evaluate_all(where: str) -> int:
    """Print how far each recorded multi-task network's errors are from those recorded; return the exit code."""
    from tqdm import tqdm

    places = sorted(results_folder().rglob("*.json"))
    cells = (cell.trained for place in places if (cell := Cell.at(place)) and cell.training not in DATASETS)
    recorded = [(cell, *entry) for cell in dict.fromkeys(cells) if (entry := fullest(cell))]
    runs = [
        run_of(cell, run.profile, where)
        for cell, run, current in recorded
        if current and run.weights_file and run.collections
    ]
    if not runs:
        raise MissingData(f"no multi-task network is recorded in {results_folder()}")
    largest = []
    for run in tqdm(runs, unit="network", disable=None):
        rows = run.load_weights()
        distances = _distances(run, rows, run.test(run.collections[0]))
        test = max(distances, key=distances.__getitem__)
        largest.append(distances[test])
        tqdm.write(f"{distances[test]:.0e} of an error on {test}: {run.cell}, {run.profile.name}")
    near = sum(distance < ROUNDING for distance in largest)
    print(f"{near} of {len(runs)} networks as recorded, to {ROUNDING:g} of an error; median {median(largest):.0e}")
    return 0


def _no_weights(run: Run, options: argparse.Namespace) -> str:
    """Say that a run's weights are not here, and which command makes them, or which budget has some."""
    how = "".join(f" {word}" for word in budget_words(options))
    if not run.result.exists():
        return f"{run.weights} is missing: train the cell first, python -m pna train {run.cell}{how}"
    names = (p.name for p in budgets(results_folder(), run.cell) if run_of(run.cell, p).weights_file is not None)
    other = next((f"--profile {name} has some, or " for name in names if name in PROFILE_NAMES), "")
    again = f"PNA_RESULTS=FOLDER python -m pna train {run.cell}{how} makes them"
    return f"no weights of {run.cell} are kept under {run.profile.name}: {other}{again}"


def _distances(run: Run, rows: list[int], tests: dict[str, torch.Tensor]) -> dict[str, float]:
    """How far errors are from the recorded ones, by test set; a test set without recorded errors is left out."""
    distances = {name: run.distance_from_recorded(rows, {name: errors}) for name, errors in tests.items()}
    return {name: distance for name, distance in distances.items() if distance is not None}


def _print_distances(distances: dict[str, float]) -> None:
    """Print how far errors are from the recorded ones; name every test set where more than rounding differs."""
    near = [distance for distance in distances.values() if distance < ROUNDING]
    if near:
        print(f"as recorded, to {max(near):.0e} of an error" if max(near) else "exactly as recorded")
    for name, distance in distances.items():
        if distance >= ROUNDING:
            print(f"NOT as recorded on {name}: {distance:.0e} of an error away")


def _print_seeds(run: Figure6Run, metrics: dict[str, list[float]]) -> None:
    """Print the test metric of each seed whose weights are here, next to the recorded one.

    `metrics` has a number for each of these seeds, by kind of weights ("best" or "last"). The kind that the released
    protocol reports comes last.
    """
    result = load(run.result) if run.result.exists() else None
    recorded = {replica.seed: replica.test for replica in result.replicas} if result else {}
    seeds, reported = run.replicas.seed.tolist(), run.dataset.reported
    for name in sorted(metrics, key=lambda name: name == reported):
        rows = [
            (seed, value, recorded.get(seed, {}).get(f"test/{name}", [None])[0])
            for seed, value in zip(seeds, metrics[name], strict=True)
        ]
        print(f"{run.dataset.metric} on the test set, {WEIGHTS[name]}:")
        print(table(("seed", "now", "recorded"), ((seed, *map(_digits, both)) for seed, *both in rows)))
    if result is None:
        return
    mean = cell_text(run.cell.training, *summary(result)[reported])
    print(f"As released, {mean} is reported: the mean of {len(recorded)} seeds {WEIGHTS[reported]}.")
    if reported not in metrics:
        values = ", ".join(f"seed {seed} had {_digits(recorded[seed][f'test/{reported}'][0])}" for seed in seeds)
        print(f"Those weights were not kept when this cell was recorded; {values}.")
    print(f"Training set: {training_set(run.cell.training, result.facts['data'])}.")


def _digits(value: float | None) -> str:
    """A number with five decimals; a dash if there is none."""
    return "-" if value is None else f"{value:.5f}"
