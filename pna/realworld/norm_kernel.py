"""Batch normalisation over the real nodes of padded batches, each replica by itself, in two kernels each way.

The real nodes are the first of a batch. Every program sums up some of them, and every program of the second kernel puts
these sums together for itself; where there are many features, each takes WIDTH of them. The plain-torch twin is in
layers.py; what it gives a node of the padding, here is zero.
"""

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

BLOCK = 32
PROGRAMS = 32  # at most, of each replica, so that their sums fit into the registers of one
WIDEST = 256  # features of a program
EPS = tl.constexpr(1e-5)


def takes(*_: Tensor) -> bool:
    """Whether the kernels serve: for any."""
    return True


@on_its_device
def normalise(x: Tensor, factor: Tensor, count: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Normalises factor · x over its first rows: x [V, F], factor [V, 1], count [], weight and bias [F].

    Returns [V, F], and the mean and the unbiased variance, [F] each.
    """
    y, mean, _, unbiased = _Normalise.apply(*(t.unsqueeze(0) for t in (x, factor, count, weight, bias)))
    return y.squeeze(0), mean.squeeze(0), unbiased.squeeze(0)


@triton.jit
def _features(WIDTH: tl.constexpr):
    """Those of this program."""
    return tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)


@triton.jit
def _block(block, live, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Where the numbers of a block of rows lie in a replica, and which of them are of real nodes."""
    row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = _features(WIDTH)[None, :]
    return row * F + c, (row < live) & (c < F)


@triton.jit
def _factors(factor, r, block, live, V, BLOCK: tl.constexpr):
    """Those of a block of rows, [BLOCK, 1]; 0 for padding."""
    row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
    return tl.load(factor + r * V + row, mask=row < live, other=0.0)


@triton.jit
def _of_features(at, r, F, WIDTH: tl.constexpr):
    c = _features(WIDTH)
    return tl.load(at + r * F + c, mask=c < F, other=0.0)[None, :]


@triton.jit
def _of_programs(at, r, P, F, WIDTH: tl.constexpr, PROGRAMS: tl.constexpr):
    """What each program of a replica has stored, [PROGRAMS, WIDTH], and zeros."""
    p = tl.arange(0, PROGRAMS)[:, None]
    c = _features(WIDTH)[None, :]
    return tl.load(at + (r * P + p) * F + c, mask=(p < P) & (c < F), other=0.0)


@triton.jit
def norm_statistics(x, factor, count, rows, mean, spread, V, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The number of rows of each program, their mean and their squared distance to it, merged block by block."""
    r = tl.program_id(1).to(tl.int64)
    me = r * tl.num_programs(0) + tl.program_id(0)
    live = tl.load(count + r).to(tl.int32)
    n = 0.0
    mu = tl.zeros([WIDTH], tl.float32)
    squares = tl.zeros([WIDTH], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(live, BLOCK), tl.num_programs(0)):
        place, real = _block(block, live, F, WIDTH, BLOCK)
        values = tl.load(x + r * V * F + place, mask=real, other=0.0) * _factors(factor, r, block, live, V, BLOCK)
        m = tl.minimum(live - block * BLOCK, BLOCK).to(tl.float32)
        centre = tl.sum(values, 0) / m
        away = tl.where(real, values - centre[None, :], 0.0)
        step = centre - mu
        squares += tl.sum(away * away, 0) + step * step * (n * m / (n + m))
        mu += step * (m / (n + m))
        n += m
    c = _features(WIDTH)
    tl.store(rows + me, n)
    tl.store(mean + me * F + c, mu, mask=c < F)
    tl.store(spread + me * F + c, squares, mask=c < F)


@triton.jit
def norm_apply(
    x, factor, count, weight, bias, rows, means, spreads, y, mean, var, unbiased, V, F, P,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """weight · (factor · x - mean) / √(var + ε) + bias."""
    r = tl.program_id(1).to(tl.int64)
    live = tl.load(count + r).to(tl.int32)
    n = tl.maximum(live.to(tl.float32), 1.0)
    p = tl.arange(0, PROGRAMS)[:, None]
    each = tl.load(rows + r * P + p, mask=p < P, other=0.0)
    centres = _of_programs(means, r, P, F, WIDTH, PROGRAMS)
    mu = tl.sum(each * centres, 0)[None, :] / n
    away = centres - mu
    squares = tl.sum(_of_programs(spreads, r, P, F, WIDTH, PROGRAMS) + each * away * away, 0)[None, :]
    slope = tl.rsqrt(squares / n + EPS) * _of_features(weight, r, F, WIDTH)
    block = tl.program_id(0)
    place, real = _block(block, live, F, WIDTH, BLOCK)
    values = tl.load(x + r * V * F + place, mask=real, other=0.0) * _factors(factor, r, block, live, V, BLOCK)
    normalised = slope * (values - mu) + _of_features(bias, r, F, WIDTH)
    row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = _features(WIDTH)[None, :]
    tl.store(y + r * V * F + place, tl.where(real, normalised, 0.0), mask=(row < V) & (c < F))
    if block == 0:
        tl.store(mean + r * F + c, mu, mask=c < F)
        tl.store(var + r * F + c, squares / n, mask=c < F)
        tl.store(unbiased + r * F + c, squares / tl.maximum(n - 1, 1.0), mask=c < F)


@triton.jit
def norm_sums(x, factor, count, grad, mean, total, product, V, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The sums of the gradient, and of the gradient times the distance to the mean, of each program."""
    r = tl.program_id(1).to(tl.int64)
    me = r * tl.num_programs(0) + tl.program_id(0)
    live = tl.load(count + r).to(tl.int32)
    mu = _of_features(mean, r, F, WIDTH)
    first = tl.zeros([WIDTH], tl.float32)
    second = tl.zeros([WIDTH], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(live, BLOCK), tl.num_programs(0)):
        place, real = _block(block, live, F, WIDTH, BLOCK)
        values = tl.load(x + r * V * F + place, mask=real, other=0.0) * _factors(factor, r, block, live, V, BLOCK)
        g = tl.load(grad + r * V * F + place, mask=real, other=0.0)
        first += tl.sum(g, 0)
        second += tl.sum(g * (values - mu), 0)
    c = _features(WIDTH)
    tl.store(total + me * F + c, first, mask=c < F)
    tl.store(product + me * F + c, second, mask=c < F)


@triton.jit
def norm_back(
    x, factor, count, grad, weight, mean, var, totals, products, grad_x, grad_weight, grad_bias, V, F, P,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """The gradients of x, of the weight and of the bias."""
    r = tl.program_id(1).to(tl.int64)
    live = tl.load(count + r).to(tl.int32)
    n = tl.maximum(live.to(tl.float32), 1.0)
    total = tl.sum(_of_programs(totals, r, P, F, WIDTH, PROGRAMS), 0)[None, :]
    product = tl.sum(_of_programs(products, r, P, F, WIDTH, PROGRAMS), 0)[None, :]
    inverse = tl.rsqrt(_of_features(var, r, F, WIDTH) + EPS)
    slope = inverse * _of_features(weight, r, F, WIDTH)
    block = tl.program_id(0)
    place, real = _block(block, live, F, WIDTH, BLOCK)
    scale = _factors(factor, r, block, live, V, BLOCK)
    away = tl.load(x + r * V * F + place, mask=real, other=0.0) * scale - _of_features(mean, r, F, WIDTH)
    g = tl.load(grad + r * V * F + place, mask=real, other=0.0)
    value = scale * slope * (g - (total + away * inverse * inverse * product) / n)
    row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = _features(WIDTH)[None, :]
    tl.store(grad_x + r * V * F + place, tl.where(real, value, 0.0), mask=(row < V) & (c < F))
    if block == 0:
        tl.store(grad_weight + r * F + c, product * inverse, mask=c < F)
        tl.store(grad_bias + r * F + c, total, mask=c < F)


class _Normalise(Function):
    """x [R, V, F], factor [R, V, 1], count [R], weight and bias [R, F] -> y [R, V, F], three of [R, F]."""

    @staticmethod
    def forward(x: Tensor, factor: Tensor, count: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        x, factor, count, weight, bias = (t.contiguous() for t in (x, factor, count, weight, bias))
        R, V, F = x.shape
        P, columns, sizes = _sizes(V, F)
        rows, (means, spreads) = x.new_empty(R, P), x.new_empty(2, R, P, F).unbind()
        norm_statistics[(P, R, columns)](x, factor, count, rows, means, spreads, V, F, **sizes)
        y = torch.empty_like(x)
        mean, var, unbiased = x.new_empty(3, R, F).unbind()
        given, made = (x, factor, count, weight, bias, rows, means, spreads), (y, mean, var, unbiased)
        norm_apply[(-(-V // BLOCK), R, columns)](*given, *made, V, F, P, **sizes, PROGRAMS=PROGRAMS)
        return made

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        x, factor, count, weight, _ = inputs
        _, mean, var, unbiased = output
        ctx.mark_non_differentiable(mean, var, unbiased)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, factor, count, weight, mean, var)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        x, factor, count, weight, mean, var = (t.contiguous() for t in ctx.saved_tensors)
        grad = grad.contiguous()
        R, V, F = x.shape
        P, columns, sizes = _sizes(V, F)
        totals, products = x.new_empty(2, R, P, F).unbind()
        norm_sums[(P, R, columns)](x, factor, count, grad, mean, totals, products, V, F, **sizes)
        grad_x, (grad_weight, grad_bias) = torch.empty_like(x), x.new_empty(2, R, F).unbind()
        given = (x, factor, count, grad, weight, mean, var, totals, products)
        made = (grad_x, grad_weight, grad_bias)
        norm_back[(-(-V // BLOCK), R, columns)](*given, *made, V, F, P, **sizes, PROGRAMS=PROGRAMS)
        return grad_x, None, None, grad_weight, grad_bias

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Tensor) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        R = info.batch_size
        lifted = (replicated(t, dim, R) for t, dim in zip(inputs, in_dims, strict=True))
        return tuple(t.unflatten(0, (R, -1)) for t in _Normalise.apply(*lifted)), (0, 0, 0, 0)


def _sizes(V: int, F: int) -> tuple[int, int, dict[str, int]]:
    """How many programs share out the rows and how many the features; and what they are told."""
    width = triton.next_power_of_2(F) if F <= WIDEST else 128
    told = {"WIDTH": width, "BLOCK": BLOCK, "num_warps": 4 if width <= 128 else 8, "num_stages": 1}
    return min(-(-V // BLOCK), PROGRAMS), -(-F // width), told
