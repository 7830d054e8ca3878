"""`python -m pna claims`, `plan`, `report`, `coverage` and `cards`."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pna.command_line import BAD_VALUE, FAILED, positive, run_command, say_if_empty
from pna.departures import SPECS
from pna.errors import MissingData
from pna.files import write_whole
from pna.places import figures_folder, results_folder
from pna.verdicts.claims import Finding, claims_text
from pna.verdicts.rules import WORDS
from report.cache import KEY, key_of, recall

__all__ = ["cards", "claims", "coverage", "plan", "report"]

UNIT = "The numbers of the multi-task benchmark are differences in log10 MSE, unless the test names another measure."
RECORDED = "recorded"  # as in pna.figures.runs, whose import takes seconds


def claims(arguments: Sequence[str]) -> int:
    """Print every claim of the paper with its verdict."""
    parser = _parser("claims", claims)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write them to this file, as one JSON list")
    parser.add_argument(
        "--verdict", choices=WORDS, metavar="WORD", help=f"only claims with this verdict: {', '.join(WORDS)}"
    )
    parser.add_argument("--spec", choices=SPECS, help="only verdicts on this specification")
    parser.add_argument("--figure", metavar="NAME", help="only claims of this figure, as 5 or single-task")
    options = parser.parse_args(arguments)
    return _run("claims", lambda: _claims(options))


def _claims(options: argparse.Namespace) -> int:
    """Print the claims that the options select, and write them as JSON if asked; return the exit code."""
    say_if_empty(results_folder())
    findings, facts = recall(options.profile, judge)
    figures = dict.fromkeys(finding.claim.figure for finding in findings)
    figure = options.figure if options.figure in (None, *figures) else f"figure{options.figure}"
    if figure not in (None, *figures):
        words = f"--figure must be one of {', '.join(filter(None, figures))}; got {options.figure!r}"
        print(f"pna claims: {words}", file=sys.stderr)
        return BAD_VALUE
    wanted = {"kind": options.verdict, "spec": options.spec}
    chosen = [
        k
        for k, finding in enumerate(findings)
        if figure in (None, finding.claim.figure)
        and all(value in (None, getattr(finding, name)) for name, value in wanted.items())
    ]
    print(claims_text([findings[k] for k in chosen], UNIT) if chosen else "no claim is of this kind")
    if options.json:
        _write_json(options.json, [facts[k] for k in chosen])
    return 0


def judge(profile: str) -> list[Finding]:
    """Judge every claim.

    The imports are deferred, because verdicts that come from the cache need none of them.
    """
    print("Judging every claim from the recorded results: about a minute on two cores.", file=sys.stderr, flush=True)
    from report import claims

    return claims.judge(profile)


def plan(arguments: Sequence[str]) -> int:
    """Print the plan: every claim's test, and the seeds that it needs for 90 % power given what is recorded."""
    parser = argparse.ArgumentParser(prog="pna plan", description=plan.__doc__)
    parser.add_argument(
        "--write", action="store_true", help="write it to results/plan.json, if none of its runs exists"
    )
    options = parser.parse_args(arguments)
    return _run("plan", lambda: _plan(options))


def _plan(options: argparse.Namespace) -> int:
    """Print the plan, and write it if asked, unless one of its runs is recorded; return the exit code."""
    from report import plan as planning

    if runs := planning.fixed():
        facts = planning.read_plan()
        print(f"the plan is fixed: {len(runs)} of its runs are recorded, the first in {runs[0]}\n")
        if facts is None:
            raise ValueError(f"{planning.plan_path()} is missing, though runs of the plan are recorded")
        print(planning.plan_text(facts))
        return FAILED if options.write else 0
    facts = planning.plan()
    print(planning.plan_text(facts))
    if options.write:
        _write_json(planning.plan_path(), facts)
        page = planning.page_path()
        _write(page, planning.page_with_tables(page.read_text(encoding="utf-8"), facts).rstrip("\n"))
    return 0


def report(arguments: Sequence[str]) -> int:
    """Write every figure and claim, beside the published numbers, as one self-contained page."""
    parser = _parser("report", report)
    parser.add_argument("--out", type=Path, help="the page (default: report.html beside the figures)")
    options = parser.parse_args(arguments)
    return _run("report", lambda: _report(options))


