"""The folding sections of the page: claims, how verdicts are made, theory, curves, speed, provenance."""

import inspect
import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pna.experiments import EXPERIMENTS, SPECS
from pna.figures.catalogue import FIGURES
from pna.figures.realworld import figure6_runs
from pna.figures.runs import Curve, RecordedRun, made_with, runs_of
from pna.figures.style import MODEL_COLOURS
from pna.figures.theory import Outcome, outcomes, slips
from pna.networks import MODELS
from pna.places import repository, results_folder
from pna.realworld.data.datasets import DATASETS
from pna.verdicts.rules import MARGIN, TOLERANCE, WORDS, Decision, number
from report import speed
from report.claims import Finding
from report.command import direction_of
from report.cost import cost
from report.coverage import USED, kept_table
from report.markup import Raw, badge, escape, estimate, link, p_value, soft, table
from report.svg import curves, interval_row, span

__all__ = ["Links", "claims", "learning", "method", "provenance", "speeds", "theory"]


class Links:
    """Addresses of the repository's files, from the folder that the page stands in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def to(self, path: Path) -> str:
        """The address of a file."""
        return Path(os.path.relpath(path, self.folder)).as_posix()

    def source(self, function: object) -> Raw:
        """To the line at which a function begins."""
        path, line = Path(inspect.getsourcefile(function)), inspect.getsourcelines(function)[1]
        name = path.relative_to(repository()).as_posix()
        return link(f"{self.to(path)}#L{line}", f"{name}, line {line}")


# ---- claims ----


def claims(findings: Sequence[Finding], links: Links) -> str:
    """Every claim once, under its figure."""
    parts = [_words(), '<p class="soft">All of it as JSON: ' + link("claims.json", "claims.json") + ".</p>"]
    for figure, entry in FIGURES.items():
        own = [finding for finding in findings if finding.claim.figure == figure]
        if own:
            head = f'<h3>{escape(entry.title)} <a class="soft" href="#{figure}">{entry.where}</a></h3>'
            parts += [head, *(_claim(group, links) for group in _by_claim(own))]
    return "\n".join(parts)


def _words() -> str:
    rows = [(badge(kind), meaning) for kind, meaning in WORDS.items()]
    return table(("verdict", "means"), rows, "What the verdicts mean")


def _by_claim(findings: Sequence[Finding]) -> list[list[Finding]]:
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.claim.id, []).append(finding)
    return list(groups.values())


def _claim(group: Sequence[Finding], links: Links) -> str:
    claim = group[0].claim
    sides = "".join(_side(finding) for finding in group)
    return (
        f'<article class="claim" id="claim-{claim.id}"><h4><a href="#claim-{claim.id}">{escape(claim.sentence)}</a> '
        f'<span class="soft">{escape(claim.where)}</span></h4>{sides}{_behind(group, links)}</article>'
    )


def _side(finding: Finding) -> str:
    spec = f"<b>{finding.spec}</b> " if finding.spec else ""
    budget = f' <span class="soft">[{escape(finding.budget)}]</span>' if finding.budget else ""
    verdict = f"{badge(finding.kind, finding.verdict)}{escape(direction_of(finding))}"
    return f"<p>{spec}{verdict} {escape(finding.evidence)}{budget}</p>{_comparisons(finding)}"


def _comparisons(finding: Finding) -> str:
    """The interval plots, folded."""
    drawn = [row for row in finding.rows if row.comparison.found is not None]
    if not drawn:
        return ""
    low, high = span(drawn)
    rows = [_comparison(row, low, high) for row in drawn]
    header = ("comparison", "interval", "value", "p (Holm)", "outcome")
    whose = f"{finding.claim.sentence}, {finding.spec}" if finding.spec else finding.claim.sentence
    caption = f"{whose}: the line is at {number(drawn[0].comparison.bound, 1)}"
    body = table(header, rows, caption, {1: "plot", 2: "number", 3: "number"})
    return f'<details class="rows"><summary>{_count(len(rows), "comparison")}</summary>{body}</details>'


def _count(number_of: int, word: str) -> str:
    return f"{number_of} {word}{'s' * (number_of != 1)}"


def _comparison(row: Decision, low: float, high: float) -> tuple:
    plot, found = Raw(interval_row(row, low, high)), estimate(row.comparison.found)
    return row.comparison.name, plot, found, p_value(row.p), row.outcome


def _behind(group: Sequence[Finding], links: Links) -> str:
    """Where the test stands, and the cells that it read."""
    claim, parts = group[0].claim, []
    if claim.source:
        parts.append(f"test: {links.source(claim.source)}")
    elif claim.checked:
        parts.append(f"checks: {link(links.to(repository() / 'verification' / 'checks.py'), 'verification/checks.py')}")
    cells = Counter(path for finding in group for path in _files(finding))
    if cells:
        shown = ", ".join(link(links.to(path), "/".join((*path.parts[-3:-1], path.stem))) for path in cells)
        parts.append(f"<details><summary>{_count(len(cells), 'cell')}</summary>{shown}</details>")
    return f'<div class="soft behind">{" · ".join(parts)}</div>' if parts else ""


def _files(finding: Finding) -> list[Path]:
    return [results_folder() / path for path in finding.cells]


# ---- how verdicts are made ----


def method() -> str:
    """The statistics in words, and the simulated coverage."""
    kept = kept_table()
    words = (
        "<ul><li>The paper's number is the mean over the five of ten seeds with the least validation error. Its error "
        "comes from a bootstrap that repeats the choice: draw ten seeds with replacement, choose five anew, take the "
        "mean. The interval is the mean ± t · error, t with five degrees of freedom.</li>"
        "<li>From fewer than five seeds there is no interval, no box and no bar.</li>"
        "<li>Where a claim has several comparisons, their p-values are corrected by Holm's method; their intervals are "
        "not. Nothing is corrected across claims: of a hundred verdicts at 5 % some may be chance.</li>"
        f"<li>A claim of no difference needs the difference to be significantly less than {MARGIN} in "
        "log<sub>10</sub> MSE (a factor of 1.26).</li>"
        "<li>A published mean is as uncertain as one of ours. It counts as ours if all of the 95 % range of the "
        f"difference is within ±{TOLERANCE} (a factor of two), each by itself, and as another if it is "
        "significantly so, corrected.</li>"
        "<li>In comparisons, an error above ten times the baseline's counts as ten times: the run has exploded, and "
        "by how much is of no interest. That a model explodes needs a sign test: more than half of its runs.</li>"
        "<li>Models are compared as independent: their seeds start different networks.</li>"
        "<li>Real-world numbers are compared by Welch's test from mean, deviation and number of seeds.</li></ul>"
    )
    rows = []
    for name, row in kept["coverage"].items():
        title = Raw(f"<b>{escape(name)}</b>") if name == USED else name
        rows.append((title, *(f"{row[key]:.1%}" for key in ("mean", "least", "most"))))
    caption = (
        f"How often a stated 95 % is right: {kept['trials']:,} simulated trials on each of {kept['populations']} "
        "populations made from the recorded seeds (normal and smoothed); in bold the interval that is used"
    )
    command = '<p class="soft"><code>python -m pna coverage</code> simulates it again.</p>'
    return words + table(("interval", "mean", "least", "most"), rows, caption) + _too_short(kept["rows"]) + command


def _too_short(rows: Sequence[dict]) -> str:
    """Where the interval that is used covers less than it should."""
    low = [f"{row['cell']} ({row['population']}), {row[USED]:.1%}" for row in rows if row[USED] < 0.93]
    why = "There some seeds explode and others do not, and ten are too few to tell how many."
    return soft(f"Below 93 %: {'; '.join(low)}. {why}" if low else "No population has less than 93 %.")


# ---- theory ----


def theory() -> str:
    """Every statement, the kind of evidence it has, and what may be said of it; then the slips."""
    rows = [
        (row.statement, row.verdict or row.status, row.kind, _by(row), row.range, row.evidence, row.caveat)
        for row in outcomes()
    ]
    header = ("statement", "verdict", "kind of evidence", "by", "range", "what was seen", "caveat")
    return (
        table(header, rows, "Statements of the paper and their evidence; the checks were run when this page was made")
        + _slips()
    )


def _by(row: Outcome) -> str:
    """The tool or method, and what a proof rests on."""
    return f"{row.method}; {row.axioms}" if row.axioms else row.method


def _slips() -> str:
    rows = [
        (slip.where, slip.kind, slip.printed, slip.fails_on, slip.repair, "as said" if slip.checked else "NOT AS SAID")
        for slip in slips()
    ]
    header = ("where", "kind", "as printed", "fails for", "repair", "checked now")
    return table(header, rows, "Slips and loose ends in the printed text, each with its repair") if rows else ""


# ---- learning curves ----


def learning(profile: str) -> str:
    """Every recorded run's curve: small multiples by model, all seeds of a cell in one."""
    words = (
        "Validation loss over epochs (for MolHIV, the training loss); both axes are shared within a row, that of the "
        "loss is logarithmic. A dot marks the best epoch, a bar the last. Point at a curve, or tap it, for seed, epoch "
        "and loss."
    )
    groups: dict[str, dict[str, tuple[str, list[Curve]]]] = {}
    for run in _all_runs(profile):
        group, title = _named(run)
        groups.setdefault(group, {})[title] = (MODEL_COLOURS[run.cell.model], run.curves)
    for run in figure6_runs(profile).values():
        group = f"{DATASETS[run.cell.training].title}, {run.cell.spec}, {run.profile.name}"
        title = f"{run.title}, {'' if run.cell.variant == 'edges' else 'no '}edge features"
        groups.setdefault(group, {})[title] = ("currentColor", run.curves)
    return soft(words) + "".join(_group(title, cells) for title, cells in groups.items())


