"""`python -m pna multitask`: make a data set, show what it holds, print its baseline."""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from pna.command_line import run_command
from pna.departures import DEPARTURES
from pna.multitask import hubs, real
from pna.multitask.card import card
from pna.multitask.dataset import RELEASED_MAXIMA, SEED, make_split
from pna.multitask.gallery import draw_gallery
from pna.multitask.labels import TASKS
from pna.multitask.specification import RELEASED, Spec
from pna.multitask.splits import COLLECTIONS, Split
from pna.multitask.storage import cached, path_of
from pna.text import table

__all__ = ["main"]

SAMPLED = {"real": real, "hubs": hubs}  # what can be made from packages alone


def main(arguments: Sequence[str]) -> int:
    """Run `pna multitask make`, `show` or `baseline`."""
    options = _parser().parse_args(arguments)
    return run_command(f"multitask {options.command}", lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    """Parse the specification and call the command."""
    options.spec = Spec.parse(options.spec)
    options.run(options)


def _make(options: argparse.Namespace) -> None:
    """Make a data set, or sample the real networks, and print the path of the file."""
    _check_make(options)
    if options.what is not None:
        module = SAMPLED[options.what]
        path = options.out or module.FILE
        content = module.make_file(options.packages, path)
        print(f"{path}: graphs of {', '.join(source['name'] for source in content['sources'])}")
        return
    data = cached(options.collection, options.spec, options.seed, options.data, progress=True)
    path = path_of(options.collection, options.spec, options.seed, options.data)
    print(f"{path}: {sum(map(len, data.sets.values()))} graphs in {len(data.sets)} splits")


def _check_make(options: argparse.Namespace) -> None:
    """Raise an error for options that what is made does not have."""
    if options.what is None:
        others, why = {"packages": None, "out": None}, "goes with real or hubs"
    else:
        others = {"collection": "multitask", "spec": Spec.parse("described"), "seed": SEED, "data": None}
        why = f"does not go with {options.what}, which is made from packages alone"
    for name, default in others.items():
        if getattr(options, name) != default:
            raise ValueError(f"--{name} {why}")


def _show(options: argparse.Namespace) -> None:
    """Print the card of a data set, and draw its gallery if asked to."""
    print(card(cached(options.collection, options.spec, options.seed, options.data, progress=True)))
    if options.gallery:
        draw_gallery(options.gallery, options.spec, options.seed)
        print(f"\ngallery: {options.gallery}")


def _baseline(options: argparse.Namespace) -> None:
    """Print the log10 MSE of predicting the training mean, as a table or as JSON."""
    data = cached("multitask", options.spec, options.seed, options.data, progress=not options.json)
    graphs = data["test"]
    if options.sizes:
        graphs = make_split(options.spec, Split("test", "test", _sizes(options.sizes), 256), options.seed)
    units = options.units or ("released" if options.spec == RELEASED else "own")
    row = data.baseline(graphs, RELEASED_MAXIMA if units == "released" else None, options.spec == RELEASED)  # D14
    if options.json:
        print(json.dumps(row))
        return
    sizes = f"{graphs.sizes.min()}-{graphs.sizes.max()}"
    print(f"log10 MSE of predicting the training mean: spec {options.spec}, seed {options.seed}, test sizes {sizes},")
    print(f"labels in units of {'the released' if units == 'released' else 'this'} training set's maxima")
    titles = {task.name: task.title for task in TASKS}
    print(table(("task", "log10 MSE"), ((titles.get(name, "Average"), f"{value:.3f}") for name, value in row.items())))


def _parser() -> argparse.ArgumentParser:
    """Build the parser of `pna multitask` and its commands."""
    parser = argparse.ArgumentParser(prog="pna multitask", description="The multi-task graph benchmark.")
    commands = parser.add_subparsers(dest="command", required=True)
    make = _command(commands, "make", _make, "draw and label the graphs of a data set, and write them to a file")
    show = _command(commands, "show", _show, "print what a data set holds; make it first if it is missing")
    make.add_argument(
        "what",
        nargs="?",
        choices=SAMPLED,
        help="sample again from the packages of real networks: subgraphs (real) or the neighbourhoods of hubs (hubs)",
    )
    make.add_argument("--packages", type=Path, help="with real or hubs: a folder of downloaded packages (.whl, .deb)")
    make.add_argument(
        "--out", type=Path, help="with real or hubs: the file to write (default: the file in the package)"
    )
    for command in (make, show):
        command.add_argument(
            "--collection", choices=COLLECTIONS, default="multitask", help="which data set (default: multitask)"
        )
    show.add_argument("--gallery", type=Path, metavar="PNG", help="draw one graph of each family (needs matplotlib)")
    baseline = _command(commands, "baseline", _baseline, "print the log10 MSE of predicting the training mean")
    baseline.add_argument(
        "--sizes", help="test on 256 graphs of each of these sizes, as in 15-24 (default: the test set)"
    )
    baseline.add_argument(
        "--units",
        choices=("own", "released"),
        help="divide labels by the maxima of this training set (own), or by those of the released code's, as the "
        "published errors are (default for the spec released)",
    )
    baseline.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _command(commands: "argparse._SubParsersAction", name: str, run: Callable, help: str) -> argparse.ArgumentParser:
    """Add a subcommand that calls `run`, with the options that all of them share."""
    command = commands.add_parser(name, help=help, description=help)
    command.set_defaults(run=run)
    departures = "; ".join(
        f"{departure.id}: {departure.released}" for departure in DEPARTURES if departure.part == "data"
    )
    command.add_argument(
        "--spec",
        default="described",
        help=f"described (default), released, or single departures of the released code, as in D1+D3: {departures}",
    )
    command.add_argument("--seed", type=int, default=SEED, help=f"seed of the random graphs (default: {SEED})")
    command.add_argument("--data", type=Path, help="folder of the data sets (default: $PNA_DATA, or else ~/.cache/pna)")
    return command


def _sizes(text: str) -> tuple[int, ...]:
    """Parse the sizes of "15-24", both ends included, or of "15"."""
    first, _, last = text.partition("-") if "-" in text else (text, "-", text)
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise ValueError(f"--sizes must be a number of nodes or a range as in 15-24, got {text!r}")
    return tuple(range(int(first), int(last) + 1))
