"""The report's section on graphs that the paper never saw: the planned tests on real and on redrawn test graphs.

Every test here was stated in report/plan.py before its runs. Everything else in the section (on which networks a model
fails, what its error grows with, the sentences for a practitioner) is description and decides nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup
from scipy.special import chdtri

from pna.experiments import SPECS, Cell
from pna.figures import published
from pna.figures.hubs import by_degree, recorded
from pna.figures.real import (
    CAP,
    HALF,
    NETWORKS,
    PREDICTORS,
    REDRAWN,
    WITHOUT_CONNECTED,
    Group,
    fails_on,
    groups,
    has_real,
    regression,
    relative,
    splits,
    trained_runs,
)
from pna.figures.runs import RECORDED, RecordedRun
from pna.figures.scores import SPLIT, by_seed, score
from pna.multitask import TASKS
from pna.multitask.hubs import BINS
from pna.verdicts.contrasts import Contrast, mean_contrast
from pna.verdicts.rules import Ruling, rule, same
from report.comparisons import MARGIN, TOLERANCE, with_error_of
from report.guidance import meanings, practice, scaler_table, trained_table
from report.markup import estimate, render, table
from report.outcomes import MISSING, Models, Outcome, by_spec, leads, outcome_table, ruling, run_of_plan
from report.parts import Part, average, by_task
from report.plan import NEW_TESTS, SEVEN, NewTest

__all__ = ["outcomes", "section", "spread"]

HEAVY = ("internet", "enron", "pgp", "metabolism", "phenotypes")
EVEN = ("grid", "roads")


# ---- measures ----


def _five(run: RecordedRun, group: Group) -> Contrast:
    """Mean log10 MSE over five tasks on a group of real graphs, with the paper's depth."""
    return by_task(run, by_seed(run, f"{HALF}/{group.name}")[:, WITHOUT_CONNECTED])


def _by_name(rows: Sequence[Group]) -> dict[str, object]:
    """The groups by their names: the form in which `leads` takes its test sets."""
    return {group.name: group for group in rows}


# ---- tests ----


def _real_small(runs: Models) -> Ruling:
    """Whether PNA leads every other model on real graphs of 15 to 24 nodes, mean over their groups."""
    return leads(runs, _five, _by_name(groups("small")))


def _real_large(runs: Models) -> Ruling:
    """Whether PNA leads every other model on real graphs of 25 to 100 nodes, mean over their groups."""
    return leads(runs, _five, _by_name(groups("large")))


def _real_tails(runs: Models) -> Ruling:
    """Whether scalers help PNA more on networks with heavy-tailed degrees than on those with even degrees."""

    def gain(networks: Sequence[str]) -> Contrast:
        rows = groups("small", networks)
        return mean_contrast(_five(runs["pna"], group) - _five(runs["pna-no-scalers"], group) for group in rows)

    return ruling([Part("heavy tails minus even degrees", gain(HEAVY) - gain(EVEN))])


def _redrawn_lead(runs: Models) -> Ruling:
    """Whether PNA leads every other model on the six tasks, mean over the redrawn test sets."""
    return leads(runs, average, {split: split for split in REDRAWN})


@dataclass(frozen=True)
class Spread:
    """The standard deviation of a model's average over redrawn test sets: root mean square over models, bounds.

    `by_model` has each model's own, by title.
    """

    value: float
    lower: float
    upper: float
    by_model: dict[str, float]


def spread(runs: Models) -> Spread:
    """The spread of the models' averages over the redrawn test sets, with bounds of 95 % on either side.

    All models are tested on the same five sets and share their easy and hard graphs. The bounds therefore have the four
    degrees of freedom of five sets, however many models there are.
    """
    deviations = {
        run.title: float(np.std([score(run, split).value for split in REDRAWN], ddof=1)) for run in runs.values()
    }
    freedom = len(REDRAWN) - 1
    value = math.sqrt(np.mean(np.square(list(deviations.values()))))
    lower, upper = (value * math.sqrt(freedom / chdtri(freedom, tail)) for tail in (0.05, 0.95))
    return Spread(value, lower, upper, deviations)


