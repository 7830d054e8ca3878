"""The recorded trainings of both benchmarks. A comparison is made within one budget, never across two."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pna.experiments import EXPERIMENTS, PROFILES, SPECS, Cell, Profile, budgets, most_recorded, profile_named, run_of
from pna.experiments.figure6 import TITLES
from pna.files import hash_of
from pna.multitask import RELEASED_MAXIMA, TASKS
from pna.networks import MODELS
from pna.places import results_folder
from pna.realworld.data.datasets import OFFICIAL, RECOMPUTED, training_set
from pna.training.store import ReplicaResult, Result, load

__all__ = ["RECORDED", "Curve", "RecordedRun", "Runs", "made_with", "profile_named", "recorded_path", "recorded_run"]
__all__ += ["runs_of", "seeds_text", "specs_of"]

RECORDED = "recorded"  # in place of a profile: the fullest budget recorded for all cells of the figure


@dataclass(frozen=True)
class Curve:
    """A replica's loss over epochs, thinned, with its best and its last epoch.

    The loss is the validation loss or, where the schedule watches a metric (minus the ROC-AUC), the training loss.
    """

    seed: int
    task: str | None
    points: tuple[tuple[int, float | None], ...]  # (epoch, loss)
    best_epoch: int
    best_loss: float | None
    last_epoch: int

    @classmethod
    def of(cls, replica: ReplicaResult) -> "Curve":
        """Create the curve of one replica of a result."""
        watched = 2 if all(point[2] is None or point[2] > 0 for point in replica.curve) else 1
        points = tuple((point[0], point[watched]) for point in replica.curve)
        near = min(points, key=lambda point: abs(point[0] - replica.best_epoch), default=(0, None))[1]
        exact = watched == 2 and all(len(point) == 3 for point in replica.curve)  # else `validation` is a metric
        best = replica.validation if exact else near
        return cls(replica.seed, replica.task, points, replica.best_epoch, best, replica.epochs)


def made_with(result: Result) -> dict[str, str]:
    """The device, versions and commit behind a result; the code's hash where the commit is not known."""
    versions = ", ".join(f"{name} {value}" for name, value in sorted(result.versions.items()))
    commit = result.commit[:12] if result.commit else f"code {result.code[:12]}"
    return {"device": result.device, "versions": versions, "commit": commit}


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """A recorded cell of either benchmark.

    Arrays, which only the multi-task benchmark has, have a row per seed and a column per task.
    """

    cell: Cell
    profile: Profile
    result: Result

    @property
    def title(self) -> str:
        """The model's name in the paper."""
        return MODELS[self.cell.model].title if self.cell.model in MODELS else TITLES[self.cell.model]

    @property
    def file(self) -> str:
        """Path of the run's result under results/."""
        return f"{self.profile.name}/{self.cell.place}"

    @cached_property
    def outdated(self) -> bool:
        """Whether the recorded configuration differs from the present one, apart from the seeds."""
        now = run_of(self.cell, self.profile).configuration
        return hash_of(now | {"seeds": 0}) != hash_of(self.result.configuration | {"seeds": 0})

    @property
    def full(self) -> bool:
        """Whether the run has at least the paper's budget and the present configuration."""
        return self.profile.full and not self.outdated

    @property
    def data(self) -> tuple[str, str]:
        """The training set of a real-world cell: only runs on the same one are compared."""
        data = self.result.facts["data"]
        return training_set(self.cell.training, data), data.get("sha256", "")

    @property
    def official(self) -> bool:
        """Whether the training set of a real-world cell holds the published molecules or images."""
        return self.data[0] in (OFFICIAL, RECOMPUTED)

    @cached_property
    def validation(self) -> NDArray[np.float64]:
        """The least validation error of the training behind each test error, [S, 6]; infinite if it diverged."""
        return self._by_seed(lambda replica, task: replica.validation)

    def errors(self, split: str) -> NDArray[np.float64]:
        """MSE on a test set, [S, 6], in units of the released training set's maxima.

        An error that overflowed counts as the largest number of float32: far off, and still a number to compare.
        """
        errors = self._by_seed(lambda replica, task: replica.test[split][task])
        return np.minimum(errors, np.finfo(np.float32).max) * self._units**2

    def baseline(self, split: str) -> NDArray[np.float64]:
        """MSE of predicting the training mean, [6], in the units of `errors`; 0 (null in the file) if it is exact."""
        row = [self.result.facts["baseline"][split][task.name] for task in TASKS]
        return np.array([0.0 if value is None else 10**value for value in row]) * self._units**2

    @property
    def splits(self) -> tuple[str, ...]:
        """The test sets, in the order in which they were recorded."""
        return tuple(self.result.facts["baseline"])

    @property
    def diverged(self) -> str:
        """The number of replicas that ended because their loss was no longer finite, as 6 of 10; "" if none did."""
        count = sum(replica.diverged for replica in self.result.replicas)
        return f"{count} of {len(self.result.replicas)}" if count else ""

    @property
    def curves(self) -> list[Curve]:
        """The learning curve of each replica."""
        return [Curve.of(replica) for replica in self.result.replicas]

    @property
    def _units(self) -> NDArray[np.float64]:
        """Maxima of this run's training labels relative to those of the released training set, [6]."""
        return np.array(self.result.facts["maxima"]) / RELEASED_MAXIMA

    def _by_seed(self, value: Callable[[ReplicaResult, int], float | None]) -> NDArray[np.float64]:
        """Array [S, 6] of a value of every seed and task; infinite where it is missing or None."""
        seeds = self.result.configuration["seeds"]
        array = np.full((len(seeds), len(TASKS)), np.inf)
        for replica in self.result.replicas:
            row = seeds.index(replica.seed)
            for column, task in enumerate(TASKS):
                if replica.task in (None, task.name):
                    number = value(replica, column)
                    array[row, column] = np.inf if number is None else number
        return array


