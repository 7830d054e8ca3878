"""The evidence for each statement of the paper, and the verdict that it allows: the rows that a page prints.

Evidence is a formal proof, with its tool and the axioms it rests on; or an exact computation, a certified interval, a
sample, a measurement. Only what is proved or exact is called "reproduced". "Holds after repair" means that what is
checked is not what is printed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from verification import prove, slips
from verification.checks import CHECKS, EXACT, INTERVAL, MEASURED, SAMPLED
from verification.theorems import HOL_LIGHT, THEOREMS

__all__ = ["PROVED", "VERDICTS", "Row", "checked_rows", "formal_rows", "rows", "slip_rows"]

PROVED = "proved formally"
NOT_RECORDED = "a formal proof that is not recorded"
FAILS = "FAILS"
VERDICTS = {
    PROVED: "reproduced",
    EXACT: "reproduced",
    INTERVAL: "certified for these instances",
    SAMPLED: "sampled, no counterexample",
    MEASURED: "measured",
}
"""What is said of a statement that has this kind of evidence."""

REPAIRED = {
    "theorem2/h_injective": "γ is the minimum over s(i) > s(j); the paper prints s(i) ≥ s(j).",
    "proposition1/unknown-size": "For an unknown size the scaled mean of 1 is needed; the paper prints that of X.",
    "theorem2/exact-codes": "γ is the minimum over s(i) > s(j); the paper prints s(i) ≥ s(j).",
    "theorem2/log-codes": "γ is the minimum over s(i) > s(j); the paper prints s(i) ≥ s(j).",
}
"""Statements, by their id, in which something printed had to be replaced; and the repair."""

NOTES = {
    "theorem1/THEOREM_1": "Features are scalars; docs/theory.md treats vectors.",
    "proposition1/proposition_1": "Equation 4 is taken with a signed root for odd orders.",
    "theorem2/theorem_2": "Sizes begin at 1, because the empty multiset has no mean.",
    "theorem2/theorem_2_positive": "Sizes begin at 1, because the empty multiset has no mean.",
    "theorem2/theorem_2_sharp": "The sharp version replaces the shift and the sign condition of the printed proof.",
    "piecewise-linear/pna_layer_not_injective": "The theorem does not say how wide the linear pieces of a trained "
    "network are.",
    "piecewise-linear/pna_layer_of_vectors_not_injective": "Messages are linear or ReLU networks. That any fewer than "
    "nD continuous aggregators collide is not formalised.",
}
"""What has to be said beside a theorem that holds as it stands."""


@dataclass(frozen=True)
class Row:
    """A statement, the kind of evidence it has, by which tool and on which axioms, its range, and what may be said."""

    id: str
    statement: str
    kind: str
    tool: str
    axioms: str
    range: str
    evidence: str
    caveat: str
    verdict: str


def rows() -> list[Row]:
    """All rows: what is proved formally first."""
    return [*formal_rows(), *checked_rows()]


def formal_rows() -> Iterator[Row]:
    """The theorems of `formal/`, as recorded; one whose file has changed since does not count."""
    for theorem in THEOREMS:
        try:
            record = prove.recorded(theorem.tool)
            axioms, version = record["theorems"][theorem.name]["assumptions"], next(iter(record["versions"].values()))
            verdict = "holds after repair" if theorem.id in REPAIRED else VERDICTS[PROVED]
        except prove.NotProvedError as error:
            axioms, version, verdict = str(error), "", NOT_RECORDED
        if theorem.tool == HOL_LIGHT and verdict != NOT_RECORDED:
            axioms = "no hypotheses, only the axioms of infinity, choice and extensionality"
        yield Row(
            theorem.id,
            f"{theorem.paper}: {theorem.words}",
            PROVED if verdict != NOT_RECORDED else NOT_RECORDED,
            f"{theorem.tool} {version}".strip(),
            axioms,
            theorem.range,
            f"{theorem.name} in formal/{theorem.file}",
            REPAIRED.get(theorem.id) or NOTES.get(theorem.id, ""),
            verdict,
        )


def checked_rows() -> Iterator[Row]:
    """The checks, run now; one that raises fails, and the others go on."""
    for check in CHECKS:
        verdict = "holds after repair" if check.id in REPAIRED else VERDICTS[check.kind]
        try:
            ranged, seen = check.run()
        except Exception as error:  # a report says what failed, and goes on
            ranged, seen, verdict = check.range, f"{type(error).__name__}: {error}", FAILS
        caveat = " ".join(filter(None, (REPAIRED.get(check.id), check.caveat)))
        yield Row(check.id, check.statement, check.kind, check.method, "", ranged, seen, caveat, verdict)


def slip_rows() -> list[tuple[slips.Slip, bool]]:
    """Every slip and loose end, and whether its instance fails and its repair holds, as said."""
    return [(slip, slip.fails() and slip.holds()) for slip in slips.SLIPS]