def _redrawn_spread(runs: Models) -> Ruling:
    """Whether redrawing the test graphs changes a model's average by less than MARGIN, from the bounds of `spread`."""
    one = spread(runs)
    sides = {"reproduced": one.upper < MARGIN, "contradicted": one.lower > MARGIN, "undecided": True}
    words = {"reproduced": f"by less than {MARGIN}", "contradicted": f"by more than {MARGIN}"}
    kind = next(kind for kind, true in sides.items() if true)
    ends = (f"{one.by_model[model]:.3f} for {model}" for model in _least_and_most(one.by_model))
    text = f"standard deviation {one.value:.3f}, at most {one.upper:.3f} at 95 %; from {' to '.join(ends)}"
    return Ruling(kind, words.get(kind, kind), text)


def _least_and_most(deviations: dict[str, float]) -> tuple[str, str]:
    """The models with the smallest and the largest deviation."""
    return min(deviations, key=deviations.get), max(deviations, key=deviations.get)


def _redrawn_connected(runs: Models) -> Ruling:
    """Whether PNA's error on *connected*, mean over the redrawn test sets, matches the published one.

    The published number is taken to be as uncertain as one experiment of ours, with ten seeds.
    """
    task = [task.name for task in TASKS].index("connected")
    ours = mean_contrast(average(runs["pna"], split, task) for split in REDRAWN).estimate
    theirs = with_error_of(ours, published.multitask()["pna"]["connected"])
    return rule([same("PNA minus published", ours - theirs, TOLERANCE)])


# ---- trained on real subgraphs ----


def _real_training(runs: Models) -> Ruling:
    """Whether training on real subgraphs lowers the error on real graphs of 15 to 24 nodes, mean over the models."""
    rows = groups("small")
    parts = [
        Part(runs[model].title, mean_contrast(_five(runs[f"real {model}"], g) - _five(runs[model], g) for g in rows))
        for model in SEVEN
    ]
    return ruling(parts)


def _real_cost(runs: Models) -> Ruling:
    """Whether training on real subgraphs raises the error on random graphs by less than TOLERANCE, mean over models."""
    parts = [
        Part(runs[model].title, average(runs[f"real {model}"], SPLIT) - average(runs[model], SPLIT), bound=TOLERANCE)
        for model in SEVEN
    ]
    whole = ruling(parts)
    words = {"reproduced": f"less than {TOLERANCE}", "contradicted": f"more than {TOLERANCE}"}
    return replace(whole, word=words.get(whole.kind, whole.word))


def _real_best(runs: Models) -> Ruling:
    """Whether PNA leads every other model if all are trained on real subgraphs and tested on those of 15-24 nodes."""
    return leads({model: runs[f"real {model}"] for model in SEVEN}, _five, _by_name(groups("small")))


# ---- scalers beyond the degrees of training ----


SCALER_TESTS: dict[str, tuple[str, float]] = {
    "scalers-linear": ("linear", 0.0),
    "scalers-none": ("none", 0.0),
    "scalers-learned": ("learned", MARGIN),
}
"""The planned tests of logarithmic scalers: against which others, and below which bound."""


def _scaler_outcome(test: NewTest) -> Outcome:
    """The outcome of a planned test of scalers: logarithmic minus others, mean over the bins of degrees."""
    other, bound = SCALER_TESTS[test.id]
    missing = tuple(f"hubs/{name}" for name in ("logarithmic", other) if name not in recorded())
    if missing:
        return Outcome(test, "described", MISSING, missing)
    pairs = zip(BINS, by_degree("logarithmic"), by_degree(other), strict=True)
    parts = [Part(f"degrees {low} to {high}", ours - theirs, bound=bound) for (low, high), ours, theirs in pairs]
    return Outcome(test, "described", ruling(parts))


TESTS: dict[str, Callable[[Models], Ruling]] = {
    "real-small": _real_small,
    "real-large": _real_large,
    "real-tails": _real_tails,
    "redrawn-lead": _redrawn_lead,
    "redrawn-spread": _redrawn_spread,
    "redrawn-connected": _redrawn_connected,
    "real-training": _real_training,
    "real-cost": _real_cost,
    "real-best": _real_best,
}
"""The planned tests that are read here, by their names in the plan, in the order in which they are shown."""


def outcomes(profile: str = RECORDED) -> list[Outcome]:
    """The outcome of every planned test, under each specification that it names."""
    tests = {test.id: test for test in NEW_TESTS}
    rows = by_spec(TESTS, lambda test, spec: _outcome(test, spec, profile))
    return rows + [_scaler_outcome(tests[name]) for name in SCALER_TESTS]


