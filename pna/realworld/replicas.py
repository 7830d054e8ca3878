"""All that changes while the replicas of a real-world network train, and the network lifted to all of them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from pna.realworld.batches import RealBatch
from pna.training.replicas import Lifted, Rows

__all__ = ["LiftedNetwork", "RealReplicas"]


@dataclass
class RealReplicas(Rows):
    """Every tensor has R rows. What a checkpoint holds, and no more."""

    seed: Tensor  # [R] of initialisation and dropout
    theta: Tensor  # [R, P] weights
    state: Tensor  # [R, Q] running statistics
    m: Tensor  # [R, P] Adam's moments
    v: Tensor  # [R, P]
    step: Tensor  # [R, 1] Adam's steps
    learning_rate: Tensor  # [R, 1]
    epoch: Tensor  # [R] epochs trained
    position: Tensor  # [R] batches of the present epoch trained on so far
    partial: Tensor  # [R] sum of the losses on them
    train: Tensor  # [R] loss of the last epoch
    validation: Tensor  # [R] criterion on the validation set
    metric: Tensor  # [R] metric on it
    plateau: Tensor  # [R] the schedule's best
    waited: Tensor  # [R] epochs since then
    best: Tensor  # [R] least criterion
    best_metric: Tensor  # [R] the metric then
    best_epoch: Tensor  # [R]
    best_theta: Tensor  # [R, P]
    best_state: Tensor  # [R, Q]
    diverged: Tensor  # [R] whether the loss was not finite

    @classmethod
    def fresh(cls, seeds: list[int], theta: Tensor, state: Tensor, learning_rate: float) -> "RealReplicas":
        """Before the first epoch."""
        R, device = len(theta), theta.device

        def column(value: float) -> Tensor:
            return theta.new_full((R, 1), value)

        def count() -> Tensor:
            return torch.zeros(R, dtype=torch.long, device=device)

        def number(value: float = math.inf) -> Tensor:
            return torch.full((R,), value, dtype=torch.double, device=device)

        return cls(
            seed=torch.tensor(seeds, device=device),
            theta=theta.clone(),
            state=state.clone(),
            m=torch.zeros_like(theta),
            v=torch.zeros_like(theta),
            step=column(0),
            learning_rate=column(learning_rate),
            epoch=count(),
            position=count(),
            partial=number(0),
            train=number(),
            validation=number(),
            metric=number(),
            plateau=number(),
            waited=count(),
            best=number(),
            best_metric=number(),
            best_epoch=count(),
            best_theta=theta.clone(),
            best_state=state.clone(),
            diverged=torch.zeros(R, dtype=torch.bool, device=device),
        )

    def __len__(self) -> int:
        return len(self.theta)


class LiftedNetwork(Lifted):
    """A network lifted to replicas: theta [R, P] and state [R, Q] hold a row of weights and statistics for each."""

    def predict(
        self, theta: Tensor, state: Tensor, batch: RealBatch, noise: Tensor | None = None, training: bool = False
    ) -> Tensor:
        """[R, B, outputs]; noise [R, layers, V, width]; training moves `state` on in place."""
        self.network.train(training)
        parameters, buffers = _views(theta, self.parameters), _views(state, self.buffers)

        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], noise: Tensor | None) -> Tensor:
            return functional_call(self.network, (parameters, buffers), (batch, noise))

        return vmap(one, in_dims=(0, 0, None if noise is None else 0))(parameters, buffers, noise)

    @classmethod
    def of(cls, network: nn.Module, device: torch.device | str) -> "LiftedNetwork":
        """On a device."""
        return cls(network.to(device))


def _views(rows: Tensor, shapes: dict[str, torch.Size]) -> dict[str, Tensor]:
    """The columns of each name, [R, *shape]."""
    columns = rows.split([math.prod(shape) for shape in shapes.values()], dim=1)
    return {name: c.view(len(rows), *shape) for c, (name, shape) in zip(columns, shapes.items(), strict=True)}
