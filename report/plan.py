"""The plan: for every claim its one test, its margin and the seeds it needs, written down before the runs that decide.

`python -m pna plan --write` makes results/plan.json from the runs that were recorded before (seeds 0 to 9, and 0 to 3
in figure 6). The runs of the plan have other seeds, from 100 on, and are independent of those. docs/plan.md has the
rules.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pna.experiments import EVERY_SPEC, EXPERIMENTS, Cell, all_cells
from pna.figures.realworld import figure6_runs
from pna.figures.runs import runs_of
from pna.figures.scores import FREEDOM, KEPT, TRAINED
from pna.places import repository, results_folder
from pna.realworld.data.datasets import DATASETS
from pna.verdicts.claims import rounded
from pna.verdicts.contrasts import Sample
from pna.verdicts.planning import planned, t_power
from pna.verdicts.rules import HOLDS
from pna.verdicts.statistics import subset_freedom
from report.claims import CLAIMS, Claim
from report.comparisons import MARGIN, TOLERANCE
from report.parts import Part
from report.realworld_claims import MARGINS
from report.structure import BASELINE_MARGIN

__all__ = [
    "ADDED",
    "FIRST_SEED",
    "LADDERS",
    "NEW_TESTS",
    "POWER",
    "SEVEN",
    "fixed",
    "page_path",
    "page_with_tables",
    "plan",
    "plan_path",
    "plan_text",
    "read_plan",
]

FIRST_SEED = 100
POWER = 0.9
HOPELESS = 0.5  # a part with less power, even with the most seeds, asks for at most twice the paper's
LADDERS: dict[str, tuple[int, ...]] = {  # numbers of seeds to choose from; the last is the most that a cell may have
    "multi-task": (10, 15, 20, 30, 40),
    "zinc": (4, 8, 12, 16),
    "molhiv": (10, 15, 20),
    "cifar10": (4, 8, 12),
    "mnist": (4, 8, 12),
}

SET_AFTER = (  # each margin with the day and the commit that set it, and what was known by then
    ("published numbers of figures 4 and 5", TOLERANCE, "log10 MSE (a factor of 2)", "2026-11-15 05:37", "5d18b27",
     "after figure 4 had been run as released for 300 epochs, before any run of the paper's 10,000"),
    ("no difference between trainings", MARGIN, "log10 MSE (a factor of 1.26)", "2026-11-15 13:19", "67e703f",
     "after figure 4's main results, all as described and most as released, were recorded (10:32 to 10:54 that day)"),
    ("baseline of figure 4b", BASELINE_MARGIN, "log10 MSE", "2026-11-17 14:00", "this plan",
     "after its eight draws were known"),
    *((f"figure 6, {DATASETS[name].title}", margin, unit, "2026-11-17 14:00", "this plan",
       "after all of figure 6 was recorded with four or ten seeds; the runs of the plan are new ones")
      for (name, margin), unit in zip(MARGINS.items(), ("MAE", *["percentage points"] * 3), strict=True)),
)  # fmt: skip


@dataclass(frozen=True)
class NewTest:
    """A test of runs that do not exist yet: stated before them, with the same fields as that of a claim."""

    id: str
    question: str
    statistic: str
    direction: str
    margin: float | None
    cells: tuple[str, ...]
    seeds: int


SEVEN = ("pna", "pna-no-scalers", "mpnn-max", "mpnn-sum", "gat", "gcn", "gin")
_BOTH = ("described", "released")
_FIGURE4 = tuple(f"multitask/{spec}/{model}/16" for spec in _BOTH for model in SEVEN)
_FIVE_TASKS = "mean log10 MSE over five tasks, without *connected*, which is trivial on connected graphs"

NEW_TESTS: tuple[NewTest, ...] = (
    NewTest("tuned-best", "Does PNA lead when every baseline is tuned with the same budget (section 4)?",
            "PNA minus each other model, mean log10 MSE over six tasks, both tuned: below zero for every model, each "
            "specification by itself",
            "less", None, tuple(f"tuned/{spec}/{model}/16" for spec in _BOTH for model in SEVEN), 20),
    NewTest("tuned-published", "Are the tuned averages as released the published ones, to a factor of two?",
            "tuned minus published average, for every model, with figure 4a's spread",
            "same", TOLERANCE, tuple(f"tuned/released/{model}/16" for model in SEVEN), 20),
    NewTest("tuned-gain", "Is one common setting fair: does tuning gain no more than the margin?",
            "tuned minus untuned, mean over the seven models: above minus the margin, each specification by itself",
            "not less than minus the margin", MARGIN,
            tuple(f"tuned/{spec}/{model}/16" for spec in _BOTH for model in SEVEN), 20),
    NewTest("tuned-extrapolates", "Does the tuned PNA lead on larger graphs?",
            "PNA minus each other model, log10 of the error relative to the baseline, mean over figure 5's six sizes: "
            "below zero for every model, each specification by itself",
            "less", None, tuple(f"tuned/{spec}/{model}/16" for spec in _BOTH for model in SEVEN), 20),
    NewTest("redrawn-lead", "Does PNA lead on every draw of the test graphs?",
            "PNA minus each other model, mean log10 MSE over six tasks, mean over the five redrawn test sets: below "
            "zero for every model; in detail set by set",
            "less", None, _FIGURE4, 40),
    NewTest("redrawn-spread", "How much does the draw of the test graphs matter?",
            "standard deviation between the five redrawn test sets of a model's average, root mean square over the "
            "seven models: its upper 95 % bound (chi-squared) below the margin",
            "less", MARGIN, _FIGURE4, 40),
    NewTest("redrawn-connected", "Is PNA's better average than the published one a matter of one task's test graphs?",
            "released PNA minus published on *connected*, mean over the five redrawn sets: within the tolerance",
            "same", TOLERANCE, ("multitask/released/pna/16",), 40),
    NewTest("real-small", "Does PNA lead on real graphs of the training sizes, 15 to 24 nodes?",
            f"PNA minus each other model, {_FIVE_TASKS}, mean over the groups of real/* of 15 to 24 nodes, one weight "
            "each: below zero for every model, each specification by itself",
            "less", None, _FIGURE4, 40),
    NewTest("real-large", "Does PNA lead on real graphs of 25 to 100 nodes?",
            f"PNA minus each other model, {_FIVE_TASKS}, mean over the groups of real/* of 25 to 100 nodes, one weight "
            "each: below zero for every model, each specification by itself",
            "less", None, _FIGURE4, 40),
    NewTest("real-tails", "Do scalers help where degrees have heavy tails (section 2.2)?",
            f"PNA minus PNA without scalers, {_FIVE_TASKS}: mean over the groups of 15 to 24 nodes of the Internet, "
            "Enron, PGP, metabolism and phenotypes minus that of power grid and roads; below zero",
            "less", None, tuple(f"multitask/{spec}/{m}/16" for spec in _BOTH for m in SEVEN[:2]), 40),
    NewTest("real-training", "Does training on real subgraphs help on real graphs?",
            f"trained on real minus trained on random graphs, {_FIVE_TASKS}, mean over the seven models and the groups "
            "of 15 to 24 nodes: below zero",
            "less", None, tuple(f"real/described/{model}/16" for model in SEVEN), 10),
    NewTest("real-cost", "What does training on real subgraphs cost on random graphs?",
            "trained on real minus trained on random graphs, mean log10 MSE over six tasks on multitask/test, mean "
            "over the seven models: below the tolerance",
            "less", TOLERANCE, tuple(f"real/described/{model}/16" for model in SEVEN), 10),
    NewTest("real-best", "Is PNA best when all are trained and tested on real subgraphs?",
            f"PNA minus each other model, {_FIVE_TASKS}, mean over the groups of 15 to 24 nodes: below zero for every "
            "model",
            "less", None, tuple(f"real/described/{model}/16" for model in SEVEN), 10),
    NewTest("scalers-linear", "Beyond the degrees of training, is the logarithmic scaler better than the linear one?",
            "logarithmic minus linear, log10 MSE of the node tasks, mean over the bins of degree beyond those of "
            "training, errors above ten times the baseline's counted as ten times: below zero",
            "less", None, ("scalers: logarithmic", "scalers: linear"), 10),
    NewTest("scalers-none", "Beyond the degrees of training, is the logarithmic scaler better than none?",
            "logarithmic minus none, the same measure: below zero",
            "less", None, ("scalers: logarithmic", "scalers: none"), 10),
    NewTest("scalers-learned", "Beyond the degrees of training, is a learned exponent hardly better?",
            "logarithmic minus learned exponent, the same measure: below the margin",
            "less", MARGIN, ("scalers: logarithmic", "scalers: learned exponent"), 10),
)  # fmt: skip

PRIORITY: tuple[tuple[str, tuple[str, ...]], ...] = (  # experiments whose cells are trained first, then the next
    ("figure 4", ("figure4",)),
    ("figure 5 and graph types", ("figure5", "graph-types")),
    ("section 4, tuned", ("tuned",)),
    ("moments", ("moments",)),
    ("the other claims", ("softmax", "standard", "parameters", "gru", "s2s")),
    ("trained on real graphs", ("real",)),
    ("departures and depth", ("departures", "depth")),
    ("ZINC and MolHIV", ("figure6",)),
    ("CIFAR10 and MNIST", ("figure6",)),
    ("single tasks", ("single-task",)),
)

ADDED = NewTest(
    "dropout-best",
    "Does PNA lead when dropout is tuned, too?",
    "PNA minus each other model, mean log10 MSE over six tasks, both tuned in learning rate, weight decay and dropout: "
    "below zero for every model",
    "less",
    None,
    tuple(f"tuned-dropout/described/{model}/16" for model in SEVEN),
    20,
)
"""A test that docs/plan.md states after results/plan.json was written, and before its own runs."""


def plan_path() -> Path:
    """The path of the plan."""
    return results_folder() / "plan.json"


def read_plan() -> dict | None:
    """The plan as it was written; None if there is none."""
    path = plan_path()
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def fixed() -> list[str]:
    """The recorded results of the plan: once there is one, the plan is no longer written."""
    folder = results_folder() / "planned"
    return [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.json"))]


def plan() -> dict:
    """The plan as JSON, from what is recorded at the paper's budget."""
    rows, seeds, readers = [], dict(_least()), {}
    for claim in CLAIMS:
        for spec, parts in _evidence(claim):
            if not parts:
                continue  # nothing is recorded to plan from
            row, wanted = _claim_row(claim, spec, parts)
            rows.append(row)
            for cell, count in wanted.items():
                seeds[cell] = max(seeds.get(cell, 0), count)
                readers.setdefault(cell, []).append(claim.id)
    for test in NEW_TESTS:
        for cell in test.cells:
            seeds[cell] = max(seeds.get(cell, 0), test.seeds)
            readers.setdefault(cell, []).append(test.id)
    return {
        "about": {
            "level": 0.05,
            "power": POWER,
            "hopeless": HOPELESS,
            "first_seed": FIRST_SEED,
            "ladders": {name: list(ladder) for name, ladder in LADDERS.items()},
            "made_from": "results/paper as recorded before: seeds 0-9 (multi-task, MolHIV) and 0-3 (ZINC, CIFAR10, "
            "MNIST); no run of the plan existed",
        },
        "margins": [dict(zip(("what", "margin", "unit", "set", "by", "known"), row, strict=True)) for row in SET_AFTER],
        "claims": rows,
        "new_tests": [vars(test) | {"cells": list(test.cells)} for test in NEW_TESTS],
        "cells": [
            {"cell": str(cell), "priority": group, "seeds": seeds[str(cell)], "claims": readers.get(str(cell), [])}
            for group, cell in _in_order()
            if str(cell) in seeds
        ],
    }


