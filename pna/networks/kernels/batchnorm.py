"""Batch normalisation over the rows of [R, rows, F], each replica by one program, in one kernel each way.

It normalises the rows of the graphs' head, of which there are as many as graphs in a batch. GIN's is in
recurrence/gin.cuh.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import Copied, KernelFunction, saved

__all__ = ["normalise", "supports"]

BLOCK, WARPS = 512, 8
EPSILON = 1e-5


def supports(x: Tensor, known: Tensor | None) -> bool:
    """Whether the kernels can normalise x: always, except with a gradient under known statistics."""
    return known is None or not torch.is_grad_enabled()


def normalise(x: Tensor, weight: Tensor, bias: Tensor, known: Tensor | None) -> tuple[Tensor, Tensor]:
    """Normalise x [rows, F] with weight and bias [F], by the statistics `known` if there are any, else by its own.

    Statistics are mean and biased variance, [2, F]. Returns the normalised x and, unless known, its statistics.
    """
    return _Normalise.call(x, weight, bias, known)


@triton.jit
def _block(start, V, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Where the block of rows from `start` on lies in [V, F], [BLOCK, WIDTH], and which of its numbers are real."""
    rows, c = start + tl.arange(0, BLOCK)[:, None], tl.arange(0, WIDTH)[None, :]
    return rows * F + c, (rows < V) & (c < F)


@triton.jit
def norm_forward(
    x, weight, bias, known, statistics, y, V, F, epsilon, KNOWN: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Compute y = weight (x - mean) / √(variance + ε) + bias, and unless KNOWN the statistics, for one replica."""
    r, c = tl.program_id(0), tl.arange(0, WIDTH)
    x += r * V * F
    y += r * V * F
    inside, row = c < F, r * F + c
    mean = tl.zeros([WIDTH], tl.float32)
    variance = mean
    if KNOWN:
        mean = tl.load(known + r * F + row, mask=inside, other=0.0)
        variance = tl.load(known + r * F + F + row, mask=inside, other=0.0)
    else:
        for start in range(0, V, BLOCK):
            place, real = _block(start, V, F, WIDTH, BLOCK)
            mean += tl.sum(tl.load(x + place, mask=real, other=0.0), 0) / V
        for start in range(0, V, BLOCK):
            place, real = _block(start, V, F, WIDTH, BLOCK)
            away = tl.where(real, tl.load(x + place, mask=real, other=0.0) - mean[None, :], 0.0)
            variance += tl.sum(away * away, 0) / V
        tl.store(statistics + r * F + row, mean, mask=inside)
        tl.store(statistics + r * F + F + row, variance, mask=inside)
    slope = tl.load(weight + row, mask=inside, other=0.0) / tl.sqrt(variance + epsilon)
    level = tl.load(bias + row, mask=inside, other=0.0)
    for start in range(0, V, BLOCK):
        place, real = _block(start, V, F, WIDTH, BLOCK)
        away = tl.load(x + place, mask=real, other=0.0) - mean[None, :]
        tl.store(y + place, slope[None, :] * away + level[None, :], mask=real)


@triton.jit
def norm_backward(
    x, weight, statistics, grad, grad_x, grad_weight, grad_bias, V, F, epsilon,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of one replica; of x it is slope (g - E[g] - u E[g u]) with u = (x - mean) / √(variance + ε)."""
    r, c = tl.program_id(0), tl.arange(0, WIDTH)
    x += r * V * F
    grad += r * V * F
    grad_x += r * V * F
    inside, row = c < F, r * F + c
    mean = tl.load(statistics + r * F + row, mask=inside, other=0.0)
    inverse = 1 / tl.sqrt(tl.load(statistics + r * F + F + row, mask=inside, other=0.0) + epsilon)
    total = tl.zeros([WIDTH], tl.float32)
    product = total
    for start in range(0, V, BLOCK):
        place, real = _block(start, V, F, WIDTH, BLOCK)
        g = tl.load(grad + place, mask=real, other=0.0)
        u = (tl.load(x + place, mask=real, other=0.0) - mean[None, :]) * inverse[None, :]
        total += tl.sum(g, 0)
        product += tl.sum(g * u, 0)
    tl.store(grad_bias + row, total, mask=inside)
    tl.store(grad_weight + row, product, mask=inside)
    slope = tl.load(weight + row, mask=inside, other=0.0) * inverse
    for start in range(0, V, BLOCK):
        place, real = _block(start, V, F, WIDTH, BLOCK)
        g = tl.load(grad + place, mask=real, other=0.0)
        u = (tl.load(x + place, mask=real, other=0.0) - mean[None, :]) * inverse[None, :]
        tl.store(grad_x + place, slope[None, :] * (g - (total / V)[None, :] - u * (product / V)[None, :]), mask=real)


class _Normalise(KernelFunction):
    """Batch normalisation as an autograd Function.

    x [R, rows, F], weight and bias [R, F], known [R, 2, F] or None -> y [R, rows, F], statistics [R, 2, F].
    """

    @staticmethod
    def forward(x: Copied, weight: Copied, bias: Copied, known: Copied | None) -> tuple[Tensor, Tensor]:
        R, V, F = x.shape
        y, statistics = torch.empty_like(x), x.new_empty(R, 2, F)
        tensors = (x, weight, bias, statistics if known is None else known, statistics, y)
        norm_forward[(R,)](*tensors, V, F, EPSILON, KNOWN=known is not None, **_sizes(F))
        return y, statistics

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:2], output[1])

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, statistics = saved(ctx)
        R, V, F = x.shape
        grad_x, (grad_weight, grad_bias) = torch.empty_like(x), x.new_empty(2, R, F).unbind()
        norm_backward[(R,)](x, weight, statistics, grad, grad_x, grad_weight, grad_bias, V, F, EPSILON, **_sizes(F))
        return grad_x, grad_weight, grad_bias, None


def _sizes(F: int) -> dict[str, int]:
    """Constants of both kernels for F features."""
    return {"WIDTH": triton.next_power_of_2(F), "BLOCK": BLOCK, "num_warps": WARPS, "num_stages": 1}
