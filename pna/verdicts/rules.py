"""The one rule that turns comparisons into a verdict. Every claim of a paper goes through `rule`.

A claim consists of comparisons. Each has a p-value, and all p-values of a claim are corrected together by Holm's
method, so that the chance of even one false "holds" or "against" among them is at most 5 %. There is one exception:
whether a published number matches ours (`inside`) is decided by its 95 % range, comparison by comparison.

A claim may have an aggregate test, which then decides it: one or a few comparisons, each a mean over many of those
above. That all of them hold needs no correction, that at least some of them hold is a partial conjunction. The
comparisons themselves are then the detail: how many are for the claim, undecided, and against it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from scipy.special import bdtr

from pna.verdicts.statistics import FEWEST, LEVEL, Estimate, conjunction, holm

__all__ = ["AGAINST", "FEW", "HOLDS", "MEAN", "NOT_RUN", "NOT_TESTED", "UNDECIDED", "WORDS", "Comparison", "Decision"]
__all__ += ["Ruling", "fact", "inside", "interval_end", "less", "majority", "number", "rule", "same"]

NOT_RUN = "not yet run at full budget"
NOT_TESTED = "not tested"
FEW = "too few seeds"

HOLDS, AGAINST, UNDECIDED = "holds", "against", "undecided"

WORDS: dict[str, str] = {
    "reproduced": "the claim's test holds, and no comparison in the detail is significantly against it",
    "in part": "the test holds, but some comparison in the detail is against it; or some parts of the test hold, and "
    "none is against it",
    "contradicted": "the test is significantly against the claim",
    "undecided": "the test is not significant, one way or the other",
    "finding": "not a sentence of the paper; the numbers are given",
    "holds after repair": "true, once a slip in the printed statement or proof is repaired",
    "not in the released code": "the authors' code has no such training; the verdict of ours is given beside it",
    NOT_RUN: "the paper's budget is not recorded for all trainings that the claim needs",
    NOT_TESTED: "the reason is given",
}


MEAN = "mean"  # the name of a comparison that is a mean over all others of its claim


@dataclass(frozen=True)
class Comparison:
    """A part of a claim, which is `side` if its corrected p-value is below 5 %, and `otherwise` if it is not."""

    name: str
    p: float
    side: str
    otherwise: str = UNDECIDED
    estimate: Estimate | None = None  # drawn with its interval
    bound: float = 0.0  # the line that the estimate is drawn beside
    text: str = ""  # printed in place of the estimate
    digits: int = 2  # of the estimate, after the point

    def __str__(self) -> str:
        if self.text or self.estimate is None:
            between = ": " if self.estimate else " "
            return f"{self.name}{between}{self.text}".strip()
        return f"{self.name} {self.shown}"

    @property
    def shown(self) -> str:
        """The estimate and, if there are enough seeds, its interval in square brackets, as text."""
        value, *ends = self.numbers
        return f"{value} [{', '.join(ends)}]" if ends else value

    @property
    def numbers(self) -> list[str]:
        """The estimate and, if there are enough seeds, the ends of its interval, as text."""
        if self.estimate is None:
            return []
        ends = self.estimate.interval if self.estimate.known else ()
        return [number(self.estimate.value, self.digits), *(interval_end(end, self.digits) for end in ends)]


@dataclass(frozen=True)
class Decision:
    """A comparison with its corrected p-value, and what that makes of it."""

    comparison: Comparison
    p: float
    outcome: str


@dataclass(frozen=True)
class Ruling:
    """A verdict: its kind (a key of WORDS), the word itself, the reasons and every decision behind it.

    Attributes:
        rows: the comparisons, corrected for their number
        tests: the parts of the aggregate test that decides, if there is one, corrected for their number
        p: the p-value of the aggregate test that the claim holds
        p_against: the p-value of the aggregate test that it does not
    """

    kind: str
    word: str
    text: str
    rows: tuple[Decision, ...] = ()
    tests: tuple[Decision, ...] = ()
    p: float = math.nan
    p_against: float = math.nan


def number(value: float, digits: int = 2) -> str:
    """A number with its sign, a true minus; one that rounds to zero has none."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def interval_end(value: float, digits: int = 2) -> str:
    """An end of an interval: a number with one digit more where it would round to zero, so that its side is seen."""
    return number(value, digits + (round(value, digits) == 0 if math.isfinite(value) else 0))


