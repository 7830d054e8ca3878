"""The mean squared errors of three node and three graph labels, and the loss that they make, for many replicas.

A program has a replica forward, and a block of its predictions backward.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.kernels.replicas import replicated
from pna.kernels.selection import first_derivative, on_its_device

__all__ = ["errors", "loss", "supports"]

LABELS = tl.constexpr(3)  # of nodes, and of graphs
ROWS, BLOCK, WARPS = 2048, 1024, 16


def supports(nodes: Tensor, graphs: Tensor, tasks: Tensor | None = None) -> bool:
    """Whether the kernels serve: for any loss, and for errors without one if they have no gradient."""
    return tasks is not None or not torch.is_grad_enabled()


@on_its_device
def loss(nodes: Tensor, graphs: Tensor, y_node: Tensor, y_graph: Tensor, tasks: Tensor) -> Tensor:
    """The errors' sum, weighted by `tasks` [6]; an error without weight adds nothing, whatever it is."""
    return _Loss.apply(*(t.unsqueeze(0) for t in (nodes, graphs, tasks)), y_node, y_graph)[0].squeeze(0)


@on_its_device
def errors(nodes: Tensor, graphs: Tensor, y_node: Tensor, y_graph: Tensor) -> Tensor:
    """Of predictions [V, 3] and [G, 3], [6]."""
    tasks = nodes.new_empty(0)
    return _Loss.apply(*(t.unsqueeze(0) for t in (nodes, graphs, tasks)), y_node, y_graph)[1].squeeze(0)


@triton.jit
def _mean_squares(prediction, y, count, ROWS: tl.constexpr):
    """Of each label, [4], the last of them zero."""
    k = tl.arange(0, 4)[None, :]
    total = tl.zeros([ROWS, 4], tl.float32)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        place, real = row * LABELS + k, (row < count) & (k < LABELS)
        away = tl.load(prediction + place, mask=real, other=0.0) - tl.load(y + place, mask=real, other=0.0)
        total += away * away
    return tl.sum(total, 0) / count


@triton.jit
def _weighted(error, tasks, inside):
    weight = tl.load(tasks, mask=inside, other=0.0)
    return tl.sum(tl.where(weight > 0, weight * error, 0.0), 0)


@triton.jit
def loss_forward(
    nodes, graphs, tasks, y_node, y_graph, losses, errors, V, G, WEIGHTED: tl.constexpr, ROWS: tl.constexpr
):
    r, k = tl.program_id(0), tl.arange(0, 4)
    of_nodes = _mean_squares(nodes + r * V * LABELS, y_node, V, ROWS)
    of_graphs = _mean_squares(graphs + r * G * LABELS, y_graph, G, ROWS)
    place, inside = r * 2 * LABELS + k, k < LABELS
    tl.store(errors + place, of_nodes, mask=inside)
    tl.store(errors + place + LABELS, of_graphs, mask=inside)
    if WEIGHTED:
        total = _weighted(of_nodes, tasks + place, inside) + _weighted(of_graphs, tasks + place + LABELS, inside)
        tl.store(losses + r, total)


@triton.jit
def loss_backward(
    nodes, graphs, tasks, y_node, y_graph, grad, grad_nodes, grad_graphs, V, G, BLOCK: tl.constexpr
):  # fmt: skip
    """Grid (blocks of the nodes' predictions, then of the graphs'; replicas)."""
    r, block, blocks = tl.program_id(1), tl.program_id(0), tl.cdiv(V * LABELS, BLOCK)
    if block < blocks:
        _gradient(nodes, tasks + r * 2 * LABELS, y_node, grad, grad_nodes, r, block, V, BLOCK)
    else:
        weights = tasks + r * 2 * LABELS + LABELS
        _gradient(graphs, weights, y_graph, grad, grad_graphs, r, block - blocks, G, BLOCK)


@triton.jit
def _gradient(prediction, tasks, y, grad, grad_prediction, r, block, count, BLOCK: tl.constexpr):
    i = block * BLOCK + tl.arange(0, BLOCK)
    inside, place = i < count * LABELS, r * count * LABELS + i
    away = tl.load(prediction + place, mask=inside, other=0.0) - tl.load(y + i, mask=inside, other=0.0)
    slope = tl.load(grad + r) * tl.load(tasks + i % LABELS) * 2 / count
    tl.store(grad_prediction + place, slope * away, mask=inside)


class _Loss(Function):
    """nodes [R, V, 3], graphs [R, G, 3], tasks [R, 6] or nothing, labels [V, 3] and [G, 3] -> losses [R], errors."""

    @staticmethod
    def forward(nodes: Tensor, graphs: Tensor, tasks: Tensor, y_node: Tensor, y_graph: Tensor) -> tuple[Tensor, Tensor]:
        given = [t.contiguous() for t in (nodes, graphs, tasks, y_node, y_graph)]
        R, V, G = len(nodes), len(y_node), len(y_graph)
        losses, errors = nodes.new_empty(R), nodes.new_empty(R, 6)
        sizes = {"WEIGHTED": tasks.numel() > 0, "ROWS": ROWS, "num_warps": WARPS}
        loss_forward[(R,)](*given, losses, errors, V, G, **sizes)
        return losses, errors

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)

    @staticmethod
    @first_derivative
    def backward(ctx: FunctionCtx, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        nodes, graphs, *labels = (t.contiguous() for t in ctx.saved_tensors)
        (R, V, labels_each), G = nodes.shape, graphs.shape[1]
        gradients = torch.empty_like(nodes), torch.empty_like(graphs)
        blocks = sum(-(-rows * labels_each // BLOCK) for rows in (V, G))
        loss_backward[(blocks, R)](nodes, graphs, *labels, grad.contiguous(), *gradients, V, G, BLOCK=BLOCK)
        return *gradients, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        if in_dims[3:] != (None, None):
            raise ValueError("the labels are data, the same for every replica: they cannot be batched")
        R = info.batch_size
        lifted = (replicated(t, dim, R) for t, dim in zip(inputs[:3], in_dims[:3], strict=True))
        return tuple(t.unflatten(0, (R, -1)) for t in _Loss.apply(*lifted, *inputs[3:])), (0, 0)
