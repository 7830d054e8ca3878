"""The first screen: three lines, one picture and a sentence for each finding, all computed from the runs."""

from collections.abc import Iterator, Sequence
from math import isnan

from markupsafe import Markup

from pna.experiments import EVERY_SPEC, PROFILES, SPECS, TRAININGS, all_cells
from pna.figures import published, realworld
from pna.figures.depth import SIX, WITHOUT_DIAMETER
from pna.figures.figure6 import rows_of
from pna.figures.real import REDRAWN
from pna.figures.runs import RecordedRun, Runs, recorded_run, runs_of
from pna.figures.scores import ratio, score, sizes_of, widened, wider_split
from pna.multitask import TASKS
from pna.verdicts.contrasts import mean_contrast
from pna.verdicts.rules import AGAINST, HOLDS, NOT_RUN, number, rule
from pna.verdicts.statistics import LEVEL
from report import tuned
from report.claims import Finding
from report.comparisons import like_published_averages, pna_best, pna_best_on_average
from report.coverage import MORE, SINGLE, USED, kept_table
from report.depth import better
from report.markup import in_words, listed, render
from report.parts import Part, average
from report.realworld_claims import ZINC, agreement
from report.sections import counts_by_kind, failures, false_statements
from report.svg import averages

__all__ = ["opening"]

TITLE = "Principal Neighbourhood Aggregation: what holds"


def opening(findings: Sequence[Finding], profile: str) -> Markup:
    """The first screen as HTML: three lines, a sentence for each finding, a picture and the claims that failed."""
    sides = [runs_of("figure4", spec, profile) for spec in SPECS]
    return render(
        "summary",
        title=TITLE,
        lines=list(_lines(findings, profile)),
        sentences=list(_sentences(findings, sides, profile)),
        picture=averages(sides),
        tuned=tuned.averages(profile),
        failures=failures(findings, false_statements()),
        more=_more_seeds(sides),
        sizes=_sizes(sides),
    )


def _more_seeds(sides: Sequence[Runs]) -> str:
    """A remark on each specification whose numbers are estimated from more seeds than the paper's; "" if none is."""
    counts = {
        s.spec: max((len(run.result.configuration["seeds"]) for run in s.recorded.values()), default=0) for s in sides
    }
    more = {spec: count for spec, count in counts.items() if count > PROFILES["paper"].seeds}
    if len(more) == len(SPECS) and len(set(more.values())) == 1:
        return f" (estimated from {more[SPECS[0]]})"
    words = "; ".join(f"as {spec}: estimated from {count}" for spec, count in more.items())
    return f" ({words})" if more else ""


def _sizes(sides: Sequence[Runs]) -> str:
    """A sentence on the sizes of the test graphs behind the picture."""
    released = [run for runs in sides if runs.spec == "released" for run in runs.recorded.values()]
    if released and wider_split(released[0]) == "multitask/test":
        return "Ours as released is tested on graphs of 15-19 nodes, as the code does; published numbers are of 15-24."
    return "Test graphs of 15-24 nodes."


# ---- three lines ----

Line = tuple[str, dict[str, int], str]  # its title, the number of claims with each verdict, words


