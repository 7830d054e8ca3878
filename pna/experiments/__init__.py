"""The study: cells, profiles, what each figure needs, and the trainings of both benchmarks."""

from pna.departures import SPECS
from pna.experiments.cells import TRAININGS, Cell, Profile
from pna.experiments.multitask import PROFILES, MultiTaskRun
from pna.experiments.plan import planned_cells
from pna.experiments.realworld import Figure6Run
from pna.experiments.tables import (
    EVERY_SPEC,
    EXPERIMENTS,
    PROFILE_NAMES,
    Experiment,
    all_cells,
    budgets,
    fullest,
    most_recorded,
    profile_named,
    profile_of,
    run_of,
)

__all__ = [
    "EVERY_SPEC",
    "EXPERIMENTS",
    "PROFILES",
    "PROFILE_NAMES",
    "SPECS",
    "TRAININGS",
    "Cell",
    "Experiment",
    "Figure6Run",
    "MultiTaskRun",
    "Profile",
    "all_cells",
    "budgets",
    "fullest",
    "most_recorded",
    "planned_cells",
    "profile_named",
    "profile_of",
    "run_of",
]
