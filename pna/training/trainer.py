"""Training of many replicas together, to the end or to a deadline, and on from where it stopped.

Every replica has its own weights, Adam moments, learning rate, tasks, early stopping and best weights. One that
is finished, by patience, by its learning rate or because its loss is no longer finite, leaves, and costs nothing more.
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
    """When a replica ends and how its weights move; None where a benchmark has no such rule."""

    learning_rate: float
    weight_decay: float
    epochs: int  # at most
    patience: int | None = None  # epochs without improvement, after which it ends
    halve_after: int | None = None  # epochs without improvement, after which its learning rate is halved
    min_learning_rate: float | None = None  # below it, it ends
    infinite_validation: bool = False  # D13: whether a validation loss that is not finite is borne, and not the end


class Trainer(ABC):
    """Replicas of one network on one training and one validation set. A benchmark says what a step is."""

    def __init__(self, network: nn.Module, settings: Settings) -> None:
        self.lifted, self.settings = Lifted(network), settings
        self._copy_back = _nothing

    @abstractmethod
    def stepper(self, replicas: Replicas) -> Callable[[], bool]:
        """A call that trains these replicas a little further, in place, and tells whether their epoch is whole."""

    def epochs(self, replicas: Replicas) -> Iterator[Tensor]:
        """Trains epoch after epoch, in place, until every replica is finished; yields which of them took part."""
        return (index for index in self.steps(replicas) if index is not None)

    def steps(self, replicas: Replicas) -> Iterator[Tensor | None]:
        """The same in smaller steps, so that a long epoch can be stopped within: None until the epoch is whole.

        The caller may stop at any of them and go on later from the same `replicas`, which `settle` brings up to date.
        """
        index = self.running(replicas)
        while len(index):
            working = replicas if len(index) == len(replicas) else replicas.rows(index)
            step, remaining = self.stepper(working), index
            self._copy_back = _nothing if working is replicas else partial(replicas.put, index, working)
            while len(remaining) == len(index):
                whole = step()
                if whole:
                    self.sync()
                yield index if whole else None
                if whole:
                    remaining = self.running(replicas)
            index = remaining

    def sync(self) -> None:
        """Brings `replicas` up to date within an epoch: where some train on alone, they are copied back only with
        whole epochs, since on a GPU that takes a good part of a step."""
        self._copy_back()

    def running(self, replicas: Replicas) -> Tensor:
        """The replicas that are not finished."""
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
        """One step of Adam on the losses of theta, [R, P] -> [R], which are returned."""
        theta = r.theta.detach().requires_grad_()
        found = losses(theta)
        (grad,) = torch.autograd.grad(found, theta, torch.ones_like(found))
        with torch.no_grad():
            r.step.add_(1)
            adam_step(r.theta, grad, r.m, r.v, r.step, r.learning_rate, r.weight_decay)
        return found.detach()

    @torch.no_grad()
    def end_epoch(self, r: Replicas, summed: int, validation: Tensor, metric: Tensor) -> None:
        """After `summed` losses were added up in r.partial: schedule, early stopping and the best weights so far."""
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
            kept = getattr(r, {"validation": "best"}.get(name, f"best_{name}"))
            now = getattr(r, name)
            torch.where(better if now.dim() == 1 else better.unsqueeze(1), now, kept, out=kept)


def _nothing() -> None:
    """For replicas that are trained where they are."""
