"""Trainer and run of figure 6's cells.

Every replica has its own order of the graphs in each epoch, initialisation, dropout, learning rate schedule, end and
best weights. On a GPU a training step (batch, forward, backward, Adam) is recorded once for each shape of batch and
replayed; the host reads nothing back within an epoch. The noise for dropout is drawn before each step by a generator
seeded with seed, epoch and batch, so that an interrupted training resumes with the same numbers.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pna.combined import CombinedAggregation
from pna.errors import MissingData
from pna.experiments.cells import Cell, Profile
from pna.experiments.plan import planned_seeds
from pna.networks import count_parameters
from pna.realworld.batches import NO_GRAPH, DeviceSplit, Shape, shape_of
from pna.realworld.data import storage
from pna.realworld.data.datasets import DATASETS, SPLITS, Dataset, training_set
from pna.realworld.hyperparameters import HYPERPARAMETERS, Hyperparameters
from pna.realworld.metrics import criterion, losses, metric
from pna.realworld.networks import Network
from pna.training.recording import Recording
from pna.training.replicas import Replicas
from pna.training.run import Run
from pna.training.store import Result, load
from pna.training.trainer import Settings, Trainer

__all__ = ["PROFILES", "Figure6Run", "Figure6Trainer", "epoch_batches", "summary"]

EVALUATED_TOGETHER = 512  # most graphs in a batch of an evaluation, where predictions do not depend on the batch

PROFILES: dict[str, Profile] = {
    "smoke": Profile("smoke", seeds=2, epochs=2, graphs=(64, 32, 32)),  # seconds
    "quick": Profile("quick", seeds=2, epochs=10, graphs=(512, 256, 256)),  # minutes on a CPU
    "paper": Profile("paper"),
    "planned": Profile("planned", planned=True),  # the paper's, with the seeds of results/plan.json
}


def epoch_batches(graphs: int, size: int, *drawn_by: int) -> NDArray[np.int64]:
    """Divide the graphs of an epoch into batches, [batches, size], filled up with NO_GRAPH.

    The order is that of the data set or, given seed and epoch in `drawn_by`, a random permutation.
    """
    order = np.random.default_rng(drawn_by).permutation(graphs) if drawn_by else np.arange(graphs)
    filled = np.full(-(-graphs // size) * size, NO_GRAPH)
    filled[:graphs] = order
    return filled.reshape(-1, size)


def _evaluated(graphs: int) -> NDArray[np.int64]:
    """The graphs in the order of the data set, in as few batches as possible, of nearly equal size."""
    return epoch_batches(graphs, -(-graphs // -(-graphs // EVALUATED_TOGETHER)))


class Figure6Trainer(Trainer):
    """Trains replicas of one network on one data set, which lies on the device with them."""

    def __init__(
        self, network: Network, model: Hyperparameters, train: DeviceSplit, validation: DeviceSplit, epochs: int
    ) -> None:
        settings = Settings(
            model.learning_rate,
            model.weight_decay,
            epochs,
            halve_after=model.patience,
            min_learning_rate=model.min_learning_rate,
            infinite_validation=True,  # D13
        )
        super().__init__(network.to(train.y.device), settings)
        self.train, self.validation, self.model = train, validation, model
        self.size = min(model.batch, len(train))
        self.usual, self.largest = train.usual(self.size), train.largest(self.size)
        self.others = [train.usual(self.size, deviations) for deviations in model.deviations]

    def taken(self, graphs: DeviceSplit) -> int:
        """The number of a split's graphs that are used: all, or only those that fill whole batches (DiffPool)."""
        size = min(self.model.batch, len(graphs))
        return len(graphs) // size * size if self.model.whole_batches else len(graphs)

    def evaluated(self, graphs: DeviceSplit) -> NDArray[np.int64]:
        """Batches for testing a split; as large as in training where predictions depend on the batch (DiffPool)."""
        count = self.taken(graphs)
        return epoch_batches(count, min(self.model.batch, count)) if self.model.whole_batches else _evaluated(count)

    def shapes(self, batches: NDArray[np.int64]) -> list[Shape]:
        """The smallest recorded shape that fits each step's batches, from `batches` [steps, R, B]."""
        smallest = [self.largest] * len(batches)
        for shape in sorted({*self.others, self.usual}, reverse=True):
            fits = self.train.fits(batches, shape).all(1)
            smallest = [shape if fit else larger for fit, larger in zip(fits, smallest, strict=True)]
        return smallest

    def stepper(self, replicas: Replicas) -> Callable[[], bool]:
        """Return a function that trains on one batch."""
        session = _Session(self, replicas)
        epochs = (whole for _ in itertools.count() for whole in session.epoch())
        return lambda: next(epochs)

    # ---- a step and an evaluation, recorded or not ----

    def step(self, r: Replicas, index: Tensor, shape: Shape, noise: Tensor | None) -> None:
        """Take one step of Adam on the graphs `index` [R, B]; add the losses to r.partial.

        `noise`, [R, layers, V, width], is what dropout is drawn from.
        """
        inputs = (index,) if noise is None else (index, noise)

        def mean_loss(network: Callable[..., Tensor], index: Tensor, *noise: Tensor) -> Tensor:
            """Mean loss of one replica over the graphs `index` [B] of its batch, a scalar."""
            batch = self.train.batch(index, shape, edges=self.model.edge_dim > 0)
            each = losses(self.train.data, network(batch, *noise), batch.y) * batch.valid
            return each.sum() / batch.valid.sum()

        mean_losses = self.descend(r, lambda theta: self.lifted.map(theta, r.state, mean_loss, *inputs, training=True))
        r.partial.add_(mean_losses * (index >= 0).sum(1))

    @torch.no_grad()
    def predict(self, theta: Tensor, state: Tensor, graphs: DeviceSplit) -> Tensor:
        """The predictions for the first graphs of a split, as many as are `taken`, [R, G, outputs]."""
        return self.predict_batches(theta, state, graphs, *_on(theta.device, graphs, self.evaluated(graphs)))

    @torch.no_grad()
    def predict_batches(self, theta: Tensor, state: Tensor, graphs: DeviceSplit, rows: Tensor, shape: Shape) -> Tensor:
        """The predictions for the batches `rows` [batches, B] of a split, [R, G, outputs].

        Every replica gets its own copy of a batch, so that the kernels compiled for training can be used.
        """

        def predict(network: Callable[..., Tensor], index: Tensor) -> Tensor:
            return network(graphs.batch(index, shape, edges=self.model.edge_dim > 0))

        parts = [self.lifted.map(theta, state, predict, row.expand(len(theta), -1)) for row in rows]
        return torch.cat(parts, dim=1)[:, : len(graphs)]


