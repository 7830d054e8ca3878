"""The tests behind the claims about trainings: comparisons within one budget, each an estimate with its error.

Every function takes the recorded runs of an experiment and returns its comparisons, from which pna/verdicts/rules.py
makes a verdict. "One model against another" holds if its error is the smaller one.
"""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from pna.figures import published
from pna.figures.runs import RecordedRun, Runs
from pna.figures.scores import (
    EXPLODED,
    SHOWN,
    change,
    overall,
    ratio,
    ratios_by_seed,
    score,
    sizes_of,
    wider_split,
)
from pna.multitask import FAMILIES, TASKS
from pna.networks import MODELS
from pna.verdicts.rules import AGAINST, HOLDS, Comparison, inside, less, majority
from pna.verdicts.statistics import Estimate

__all__ = ["MARGIN", "TOLERANCE", "against_published", "extrapolation_against_published"]

MARGIN = 0.1  # log10 MSE: a smaller difference counts as none (a factor of 1.26)
TOLERANCE = 0.3  # log10 MSE: how far a published number may be from ours (a factor of 2)

Rows = list[Comparison]
Models = dict[str, RecordedRun]


def _title(model: str) -> str:
    return MODELS[model].title


def _against(models: Models, model: str, others: Iterable[str] | None = None) -> Rows:
    """One model's average against those of others, by default of all others."""
    return [
        less(_title(name), score(models[model]) - score(run))
        for name, run in _others(models, model)
        if others is None or name in others
    ]


def _others(models: Models, model: str) -> Iterator[tuple[str, RecordedRun]]:
    """The other models; none if the one to compare with is not recorded."""
    return ((name, run) for name, run in models.items() if name != model and model in models)


# ---- figure 4 ----


def pna_best(runs: Runs) -> Rows:
    """PNA against each other model, by log10 of the mean MSE over tasks."""
    models = runs.of("multitask")
    return [less(_title(name), overall(models["pna"]) - overall(run)) for name, run in _others(models, "pna")]


def pna_best_on_average(runs: Runs) -> Rows:
    """PNA against each other model, by the mean over tasks of log10 MSE."""
    return _against(runs.of("multitask"), "pna")


def pna_best_on_tasks(runs: Runs) -> Rows:
    """PNA against each other model on each task."""
    models = runs.of("multitask")
    return [
        less(f"{task.title}, {_title(name)}", score(models["pna"], task=column) - score(run, task=column))
        for column, task in enumerate(TASKS)
        for name, run in _others(models, "pna")
    ]


def several_aggregators(runs: Runs) -> Rows:
    """PNA without scalers against MPNN with max and with sum."""
    return _against(runs.of("multitask"), "pna-no-scalers", ("mpnn-max", "mpnn-sum"))


def scalers_help(runs: Runs) -> Rows:
    """PNA against PNA without scalers."""
    return _against(runs.of("multitask"), "pna", ("pna-no-scalers",))


def softmax_worse(runs: Runs) -> Rows:
    """PNA against PNA with softmax and softmin in place of max and min."""
    return _against(runs.of("multitask"), "pna", ("pna-soft",))


def against_published(run: RecordedRun, task: int | None = None) -> Comparison:
    """Whether the published number of a task, or of the average, is what ten more of our runs would give."""
    key = "average" if task is None else TASKS[task].name
    name = f"{_title(run.cell.model)}, {'average' if task is None else TASKS[task].title}"
    return inside(name, score(run, wider_split(run), task), published.multitask()[run.cell.model][key], TOLERANCE)


def like_published_averages(runs: Runs) -> Rows:
    """Every published average of figure 4b, on test graphs of 15 to 24 nodes where they are recorded."""
    return [against_published(run) for run in runs.of("multitask").values()]


def like_published_tasks(runs: Runs) -> Rows:
    """Every published error of figure 4b, task by task, on test graphs of 15 to 24 nodes where they are recorded."""
    return [against_published(run, task) for run in runs.of("multitask").values() for task in range(len(TASKS))]


