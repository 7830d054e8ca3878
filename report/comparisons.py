"""The tests behind the claims about trainings: comparisons within one budget, each a contrast with its error.

Every function takes the recorded runs of an experiment and returns the parts of a claim, from which its aggregate test
and, by pna/verdicts/rules.py, its verdict are made. "One model against another" holds if its error is the smaller one.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pna.figures import published
from pna.figures.runs import RecordedRun, Runs
from pna.figures.scores import (
    EXPLODED,
    KEPT,
    SHOWN,
    SPLIT,
    by_seed,
    ratios_by_seed,
    score,
    sizes_of,
    wider_split,
)
from pna.figures.scores import ratio as ratio_score
from pna.multitask import FAMILIES, TASKS
from pna.networks import MODELS
from pna.verdicts.contrasts import Contrast, Sample, mean_contrast
from pna.verdicts.rules import AGAINST, Comparison, inside, less, majority
from pna.verdicts.statistics import FEWEST, Estimate, sample_mean
from report.parts import Part, average, by_task, known, overall, ratio

__all__ = ["MARGIN", "TOLERANCE", "against_published", "extrapolation_against_published", "with_error_of"]

MARGIN = 0.1  # log10 MSE: a smaller difference counts as none (a factor of 1.26)
TOLERANCE = 0.3  # log10 MSE: how far a published number may be from ours (a factor of 2)

Rows = list[Part]
Models = dict[str, RecordedRun]


def _title(model: str) -> str:
    """A model's name as the paper prints it."""
    return MODELS[model].title


