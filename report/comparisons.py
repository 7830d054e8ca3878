"""The tests behind the claims about trainings: comparisons within one budget, each an estimate with its error.

Every function takes what is recorded of an experiment and returns its comparisons; `pna/verdicts/rules.py` makes
a verdict of them. A name that says "less" means a smaller error: lower is better.
"""

import itertools
import math
from collections.abc import Iterable, Iterator

import numpy as np
from scipy import stats

from pna.figures import published
from pna.figures.runs import RecordedRun, Runs
from pna.figures.scores import (
    EXPLODED,
    SHOWN,
    SPLIT,
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
from pna.verdicts.rules import AGAINST, HOLDS, MARGIN, Comparison, inside, less
from pna.verdicts.statistics import FEWEST, Estimate

__all__ = ["against_published", "extrapolation_against_published"]

Rows = list[Comparison]
Models = dict[str, RecordedRun]


def _title(model: str) -> str:
    return MODELS[model].title


def _against(found: Models, model: str, others: Iterable[str] | None = None, split: str = SPLIT) -> Rows:
    """One model's average against others', all of them by default."""
    others = [name for name in (found if others is None else others) if name != model and name in found]
    return [
        less(_title(name), score(found[model], split) - score(found[name], split)) for name in others if model in found
    ]


def _others(found: Models, model: str) -> Iterator[tuple[str, RecordedRun]]:
    """The other models, if the one is there to be compared with."""
    return ((name, run) for name, run in found.items() if name != model and model in found)


# ---- figure 4 ----


def pna_best(runs: Runs) -> Rows:
    """log10 of the mean MSE over tasks: PNA's against each other model's."""
    found = runs.of("multitask")
    return [less(_title(name), overall(found["pna"]) - overall(run)) for name, run in _others(found, "pna")]


def pna_best_on_average(runs: Runs) -> Rows:
    """The mean over tasks of log10 MSE: PNA's against each other model's."""
    return _against(runs.of("multitask"), "pna")


def pna_best_on_tasks(runs: Runs) -> Rows:
    """Each task, against each other model."""
    found = runs.of("multitask")
    return [
        less(f"{task.title}, {_title(name)}", score(found["pna"], task=column) - score(run, task=column))
        for column, task in enumerate(TASKS)
        for name, run in _others(found, "pna")
    ]


def several_aggregators(runs: Runs) -> Rows:
    """PNA without scalers against MPNN with max and with sum."""
    return _against(runs.of("multitask"), "pna-no-scalers", ("mpnn-max", "mpnn-sum"))


def scalers_help(runs: Runs) -> Rows:
    """PNA against PNA without scalers."""
    return _against(runs.of("multitask"), "pna", ("pna-no-scalers",))


def softmax_worse(runs: Runs) -> Rows:
    """PNA against PNA with softmax and softmin for max and min."""
    return _against(runs.of("multitask"), "pna", ("pna-soft",))


def against_published(run: RecordedRun, task: int | None = None) -> Comparison:
    """Whether the published number of a task, or of the average, is what ten more of our runs would give."""
    key = "average" if task is None else TASKS[task].name
    name = f"{_title(run.cell.model)}, {'average' if task is None else TASKS[task].title}"
    return inside(name, score(run, wider_split(run), task), published.multitask()[run.cell.model][key])


def like_published_averages(runs: Runs) -> Rows:
    """Every average of figure 4b, on test graphs of 15 to 24 nodes where they are recorded."""
    return [against_published(run) for run in runs.of("multitask").values()]


def like_published_tasks(runs: Runs) -> Rows:
    """Likewise, task by task."""
    return [against_published(run, task) for run in runs.of("multitask").values() for task in range(len(TASKS))]


# ---- figure 5 ----


def pna_extrapolates(runs: Runs) -> Rows:
    """PNA against each other model on each size."""
    return _extrapolation(runs.of("extrapolation"), "pna")


def max_extrapolates(runs: Runs) -> Rows:
    """MPNN (max) against the other models of a single aggregator, on sizes beyond the training graphs'."""
    found = {name: run for name, run in runs.of("extrapolation").items() if name != "pna"}
    return _extrapolation(found, "mpnn-max", first=1)


def _extrapolation(found: Models, model: str, first: int = 0) -> Rows:
    return [
        less(f"{size} nodes, {_title(name)}", ratio(found[model], split) - ratio(run, split))
        for name, run in _others(found, model)
        for size, split in list(sizes_of(run).items())[first:SHOWN]
    ]


def extrapolation_against_published(run: RecordedRun, place: int) -> Comparison | None:
    """Likewise for figure 5, at one of its sizes; None where nothing was published."""
    theirs = published.extrapolation()[run.cell.model][place]
    size, split = list(sizes_of(run).items())[place]
    return inside(f"{_title(run.cell.model)}, {size} nodes", ratio(run, split), theirs) if np.isfinite(theirs) else None


def like_published_sizes(runs: Runs) -> Rows:
    """Every published point of figure 5."""
    found = runs.of("extrapolation").values()
    rows = [extrapolation_against_published(run, place) for run in found for place in range(SHOWN)]
    return [row for row in rows if row is not None]


def worsens(runs: Runs) -> Rows:
    """Each model's ratio to the baseline: the smallest graphs against the largest shown."""
    rows = []
    for name, run in runs.of("extrapolation").items():
        first, *_, last = list(sizes_of(run).values())[:SHOWN]
        rows.append(less(_title(name), ratio(run, first, last)))
    return rows


def explodes(runs: Runs) -> Rows:
    """Each model on the largest graphs shown: that more than half of its runs explode, by a sign test.

    One of them is enough. A mean would not do: errors of exploded runs are capped, and have no spread.
    """
    return [_explodes(_title(name), run) for name, run in runs.of("extrapolation").items()]


def _explodes(title: str, run: RecordedRun) -> Comparison:
    size, split = list(sizes_of(run).items())[SHOWN - 1]
    ratios = ratios_by_seed(run, split)
    count, of = np.count_nonzero(ratios >= np.log10(EXPLODED)), len(ratios)
    p = stats.binomtest(count, of).pvalue if of >= FEWEST else math.nan
    text = f"({count} of {of} runs above {EXPLODED:.0f} times the baseline's error)"
    return Comparison(f"{title}, {size} nodes", p, HOLDS if 2 * count > of else AGAINST, text=text)


# ---- the appendix ----


def more_moments(runs: Runs) -> Rows:
    """Three moments against one."""
    return _against(runs.of("multitask"), "moments-3", ("moments-1",))


def too_many_moments(runs: Runs) -> Rows:
    """Four and five moments are not better than three by more than the margin."""
    found = runs.of("multitask")
    more = [name for name in ("moments-4", "moments-5") if {name, "moments-3"} <= found.keys()]
    return [less(_title(name), score(found["moments-3"]) - score(found[name]), MARGIN) for name in more]


def pna_moments(runs: Runs) -> Rows:
    """PNA against each number of moments."""
    return _against(runs.of("multitask"), "pna", [f"moments-{n}" for n in range(1, 6)])


def all_types(runs: Runs) -> Rows:
    """PNA against each other model on each family."""
    found = runs.of("multitask")
    return [
        less(f"{family.title}, {_title(name)}", score(found["pna"], split) - score(run, split))
        for family in FAMILIES
        for split in (f"families/{family.name}",)
        for name, run in _others(found, "pna")
    ]


def lines_hardest(runs: Runs) -> Rows:
    """PNA on each other family against lines."""
    run = runs.of("multitask").get("pna")
    others = [family for family in FAMILIES if family.name != "line"] if run else []
    return [less(family.title, change(run, f"families/{family.name}", "families/line")) for family in others]


def best_in_standard(runs: Runs) -> Rows:
    """PNA against each other model in the standard architecture."""
    return _against(runs.of("standard"), "pna")


def best_in_single(runs: Runs) -> Rows:
    """PNA against each other model, each trained on single tasks."""
    return _against(runs.of("single-task"), "pna")


def same_rank(runs: Runs) -> Rows:
    """Each two models: the one that the recurrent architecture puts behind is not ahead by more than the margin.

    Against it is only a pair whose order is significant in both.
    """
    one, other = runs.of("multitask"), runs.of("standard")
    rows = []
    for pair in itertools.combinations([name for name in one if name in other], 2):
        better, worse = sorted(pair, key=lambda name: score(one[name]).value)
        lead, kept = (score(side[better]) - score(side[worse]) for side in (one, other))
        p = kept.below(MARGIN)
        turned = max(1 - p, lead.below())
        side = HOLDS if p < turned else AGAINST
        name = f"{_title(better)} before {_title(worse)}"
        rows.append(Comparison(name, 2 * min(p, turned), side, found=kept, bound=MARGIN))
    return rows


def recurrent_better(runs: Runs) -> Rows:
    """Each model's recurrent network against its standard one."""
    one, other = runs.of("multitask"), runs.of("standard")
    return [less(_title(name), score(one[name]) - score(other[name])) for name in one if name in other]


def amplifies(runs: Runs) -> Rows:
    """PNA's lead over each other model is larger with multi-task training than with single tasks."""
    one, other = runs.of("multitask"), runs.of("single-task")
    both = {name: run for name, run in one.items() if name in other}
    return [less(_title(name), _gain(one, other, "pna") - _gain(one, other, name)) for name, _ in _others(both, "pna")]


def no_scalers_benefit(runs: Runs) -> Rows:
    """What multi-task training gains: models without scaler or sum against those with."""
    return _gain_more(runs, "single-task", _NOT_COUNTING)


def gru_helps(runs: Runs) -> Rows:
    """What the GRU gains: models without a skip connection across the aggregation against the others."""
    return _gain_more(runs, "no-gru", ("gat", "gcn", "gin"))


def s2s_helps(runs: Runs) -> Rows:
    """What S2S gains over the mean: models without scaler or sum, which do not count, against those with."""
    return _gain_more(runs, "mean-readout", _NOT_COUNTING)


_NOT_COUNTING = ("pna-no-scalers", "mpnn-max", "gat", "gcn")


def _gain_more(runs: Runs, without: str, models: tuple[str, ...]) -> Rows:
    """What multitask gains over another training: each of some models against each of the rest."""
    one, other = runs.of("multitask"), runs.of(without)
    both = [name for name in one if name in other]
    pairs = itertools.product([m for m in both if m in models], [m for m in both if m not in models])
    return [less(f"{_title(a)} against {_title(b)}", _gain(one, other, a) - _gain(one, other, b)) for a, b in pairs]


def _gain(one: Models, other: Models, name: str) -> Estimate:
    """A model's error in one training minus that in the other."""
    return score(one[name]) - score(other[name])


def not_parameters(runs: Runs) -> Rows:
    """PNA with 16 features against each other model with 20."""
    pna, others = runs.of("multitask").get("pna"), runs.of("multitask", 20)
    return [less(f"{_title(name)} (20)", score(pna) - score(run)) for name, run in others.items() if pna]


def no_boost(runs: Runs) -> Rows:
    """No model is better with 20 features than with 16 by more than the margin."""
    small, large = runs.of("multitask"), runs.of("multitask", 20)
    return [less(_title(name), score(small[name]) - score(large[name]), MARGIN) for name in large if name in small]
