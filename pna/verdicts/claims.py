"""Claims of a paper with their verdicts: as data, as JSON, as text and as a page."""

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from pna.verdicts.rules import NOT_RUN, NOT_TESTED, WORDS, Comparison, Decision, Ruling, rule

__all__ = ["Claim", "Finding", "claims_markdown", "claims_text", "rounded"]

_CORRECTED = (
    "In square brackets after a number: its 95 % interval. The p-values of a claim's comparisons are corrected "
    "together by Holm's method; the intervals are not. A comparison can therefore be undecided although its interval "
    "excludes zero."
)


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, paraphrased, and the test that decides it.

    Attributes:
        id: a short, unique name
        sentence: what is claimed
        where: the section, figure or table that it stands in, and the measure that decides where there are several
        figure: the figure that a page shows it under
        test: makes the claim's comparisons from the evidence; None if it is not tested here
        aggregate: makes, from the same evidence, the parts of the one test that decides the claim; without it the
            comparisons themselves decide
        need: how many of the parts, or of the comparisons, must hold; all of them if None
        reason: why it is not tested
        quote: the sentence as it is printed, for a claim that a page quotes
        statistic: the test in words, printed with the verdict; "" for none
        instead: what is seen, in a clause, where the test is significantly against the claim
        because: why the test is against the claim, in a clause
    """

    id: str
    sentence: str
    where: str
    figure: str = ""
    test: Callable[..., Iterable[Comparison]] | None = None
    aggregate: Callable[..., Iterable[Comparison]] | None = None
    need: int | None = None
    reason: str = ""
    quote: str = ""
    statistic: str = ""
    instead: str = ""
    because: str = ""

    def judge(self, *evidence: object, complete: bool = True, **details: str | tuple[str, ...]) -> "Finding":
        """Judge the claim by the evidence.

        Args:
            evidence: what the test is called with, such as scores by model
            complete: whether this is all the evidence that the claim needs; if not, it shows a direction only
            details: `spec`, `budget` and `cells` of the finding
        """
        if self.test is None:
            return Finding(self, NOT_TESTED, NOT_TESTED, NOT_TESTED, self.reason, **details)
        parts = self.aggregate(*evidence) if self.aggregate else ()
        return Finding.of(self, rule(self.test(*evidence), self.need, parts), complete, **details)


@dataclass(frozen=True)
class Finding:
    """A claim with its verdict.

    Attributes:
        claim: the claim
        kind: a key of WORDS
        verdict: the word, or how many comparisons hold
        outcome: the word that the comparisons give, whether or not the evidence is complete
        evidence: the reasons, in words
        rows: every comparison, decided
        tests: the parts of the aggregate test, decided
        p: the p-value of the aggregate test, that the claim holds and that it does not
        spec: the specification that was run, as the paper's or the released code's; empty if there is but one
        budget: what was run, in words
        cells: the files of the recorded trainings
    """

    claim: Claim
    kind: str
    verdict: str
    outcome: str
    evidence: str
    rows: tuple[Decision, ...] = ()
    tests: tuple[Decision, ...] = ()
    p: tuple[float, float] = (math.nan, math.nan)
    spec: str = ""
    budget: str = ""
    cells: tuple[str, ...] = ()

    @classmethod
    def of(cls, claim: Claim, ruling: Ruling, complete: bool = True, **details: str | tuple[str, ...]) -> "Finding":
        """Turn a ruling on a claim into a finding; with incomplete evidence it is "not yet run at full budget"."""
        kind, word = (ruling.kind, ruling.word) if complete else (NOT_RUN, NOT_RUN)
        p = (ruling.p, ruling.p_against)
        return cls(claim, kind, word, ruling.word, ruling.text, ruling.rows, ruling.tests, p, **details)

    @property
    def direction(self) -> str:
        """Outcome that incomplete evidence points to, in brackets; "" if there is none."""
        shown = self.kind == NOT_RUN and self.outcome != NOT_RUN
        return f" (at this budget: {self.outcome})" if shown else ""

    @property
    def facts(self) -> dict:
        """The finding for JSON, with every comparison behind it."""
        test = {"p": rounded(self.p[0]), "p_against": rounded(self.p[1]), "parts": [_facts(row) for row in self.tests]}
        return {
            "id": self.claim.id,
            "claim": self.claim.sentence,
            "where": self.claim.where,
            "statistic": self.claim.statistic,
            "figure": self.claim.figure,
            "spec": self.spec,
            "kind": self.kind,
            "verdict": self.verdict,
            "outcome": self.outcome,
            "evidence": self.evidence,
            "budget": self.budget,
            "cells": list(self.cells),
            "aggregate": test if self.tests else None,
            "comparisons": [_facts(row) for row in self.rows],
        }


def _facts(row: Decision) -> dict:
    """A comparison for JSON: its estimate with the 95 % interval, and the p-value after Holm's correction."""
    facts: dict = {"name": row.comparison.name, "outcome": row.outcome}
    if (estimate := row.comparison.estimate) is not None:
        facts |= {"value": rounded(estimate.value), "interval": [rounded(end) for end in estimate.interval]}
        facts |= {"bound": rounded(row.comparison.bound), "p": rounded(row.p)}
    return facts | ({"text": row.comparison.text} if row.comparison.text else {})