def _least() -> Iterator[tuple[str, int]]:
    """Yield every cell with the least number of seeds that it gets, which is the paper's."""
    for cell in all_cells(EVERY_SPEC):
        yield str(cell), _ladder(str(cell))[0]


def _ladder(cell: str) -> tuple[int, ...]:
    """The numbers of seeds that a cell may have, beginning with the paper's."""
    return LADDERS.get(cell.split("/")[0], LADDERS["multi-task"])


def _in_order() -> Iterator[tuple[str, Cell]]:
    """Yield every cell once, with the group that it is trained in; single tasks come last."""
    done = set()
    for group, names in PRIORITY:
        for cell in (cell for name in names for cell in _cells_of(name)):
            other = cell.training in DATASETS and DATASETS[cell.training].title not in group
            if cell not in done and not other:
                done.add(cell)
                yield group, cell


def _cells_of(name: str) -> Iterator[Cell]:
    """The cells of an experiment, or those of a training that only new tests read."""
    if name in EXPERIMENTS:
        yield from (cell for spec in EXPERIMENTS[name].specs for cell in EXPERIMENTS[name].cells(spec))
    else:
        yield from (Cell.parse(cell) for test in NEW_TESTS for cell in test.cells if cell.startswith(f"{name}/"))


# ---- claims ----


