"""Training of many replicas on one real-world data set, which lies on the device with them.

All replicas take the same batches in the same order, drawn anew for every epoch: there the released code differs, whose
seeds shuffle each for themselves. Initialisation, dropout, learning-rate schedule, end and best weights are
each replica's own, and one that is finished leaves. On a GPU a training step (batch, forward, backward, Adam) is
recorded once for each shape of batches and replayed, and nothing is read by the host within an epoch. The noise
for dropout is drawn before each step by a generator seeded with seed, epoch and batch, so that a training that was
interrupted goes on with the same numbers.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pna.realworld.batches import NO_GRAPH, Resident, Shape, shape_of
from pna.realworld.metrics import criterion, losses, metric
from pna.realworld.models import LAYERS, RealModel
from pna.realworld.networks import RealNetwork
from pna.realworld.replicas import LiftedNetwork, RealReplicas
from pna.realworld.schedule import plateau_step
from pna.training.adam import adam_step
from pna.training.recording import Recording

__all__ = ["RealTrainer", "epoch_batches"]

EVALUATED_TOGETHER = 512  # graphs; a prediction does not depend on its batch then


def epoch_batches(graphs: int, size: int, epoch: int | None = None) -> NDArray[np.int64]:
    """The batches of an epoch, [batches, size], NO_GRAPH filling up the last; in the given order without an epoch."""
    order = np.arange(graphs) if epoch is None else np.random.default_rng([0, epoch]).permutation(graphs)
    filled = np.full(-(-graphs // size) * size, NO_GRAPH)
    filled[:graphs] = order
    return filled.reshape(-1, size)


class RealTrainer:
    """Replicas of one network on one training and one validation set."""

    def __init__(
        self, network: RealNetwork, model: RealModel, train: Resident, validation: Resident, epochs: int
    ) -> None:
        self.train, self.validation, self.model, self.epochs_wanted = train, validation, model, epochs
        self.lifted = LiftedNetwork.of(network, train.y.device)
        self.size = min(model.batch, len(train))
        self.usual, self.largest = train.usual(self.size), train.largest(self.size)

    # ---- epochs ----

    def epochs(self, replicas: RealReplicas) -> Iterator[Tensor]:
        """Trains epoch after epoch, in place, until every replica is finished; yields which of them took part."""
        return (index for index in self.steps(replicas) if index is not None)

    def steps(self, replicas: RealReplicas) -> Iterator[Tensor | None]:
        """The same batch by batch: None until the epoch is whole. The caller may stop at any and go on later."""
        index = self.running(replicas)
        while len(index):
            working = replicas if len(index) == len(replicas) else replicas.rows(index)
            session = _Session(self, working)
            remaining = index
            while len(remaining) == len(index):
                for whole in session.epoch():
                    if working is not replicas:
                        replicas.put(index, working)
                    yield index if whole else None
                remaining = self.running(replicas)
            index = remaining

    def running(self, replicas: RealReplicas) -> Tensor:
        """The replicas that are not finished."""
        slow = replicas.learning_rate.flatten() < self.model.min_learning_rate
        return (~((replicas.epoch >= self.epochs_wanted) | slow | replicas.diverged)).nonzero().flatten()

    # ---- a step and an evaluation, recorded or not ----

    def step(self, r: RealReplicas, index: Tensor, shape: Shape, noise: Tensor | None) -> None:
        """One step of Adam on the graphs `index`; adds up the losses in r.partial."""
        batch = self.train.batch(index, shape, edges=self.model.edge_dim > 0)
        theta = r.theta.detach().requires_grad_()
        predictions = self.lifted.predict(theta, r.state, batch, noise, training=True)  # [R, B, outputs]
        sums = (losses(self.train.data, predictions, batch.y) * batch.valid).sum(1)  # [R]
        (grad,) = torch.autograd.grad((sums / batch.valid.sum()).sum(), theta)
        with torch.no_grad():
            r.step.add_(1)
            adam_step(r.theta, grad, r.m, r.v, r.step, r.learning_rate, self.model.weight_decay)
            r.partial.add_(sums)

    @torch.no_grad()
    def predict(self, theta: Tensor, state: Tensor, graphs: Resident) -> Tensor:
        """The predictions for every graph of a split, [R, G, outputs]."""
        batches = epoch_batches(len(graphs), min(EVALUATED_TOGETHER, len(graphs)))
        shape = shape_of(graphs, batches)
        rows = torch.from_numpy(batches).to(theta.device)
        return self._predict(theta, state, graphs, rows, shape)

    @torch.no_grad()
    def _predict(self, theta: Tensor, state: Tensor, graphs: Resident, rows: Tensor, shape: Shape) -> Tensor:
        edges = self.model.edge_dim > 0
        parts = [self.lifted.predict(theta, state, graphs.batch(row, shape, edges)) for row in rows]
        return torch.cat(parts, dim=1)[:, : len(graphs)]

    @torch.no_grad()
    def end_epoch(self, r: RealReplicas, predictions: Tensor) -> None:
        """From the predictions on the validation set: schedule, and the best weights so far."""
        data, y = self.validation.data, self.validation.y
        r.epoch.add_(1)
        r.position.zero_()
        r.train.copy_(r.partial / len(self.train))
        r.partial.zero_()
        r.validation.copy_(criterion(data, predictions, y))
        r.metric.copy_(metric(data, predictions, y))
        r.diverged.logical_or_(~torch.isfinite(r.train + r.validation))
        plateau_step(r.validation, r.plateau, r.waited, r.learning_rate, self.model.patience)
        better = (r.validation < r.best) & ~r.diverged
        pairs = (("best", "validation"), ("best_metric", "metric"), ("best_epoch", "epoch"))
        for kept, now in (*pairs, ("best_theta", "theta"), ("best_state", "state")):
            old, new = getattr(r, kept), getattr(r, now)
            old.copy_(torch.where(better if old.dim() == 1 else better.unsqueeze(1), new, old))


class _Session:
    """Some replicas in training: what is recorded for them, and the buffers that it reads."""

    def __init__(self, trainer: RealTrainer, replicas: RealReplicas) -> None:
        self.trainer, self.replicas = trainer, replicas
        self.device = replicas.theta.device
        self.seeds = replicas.seed.tolist()
        self.generator = torch.Generator(self.device)
        self.index = torch.full((trainer.size,), NO_GRAPH, device=self.device)
        self.noise: dict[Shape, Tensor | None] = {}
        self.recorded: dict[Shape, Callable[[], None]] = {}
        self.validate = self._evaluation()

    def epoch(self) -> Iterator[bool]:
        """The batches that are left of this epoch; True with the last."""
        r, trainer = self.replicas, self.trainer
        number, position = int(r.epoch[0]), int(r.position[0])
        batches = epoch_batches(len(trainer.train), trainer.size, number)
        rows = torch.from_numpy(batches).to(self.device)
        for k in range(position, len(batches)):
            self._step(batches[k], rows[k], number, k)
            whole = k + 1 == len(batches)
            if whole:
                trainer.end_epoch(r, self.validate())
            yield whole

    def _step(self, batch: NDArray[np.int64], row: Tensor, epoch: int, position: int) -> None:
        trainer = self.trainer
        shape = trainer.usual if trainer.train.fits(batch, trainer.usual) else trainer.largest
        self.index.copy_(row)
        if shape not in self.recorded:
            self.recorded[shape] = self._training(shape)
        if self.noise[shape] is not None:
            for replica, seed in enumerate(self.seeds):
                self.generator.manual_seed(_mix(seed, epoch, position))
                self.noise[shape][replica].uniform_(generator=self.generator)
        self.recorded[shape]()
        self.replicas.position.fill_(position + 1)

    def _training(self, shape: Shape) -> Callable[[], None]:
        trainer, r, model = self.trainer, self.replicas, self.trainer.model
        width = max(model.hidden, model.out)
        self.noise[shape] = r.theta.new_zeros(len(r), LAYERS, shape.nodes, width) if model.dropout > 0 else None
        step = lambda: trainer.step(r, self.index, shape, self.noise[shape])  # noqa: E731
        return _recorded(step, r.tensors().values(), self.device)

    def _evaluation(self) -> Callable[[], Tensor]:
        trainer, r, graphs = self.trainer, self.replicas, self.trainer.validation
        batches = epoch_batches(len(graphs), min(EVALUATED_TOGETHER, len(graphs)))
        rows, shape = torch.from_numpy(batches).to(self.device), shape_of(graphs, batches)
        out = r.theta.new_zeros(len(r), len(graphs), graphs.data.outputs)
        recorded = _recorded(
            lambda: out.copy_(trainer._predict(r.theta, r.state, graphs, rows, shape)), (), self.device
        )

        def validate() -> Tensor:
            recorded()
            return out

        return validate


def _recorded(work: Callable[[], object], changed: Iterable[Tensor], device: torch.device) -> Callable[[], object]:
    """On a GPU a recording of `work`, elsewhere `work` itself."""
    return Recording(work, changed) if device.type == "cuda" else work


def _mix(*numbers: int) -> int:
    """A seed of its own for each tuple of numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)
