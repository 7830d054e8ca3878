"""Training of many replicas together, to the end or to a deadline, and on from where it stopped.

Every replica has its own weights, Adam moments, learning rate, tasks, early stopping and best weights. One that
is finished, by patience or because its loss is no longer finite, leaves, and costs nothing more.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pna.networks import GraphBatch
from pna.training.adam import adam_step, zero_moments
from pna.training.recording import Recording
from pna.training.replicas import Lifted, Rows

__all__ = ["Replicas", "Settings", "Trainer"]


@dataclass(frozen=True)
class Settings:
    """Section 4, "Model training", and the released code's values where the paper gives none."""

    learning_rate: float = 0.003
    weight_decay: float = 1e-6
    epochs: int = 10_000
    patience: int = 1_000


@dataclass
class Replicas(Rows):
    """All that changes while R replicas train: every tensor has R rows. What a checkpoint holds, and no more."""

    theta: Tensor  # [R, P] weights
    state: Tensor  # [R, Q] running statistics
    m: Tensor  # [R, P] Adam's moments
    v: Tensor  # [R, P]
    step: Tensor  # [R, 1] Adam's steps
    learning_rate: Tensor  # [R, 1]
    tasks: Tensor  # [R, 6] weight of each task in the loss, summing to 1
    epoch: Tensor  # [R] epochs trained
    position: Tensor  # [R] batches of the present epoch trained on so far
    partial: Tensor  # [R] sum of the losses on them
    train: Tensor  # [R] loss of the last epoch
    validation: Tensor  # [R]
    best: Tensor  # [R] least validation loss
    best_epoch: Tensor  # [R]
    best_theta: Tensor  # [R, P]
    best_state: Tensor  # [R, Q]
    diverged: Tensor  # [R] whether the loss was not finite

    @classmethod
    def fresh(cls, theta: Tensor, state: Tensor, tasks: Tensor, learning_rate: float) -> "Replicas":
        """Before the first epoch."""
        R = len(theta)
        m, v = zero_moments(theta)
        column, count = theta.new_zeros(R, 1), torch.zeros(R, dtype=torch.long, device=theta.device)
        infinite = theta.new_full((R,), torch.inf)
        return cls(
            theta.clone(),
            state.clone(),
            m,
            v,
            column.clone(),
            column + learning_rate,
            tasks / tasks.sum(1, keepdim=True),
            count.clone(),
            count.clone(),
            theta.new_zeros(R),
            infinite.clone(),
            infinite.clone(),
            infinite.clone(),
            count.clone(),
            theta.clone(),
            state.clone(),
            torch.zeros(R, dtype=torch.bool, device=theta.device),
        )


class Trainer:
    """Replicas of one network on one training and one validation set.

    A training loss that is not finite ends a replica. A validation loss that is not finite ends it, too, unless
    `infinite_validation` (D13) makes it an epoch without improvement.
    """

    def __init__(
        self,
        network: nn.Module,
        train: Sequence[GraphBatch],
        validation: Sequence[GraphBatch],
        settings: Settings,
        infinite_validation: bool = False,
    ) -> None:
        self.lifted = Lifted(network)
        self.train, self.validation, self.settings = train, validation, settings
        self.infinite_validation = infinite_validation

    def epochs(self, replicas: Replicas) -> Iterator[Tensor]:
        """Trains epoch after epoch, in place, until every replica is finished; yields which of them took part."""
        return (index for index in self.steps(replicas) if index is not None)

    def steps(self, replicas: Replicas) -> Iterator[Tensor | None]:
        """The same in smaller steps, so that a long epoch can be stopped within: None until the epoch is whole.

        The caller may stop at any of them and go on later from the same `replicas`. A step is a batch on a CPU, and an
        epoch on a GPU.
        """
        index = self.running(replicas)
        while len(index):
            working = replicas.rows(index)
            step = self._step_of(working)
            remaining = index
            while len(remaining) == len(index):
                whole = step()
                replicas.put(index, working)
                yield index if whole else None
                if whole:
                    remaining = self.running(replicas)
            index = remaining

    def running(self, replicas: Replicas) -> Tensor:
        """The replicas that are not finished."""
        waited = replicas.epoch - replicas.best_epoch
        over = (replicas.epoch >= self.settings.epochs) | (waited >= self.settings.patience) | replicas.diverged
        return (~over).nonzero().flatten()

    def _step_of(self, replicas: Replicas) -> Callable[[], bool]:
        """A step as a call that tells whether the epoch is whole; on a GPU the epoch is recorded once and replayed."""
        if not replicas.theta.is_cuda:
            return lambda: self._train_batch(replicas)
        if replicas.position.any():
            raise ValueError(
                "this training was stopped within an epoch on a CPU: go on there, to the epoch's end at least"
            )
        epoch = Recording(lambda: self._train_epoch(replicas), replicas.tensors().values())
        return lambda: epoch() or True

    def _train_epoch(self, r: Replicas) -> None:
        for batch in self.train:
            r.partial.add_(self._step(r, batch))
        self._end_epoch(r)

    def _train_batch(self, r: Replicas) -> bool:
        r.partial.add_(self._step(r, self.train[int(r.position[0])]))
        r.position.add_(1)
        whole = int(r.position[0]) == len(self.train)
        if whole:
            self._end_epoch(r)
        return whole

    @torch.no_grad()
    def _end_epoch(self, r: Replicas) -> None:
        """Validation, early stopping and the best weights so far."""
        errors = self.lifted.set_errors(r.theta, r.state, self.validation)  # [R, 6]
        r.epoch.add_(1)
        r.train.copy_(r.partial / len(self.train))
        r.partial.zero_()
        r.position.zero_()
        r.validation.copy_(_loss(r, errors))
        watched = r.train if self.infinite_validation else r.train + r.validation
        r.diverged.logical_or_(~torch.isfinite(watched))
        better = (r.validation < r.best) & ~r.diverged
        r.best.copy_(torch.where(better, r.validation, r.best))
        r.best_epoch.copy_(torch.where(better, r.epoch, r.best_epoch))
        r.best_theta.copy_(torch.where(better.unsqueeze(1), r.theta, r.best_theta))
        r.best_state.copy_(torch.where(better.unsqueeze(1), r.state, r.best_state))

    def _step(self, r: Replicas, batch: GraphBatch) -> Tensor:
        """One step of Adam on a batch; returns the loss of each replica, [R]."""
        theta = r.theta.detach().requires_grad_()
        losses = _loss(r, self.lifted.errors(theta, r.state, batch, training=True))
        (grad,) = torch.autograd.grad(losses.sum(), theta)
        with torch.no_grad():
            r.step.add_(1)
            adam_step(r.theta, grad, r.m, r.v, r.step, r.learning_rate, self.settings.weight_decay)
        return losses.detach()


def _loss(r: Replicas, errors: Tensor) -> Tensor:
    """The mean error over each replica's tasks, [R]; the others add nothing, not even where they overflow."""
    return torch.where(r.tasks > 0, r.tasks * errors, 0).sum(1)
