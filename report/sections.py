"""The folding sections of the page: claims, how verdicts are made, theory, curves, speed, provenance."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from pna.experiments import EXPERIMENTS, PROFILE_NAMES, SPECS
from pna.experiments.plan import planned_test
from pna.figures.catalogue import FIGURES
from pna.figures.realworld import figure6_runs
from pna.figures.runs import Curve, RecordedRun, made_with, runs_of
from pna.figures.style import MODEL_COLOURS
from pna.figures.theory import SlipFound, outcomes, slips
from pna.realworld.data.datasets import DATASETS
from pna.verdicts.rules import AGAINST, HOLDS, UNDECIDED, WORDS, Decision, number
from report import speed
from report.claims import ABSENT, Finding
from report.comparisons import MARGIN, TOLERANCE
from report.cost import cost
from report.coverage import USED, kept_table
from report.links import Links
from report.markup import blocks, estimate, p_value, render, table
from report.plan import POWER, page_path
from report.svg import curves, interval_row, span

__all__ = ["UNCOMMITTED", "claims", "counts_by_kind", "failures", "false_statements", "learning", "method"]
__all__ += ["provenance", "speeds", "theory"]

UNCOMMITTED = (
    "09decf3676b03b39ad295fc9f08115e536dcdb1f353ca9976f4321d3cdb3322a"  # the hash of sources that are in no commit
)


# ---- claims ----

_FAILED, _LINES = "contradicted", 10


def failures(findings: Sequence[Finding], statements: Sequence[SlipFound] = ()) -> Markup:
    """Every claim and every statement that failed, a line each: the sentence, our number, why; ten lines at most."""
    by_claim: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.kind == _FAILED:
            by_claim.setdefault(finding.claim.id, []).append(finding)
    every = [
        (group[0].claim, _specs(group), *_why(group[0]), _with_departures(findings, group[0]))
        for group in by_claim.values()
    ]
    room = _LINES - len(statements)
    shown = every if len(every) <= room else every[: room - 1]
    return render("failures", kind=_FAILED, rows=shown, more=len(every) - len(shown), statements=statements)


def false_statements() -> list[SlipFound]:
    """The statements of the paper that are false as printed; a slip in a proof leaves its statement true."""
    return [slip for slip in slips() if slip.kind == "slip" and not slip.where.startswith("proof")]


def _specs(group: Sequence[Finding]) -> str:
    """The specifications that findings are about, as in "described and released", or an empty text."""
    return " and ".join(finding.spec for finding in group if finding.spec)


def _with_departures(findings: Sequence[Finding], failed: Finding) -> str:
    """What the test of a failed claim gives for a training that the released code lacks; empty if there is none."""
    absent = (f for f in findings if (f.claim.id, f.kind) == (failed.claim.id, ABSENT) and len(f.tests) == 1)
    return "; ".join(f"{f.outcome}, {_mean_of(f.tests[0])}" for f in absent)


def _mean_of(test: Decision) -> str:
    """The number of an aggregate test with its interval, without the word that says it is a mean."""
    return str(test.comparison).removeprefix("mean ")


def _why(finding: Finding) -> tuple[str, str]:
    """The numbers most surely against a claim, and why it fails, with the comparisons against it and for it counted."""
    deciding = finding.tests or finding.rows  # the parts of its test, where one test decides
    surest = sorted((row for row in deciding if row.outcome == AGAINST), key=lambda row: row.p)
    if not surest:
        return "", finding.evidence
    more = f" and {len(surest) - 3} more" if len(surest) > 3 else ""
    numbers = ", ".join(map(_mean_of, surest[:3])) + more
    p = f", p {_equals(p_value(surest[0].p))}" if len(deciding) == 1 else ""
    against, held = (sum(row.outcome == side for row in finding.rows) for side in (AGAINST, HOLDS))
    verb = "is" if against == 1 else "are"
    count = f"{against or 'none'} of {len(finding.rows)} comparisons {verb} against it, {held or 'none'} for it"
    because = finding.claim.because
    return numbers + p, f"{because} ({count})" if because else count


def _equals(p: str) -> str:
    """A p-value with its sign of equality, unless it has another sign already."""
    return p if p.startswith("<") else f"= {p}"


def claims(findings: Sequence[Finding], links: Links) -> Markup:
    """Every claim once, under its figure."""
    by_figure: dict[str, dict[str, list[Finding]]] = {}
    for finding in findings:
        by_figure.setdefault(finding.claim.figure, {}).setdefault(finding.claim.id, []).append(finding)
    words = [(render("verdicts", kind=kind), meaning) for kind, meaning in WORDS.items()]
    return render(
        "claims",
        words=table(("verdict", "means"), words, "What the verdicts mean"),
        counts=counts_by_kind(findings),
        shared={figure: _shared(group.values()) for figure, group in by_figure.items()},
        own_budget=_own_budget,
        power=POWER,
        plan=links.to(page_path()),
        in_words=_in_words,
        figures=FIGURES,
        claims=by_figure,
        estimated=_estimated,
        planned=_planned,
        comparisons=_comparisons,
        links=links,
    )


def _planned(finding: Finding) -> str:
    """The seeds and the power that the plan gives a claim, in a sentence; empty if it has the power aimed at.

    The evidence of an undecided claim says its power already.
    """
    row = planned_test(finding.claim.id, finding.spec)
    if finding.kind == UNDECIDED or row is None or row["power"] >= POWER:
        return ""
    most = max(count for part in row["parts"] for count in part["seeds"].values())
    return f"Planned: up to {most} new seeds, power {row['power']:.0%}."


def counts_by_kind(findings: Sequence[Finding]) -> dict[str, int]:
    """The number of claims with each verdict, whichever specification gives it, in the order of WORDS."""
    kinds = {kind: {finding.claim.id for finding in findings if finding.kind == kind} for kind in WORDS}
    return {kind: len(claims) for kind, claims in kinds.items() if claims}


def _shared(claims: Iterable[Sequence[Finding]]) -> dict[str, list[str]]:
    """The parts of a budget that more than half of a figure's findings share, by specification.

    The page says them once; a finding that differs says what it has instead.
    """
    budgets: dict[str, list[list[str]]] = {}
    for finding in (finding for group in claims for finding in group if finding.budget):
        budgets.setdefault(finding.spec, []).append(finding.budget.split("; "))
    counts = {spec: Counter(part for row in rows for part in row) for spec, rows in budgets.items()}
    return {
        spec: [part for part, count in counts[spec].items() if 2 * count > len(rows)] for spec, rows in budgets.items()
    }


def _in_words(parts: Iterable[str]) -> str:
    """The parts of a budget as one phrase, in which a profile's name is called a budget."""
    profile = re.compile(rf"({'|'.join(PROFILE_NAMES)})([\w-]*): ")
    return "; ".join(profile.sub(r"budget \1\2, ", part, count=1) if profile.match(part) else part for part in parts)


