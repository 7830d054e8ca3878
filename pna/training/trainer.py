"""The trainer of many replicas of a network at once.

Every replica has its own weights, Adam moments, learning rate, tasks, early stopping and best weights. A replica is
finished when its patience is over, its learning rate is too small or its loss is no longer finite. It then leaves the
batch of replicas, so that it costs no more time.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from pna.training.adam import adam_step
from pna.training.replicas import Lifted, Replicas
from pna.training.schedule import plateau_step

__all__ = ["Settings", "Trainer"]


@dataclass(frozen=True)
class Settings:
    """The optimiser's settings and the rules by which a replica ends; None for a rule that a benchmark lacks."""

    learning_rate: float
    weight_decay: float
    epochs: int  # at most
    patience: int | None = None  # epochs without improvement after which a replica ends
    halve_after: int | None = None  # epochs without improvement after which its learning rate is halved
    min_learning_rate: float | None = None  # a replica ends below it
    infinite_validation: bool = False  # D13: whether a replica goes on after a validation loss that is not finite


class Trainer(ABC):
    """Trains replicas of one network on one training and one validation set; a subclass says what a step is."""

    def __init__(self, network: nn.Module, settings: Settings) -> None:
        self.lifted, self.settings = Lifted(network), settings
        self._copy_back = _nothing

    @abstractmethod
    def stepper(self, replicas: Replicas) -> Callable[[], bool]:
        """Return a function that trains the replicas one step, in place, and tells whether this completed an epoch."""

    def epochs(self, replicas: Replicas) -> Iterator[Tensor]:
        """Train in place until every replica is finished; yield the rows of those that took part in each epoch."""
        return (index for index in self.steps(replicas) if index is not None)

    def steps(self, replicas: Replicas) -> Iterator[Tensor | None]:
        """Train as `epochs` does, step by step; yield None for a step within an epoch.

        The caller may stop after any step, call `sync`, and go on later from the same `replicas`.
        """
        index = self.running(replicas)
        while len(index):
            working = replicas if len(index) == len(replicas) else replicas.rows(index)
            step, same = self.stepper(working), True
            self._copy_back = _nothing if working is replicas else partial(replicas.put, index, working)
            while same:
                whole = step()
                if whole:
                    self.sync()
                yield index if whole else None
                if whole:
                    remaining = self.running(replicas)
                    same = torch.equal(remaining, index)  # in a search, one may take another's place
            index = remaining

    def sync(self) -> None:
        """Bring `replicas` up to date within an epoch.

        Once some replicas are finished the others train on as copies, which are copied back at the end of an epoch:
        on a GPU, copying takes a good part of a step.
        """
        self._copy_back()

    def running(self, replicas: Replicas) -> Tensor:
        """Rows of the replicas that are not finished."""
        over = self.out_of_patience(replicas) | self.too_slow(replicas) | replicas.diverged
        return (~(over | (replicas.epoch >= self.settings.epochs))).nonzero().flatten()

    def out_of_patience(self, replicas: Replicas) -> Tensor:
        """Whether a replica has waited for an improvement long enough, [R]."""
        never = self.settings.patience is None
        waited = replicas.epoch - replicas.best_epoch
        return torch.zeros_like(replicas.diverged) if never else waited >= self.settings.patience

    def too_slow(self, replicas: Replicas) -> Tensor:
        """Whether a replica's learning rate has become too small, [R]."""
        never = self.settings.min_learning_rate is None
        rate = replicas.learning_rate.flatten()
        return torch.zeros_like(replicas.diverged) if never else rate < self.settings.min_learning_rate

    def descend(self, r: Replicas, losses: Callable[[Tensor], Tensor]) -> Tensor:
        """Take one step of Adam on `losses`, a function of theta, [R, P] -> [R]; return their values, [R]."""
        theta = r.theta.detach().requires_grad_()
        values = losses(theta)
        (grad,) = torch.autograd.grad(values, theta, torch.ones_like(values))
        with torch.no_grad():
            r.step.add_(1)
            adam_step(r.theta, grad, r.m, r.v, r.step, r.learning_rate, r.weight_decay)
        return values.detach()

    @torch.no_grad()
    def end_epoch(self, r: Replicas, summed: int, validation: Tensor, metric: Tensor) -> None:
        """End an epoch: update losses, learning rates, early stopping and the best weights so far, all in place.

        r.partial holds the sum of `summed` training losses; `validation` is minimised and `metric` reported, [R] each.
        """
        r.epoch.add_(1)
        r.position.zero_()
        r.train.copy_(r.partial / summed)
        r.partial.zero_()
        r.validation.copy_(validation)
        r.metric.copy_(metric)
        watched = r.train if self.settings.infinite_validation else r.train + r.validation
        r.diverged.logical_or_(~torch.isfinite(watched))
        if self.settings.halve_after is not None:
            plateau_step(r.validation, r.plateau, r.waited, r.learning_rate, self.settings.halve_after)
        better = (r.validation < r.best) & ~r.diverged
        for name in ("validation", "metric", "epoch", "theta", "state"):
            best = getattr(r, {"validation": "best"}.get(name, f"best_{name}"))
            now = getattr(r, name)
            torch.where(better if now.dim() == 1 else better.unsqueeze(1), now, best, out=best)


def _nothing() -> None:
    """Copy nothing back: the replicas are trained in place."""
