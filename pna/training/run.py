"""The run of a cell: training with checkpoints to the end or to a deadline, tests, and the recorded result."""

import itertools
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
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

__all__ = ["Profile", "Progress", "Run", "make_repeatable", "own_epochs", "relative_distance"]

CHECKPOINT_SECONDS = 30.0  # the clock is read after every step


class Profile(Protocol):
    """A training budget; the engine needs only its name."""

    name: str


@dataclass(frozen=True)
class Progress:
    """How far a training is, after an epoch."""

    epoch: int
    epochs: int  # at most
    running: int  # replicas that are not finished
    replicas: int
    best: float  # the best validation metric so far


class Run(ABC):
    """One cell under one profile on one device: a training that can stop at any step and go on later.

    A subclass for each benchmark says what decides the result (`configuration`), how its replicas start (`fresh`) and
    are trained (`trainer`), and what they are tested on (`collections`, `test`).
    """

    trainer: Trainer
    columns: tuple[str, ...]  # the tensors of Replicas that make up a point of the learning curve
    own_seeds = False  # whether the cell, not the budget, says how many replicas there are
    ships = True  # whether the best weights are kept beside the result, where `pna.load` finds them
    collections_needed: tuple[str, ...] = ()  # collections of random graphs to generate first, once for all cells

    def __init__(self, cell: object, profile: Profile, device: str, dtype: torch.dtype) -> None:
        self.cell, self.profile, self.device, self.dtype = cell, profile, device, dtype
        self.replicas: Replicas | None = None
        self.curves: list[Tensor] = []  # [R, columns] for each epoch
        self.seconds = 0.0
        self.has_last_weights = True  # False once weights were read from a file that holds the best ones alone

    # ---- what a benchmark says ----

    @property
    @abstractmethod
    def configuration(self) -> dict:
        """Everything that decides the result, as JSON."""

    @abstractmethod
    def fresh(self) -> Replicas:
        """The replicas before the first epoch."""

    @property
    @abstractmethod
    def collections(self) -> tuple[str, ...]:
        """Names of the collections of graphs that the run is tested on."""

    @abstractmethod
    def test(self, collection: str) -> dict[str, Tensor]:
        """Test all replicas on a collection: errors [R, tasks], by the name of the test set."""

    @abstractmethod
    def facts(self) -> dict:
        """What the benchmark adds to the result of a finished cell, as JSON."""

    @property
    def ready(self) -> bool:
        """Whether the data are here, or can be generated."""
        return True

    def task_of(self, row: int) -> str | None:
        """Name of the task that a replica is trained on; None for all tasks."""
        return None

    def identity(self) -> dict[str, str]:
        """The facts that a checkpoint must share with this run."""
        return {"hash": self.hash}

    def matches(self, result: Result) -> bool:
        """Whether a result belongs to this run."""
        return result.hash == self.hash

    @property
    def other_data(self) -> str | None:
        """A description of the recorded result's training data if they differ from the data here, else None."""
        return None

    @property
    def recorded(self) -> bool:
        """Whether a result is recorded that was trained on the data that are here."""
        return self.result.exists() and self.other_data is None

    def best(self) -> float:
        """The best validation metric of any replica so far, for the progress report."""
        return self.replicas.best_metric.min().item()

    # ---- names and places ----

    @property
    def hash(self) -> str:
        """SHA-256 of `configuration`."""
        return hash_of(self.configuration)

    @property
    def result(self) -> Path:
        """Path of the result."""
        return results_folder() / self.profile.name / self.cell.place

    @property
    def checkpoint(self) -> Path:
        """Path of the checkpoint of an unfinished training."""
        return data_folder() / "runs" / self.profile.name / f"{str(self.cell).replace('/', '-')}.safetensors"

    @property
    def weights(self) -> Path:
        """Path of the best weights of all replicas of a finished training."""
        return data_folder() / "weights" / self.profile.name / f"{str(self.cell).replace('/', '-')}.safetensors"

    @property
    def shipped(self) -> Path:
        """Path of the best replica's weights, beside the result."""
        return self.result.with_suffix(".safetensors")

    @property
    def weights_file(self) -> Path | None:
        """The file of trained weights to read: all replicas', else the best one's, also in an installed package."""
        results = (folder / self.profile.name / self.cell.place for folder in weights_folders())
        files = (self.weights, *(path.with_suffix(".safetensors") for path in results))
        return next((path for path in files if path.exists()), None)

    # ---- training ----

    def train(
        self,
        deadline: float | None = None,
        report: Callable[[Progress], None] = lambda progress: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Train from the checkpoint, if there is one, and tell whether every replica is finished.

        `stop` is asked after every step. When it returns True, or past the deadline (of time.monotonic), the training
        ends with a checkpoint. `report` is called after every epoch.
        """
        if self.checkpoint.exists():
            self._load()
        else:
            self.replicas = self.fresh()
        start = saved = time.monotonic()
        before = self.seconds
        for trained in self.trainer.steps(self.replicas):
            now = time.monotonic()
            self.seconds = before + now - start
            if trained is not None:
                self.curves.append(self._curve_point(trained))
                report(self._progress(len(trained)))
            if stop() or (deadline is not None and now >= deadline):
                self.save()
                return len(self.trainer.running(self.replicas)) == 0
            if now - saved >= CHECKPOINT_SECONDS:
                self.save()
                saved = time.monotonic()
        self.save()
        return True

    def _curve_point(self, trained: Tensor) -> Tensor:
        """The present losses, [R, columns]; NaN for replicas that are not in `trained`."""
        numbers = torch.stack([getattr(self.replicas, name) for name in self.columns], dim=1)  # [R, columns]
        point = torch.full(numbers.shape, torch.nan)
        point[trained.cpu()] = numbers[trained].float().cpu()
        return point

    def _progress(self, running: int) -> Progress:
        """Progress so far, with `running` replicas that have not ended."""
        return Progress(len(self.curves), self.trainer.settings.epochs, running, len(self.replicas), self.best())

    def replay(self, epochs: int) -> Iterator[Tensor]:
        """Train from the start, without a checkpoint, and yield the losses of each epoch, [R, columns]."""
        self.replicas = self.fresh()
        steps = (trained for trained in self.trainer.steps(self.replicas) if trained is not None)
        yield from map(self._curve_point, itertools.islice(steps, epochs))

    def save(self) -> None:
        """Write the checkpoint."""
        self.trainer.sync()
        none_yet = torch.empty(0, len(self.replicas), len(self.columns))
        tensors = self.replicas.tensors() | {"curves": torch.stack(self.curves) if self.curves else none_yet}
        write_tensors(self.checkpoint, tensors, self.identity() | {"cell": str(self.cell), "seconds": self.seconds})

    def _load(self) -> None:
        """Restore replicas, curves and seconds from the checkpoint, unless it is of another configuration or data."""
        tensors, facts = read_tensors(self.checkpoint)
        if any(facts.get(name) != value for name, value in self.identity().items()):
            raise ValueError(
                f"{self.checkpoint} is of another configuration or of other data ({facts.get('cell')}); it is left as "
                "it is: remove it to start anew, or ask for what it was started with"
            )
        try:
            curves = tensors.pop("curves")
            self._check_tensors(tensors, curves)
            self.replicas = Replicas(**{name: t.to(self.device) for name, t in tensors.items()})
            self.curves, self.seconds = list(curves), float(facts["seconds"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{self.checkpoint} does not hold what this version keeps ({error}); remove it") from error

    def _check_tensors(self, tensors: dict[str, Tensor], curves: Tensor) -> None:
        """Raise a ValueError if tensors of a checkpoint have other sizes than this run's, or weights no step leaves.

        Weights that are not finite belong to a replica that diverged, or that is about to: within an epoch.
        """
        R, lifted = len(tensors["theta"]), self.trainer.lifted
        P, Q = (sum(map(math.prod, shapes.values())) for shapes in (lifted.parameters, lifted.buffers))
        sizes = {"theta": P, "m": P, "v": P, "best_theta": P, "state": Q, "best_state": Q, "step": 1}
        for name, t in tensors.items():
            if len(t) != R or (name in sizes and t.shape != (R, sizes[name])):
                raise ValueError(f"{name} has the shape {list(t.shape)}")
        if curves.shape[1:] != (R, len(self.columns)):
            raise ValueError(f"curves have the shape {list(curves.shape)}")
        known = tensors["validation"].isfinite() | (tensors["epoch"] == 0)  # D13 goes on where it is infinite
        between = ~tensors["diverged"] & (tensors["position"] == 0) & known
        for name, rows in (("theta", between), ("best_theta", tensors["best"].isfinite())):
            if not bool(tensors[name][rows].isfinite().all()):
                raise ValueError(f"{name} has weights that are not finite")

    def forget(self) -> None:
        """Remove the checkpoint, and any partial file that a killed process left beside it."""
        self.checkpoint.unlink(missing_ok=True)
        remove_left_over(self.checkpoint)

    # ---- the result ----

    def record(self) -> Path:
        """Test a finished cell, write its weights and its result, and then remove its checkpoint."""
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
        """Rows of the replicas with the lowest validation error: one, or one for each task in single-task training."""
        rows = sorted(range(len(self.replicas)), key=lambda row: self.replicas.best[row].item())
        return sorted({self.task_of(row): row for row in reversed(rows)}.values())

    def write_weights(self, path: Path, rows: list[int]) -> None:
        """Write the weights of the replicas `rows` to `path`."""
        facts = {"hash": self.hash, "cell": str(self.cell), "rows": rows, "seeds": self.replicas.seed[rows].tolist()}
        write_tensors(path, {name: t[rows] for name, t in self.weight_tensors().items()}, facts)

    def weight_tensors(self) -> dict[str, Tensor]:
        """The tensors that a file of weights holds: the best weights, and their validation metric.

        A benchmark that reports the last weights adds last_theta and last_state.
        """
        r = self.replicas
        return {"theta": r.best_theta, "state": r.best_state, "validation": r.best_metric}

    def _replica(self, row: int, tests: dict[str, Tensor], curve: Tensor) -> ReplicaResult:
        """Result of the replica in a row, with its test errors and its thinned curve [epochs, ·]."""
        r = self.replicas
        epochs = int(r.epoch[row])
        curve = own_epochs(curve, epochs)
        return ReplicaResult(
            seed=int(r.seed[row]),
            task=self.task_of(row),
            epochs=epochs,
            best_epoch=int(r.best_epoch[row]),
            ended_by=self._ended_by(row),
            validation=finite(float(r.best_metric[row])),
            test=self.errors_of(row, tests),
            curve=thinned(curve, len(r)),
        )

    def _ended_by(self, row: int) -> str:
        """Say why the replica in a row has ended."""
        r = self.replicas
        if r.diverged[row]:
            return "divergence"
        if self.trainer.out_of_patience(r)[row]:
            return "patience"
        return "learning rate" if self.trainer.too_slow(r)[row] else "epochs"

    def errors_of(self, row: int, tests: dict[str, Tensor]) -> dict[str, list[float | None]]:
        """The errors of a replica by test set; None if the replica diverged before its first best epoch."""
        learned = bool(self.replicas.best[row].isfinite())
        return {name: [finite(e) if learned else None for e in errors[row].tolist()] for name, errors in tests.items()}

    def untested(self) -> list[str]:
        """The collections that the recorded result lacks tests on."""
        tested = {name.rpartition("/")[0] for name in load(self.result).replicas[0].test}
        return [collection for collection in self.collections if collection not in tested]

    def load_weights(self) -> list[int]:
        """Read the trained weights into `replicas`, to test them again; return their rows in the result."""
        path = self.weights_file
        tensors, facts = read_tensors(path)
        if facts.get("hash") != self.hash:
            raise ValueError(f"{path} holds the weights of another configuration ({facts.get('cell')})")
        try:
            self.replicas = self.fresh().rows(torch.tensor(facts["rows"]))
            self.has_last_weights = "last_theta" in tensors
            for name in ("theta", "state"):
                getattr(self.replicas, f"best_{name}").copy_(tensors[name])
                getattr(self.replicas, name).copy_(tensors[f"last_{name}" if self.has_last_weights else name])
            self.replicas.best.copy_(tensors["validation"])
            self.replicas.best_metric.copy_(tensors["validation"])
        except (KeyError, TypeError, IndexError, RuntimeError) as error:
            raise ValueError(f"{path} does not hold the weights of {self.cell} ({error}); remove it") from error
        return facts["rows"]

    def distance_from_recorded(self, rows: list[int], tests: dict[str, Tensor]) -> float | None:
        """The largest relative difference between errors and the recorded ones; None if there are none to compare.

        Row k of `tests` belongs to row rows[k] of the result.
        """
        recorded = load(self.result).replicas if self.result.exists() else None
        pairs = (
            (now, then)
            for row, recorded_row in enumerate(rows if recorded else ())
            for name, errors in self.errors_of(row, tests).items()
            for now, then in zip(errors, recorded[recorded_row].test.get(name, ()), strict=False)
        )
        return max((relative_distance(now, then) for now, then in pairs), default=None)


def relative_distance(now: float | None, then: float | None) -> float:
    """The difference of two errors, relative to the second; None, which stands for infinity, equals only itself."""
    if now is None or then is None or then == 0:
        return 0.0 if now == then else math.inf
    return abs(now - then) / abs(then)


def own_epochs(curve: Tensor, epochs: int) -> Tensor:
    """The rows of a curve [all epochs, columns] in which a replica took part, [epochs, columns].

    A search may pause a replica, and then rows of others, all NaN for this one, stand between its own. Of its own rows
    only the last one can be all NaN.
    """
    points = curve[~curve.isnan().all(1)]
    lost = curve.new_full((max(0, epochs - len(points)), curve.shape[1]), torch.nan)
    return torch.cat([points, lost])[:epochs]


def make_repeatable() -> None:
    """Let a training be repeated to the last bit: sums have a fixed order on a GPU, and one thread on a CPU.

    With more threads, cells side by side on a CPU would also slow each other down, since operations are small there.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(1)
