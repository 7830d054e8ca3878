"""What became of the planned tests of new runs, those of report/plan.py: questions, rulings and answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pna.experiments import PROFILES, SPECS, Cell
from pna.figures.runs import RECORDED, RecordedRun, profile_named, recorded_run
from pna.verdicts.contrasts import Contrast
from pna.verdicts.rules import NOT_RUN, Ruling, rule
from report.markup import table
from report.parts import Aggregate, Part
from report.plan import NEW_TESTS, SEVEN, NewTest

__all__ = [
    "ANSWERS",
    "MISSING",
    "Models",
    "Outcome",
    "by_spec",
    "leads",
    "outcome_table",
    "ruling",
    "run_of_plan",
]

Models = dict[str, RecordedRun]

ANSWERS: dict[str, str] = {"reproduced": "yes", "contradicted": "no", NOT_RUN: "not run yet"}
"""Verdicts as answers to a question; the others stay as they are."""

MISSING = Ruling(NOT_RUN, NOT_RUN, "A run that it needs is not recorded.")


@dataclass(frozen=True)
class Outcome:
    """What became of a planned test under one specification."""

    test: NewTest
    spec: str
    ruling: Ruling
    missing: tuple[str, ...] = ()  # cells that are not recorded

    @property
    def answer(self) -> str:
        """The answer to the test's question in a few words."""
        word = self.ruling.word
        return f"in part, {word}" if word[0].isdigit() else ANSWERS.get(word, word)


def ruling(parts: Sequence[Part], every: tuple[str, ...] = ()) -> Ruling:
    """The verdict on a test: the mean of its parts decides, one mean for each value of the keys in `every`."""
    tests = Aggregate("", every).parts(parts)
    return rule([part.comparison for part in parts], None, [part.comparison for part in tests])


def leads(runs: Models, measure: Callable[[RecordedRun, object], Contrast], sets: Mapping[str, object]) -> Ruling:
    """Whether PNA's error is below that of each other model, mean over test sets; the details go set by set."""
    parts = [
        Part(
            f"{runs[model].title}, {name}" if len(sets) > 1 else runs[model].title,
            measure(runs["pna"], one) - measure(runs[model], one),
            {"model": runs[model].title, "set": name},
        )
        for model in SEVEN[1:]
        for name, one in sets.items()
    ]
    return ruling(parts, ("model",))


def by_spec(names: Iterable[str], outcome: Callable[[NewTest, str], Outcome]) -> list[Outcome]:
    """The outcomes of planned tests by their names, each under every specification that its cells have."""
    tests = {test.id: test for test in NEW_TESTS}
    return [
        outcome(tests[name], spec)
        for name in names
        for spec in SPECS
        if any(f"/{spec}/" in cell for cell in tests[name].cells)
    ]


def run_of_plan(cell: Cell, profile: str) -> RecordedRun | None:
    """The recorded run of a cell with the seeds of the plan, or under another profile; None if it is not recorded."""
    return recorded_run(cell, PROFILES["planned"] if profile == RECORDED else profile_named(profile))


def outcome_table(rows: Sequence[Outcome], caption: str) -> Markup:
    """Planned tests as a table: question, specification, answer, evidence and test statistic."""
    body = [
        (row.test.question.replace("*", ""), row.spec, row.answer, row.ruling.text, row.test.statistic.replace("*", ""))
        for row in rows
    ]
    return table(("question", "run as", "answer", "evidence", "test"), body, caption)
