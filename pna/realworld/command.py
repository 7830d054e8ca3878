"""`python -m pna realworld`: prepare a data set, show what it holds, list the networks of figure 6."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from pna.command_line import positive, run_command
from pna.degrees import DegreeStatistics
from pna.networks import count_parameters
from pna.realworld.data.card import card
from pna.realworld.data.datasets import DATASETS, training_set
from pna.realworld.data.storage import facts_of, load, prepare
from pna.realworld.hyperparameters import HYPERPARAMETERS
from pna.realworld.networks import Network
from pna.text import table

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Run `pna realworld prepare`, `show` or `models`."""
    options = _parser().parse_args(arguments)
    return run_command(f"realworld {options.command}", lambda: options.run(options))


def _prepare(options: argparse.Namespace) -> None:
    """Prepare the named data sets and print the size of each file."""
    for name in _named(options.name):
        if DATASETS[name].superpixels and not options.download:
            print(f"{name}: one or two minutes on two processors", flush=True)
        path = prepare(name, options.source, options.to, fetch=options.download, workers=options.workers)
        words = training_set(name, facts_of(name, options.to))
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB; training set {words}")


def _show(options: argparse.Namespace) -> None:
    """Print the cards of the named data sets."""
    cards = (card(load(name, options.data, workers=options.workers)) for name in _named(options.name))
    for k, text in enumerate(cards):
        print(("\n" if k else "") + text)


def _models(_: argparse.Namespace) -> None:
    """Print figure 6's networks with their widths and numbers of parameters."""
    rows = []
    for (data, name, edges), model in HYPERPARAMETERS.items():
        network = Network(model, DATASETS[data], DegreeStatistics(1.0, 1.0))
        cell = f"{data}/released/{name}/{edges}"
        rows.append((cell, model.hidden, model.out, model.edge_dim or "-", f"{count_parameters(network):,}"))
    print(table(("cell", "hidden", "out", "edge features", "parameters"), rows))


def _named(name: str) -> list[str]:
    """The data sets that a command's argument names: one, or all of them."""
    return list(DATASETS) if name == "all" else [name]


def _parser() -> argparse.ArgumentParser:
    """Build the parser of `pna realworld` and its commands."""
    parser = argparse.ArgumentParser(prog="pna realworld", description="Data sets and networks of figure 6.")
    commands = parser.add_subparsers(dest="command", required=True)
    make = _command(commands, "prepare", _prepare, "make the file of a data set; ZINC's rows are checked")
    make.add_argument(
        "--source", type=Path, help="folder of the local files (default: $PNA_DATA, or else ~/.cache/pna)"
    )
    make.add_argument("--to", type=Path, help="folder for the new file, to be used as $PNA_DATA (default: $PNA_DATA)")
    make.add_argument("--download", action="store_true", help="fetch the public data set instead (needs a network)")
    show = _command(commands, "show", _show, "print what a data set holds, with the published numbers")
    show.add_argument("--data", type=Path, help="folder of the data sets (default: $PNA_DATA, or else ~/.cache/pna)")
    for command in (make, show):
        command.add_argument("name", choices=[*DATASETS, "all"], metavar="NAME", help=f"{', '.join(DATASETS)} or all")
        command.add_argument("--workers", type=positive, help="number of processes (default: one for each processor)")
    _command(commands, "models", _models, f"list the {len(HYPERPARAMETERS)} networks with their sizes")
    return parser


def _command(commands: "argparse._SubParsersAction", name: str, run: Callable, help: str) -> argparse.ArgumentParser:
    """Add a subcommand that calls `run`."""
    command = commands.add_parser(name, help=help, description=help)
    command.set_defaults(run=run)
    return command