def _against(models: Models, model: str, others: Iterable[str] | None = None) -> Rows:
    """One model's average against those of others, by default of all others."""
    return [
        Part(_title(name), average(models[model]) - average(run), {"model": _title(name)})
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
    return [
        Part(_title(name), overall(models["pna"]) - overall(run), {"model": _title(name)})
        for name, run in _others(models, "pna")
    ]


def pna_best_on_average(runs: Runs) -> Rows:
    """PNA against each other model, by the mean over tasks of log10 MSE."""
    return _against(runs.of("multitask"), "pna")


def pna_best_on_tasks(runs: Runs) -> Rows:
    """PNA against each other model on each task."""
    models = runs.of("multitask")
    return [
        Part(
            f"{task.title}, {_title(name)}",
            average(models["pna"], task=column) - average(run, task=column),
            {"task": task.title, "model": _title(name)},
        )
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


# ---- published numbers of figures 4 and 5 ----


def _published_box(model: str) -> Estimate:
    """Figure 4a's mean of five runs, with the error that the spread of the box's five runs gives it."""
    box = published.boxes()[model]
    five = [box[name] for name in ("best whisker", "Q1", "median", "Q3", "worst whisker")]  # quartiles of five are runs
    spread = sample_mean(five)
    return Estimate(box["mean"], spread.error, KEPT - 1.0)


def like_published_boxes(runs: Runs) -> Rows:
    """Every mean of figure 4a against ours, with the authors' own spread between runs."""
    return [
        _same(f"{run.title}, mean MSE", overall(run, wider_split(run)), known(_box(name), _published_box(name)))
        for name, run in runs.of("multitask").items()
    ]


def like_published_averages(runs: Runs) -> Rows:
    """Every average of figure 4b against ours."""
    return [like_published_average(run) for run in runs.of("multitask").values()]


def like_published_average(run: RecordedRun) -> Part:
    """A model's average of figure 4b against ours.

    The error of a published average is that of figure 4a's mean, which measures the same five runs in another way.
    """
    name = run.cell.model
    theirs = Estimate(published.multitask()[name]["average"], _published_box(name).error, KEPT - 1.0)
    return _same(f"{run.title}, average", average(run, wider_split(run)), known(_box(name), theirs))


def _box(model: str) -> str:
    """The name of the sample of a model's published runs, which figures 4a and 4b share."""
    return f"published: {_title(model)}, figure 4"


def _same(name: str, ours: Contrast, theirs: Contrast, **keys: str) -> Part:
    """A part that holds if our number is within TOLERANCE of the published one; `name` begins with the model."""
    return Part(name, ours - theirs, {"model": name.split(",")[0], **keys}, margin=TOLERANCE)


def against_published(run: RecordedRun, task: int | None = None) -> Comparison:
    """Whether the published number of a task, or of the average, is what ten more of our runs would give."""
    key = "average" if task is None else TASKS[task].name
    name = f"{_title(run.cell.model)}, {'average' if task is None else TASKS[task].title}"
    return inside(name, score(run, wider_split(run), task), published.multitask()[run.cell.model][key], TOLERANCE)


def like_published_tasks(runs: Runs) -> Rows:
    """Every error of figure 4b against ours, task by task; a published one is taken to be as uncertain as ours."""
    rows = []
    for name, run in runs.of("multitask").items():
        for place, task in enumerate(TASKS):
            theirs = published.multitask()[name][task.name]
            ours, one = average(run, wider_split(run), place), score(run, wider_split(run), place)
            shown = f"{run.title}, {task.title}"
            rows.append(_same(shown, ours, _as_uncertain(shown, theirs, one), task=task.title))
    return rows


def _as_uncertain(name: str, value: float, ours: Estimate) -> Contrast:
    """A published number whose error is not published, and is taken to be that of one experiment of ours."""
    return known(f"published: {name}", with_error_of(ours, value))


def with_error_of(ours: Estimate, value: float) -> Estimate:
    """A number that is as uncertain as one experiment of ours."""
    return Estimate(value, ours.error if math.isnan(ours.once) else ours.once, ours.freedom)


def extrapolation_against_published(run: RecordedRun, place: int) -> Comparison | None:
    """Whether a published point of figure 5 is what ten more of our runs would give; None where none was published."""
    theirs = published.extrapolation()[run.cell.model][place]
    size, split = list(sizes_of(run).items())[place]
    if not np.isfinite(theirs):
        return None
    return inside(f"{_title(run.cell.model)}, {size} nodes", ratio_score(run, split), theirs, TOLERANCE)


def like_published_sizes(runs: Runs) -> Rows:
    """Every published point of figure 5 against ours; a published line is taken to be as uncertain as ours."""
    rows = []
    for name, run in runs.of("extrapolation").items():
        points = zip(sizes_of(run).items(), published.extrapolation()[name], strict=False)
        line = {place: theirs for place, theirs in points if np.isfinite(theirs)}
        for ((size, split), _), theirs in zip(line.items(), _published_line(run, line), strict=True):
            rows.append(_same(f"{run.title}, {size} nodes", ratio(run, split), theirs, size=size))
    return rows


def _published_line(run: RecordedRun, line: dict[tuple[str, str], float]) -> list[Contrast]:
    """The points of a published line, by size and split of ours; they come from the same runs, so they are one sample.

    A mean over them is taken to be as uncertain as that mean in one experiment of ours.
    """
    values = np.array(list(line.values()))
    scores = np.stack([ratios_by_seed(run, split) for _, split in line], axis=1)  # [S, K]
    (ours,) = ratio(run, next(iter(line))[1]).terms

    def estimate(weights: NDArray[np.float64]) -> Estimate:
        """A weighted sum of the points, with the error that ours would have."""
        return with_error_of(ours.estimate(scores @ weights), float(values @ weights))

    sample = Sample(f"published: {run.title}, figure 5", estimate, 0)
    return [Contrast({sample: weights}) for weights in np.eye(len(values))]


# ---- figure 5 ----


def pna_extrapolates(runs: Runs) -> Rows:
    """PNA against each other model on each size of graphs."""
    return _extrapolation(runs.of("extrapolation"), "pna", slice(SHOWN))


def max_extrapolates(runs: Runs) -> Rows:
    """MPNN (max) against the other models with a single aggregator, on graphs larger than those of training."""
    models = {name: run for name, run in runs.of("extrapolation").items() if name != "pna"}
    return _extrapolation(models, "mpnn-max", slice(1, SHOWN))


def pna_beyond(runs: Runs) -> Rows:
    """PNA against each other model on the three sizes beyond those that the paper shows."""
    return _extrapolation(runs.of("extrapolation"), "pna", slice(SHOWN, None))


def below_baseline(runs: Runs) -> Rows:
    """PNA against the baseline, which predicts the training mean, on each size of graphs."""
    run = runs.of("extrapolation").get("pna")
    sizes = list(sizes_of(run).items())[:SHOWN] if run else []
    return [Part(f"{size} nodes", ratio(run, split), {"size": size}) for size, split in sizes]


def _extrapolation(models: Models, model: str, places: slice) -> Rows:
    """One model against each other one, by figure 5's measure, on the sizes of graphs that `places` selects."""
    return [
        Part(
            f"{size} nodes, {_title(name)}",
            ratio(models[model], split) - ratio(run, split),
            {"model": _title(name), "size": size},
        )
        for name, run in _others(models, model)
        for size, split in list(sizes_of(run).items())[places]
    ]


def worsens(runs: Runs) -> Rows:
    """Each model's error relative to the baseline: on the smallest graphs against the largest shown."""
    rows = []
    for name, run in runs.of("extrapolation").items():
        first, *_, last = list(sizes_of(run).values())[:SHOWN]
        rows.append(Part(_title(name), ratio(run, first) - ratio(run, last), {"model": _title(name)}))
    return rows


def explodes(runs: Runs) -> Rows:
    """Whether more than half of each model's runs explode on the largest graphs shown, by a sign test.

    A mean would not do: errors of exploded runs are capped, and have no spread.
    """
    rows = []
    for name, run in runs.of("extrapolation").items():
        test = _explodes(_title(name), run)
        rows.append(Part(test.name, None, {"model": _title(name)}, test=test))
    return rows


def _explodes(title: str, run: RecordedRun) -> Comparison:
    """Sign test whether most runs of a model exceed EXPLODED times the baseline's error on the largest graphs shown."""
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
    """Three moments against four and five."""
    return _against(runs.of("multitask"), "moments-3", _MORE)


def no_gain_from_moments(runs: Runs) -> Rows:
    """Three moments against four and five, which may be better by no more than the margin."""
    return [_bounded(part) for part in too_many_moments(runs)]


def _bounded(part: Part) -> Part:
    """A part that holds if the other side is better by no more than the margin."""
    return Part(part.name, part.contrast, part.keys, MARGIN)


_MORE = ("moments-4", "moments-5")
_HIGHER = ("moments-3", *_MORE)


def pna_moments(runs: Runs) -> Rows:
    """PNA against three, four and five moments."""
    return _against(runs.of("multitask"), "pna", _HIGHER)


def pna_consistent(runs: Runs) -> Rows:
    """The spread between seeds: PNA's against that of three, four and five moments, as log10 of the deviation."""
    models = runs.of("multitask")
    return [
        Part(_title(name), _spread(models["pna"]) - _spread(run), {"model": _title(name)})
        for name, run in _others(models, "pna")
        if name in _HIGHER
    ]


def _spread(run: RecordedRun) -> Contrast:
    """log10 of the standard deviation over all seeds of the average, with the jackknife's error."""
    scores = by_seed(run, SPLIT).mean(axis=1)
    seeds = len(scores)
    if seeds < FEWEST:
        return known(str(run.cell), Estimate(math.nan))
    without = np.array([np.delete(scores, k).std(ddof=1) for k in range(seeds)])
    logs = np.log10(np.maximum(without, 1e-12))
    error = math.sqrt((seeds - 1) / seeds * float(((logs - logs.mean()) ** 2).sum()))
    return known(str(run.cell), Estimate(math.log10(max(scores.std(ddof=1), 1e-12)), error, seeds - 1.0), seeds)


def moments_and_degrees(runs: Runs) -> Rows:
    """The gain from five moments over two: on families of high average degree against those of low."""
    models = runs.of("multitask")
    if not {"moments-2", "moments-5"} <= models.keys():
        return []
    gains = {
        family.name: average(models["moments-5"], split) - average(models["moments-2"], split)
        for family in FAMILIES
        for split in (f"families/{family.name}",)
    }
    low = mean_contrast(gain for name, gain in gains.items() if name not in _DENSE)
    return [
        Part(f"{family.title} against the sparse families", gains[family.name] - low, {"family": family.title})
        for family in FAMILIES
        if family.name in _DENSE
    ]


_DENSE = ("erdos_renyi", "barabasi_albert", "caveman")  # average degrees above 4; all others have less


def all_types(runs: Runs) -> Rows:
    """PNA against each other model on each family of graphs."""
    models = runs.of("multitask")
    return [
        Part(
            f"{family.title}, {_title(name)}",
            average(models["pna"], split) - average(run, split),
            {"family": family.title, "model": _title(name)},
        )
        for family in FAMILIES
        for split in (f"families/{family.name}",)
        for name, run in _others(models, "pna")
    ]


def lines_hardest(runs: Runs) -> Rows:
    """PNA on each other family of graphs against PNA on lines."""
    run = runs.of("multitask").get("pna")
    others = [family for family in FAMILIES if family.name != "line"] if run else []
    return [
        Part(
            family.title,
            average(run, f"families/{family.name}") - average(run, "families/line"),
            {"family": family.title},
        )
        for family in others
    ]


def best_in_standard(runs: Runs) -> Rows:
    """PNA against each other model in the standard architecture."""
    return _against(runs.of("standard"), "pna")


def best_in_single(runs: Runs) -> Rows:
    """PNA against each other model, all trained on single tasks."""
    return _against(runs.of("single-task"), "pna")


def same_rank(runs: Runs) -> Rows:
    """Compare each pair of models in the standard architecture: the one ahead in the recurrent one minus the other."""
    return _in_order(runs.of("multitask"), runs.of("standard"))


def trend_follows(runs: Runs) -> Rows:
    """Compare each pair of models trained on all tasks: the one ahead on single tasks minus the other."""
    return _in_order(runs.of("single-task"), runs.of("multitask"))


def _in_order(first: Models, second: Models) -> Rows:
    """Compare each pair of models in the second training: the one ahead in the first minus the other.

    A pair counts against the claim only if its order is significant in both.
    """
    rows = []
    for pair in itertools.combinations([name for name in first if name in second], 2):
        better, worse = sorted(pair, key=lambda name: score(first[name]).value)
        name = f"{_title(better)} before {_title(worse)}"
        gap, test = average(second[better]) - average(second[worse]), None
        order = less(name, gap.estimate)
        if order.side == AGAINST:
            lead = (average(first[better]) - average(first[worse])).estimate
            test = replace(order, p=max(order.p, 2 * lead.below()))
        rows.append(Part(name, gap, {"pair": name}, test=test))
    return rows


def recurrent_better(runs: Runs) -> Rows:
    """Each model's recurrent network against its standard one."""
    return _gains(runs, "multitask", "standard")


def gru_effective(runs: Runs) -> Rows:
    """Each model with the GRU against itself without."""
    return _gains(runs, "multitask", "no-gru")


def _gains(runs: Runs, first: str, second: str) -> Rows:
    """Each model's error in one training against its error in another."""
    one, other = runs.of(first), runs.of(second)
    both = [name for name in one if name in other]
    return [Part(_title(name), _gain(one, other, name), {"model": _title(name)}) for name in both]


def amplifies(runs: Runs) -> Rows:
    """PNA's lead over each other model with multi-task training against that with single tasks."""
    one, other = runs.of("multitask"), runs.of("single-task")
    both = {name: run for name, run in one.items() if name in other}
    return [
        Part(_title(name), _gain(one, other, "pna") - _gain(one, other, name), {"model": _title(name)})
        for name, _ in _others(both, "pna")
    ]


def no_scalers_benefit(runs: Runs) -> Rows:
    """The gain from multi-task training: each model without scaler or sum against each with one."""
    return _gain_more(runs, "single-task", _NOT_COUNTING)


def overfits(runs: Runs) -> Rows:
    """How far the validation loss is above the training loss: each smaller model against each larger one."""
    models = runs.of("single-task")
    smaller = [name for name in models if name in _SMALLER]
    larger = [name for name in models if name not in _SMALLER]
    return [
        Part(
            f"{_title(a)} against {_title(b)}",
            by_task(models[a], _gaps(models[a])) - by_task(models[b], _gaps(models[b])),
            {"model": _title(a), "other": _title(b)},
        )
        for a, b in itertools.product(smaller, larger)
    ]


_SMALLER = ("gat", "gcn", "gin")  # by parameters; PNA, its variant and the MPNNs have more


def _gaps(run: RecordedRun) -> NDArray[np.float64]:
    """log10 of validation over training loss where the validation loss is least, [S, 6], for networks of one task.

    The training loss is that of the nearest epoch of the recorded curve, which is thinned.
    """
    seeds, gaps = run.result.configuration["seeds"], np.full((len(run.validation), len(TASKS)), np.nan)
    names = [task.name for task in TASKS]
    for replica in run.result.replicas:
        point = min(replica.curve, key=lambda point: (point[1] is None, abs(point[0] - replica.best_epoch)))
        loss = point[1]
        if loss and replica.validation:
            gaps[seeds.index(replica.seed), names.index(replica.task)] = math.log10(replica.validation / loss)
    return gaps


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
    return [
        Part(
            f"{_title(a)} against {_title(b)}",
            _gain(one, other, a) - _gain(one, other, b),
            {"model": _title(a), "other": _title(b)},
        )
        for a, b in pairs
    ]


def _gain(one: Models, other: Models, name: str) -> Contrast:
    """A model's error in one training minus its error in the other."""
    return average(one[name]) - average(other[name])


def not_parameters(runs: Runs) -> Rows:
    """PNA with 16 features against each other model with 20."""
    pna, others = runs.of("multitask").get("pna"), runs.of("multitask", 20)
    return [
        Part(f"{_title(name)} (20)", average(pna) - average(run), {"model": _title(name)})
        for name, run in others.items()
        if pna
    ]


def no_boost(runs: Runs) -> Rows:
    """Each model with 16 features against itself with 20, which may be better by no more than the margin."""
    small, large = runs.of("multitask"), runs.of("multitask", 20)
    return [
        Part(_title(name), average(small[name]) - average(large[name]), {"model": _title(name)}, MARGIN)
        for name in large
        if name in small
    ]
