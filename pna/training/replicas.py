"""Replicas: many sets of weights for one network, trained at once.

The paper trains every model ten times on the same batches in the same order. The weights of R replicas are the rows of
one matrix theta, [R, P], and their running statistics those of another, state, [R, Q]. torch.func.vmap applies the
network to all of them at once. The aggregation sees replicas as channels or, where each replica has its own batches, as
one large graph.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.func import functional_call, vmap

from pna.products import wide

__all__ = ["Lifted", "Replicas"]

LINE = 64  # numbers in a line of memory
SHORT = 2**31  # up to so many weights, a position fits into 32 bits


@dataclass
class Replicas:
    """The state of R replicas in training, which is what a checkpoint holds; every tensor has R rows."""

    seed: Tensor  # [R] seed of the initialisation and of random numbers in training
    theta: Tensor  # [R, P] weights
    state: Tensor  # [R, Q] running statistics
    m: Tensor  # [R, P] Adam's moments
    v: Tensor  # [R, P]
    step: Tensor  # [R, 1] Adam's steps
    learning_rate: Tensor  # [R, 1]
    weight_decay: Tensor  # [R, 1]
    tasks: Tensor  # [R, T] weight of each task in the loss, summing to 1
    epoch: Tensor  # [R] epochs trained
    position: Tensor  # [R] batches trained on in the present epoch
    partial: Tensor  # [R] sum of the losses on these batches
    train: Tensor  # [R] training loss of the last epoch
    validation: Tensor  # [R] validation loss of the last epoch
    metric: Tensor  # [R] validation metric of the last epoch
    plateau: Tensor  # [R] lowest validation loss that the learning rate schedule has seen
    waited: Tensor  # [R] epochs since then
    best: Tensor  # [R] lowest validation loss
    best_metric: Tensor  # [R] validation metric in that epoch
    best_epoch: Tensor  # [R] that epoch
    best_theta: Tensor  # [R, P]
    best_state: Tensor  # [R, Q]
    diverged: Tensor  # [R] whether the loss was not finite

    @classmethod
    def fresh(
        cls,
        seeds: Sequence[int],
        theta: Tensor,
        state: Tensor,
        tasks: Tensor,
        learning_rate: float | Sequence[float],
        weight_decay: float | Sequence[float],
    ) -> Self:
        """The replicas before the first epoch, from their weights [R, P], statistics [R, Q] and task weights [R, T].

        Learning rate and weight decay are one for all replicas, or one for each.
        """
        R, device = len(theta), theta.device
        counts = {"epoch", "position", "waited", "best_epoch"}
        infinite = {"train", "validation", "metric", "plateau", "best", "best_metric"}
        return cls(
            seed=torch.tensor(list(seeds), device=device),
            theta=theta.clone(),
            state=state.clone(),
            m=torch.zeros_like(theta),
            v=torch.zeros_like(theta),
            step=theta.new_zeros(R, 1),
            learning_rate=_column(theta, learning_rate),
            weight_decay=_column(theta, weight_decay),
            tasks=tasks / tasks.sum(1, keepdim=True),
            partial=torch.zeros(R, dtype=torch.double, device=device),
            best_theta=theta.clone(),
            best_state=state.clone(),
            diverged=torch.zeros(R, dtype=torch.bool, device=device),
            **{name: torch.zeros(R, dtype=torch.long, device=device) for name in counts},
            **{name: torch.full((R,), math.inf, dtype=torch.double, device=device) for name in infinite},
        )

    def __len__(self) -> int:
        return len(self.theta)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def rows(self, index: Tensor) -> Self:
        """A copy of the replicas with these rows."""
        return type(self)(**{name: t[index] for name, t in self.tensors().items()})

    def parts(self, count: int) -> list[Self]:
        """Split the replicas into at most `count` parts, which share their memory with the whole."""
        count = min(count, len(self))
        views = {name: t.tensor_split(count) for name, t in self.tensors().items()}
        return [type(self)(**{name: t[k] for name, t in views.items()}) for k in range(count)]

    def put(self, index: Tensor, other: Self) -> None:
        """Overwrite the replicas of these rows with `other`."""
        for name, t in self.tensors().items():
            t[index] = getattr(other, name)


class Lifted:
    """A network lifted to replicas: it knows where each parameter lies in theta's rows, and each buffer in state's."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.parameters = {name: p.shape for name, p in network.named_parameters()}
        self.buffers = {name: b.shape for name, b in network.named_buffers()}
        self._orders: dict[tuple[int, torch.device], Tensor] = {}

    def stack(self, networks: Sequence[nn.Module]) -> tuple[Tensor, Tensor]:
        """Stack the weights of R networks of this kind into theta, [R, P], and state, [R, Q]."""
        theta = torch.stack([_row(network.parameters()) for network in networks])
        return theta, torch.stack([_row(network.buffers()) for network in networks])

    def map(
        self, theta: Tensor, state: Tensor, one: Callable[..., Tensor], *inputs: Tensor, training: bool = False
    ) -> Tensor:
        """Stack one(network, row of each of `inputs`) over all replicas; training updates `state` in place."""
        self.network.train(training)

        def single(parameters: dict[str, Tensor], buffers: dict[str, Tensor], *rows: Tensor) -> Tensor:
            return one(lambda *batch: functional_call(self.network, (parameters, buffers), batch), *rows)

        return vmap(single)(self._parameters(theta), _unpack(state, self.buffers), *inputs)

    def _parameters(self, theta: Tensor) -> dict[str, Tensor]:
        """The parameters by name, [R, *shape] each, copied so that each is contiguous and no kernel needs a copy."""
        key = len(theta), theta.device
        if key not in self._orders:
            places = _unpack(torch.arange(theta.numel()).view(theta.shape), self.parameters).values()
            gaps = _gaps(self.parameters.values(), len(theta))
            parts = [part for gap, t in zip(gaps, places, strict=True) for part in (t.new_zeros(gap), t.flatten())]
            order = torch.cat(parts)
            self._orders[key] = (order.int() if theta.numel() <= SHORT else order).to(theta.device)
        rows = _Unpacked.apply(theta, self._orders[key], list(self.parameters.values()))
        return dict(zip(self.parameters, rows, strict=True))

    def weights(self, theta: Tensor, state: Tensor) -> dict[str, Tensor]:
        """The state_dict of one replica, from its rows [P] and [Q]."""
        rows = _unpack(theta.unsqueeze(0), self.parameters) | _unpack(state.unsqueeze(0), self.buffers)
        return {name: t.squeeze(0) for name, t in rows.items()}


