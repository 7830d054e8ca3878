"""A cell trained from its name: data, networks of all seeds, checkpoints, and its result."""

import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from pna.experiments import TRAININGS, Cell, Profile
from pna.multitask import TASKS, MultiTask, make
from pna.multitask.splits import COLLECTIONS
from pna.multitask.storage import cached, data_folder
from pna.networks import GraphBatch, build
from pna.scalers import DegreeStatistics
from pna.training.files import read_tensors, write_tensors
from pna.training.trainer import Replicas, Settings, Trainer

__all__ = ["CellRun", "Progress", "Run"]

GRAPHS_PER_BATCH = 512  # the paper's batches, one per size, are no larger
CHECKPOINT_SECONDS = 30.0  # the clock is read after every step: a batch on a CPU, an epoch on a GPU


@dataclass(frozen=True)
class Progress:
    """How far a cell is, after each epoch."""

    epoch: int
    epochs: int
    running: int
    replicas: int
    best: float


class Run(ABC):
    """A training of many replicas that can stop at any step and go on later: what the cells of all kinds share.

    A kind of cell says what decides its result (`configuration`), how its replicas start (`_fresh`), are trained
    (`trainer`) and kept (`kept`), and which numbers of an epoch are recorded (`numbers`).
    """

    epochs: int  # at most
    kept: type  # the dataclass of the replicas' tensors
    columns: int  # of `numbers`
    configuration: dict
    trainer: object

    def __init__(self, cell: object, profile: object, device: str, dtype: torch.dtype) -> None:
        self.cell, self.profile, self.device, self.dtype = cell, profile, device, dtype
        self.replicas = None
        self.curves: list[Tensor] = []  # an [R, columns] per epoch
        self.seconds = 0.0

    @property
    def hash(self) -> str:
        """Of the configuration."""
        return hashlib.sha256(json.dumps(self.configuration, sort_keys=True).encode()).hexdigest()

    @property
    def identity(self) -> dict[str, str]:
        """What a checkpoint must have in common with this run."""
        return {"hash": self.hash}

    def matches(self, facts: dict) -> bool:
        """Whether a result is this run's."""
        return facts["hash"] == self.hash

    @property
    def checkpoint(self) -> Path:
        """Where an unfinished training is kept."""
        return data_folder() / "runs" / self.profile.name / f"{str(self.cell).replace('/', '-')}.safetensors"

    @property
    def weights(self) -> Path:
        """Where the best weights of a finished training are kept."""
        return data_folder() / "weights" / self.profile.name / f"{str(self.cell).replace('/', '-')}.safetensors"

    @abstractmethod
    def _fresh(self) -> object:
        """The replicas before the first epoch."""

    @abstractmethod
    def numbers(self) -> Tensor:
        """Of the last epoch, [R, columns]."""

    @abstractmethod
    def best(self) -> float:
        """The best of the replicas on validation so far, for the progress report."""

    def train(self, deadline: float | None = None, report: Callable[[Progress], None] = lambda progress: None) -> bool:
        """Trains on from the checkpoint, if there is one, until all is finished (True) or the deadline is past."""
        if self.checkpoint.exists():
            self._load()
        else:
            self.replicas = self._fresh()
        start = saved = time.monotonic()
        before = self.seconds
        for took_part in self.trainer.steps(self.replicas):
            now = time.monotonic()
            self.seconds = before + now - start
            if took_part is not None:
                self.curves.append(self._curve_point(took_part))
                report(self._progress(len(took_part)))
            if deadline is not None and now >= deadline:
                self.save()
                return len(self.trainer.running(self.replicas)) == 0
            if now - saved >= CHECKPOINT_SECONDS:
                self.save()
                saved = time.monotonic()
        self.save()
        return True

    def _curve_point(self, took_part: Tensor) -> Tensor:
        point = torch.full((len(self.replicas.train), self.columns), torch.nan)
        point[took_part.cpu()] = self.numbers()[took_part].float().cpu()
        return point

    def _progress(self, running: int) -> Progress:
        return Progress(len(self.curves), self.epochs, running, len(self.replicas.best), self.best())

    def save(self) -> None:
        """Writes the checkpoint."""
        none_yet = torch.empty(0, len(self.replicas.best), self.columns)
        tensors = self.replicas.tensors() | {"curves": torch.stack(self.curves) if self.curves else none_yet}
        write_tensors(self.checkpoint, tensors, self.identity | {"cell": str(self.cell), "seconds": self.seconds})

    def _load(self) -> None:
        tensors, facts = read_tensors(self.checkpoint)
        if any(facts.get(name) != value for name, value in self.identity.items()):
            raise ValueError(
                f"{self.checkpoint} is of another configuration ({facts.get('cell')}); it is left as it is: "
                "remove it to start anew, or ask for what it was started with"
            )
        try:
            self.curves = list(tensors.pop("curves"))
            self.replicas = self.kept(**{name: t.to(self.device) for name, t in tensors.items()})
        except (KeyError, TypeError) as error:
            raise ValueError(f"{self.checkpoint} does not hold what this version keeps ({error}); remove it") from error
        self.seconds = facts["seconds"]