def _named(run: RecordedRun) -> tuple[str, str]:
    """The row of a cell and its title there; the departures, a cell or two each, share a row for each training."""
    alone = run.cell.spec not in SPECS
    group = f"{run.cell.training}, {'each departure alone' if alone else run.cell.spec}, {run.profile.name}"
    title = MODELS[run.cell.model].title + (f" ({run.cell.hidden})" if run.cell.hidden != 16 else "")
    return group, title + (f", {run.cell.spec.replace('-', ' without ')}" if alone else "")


def _group(title: str, cells: dict[str, tuple[str, list[Curve]]]) -> str:
    everything = [one for _, found in cells.values() for one in found]
    losses = [loss for one in everything for _, loss in one.points if loss]
    if not losses:
        return ""
    epochs = max(one.last_epoch for one in everything)
    low = math.floor(2 * math.log10(min(losses))) / 2
    high = min(max(math.ceil(2 * math.log10(max(losses))) / 2, low + 0.5), low + 4.5)
    drawn = "".join(curves(name, colour, found, epochs, low, high) for name, (colour, found) in cells.items())
    ends = (f"{float(f'{10**end:.1g}'):g}" for end in (low, high))  # as 30, not 3e+01
    axes = f"0 to {epochs:,} epochs, loss {' to '.join(ends)}"
    return f'<h3>{escape(title)} <span class="soft">{axes}</span></h3><div class="multiples">{drawn}</div>'


