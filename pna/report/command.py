"""`python -m pna claims` and `report`."""

import argparse
import json
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from pna.report.claims import NOT_RUN, VERDICTS, Finding, judge
from pna.report.places import figures_folder
from pna.report.runs import RECORDED, profile_named

__all__ = ["claims", "claims_text", "direction_of", "facts_of", "report"]


def claims(arguments: Sequence[str]) -> int:
    """Print every claim of the paper with its verdict, or one JSON list."""
    parser = _parser("claims", claims)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write them to a file as well")
    options = parser.parse_args(arguments)
    return _told("claims", lambda: _claims(options))


def _claims(options: argparse.Namespace) -> int:
    findings = judge(options.profile)
    print(claims_text(findings))
    if options.json:
        _write(options.json, json.dumps([facts_of(finding) for finding in findings], indent=1, ensure_ascii=False))
    return 0


def report(arguments: Sequence[str]) -> int:
    """Write all figures and claims beside the published ones as one self-contained page."""
    parser = _parser("report", report)
    parser.add_argument("--out", type=Path, help="the page (default: report.html beside the figures)")
    options = parser.parse_args(arguments)
    return _told("report", lambda: _report(options))


def _report(options: argparse.Namespace) -> int:
    from pna.report.page import page

    path = options.out or figures_folder() / "report.html"
    findings = judge(options.profile)
    facts = path.with_name("claims.json")
    _write(facts, json.dumps([facts_of(finding) for finding in findings], indent=1, ensure_ascii=False))
    _write(path, page(options.profile, figures_folder(), findings))
    print(f"{path} and {facts} written")
    return 0


def facts_of(finding: Finding) -> dict[str, str]:
    """A finding as JSON."""
    claim = finding.claim
    return {
        "id": claim.id,
        "claim": claim.sentence,
        "where": claim.where,
        "spec": finding.spec,
        "verdict": finding.verdict,
        "outcome": finding.outcome,
        "evidence": finding.evidence,
        "budget": finding.budget,
    }


def direction_of(finding: Finding) -> str:
    """What a smaller budget says, in brackets."""
    shown = finding.verdict == NOT_RUN and finding.outcome != "no runs"
    return f" (at this budget: {finding.outcome})" if shown else ""


def claims_text(findings: Sequence[Finding]) -> str:
    """The claims as text, 100 columns wide, with the count of verdicts at the end."""
    lines, last = [], None
    for finding in findings:
        claim = finding.claim
        if claim is not last:
            lines += ["", *textwrap.wrap(f"{claim.sentence} ({claim.where})", 100)]
            last = claim
        side = f"{finding.spec}: " if finding.spec else ""
        text = f"{side}{finding.verdict.upper()}{direction_of(finding)}. {finding.evidence}"
        budget = f" [{finding.budget}]" if finding.budget and finding.outcome != "no runs" else ""
        lines += textwrap.wrap(text + budget, 96, initial_indent="    ", subsequent_indent="    ")
    counts = Counter(finding.verdict for finding in findings)
    lines += ["", ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])]
    return "\n".join(lines).lstrip("\n")


def _parser(name: str, function: Callable) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"pna {name}", description=function.__doc__)
    parser.add_argument(
        "--profile",
        type=_profile,
        default=RECORDED,
        help="a budget, as quick or paper; or recorded, the fullest that has all cells of a figure (default)",
    )
    return parser


def _profile(text: str) -> str:
    try:
        return text if text == RECORDED else profile_named(text).name
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.tmp")
    unfinished.write_text(text + "\n", encoding="utf-8")
    os.replace(unfinished, path)


def _told(name: str, run: Callable[[], int]) -> int:
    """An error in words instead of a traceback, with exit code 1."""
    try:
        return run()
    except (ValueError, OSError, ImportError) as error:
        print(f"pna {name}: {error}", file=sys.stderr)
        return 1