def _report(options: argparse.Namespace) -> int:
    """Write the page, and next to it claims.json with the key that it is valid for; return the exit code."""
    from report.page import page

    path = options.out or figures_folder() / "report.html"
    findings = judge(options.profile)
    facts = path.with_name("claims.json")
    _write_json(facts, _facts(findings))
    _write(path.with_name(KEY), key_of(options.profile))
    _write(path, page(options.profile, figures_folder(), findings, path.parent))
    print(f"{path} and {facts} written")
    return 0


def coverage(arguments: Sequence[str]) -> int:
    """Simulate on the recorded seeds how often the report's 95 % intervals contain the truth, beside other methods."""
    parser = argparse.ArgumentParser(prog="pna coverage", description=coverage.__doc__)
    parser.add_argument(
        "--trials", type=positive, default=2_000, help="trials for each cell and population (default: %(default)s)"
    )
    parser.add_argument("--write", action="store_true", help="write the table to the file that the report reads")
    options = parser.parse_args(arguments)
    return _run("coverage", lambda: _coverage(options))


def _coverage(options: argparse.Namespace) -> int:
    """Print the simulated coverage of every interval, and write it if asked; return the exit code."""
    from report import coverage as simulation

    facts = simulation.table(options.trials)
    print(f"{facts['trials']:,} trials on each of {facts['populations']} populations; stated: {facts['stated']:.0%}\n")
    for name, row in facts["coverage"].items():
        print(f"{name:<46} mean {row['mean']:.1%}, from {row['least']:.1%} to {row['most']:.1%}")
    if options.write:
        _write_json(Path(simulation.__file__).with_suffix(".json"), facts)
    return 0


def cards(arguments: Sequence[str]) -> int:
    """Print the model card of every experiment, made from the recorded results."""
    parser = argparse.ArgumentParser(prog="pna cards", description=cards.__doc__)
    parser.add_argument("--write", action="store_true", help="write them to docs/models/ instead")
    options = parser.parse_args(arguments)
    return _run("cards", lambda: _cards(options))


def _cards(options: argparse.Namespace) -> int:
    """Print the model cards, or write them if asked; return the exit code."""
    from report import cards as model_cards

    if options.write:
        print("\n".join(f"{path} written" for path in model_cards.write_cards()))
    else:
        print("\n".join(model_cards.cards().values()))
    return 0


def _parser(name: str, function: Callable) -> argparse.ArgumentParser:
    """The parser of `pna NAME`, described by the docstring of `function`, with the option --profile."""
    parser = argparse.ArgumentParser(prog=f"pna {name}", description=function.__doc__)
    parser.add_argument(
        "--profile",
        type=_profile,
        default=RECORDED,
        help="a budget, such as quick or paper; or recorded, the fullest that has all cells of a figure (default)",
    )
    return parser


def _profile(text: str) -> str:
    """The name of a profile given on the command line; an unknown one is a usage error."""
    if text == RECORDED:
        return text
    from pna.figures.runs import profile_named

    try:
        return profile_named(text).name
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _facts(findings: Sequence[Finding]) -> list[dict]:
    """The findings as JSON objects."""
    return [finding.facts for finding in findings]


def _write_json(path: Path, facts: object) -> None:
    """Write an object as JSON, whole or not at all."""
    _write(path, json.dumps(facts, indent=1, ensure_ascii=False))


def _write(path: Path, text: str) -> None:
    """Write a text and a final line break, whole or not at all."""
    write_whole(path, lambda file: file.write(f"{text}\n".encode()))


def _run(name: str, run: Callable[[], int]) -> int:
    """Run a command as `run_command` does, but exit with FAILED on a ValueError.

    In these commands it means damaged results, not a bad argument.
    """

    def judged() -> int:
        """Run it; damaged results become one line and FAILED."""
        try:
            return run()
        except MissingData:
            raise
        except ValueError as error:
            print(f"pna {name}: {error}", file=sys.stderr)
            return FAILED

    return run_command(name, judged)