def _on(device: torch.device, graphs: DeviceSplit, batches: NDArray[np.int64]) -> tuple[Tensor, Shape]:
    """The batches as a tensor on the device, and a shape that fits all of them."""
    return torch.from_numpy(batches).to(device), shape_of(graphs, batches)


class _Session:
    """The recordings for a set of replicas in training, and the buffers that they read."""

    def __init__(self, trainer: Figure6Trainer, replicas: Replicas) -> None:
        self.trainer, self.replicas = trainer, replicas
        self.device = replicas.theta.device
        self.seeds = replicas.seed.tolist()
        self.generator = torch.Generator(self.device)
        self.index = torch.full((len(replicas), trainer.size), NO_GRAPH, device=self.device)
        self.noise: dict[Shape, Tensor | None] = {}
        self.recorded: dict[Shape, Callable[[], object]] = {}
        self.predictions, self.validate = self._evaluation()

    def epoch(self) -> Iterator[bool]:
        """Train on the remaining batches of this epoch; yield after each whether it was the last."""
        r, trainer = self.replicas, self.trainer
        number, position = int(r.epoch[0]), int(r.position[0])
        orders = [epoch_batches(len(trainer.train), trainer.size, seed, number) for seed in self.seeds]
        taken = trainer.taken(trainer.train)
        batches = np.stack(orders, axis=1)[: -(-taken // trainer.size)]  # [batches, R, size]
        rows, shapes = torch.from_numpy(batches).to(self.device), trainer.shapes(batches)
        for k in range(position, len(batches)):
            self._step(rows[k], shapes[k], number, k)
            whole = k + 1 == len(batches)
            if whole:
                self._end_epoch(taken)
            yield whole

    def _end_epoch(self, taken: int) -> None:
        """Validate, and end an epoch of `taken` training graphs."""
        self.validate()
        trainer, graphs = self.trainer, self.trainer.validation
        inputs = (graphs.data, self.predictions, graphs.y[: self.predictions.shape[1]], trainer.model.batch)
        trainer.end_epoch(self.replicas, taken, criterion(*inputs), metric(*inputs))

    def _step(self, row: Tensor, shape: Shape, epoch: int, position: int) -> None:
        """Train on the graphs `row` [R, B], with dropout drawn for this epoch and position."""
        self.index.copy_(row)
        if shape not in self.recorded:
            self.recorded[shape] = self._training(shape)
        if (noise := self.noise[self._drawn_for(shape)]) is not None:
            for replica, seed in enumerate(self.seeds):
                self.generator.manual_seed(_mix(seed, epoch, position))
                noise[replica].uniform_(generator=self.generator)
        self.recorded[shape]()
        self.replicas.position.fill_(position + 1)

    def _training(self, shape: Shape) -> Callable[[], object]:
        """Record a training step on batches of a shape, with a buffer for its dropout."""
        trainer, r, model, drawn = self.trainer, self.replicas, self.trainer.model, self._drawn_for(shape)
        if drawn not in self.noise:
            sizes = (len(r), model.layers, drawn.nodes, max(model.hidden, model.out))
            self.noise[drawn] = r.theta.new_zeros(sizes) if model.dropout > 0 else None
        noise = None if self.noise[drawn] is None else self.noise[drawn][:, :, : shape.nodes]
        step = lambda: trainer.step(r, self.index, shape, noise)  # noqa: E731
        return _recorded(step, r.tensors().values(), self.device)

    def _drawn_for(self, shape: Shape) -> Shape:
        """The shape that noise is drawn for, of which a batch uses the first nodes.

        It is one of two, so that the number of recorded shapes does not change the random numbers of a training.
        """
        return self.trainer.usual if shape <= self.trainer.usual else self.trainer.largest

    def _evaluation(self) -> tuple[Tensor, Callable[[], object]]:
        """A buffer for the predictions on the validation set, and the function that fills it."""
        trainer, r, graphs = self.trainer, self.replicas, self.trainer.validation
        rows, shape = _on(self.device, graphs, trainer.evaluated(graphs))
        out = r.theta.new_zeros(len(r), trainer.taken(graphs), graphs.data.outputs)
        work = lambda: out.copy_(trainer.predict_batches(r.theta, r.state, graphs, rows, shape))  # noqa: E731
        return out, _recorded(work, (), self.device)


def _recorded(work: Callable[[], object], changed: Iterable[Tensor], device: torch.device) -> Callable[[], object]:
    """Record `work` on a GPU; return it unchanged elsewhere."""
    return Recording([work], changed) if device.type == "cuda" else work


def _mix(*numbers: int) -> int:
    """Hash numbers into a seed."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


class Figure6Run(Run):
    """The run of one real-world cell under one profile on one device."""

    columns = ("train", "validation", "metric")
    profiles = PROFILES
    collections = ("test",)

    def __init__(self, cell: Cell, profile: Profile, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        super().__init__(cell, profile, device, dtype)
        self.dataset: Dataset = DATASETS[cell.training]
        self.model: Hyperparameters = HYPERPARAMETERS[cell.training, cell.model, cell.variant]
        self.epochs = profile.epochs or self.model.epochs
        self.seeds = planned_seeds(cell) if profile.planned else list(range(profile.seeds or self.model.seeds))

    @property
    def configuration(self) -> dict:
        """Everything but the data that decides the result, as JSON."""
        return {
            "cell": str(self.cell),
            "profile": {name: getattr(self.profile, name) for name in ("name", "graphs", "seeds", "epochs")},
            "model": asdict(self.model),
            "epochs": self.epochs,
            "seeds": self.seeds,
            "batches": "each seed's own",
            "averages": "of the means of batches",
            "dtype": str(self.dtype),
        }

    def identity(self) -> dict[str, str]:
        """Facts that a checkpoint must share with this run, including the data's checksum."""
        return super().identity() | {"data": self.data.facts["sha256"]}

    def matches(self, result: Result) -> bool:
        """Whether a result has this run's configuration and, if the data set is here, was trained on it."""
        recorded = result.facts["data"]["sha256"]
        try:
            here = storage.facts_of(self.cell.training)["sha256"]
        except MissingData:
            here = recorded
        return (result.hash, recorded) == (self.hash, here)

    @property
    def other_data(self) -> str | None:
        """The recorded result's training set, in words, if another version of the data set was prepared here."""
        if not (self.result.exists() and storage.archive_path(self.cell.training).exists()):
            return None
        try:
            data = load(self.result).facts["data"]
        except ValueError:  # damaged, as whoever reads the result will say
            return None
        here = storage.facts_of(self.cell.training)
        return None if data["sha256"] == here["sha256"] else training_set(self.dataset.name, data)

    @property
    def aside(self) -> "Figure6Run":
        """Run with a new name, under which a result that was recorded on other data is kept."""
        data = load(self.result).facts["data"]
        spec = f"{self.cell.spec}-{re.split('[^a-z]', data['train'])[0]}-{data['sha256'][:8]}"
        specs = itertools.chain([spec], (f"{spec}-{again}" for again in itertools.count(2)))
        runs = (Figure6Run(replace(self.cell, spec=name), self.profile) for name in specs)
        return next(run for run in runs if not run.result.exists())

    def record(self) -> Path:
        """Record the run; a result of another data set is first renamed to that of `aside`, its JSON last."""
        if self.other_data is not None:
            for old, new in zip(self._files, self.aside._files, strict=True):
                if old.exists():
                    new.parent.mkdir(parents=True, exist_ok=True)
                    old.rename(new)
        return super().record()

    @property
    def _files(self) -> tuple[Path, ...]:
        """Paths of the weights and the result, the result last."""
        return self.weights, self.shipped, self.result

    @property
    def ready(self) -> bool:
        """Whether the data set is here."""
        return storage.is_here(self.cell.training)

    # ---- data and networks ----

    @cached_property
    def data(self) -> storage.Splits:
        """The data set, thinned to the profile."""
        return storage.load(self.cell.training, graphs=self.profile.graphs, device=self.device)

    @cached_property
    def splits(self) -> dict[str, DeviceSplit]:
        """The splits on the device, without the graphs that are too small for the released code."""
        return {s: DeviceSplit(self.dataset, self.data.large_enough(s), self.device, self.dtype) for s in SPLITS}

    def network(self, seed: int) -> Network:
        """The network of one seed, with its initial weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = Network(self.model, self.dataset, self.data.degrees).to(self.dtype)
        for module in network.modules():
            if isinstance(module, CombinedAggregation):
                module.reset_parameters()  # restores δ in float64, which was rounded to float32 on the way
        return network

    @cached_property
    def trainer(self) -> Figure6Trainer:
        """The trainer of all replicas."""
        network = self.network(self.seeds[0])
        return Figure6Trainer(network, self.model, self.splits["train"], self.splits["validation"], self.epochs)

    def fresh(self) -> Replicas:
        """The replicas before the first epoch."""
        networks = [self.network(seed) for seed in self.seeds]
        theta, state = (t.to(self.device) for t in self.trainer.lifted.stack(networks))
        tasks, rates = theta.new_ones(len(theta), 1), (self.model.learning_rate, self.model.weight_decay)
        return Replicas.fresh(self.seeds, theta, state, tasks, *rates)

    def best(self) -> float:
        """The best validation metric of any replica so far."""
        numbers = self.replicas.best_metric[self.replicas.best.isfinite()]
        if len(numbers) == 0:
            return torch.nan
        return (numbers.min() if self.dataset.task == "regression" else numbers.max()).item()

    # ---- test ----

    def test(self, collection: str) -> dict[str, Tensor]:
        """Test the best weights, and the last ones if they are here: the metric, [R, 1], by test set and weights."""
        r, graphs = self.replicas, self.splits[collection]
        weights = {"best": (r.best_theta, r.best_state)} | (
            {"last": (r.theta, r.state)} if self.has_last_weights else {}
        )
        predictions = {name: self.trainer.predict(*rows, graphs) for name, rows in weights.items()}
        y = graphs.y[: self.trainer.taken(graphs)]
        metrics = {name: metric(graphs.data, p, y, self.model.batch) for name, p in predictions.items()}
        return {f"{collection}/{name}": values.cpu().unsqueeze(1) for name, values in metrics.items()}

    def weight_tensors(self) -> dict[str, Tensor]:
        """The best weights and, where the released protocol reports them, the last ones."""
        last = {"last_theta": self.replicas.theta, "last_state": self.replicas.state}
        return super().weight_tensors() | (last if self.dataset.reported == "last" else {})

    def facts(self) -> dict:
        """Data, metric, number of parameters, δ, and the learning rate that each replica ended with."""
        graphs = {split: self.trainer.taken(graphs) for split, graphs in self.splits.items()}
        return {
            "data": self.data.facts | {"graphs": graphs},
            "metric": self.dataset.metric,
            "parameters": count_parameters(self.trainer.lifted.network),
            "delta": self.data.degrees.delta,
            "learning_rates": [float(f"{rate:.6g}") for rate in self.replicas.learning_rate.flatten().tolist()],
        }


def summary(result: Result) -> dict[str, tuple[float, float]]:
    """The test metric's mean and standard deviation (n - 1) over replicas, for the best and for the last weights."""
    rows = {}
    for name in ("best", "last"):
        metrics = (replica.test[f"test/{name}"][0] for replica in result.replicas)
        values = [value for value in metrics if value is not None]
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        rows[name] = (float(np.mean(values)) if values else float("nan"), deviation)
    return rows
