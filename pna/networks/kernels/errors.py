"""Mean squared errors of three node and three graph labels, and the loss that they add up to, for many replicas.

Forward, a program computes the errors of a replica; backward, the gradient of a block of its predictions.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import Copied, KernelFunction, Shared, saved

__all__ = ["errors", "loss", "supports"]

LABELS = tl.constexpr(3)  # of nodes, and of graphs
ROWS, BLOCK, WARPS = 2048, 1024, 16


def supports(nodes: Tensor, graphs: Tensor, tasks: Tensor | None = None) -> bool:
    """Whether the kernels can compute the loss (with `tasks`: always) or the errors (only without a gradient)."""
    return tasks is not None or not torch.is_grad_enabled()


def loss(nodes: Tensor, graphs: Tensor, y_node: Tensor, y_graph: Tensor, tasks: Tensor) -> Tensor:
    """Sum of the six errors weighted by `tasks` [6], []; an error of weight 0 adds nothing, even if it is no number."""
    return _Loss.call(nodes, graphs, tasks, y_node, y_graph)[0]


def errors(nodes: Tensor, graphs: Tensor, y_node: Tensor, y_graph: Tensor) -> Tensor:
    """Mean squared errors of the predictions `nodes` [V, 3] and `graphs` [G, 3] for their labels, [6]."""
    return _Loss.call(nodes, graphs, None, y_node, y_graph)[1]


@triton.jit
def _mean_squares(prediction, y, count, ROWS: tl.constexpr):
    """Mean squared error of each label over `count` rows, [4]; the fourth is zero."""
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
    """Weighted sum of the errors [4], [], without those of weight 0."""
    weight = tl.load(tasks, mask=inside, other=0.0)
    return tl.sum(tl.where(weight > 0, weight * error, 0.0), 0)


@triton.jit
def loss_forward(
    nodes, graphs, tasks, y_node, y_graph, losses, errors, V, G, WEIGHTED: tl.constexpr, ROWS: tl.constexpr
):
    """Errors of one replica, and their weighted sum if WEIGHTED."""
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
    """Gradient of a block of predictions; grid: (blocks of the nodes' predictions, then of the graphs'; replicas)."""
    r, block, blocks = tl.program_id(1), tl.program_id(0), tl.cdiv(V * LABELS, BLOCK)
    if block < blocks:
        _gradient(nodes, tasks + r * 2 * LABELS, y_node, grad, grad_nodes, r, block, V, BLOCK)
    else:
        weights = tasks + r * 2 * LABELS + LABELS
        _gradient(graphs, weights, y_graph, grad, grad_graphs, r, block - blocks, G, BLOCK)


@triton.jit
def _gradient(prediction, tasks, y, grad, grad_prediction, r, block, count, BLOCK: tl.constexpr):
    """Gradient of a block of the predictions [count, 3] of replica r."""
    i = block * BLOCK + tl.arange(0, BLOCK)
    inside, place = i < count * LABELS, r * count * LABELS + i
    away = tl.load(prediction + place, mask=inside, other=0.0) - tl.load(y + i, mask=inside, other=0.0)
    slope = tl.load(grad + r) * tl.load(tasks + i % LABELS) * 2 / count
    tl.store(grad_prediction + place, slope * away, mask=inside)


class _Loss(KernelFunction):
    """The loss and the mean squared errors as an autograd Function.

    nodes [R, V, 3], graphs [R, G, 3], tasks [R, 6] or None, labels [V, 3] and [G, 3] -> losses [R] and errors.
    """

    @staticmethod
    def forward(
        nodes: Copied, graphs: Copied, tasks: Copied | None, y_node: Shared, y_graph: Shared
    ) -> tuple[Tensor, Tensor]:
        R, V, G = len(nodes), len(y_node), len(y_graph)
        losses, errors = nodes.new_empty(R), nodes.new_empty(R, 6)
        tensors = (nodes, graphs, errors if tasks is None else tasks, y_node, y_graph, losses, errors)
        loss_forward[(R,)](*tensors, V, G, WEIGHTED=tasks is not None, ROWS=ROWS, num_warps=WARPS)
        return losses, errors

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        nodes, graphs, *weights_and_labels = saved(ctx)
        (R, V, labels), G = nodes.shape, graphs.shape[1]
        gradients = torch.empty_like(nodes), torch.empty_like(graphs)
        blocks = sum(-(-rows * labels // BLOCK) for rows in (V, G))
        loss_backward[(blocks, R)](nodes, graphs, *weights_and_labels, grad, *gradients, V, G, BLOCK=BLOCK)
        return *gradients, None, None, None
