"""Section 4 put to the test: every model tuned with the same budget, beside one common setting and the paper.

The search (pna/experiments/tuning.py) sees the validation set alone. The runs that are compared here have new seeds,
and hyper-parameters close to the best of the search. All five tests were stated in report/plan.py before the runs, that
of dropout later than the others.
"""

from collections.abc import Callable, Sequence
from functools import partial

from markupsafe import Markup

from pna.experiments import SPECS, Cell
from pna.figures import published
from pna.figures.runs import RECORDED, RecordedRun
from pna.figures.scores import SHOWN, score, sizes_of, wider_split
from pna.networks import MODELS
from pna.verdicts.contrasts import Contrast, mean_contrast
from pna.verdicts.rules import Ruling, number
from report.comparisons import MARGIN, like_published_average
from report.markup import blocks, estimate, in_words, listed, table
from report.outcomes import MISSING, Models, Outcome, by_spec, leads, outcome_table, ruling, run_of_plan
from report.parts import Part, average, ratio
from report.plan import ADDED, SEVEN, NewTest

__all__ = ["answer", "averages", "outcome_with_dropout", "outcomes", "section"]


def _error(run: RecordedRun, _: object = None) -> Contrast:
    """Mean log10 MSE over the six tasks on graphs of 15 to 24 nodes."""
    return average(run, wider_split(run))


def _best(tuned: Models, untuned: Models) -> Ruling:
    """Whether the tuned PNA leads every other tuned model."""
    return leads(tuned, _error, {"test": None})


def _published(tuned: Models, untuned: Models) -> Ruling:
    """Whether each tuned average is the published one, to a factor of two."""
    return ruling([like_published_average(run) for run in tuned.values()], ("model",))


def _gains(tuned: Models, untuned: Models) -> list[Part]:
    """How much tuning lowers each model's error; it should be less than MARGIN."""
    return [Part(run.title, _error(untuned[model]) - _error(run), bound=MARGIN) for model, run in tuned.items()]


def _gain(tuned: Models, untuned: Models) -> Ruling:
    """Whether tuning lowers the error by less than MARGIN, mean over the models."""
    return ruling(_gains(tuned, untuned))


def _extrapolates(tuned: Models, untuned: Models) -> Ruling:
    """Whether the tuned PNA leads every other tuned model on figure 5's sizes, mean over these."""
    return leads(tuned, ratio, dict(list(sizes_of(tuned["pna"]).items())[:SHOWN]))


TESTS: dict[str, Callable[[Models, Models], Ruling]] = {
    "tuned-best": _best,
    "tuned-gain": _gain,
    "tuned-extrapolates": _extrapolates,
    "tuned-published": _published,
}
"""The planned tests of tuned runs, by their names in the plan, in the order in which they are shown."""


def outcomes(profile: str = RECORDED) -> list[Outcome]:
    """The outcome of every planned test of tuned runs, under each specification that it names."""
    return by_spec(TESTS, partial(_outcome, profile))


def outcome_with_dropout(profile: str = RECORDED) -> Outcome:
    """The outcome of the test that was added: tuned runs with the best rate of dropout."""
    runs = _models("tuned-dropout", "described", profile)
    missing = tuple(cell for cell, model in zip(ADDED.cells, SEVEN, strict=True) if model not in runs)
    return Outcome(ADDED, "described", MISSING if missing else _best(runs, {}), missing)


def _outcome(profile: str, test: NewTest, spec: str) -> Outcome:
    """The outcome of one planned test under one specification; without a run that it needs, which cells are missing."""
    tuned, untuned = (_models(training, spec, profile) for training in ("tuned", "multitask"))
    missing = tuple(
        f"{training}/{spec}/{model}/16"
        for training, runs in (("tuned", tuned), ("multitask", untuned))
        for model in SEVEN
        if model not in runs
    )
    return Outcome(test, spec, MISSING, missing) if missing else Outcome(test, spec, TESTS[test.id](tuned, untuned))


def _models(training: str, spec: str, profile: str) -> Models:
    """The recorded runs of the seven models, by model; those with dropout are not in results/plan.json."""
    budget = "paper" if (training, profile) == ("tuned-dropout", RECORDED) else profile
    runs = {model: run_of_plan(Cell(training, spec, model, "16"), budget) for model in SEVEN}
    return {model: run for model, run in runs.items() if run}


# ---- as text ----


