"""One network's code for many sets of weights: replicas as rows of a matrix.

The paper trains every model ten times on the same batches in the same order. The weights of R replicas are the rows of
one matrix theta, [R, P], their running statistics those of another, [R, Q]; torch.func.vmap applies the network to all
of them at once. To the aggregation the replicas are channels; where each has batches of its own, one graph.
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

LINE = 64  # numbers
SHORT = 2**31  # weights of all replicas, at most, whose places are numbers of 32 bits


@dataclass
class Replicas:
    """All that changes while R replicas train: every tensor has R rows. What a checkpoint holds, and no more."""

    seed: Tensor  # [R] of the initialisation, and of what is drawn in training
    theta: Tensor  # [R, P] weights
    state: Tensor  # [R, Q] running statistics
    m: Tensor  # [R, P] Adam's moments
    v: Tensor  # [R, P]
    step: Tensor  # [R, 1] Adam's steps
    learning_rate: Tensor  # [R, 1]
    weight_decay: Tensor  # [R, 1]
    tasks: Tensor  # [R, T] weight of each task in the loss, summing to 1
    epoch: Tensor  # [R] epochs trained
    position: Tensor  # [R] batches of the present epoch trained on so far
    partial: Tensor  # [R] sum of the losses on them
    train: Tensor  # [R] loss of the last epoch
    validation: Tensor  # [R] what is minimised on the validation set
    metric: Tensor  # [R] and what is reported of it
    plateau: Tensor  # [R] the schedule's best
    waited: Tensor  # [R] epochs since then
    best: Tensor  # [R] least of `validation`
    best_metric: Tensor  # [R] the metric then
    best_epoch: Tensor  # [R]
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
        """Replicas before their first epoch; learning rate and weight decay are one for all, or one for each."""
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
        """By name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def rows(self, index: Tensor) -> Self:
        """Some of the replicas, copied."""
        return type(self)(**{name: t[index] for name, t in self.tensors().items()})

    def parts(self, count: int) -> list[Self]:
        """The replicas in `count` parts, or as many as there are, which share their memory."""
        count = min(count, len(self))
        views = {name: t.tensor_split(count) for name, t in self.tensors().items()}
        return [type(self)(**{name: t[k] for name, t in views.items()}) for k in range(count)]

    def put(self, index: Tensor, other: Self) -> None:
        """Overwrites some of the replicas."""
        for name, t in self.tensors().items():
            t[index] = getattr(other, name)


class Lifted:
    """A network lifted to replicas: where each parameter and each buffer lies in the rows of theta and of state."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.parameters = {name: p.shape for name, p in network.named_parameters()}
        self.buffers = {name: b.shape for name, b in network.named_buffers()}
        self._orders: dict[tuple[int, torch.device], Tensor] = {}

    def stack(self, networks: Sequence[nn.Module]) -> tuple[Tensor, Tensor]:
        """theta [R, P] and state [R, Q] of networks of this kind."""
        theta = torch.stack([_row(network.parameters()) for network in networks])
        return theta, torch.stack([_row(network.buffers()) for network in networks])

    def map(
        self, theta: Tensor, state: Tensor, one: Callable[..., Tensor], *own: Tensor, training: bool = False
    ) -> Tensor:
        """one(network, row of each of `own`) for every replica, stacked; training moves `state` on in place."""
        self.network.train(training)

        def single(parameters: dict[str, Tensor], buffers: dict[str, Tensor], *own: Tensor) -> Tensor:
            return one(lambda *inputs: functional_call(self.network, (parameters, buffers), inputs), *own)

        return vmap(single)(self._parameters(theta), _unpack(state, self.buffers), *own)

    def _parameters(self, theta: Tensor) -> dict[str, Tensor]:
        """Each [R, *shape], one copied behind the other, so that no kernel needs to copy its own."""
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
    """theta [R, P] -> the parameters, [R, *shape] each, in whose order its numbers are read."""

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
    """How many numbers are left out before each parameter of R replicas: a wide matrix begins at a line of memory, for
    which there are faster products."""
    gaps, place = [], 0
    for shape in shapes:
        gaps.append(-place % LINE if wide(shape) else 0)
        place += gaps[-1] + R * shape.numel()
    return gaps


def _column(theta: Tensor, values: float | Sequence[float]) -> Tensor:
    """One value for all replicas, or one for each, as [R, 1]."""
    return theta.new_tensor(values).expand(len(theta)).unsqueeze(1).clone()


def _row(tensors: Iterable[Tensor]) -> Tensor:
    rows = [t.detach().flatten() for t in tensors]
    return torch.cat(rows) if rows else torch.empty(0)  # a network may have no running statistics


def _unpack(rows: Tensor, shapes: dict[str, torch.Size]) -> dict[str, Tensor]:
    """Views of the columns, each [R, *shape]."""
    columns = rows.split([math.prod(shape) for shape in shapes.values()], dim=1)
    return {name: c.view(len(rows), *shape) for c, (name, shape) in zip(columns, shapes.items(), strict=True)}