# ---- comparisons ----


def less(name: str, difference: Estimate, bound: float = 0.0, digits: int = 2) -> Comparison:
    """A comparison that holds if a difference is significantly less than a bound; significantly more is against it."""
    p = difference.below(bound)
    side = HOLDS if p < 0.5 else AGAINST
    return Comparison(name, 2 * min(p, 1 - p), side, estimate=difference, bound=bound, digits=digits)


def same(name: str, difference: Estimate, margin: float, digits: int = 2) -> Comparison:
    """A comparison that holds if a difference, whatever its sign, is significantly smaller than a margin.

    Significantly larger is against it. The margin has to be stated before the difference is known.
    """
    if not margin > 0:
        raise ValueError(f"margin must be positive, got {margin}")
    near, far = difference.within(margin), 2 * min(difference.below(-margin), 1 - difference.below(margin))
    side, bound = HOLDS if near < far else AGAINST, math.copysign(margin, difference.value)
    return Comparison(name, min(near, far), side, estimate=difference, bound=bound, digits=digits)


def inside(name: str, ours: Estimate, published: float, tolerance: float, digits: int = 2) -> Comparison:
    """A comparison that holds if a published mean is what one more experiment like ours would give.

    All of the 95 % range of ours minus published, which has the errors of both, must be within the tolerance. Against
    it is a published mean that differs significantly.
    """
    difference = ours.next.shifted(-published)
    otherwise = HOLDS if max(map(abs, difference.interval)) <= tolerance else UNDECIDED
    return Comparison(name, difference.unlike(0.0), AGAINST, otherwise, estimate=difference, digits=digits)


def majority(name: str, count: int, total: int, text: str = "") -> Comparison:
    """A comparison that holds if something happens in significantly more than half of all runs, by a sign test."""
    p = min(1.0, 2 * float(bdtr(min(count, total - count), total, 0.5))) if total >= FEWEST else math.nan
    return Comparison(name, p, HOLDS if 2 * count > total else AGAINST, text=text)


def fact(name: str, true: bool, text: str = "") -> Comparison:
    """A comparison without chance: something is true, or it is not."""
    return Comparison(name, 0.0, HOLDS if true else AGAINST, text=text)


# ---- verdicts ----


def rule(comparisons: Iterable[Comparison], need: int | None = None, aggregate: Iterable[Comparison] = ()) -> Ruling:
    """The verdict on the claim that all comparisons hold, or at least `need` of them.

    With an aggregate test, all of its parts have to hold, or at least `need` of them, and `comparisons` are the detail.
    """
    rows, tests = _decide(list(comparisons)), _decide(list(aggregate))
    if not rows and not tests:
        return Ruling(NOT_RUN, NOT_RUN, "No run to compare is recorded.")
    if few := [row for row in (*rows, *tests) if row.outcome == FEW]:
        return Ruling(UNDECIDED, FEW, f"There are too few seeds for an interval; so far: {_names(few)}.", rows, tests)
    if tests:
        return _aggregated(rows, tests, min(need or len(tests), len(tests)))
    held, against = (_count(rows, outcome) for outcome in (HOLDS, AGAINST))
    need = len(rows) if need is None else need
    if held >= need:
        kind = "reproduced"
    elif against and len(rows) - against < need:
        kind = "contradicted"
    else:
        kind = "in part" if held else UNDECIDED
    return Ruling(kind, f"{held} of {len(rows)}" if kind == "in part" else kind, _reasons(rows, need), rows)


