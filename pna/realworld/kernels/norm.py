"""Batch normalisation over the real nodes of padded batches, each replica by itself, in two kernels each way.

The real nodes come first in a batch. Every program of the first kernel sums up some of them; every program of the
second puts these sums together for itself. Each has WIDTH of the features. In evaluation one kernel does it all. The
plain-torch twin is in layers.py; it differs on padding, which is zero here.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import Copied, KernelFunction, Strided, contiguous
from pna.kernels.moments import block_moments, merge, merge_parts
from pna.realworld.kernels.norm_tile import (
    BLOCK,
    EPS,
    activated,
    block_of,
    dropout,
    factors,
    features,
    move_on,
    of_features,
    of_programs,
    programs,
    sizes,
    static,
)

__all__ = ["Then", "evaluate", "normalise", "sums", "supports"]


def supports(*_: Tensor) -> bool:
    """Always: there is no restriction."""
    return True


class Then(NamedTuple):
    """Operations on the normalised numbers, in this order."""

    activation: str | None = None  # relu or elu
    residual: Tensor | None = None  # [V, F], added
    noise: Tensor | None = None  # [V, F or more], uniform in [0, 1): a number whose noise is below p is dropped
    p: float = 0.0


def normalise(
    x: Tensor, factor: Tensor, count: Tensor, weight: Tensor, bias: Tensor, running: tuple[Tensor, Tensor], then: Then
) -> Tensor:
    """Normalise factor · x over its first `count` rows: x [V, F], factor [V, 1], count [], weight and bias [F].

    The running mean and variance, [F] each, are updated in place. Returns [V, F].
    """
    activation, residual, noise, p = then
    noise = None if noise is None or p == 0 else noise[:, : x.shape[1]]
    return _Normalise.call(activation, p, x, factor, count, weight, bias, residual, noise, *running)[0]


def evaluate(
    x: Tensor, factor: Tensor, weight: Tensor, bias: Tensor, running: tuple[Tensor, Tensor], then: Then
) -> Tensor:
    """Normalise factor · x by the running mean and variance, without dropout and without a gradient.

    x [V, F], factor [V, 1], weight, bias and the running statistics [F] -> [V, F].
    """
    return _Evaluate.call(then.activation, x, factor, weight, bias, *running, then.residual)


@triton.jit
def norm_statistics(x, factor, count, rows, mean, spread, V, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Number, mean and squared distance to it of this program's rows, merged block by block."""
    r = tl.program_id(1).to(tl.int64)
    me = r * tl.num_programs(0) + tl.program_id(0)
    live = tl.load(count + r).to(tl.int32)
    n = 0.0
    mu = tl.zeros([WIDTH], tl.float32)
    squares = tl.zeros([WIDTH], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(live, BLOCK), tl.num_programs(0)):
        place, real = block_of(block, live, F, WIDTH, BLOCK)
        values = tl.load(x + r * V * F + place, mask=real, other=0.0) * factors(factor, r, block, live, V, BLOCK)
        m = tl.minimum(live - block * BLOCK, BLOCK).to(tl.float32)
        centre, within = block_moments(values, real, m, 0)
        mu, between = merge(n, mu, m, centre)
        squares += within + between
        n += m
    c = features(WIDTH)
    tl.store(rows + me, n)
    tl.store(mean + me * F + c, mu, mask=c < F)
    tl.store(spread + me * F + c, squares, mask=c < F)


