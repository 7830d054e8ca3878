"""`python -m pna realworld`: prepare a data set, show what it holds, list the models, print figure 6's table."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pna.multitask.card import table
from pna.networks import count_parameters
from pna.realworld.card import card
from pna.realworld.datasets import DATASETS
from pna.realworld.local import MissingData
from pna.realworld.models import MODELS, REAL_PROFILES, RealProfile, real_cells
from pna.realworld.networks import RealNetwork
from pna.realworld.published import figure6
from pna.realworld.storage import load, prepare
from pna.scalers import DegreeStatistics

__all__ = ["main"]

MISSING = 4  # exit code where a data set is not there: nothing is wrong with the program


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands; the exit code is 2 for bad arguments and 4 if a data set is not there."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except MissingData as error:
        print(f"pna realworld {options.command}: {error}", file=sys.stderr)
        return MISSING
    except (ValueError, OSError, ImportError) as error:
        print(f"pna realworld {options.command}: {error}", file=sys.stderr)
        return 2
    return 0


def _prepare(options: argparse.Namespace) -> None:
    for name in _named(options.name):
        path = prepare(name, options.source, options.to, fetch=options.download, workers=options.workers)
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


def _show(options: argparse.Namespace) -> None:
    cards = (card(load(name, options.data, workers=options.workers)) for name in _named(options.name))
    for k, text in enumerate(cards):
        print(("\n" if k else "") + text)


def _models(_: argparse.Namespace) -> None:
    rows = []
    for cell in real_cells():
        model = cell.hyperparameters
        network = RealNetwork(model, cell.dataset, DegreeStatistics(1.0, 1.0))
        rows.append((cell, model.hidden, model.out, model.edge_dim or "-", f"{count_parameters(network):,}"))
    print(table(("cell", "hidden", "out", "edge features", "parameters"), rows))


def _table(options: argparse.Namespace) -> None:
    def profile(data: str) -> RealProfile:
        epochs = dict(options.epochs).get(data, dict(options.epochs).get(""))
        return REAL_PROFILES[options.profile].changed(options.seeds, epochs)

    print(figure6(profile))


def _named(name: str) -> list[str]:
    return list(DATASETS) if name == "all" else [name]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pna realworld", description="The real-world benchmarks of figure 6.")
    commands = parser.add_subparsers(dest="command", required=True)
    make = _command(commands, "prepare", _prepare, "make the file of a data set, from local files or by download")
    make.add_argument(
        "--source", type=Path, help="folder of the local files (default: $PNA_DATA, or else ~/.cache/pna)"
    )
    make.add_argument("--to", type=Path, help="folder for the made files, to be used as $PNA_DATA (default: $PNA_DATA)")
    make.add_argument("--download", action="store_true", help="fetch the public data set instead (needs a network)")
    show = _command(commands, "show", _show, "print what a data set holds, beside the published numbers")
    show.add_argument("--data", type=Path, help="folder of the data sets (default: $PNA_DATA, or else ~/.cache/pna)")
    for command in (make, show):
        command.add_argument("name", choices=[*DATASETS, "all"], metavar="NAME", help=f"{', '.join(DATASETS)} or all")
        command.add_argument("--workers", type=_positive, help="processes (default: one for each processor)")
    _command(commands, "models", _models, f"the {len(MODELS)} cells with their sizes and numbers of parameters")
    figure = _command(commands, "table", _table, "figure 6's table: published, ours, or not run")
    figure.add_argument("--profile", choices=REAL_PROFILES, default="paper")
    figure.add_argument("--seeds", type=_positive, help="of trainings with other seeds than the profile's")
    figure.add_argument(
        "--epochs",
        type=_epochs,
        action="append",
        default=[],
        help="of trainings with other epochs than the profile's: a number, or as zinc=200 for one data set",
    )
    return parser


def _command(commands: "argparse._SubParsersAction", name: str, run: Callable, help: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=help, description=help)
    command.set_defaults(run=run)
    return command


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return int(text)


def _epochs(text: str) -> tuple[str, int]:
    """ "200" or "zinc=200"."""
    data, _, number = text.rpartition("=")
    if data and data not in DATASETS:
        raise argparse.ArgumentTypeError(f"data set must be one of {', '.join(DATASETS)}, got {data!r}")
    return data, _positive(number)