def _outcome(test: NewTest, spec: str, profile: str) -> Outcome:
    """The outcome of one planned test under one specification; without a run that it needs, which cells are missing."""
    cells = [Cell.parse(cell) for cell in test.cells if f"/{spec}/" in cell]
    compared = [Cell("multitask", spec, cell.model, cell.variant) for cell in cells if cell.training == "real"]
    runs = {cell: _recorded(cell, profile) for cell in (*cells, *compared)}
    missing = tuple(str(cell) for cell, run in runs.items() if run is None)
    if missing:
        return Outcome(test, spec, MISSING, missing)
    named = {cell.model if cell.training == "multitask" else f"real {cell.model}": run for cell, run in runs.items()}
    return Outcome(test, spec, TESTS[test.id](named))


def _recorded(cell: Cell, profile: str) -> RecordedRun | None:
    """A recorded run of the plan, or of another profile, that is tested on real and on redrawn graphs."""
    run = run_of_plan(cell, profile)
    return run if run and has_real(run) and set(REDRAWN) <= set(run.splits) else None


# ---- as a section ----

_CAPTION = "Planned tests of runs beyond the paper, stated before the runs; below zero, the one named first is better"


def section(profile: str) -> Markup:
    """The section's HTML: outcomes of the planned tests, then a description of the errors under each specification."""
    rows = outcomes(profile)
    sides = {spec: models for spec in SPECS if (models := _models(spec, profile))}
    return render(
        "beyond",
        outcomes=outcome_table(rows, _CAPTION),
        missing=list(dict.fromkeys(cell for row in rows for cell in row.missing)),
        sides={spec: [_errors(models), _slopes(models)] for spec, models in sides.items()},
        meanings=meanings((row.test.id, row.test.question.replace("*", ""), row.spec, row.ruling.kind) for row in rows),
        practice=practice({(row.test.id, row.spec): row.ruling for row in rows}, sides),
        trained=trained_table(trained_runs(profile)),
        scalers=scaler_table(),
    )


def _models(spec: str, profile: str) -> Models:
    """The seven models of figure 4, if all of them are tested on real graphs; else none."""
    runs = {model: _recorded(Cell("multitask", spec, model, "16"), profile) for model in SEVEN}
    return runs if all(run and has_real(run, CAP) for run in runs.values()) else {}


def _errors(models: Models) -> Markup:
    """Each model's error relative to the baseline, and the networks on which it fails."""
    sides = (("small", HALF), ("large", HALF), ("large", CAP))
    rows = []
    for run in models.values():
        failed = [fails_on(run, size, rule) for size, rule in sides[1:]]
        scores = (estimate(relative(run, splits(size, rule))) for size, rule in sides)
        rows.append((run.title, *scores, *(", ".join(NETWORKS[name] for name in names) or "none" for names in failed)))
    header = ("model", "15-24 nodes", "25-100, ⌊N/2⌋", "25-100, at most 12", "worse than the baseline, ⌊N/2⌋")
    caption = (
        "log10 of MSE relative to the baseline's, mean over the test sets and over five tasks (all but connected). The "
        "last two columns name the networks on which a model is significantly worse than predicting the mean (Holm's "
        "correction over the twelve networks)"
    )
    return table((*header, "worse than the baseline, at most 12"), rows, caption)


def _slopes(models: Models) -> Markup:
    """What each model's error grows with, under both rules of depth."""
    rows = []
    for words, rule_of_depth in (("⌊N/2⌋", HALF), ("at most 12", CAP)):
        for run in models.values():
            fit = regression(run, rule_of_depth)
            cells = (estimate(fit.slopes[name], 2, f"{fit.shares[name]:.0%} of the variance") for name in PREDICTORS)
            rows.append((f"{run.title}, {words}", *cells, f"{fit.explained:.0%}"))
    caption = (
        "Least-squares fit over the test sets: how log10 of MSE relative to the baseline's changes if one predictor "
        "doubles and the others stay the same. Intervals are from a jackknife over the twelve networks. Below them: "
        "the share of the variance between test sets that no other predictor explains. Not planned, so a description"
    )
    return table(("model, layers", *PREDICTORS.values(), "explained by all"), rows, caption)
