"""`python -m pna claims` and `report`."""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from pna.command_line import BAD_VALUE, FAILED, positive, run_command, say_if_empty
from pna.figures.runs import RECORDED, profile_named
from pna.files import write_whole
from pna.places import figures_folder, results_folder
from pna.verdicts.claims import claims_text
from report.claims import judge

__all__ = ["cards", "claims", "coverage", "report"]


def claims(arguments: Sequence[str]) -> int:
    """Print every claim of the paper with its verdict."""
    parser = _parser("claims", claims)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write them to this file, as one JSON list")
    options = parser.parse_args(arguments)
    return _told("claims", lambda: _claims(options))


def _claims(options: argparse.Namespace) -> int:
    say_if_empty(results_folder())
    findings = judge(options.profile)
    print(claims_text(findings))
    if options.json:
        _write(options.json, json.dumps([finding.facts for finding in findings], indent=1, ensure_ascii=False))
    return 0


def report(arguments: Sequence[str]) -> int:
    """Write all figures and claims beside the published ones as one self-contained page."""
    parser = _parser("report", report)
    parser.add_argument("--out", type=Path, help="the page (default: report.html beside the figures)")
    options = parser.parse_args(arguments)
    return _told("report", lambda: _report(options))


def coverage(arguments: Sequence[str]) -> int:
    """Simulate on the recorded seeds how often the report's 95 % intervals contain the truth, beside other methods."""
    parser = argparse.ArgumentParser(prog="pna coverage", description=coverage.__doc__)
    parser.add_argument(
        "--trials", type=positive, default=2_000, help="for each cell and population (default: %(default)s)"
    )
    parser.add_argument("--write", action="store_true", help="keep the table in the package, where the report reads it")
    options = parser.parse_args(arguments)
    return _told("coverage", lambda: _coverage(options))


def cards(arguments: Sequence[str]) -> int:
    """Print the model card of every experiment, made from what is recorded."""
    parser = argparse.ArgumentParser(prog="pna cards", description=cards.__doc__)
    parser.add_argument("--write", action="store_true", help="write them to docs/models/ instead")
    options = parser.parse_args(arguments)
    return _told("cards", lambda: _cards(options))


def _cards(options: argparse.Namespace) -> int:
    from report import cards as model_cards

    if options.write:
        print("\n".join(f"{path} written" for path in model_cards.write_cards()))
    else:
        print("\n".join(model_cards.cards().values()))
    return 0


def _coverage(options: argparse.Namespace) -> int:
    from report import coverage as simulation

    found = simulation.table(options.trials)
    print(f"{found['trials']:,} trials on each of {found['populations']} populations; stated: {found['stated']:.0%}\n")
    for name, row in found["coverage"].items():
        print(f"{name:<46} mean {row['mean']:.1%}, from {row['least']:.1%} to {row['most']:.1%}")
    if options.write:
        _write(Path(simulation.__file__).with_suffix(".json"), json.dumps(found, indent=1, ensure_ascii=False))
    return 0


def _report(options: argparse.Namespace) -> int:
    from report.page import page

    path = options.out or figures_folder() / "report.html"
    findings = judge(options.profile)
    facts = path.with_name("claims.json")
    _write(facts, json.dumps([finding.facts for finding in findings], indent=1, ensure_ascii=False))
    _write(path, page(options.profile, figures_folder(), findings, path.parent))
    print(f"{path} and {facts} written")
    return 0


def _parser(name: str, function: Callable) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"pna {name}", description=function.__doc__)
    parser.add_argument(
        "--profile",
        type=_profile,
        default=RECORDED,
        help="a budget, such as quick or paper; or recorded, the fullest that has all cells of a figure (default)",
    )
    return parser


def _profile(text: str) -> str:
    try:
        return text if text == RECORDED else profile_named(text).name
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _write(path: Path, text: str) -> None:
    write_whole(path, lambda file: file.write(f"{text}\n".encode()))


def _told(name: str, run: Callable[[], int]) -> int:
    """The same words as of every command; what is wrong here is what is recorded, and not a value."""
    code = run_command(name, run)
    return FAILED if code == BAD_VALUE else code