def _own_budget(finding: Finding, shared: dict[str, list[str]]) -> str:
    """The parts of a finding's budget that are not said for its whole figure, as one phrase."""
    return _in_words(part for part in finding.budget.split("; ") if part not in shared.get(finding.spec, []))


def _estimated(finding: Finding) -> list[Decision]:
    """The comparisons of a finding that have an estimate to draw."""
    return [row for row in finding.rows if row.comparison.estimate is not None]


def _comparisons(finding: Finding, rows: Sequence[Decision]) -> Markup:
    """Comparisons with their interval plots, all on one scale."""
    low, high = span(rows)
    lines = [
        (one.name, interval_row(row, low, high), estimate(one.estimate), p_value(row.p), row.outcome)
        for row, one in ((row, row.comparison) for row in rows)
    ]
    whose = f"As {finding.spec}, the" if finding.spec else "The"
    bounds = sorted({row.comparison.bound for row in rows})
    marks = " or ".join(number(bound, 1) for bound in bounds) + ", whichever is nearer" * (len(bounds) > 1)
    caption = f"{whose} dashed line marks {marks}"
    header = ("comparison", "interval", "value", "p (Holm)", "outcome")
    return table(header, lines, caption, {1: "plot", 2: "number", 3: "number"})


# ---- how verdicts are made ----