def _evidence(claim: Claim) -> Iterator[tuple[str, list[Part]]]:
    """The parts of a claim's aggregate test under each specification."""
    if claim.test:
        for spec in claim.specs:
            yield spec, claim.by.parts(claim.test(runs_of(claim.experiment or claim.figure, spec, "paper")))
    elif claim.realworld:
        yield "", claim.by.parts(claim.realworld.parts(figure6_runs("paper")))


def _claim_row(claim: Claim, spec: str, parts: Sequence[Part]) -> tuple[dict, dict[str, int]]:
    """A claim with its test, today's estimates and the seeds that each part needs; and the seeds of each cell."""
    need = claim.by.need or len(parts)
    details, wanted = [], {}
    for part in parts:
        row, cells = _part_row(part, len(parts), need, claim.finding or (spec == "released" and bool(claim.absent)))
        details.append(row)
        for cell in cells:
            wanted[cell] = max(wanted.get(cell, 0), row["seeds"][cell])
    powers = [row["power"] for row in details]
    return {
        "id": claim.id,
        "spec": spec,
        "claim": claim.sentence,
        "where": claim.where,
        "statistic": claim.by.statistic,
        "test_graphs": _test_graphs(claim, spec),
        "every": list(claim.by.every),
        "need": f"{need} of {len(parts)}",
        "direction": "same" if parts[0].margin else "less",
        "bound": rounded(parts[0].bound),
        "margin": parts[0].margin,
        "power": rounded(_joint(details, need)) if None not in powers else None,
        "parts": details,
    }, wanted


