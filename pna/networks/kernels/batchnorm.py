"""Batch normalisation over the rows of [R, rows, F], each replica by itself, in two passes each way."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.kernels.choice import on_its_device
from pna.networks.kernels.replicas import replicated

__all__ = ["normalise", "takes"]

BLOCK, WARPS, PROGRAMS = 128, 4, 1056
EPSILON = 1e-5


def takes(x: Tensor) -> bool:
    """Whether the kernels serve: for any x."""
    return True


@on_its_device
def normalise(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x [rows, F], weight and bias [F] -> the normalised x, and the mean and variance that it had, [F] each."""
    y, mean, var = _Normalise.apply(*(t.unsqueeze(0) for t in (x, weight, bias)))
    return y.squeeze(0), mean.squeeze(0), var.squeeze(0)


@triton.jit
def _block(rows, V, F, WIDTH: tl.constexpr):
    c = tl.arange(0, WIDTH)[None, :]
    return rows[:, None] * F + c, (rows[:, None] < V) & (c < F)


@triton.jit
def norm_statistics(x, count, mean, spread, V, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The number of rows of each program, their mean and their squared distance to it, merged block by block."""
    r = tl.program_id(1)
    me = r * tl.num_programs(0) + tl.program_id(0)
    n = 0.0
    mu = tl.zeros([WIDTH], tl.float32)
    squares = tl.zeros([WIDTH], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        rows = block * BLOCK + tl.arange(0, BLOCK)
        place, real = _block(rows, V, F, WIDTH)
        values = tl.load(x + r * V * F + place, mask=real, other=0.0)
        m = tl.minimum(V - block * BLOCK, BLOCK).to(tl.float32)
        centre = tl.sum(values, 0) / m
        away = tl.where(real, values - centre[None, :], 0.0)
        step = centre - mu
        squares += tl.sum(away * away, 0) + step * step * (n * m / (n + m))
        mu += step * (m / (n + m))
        n += m
    tl.store(count + me, n)
    tl.store(mean + me * WIDTH + tl.arange(0, WIDTH), mu)
    tl.store(spread + me * WIDTH + tl.arange(0, WIDTH), squares)


@triton.jit
def norm_apply(x, mean, slope, bias, y, V, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """y = slope (x - mean) + bias, with [F] of each for every replica."""
    r = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place, real = _block(rows, V, F, WIDTH)
    c = tl.arange(0, WIDTH)
    mu = tl.load(mean + r * F + c, mask=c < F, other=0.0)[None, :]
    a = tl.load(slope + r * F + c, mask=c < F, other=0.0)[None, :]
    b = tl.load(bias + r * F + c, mask=c < F, other=0.0)[None, :]
    place += r * V * F
    tl.store(y + place, a * (tl.load(x + place, mask=real, other=0.0) - mu) + b, mask=real)


@triton.jit
def norm_sums(x, grad, mean, total, product, V, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The sums of the gradient, and of the gradient times the distance to the mean, of each program."""
    r = tl.program_id(1)
    me = r * tl.num_programs(0) + tl.program_id(0)
    c = tl.arange(0, WIDTH)
    mu = tl.load(mean + r * F + c, mask=c < F, other=0.0)[None, :]
    first = tl.zeros([WIDTH], tl.float32)
    second = tl.zeros([WIDTH], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        place, real = _block(block * BLOCK + tl.arange(0, BLOCK), V, F, WIDTH)
        g = tl.load(grad + r * V * F + place, mask=real, other=0.0)
        first += tl.sum(g, 0)
        second += tl.sum(g * (tl.load(x + r * V * F + place, mask=real, other=0.0) - mu), 0)
    tl.store(total + me * WIDTH + c, first)
    tl.store(product + me * WIDTH + c, second)


@triton.jit
def norm_back(x, grad, mean, scale, slope, level, grad_x, V, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """scale · gradient - slope · (x - mean) - level."""
    r = tl.program_id(1)
    place, real = _block(tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), V, F, WIDTH)
    c = tl.arange(0, WIDTH)
    inside = c < F
    mu = tl.load(mean + r * F + c, mask=inside, other=0.0)[None, :]
    a = tl.load(scale + r * F + c, mask=inside, other=0.0)[None, :]
    b = tl.load(slope + r * F + c, mask=inside, other=0.0)[None, :]
    d = tl.load(level + r * F + c, mask=inside, other=0.0)[None, :]
    place += r * V * F
    g = tl.load(grad + place, mask=real, other=0.0)
    value = a * g - b * (tl.load(x + place, mask=real, other=0.0) - mu) - d
    tl.store(grad_x + place, value, mask=real)


class _Normalise(Function):
    """x [R, rows, F], weight and bias [R, F] -> y [R, rows, F], mean and variance [R, F]."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = x.contiguous()
        R, V, F = x.shape
        programs, sizes = _programs(R, V), _sizes(F)
        count = x.new_empty(R, programs, 1)
        means, spreads = x.new_empty(2, R, programs, sizes["WIDTH"]).unbind()
        norm_statistics[(programs, R)](x, count, means, spreads, V, F, **sizes)
        means, spreads = means[..., :F], spreads[..., :F]
        mean = (means * count).sum(1) / V
        var = (spreads + count * (means - mean.unsqueeze(1)).square()).sum(1) / V
        slope = torch.rsqrt(var + EPSILON) * weight
        y = torch.empty_like(x)
        norm_apply[(-(-V // BLOCK), R)](x, mean, slope, bias.contiguous(), y, V, F, **sizes)
        return y, mean, var

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        x, weight, _ = inputs
        _, mean, var = output
        ctx.mark_non_differentiable(mean, var)
        ctx.save_for_backward(x, weight, mean, var)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        x, weight, mean, var = (t.contiguous() for t in ctx.saved_tensors)
        grad = grad.contiguous()
        R, V, F = x.shape
        programs, sizes = _programs(R, V), _sizes(F)
        totals, products = x.new_empty(2, R, programs, sizes["WIDTH"]).unbind()
        norm_sums[(programs, R)](x, grad, mean, totals, products, V, F, **sizes)
        total, product = totals.sum(1)[:, :F], products.sum(1)[:, :F]
        inverse = torch.rsqrt(var + EPSILON)
        scale = weight * inverse
        grad_x = torch.empty_like(x)
        slope, level = scale * inverse.square() * product / V, scale * total / V
        norm_back[(-(-V // BLOCK), R)](x, grad, mean, scale, slope, level, grad_x, V, F, **sizes)
        return grad_x, product * inverse, total

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Tensor) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        R = info.batch_size
        lifted = (replicated(t, dim, R) for t, dim in zip(inputs, in_dims, strict=True))
        return tuple(t.unflatten(0, (R, -1)) for t in _Normalise.apply(*lifted)), (0, 0, 0)


def _programs(R: int, V: int) -> int:
    return min(-(-V // BLOCK), max(1, PROGRAMS // R))


def _sizes(F: int) -> dict[str, int]:
    return {"WIDTH": triton.next_power_of_2(F), "BLOCK": BLOCK, "num_warps": WARPS, "num_stages": 1}
