"""The tests behind the claims about trainings: comparisons within one budget, each an interval over seeds."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from pna import published
from pna.multitask import FAMILIES, TASKS
from pna.networks import MODELS
from pna.report.figures.extrapolation import SHOWN, ratios, splits_of
from pna.report.figures.multitask import SPLIT
from pna.report.runs import Run, Runs
from pna.report.scores import Interval, best, difference, drawn_tasks, interval, log_mean, log_tasks, resampled

__all__ = ["TOLERANCE", "Evidence", "against_published", "extrapolation_against_published", "less"]

TOLERANCE = 0.3  # of log10 MSE: within a factor of 2 of the published number


@dataclass(frozen=True)
class Evidence:
    """outcome is "holds", "partly", "fails", "undecided" or "no runs"; full is False for less than the full budget."""

    outcome: str
    text: str
    full: bool = True
    budget: str = ""  # of the runs, where the evidence chose them itself


def less(comparisons: Iterable[tuple[str, Interval]]) -> Evidence:
    """The claim that every difference is below zero."""
    rows = list(comparisons)
    if not rows:
        return Evidence("no runs", "no run to compare is recorded", full=False)
    held = [name for name, found in rows if found.sign == "below"]
    failed = [f"{name} {found}" for name, found in rows if found.sign == "above"]
    open_ = [f"{name} {found}" for name, found in rows if found.sign == "undecided"]
    if len(held) == len(rows):
        outcome = "holds"
    elif held:
        outcome = "partly"
    else:
        outcome = "fails" if failed else "undecided"
    parts = [f"{len(held)} of {len(rows)} comparisons hold"]
    parts += [f"against it: {_few(failed)}"] * bool(failed) + [f"undecided: {_few(open_)}"] * bool(open_)
    if outcome == "holds":
        closest = max(rows, key=lambda row: row[1].high)
        parts.append(f"the closest: {closest[0]} {closest[1]}")
    return Evidence(outcome, "; ".join(parts))


def _few(names: list[str], shown: int = 3) -> str:
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")


def _title(model: str) -> str:
    return MODELS[model].title


def _against(runs: dict[str, Run], model: str, others: Iterable[str] | None = None, split: str = SPLIT) -> Evidence:
    """One model's average against others', all of them by default."""
    others = [name for name in (runs if others is None else others) if name != model and name in runs]
    return less((_title(name), difference(runs[model], runs[name], split)) for name in others if model in runs)


# ---- figure 4 ----


def pna_best(runs: Runs) -> Evidence:
    """log10 of the mean MSE over tasks: PNA's against each other model's."""
    found = runs.of("multitask")
    return less(
        (_title(name), _log_mean_difference(found["pna"], run))
        for name, run in found.items()
        if name != "pna" and "pna" in found
    )


def _log_mean_difference(one: Run, other: Run) -> Interval:
    rows = resampled(min(len(one.validation), len(other.validation)))
    value, draws = (
        np.subtract(*(np.nanmean(log_mean(best(run, SPLIT, drawn)), axis=-1) for run in (one, other)))
        for drawn in (None, rows)
    )
    return interval(value, draws)


def pna_best_on_tasks(runs: Runs) -> Evidence:
    """Each task, against each other model."""
    found = runs.of("multitask")
    return less(
        (f"{task.title}, {_title(name)}", difference(found["pna"], run, SPLIT, column))
        for column, task in enumerate(TASKS)
        for name, run in found.items()
        if name != "pna" and "pna" in found
    )


def several_aggregators(runs: Runs) -> Evidence:
    """PNA without scalers against MPNN with max and with sum."""
    return _against(runs.of("multitask"), "pna-no-scalers", ("mpnn-max", "mpnn-sum"))


def scalers_help(runs: Runs) -> Evidence:
    """PNA against PNA without scalers."""
    return _against(runs.of("multitask"), "pna", ("pna-no-scalers",))


def against_published(run: Run, task: int | None) -> Interval:
    """(ours - our baseline) - (published - published baseline), in log10 MSE, of a task or of the average.

    Relative to the baseline on the same graphs, the units cancel, and so does most of what differs between test graphs
    of 15 to 19 nodes (the released code's) and of 15 to 24 (the published ones).
    """
    rows = published.multitask()
    with np.errstate(divide="ignore"):
        base = np.log10(run.baseline(SPLIT))
    key = "average" if task is None else TASKS[task].name
    theirs = rows[run.cell.model][key] - rows["baseline"][key]
    ours = (x - base for x in (log_tasks(best(run, SPLIT)), drawn_tasks(run, SPLIT, len(run.validation))))
    value, draws = ((x.mean(axis=-1) if task is None else x[..., task]) - theirs for x in ours)
    return interval(value, draws)


def like_published(runs: Runs) -> Evidence:
    """Each published average and task within a factor of two, or better than published."""
    found = [
        (f"{_title(name)}, {'average' if task is None else TASKS[task].title}", against_published(run, task))
        for name, run in runs.of("multitask").items()
        for task in (None, *range(len(TASKS)))
    ]
    return less((name, Interval(i.value - TOLERANCE, i.low - TOLERANCE, i.high - TOLERANCE)) for name, i in found)


# ---- figure 5 ----


def pna_extrapolates(runs: Runs) -> Evidence:
    """PNA against each other model on each size."""
    return _extrapolation(runs, "pna", lambda name: True)


def max_extrapolates(runs: Runs) -> Evidence:
    """MPNN (max) against the other models of a single aggregator, on sizes beyond the training graphs'."""
    return _extrapolation(runs, "mpnn-max", lambda name: name != "pna", first=1)


def _extrapolation(runs: Runs, model: str, wanted: Callable[[str], bool], first: int = 0) -> Evidence:
    found = runs.of("extrapolation")
    others = [name for name in found if name != model and wanted(name) and model in found]
    return less(
        (
            f"{split.split('test_')[1].replace('_', '-')} nodes, {_title(name)}",
            _ratio_difference(found[model], found[name], split),
        )
        for name in others
        for split in splits_of(found[model])[first:SHOWN]
    )


def _ratio_difference(one: Run, other: Run, split: str, other_split: str | None = None) -> Interval:
    rows = resampled(min(len(one.validation), len(other.validation)))
    pairs = ((one, split), (other, other_split or split))
    value, draws = (
        np.subtract(*(np.nanmean(ratios(run, where, drawn), axis=-1) for run, where in pairs)) for drawn in (None, rows)
    )
    return interval(value, draws)


def extrapolation_against_published(run: Run, place: int) -> Interval | None:
    """Ours minus the published log10 ratio to the baseline, at one of the sizes; None where none was published."""
    theirs = published.extrapolation()[run.cell.model][place]
    if not np.isfinite(theirs):
        return None
    rows, split = resampled(len(run.validation)), splits_of(run)[place]
    value, draws = (np.nanmean(ratios(run, split, drawn), axis=-1) - theirs for drawn in (None, rows))
    return interval(value, draws)


def worsens(runs: Runs) -> Evidence:
    """Each model's ratio to the baseline: the smallest graphs against the largest shown."""
    found = runs.of("extrapolation")
    return less(
        (_title(name), _ratio_difference(run, run, splits_of(run)[0], splits_of(run)[SHOWN - 1]))
        for name, run in found.items()
    )


def explodes(runs: Runs) -> Evidence:
    """Some model is worse than the baseline, or not finite at all, on some size shown."""
    found = runs.of("extrapolation")
    if not found:
        return less([])
    worst = {
        _title(name): max(float(np.nanmean(ratios(run, split))) for split in splits_of(run)[:SHOWN])
        for name, run in found.items()
    }
    bad = {name: value for name, value in worst.items() if not value <= 0}
    text = ", ".join(f"{name} {value:+.2f}" for name, value in (bad or worst).items())
    return Evidence("holds" if bad else "fails", f"largest log10 ratio to the baseline: {text}")


# ---- the appendix ----


def more_moments(runs: Runs) -> Evidence:
    """Three moments against one."""
    return _against(runs.of("multitask"), "moments-3", ("moments-1",))


def too_many_moments(runs: Runs) -> Evidence:
    """Five moments are not better than three."""
    return _not_better(runs.of("multitask"), (("moments-5", "moments-3"),))


def _not_better(found: dict[str, Run], pairs: Iterable[tuple[str, str]]) -> Evidence:
    """The claim that none of the first is better than the second beside it."""
    rows = [
        (f"{_title(one)} against {_title(other)}", difference(found[one], found[other], SPLIT))
        for one, other in pairs
        if one in found and other in found
    ]
    return _none_below(rows)


def _none_below(rows: list[tuple[str, Interval]]) -> Evidence:
    if not rows:
        return less([])
    better = [f"{name} {found}" for name, found in rows if found.sign == "below"]
    outcome = "holds" if not better else "fails" if len(better) == len(rows) else "partly"
    text = f"better after all: {_few(better)}" if better else _few([f"{name} {found}" for name, found in rows])
    return Evidence(outcome, f"{len(rows) - len(better)} of {len(rows)} are not better; {text}")


def pna_moments(runs: Runs) -> Evidence:
    """PNA against each number of moments."""
    return _against(runs.of("multitask"), "pna", [f"moments-{n}" for n in range(1, 6)])


def all_types(runs: Runs) -> Evidence:
    """PNA against each other model on each family."""
    found = runs.of("multitask")
    return less(
        (f"{family.title}, {_title(name)}", difference(found["pna"], run, f"families/{family.name}"))
        for family in FAMILIES
        for name, run in found.items()
        if name != "pna" and "pna" in found
    )


def lines_hardest(runs: Runs) -> Evidence:
    """PNA on each other family against lines."""
    run = runs.of("multitask").get("pna")
    others = [family for family in FAMILIES if family.name != "line"] if run else []
    return less(
        (family.title, difference(run, run, f"families/{family.name}", other_split="families/line"))
        for family in others
    )


def best_in_standard(runs: Runs) -> Evidence:
    """PNA against each other model in the standard architecture."""
    return _against(runs.of("standard"), "pna")


def best_in_single(runs: Runs) -> Evidence:
    """PNA against each other model, each trained on single tasks."""
    return _against(runs.of("single-task"), "pna")


def same_rank(runs: Runs) -> Evidence:
    """Pairs of models that the two architectures put in opposite order, each beyond its interval."""
    one, other = runs.of("multitask"), runs.of("standard")
    both = [name for name in one if name in other]
    pairs = list(itertools.combinations(both, 2))
    if not pairs:
        return less([])
    signs = {pair: {difference(side[pair[0]], side[pair[1]], SPLIT).sign for side in (one, other)} for pair in pairs}
    turned = [f"{_title(a)} / {_title(b)}" for (a, b), found in signs.items() if found == {"below", "above"}]
    kept = sum(len(found) == 1 and "undecided" not in found for found in signs.values())
    outcome = "partly" if turned else "holds" if kept == len(pairs) else "undecided"
    text = f"{kept} of {len(pairs)} pairs in the same order; turned round: {_few(turned) or 'none'}; the rest undecided"
    return Evidence(outcome, text)


def recurrent_better(runs: Runs) -> Evidence:
    """Each model's recurrent network against its standard one."""
    one, other = runs.of("multitask"), runs.of("standard")
    return less((_title(name), difference(one[name], other[name], SPLIT)) for name in one if name in other)


def amplifies(runs: Runs) -> Evidence:
    """PNA's lead over each other model is larger with multi-task training than with single tasks."""
    one, other = runs.of("multitask"), runs.of("single-task")
    names = [name for name in one if name in other and name != "pna" and {"pna"} <= one.keys() & other.keys()]
    return less((_title(name), _gain_difference(one, other, "pna", name)) for name in names)


def no_scalers_benefit(runs: Runs) -> Evidence:
    """What multi-task training gains: models without scaler or sum against those with."""
    one, other = runs.of("multitask"), runs.of("single-task")
    both = [name for name in one if name in other]
    without = [name for name in ("pna-no-scalers", "mpnn-max", "gat", "gcn") if name in both]
    having = [name for name in ("pna", "mpnn-sum", "gin") if name in both]
    return less(
        (f"{_title(a)} against {_title(b)}", _gain_difference(one, other, a, b)) for a in without for b in having
    )


def _gain_difference(one: dict[str, Run], other: dict[str, Run], a: str, b: str) -> Interval:
    """(a's error in one training - in the other) - (b's likewise)."""
    sides = [(side[name], sign) for name, outer in ((a, 1), (b, -1)) for side, sign in ((one, outer), (other, -outer))]
    seeds = min(len(run.validation) for run, _ in sides)
    value = sum(sign * log_tasks(best(run, SPLIT)).mean() for run, sign in sides)
    return interval(value, sum(sign * drawn_tasks(run, SPLIT, seeds).mean(axis=-1) for run, sign in sides))


def not_parameters(runs: Runs) -> Evidence:
    """PNA with 16 features against each other model with 20."""
    pna, others = runs.of("multitask").get("pna"), runs.of("multitask", 20)
    return less((f"{_title(name)} (20)", difference(pna, run, SPLIT)) for name, run in others.items() if pna)


def no_boost(runs: Runs) -> Evidence:
    """No model is better with 20 features than with 16."""
    small, large = runs.of("multitask"), runs.of("multitask", 20)
    return _none_below([(_title(name), difference(large[name], small[name], SPLIT)) for name in large if name in small])