def method() -> Markup:
    """The statistics in words, and the simulated coverage."""
    simulated = kept_table()
    rows = [
        (
            Markup("<b>{}</b>").format(name) if name == USED else name,
            *(f"{row[k]:.1%}" for k in ("mean", "least", "most")),
        )
        for name, row in simulated["coverage"].items()
    ]
    caption = (
        f"How often a nominal 95 % interval contains the truth: {simulated['trials']:,} simulated trials on each of "
        f"{simulated['populations']} populations made from the recorded seeds (normal and smoothed). The interval in "
        "bold is the one that is used"
    )
    coverage = table(("interval", "mean", "least", "most"), rows, caption)
    low, alarms = blocks(_low(simulated["rows"])), _alarms(simulated["false_alarms"])
    return render("method", margin=MARGIN, tolerance=TOLERANCE, coverage=coverage, low=low, alarms=alarms)


def _alarms(facts: dict[str, dict]) -> Markup:
    """How often two equal networks are called different, as a multiple of what is stated."""
    rows = [
        (count, f"{0.05 / int(count):.2%}", *(f"{row[k]:.2f}" for k in ("mean", "most")),
         *(f"{row['single tasks'][k]:.2f}" if "single tasks" in row else "" for k in ("mean", "most")))
        for count, row in facts.items()
    ]  # fmt: skip
    header = ("comparisons", "stated", "mean", "most", "single tasks: mean", "single tasks: most")
    caption = (
        "How often two equal networks get a p-value below 5 % divided by the number of comparisons (the smallest "
        "threshold in Holm's correction), as a multiple of the stated rate. Networks for single tasks, where some "
        "seeds learn and others do not, have their own columns"
    )
    return table(header, rows, caption)


def _low(rows: Sequence[dict]) -> str:
    """A sentence on the populations where the interval that is used covers less than it should."""
    low = [f"{row['cell']} ({row['population']}), {row[USED]:.1%}" for row in rows if row[USED] < 0.93]
    why = "There some seeds explode and others do not, and ten seeds are too few to tell how many."
    return f"Below 93 %: {'; '.join(low)}. {why}" if low else "No population has less than 93 %."


# ---- theory ----


def theory() -> Markup:
    """The table of statements with their evidence and verdicts, then the one of slips."""
    methods = [f"{row.method}; {row.axioms}" if row.axioms else row.method for row in outcomes()]
    statements = [
        (row.statement, row.verdict or row.status, row.kind, method, row.range, row.evidence, row.caveat)
        for row, method in zip(outcomes(), methods, strict=True)
    ]
    header = ("statement", "verdict", "kind of evidence", "by", "range", "what was seen", "caveat")
    caption = "Statements of the paper and their evidence; the checks were run when this page was made"
    return blocks(table(header, statements, caption), _slips())


def _slips() -> Markup | str:
    """The table of slips in the printed text, each with its repair; empty if there are none."""
    rows = [
        (slip.where, slip.kind, slip.printed, slip.fails_on, slip.repair, "confirmed" if slip.checked else "FAILS")
        for slip in slips()
    ]
    header = ("where", "kind", "as printed", "what is wrong", "repair", "checked now")
    return table(header, rows, "Slips and loose ends in the printed text, each with its repair") if rows else ""


# ---- learning curves ----

Group = dict[str, tuple[str, list[Curve]]]  # colour and curves of each cell, by its title


def learning(profile: str) -> Markup:
    """Every recorded run's curve: small multiples by model, all seeds of a cell in one."""
    groups: dict[str, Group] = {}
    for run in _all_runs(profile):
        group, title = _multitask_title(run)
        groups.setdefault(group, {})[title] = (MODEL_COLOURS[run.cell.model], run.curves)
    for run in figure6_runs(profile).values():
        group = f"{DATASETS[run.cell.training].title}, {run.cell.spec}, {run.profile.name}"
        title = f"{run.title}, {'' if run.cell.variant == 'edges' else 'no '}edge features"
        groups.setdefault(group, {})[title] = ("currentColor", run.curves)
    rows = (_row(title, cells) for title, cells in groups.items())
    return render("learning", rows=[row for row in rows if row])


