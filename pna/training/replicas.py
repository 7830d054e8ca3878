"""One network's code for many sets of weights: replicas as rows of a matrix.

The paper trains every model ten times on the same batches in the same order. The weights of R replicas are the rows of
one matrix theta, [R, P], their running statistics those of another, [R, Q]; torch.func.vmap applies the network to all
of them at once, and the replicas become channels of the aggregation.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Self

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from pna.networks import GraphBatch

__all__ = ["Lifted", "Rows", "task_errors"]


class Rows:
    """A dataclass of tensors that have a row for each replica."""

    def tensors(self) -> dict[str, Tensor]:
        """By name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def rows(self, index: Tensor) -> Self:
        """Some of the replicas, copied."""
        return type(self)(**{name: t[index] for name, t in self.tensors().items()})

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

    def stack(self, networks: Sequence[nn.Module]) -> tuple[Tensor, Tensor]:
        """theta [R, P] and state [R, Q] of networks of this kind."""
        theta = torch.stack([_row(network.parameters()) for network in networks])
        return theta, torch.stack([_row(network.buffers()) for network in networks])

    def errors(self, theta: Tensor, state: Tensor, batch: GraphBatch, training: bool) -> Tensor:
        """The mean squared error of every replica and task on a batch, [R, 6]; training moves `state` on in place."""
        self.network.train(training)
        parameters, buffers = _unpack(theta, self.parameters), _unpack(state, self.buffers)

        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
            return task_errors(functional_call(self.network, (parameters, buffers), (batch,)), batch)

        return vmap(one)(parameters, buffers)

    def set_errors(self, theta: Tensor, state: Tensor, batches: Sequence[GraphBatch]) -> Tensor:
        """The error on a set, the mean over its batches as in the released code, [R, 6]."""
        return torch.stack([self.errors(theta, state, batch, training=False) for batch in batches]).mean(0)


def task_errors(predictions: tuple[Tensor, Tensor], batch: GraphBatch) -> Tensor:
    """The mean squared error of each of the six tasks: three of nodes, three of graphs, [6]."""
    nodes, graphs = predictions
    return torch.cat([(nodes - batch.y_node).square().mean(0), (graphs - batch.y_graph).square().mean(0)])


def _row(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([t.detach().flatten() for t in tensors])


def _unpack(rows: Tensor, shapes: dict[str, torch.Size]) -> dict[str, Tensor]:
    """Views of the columns, each [R, *shape]."""
    columns = rows.split([math.prod(shape) for shape in shapes.values()], dim=1)
    return {name: c.view(len(rows), *shape) for c, (name, shape) in zip(columns, shapes.items(), strict=True)}