@dataclass(frozen=True)
class Runs:
    """The recorded runs of an experiment under one specification and one budget."""

    experiment: str
    spec: str
    profile: Profile
    recorded: dict[Cell, RecordedRun]
    missing: tuple[Cell, ...]

    @property
    def full(self) -> bool:
        """Whether every cell is recorded at the paper's budget, or with more seeds, as planned."""
        return self.profile.full and not self.missing

    @property
    def diverged(self) -> str:
        """The runs that ended early because their loss was no longer finite, as a remark; "" if none did."""
        ended = [
            f"{run.title} ({cell.training}, {cell.hidden}) {run.diverged}"
            for cell, run in self.recorded.items()
            if run.diverged
        ]
        return f"; runs that ended early because their loss was no longer finite: {', '.join(ended)}" if ended else ""

    def of(self, training: str, hidden: int = 16) -> dict[str, RecordedRun]:
        """The runs of one training and hidden size, by model."""
        return {
            cell.model: run
            for cell, run in self.recorded.items()
            if training in cell.trainings and cell.hidden == hidden
        }


def seeds_text(runs: Iterable[RecordedRun]) -> str:
    """The numbers of seeds behind runs, as "10 seeds" or "4 to 16 seeds"; empty without runs."""
    counts = sorted({len(run.result.configuration["seeds"]) for run in runs})
    return f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} seeds" if counts else ""


def specs_of(spec: str) -> tuple[str, ...]:
    """The specifications to draw a figure for: both, or one."""
    if spec not in (*SPECS, "both"):
        raise ValueError(f"spec must be both, {' or '.join(SPECS)}; got {spec!r}")
    return SPECS if spec == "both" else (spec,)


def recorded_path(cell: Cell, profile: Profile) -> Path:
    """The absolute path of a cell's result."""
    return results_folder() / profile.name / cell.place


def runs_of(experiment: str, spec: str, profile: str = RECORDED) -> Runs:
    """Read the recorded runs of an experiment under a profile; by default, under the fullest that has all its cells.

    If no profile has all of them, the one with the most cells is used, and the fuller of two with equally many.
    """
    if experiment not in EXPERIMENTS:
        raise ValueError(f"experiment must be one of {', '.join(EXPERIMENTS)}; got {experiment!r}")
    candidates = budgets(results_folder()) or [PROFILES["paper"]] if profile == RECORDED else [profile_named(profile)]
    cells = EXPERIMENTS[experiment].cells
    tries = {one: _runs(experiment, spec, cells(spec, one.name), one) for one in candidates}
    return tries[most_recorded(tries, lambda profile: len(tries[profile].recorded))]


def _runs(experiment: str, spec: str, cells: Iterable[Cell], profile: Profile) -> Runs:
    """Read the cells of an experiment under a profile, and list those that are missing."""
    runs = {cell: recorded_run(cell, profile) for cell in cells}
    recorded = {cell: run for cell, run in runs.items() if run}
    return Runs(experiment, spec, profile, recorded, tuple(cell for cell in runs if cell not in recorded))


def recorded_run(cell: Cell, profile: Profile, of_any_configuration: bool = False) -> RecordedRun | None:
    """Read a recorded cell; None if it is missing or, by default, was recorded with another configuration or seeds."""
    path = recorded_path(cell, profile)
    if not path.exists():
        return None
    run, current = _read(cell, profile, path, path.stat().st_mtime_ns)
    return run if current or of_any_configuration else None


@lru_cache(maxsize=512)
def _read(cell: Cell, profile: Profile, path: Path, changed: int) -> tuple[RecordedRun, bool]:
    """Read a result, and tell whether its configuration is the present one.

    The result is cached: a file is read again only if `changed`, the time of its last change, is another.
    """
    result = load(path)
    return RecordedRun(cell, profile, result), result.hash == run_of(cell, profile).hash
