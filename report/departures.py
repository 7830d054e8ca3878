"""The effect of each departure of the released code alone: a model with it minus the same model without."""

from dataclasses import replace

from markupsafe import Markup

from pna.departures import DEPARTURES, SPECS, Departure
from pna.experiments import EXPERIMENTS, PROFILES, TRAININGS, Cell, all_cells
from pna.figures.runs import RecordedRun, recorded_run
from pna.figures.scores import SHOWN, by_seed, mean_score, score, sizes_of, wider_split
from pna.networks import MODELS
from pna.verdicts.rules import Comparison, Decision, less, rule
from pna.verdicts.statistics import Estimate
from report import tuned
from report.markup import p_value, table

__all__ = ["departures", "effect", "effects"]

_PROFILES = (PROFILES["planned"], PROFILES["paper"])
_START = 10_001  # the validation loss that the released code starts from (D16)


def departures() -> Markup:
    """Where the released code departs from the paper, and what each departure alone does to each model."""
    decisions = effects()
    rows = [(d.id, d.described, d.released, _effect_text(d, decisions)) for d in DEPARTURES]
    header = ("departure", "described", "released", "effect on mean log10 MSE, with p")
    caption = (
        "Mean log10 MSE of a model with one departure minus that of the same model as described, with its 95 % "
        "interval; above zero, the departure makes the task harder or the model worse. The test graphs have 15 to 24 "
        f'nodes; for extrapolation and depth it is the mean over the {SHOWN} sizes of figure 5. "From released" is '
        "released minus released without the departure. p is corrected by Holm's method over the "
        f"{len(decisions)} comparisons of this table"
    )
    return table(header, rows, caption)


def effects() -> dict[Cell, Decision]:
    """The effect of the departure of each recorded cell of the experiment, corrected for their number."""
    comparisons = {cell: one for cell in _cells() if (one := _comparison(cell)) is not None}
    return dict(zip(comparisons, rule(comparisons.values()).rows, strict=True))


def effect(one: RecordedRun, other: RecordedRun) -> Estimate:
    """One run's average minus another's on equal test sizes, whatever D3 says: 15 to 24 nodes, or those of figure 5."""
    return _average(one) - _average(other)


def _average(run: RecordedRun) -> Estimate:
    """A run's average on the test sizes that all specifications share: 15 to 24 nodes, or the mean over figure 5's."""
    if TRAININGS[run.cell.training].collection == "multitask":
        return score(run, wider_split(run))
    splits = list(sizes_of(run).values())[:SHOWN]
    return mean_score(run, sum(by_seed(run, split) for split in splits) / len(splits))


def _cells() -> list[Cell]:
    """Every cell of the experiment on single departures."""
    experiment = EXPERIMENTS["departures"]
    return [cell for spec in experiment.specs for cell in experiment.cells(spec)]


def _comparison(cell: Cell) -> Comparison | None:
    """A cell with one departure against described; for released without one, such as released-D11, released against it.

    None if one of the two is not recorded.
    """
    less_one = cell.spec.startswith("released-")
    whole = replace(cell, spec="released" if less_one else "described")
    pair = (whole, cell) if less_one else (cell, whole)
    for profile in _PROFILES:  # both with the plan's seeds, or both with the first ones
        one, other = (recorded_run(member, profile) for member in pair)
        if one and other:
            return less(_name(cell), effect(one, other))
    return None


def _name(cell: Cell) -> str:
    """A cell in words, as in "PNA, extrapolation, from released": model, training and starting point."""
    where = "" if cell.training == "multitask" else f", {cell.training}"
    return MODELS[cell.model].title + where + ", from released" * cell.spec.startswith("released-")


def _effect_text(departure: Departure, decisions: dict[Cell, Decision]) -> str:
    """The effect on each model with its interval, one line each; or why there is none."""
    if departure.part == "protocol":
        return _tuning()
    if departure.id == "D16":
        return _above_the_start()
    if departure.part == "none":
        return "changes no network of the paper"
    if departure.part == "baseline":
        return "changes the baseline only, no network"
    lines = []
    for cell in (cell for cell in _cells() if cell.spec.removeprefix("released-") == departure.id):
        row = decisions.get(cell)
        lines.append(f"{row.comparison}, p {_sign(row.p)}" if row else f"{_name(cell)}: not run yet")
    return Markup("<br>").join(lines + ([_bound()] if departure.id == "D13" else []))


def _tuning() -> str:
    """What tuning changes on the mean over the models, under each specification that has the runs."""
    gains = [row for row in tuned.outcomes() if row.test.id == "tuned-gain" and not row.missing]
    if not gains:
        return "not measured yet: the tuned runs are not recorded"
    return "; ".join(f"one setting minus tuned, as {row.spec}: {row.ruling.tests[0].comparison}" for row in gains)


def _sign(p: float) -> str:
    """A p-value with its relation sign, "= 0.012" or "< 0.001", to follow the letter p."""
    return text if (text := p_value(p)).startswith("<") else f"= {text}"


def _above_the_start() -> str:
    """A sentence that counts the replicas whose validation loss never falls below D16's 10,001, by specification."""
    counts = []
    for spec in SPECS:
        runs = [run for cell in all_cells((spec,)) if cell.training in TRAININGS and (run := _fullest(cell))]
        replicas = [replica for run in runs for replica in run.result.replicas]
        above = sum(replica.validation is None or replica.validation > _START for replica in replicas)
        counts.append(f"{above:,} of {len(replicas):,} replicas as {spec}")
    return f"validation loss always above 10,001, in the newest seeds of each cell: {', '.join(counts)}"


def _fullest(cell: Cell) -> RecordedRun | None:
    """The run of a cell with the plan's seeds, or else with the first ones."""
    return next((run for profile in _PROFILES if (run := recorded_run(cell, profile))), None)


def _bound() -> str:
    """A sentence that counts the cells that D13 leaves unchanged, because none of their runs diverged."""
    runs = [run for cell in all_cells(("described",)) if (run := _fullest(cell))]
    same = sum(not run.diverged for run in runs)
    return f"exactly 0 where no run as described diverged: {same} of {len(runs)} cells"
