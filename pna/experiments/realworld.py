"""The cells of figure 6: their trainer, and one of them trained and tested from its name.

Every replica has its own order of the graphs in each epoch, initialisation, dropout, learning-rate schedule, end and
best weights. On a GPU a training step (batch, forward, backward, Adam) is recorded once for each shape of batches
and replayed, and nothing is read by the host within an epoch. The noise for dropout is drawn before each step by a
generator seeded with seed, epoch and batch, so that a training that was interrupted goes on with the same numbers.
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

__all__ = ["PROFILES", "Figure6Run", "Figure6Trainer", "epoch_batches", "older", "summary"]

EVALUATED_TOGETHER = 512  # graphs at most; a prediction does not depend on its batch then

PROFILES: dict[str, Profile] = {
    "smoke": Profile("smoke", seeds=2, epochs=2, graphs=(64, 32, 32)),  # seconds
    "quick": Profile("quick", seeds=2, epochs=10, graphs=(512, 256, 256)),  # minutes on a CPU
    "paper": Profile("paper"),
}


def epoch_batches(graphs: int, size: int, *drawn_by: int) -> NDArray[np.int64]:
    """All graphs in batches, [batches, size], NO_GRAPH in empty places: as they stand, or drawn by seed and epoch."""
    order = np.random.default_rng(drawn_by).permutation(graphs) if drawn_by else np.arange(graphs)
    filled = np.full(-(-graphs // size) * size, NO_GRAPH)
    filled[:graphs] = order
    return filled.reshape(-1, size)


def _evaluated(graphs: int) -> NDArray[np.int64]:
    """All graphs as they stand, in as few batches as it takes, which are all but full: no step is spent on padding."""
    return epoch_batches(graphs, -(-graphs // -(-graphs // EVALUATED_TOGETHER)))


class Figure6Trainer(Trainer):
    """Replicas of one network on one data set, which lies on the device with them."""

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
        """How many graphs of a split come in its batches: all, or those of the full ones, if there are any."""
        size = min(self.model.batch, len(graphs))
        return len(graphs) // size * size if self.model.whole_batches else len(graphs)

    def evaluated(self, graphs: DeviceSplit) -> NDArray[np.int64]:
        """The batches that a split is tested in: of training's size, where a prediction depends on its place in one."""
        count = self.taken(graphs)
        return epoch_batches(count, min(self.model.batch, count)) if self.model.whole_batches else _evaluated(count)

    def shapes(self, batches: NDArray[np.int64]) -> list[Shape]:
        """The smallest shape for the batches of each step, [steps, R, B]."""
        found = [self.largest] * len(batches)
        for shape in sorted({*self.others, self.usual}, reverse=True):
            fits = self.train.fits(batches, shape).all(1)
            found = [shape if fit else larger for fit, larger in zip(fits, found, strict=True)]
        return found

    def stepper(self, replicas: Replicas) -> Callable[[], bool]:
        """A batch."""
        session = _Session(self, replicas)
        epochs = (whole for _ in iter(int, 1) for whole in session.epoch())  # one after the other, without end
        return lambda: next(epochs)

    # ---- a step and an evaluation, recorded or not ----

    def step(self, r: Replicas, index: Tensor, shape: Shape, noise: Tensor | None) -> None:
        """One step of Adam on the graphs `index` [R, B], with noise [R, layers, V, width]; adds losses to r.partial."""
        own = (index,) if noise is None else (index, noise)

        def mean_loss(network: Callable[..., Tensor], index: Tensor, *noise: Tensor) -> Tensor:
            batch = self.train.batch(index, shape, edges=self.model.edge_dim > 0)
            each = losses(self.train.data, network(batch, *noise), batch.y) * batch.valid
            return each.sum() / batch.valid.sum()

        mean_losses = self.descend(r, lambda theta: self.lifted.map(theta, r.state, mean_loss, *own, training=True))
        r.partial.add_(mean_losses * (index >= 0).sum(1))

    @torch.no_grad()
    def predict(self, theta: Tensor, state: Tensor, graphs: DeviceSplit) -> Tensor:
        """The predictions for the graphs of a split that are `taken`, its first, [R, G, outputs]."""
        return self.predict_batches(theta, state, graphs, *_on(theta.device, graphs, self.evaluated(graphs)))

    @torch.no_grad()
    def predict_batches(self, theta: Tensor, state: Tensor, graphs: DeviceSplit, rows: Tensor, shape: Shape) -> Tensor:
        """The same for batches that lie on the device; each replica has its own copy, as in training.

        So the kernels that are compiled for training serve here too, however many replicas are left.
        """

        def predict(network: Callable[..., Tensor], index: Tensor) -> Tensor:
            return network(graphs.batch(index, shape, edges=self.model.edge_dim > 0))

        parts = [self.lifted.map(theta, state, predict, row.expand(len(theta), -1)) for row in rows]
        return torch.cat(parts, dim=1)[:, : len(graphs)]