def rounded(value: float) -> float | None:
    """A number for JSON: five significant digits, at most nine decimals; None for infinity and nan."""
    return round(float(f"{value:.5g}"), 9) + 0.0 if math.isfinite(value) else None


# ---- as text ----


def claims_text(findings: Sequence[Finding], unit: str = "") -> str:
    """The claims as text, 100 columns wide, with the count of verdicts at the end.

    Args:
        findings: the claims with their verdicts
        unit: a sentence on the unit of the numbers, printed below the claims
    """
    lines = []
    for claim, group in groupby(findings, key=lambda finding: finding.claim):
        lines += ["", *textwrap.wrap(f"{claim.sentence} ({claim.where})", 100)]
        if claim.statistic:
            lines += textwrap.wrap(f"Test: {claim.statistic}.", 96, initial_indent="    ", subsequent_indent="    ")
        for finding in group:
            lines += textwrap.wrap(_sentence(finding), 96, initial_indent="    ", subsequent_indent="    ")
    lines += ["", *textwrap.wrap(f"{unit} {_CORRECTED}".lstrip(), 100), "", _counts(findings)]
    return "\n".join(lines).lstrip("\n")


def _sentence(finding: Finding) -> str:
    """A finding on one line of text: specification, verdict, evidence and budget."""
    spec = f"{finding.spec}: " if finding.spec else ""
    budget = f" [{finding.budget}]" if finding.budget and finding.outcome != NOT_RUN else ""
    return f"{spec}{finding.verdict.upper()}{finding.direction}. {finding.evidence}{budget}"


def _counts(findings: Sequence[Finding]) -> str:
    """Number of findings of each kind, as "40 reproduced, 6 contradicted"."""
    counts = Counter(finding.kind for finding in findings)
    return ", ".join(f"{counts[kind]} {kind}" for kind in WORDS if counts[kind])


# ---- as a page ----


def claims_markdown(title: str, findings: Sequence[Finding]) -> str:
    """The claims as a page in Markdown: all verdicts, every comparison behind them, and what the words mean."""
    rows = [(f.claim.sentence, f.claim.where, f.spec, f"**{f.verdict}**{f.direction}", f.evidence) for f in findings]
    parts = [f"# {title}", f"{_counts(findings)}."]
    parts.append(_table(("claim", "where", "run as", "verdict", "evidence"), rows))
    for finding in findings:
        if finding.rows:
            run_as = f" ({finding.spec})" if finding.spec else ""
            header = ("comparison", "value", "95 % interval", "p (Holm)", "outcome")
            parts += [f"## {finding.claim.sentence}{run_as}", _table(header, map(_row, finding.rows))]
    kinds = {finding.kind for finding in findings}
    words = [(word, meaning) for word, meaning in WORDS.items() if word in kinds]
    parts += ["## What the verdicts mean", _table(("verdict", "means"), words), _CORRECTED]
    return "\n\n".join(parts) + "\n"


def _row(row: Decision) -> tuple[str, ...]:
    """One decided comparison as the texts of its columns: name, value, interval, p-value and outcome."""
    comparison = row.comparison
    if not comparison.estimate:
        return comparison.name, comparison.text, "", "", row.outcome
    value, *ends = comparison.numbers
    p = "" if math.isnan(row.p) else f"{row.p:.3f}" if row.p >= 0.001 else "< 0.001"
    return comparison.name, value, " to ".join(ends), p, row.outcome


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table in Markdown, without columns that are empty in every row."""
    rows = list(rows)
    shown = [k for k in range(len(header)) if any(row[k] for row in rows)]
    lines = [[header[k] for k in shown], ["---"] * len(shown)]
    lines += [[row[k].replace("|", "\\|") for k in shown] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