def _lines(findings: Sequence[Finding], profile: str) -> Iterator[Line]:
    """Yield the lines on theory, trainings and real-world benchmarks: the verdicts on each, and what they rest on."""
    theory = [f for f in findings if f.claim.checked]
    yield _line("Theory", theory, "Proved formally (Coq, HOL Light), computed exactly, or certified in instances.")
    trained = [f for f in findings if f.claim.test or f.claim.fact]
    cells = [cell for cell in all_cells(EVERY_SPEC) if cell.training in TRAININGS]
    runs = [run for cell in cells if (run := recorded_run(cell, PROFILES["paper"]))]
    planned = sum(recorded_run(cell, PROFILES["planned"]) is not None for cell in cells)
    words = (
        f"{_of(len(runs), len(cells)).capitalize()} cells at the paper's budget: ten seeds, up to 10,000 epochs. Each "
        f"claim has one test, written down in a plan that asks for 10 to 40 new seeds: {_of(planned, len(cells))} "
        "cells have them. In simulations with ten to forty seeds, our 95 % intervals contain the truth in "
        f"{_coverage(USED, *MORE.values())}; for single tasks, with 20 and 30 seeds, in "
        f"{_coverage(SINGLE[20], SINGLE[30])}."
    )
    yield _line("Trainings", trained, words)
    real = [f for f in findings if f.claim.realworld]
    ours = realworld.figure6_runs(profile)
    whole = [one for one in ours.values() if one.full]
    others = sum(not one.official for one in whole)
    words = _cells_in_words(len(ours), len(realworld.CELLS), len(whole))
    unofficial = f", {others} of these on a training set that is not official" if others else ""
    yield _line("Real world", real, f"{words}{unofficial}. Compared by Welch's test.")


def _coverage(*names: str) -> str:
    """How often simulated intervals contain the truth, on average and in the worst population, over several rows."""
    rows = [kept_table()["coverage"][name] for name in names]
    mean, least = (f"{min(row[k] for row in rows):.1%} to {max(row[k] for row in rows):.1%}" for k in ("mean", "least"))
    return f"{mean} of cases, and in the worst population in {least}"


def _cells_in_words(recorded: int, cells: int, whole: int) -> str:
    """How many cells are recorded, and how many of these at the paper's budget."""
    if recorded == cells == whole:
        return f"All {cells} cells at the paper's budget"
    return f"{recorded} of {cells} cells, {whole} of them at the paper's budget"


def _line(title: str, findings: Sequence[Finding], words: str) -> Line:
    """A line of the first screen: its title, the number of claims with each verdict, and its words."""
    return title, counts_by_kind(findings), words


# ---- findings ----


def _sentences(findings: Sequence[Finding], sides: Sequence[Runs], profile: str) -> Iterator[str]:
    """Yield the sentences of the first screen; a finding whose runs are not recorded has none."""
    by_id = {(f.claim.id, f.spec): f for f in findings}
    yield from _best(by_id, sides)
    yield from filter(None, [tuned.answer(profile)])
    yield from _published(sides)
    yield from _standard(by_id)
    yield from _zinc(by_id, profile)
    yield from _real(profile)
    yield from _beyond(profile)
    yield from _depth(profile)


def _best(by_id: dict[tuple[str, str], Finding], sides: Sequence[Runs]) -> Iterator[str]:
    """How many models PNA beats, by figure 4a's measure, which decides the claim, and by 4b's."""
    by_mean, by_logs, averages = {}, {}, []
    for runs in sides:
        if ("best", runs.spec) in by_id and runs.full and "pna" in runs.of("multitask"):
            wide = widened(runs)
            by_mean[runs.spec] = _held(pna_best(wide))
            by_logs[runs.spec] = _held(pna_best_on_average(wide))
            averages.append(f"{number(score(wide.of('multitask')['pna']).value)} as {runs.spec}")
    if by_mean:
        again = "the same holds" if by_logs == by_mean else f"it is significantly better than {_models(by_logs)}"
        yield (
            f"By the mean MSE over the six tasks (figure 4a), PNA is significantly better than {_models(by_mean)}. By "
            f"the mean log₁₀ MSE (figure 4b), which for PNA is {listed(averages)}, {again}. Test graphs have 15 to 24 "
            "nodes."
        )


def _models(held: dict[str, str]) -> str:
    """How many models PNA beats under each specification, in words; said once if it is the same."""
    if len(set(held.values())) == 1:
        return f"{next(iter(held.values()))} other models, {listed([f'as {spec}' for spec in held])}"
    return listed([f"{count} other models as {spec}" for spec, count in held.items()])