def _test_graphs(claim: Claim, spec: str) -> str:
    """The test sets that a claim is decided on."""
    if claim.realworld:
        return "the official test set"
    if claim.figure in ("figure5", "graph-types"):
        return "the figure's"
    return "15 to 19 nodes, as in the released code" if spec == "released" and not claim.wider else "15 to 24 nodes"


def _joint(details: Sequence[dict], need: int) -> float:
    """A lower bound on the power of the whole test: that enough parts hold, or that one too many is against it."""
    toward = sorted((row["power"] for row in details if row["toward"] == HOLDS), reverse=True)
    against = sorted((row["power"] for row in details if row["toward"] != HOLDS), reverse=True)
    some, many = need, len(details) - need + 1
    return max(
        1 - sum(1 - p for p in toward[:some]) if len(toward) >= some else 0.0,
        1 - sum(1 - p for p in against[:many]) if len(against) >= many else 0.0,
        0.0,
    )


def _part_row(part: Part, parts: int, need: int, aside: bool) -> tuple[dict, list[str]]:
    """A part of a test: its estimate today, the fewest seeds with enough power, and the power with these.

    With `aside` the test is not the paper's, and asks for at most twice the paper's seeds.
    """
    if part.contrast is None:
        row = {"name": part.name, "today": part.comparison.text, "toward": part.comparison.side}
        return row | {"seeds": {}, "power": None}, []
    cells = sorted({sample.name.split("#")[0] for sample in part.contrast.terms if sample.seeds})
    today = part.contrast.estimate
    toward = part.comparison.side
    comparisons = parts - need + 1 if toward == HOLDS else need
    wanted = 1 - (1 - POWER) / (need if toward == HOLDS else parts - need + 1)
    power_with = partial(_power_at, part, comparisons, cells)
    rungs = len(max((_ladder(cell) for cell in cells), key=len, default=(0,)))
    rung = next((k for k in range(rungs) if power_with(k) >= wanted), rungs - 1)
    few = aside or power_with(rung) < HOPELESS
    seeds = {cell: min(_rung(cell, rung), (2 if few else 100) * _ladder(cell)[0]) for cell in cells}
    return {
        "name": part.name,
        "today": rounded(today.value),
        "error": rounded(today.error),
        "toward": toward,
        "seeds": seeds,
        "power": rounded(_power(part, comparisons, seeds)),
    }, cells


def _rung(cell: str, rung: int) -> int:
    """The number of seeds at one rung of a cell's ladder, or at its last rung if it is shorter."""
    ladder = _ladder(cell)
    return ladder[min(rung, len(ladder) - 1)]


def _power_at(part: Part, comparisons: int, cells: Sequence[str], rung: int) -> float:
    """The power of a part's test with every cell at this rung of its ladder."""
    return _power(part, comparisons, {cell: _rung(cell, rung) for cell in cells})


