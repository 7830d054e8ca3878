"""A real-world cell trained from its name: data, networks of all seeds, checkpoints, and its result."""

from dataclasses import asdict
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pna.realworld import storage
from pna.realworld.batches import Resident
from pna.realworld.datasets import SPLITS
from pna.realworld.local import MissingData
from pna.realworld.metrics import metric
from pna.realworld.models import RealCell, RealProfile
from pna.realworld.networks import RealNetwork
from pna.realworld.replicas import RealReplicas
from pna.realworld.trainer import RealTrainer
from pna.scalers import DegreeStatistics
from pna.training.cells import Run
from pna.training.store import results_folder

__all__ = ["RealRun", "real_result_path"]


class RealRun(Run):
    """One cell under one profile on one device."""

    kept = RealReplicas
    columns = 3  # training loss, criterion and metric on validation

    def __init__(
        self, cell: RealCell, profile: RealProfile, device: str = "cpu", dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(cell, profile, device, dtype)
        self.model = cell.hyperparameters
        self.epochs = profile.epochs or self.model.epochs
        self.seeds = list(range(profile.seeds or self.model.seeds))

    @property
    def configuration(self) -> dict:
        """All that decides the result besides the data, as JSON."""
        return {
            "cell": str(self.cell),
            "profile": asdict(self.profile),
            "model": asdict(self.model),
            "epochs": self.epochs,
            "seeds": self.seeds,
            "batches": "shared by the seeds",
            "dtype": str(self.dtype),
        }

    @property
    def identity(self) -> dict[str, str]:
        """What a checkpoint must have in common with this run: the data too."""
        return super().identity | {"data": self.data.facts["sha256"]}

    def matches(self, facts: dict) -> bool:
        """Whether a result is this run's: of its configuration and, if they are here, of its data."""
        try:
            data = storage.facts_of(self.cell.training)["sha256"]
        except MissingData:
            data = facts["data"]["sha256"]
        return (facts["hash"], facts["data"]["sha256"]) == (self.hash, data)

    @property
    def result(self) -> Path:
        """Where the result is kept."""
        return real_result_path(self.cell, self.profile)

    # ---- data and networks ----

    @cached_property
    def data(self) -> storage.RealWorld:
        """The data set, thinned to the profile."""
        return storage.load(self.cell.training, graphs=self.profile.graphs)

    @cached_property
    def splits(self) -> dict[str, Resident]:
        """Its splits on the device, without the graphs that are too small for the released code."""
        splits = {}
        for split in SPLITS:
            graphs, large = self.data[split], self.data[split].nodes >= self.cell.dataset.min_nodes
            kept = graphs if large.all() else graphs.take(large.nonzero()[0])
            splits[split] = Resident(self.cell.dataset, kept, self.device, self.dtype)
        return splits

    @cached_property
    def degrees(self) -> DegreeStatistics:
        """δ of equation 5 and the mean degree: of the messages that the nodes of the training set receive."""
        return DegreeStatistics.from_degrees(torch.from_numpy(self.data["train"].degree.astype(np.int64)))

    def networks(self) -> list[RealNetwork]:
        """One for each seed."""
        networks = []
        for seed in self.seeds:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                networks.append(RealNetwork(self.model, self.cell.dataset, self.degrees).to(self.dtype))
        return networks

    @cached_property
    def trainer(self) -> RealTrainer:
        """The trainer of all replicas."""
        return RealTrainer(self.networks()[0], self.model, self.splits["train"], self.splits["validation"], self.epochs)

    def _fresh(self) -> RealReplicas:
        """The replicas before the first epoch."""
        theta, state = (t.to(self.device) for t in self.trainer.lifted.stack(self.networks()))
        return RealReplicas.fresh(self.seeds, theta, state, self.model.learning_rate)

    # ---- training ----

    def numbers(self) -> Tensor:
        """Training loss, criterion and metric, [R, 3]."""
        return torch.stack([self.replicas.train, self.replicas.validation, self.replicas.metric], dim=1)

    def best(self) -> float:
        """The best metric on validation."""
        numbers = self.replicas.best_metric[self.replicas.best.isfinite()]
        if len(numbers) == 0:
            return torch.nan
        return (numbers.min() if self.cell.dataset.task == "regression" else numbers.max()).item()

    # ---- test ----

    def test(self) -> dict[str, Tensor]:
        """The metric on the test set, [R], with the weights that were best on validation and with the last ones."""
        r, graphs = self.replicas, self.splits["test"]
        weights = {"best": (r.best_theta, r.best_state), "last": (r.theta, r.state)}
        return {
            name: metric(graphs.data, self.trainer.predict(*rows, graphs), graphs.y).cpu()
            for name, rows in weights.items()
        }


def real_result_path(cell: RealCell, profile: RealProfile) -> Path:
    """The file of one cell under one profile."""
    return results_folder() / profile.name / cell.training / cell.spec / f"{cell.model}-{cell.edges}.json"