def _held(parts: Sequence[Part]) -> str:
    """How many parts hold, as "5 of 6" or "all 6"."""
    rows = rule([part.comparison for part in parts]).rows
    return _of(sum(row.outcome == HOLDS for row in rows), len(rows))


def _of(count: int, every: int) -> str:
    """A count as "5 of 6" or "all 6"."""
    return f"all {every}" if count == every else f"{count} of {every}"


def _published(sides: Sequence[Runs]) -> Iterator[str]:
    """Whether the published averages agree with ours as released, together and one by one."""
    for runs in sides:
        models = runs.of("multitask")
        if runs.spec == "released" and runs.full and "pna" in models:
            parts = like_published_averages(runs)
            mean = mean_contrast(part.contrast for part in parts).estimate
            rows = rule([part.comparison for part in parts]).rows
            away = [row.comparison.name.split(",")[0] for row in rows if row.outcome == AGAINST]
            held = sum(row.outcome == HOLDS for row in rows)
            yield (
                f"As released, {_matching(held, away, len(rows))}. On average over the models, our log₁₀ MSE minus "
                f"the published one is {in_words(mean, signed=True)}. {_connected(runs)}"
            )


def _matching(held: int, away: Sequence[str], every: int) -> str:
    """How many published averages match ours, which are shown to differ, and how many are undecided."""
    if held == every:
        return f"all {every} published averages match ours to within a factor of two"
    named = f" ({', '.join(away)})" if away else ""
    return (
        f"{held} published averages match ours to within a factor of two, {_differing(len(away))} shown to differ by "
        f"more{named}, and {every - held - len(away)} are undecided"
    )


def _differing(count: int) -> str:
    """How many are, with the verb: "none is", "1 is" or "2 are"."""
    return f"{count or 'none'} {'are' if count > 1 else 'is'}"


def _connected(runs: Runs) -> str:
    """How much of PNA's difference from its published average is due to the task *connected*."""
    run = runs.of("multitask")["pna"]
    theirs = published.multitask()["pna"]
    apart = [score(run, wider_split(run), k).value - theirs[task.name] for k, task in enumerate(TASKS)]
    place = next(k for k, task in enumerate(TASKS) if task.name == "connected")
    others = sum(value for k, value in enumerate(apart) if k != place) / (len(apart) - 1)
    whole = score(run, wider_split(run)).value - theirs["average"]
    return (
        f"For PNA this difference is {number(whole)}, because of one task: on connected, where a single misclassified "
        f"graph matters, it is {number(apart[place])}; over the other five tasks it is {number(others)} on average."
        f"{_redrawn(run)}"
    )


def _redrawn(run: RecordedRun) -> str:
    """PNA's average on new draws of the test graphs beside the published one, as a sentence; "" if not recorded."""
    if not set(REDRAWN) <= set(run.splits):
        return ""
    ours = mean_contrast(average(run, split) for split in REDRAWN).estimate
    theirs = published.multitask()[run.cell.model]["average"]
    redrawn = in_words(ours, signed=True)
    return f" On five new draws of the test graphs PNA's average is {redrawn}; the published one is {number(theirs)}."


def _standard(by_id: dict[tuple[str, str], Finding]) -> Iterator[str]:
    """The models that are significantly better in the standard architecture: a finding, no sentence of the paper."""
    finding = by_id.get(("recurrent-better", "described"))
    turned = [row.comparison for row in finding.rows if row.outcome == AGAINST] if finding else []
    if turned:
        names = listed([f"{one.name} by {one.estimate.value:.2f}" for one in turned])
        yield (
            "As described, some models are better in the standard architecture than in the recurrent one: "
            f"{names} in mean log₁₀ MSE."
        )


