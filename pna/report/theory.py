"""The theory's status: every check of verification/, run now."""

from dataclasses import dataclass
from functools import cache

__all__ = ["Outcome", "outcomes"]


@dataclass(frozen=True)
class Outcome:
    """A statement with what its check says: status is "holds", "measured", "FAILS" or "not checked"."""

    statement: str
    method: str
    range: str
    caveat: str
    status: str
    evidence: str


@cache
def outcomes() -> tuple[Outcome, ...]:
    """All rows; a check that raises fails, and the others go on. None at all if verification cannot be imported."""
    try:
        from verification.checks import CHECKS, MEASURED
    except ImportError as error:
        return (Outcome("The paper's theory", "", "", "", "not checked", f"verification needs {error.name}"),)
    rows = []
    for check in CHECKS:
        try:
            evidence, status = check.evidence(), MEASURED if check.method == MEASURED else "holds"
        except Exception as error:
            evidence, status = f"{type(error).__name__}: {error}", "FAILS"
        rows.append(Outcome(check.statement, check.method, check.range, check.caveat, status, evidence))
    return tuple(rows)