@triton.jit
def norm_apply(
    x, factor, count, weight, bias, residual, noise, running_mean, running_var, rows, means, spreads, y, mean, var,
    V, F, P, noise_r, noise_v, stride_m, stride_v, p,
    ACTIVATION: tl.constexpr, RESIDUAL: tl.constexpr, DROP: tl.constexpr,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """Compute weight · (factor · x - mean) / √(var + ε) + bias, then activation, residual and dropout.

    It also updates the running statistics.
    """
    r = tl.program_id(1).to(tl.int64)
    live = tl.load(count + r).to(tl.int32)
    n = tl.maximum(live.to(tl.float32), 1.0)
    k = tl.arange(0, PROGRAMS)[:, None]
    mu, squares = merge_parts(
        tl.load(rows + r * P + k, mask=k < P, other=0.0),
        of_programs(means, r, P, F, WIDTH, PROGRAMS), of_programs(spreads, r, P, F, WIDTH, PROGRAMS), n)  # fmt: skip
    mu, squares = mu[None, :], squares[None, :]
    slope = tl.rsqrt(squares / n + EPS) * of_features(weight, r, F, WIDTH)
    shift = of_features(bias, r, F, WIDTH)
    c = features(WIDTH)[None, :]
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        place, real = block_of(block, live, F, WIDTH, BLOCK)
        row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
        inside = (row < V) & (c < F)
        values = tl.load(x + r * V * F + place, mask=real, other=0.0) * factors(factor, r, block, live, V, BLOCK)
        value = activated(tl.where(real, slope * (values - mu) + shift, 0.0), ACTIVATION)
        if RESIDUAL:
            value += tl.load(residual + r * V * F + place, mask=inside, other=0.0)
        if DROP:
            value = dropout(value, noise + r * noise_r, noise_v, row, inside, F, p, WIDTH)
        tl.store(y + r * V * F + place, value, mask=inside)
    if tl.program_id(0) == 0:
        there = c < F
        tl.store(mean + r * F + c, mu, mask=there)
        tl.store(var + r * F + c, squares / n, mask=there)
        move_on(running_mean + r * stride_m + c, mu, there)
        move_on(running_var + r * stride_v + c, squares / tl.maximum(n - 1, 1.0), there)


@triton.jit
def norm_evaluate(
    x, factor, weight, bias, mean, var, residual, y, V, F,
    ACTIVATION: tl.constexpr, RESIDUAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute weight · (factor · x - mean) / √(var + ε) + bias by known statistics, then activation and residual."""
    r = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    place, inside = block_of(block, V, F, WIDTH, BLOCK)
    slope = tl.rsqrt(of_features(var, r, F, WIDTH) + EPS) * of_features(weight, r, F, WIDTH)
    values = tl.load(x + r * V * F + place, mask=inside, other=0.0) * factors(factor, r, block, V, V, BLOCK)
    value = slope * (values - of_features(mean, r, F, WIDTH)) + of_features(bias, r, F, WIDTH)
    value = activated(value, ACTIVATION)
    if RESIDUAL:
        value += tl.load(residual + r * V * F + place, mask=inside, other=0.0)
    tl.store(y + r * V * F + place, value, mask=inside)


@triton.jit
def _incoming(
    grad, values, mu, slope, bias, noise, noise_v, r, place, row, real, V, F, p,
    ACTIVATION: tl.constexpr, DROP: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of normalised numbers and of its residual, [BLOCK, WIDTH] each."""
    inside = (row < V) & (features(WIDTH)[None, :] < F)
    g = tl.load(grad + r * V * F + place, mask=inside, other=0.0)
    if DROP:
        g = dropout(g, noise, noise_v, row, inside, F, p, WIDTH)
    inner = tl.where(real, g, 0.0)
    if ACTIVATION is not None:
        y = slope * (values - mu) + of_features(bias, r, F, WIDTH)
        if ACTIVATION == "relu":
            inner = tl.where(y <= 0, 0.0, inner)
        else:
            inner = tl.where(y > 0, inner, inner * tl.exp(tl.minimum(y, 0.0)))
    return inner, g


@triton.jit
def norm_sums(
    x, factor, count, grad, weight, bias, noise, mean, var, total, product, V, F, noise_r, noise_v, p,
    ACTIVATION: tl.constexpr, DROP: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums over this program's rows of the gradient, and of the gradient times the distance to the mean."""
    r = tl.program_id(1).to(tl.int64)
    me = r * tl.num_programs(0) + tl.program_id(0)
    live = tl.load(count + r).to(tl.int32)
    mu = of_features(mean, r, F, WIDTH)
    slope = tl.rsqrt(of_features(var, r, F, WIDTH) + EPS) * of_features(weight, r, F, WIDTH)
    first = tl.zeros([WIDTH], tl.float32)
    second = tl.zeros([WIDTH], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(live, BLOCK), tl.num_programs(0)):
        place, real = block_of(block, live, F, WIDTH, BLOCK)
        row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
        values = tl.load(x + r * V * F + place, mask=real, other=0.0) * factors(factor, r, block, live, V, BLOCK)
        g, _ = _incoming(grad, values, mu, slope, bias, noise + r * noise_r, noise_v, r, place, row, real, V, F, p,
                         ACTIVATION, DROP, WIDTH)  # fmt: skip
        first += tl.sum(g, 0)
        second += tl.sum(g * (values - mu), 0)
    c = features(WIDTH)
    tl.store(total + me * F + c, first, mask=c < F)
    tl.store(product + me * F + c, second, mask=c < F)


@triton.jit
def norm_back(
    x, factor, count, grad, weight, bias, noise, mean, var, totals, products, grad_x, grad_residual, grad_weight,
    grad_bias, V, F, P, noise_r, noise_v, p,
    ACTIVATION: tl.constexpr, RESIDUAL: tl.constexpr, DROP: tl.constexpr,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """Gradients of x, weight, bias and residual."""
    r = tl.program_id(1).to(tl.int64)
    live = tl.load(count + r).to(tl.int32)
    n = tl.maximum(live.to(tl.float32), 1.0)
    total = tl.sum(of_programs(totals, r, P, F, WIDTH, PROGRAMS), 0)[None, :]
    product = tl.sum(of_programs(products, r, P, F, WIDTH, PROGRAMS), 0)[None, :]
    mu = of_features(mean, r, F, WIDTH)
    inverse = tl.rsqrt(of_features(var, r, F, WIDTH) + EPS)
    slope = inverse * of_features(weight, r, F, WIDTH)
    c = features(WIDTH)[None, :]
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        place, real = block_of(block, live, F, WIDTH, BLOCK)
        row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
        inside = (row < V) & (c < F)
        scale = factors(factor, r, block, live, V, BLOCK)
        values = tl.load(x + r * V * F + place, mask=real, other=0.0) * scale
        g, whole = _incoming(grad, values, mu, slope, bias, noise + r * noise_r, noise_v, r, place, row, real, V, F, p,
                             ACTIVATION, DROP, WIDTH)  # fmt: skip
        value = scale * slope * (g - (total + (values - mu) * inverse * inverse * product) / n)
        tl.store(grad_x + r * V * F + place, tl.where(real, value, 0.0), mask=inside)
        if RESIDUAL:
            tl.store(grad_residual + r * V * F + place, whole, mask=inside)
    if tl.program_id(0) == 0:
        tl.store(grad_weight + r * F + c, product * inverse, mask=c < F)
        tl.store(grad_bias + r * F + c, total, mask=c < F)


class _Normalise(KernelFunction):
    """Batch normalisation in training as an autograd Function.

    activation, p, x [R, V, F], factor [R, V, 1], count [R], weight and bias [R, F], residual and noise [R, V, F] or
    None, running mean and variance [R, F] -> y [R, V, F], mean and variance [R, F].
    """

    @staticmethod
    def forward(
        activation: str | None,
        p: float,
        x: Copied,
        factor: Copied,
        count: Copied,
        weight: Copied,
        bias: Copied,
        residual: Copied | None,
        noise: Strided | None,
        running_mean: Strided,
        running_var: Strided,
    ) -> tuple[Tensor, ...]:
        R, V, F = x.shape
        (P, spread, most), columns, constants = programs(V, F), *sizes(F)
        rows, (means, spreads) = x.new_empty(R, P), x.new_empty(2, R, P, F).unbind()
        norm_statistics[(P, R, columns)](x, factor, count, rows, means, spreads, V, static(F, F), **constants)
        y, (mean, var), (drop, strides) = torch.empty_like(x), x.new_empty(2, R, F).unbind(), _noise(noise, F)
        norm_apply[(spread, R, columns)](
            x, factor, count, weight, bias, x if residual is None else residual, x if noise is None else noise,
            running_mean, running_var, rows, means, spreads, y, mean, var, V, static(F, F), P, *strides,
            running_mean.stride(0), running_var.stride(0), p,
            ACTIVATION=activation, RESIDUAL=residual is not None, DROP=drop, PROGRAMS=most, **constants,
        )  # fmt: skip
        return y, mean, var

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        ctx.activation, ctx.p, x, factor, count, weight, bias, residual, noise, *_ = inputs
        _, mean, var = output
        ctx.residual = residual is not None
        ctx.mark_non_differentiable(mean, var)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, factor, count, weight, bias, mean, var, noise)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        *tensors, noise = ctx.saved_tensors
        x, factor, count, weight, bias, mean, var = contiguous(*tensors)
        R, V, F = x.shape
        (P, spread, most), columns, constants = programs(V, F), *sizes(F)
        drop, strides = _noise(noise, F)
        totals, products = x.new_empty(2, R, P, F).unbind()
        inputs = (x, factor, count, grad, weight, bias, x if noise is None else noise, mean, var, totals, products)
        constants = {"ACTIVATION": ctx.activation, "DROP": drop, **constants}
        norm_sums[(P, R, columns)](*inputs, V, static(F, F), *strides, ctx.p, **constants)
        grad_x, (grad_weight, grad_bias) = torch.empty_like(x), x.new_empty(2, R, F).unbind()
        apart = ctx.residual and drop  # without dropout the residual's gradient is the incoming one
        grad_residual = torch.empty_like(x) if apart else grad
        norm_back[(spread, R, columns)](
            *inputs, grad_x, grad_residual, grad_weight, grad_bias, V, static(F, F), P, *strides, ctx.p,
            RESIDUAL=apart, PROGRAMS=most, **constants,
        )  # fmt: skip
        others = (grad_residual if ctx.residual else None, None, None, None)
        return None, None, grad_x, None, None, grad_weight, grad_bias, *others


class _Evaluate(KernelFunction):
    """Batch normalisation by known statistics as an autograd Function.

    activation, x [R, V, F], factor [R, V, 1], weight, bias, mean and variance [R, F], residual [R, V, F] or None ->
    [R, V, F].
    """

    @staticmethod
    def forward(activation: str | None, x: Tensor, *tensors: Tensor | None) -> Tensor:
        *tensors, residual = tensors
        y, (R, V, F) = torch.empty_like(x), x.shape
        columns, constants = sizes(F)
        norm_evaluate[(-(-V // BLOCK), R, columns)](
            x, *tensors, x if residual is None else residual, y, V, static(F, F),
            ACTIVATION=activation, RESIDUAL=residual is not None, **constants,
        )  # fmt: skip
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        ctx.mark_non_differentiable(output)


def sums(x: Tensor, factor: Tensor, count: Tensor, grad: Tensor, *norm: Tensor) -> tuple[Tensor, ...]:
    """Sum of the gradient before a ReLU, and of it times the distance to the mean, over all real rows, [R, F] each.

    x and grad [R, V, F], factor [R, V, 1], count [R]; norm: weight, bias, mean and variance, [R, F] each.
    """
    (R, V, F), (weight, bias, mean, var) = x.shape, norm
    (P, *_), (columns, constants) = programs(V, F), sizes(F)
    parts, inputs = x.new_empty(2, R, P, F), (x, factor, count, grad, weight, bias, x, mean, var)
    norm_sums[(P, R, columns)](*inputs, *parts, V, static(F, F), 0, 0, 0.0, ACTIVATION="relu", DROP=False, **constants)
    return parts.sum(2).unbind()


def _noise(noise: Tensor | None, F: int) -> tuple[bool, tuple[int, int | tl.constexpr]]:
    """Whether there is dropout, and the strides of the noise from replica to replica and from row to row."""
    if noise is None:
        return False, (0, 0)
    return True, (noise.stride(0), static(noise.stride(1), F))