# ---- figure 5 ----


def pna_extrapolates(runs: Runs) -> Rows:
    """PNA against each other model on each size of graphs."""
    return _extrapolation(runs.of("extrapolation"), "pna")


def max_extrapolates(runs: Runs) -> Rows:
    """MPNN (max) against the other models with a single aggregator, on graphs larger than those of training."""
    models = {name: run for name, run in runs.of("extrapolation").items() if name != "pna"}
    return _extrapolation(models, "mpnn-max", first=1)


def _extrapolation(models: Models, model: str, first: int = 0) -> Rows:
    return [
        less(f"{size} nodes, {_title(name)}", ratio(models[model], split) - ratio(run, split))
        for name, run in _others(models, model)
        for size, split in list(sizes_of(run).items())[first:SHOWN]
    ]


def extrapolation_against_published(run: RecordedRun, place: int) -> Comparison | None:
    """Whether a published point of figure 5 is what ten more of our runs would give; None where none was published."""
    theirs = published.extrapolation()[run.cell.model][place]
    size, split = list(sizes_of(run).items())[place]
    if not np.isfinite(theirs):
        return None
    return inside(f"{_title(run.cell.model)}, {size} nodes", ratio(run, split), theirs, TOLERANCE)


def like_published_sizes(runs: Runs) -> Rows:
    """Every published point of figure 5."""
    models = runs.of("extrapolation").values()
    rows = [extrapolation_against_published(run, place) for run in models for place in range(SHOWN)]
    return [row for row in rows if row is not None]


def worsens(runs: Runs) -> Rows:
    """Each model's error relative to the baseline: on the smallest graphs against the largest shown."""
    rows = []
    for name, run in runs.of("extrapolation").items():
        first, *_, last = list(sizes_of(run).values())[:SHOWN]
        rows.append(less(_title(name), ratio(run, first, last)))
    return rows


def explodes(runs: Runs) -> Rows:
    """Whether more than half of each model's runs explode on the largest graphs shown, by a sign test.

    A mean would not do: errors of exploded runs are capped, and have no spread.
    """
    return [_explodes(_title(name), run) for name, run in runs.of("extrapolation").items()]


def _explodes(title: str, run: RecordedRun) -> Comparison:
    size, split = list(sizes_of(run).items())[SHOWN - 1]
    ratios = ratios_by_seed(run, split)
    count, total = np.count_nonzero(ratios >= np.log10(EXPLODED)), len(ratios)
    text = f"({count} of {total} runs above {EXPLODED:.0f} times the baseline's error)"
    return majority(f"{title}, {size} nodes", count, total, text)


# ---- the appendix ----


def more_moments(runs: Runs) -> Rows:
    """Three moments against one."""
    return _against(runs.of("multitask"), "moments-3", ("moments-1",))


def too_many_moments(runs: Runs) -> Rows:
    """Three moments against four and five, which may be better by no more than the margin."""
    models = runs.of("multitask")
    more = [name for name in ("moments-4", "moments-5") if {name, "moments-3"} <= models.keys()]
    return [less(_title(name), score(models["moments-3"]) - score(models[name]), MARGIN) for name in more]


def pna_moments(runs: Runs) -> Rows:
    """PNA against each number of moments."""
    return _against(runs.of("multitask"), "pna", [f"moments-{n}" for n in range(1, 6)])


def all_types(runs: Runs) -> Rows:
    """PNA against each other model on each family of graphs."""
    models = runs.of("multitask")
    return [
        less(f"{family.title}, {_title(name)}", score(models["pna"], split) - score(run, split))
        for family in FAMILIES
        for split in (f"families/{family.name}",)
        for name, run in _others(models, "pna")
    ]