class _Unpacked(Function):
    """Gathers theta [R, P] into the parameters, [R, *shape] each; `order` is where their numbers lie in theta."""

    @staticmethod
    def forward(ctx: FunctionCtx, theta: Tensor, order: Tensor, shapes: list[torch.Size]) -> tuple[Tensor, ...]:
        R = len(theta)
        sizes = (size for gap, shape in zip(_gaps(shapes, R), shapes, strict=True) for size in (gap, R * shape.numel()))
        rows = theta.flatten().index_select(0, order).split(list(sizes))[1::2]
        return tuple(t.view(R, *shape) for t, shape in zip(rows, shapes, strict=True))

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Tensor) -> tuple[Tensor, None, None]:
        return torch.cat([grad.reshape(len(grad), -1) for grad in grads], dim=1), None, None


def _gaps(shapes: Iterable[torch.Size], R: int) -> list[int]:
    """The padding before each parameter of R replicas: a wide matrix starts at a line of memory, which makes products
    faster.
    """
    gaps, place = [], 0
    for shape in shapes:
        gaps.append(-place % LINE if wide(shape) else 0)
        place += gaps[-1] + R * shape.numel()
    return gaps


def _column(theta: Tensor, values: float | Sequence[float]) -> Tensor:
    """One value for all replicas, or one for each, as [R, 1]."""
    return theta.new_tensor(values).expand(len(theta)).unsqueeze(1).clone()


def _row(tensors: Iterable[Tensor]) -> Tensor:
    """Concatenate tensors into one row."""
    rows = [t.detach().flatten() for t in tensors]
    return torch.cat(rows) if rows else torch.empty(0)  # a network may have no running statistics


def _unpack(rows: Tensor, shapes: dict[str, torch.Size]) -> dict[str, Tensor]:
    """Split rows [R, ·] into views [R, *shape], by name."""
    columns = rows.split([math.prod(shape) for shape in shapes.values()], dim=1)
    return {name: c.view(len(rows), *shape) for c, (name, shape) in zip(columns, shapes.items(), strict=True)}