def _aggregated(rows: Sequence[Decision], tests: Sequence[Decision], need: int) -> Ruling:
    """The verdict of an aggregate test: that `need` of its parts hold, or that too many are against it for that."""
    one_sided = [[_p_for(row, side) for row in tests] for side in (HOLDS, AGAINST)]
    p, p_against = conjunction(one_sided[0], need), conjunction(one_sided[1], len(tests) - need + 1)
    held = _count(tests, HOLDS)
    against = _count(rows, AGAINST) if need == len(tests) else 0  # "at least some" leaves room for the others
    if p < 1 - LEVEL:
        kind, word = ("in part", f"in part, {against} against") if against else ("reproduced", "reproduced")
        if held < need == len(tests):  # by its own p-value each part holds, and that all do needs no correction
            tests = [replace(test, p=_p_for(test, HOLDS), outcome=HOLDS) for test in tests]
    elif p_against < 1 - LEVEL:
        kind = word = "contradicted"
    elif held and len(tests) > 1 and not _count(tests, AGAINST):
        kind, word = "in part", f"{held} of {len(tests)}"
    else:
        kind = word = UNDECIDED
    return Ruling(kind, word, _aggregate_reasons(rows, tests, need), tuple(rows), tuple(tests), p, p_against)


def _p_for(row: Decision, side: str) -> float:
    """The p-value of a comparison for one side; of `inside`, which holds by its range, 0 if it holds."""
    if row.comparison.side == side:
        return row.comparison.p
    return 0.0 if row.comparison.otherwise == side == row.outcome else 1.0


def _aggregate_reasons(rows: Sequence[Decision], tests: Sequence[Decision], need: int) -> str:
    """Outcome of the aggregate test in sentences, and how many of the comparisons behind it support the claim."""
    text = _reasons(tests, need)
    return text if len(rows) <= len(tests) else f"{text} {_tally(rows)}"


def _tally(rows: Sequence[Decision]) -> str:
    """A sentence that counts the comparisons for a claim, undecided and against it, and names those against it."""
    counts = {outcome: _count(rows, outcome) for outcome in _VERBS if _count(rows, outcome)}
    if len(counts) == 1:
        text = f"{_all(len(rows))} individual comparisons {_does(*counts, count=2)}"
    else:
        named = {AGAINST: "it"} if HOLDS in counts else {}  # the claim is named once
        parts = [f"{count} {_does(one, count, named.get(one, _CLAIM))}" for one, count in counts.items()]
        text = f"Of the {len(rows)} individual comparisons, {', '.join(parts[:-1])} and {parts[-1]}"
    against = _names([row for row in rows if row.outcome == AGAINST], 6)
    return f"{text}: {against}." if against else f"{text}."


_CLAIM = "the claim"
_VERBS = {  # what one comparison does, and what several do
    HOLDS: ("supports {}", "support {}"),
    UNDECIDED: ("is undecided", "are undecided"),
    AGAINST: ("contradicts {}", "contradict {}"),
}


def _does(outcome: str, count: int, claim: str = _CLAIM) -> str:
    """What a number of comparisons with the same outcome do to the claim, in words."""
    return _VERBS[outcome][count > 1].format(claim)


def _all(count: int) -> str:
    """All of a number of things in words, to stand before their noun."""
    return "Both" if count == 2 else f"All {count}"


def _count(rows: Sequence[Decision], outcome: str) -> int:
    """Number of decisions with this outcome."""
    return sum(row.outcome == outcome for row in rows)


def _decide(comparisons: Sequence[Comparison]) -> tuple[Decision, ...]:
    """Decide comparisons by their p-values, corrected together by Holm's method; those that are nan do not count."""
    corrected = iter(holm([one.p for one in comparisons if not math.isnan(one.p)]))
    return tuple(_decision(one, math.nan if math.isnan(one.p) else next(corrected)) for one in comparisons)


def _decision(comparison: Comparison, p: float) -> Decision:
    """Decide one comparison by its corrected p-value; nan means that there are too few seeds."""
    if math.isnan(p):
        return Decision(comparison, p, FEW)
    return Decision(comparison, p, comparison.side if p < 1 - LEVEL else comparison.otherwise)