class CellRun(Run):
    """One cell under one profile on one device."""

    kept = Replicas
    columns = 2  # training and validation loss

    def __init__(self, cell: Cell, profile: Profile, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        super().__init__(cell, profile, device, dtype)
        self.training = TRAININGS[cell.training]
        self.epochs = profile.epochs
        self.settings = Settings(profile.learning_rate, epochs=profile.epochs, patience=profile.patience)
        self.seeds = list(range(profile.seeds))
        self.tasks = range(len(TASKS)) if self.training.single_task else [None]  # a replica per seed and task

    @property
    def configuration(self) -> dict:
        """All that decides the result, as JSON."""
        return {
            "cell": str(self.cell),
            "departures": list(self.cell.departures),
            "profile": asdict(self.profile),
            "settings": asdict(self.settings),
            "seeds": self.seeds,
            "graphs_per_batch": GRAPHS_PER_BATCH,
            "dtype": str(self.dtype),
        }

    # ---- data and networks ----

    def data(self, collection: str) -> MultiTask:
        """A collection of graphs, thinned to the profile."""
        spec, step, divisor = self.cell.data_spec, self.profile.size_step, self.profile.divisor
        if step == divisor == 1:
            return cached(collection, spec)
        splits = COLLECTIONS[collection](spec)
        thinned = (replace(s, sizes=s.sizes[::step], per_size=max(2, s.per_size // divisor)) for s in splits)
        return make(spec, list(thinned))

    @cached_property
    def own_data(self) -> MultiTask:
        """The collection that the cell is trained on."""
        return self.data(self.training.collection)

    def batches(self, data: MultiTask, split: str) -> list[GraphBatch]:
        """A split as the networks take it, in the units of the training set."""
        graphs = replace(data[split], maxima=self.own_data.maxima)
        return [GraphBatch.of(batch, self.device, self.dtype) for batch in graphs.batches(GRAPHS_PER_BATCH)]

    @property
    def degrees(self) -> DegreeStatistics:
        """δ of equation 5, over the training set (D11)."""
        return self.own_data.batched_degrees if self.cell.network_spec.batched_delta else self.own_data.degrees

    def _networks(self) -> list[torch.nn.Module]:
        networks = []
        for seed in self.seeds:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                network = build(
                    self.cell.model,
                    self.cell.hidden,
                    self.cell.network_spec,
                    self.degrees,
                    self.training.architecture,
                )
            networks.append(network.to(self.dtype))
        return networks

    @cached_property
    def trainer(self) -> Trainer:
        """The trainer of all replicas."""
        train, validation = (self.batches(self.own_data, split) for split in ("train", "validation"))
        network = self._networks()[0].to(self.device)
        return Trainer(network, train, validation, self.settings, infinite_validation="D13" in self.cell.departures)

    def _fresh(self) -> Replicas:
        """The replicas before the first epoch."""
        theta, state = self.trainer.lifted.stack(self._networks())
        rows = torch.arange(len(self.seeds)).repeat_interleave(len(self.tasks))
        masks = torch.stack([_mask(task) for task in self.replica_tasks])
        theta, state, masks = (t.to(self.device, self.dtype) for t in (theta[rows], state[rows], masks))
        return Replicas.fresh(theta, state, masks, self.settings.learning_rate)

    @property
    def replica_tasks(self) -> list[int | None]:
        """The task of each replica, None for all: seed by seed."""
        return [task for _ in self.seeds for task in self.tasks]

    # ---- training ----

    def numbers(self) -> Tensor:
        """Training and validation loss, [R, 2]."""
        return torch.stack([self.replicas.train, self.replicas.validation], dim=1)

    def best(self) -> float:
        """The least validation loss."""
        return self.replicas.best.min().item()

    # ---- tests ----

    def load_weights(self) -> None:
        """The best weights of a finished training as replicas, to test them again."""
        tensors, facts = read_tensors(self.weights)
        if facts.get("hash") != self.hash:
            raise ValueError(f"{self.weights} holds the weights of another configuration ({facts.get('cell')})")
        theta, state, best = (tensors[name].to(self.device) for name in ("theta", "state", "validation"))
        masks = torch.stack([_mask(task) for task in self.replica_tasks]).to(theta)
        self.replicas = replace(Replicas.fresh(theta, state, masks, self.settings.learning_rate), best=best)

    @torch.no_grad()
    def test(self, collection: str) -> dict[str, Tensor]:
        """The mean squared errors of the best weights on each test split of a collection, [R, 6] by its name."""
        data = self.data(collection)
        best = self.replicas.best_theta, self.replicas.best_state
        return {
            split.name: self.trainer.lifted.set_errors(*best, self.batches(data, split.name)).cpu()
            for split in data.splits
            if split.role == "test"
        }


def _mask(task: int | None) -> Tensor:
    """The tasks that count in a replica's loss: all six, or one."""
    if task is None:
        return torch.ones(len(TASKS))
    return torch.nn.functional.one_hot(torch.tensor(task), len(TASKS)).float()