def _power(part: Part, comparisons: int, seeds: Mapping[str, int]) -> float:
    """The power of a part's test with these seeds of each cell."""
    counts = {sample: seeds[sample.name.split("#")[0]] for sample in part.contrast.terms if sample.seeds}
    return t_power(planned(part.contrast, counts, _freedom), part.bound, part.margin, comparisons)


def _freedom(sample: Sample, seeds: int) -> float:
    """The degrees of freedom of a cell's error: of all seeds in figure 6, of the five best of ten elsewhere."""
    if sample.name.split("/")[0] in DATASETS:
        return seeds - 1.0
    return FREEDOM if seeds <= TRAINED else subset_freedom(seeds, TRAINED, KEPT)


# ---- as a page ----

MARK = "<!-- from here on written by python -m pna plan --write -->"


def page_path() -> Path:
    """The page that explains the plan."""
    return repository() / "docs" / "plan.md"


def page_with_tables(text: str, facts: Mapping) -> str:
    """The page with the plan's tables in place of those that follow the mark."""
    head, mark, _ = text.partition(MARK)
    if not mark:
        raise ValueError(f"{page_path()} has no line {MARK!r}, after which the tables of the plan belong")
    return "\n\n".join([head + mark, *_tables(facts)]) + "\n"


def _tables(facts: Mapping) -> Iterator[str]:
    """The margins, the tests of all claims, those of new runs, and the cells, in Markdown."""
    yield "## Margins, and when they were set"
    header = ("margin for", "margin", "unit", "set", "commit", "what was known")
    yield _markdown(header, ([f"{value}" for value in row.values()] for row in facts["margins"]))
    yield "## Claims"
    yield _markdown(("claim", "run as", "test", "when planned", "seeds", "power"), map(_claim_cells, facts["claims"]))
    yield "## Tests of runs that did not exist when the plan was made"
    columns = ("question", "statistic", "margin", "seeds")
    yield _markdown(columns, ([_words(test[name]) for name in columns] for test in facts["new_tests"]))
    yield "## Cells, in the order of training"
    groups: dict[tuple[str, str, str, int], list[str]] = {}
    for row in facts["cells"]:
        training, spec, model, variant = row["cell"].split("/")
        groups.setdefault((row["priority"], f"{training}/{spec}", variant, row["seeds"]), []).append(model)
    rows = ([*key[:3], ", ".join(models), f"{key[3]}"] for key, models in groups.items())
    yield _markdown(("group", "training", "variant", "models", "seeds, from 100 on"), rows)


def _claim_cells(row: Mapping) -> list[str]:
    """A claim as a row of the page: sentence, specification, test, least powerful part, most seeds, power."""
    parts = row["parts"]
    worst = min(parts, key=lambda part: 1.0 if part["power"] is None else part["power"])
    shown = (
        worst["today"] if isinstance(worst["today"], str) else f"{worst['today']:+.2f} ± {worst.get('error', 0):.2f}"
    )
    least = f"{worst['name']}: {shown}" if len(parts) > 1 else shown
    bound = f" (margin {row['margin']})" if row["margin"] else f" (margin {row['bound']})" if row["bound"] else ""
    most = max((count for part in parts for count in part["seeds"].values()), default=None)
    return [row["claim"], row["spec"], row["statistic"] + bound, least, _words(most), _percent(row["power"])]


def _words(value: object) -> str:
    """A value as text; empty for None."""
    return "" if value is None else str(value)


def _percent(value: float | None) -> str:
    """A share in percent; empty for None."""
    return "" if value is None else f"{value:.0%}"


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A header and rows as a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# ---- as text ----


def plan_text(facts: Mapping) -> str:
    """The plan as text: a line for every claim, then how many seeds each group of cells gets."""
    lines = []
    for row in facts["claims"]:
        most = max((count for part in row["parts"] for count in part["seeds"].values()), default="–")
        power = "–" if row["power"] is None else f"{row['power']:.0%}"
        lines.append(f"{row['id']:<20} {row['spec']:<10} {row['need']:>8}  seeds {most:>3}  power {power:>5}")
    totals: dict[str, list[int]] = {}
    for cell in facts["cells"]:
        totals.setdefault(cell["priority"], []).append(cell["seeds"])
    lines.append("")
    lines += [f"{group}: {len(counts)} cells, {sum(counts)} seeds in all" for group, counts in totals.items()]
    return "\n".join(lines)
