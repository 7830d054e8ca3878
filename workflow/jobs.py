"""What is left to train, and how it is divided into jobs."""

from collections.abc import Iterable

from pna.experiments import EXPERIMENTS, PROFILES, SPECS, Cell, budgets, profile_of, run_of
from pna.experiments.side_by_side import ON_A_GPU, batches
from pna.figures.catalogue import TEACHING
from pna.places import results_folder
from pna.training.run import Run

__all__ = ["cells_of", "divide", "has_fuller", "missing"]

SMOKE = 8  # cells in a job of the smoke profile, whose trainings take less time than their start
JOB = 20.0  # the cost of a Slurm job: about twenty minutes of an H200


def cells_of(name: str, profile: str) -> list[Cell]:
    """The cells that a figure is drawn from, under both specifications, or that a lesson is about."""
    if name in TEACHING:
        return [Cell.parse(cell) for cell in TEACHING[name].cells]
    return [cell for spec in SPECS for cell in EXPERIMENTS[name].cells(spec, profile)] if name in EXPERIMENTS else []


def missing(names: Iterable[str], profile: str, or_fuller: bool = False) -> list[Run]:
    """The runs behind these notebooks that are not recorded with the present data; those without data are left out.

    With `or_fuller`, a cell that is recorded at a fuller budget is not missing.
    """
    cells = dict.fromkeys(cell for name in names for cell in cells_of(name, profile))
    runs = (run_of(cell, profile_of(cell, profile)) for cell in cells)
    absent = [run for run in runs if run.ready and not run.recorded]
    return [run for run in absent if not (or_fuller and has_fuller(run))]


def has_fuller(run: Run) -> bool:
    """Whether the run's cell is recorded at a fuller budget."""
    fuller = (p for p in budgets(results_folder(), run.cell) if p.thinness < run.profile.thinness)
    return any(run_of(run.cell, profile).recorded for profile in fuller)


def divide(cells: Iterable[Cell], profile: str, most: int | None, shared: bool) -> list[list[Cell]]:
    """The cells of each job: at most `most`; by default one or, if jobs are `shared`, as many as their costs allow."""
    if most or profile == "smoke":
        return batches(cells, most or SMOKE, float("inf"))
    share = PROFILES[profile].epochs / PROFILES["paper"].epochs
    return batches(cells, ON_A_GPU if shared else 1, JOB / share)