def lines_hardest(runs: Runs) -> Rows:
    """PNA on each other family of graphs against PNA on lines."""
    run = runs.of("multitask").get("pna")
    others = [family for family in FAMILIES if family.name != "line"] if run else []
    return [less(family.title, change(run, f"families/{family.name}", "families/line")) for family in others]


def best_in_standard(runs: Runs) -> Rows:
    """PNA against each other model in the standard architecture."""
    return _against(runs.of("standard"), "pna")


def best_in_single(runs: Runs) -> Rows:
    """PNA against each other model, all trained on single tasks."""
    return _against(runs.of("single-task"), "pna")


def same_rank(runs: Runs) -> Rows:
    """Each pair of models: the one ahead in the recurrent architecture is not behind by the margin in the standard one.

    Against it is only a pair whose order is significant in both.
    """
    recurrent, standard = runs.of("multitask"), runs.of("standard")
    rows = []
    for pair in itertools.combinations([name for name in recurrent if name in standard], 2):
        better, worse = sorted(pair, key=lambda name: score(recurrent[name]).value)
        lead, change = (score(models[better]) - score(models[worse]) for models in (recurrent, standard))
        p = change.below(MARGIN)
        turned = max(1 - p, lead.below())
        side = HOLDS if p < turned else AGAINST
        name = f"{_title(better)} before {_title(worse)}"
        rows.append(Comparison(name, 2 * min(p, turned), side, estimate=change, bound=MARGIN))
    return rows


def recurrent_better(runs: Runs) -> Rows:
    """Each model's recurrent network against its standard one."""
    one, other = runs.of("multitask"), runs.of("standard")
    return [less(_title(name), score(one[name]) - score(other[name])) for name in one if name in other]


def amplifies(runs: Runs) -> Rows:
    """PNA's lead over each other model with multi-task training against that with single tasks."""
    one, other = runs.of("multitask"), runs.of("single-task")
    both = {name: run for name, run in one.items() if name in other}
    return [less(_title(name), _gain(one, other, "pna") - _gain(one, other, name)) for name, _ in _others(both, "pna")]


def no_scalers_benefit(runs: Runs) -> Rows:
    """The gain from multi-task training: each model without scaler or sum against each with one."""
    return _gain_more(runs, "single-task", _NOT_COUNTING)


def gru_helps(runs: Runs) -> Rows:
    """The gain from the GRU: each model without a skip connection across the aggregation against each other one."""
    return _gain_more(runs, "no-gru", ("gat", "gcn", "gin"))


def s2s_helps(runs: Runs) -> Rows:
    """The gain from S2S over the mean: each model without scaler or sum, which cannot count, against each with one."""
    return _gain_more(runs, "mean-readout", _NOT_COUNTING)


_NOT_COUNTING = ("pna-no-scalers", "mpnn-max", "gat", "gcn")


def _gain_more(runs: Runs, without: str, models: tuple[str, ...]) -> Rows:
    """The gain from multi-task training over another one: each of some models against each of the rest."""
    one, other = runs.of("multitask"), runs.of(without)
    both = [name for name in one if name in other]
    pairs = itertools.product([m for m in both if m in models], [m for m in both if m not in models])
    return [less(f"{_title(a)} against {_title(b)}", _gain(one, other, a) - _gain(one, other, b)) for a, b in pairs]


def _gain(one: Models, other: Models, name: str) -> Estimate:
    """A model's error in one training minus its error in the other."""
    return score(one[name]) - score(other[name])


def not_parameters(runs: Runs) -> Rows:
    """PNA with 16 features against each other model with 20."""
    pna, others = runs.of("multitask").get("pna"), runs.of("multitask", 20)
    return [less(f"{_title(name)} (20)", score(pna) - score(run)) for name, run in others.items() if pna]


def no_boost(runs: Runs) -> Rows:
    """Each model with 16 features against itself with 20, which may be better by no more than the margin."""
    small, large = runs.of("multitask"), runs.of("multitask", 20)
    return [less(_title(name), score(small[name]) - score(large[name]), MARGIN) for name in large if name in small]