def answer(profile: str) -> str:
    """Whether PNA still leads when every model is tuned, in a sentence; then its leads, and what tuning gains."""
    planned = [row for row in outcomes(profile) if row.test.id == "tuned-best" and not row.missing]
    if not planned:
        return ""
    dropped = outcome_with_dropout(profile)
    rows = planned if dropped.missing else [*planned, dropped]
    led = [_run_as(row) for row in rows if row.ruling.kind == "reproduced"]
    lost = [_run_as(row) for row in rows if row.ruling.kind != "reproduced"]
    still = [f"PNA still leads {listed(led)}"] if led else []
    no_longer = [f"PNA no longer leads every model {listed(lost)}"] if lost else []
    gain = listed([_mean_gain(row, profile) for row in planned])
    return (
        "With every model tuned with the same budget (section 4: 64 draws of learning rate and weight decay each), "
        f"{'; '.join(still + no_longer)}. {_leads(rows, profile)} "
        f"On average over the models, tuning lowers the mean log₁₀ MSE by {gain}."
    )


def _run_as(row: Outcome) -> str:
    """How the runs of an outcome were made."""
    return f"as {row.spec}{' with dropout tuned as well' if row.test is ADDED else ''}"


def _leads(rows: Sequence[Outcome], profile: str) -> str:
    """PNA's lead over the best other model in the runs of each outcome, as a sentence; a model is named once."""
    leads: dict[str, list[str]] = {}
    for row in rows:
        model, lead = _lead(row, profile)
        leads.setdefault(model, []).append(f"{lead} {_run_as(row)}")
    others = listed([f"the best other model, {model}, by {listed(numbers)}" for model, numbers in leads.items()])
    return f"In mean log₁₀ MSE it leads {others}."


def _lead(row: Outcome, profile: str) -> tuple[str, str]:
    """The best other model in the runs of an outcome, and PNA's lead over it."""
    runs = _models("tuned-dropout" if row.test is ADDED else "tuned", row.spec, profile)
    errors = {model: _error(run) for model, run in runs.items()}
    second = min(SEVEN[1:], key=lambda model: errors[model].estimate.value)
    return runs[second].title, in_words((errors[second] - errors["pna"]).estimate)


def _mean_gain(row: Outcome, profile: str) -> str:
    """How much tuning lowers the error under the specification of an outcome, mean over the models."""
    gains = _gains(*(_models(training, row.spec, profile) for training in ("tuned", "multitask")))
    return f"{in_words(mean_contrast(part.contrast for part in gains).estimate)} as {row.spec}"


# ---- as tables ----


_COLUMNS = {"multitask": "", "tuned": ", tuned", "tuned-dropout": ", with dropout"}


def averages(profile: str, intervals: bool = False) -> Markup | str:
    """Each model's average: published, with one setting for all models, and tuned; empty if nothing is tuned."""
    columns = {
        (spec, training): runs
        for spec in reversed(SPECS)
        for training in _COLUMNS
        if len(runs := _models(training, spec, profile)) == len(SEVEN)
    }
    if not any(training == "tuned" for _, training in columns):
        return ""
    rows = []
    for model in SEVEN:
        ours = (score(runs[model], wider_split(runs[model])) for runs in columns.values())
        cells = (estimate(one) if intervals else number(one.value) for one in ours)
        rows.append((MODELS[model].title, number(published.multitask()[model]["average"]), *cells))
    header = ("model", "published", *(f"{spec}{_COLUMNS[training]}" for spec, training in columns))
    caption = (
        "Mean log10 MSE over the six tasks: with one setting for all models, and with every model tuned with the same "
        "budget (section 4)"
    )
    return table(header, rows, caption)


def section(profile: str) -> Markup:
    """The section below the searches: the answer, the averages and the planned tests."""
    rows = [*outcomes(profile), outcome_with_dropout(profile)]
    missing = list(dict.fromkeys(cell for row in rows for cell in row.missing))
    waiting = f"Not recorded yet: {', '.join(missing)}." if missing else ""
    caption = "Planned tests of tuned runs, stated before the runs; below zero, PNA is better, or tuning is worse"
    tests = outcome_table(rows, caption)
    return blocks(answer(profile), averages(profile, intervals=True), tests, waiting, _dropout_table(profile))


def _dropout_table(profile: str) -> Markup | str:
    """What dropout adds to the tuned runs as described, a row for each model; empty as long as a run is missing."""
    tuned, dropped = (_models(training, "described", profile) for training in ("tuned", "tuned-dropout"))
    if len(tuned) < len(SEVEN) or len(dropped) < len(SEVEN):
        return ""
    rows = [
        (
            MODELS[model].title,
            f"{dropped[model].result.configuration['dropout'][0]:g}",
            estimate((_error(tuned[model]) - _error(dropped[model])).estimate),
        )
        for model in SEVEN
    ]
    caption = (
        "Dropout of the convolutions' output, before the GRU, as described: the rate with the lowest validation loss, "
        "and how much lower the mean log10 MSE is with it than in the tuned runs without dropout. This has no verdict"
    )
    return table(("model", "rate", "gain over tuned"), rows, caption)
