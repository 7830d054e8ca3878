"""The status of the theory: formal proofs, and every check of verification/, run now."""

from dataclasses import dataclass
from functools import cache

__all__ = ["Outcome", "SlipFound", "outcomes", "slips"]


@dataclass(frozen=True)
class Outcome:
    """A statement and its evidence: `kind` says which, `verdict` what may be said, `axioms` what a proof rests on.

    `topic` is the id of the claim that it is evidence for. `status` is "holds", "measured", "FAILS" or "not checked".
    """

    topic: str
    statement: str
    method: str
    range: str
    caveat: str
    status: str
    evidence: str
    kind: str = ""
    verdict: str = ""
    axioms: str = ""


@dataclass(frozen=True)
class SlipFound:
    """A slip or loose end of the published proofs: what is printed, where it fails, and its repair.

    `checked` says whether verification confirms both.
    """

    where: str
    kind: str
    printed: str
    fails_on: str
    repair: str
    checked: bool


@cache
def outcomes() -> tuple[Outcome, ...]:
    """Run all checks; one that raises an error counts as failed. There are none if verification cannot be imported."""
    try:
        from verification import evidence
    except ImportError as error:
        installed = error.name == "verification"
        why = "verification/ is in the repository, not in the package" if installed else f"it needs {error.name}"
        return (Outcome("", "The paper's theory", "", "", "", "not checked", why),)
    status = {evidence.FAILS: "FAILS", evidence.NOT_RECORDED: "not checked", "measured": "measured"}
    return tuple(
        Outcome(
            row.id.split("/")[0], row.statement, row.tool, row.range, row.caveat, status.get(row.verdict, "holds"),
            row.evidence, row.kind, row.verdict, row.axioms,
        )
        for row in evidence.rows()
    )  # fmt: skip


@cache
def slips() -> tuple[SlipFound, ...]:
    """Every slip and loose end that verification lists."""
    try:
        from verification import evidence
    except ImportError:
        return ()
    return tuple(
        SlipFound(slip.where, slip.kind, slip.printed, slip.instance, slip.repair, ok)
        for slip, ok in evidence.slip_rows()
    )