def _multitask_title(run: RecordedRun) -> tuple[str, str]:
    """The row of a cell and its title there; the departures, a cell or two each, share a row for each training."""
    alone = run.cell.spec not in SPECS
    group = f"{run.cell.training}, {'each departure alone' if alone else run.cell.spec}, {run.profile.name}"
    title = run.title + (f" ({run.cell.hidden})" if run.cell.hidden != 16 else "")
    return group, title + (f", {run.cell.spec.replace('-', ' without ')}" if alone else "")


def _row(title: str, cells: Group) -> dict[str, object] | None:
    """The pictures of a row, which share their axes; None without any loss."""
    every = [curve for _, row in cells.values() for curve in row]
    losses = [loss for curve in every for _, loss in curve.points if loss]
    if not losses:
        return None
    epochs = max(curve.last_epoch for curve in every)
    low = math.floor(2 * math.log10(min(losses))) / 2
    high = min(max(math.ceil(2 * math.log10(max(losses))) / 2, low + 0.5), low + 4.5)
    ends = (f"{float(f'{10**end:.1g}'):g}" for end in (low, high))  # as 30, not 3e+01
    axes = f"0 to {epochs:,} epochs, loss {' to '.join(ends)}"
    pictures = [curves(name, colour, row, epochs, low, high) for name, (colour, row) in cells.items()]
    return {"title": title, "axes": axes, "pictures": pictures}


def _all_runs(profile: str) -> Iterable[RecordedRun]:
    """Every multi-task run behind figures, claims and departures, once."""
    runs: dict[str, RecordedRun] = {}
    for name, experiment in EXPERIMENTS.items():
        for spec in experiment.specs if name != "figure6" else ():
            for run in runs_of(name, spec, profile).recorded.values():
                runs.setdefault(run.file, run)
    return runs.values()


# ---- speed and provenance ----

_SPEED = (
    "Our time, and how many times faster it is than the alternative, from benchmarks/results.jsonl. PyTorch Geometric "
    "had as many threads as the last column names"
)


def speeds() -> Markup:
    """The table of measured speeds; a note if nothing was measured."""
    rows = speed.rows()
    return blocks(table(("what", "ours", "faster than", "machine"), rows, _SPEED) if rows else "Not measured here.")


def _disclosed(cells: Sequence[str]) -> str:
    """A sentence that names the cells whose code is in no commit; empty if there are none."""
    return (
        f"{len(cells)} of these cells were trained from a modified working tree: the hash of their code matches "
        f"neither the commit that they name nor any other. The plan trains them again. They are {', '.join(cells)}."
        if cells
        else ""
    )


def provenance(profile: str) -> Markup:
    """The devices, commits and versions that the runs were made with, which need not be those that drew the page."""
    runs = [*_all_runs(profile), *figure6_runs(profile).values()]
    machines = Counter(tuple(made_with(run.result).values()) for run in runs)
    rows = [(device, commit, f"{count}", versions) for (device, versions, commit), count in sorted(machines.items())]
    uncommitted = [str(run.cell) for run in runs if run.result.code == UNCOMMITTED]
    fullest = (
        "A figure, or in figure 6 a column, shows the fullest budget recorded for all of its cells."
        if profile == "recorded"
        else ""
    )
    return blocks(
        "Next to each figure is a JSON file with the numbers drawn and the cells used. Each cell has a JSON file under "
        "results/ with its configuration and hash, its versions and every seed's numbers. Loading it checks the hash.",
        f"Profile: {profile}. {fullest}",
        table(("device", "commit of the code", "cells", "versions"), rows, "The runs behind this page"),
        _disclosed(uncommitted),
        cost(),
    )
