"""The findings as text for the terminal, and as JSON."""

import textwrap
from collections import Counter
from collections.abc import Sequence

from pna.figures.style import tame
from pna.verdicts.rules import NOT_RUN, WORDS, Decision
from report.claims import Finding

__all__ = ["claims_text", "direction_of", "facts_of"]

_CORRECTED = (
    "A claim's comparisons are corrected for their number by Holm's method; each interval is of one comparison alone, "
    "so a comparison whose interval leaves out zero can still be undecided."
)


def direction_of(finding: Finding) -> str:
    """The outcome at a smaller budget than the paper's, in brackets; empty at the paper's."""
    shown = finding.kind == NOT_RUN and finding.outcome != NOT_RUN
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
        budget = f" [{finding.budget}]" if finding.budget and finding.outcome != NOT_RUN else ""
        lines += textwrap.wrap(text + budget, 96, initial_indent="    ", subsequent_indent="    ")
    lines += ["", *textwrap.wrap(_CORRECTED, 100)]
    counts = Counter(finding.kind for finding in findings)
    lines += ["", ", ".join(f"{counts[kind]} {kind}" for kind in WORDS if counts[kind])]
    return "\n".join(lines).lstrip("\n")


def facts_of(finding: Finding) -> dict:
    """A finding as JSON, with every comparison behind it."""
    claim = finding.claim
    return {
        "id": claim.id,
        "claim": claim.sentence,
        "where": claim.where,
        "spec": finding.spec,
        "kind": finding.kind,
        "verdict": finding.verdict,
        "outcome": finding.outcome,
        "evidence": finding.evidence,
        "budget": finding.budget,
        "cells": list(finding.cells),
        "comparisons": [_comparison(row) for row in finding.rows],
    }


def _comparison(row: Decision) -> dict:
    """A comparison as JSON: its estimate with the 95 % interval, and p after Holm's correction."""
    facts = {"name": row.comparison.name, "outcome": row.outcome}
    if (one := row.comparison.found) is not None:
        facts |= tame({"value": one.value, "interval": one.interval, "bound": row.comparison.bound, "p": row.p})
    return facts | ({"text": row.comparison.text} if row.comparison.text else {})