def _on(device: torch.device, graphs: DeviceSplit, batches: NDArray[np.int64]) -> tuple[Tensor, Shape]:
    return torch.from_numpy(batches).to(device), shape_of(graphs, batches)


class _Session:
    """Some replicas in training: what is recorded for them, and the buffers that it reads."""

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
        """The batches that are left of this epoch; True with the last."""
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
        self.validate()
        trainer, graphs = self.trainer, self.trainer.validation
        of = (graphs.data, self.predictions, graphs.y[: self.predictions.shape[1]], trainer.model.batch)
        numbers = (measure(*of) for measure in (criterion, metric))
        trainer.end_epoch(self.replicas, taken, *numbers)

    def _step(self, row: Tensor, shape: Shape, epoch: int, position: int) -> None:
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
        trainer, r, model, drawn = self.trainer, self.replicas, self.trainer.model, self._drawn_for(shape)
        if drawn not in self.noise:
            sizes = (len(r), model.layers, drawn.nodes, max(model.hidden, model.out))
            self.noise[drawn] = r.theta.new_zeros(sizes) if model.dropout > 0 else None
        noise = None if self.noise[drawn] is None else self.noise[drawn][:, :, : shape.nodes]
        step = lambda: trainer.step(r, self.index, shape, noise)  # noqa: E731
        return _recorded(step, r.tensors().values(), self.device)

    def _drawn_for(self, shape: Shape) -> Shape:
        """The shape that noise is drawn for, the first nodes of which are those of the batch: no number of a training
        is another because it has more shapes."""
        return self.trainer.usual if shape <= self.trainer.usual else self.trainer.largest

    def _evaluation(self) -> tuple[Tensor, Callable[[], object]]:
        """Room for the predictions on the validation set, and the call that makes them."""
        trainer, r, graphs = self.trainer, self.replicas, self.trainer.validation
        rows, shape = _on(self.device, graphs, trainer.evaluated(graphs))
        out = r.theta.new_zeros(len(r), trainer.taken(graphs), graphs.data.outputs)
        work = lambda: out.copy_(trainer.predict_batches(r.theta, r.state, graphs, rows, shape))  # noqa: E731
        return out, _recorded(work, (), self.device)


def _recorded(work: Callable[[], object], changed: Iterable[Tensor], device: torch.device) -> Callable[[], object]:
    """On a GPU a recording of `work`, elsewhere `work` itself."""
    return Recording([work], changed) if device.type == "cuda" else work