def _all_runs(profile: str) -> Iterable[RecordedRun]:
    """Every run behind figures, claims and departures, once."""
    found: dict[tuple[str, str], RecordedRun] = {}
    for name, experiment in EXPERIMENTS.items():
        for spec in experiment.specs if name != "figure6" else ():
            for run in runs_of(name, spec, profile).found.values():
                found.setdefault((str(run.cell), run.profile.name), run)
    return found.values()


# ---- speed and provenance ----


_SPEED = (
    "Time, and how many times faster than the alternative, as kept in benchmarks/results.jsonl. PyTorch Geometric had "
    "as many threads as the last column names"
)


def speeds() -> str:
    """What benchmarks/ has measured."""
    header = ("what", "ours", "faster than", "machine")
    rows = speed.rows()
    return table(header, rows, _SPEED) if rows else soft("Not measured here.")


def provenance(profile: str) -> str:
    """What the runs were made with: not the machine that drew the page."""
    results = [run.result for run in _all_runs(profile)] + [run.result for run in figure6_runs(profile).values()]
    made = Counter(tuple(made_with(result).values()) for result in results)
    rows = [(device, commit, f"{count}", versions) for (device, versions, commit), count in sorted(made.items())]
    words = (
        "Each figure has a JSON beside it with the numbers drawn and the cells used; each cell has a JSON under "
        "results/ with its configuration and hash, its versions and every seed's numbers. Loading checks the hash."
    )
    budget = f"Profile: {profile}. " + (
        "Figures show the fullest budget recorded for all of their cells." if profile == "recorded" else ""
    )
    runs = table(("device", "code", "cells", "versions"), rows, "The runs that are shown")
    return soft(words) + soft(budget) + runs + cost()