def _reasons(rows: Sequence[Decision], need: int) -> str:
    """Sentences that say how many comparisons hold, which ones do not, and which is the least certain if all do."""
    if len(rows) == 1:
        return _alone(rows[0])
    held = [row for row in rows if row.outcome == HOLDS]
    if len(held) >= need:
        return _enough(held, need, len(rows))
    sentences = [f"{len(held) or 'None'} of {'' if held else 'the '}{len(rows)} comparisons {_hold(len(held))}."]
    for outcome, shown in ((AGAINST, 6), (UNDECIDED, 3)):
        if others := [row for row in rows if row.outcome == outcome]:
            sentences.append(f"{len(others)} {_does(outcome, len(others))}: {_names(others, shown)}.")
    return " ".join(sentences)


def _enough(held: Sequence[Decision], need: int, every: int) -> str:
    """Sentences on a claim of which as many comparisons hold as it needs."""
    if need < every:
        enough = f"{need} {'is' if need == 1 else 'are'} enough"
        return f"{len(held)} of {every} comparisons {_hold(len(held))}, and {enough}: {_names(held)}."
    estimated = [row for row in held if row.comparison.estimate is not None]
    if not estimated:
        return f"{_all(every)} comparisons hold: {_names(held, every)}."
    weakest = max(estimated, key=lambda row: row.comparison.p).comparison
    shown = str(weakest) if weakest.text else f"{weakest.name}: {weakest.shown}"
    return f"{_all(every)} comparisons hold. The least certain is {shown}."


def _hold(count: int) -> str:
    """The verb for a number of comparisons of which all, some or none hold."""
    return "hold" if count > 1 else "holds"


def _alone(row: Decision) -> str:
    """A sentence on the only comparison that decides a claim."""
    one = row.comparison
    if one.estimate is None and one.name and one.text[:1] in tuple("+−0123456789"):
        text = f"{one.name}: {one.text}"
    elif one.text or one.estimate is None:
        text = _named(row, "p")
    elif one.name == MEAN:
        text = f"the mean difference is {one.shown}{_p_clause(row, 'p')}"
    else:
        text = f"{one.name}: the difference is {one.shown}{_p_clause(row, 'p')}"
    return f"{text[:1].upper()}{text[1:]}."


def _named(row: Decision, p_name: str = "corrected p") -> str:
    """A comparison in words, with its p-value if it is undecided though its interval excludes zero or the bound."""
    return f"{row.comparison}{_p_clause(row, p_name)}"


def _p_clause(row: Decision, p_name: str) -> str:
    """The p-value in brackets if a comparison is undecided though its interval excludes zero or the bound; or ""."""
    if not _apart(row):
        return ""
    bound = abs(row.comparison.bound)
    margin = f" in the test against the margin of {bound:g}" if bound else ""
    return f" ({p_name} = {_p_text(row.p)}{margin})"


def _apart(row: Decision) -> bool:
    """Whether a comparison is undecided though its interval excludes zero or the bound that it is tested against."""
    one = row.comparison
    if row.outcome != UNDECIDED or one.estimate is None or not one.estimate.known:
        return False
    low, high = one.estimate.interval
    return not all(low <= line <= high for line in (0.0, one.bound))


def _p_text(p: float) -> str:
    """A p-value to two digits; to three where two would read as the level itself."""
    return text if (text := f"{p:.2f}") != f"{1 - LEVEL:.2f}" else f"{p:.3f}"


def _names(rows: Sequence[Decision], shown: int = 3) -> str:
    """List the first `shown` comparisons in words, those that need their p-value beside them, and how many are left."""
    listed = [_named(row) for place, row in enumerate(rows) if place < shown or _apart(row)]
    return "; ".join(listed) + (f"; and {len(rows) - len(listed)} more" if len(rows) > len(listed) else "")