def _mix(*numbers: int) -> int:
    """A seed of its own for each tuple of numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


class Figure6Run(Run):
    """One cell under one profile on one device."""

    columns = ("train", "validation", "metric")
    profiles = PROFILES
    collections = ("test",)

    def __init__(self, cell: Cell, profile: Profile, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        super().__init__(cell, profile, device, dtype)
        self.dataset: Dataset = DATASETS[cell.training]
        self.model: Hyperparameters = HYPERPARAMETERS[cell.training, cell.model, cell.variant]
        self.epochs = profile.epochs or self.model.epochs
        self.seeds = list(range(profile.seeds or self.model.seeds))

    @property
    def configuration(self) -> dict:
        """All that decides the result besides the data, as JSON."""
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
        """What a checkpoint must have in common with this run: the data too."""
        return super().identity() | {"data": self.data.facts["sha256"]}

    def matches(self, result: Result) -> bool:
        """Whether a result is this run's: of its configuration and, if they are here, of its data."""
        of = result.facts["data"]["sha256"]
        try:
            data = storage.facts_of(self.cell.training)["sha256"]
        except MissingData:
            data = of
        return (result.hash, of) == (self.hash, data)

    @property
    def other_data(self) -> str | None:
        """What the result at its place was trained on, where another data set has been made here."""
        if not (self.result.exists() and storage.archive_path(self.cell.training).exists()):
            return None
        try:
            of = load(self.result).facts["data"]
        except ValueError:  # damaged: said by what reads it
            return None
        here = storage.facts_of(self.cell.training)
        return None if of["sha256"] == here["sha256"] else training_set(self.dataset.name, of)

    @property
    def aside(self) -> "Figure6Run":
        """Where the result at its place, with its weights, makes room for one of other data: no other is there yet."""
        of = load(self.result).facts["data"]
        spec = f"{self.cell.spec}-{re.split('[^a-z]', of['train'])[0]}-{of['sha256'][:8]}"
        specs = itertools.chain([spec], (f"{spec}-{again}" for again in itertools.count(2)))
        runs = (Figure6Run(replace(self.cell, spec=name), self.profile) for name in specs)
        return next(run for run in runs if not run.result.exists())

    def record(self) -> Path:
        """As any cell; a result of other data is kept aside, the file of numbers last."""
        if self.other_data is not None:
            for old, new in zip(self._files, self.aside._files, strict=True):
                if old.exists():
                    new.parent.mkdir(parents=True, exist_ok=True)
                    old.rename(new)
        return super().record()

    @property
    def _files(self) -> tuple[Path, ...]:
        return self.weights, self.shipped, self.result

    @property
    def ready(self) -> bool:
        """Whether its data set is here."""
        return storage.is_here(self.cell.training)

    # ---- data and networks ----

    @cached_property
    def data(self) -> storage.Splits:
        """The data set, thinned to the profile."""
        return storage.load(self.cell.training, graphs=self.profile.graphs, device=self.device)

    @cached_property
    def splits(self) -> dict[str, DeviceSplit]:
        """Its splits on the device, without the graphs that are too small for the released code."""
        return {s: DeviceSplit(self.dataset, self.data.large_enough(s), self.device, self.dtype) for s in SPLITS}

    def network(self, seed: int) -> Network:
        """The network of one seed, freshly drawn."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = Network(self.model, self.dataset, self.data.degrees).to(self.dtype)
        for module in network.modules():
            if isinstance(module, CombinedAggregation):
                module.reset_parameters()  # in float64, δ is not to be rounded to float32 on the way
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
        return Replicas.fresh(self.seeds, theta, state, theta.new_ones(len(theta), 1), self.model.learning_rate)

    def best(self) -> float:
        """The best metric on validation."""
        numbers = self.replicas.best_metric[self.replicas.best.isfinite()]
        if len(numbers) == 0:
            return torch.nan
        return (numbers.min() if self.dataset.task == "regression" else numbers.max()).item()

    # ---- test ----

    def test(self, collection: str) -> dict[str, Tensor]:
        """The metric on the test set, [R, 1], with the weights best on validation and, if they are here, the last."""
        r, graphs = self.replicas, self.splits[collection]
        weights = {"best": (r.best_theta, r.best_state)} | ({"last": (r.theta, r.state)} if self.last_kept else {})
        predictions = {name: self.trainer.predict(*rows, graphs) for name, rows in weights.items()}
        y = graphs.y[: self.trainer.taken(graphs)]
        found = {name: metric(graphs.data, p, y, self.model.batch) for name, p in predictions.items()}
        return {f"{collection}/{name}": values.cpu().unsqueeze(1) for name, values in found.items()}

    def kept_tensors(self) -> dict[str, Tensor]:
        """The best weights, and the last where they are what the released protocol reports."""
        reported = {"last_theta": self.replicas.theta, "last_state": self.replicas.state}
        return super().kept_tensors() | (reported if self.dataset.reported == "last" else {})

    def facts(self) -> dict:
        """Data, metric, parameters, δ, and the learning rate that each replica ended with."""
        graphs = {split: self.trainer.taken(graphs) for split, graphs in self.splits.items()}
        return {
            "data": self.data.facts | {"graphs": graphs},
            "metric": self.dataset.metric,
            "parameters": count_parameters(self.trainer.lifted.network),
            "delta": self.data.degrees.delta,
            "learning_rates": [float(f"{rate:.6g}") for rate in self.replicas.learning_rate.flatten().tolist()],
        }


def older(result: Result) -> str:
    """What was otherwise when a result was recorded, in words; empty if it is of what is trained now."""
    if result.configuration["batches"] != "shared by the seeds":
        return ""
    errors = "and errors were averaged over graphs, not batches" if result.facts["metric"] == "MAE" else ""
    return f"not quite as released: the seeds shared their batches, {errors or 'and δ counted the smallest molecules'}"


def summary(result: Result) -> dict[str, tuple[float, float]]:
    """Mean and deviation (n - 1) over the replicas of the test metric, with the best and with the last weights."""
    rows = {}
    for name in ("best", "last"):
        found = [replica.test[f"test/{name}"][0] for replica in result.replicas]
        values = [value for value in found if value is not None]
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        rows[name] = (float(np.mean(values)) if values else float("nan"), deviation)
    return rows