def _beyond(profile: str) -> Iterator[str]:
    """PNA and MPNN (max) on graphs larger than the paper's."""
    runs = runs_of("figure5", "released", profile)
    models = runs.of("extrapolation")
    if runs.full and {"pna", "mpnn-max"} <= models.keys():
        size, split = list(sizes_of(models["pna"]).items())[-1]
        pna, other = (ratio(models[name], split) for name in ("pna", "mpnn-max"))
        gap = pna - other
        overtaken = gap.unlike(0.0) < 1 - LEVEL and gap.value > 0
        lead = "MPNN (max) overtakes PNA" if overtaken else "PNA's lead over MPNN (max) can no longer be seen"
        yield (
            f"On the largest graphs, as released, {lead}: at {size} nodes PNA minus MPNN (max) is "
            f"{in_words(gap, signed=True)} in log₁₀ of the error relative to the baseline."
        )


def _zinc(by_id: dict[tuple[str, str], Finding], profile: str) -> Iterator[str]:
    """PNA on ZINC, against the other models and the published numbers."""
    finding = by_id.get(("zinc", ""))
    if finding and finding.kind != NOT_RUN:
        held = sum(row.outcome == HOLDS for row in finding.rows)
        rows = {row.column: row for row in rows_of(realworld.figure6_runs(profile)) if row.title == "PNA"}
        without, with_edges = (rows[column] for column in ZINC.columns)
        other = "" if without.ours.official and with_edges.ours.official else "; the training set is not official"
        yield (
            f"On ZINC PNA is significantly better in {_of(held, len(finding.rows))} comparisons with other models. Its "
            f"MAE is {without.score.value:.3f} (published: {without.published.value:.3f}) without edge features and "
            f"{with_edges.score.value:.3f} (published: {with_edges.published.value:.3f}) with them{other}."
        )


def _real(profile: str) -> Iterator[str]:
    """How far figure 6's published numbers and ours agree, and PNA's where the data are the paper's."""
    ours = realworld.figure6_runs(profile)
    rows = [row for row in rows_of(ours) if row.ours and row.ours.full and not isnan(row.p)]
    official = [r for r in rows if r.title == "PNA" and r.ours.official and not realworld.lower_is_better(r.column)]
    if official:
        numbers = (f"{row.where} {row.score.value:.2f} ({row.published.value:.2f})" for row in official)
        yield f"Figure 6: {agreement(ours)} PNA's scores in %, published ones in brackets: {'; '.join(numbers)}."


def _depth(profile: str) -> Iterator[str]:
    """Networks trained with the diameter as their depth, against those trained with ⌊N/2⌋ layers."""
    runs = runs_of("depth", "described", profile)
    models, halves = runs.of("depth-diameter"), runs.of("extrapolation")
    if runs.full and "pna" in models:
        short = {run.title: halves[model].diverged for model, run in models.items()}
        ended = [f"{count} runs of {title}" for title, count in short.items() if count]
        caveat = (
            f" With ⌊N/2⌋ layers, {listed(ended)} ended early because their loss was no longer finite." if ended else ""
        )
        yield (
            f"Beyond the paper: trained as described with as many layers as the graph's diameter instead of ⌊N/2⌋, "
            f"{_who({run.title: _everywhere(run, halves[model]) for model, run in models.items()})} significantly "
            f"better at all {len(sizes_of(models['pna']))} sizes from 20 to 99 nodes. That also holds if the diameter "
            f"is left out of the tasks.{caveat}"
        )


def _who(better: dict[str, bool]) -> str:
    """The models that are better, and those that are not, with a verb."""
    yes, no = ([title for title, one in better.items() if one == wanted] for wanted in (True, False))
    if not (yes and no):
        return f"all {len(yes)} models are" if yes else f"none of the {len(no)} models is"
    return f"{listed(yes)}, but not {listed(no, 'or')}, {'are' if len(yes) > 1 else 'is'}"


def _everywhere(run: RecordedRun, half: RecordedRun) -> bool:
    """Whether a network is significantly better than the one with ⌊N/2⌋ layers at every size, on six tasks and five."""
    return all(len(better(run, half, tasks)) == len(sizes_of(run)) for tasks in (SIX, WITHOUT_DIAMETER))
