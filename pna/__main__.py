"""`python -m pna COMMAND ...`: the commands of the package, each imported only when it is called."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import pna
from pna.command_line import quietly, run_command
from pna.errors import MissingData
from pna.places import repository

__all__ = ["COMMANDS", "Command", "main", "program"]


@dataclass(frozen=True)
class Command:
    """A subcommand: `function` of `module` takes the arguments and returns the exit code."""

    name: str
    module: str
    function: str
    summary: str


COMMANDS: tuple[Command, ...] = (
    Command(
        "multitask",
        "pna.multitask.command",
        "main",
        "make, show or score the multi-task benchmark",
    ),
    Command("realworld", "pna.realworld.command", "main", "prepare or show the data sets of figure 6"),
    Command("figure6", "pna.figures.figure6", "main", "print figure 6: published, ours, difference and verdict"),
    Command("models", "pna.networks.command", "main", "list the paper's multi-task models with their parameters"),
    Command("train", "pna.experiments.command", "train", "train all seeds of a cell together"),
    Command("predict", "pna.pretrained.command", "predict", "predict the properties of a graph in a file"),
    Command("hubs", "pna.experiments.hubs", "main", "train four kinds of scalers, and test them on far larger degrees"),
    Command("replay", "pna.experiments.replay", "replay", "train a recorded cell's first epochs again, and compare"),
    Command("evaluate", "pna.pretrained.evaluate", "evaluate", "test the trained weights of a cell"),
    Command(
        "results", "pna.experiments.command", "results", "list what is recorded, partial and missing for each figure"
    ),
    Command("claims", "report.command", "claims", "print every claim with its test and its verdict"),
    Command("plan", "report.command", "plan", "print every claim's planned test and the seeds that it needs"),
    Command("coverage", "report.command", "coverage", "simulate how often intervals contain the truth"),
    Command("cards", "report.command", "cards", "print a model card for each experiment"),
    Command("report", "report.command", "report", "write every figure and claim as one HTML page"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Hand the arguments to the subcommand that they name; the exit code is 2 if they name none."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if name == "--version":
        print(f"pna {pna.__version__}")
        return 0
    if command := next((command for command in COMMANDS if command.name == name), None):
        return run_command(name, lambda: getattr(_module_of(command), command.function)(rest))
    asked_for_help = name in ("-h", "--help")
    stream = sys.stdout if asked_for_help else sys.stderr
    if name and not asked_for_help:
        print(f"pna: unknown command {name!r}", file=stream)
    width = max(len(command.name) for command in COMMANDS)
    print("usage: python -m pna COMMAND ...\n\ncommands:", file=stream)
    for command in COMMANDS:
        print(f"  {command.name:<{width}}  {command.summary}", file=stream)
    print(
        "\nRun `python -m pna COMMAND --help` for the options of a command, or `python -m pna --version`.", file=stream
    )
    return 0 if asked_for_help else 2


def _module_of(command: Command) -> ModuleType:
    """Import a command's module; report/ is not in the wheel, and is found in the clone that holds this package."""
    if command.module.startswith("report."):
        root = repository()
        if not (root / "report" / "command.py").exists():
            raise MissingData(
                f"`pna {command.name}` judges this paper's claims, which are not part of the installed package: "
                "run it in a clone of the repository"
            )
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
    return import_module(command.module)


def program() -> int:
    """Run the whole program, as the console script does."""
    return quietly(main)


if __name__ == "__main__":
    sys.exit(program())
