"""What each departure of the released code does alone: a model with it minus the same model as described."""

from pna.departures import DEPARTURES
from pna.experiments import PROFILES, Cell
from pna.networks import MODELS
from pna.report.markup import Raw, escape, estimate, table
from pna.report.runs import Run, recorded_run
from pna.report.scores import score, wider_split
from pna.report.statistics import Estimate

__all__ = ["departures", "effect"]


def departures() -> str:
    """Where the released code departs from the paper, and what each departure alone does, where it has been run."""
    rows = [(d.id, d.described, d.released, _effects(d.id)) for d in DEPARTURES]
    header = ("departure", "described", "released", "effect on the average, log10 MSE")
    return table(header, rows, "Below zero: the departure makes the task easier or the model better")


def _effects(departure: str) -> Raw:
    """Each model with this departure alone against the same without any."""
    found = []
    for model in MODELS:
        one, other = (
            recorded_run(Cell("multitask", spec, model, "16"), PROFILES["paper"]) for spec in (departure, "described")
        )
        if one and other:
            found.append(f"{escape(MODELS[model].title)} {estimate(effect(one, other))}")
    return Raw("<br>".join(found) or "not run alone")


def effect(one: Run, other: Run) -> Estimate:
    """One run's average minus another's, both on test graphs of 15 to 24 nodes, whatever sizes D3 tests on."""
    return score(one, wider_split(one)) - score(other, wider_split(other))
