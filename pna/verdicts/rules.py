"""One rule for words: from comparisons to a verdict. Every claim of the paper goes through `rule`.

A claim is a number of comparisons. Each has a p-value; all of a claim are corrected together by Holm's method, so
that the chance of even one false "holds" or "against" among them is at most 5 %. One exception: that a published number
is ours (`inside`) holds by its 95 % range, comparison by comparison.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pna.verdicts.statistics import LEVEL, Estimate, holm

__all__ = ["AGAINST", "FEW", "HOLDS", "MARGIN", "NOT_RUN", "TOLERANCE", "UNDECIDED", "WORDS"]
__all__ += ["Comparison", "Decision", "Ruling", "fact", "inside", "less", "number", "rule"]

MARGIN = 0.1  # of log10 MSE: a smaller difference is none (a factor of 1.26)
TOLERANCE = 0.3  # of log10 MSE: a published number may be so far from ours (a factor of 2)
NOT_RUN = "not yet run at full budget"
FEW = "too few seeds"

HOLDS, AGAINST, UNDECIDED = "holds", "against", "undecided"

WORDS: dict[str, str] = {
    "reproduced": "every comparison of the claim holds",
    "in part": "so many comparisons hold; the others are undecided",
    "contradicted": "at least one comparison is significantly against the claim; it is named",
    "undecided": "no comparison is significant, one way or the other",
    "holds after repair": "true, once a slip in the printed statement or proof is repaired",
    "not in the released code": "the authors' code has no such training; what ours says is given beside it",
    NOT_RUN: "the paper's budget (ten seeds, up to 10,000 epochs) is not recorded for all cells of the claim",
    "not tested": "the reason is given",
}


@dataclass(frozen=True)
class Comparison:
    """A part of a claim: with a corrected p-value below 5 % it is `side`, else `otherwise`."""

    name: str
    p: float
    side: str
    otherwise: str = UNDECIDED
    found: Estimate | None = None  # what is drawn with its interval
    bound: float = 0.0  # and the line that it is drawn beside
    text: str = ""  # said in place of the estimate

    def __str__(self) -> str:
        if self.text or self.found is None:
            between = ": " if self.found else " "
            return f"{self.name}{between}{self.text}".strip()
        low, high = self.found.interval
        ends = f" [{number(low)}, {number(high)}]" if self.found.known else ""
        return f"{self.name} {number(self.found.value)}{ends}"


@dataclass(frozen=True)
class Decision:
    """A comparison with its corrected p-value, and what that makes of it."""

    comparison: Comparison
    p: float
    outcome: str


@dataclass(frozen=True)
class Ruling:
    """A verdict: its kind (a key of WORDS), the word itself, the reasons and every decision behind it."""

    kind: str
    word: str
    text: str
    rows: tuple[Decision, ...] = ()


def number(value: float, digits: int = 2) -> str:
    """With its sign, a true minus; what rounds to zero has none."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def less(name: str, difference: Estimate, bound: float = 0.0) -> Comparison:
    """That a difference is less than a bound; significantly more is against it."""
    p = difference.below(bound)
    return Comparison(name, 2 * min(p, 1 - p), HOLDS if p < 0.5 else AGAINST, found=difference, bound=bound)


def inside(name: str, ours: Estimate, published: float) -> Comparison:
    """That a published mean is what ten more of our runs would give: all of the range of ours minus published, which
    has the errors of both, is within the tolerance. Against it is a published mean that is significantly another.
    """
    found = ours.next.shifted(-published)
    near = max(map(abs, found.interval)) <= TOLERANCE
    return Comparison(name, found.unlike(0.0), AGAINST, HOLDS if near else UNDECIDED, found=found)


def fact(name: str, true: bool, text: str = "") -> Comparison:
    """Something that is so or not, without chance."""
    return Comparison(name, 0.0, HOLDS if true else AGAINST, text=text)


def rule(comparisons: Iterable[Comparison], need: int | None = None) -> Ruling:
    """The verdict on the claim that all comparisons hold, or at least `need` of them."""
    rows = _decide(list(comparisons))
    if not rows:
        return Ruling(NOT_RUN, NOT_RUN, "no run to compare is recorded")
    if any(row.outcome == FEW for row in rows):
        return Ruling(UNDECIDED, FEW, f"no interval from so few seeds; as it stands: {_names(rows)}", rows)
    held, against = (sum(row.outcome == outcome for row in rows) for outcome in (HOLDS, AGAINST))
    need = len(rows) if need is None else need
    if held >= need:
        kind = "reproduced"
    elif against and len(rows) - against < need:
        kind = "contradicted"
    else:
        kind = "in part" if held else UNDECIDED
    return Ruling(kind, f"{held} of {len(rows)}" if kind == "in part" else kind, _reasons(rows, need), rows)


def _decide(comparisons: Sequence[Comparison]) -> tuple[Decision, ...]:
    known = [one for one in comparisons if not math.isnan(one.p)]
    corrected = dict(zip(map(id, known), holm([one.p for one in known]), strict=True))
    return tuple(_decision(one, corrected.get(id(one), math.nan)) for one in comparisons)


def _decision(one: Comparison, p: float) -> Decision:
    if math.isnan(p):
        return Decision(one, p, FEW)
    return Decision(one, p, one.side if p < 1 - LEVEL else one.otherwise)


def _reasons(rows: Sequence[Decision], need: int) -> str:
    """How many hold, which do not, and the least certain of them if all do."""
    if len(rows) == 1:
        return str(rows[0].comparison)
    held = [row for row in rows if row.outcome == HOLDS]
    parts = [f"{len(held)} of {len(rows)} hold"]
    if len(held) >= need:
        estimated = [row for row in held if row.comparison.found is not None]
        if need < len(rows) or not estimated:
            return f"{parts[0]}: {_names(held, len(held) if need == len(rows) else 3)}"
        weakest = max(estimated, key=lambda row: row.comparison.p)
        return f"{parts[0]}; the least certain: {weakest.comparison}"
    for outcome, words, shown in ((AGAINST, "against it", 6), (UNDECIDED, "undecided", 3)):
        if names := _names([row for row in rows if row.outcome == outcome], shown):
            parts.append(f"{words}: {names}")
    return "; ".join(parts)


def _names(rows: Sequence[Decision], shown: int = 3) -> str:
    names = [str(row.comparison) for row in rows]
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
