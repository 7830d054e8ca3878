"""A cell trained from its name: checkpoints, an end or a deadline, and its result."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from pna.files import hash_of, read_tensors, write_tensors
from pna.locks import remove_left_over
from pna.places import data_folder, results_folder, weights_folders
from pna.training.replicas import Replicas
from pna.training.store import ReplicaResult, Result, finite, load, provenance, save, thinned
from pna.training.trainer import Trainer

__all__ = ["Profile", "Progress", "Run"]

CHECKPOINT_SECONDS = 30.0  # the clock is read after every step


class Profile(Protocol):
    """A budget, by its name."""

    name: str


@dataclass(frozen=True)
class Progress:
    """How far a cell is, after each epoch."""

    epoch: int
    epochs: int
    running: int
    replicas: int
    best: float


class Run(ABC):
    """One cell under one profile on one device: a training that can stop at any step and go on later.

    A benchmark says what decides the result (`configuration`), how its replicas start (`fresh`) and are trained
    (`trainer`), and what they are tested on (`collections`, `test`).
    """

    trainer: Trainer
    columns: tuple[str, ...]  # the tensors of Replicas that make a point of the learning curve
    ships = True  # whether the best weights are kept beside the result, where `pna.load` finds them
    made: tuple[str, ...] = ()  # the collections of graphs that it needs and that are made once for all cells

    def __init__(self, cell: object, profile: Profile, device: str, dtype: torch.dtype) -> None:
        self.cell, self.profile, self.device, self.dtype = cell, profile, device, dtype
        self.replicas: Replicas | None = None
        self.curves: list[Tensor] = []  # an [R, columns] per epoch
        self.seconds = 0.0
        self.last_kept = True  # whether the replicas have their last weights: not if only the best were read

    # ---- what a benchmark says ----

    @property
    @abstractmethod
    def configuration(self) -> dict:
        """All that decides the result, as JSON."""

    @abstractmethod
    def fresh(self) -> Replicas:
        """The replicas before the first epoch."""

    @property
    @abstractmethod
    def collections(self) -> tuple[str, ...]:
        """What it is tested on."""

    @abstractmethod
    def test(self, collection: str) -> dict[str, Tensor]:
        """The errors on each test set of a collection, [R, tasks] by its name."""

    @abstractmethod
    def facts(self) -> dict:
        """What the benchmark has to say of a finished cell, as JSON."""

    @property
    def ready(self) -> bool:
        """Whether its data are here, or can be made."""
        return True

    def task_of(self, row: int) -> str | None:
        """The task of a replica, None for all."""
        return None

    def identity(self) -> dict[str, str]:
        """What a checkpoint must have in common with this run."""
        return {"hash": self.hash}

    def matches(self, result: Result) -> bool:
        """Whether a result is this run's."""
        return result.hash == self.hash

    @property
    def other_data(self) -> str | None:
        """What the result at its place was trained on, where other data than those are here."""
        return None

    @property
    def recorded(self) -> bool:
        """Whether there is a result of the data that are here; a run without one is missing."""
        return self.result.exists() and self.other_data is None

    def best(self) -> float:
        """The best of the replicas on validation so far, for the progress report."""
        return self.replicas.best_metric.min().item()

    # ---- names and places ----

    @property
    def hash(self) -> str:
        """Of the configuration."""
        return hash_of(self.configuration)

    @property
    def result(self) -> Path:
        """Where the result is kept."""
        return results_folder() / self.profile.name / self.cell.place

    @property
    def checkpoint(self) -> Path:
        """Where an unfinished training is kept."""
        return data_folder() / "runs" / self.profile.name / f"{str(self.cell).replace('/', '-')}.safetensors"

    @property
    def weights(self) -> Path:
        """Where the best weights of a finished training are kept, those of all replicas."""
        return data_folder() / "weights" / self.profile.name / f"{str(self.cell).replace('/', '-')}.safetensors"

    @property
    def shipped(self) -> Path:
        """Where the weights of the best replica are kept, beside the result."""
        return self.result.with_suffix(".safetensors")

    @property
    def kept(self) -> Path | None:
        """The best weights that are here: those of all replicas, or else of the best, also in an installed package."""
        best = (folder / self.profile.name / self.cell.place for folder in weights_folders())
        return next(
            (path for path in (self.weights, *(p.with_suffix(".safetensors") for p in best)) if path.exists()), None
        )

    # ---- training ----

    def train(
        self,
        deadline: float | None = None,
        report: Callable[[Progress], None] = lambda progress: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Trains on from the checkpoint, if there is one, until all is finished (True).

        Past the deadline, or when `stop`, which is asked after every step, says so, it ends with a checkpoint.
        """
        if self.checkpoint.exists():
            self._load()
        else:
            self.replicas = self.fresh()
        start = saved = time.monotonic()
        before = self.seconds
        for took_part in self.trainer.steps(self.replicas):
            now = time.monotonic()
            self.seconds = before + now - start
            if took_part is not None:
                self.curves.append(self._curve_point(took_part))
                report(self._progress(len(took_part)))
            if stop() or (deadline is not None and now >= deadline):
                self.save()
                return len(self.trainer.running(self.replicas)) == 0
            if now - saved >= CHECKPOINT_SECONDS:
                self.save()
                saved = time.monotonic()
        self.save()
        return True

    def _curve_point(self, took_part: Tensor) -> Tensor:
        numbers = torch.stack([getattr(self.replicas, name) for name in self.columns], dim=1)  # [R, columns]
        point = torch.full(numbers.shape, torch.nan)
        point[took_part.cpu()] = numbers[took_part].float().cpu()
        return point

    def _progress(self, running: int) -> Progress:
        return Progress(len(self.curves), self.trainer.settings.epochs, running, len(self.replicas), self.best())

    def save(self) -> None:
        """Writes the checkpoint."""
        self.trainer.sync()
        none_yet = torch.empty(0, len(self.replicas), len(self.columns))
        tensors = self.replicas.tensors() | {"curves": torch.stack(self.curves) if self.curves else none_yet}
        write_tensors(self.checkpoint, tensors, self.identity() | {"cell": str(self.cell), "seconds": self.seconds})

    def _load(self) -> None:
        tensors, facts = read_tensors(self.checkpoint)
        if any(facts.get(name) != value for name, value in self.identity().items()):
            raise ValueError(
                f"{self.checkpoint} is of another configuration or of other data ({facts.get('cell')}); it is left as "
                "it is: remove it to start anew, or ask for what it was started with"
            )
        try:
            self.curves = list(tensors.pop("curves"))
            self.replicas = Replicas(**{name: t.to(self.device) for name, t in tensors.items()})
        except (KeyError, TypeError) as error:
            raise ValueError(f"{self.checkpoint} does not hold what this version keeps ({error}); remove it") from error
        self.seconds = facts["seconds"]

    def forget(self) -> None:
        """Removes the checkpoint, and what a kill left beside it."""
        self.checkpoint.unlink(missing_ok=True)
        remove_left_over(self.checkpoint)

    # ---- the result ----

    def record(self) -> Path:
        """Tests a finished cell, then writes its best weights and its result; the checkpoint goes last."""
        r = self.replicas
        tests = {name: errors for collection in self.collections for name, errors in self.test(collection).items()}
        self.write_weights(self.weights, list(range(len(r))))
        if self.ships:
            self.write_weights(self.shipped, self.best_rows())
        curves = torch.stack(self.curves)  # [epochs, R, columns]
        result = Result(
            cell=str(self.cell),
            hash=self.hash,
            configuration=self.configuration,
            facts=self.facts(),
            seconds=round(self.seconds, 1),
            **provenance(r.theta.is_cuda),
            replicas=tuple(self._replica(row, tests, curves[:, row]) for row in range(len(r))),
        )
        save(self.result, result)
        self.forget()
        return self.result

    def best_rows(self) -> list[int]:
        """The replica that was best on validation or, where replicas have a task each, the best of each task."""
        rows = sorted(range(len(self.replicas)), key=lambda row: self.replicas.best[row].item())
        return sorted({self.task_of(row): row for row in reversed(rows)}.values())

    def write_weights(self, path: Path, rows: list[int]) -> None:
        """Of some replicas what is kept."""
        facts = {"hash": self.hash, "cell": str(self.cell), "rows": rows, "seeds": self.replicas.seed[rows].tolist()}
        write_tensors(path, {name: t[rows] for name, t in self.kept_tensors().items()}, facts)

    def kept_tensors(self) -> dict[str, Tensor]:
        """The best weights, and if a benchmark has use for them the last (last_theta, last_state)."""
        r = self.replicas
        return {"theta": r.best_theta, "state": r.best_state, "validation": r.best_metric}

    def _replica(self, row: int, tests: dict[str, Tensor], curve: Tensor) -> ReplicaResult:
        r = self.replicas
        epochs = int(r.epoch[row])
        return ReplicaResult(
            seed=int(r.seed[row]),
            task=self.task_of(row),
            epochs=epochs,
            best_epoch=int(r.best_epoch[row]),
            ended_by=self._ended_by(row),
            validation=finite(float(r.best_metric[row])),
            test=self.errors_of(row, tests),
            curve=thinned(curve[:epochs], len(r)),
        )

    def _ended_by(self, row: int) -> str:
        r = self.replicas
        if r.diverged[row]:
            return "divergence"
        if self.trainer.out_of_patience(r)[row]:
            return "patience"
        return "learning rate" if self.trainer.too_slow(r)[row] else "epochs"

    def errors_of(self, row: int, tests: dict[str, Tensor]) -> dict[str, list[float | None]]:
        """The errors of a replica on each test set; null where no epoch gave it weights."""
        learned = bool(self.replicas.best[row].isfinite())
        return {name: [finite(e) if learned else None for e in errors[row].tolist()] for name, errors in tests.items()}

    def untested(self) -> list[str]:
        """The collections that the recorded cell is to be tested on and has not been."""
        tested = {name.rpartition("/")[0] for name in load(self.result).replicas[0].test}
        return [collection for collection in self.collections if collection not in tested]

    def load_weights(self) -> list[int]:
        """What is kept of a finished training as replicas, to test them again; their rows in the result."""
        path = self.kept
        tensors, facts = read_tensors(path)
        if facts.get("hash") != self.hash:
            raise ValueError(f"{path} holds the weights of another configuration ({facts.get('cell')})")
        self.replicas = self.fresh().rows(torch.tensor(facts["rows"]))
        self.last_kept = "last_theta" in tensors
        for name in ("theta", "state"):
            getattr(self.replicas, f"best_{name}").copy_(tensors[name])
            getattr(self.replicas, name).copy_(tensors[f"last_{name}" if self.last_kept else name])
        self.replicas.best.copy_(tensors["validation"])
        self.replicas.best_metric.copy_(tensors["validation"])
        return facts["rows"]

    def from_recorded(self, rows: list[int], tests: dict[str, Tensor]) -> float | None:
        """How far the errors of a result's rows are from those recorded: the largest difference, relative."""
        recorded = load(self.result).replicas if self.result.exists() else None
        pairs = (
            (now, then)
            for row, of_result in enumerate(rows if recorded else ())
            for name, errors in self.errors_of(row, tests).items()
            for now, then in zip(errors, recorded[of_result].test.get(name, ()), strict=False)
        )
        return max((_apart(now, then) for now, then in pairs), default=None)


def _apart(now: float | None, then: float | None) -> float:
    """Two errors' difference, relative to the second; null, which is infinite, is like itself alone."""
    if now is None or then is None or then == 0:
        return 0.0 if now == then else math.inf
    return abs(now - then) / abs(then)
