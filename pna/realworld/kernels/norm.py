"""Batch normalisation over the real nodes of padded batches, each replica by itself, in two kernels each way.

The real nodes are the first of a batch. Every program sums up some of them, and every program of the second kernel puts
these sums together for itself; each takes WIDTH of the features. The plain-torch twin is in layers.py; what it gives a
node of the padding, here is zero. In evaluation one kernel does it all.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.kernels.replicas import replicated, rows_of_replicas
from pna.kernels.selection import first_derivative, on_its_device
from pna.realworld.kernels.norm_tile import (
    BLOCK,
    EPS,
    activated,
    block_of,
    factors,
    features,
    kept,
    known,
    move_on,
    of_features,
    of_programs,
    programs,
    sizes,
)

__all__ = ["Then", "evaluate", "normalise", "sums", "supports"]


def supports(*_: Tensor) -> bool:
    """Whether the kernels serve: for any."""
    return True


class Then(NamedTuple):
    """What is done with the normalised numbers, in this order."""

    activation: str | None = None  # relu or elu
    residual: Tensor | None = None  # [V, F], which is added
    noise: Tensor | None = None  # [V, F or more], uniform in [0, 1): where it is below p the number is dropped
    p: float = 0.0


@on_its_device
def normalise(
    x: Tensor, factor: Tensor, count: Tensor, weight: Tensor, bias: Tensor, running: tuple[Tensor, Tensor], then: Then
) -> Tensor:
    """Normalises factor · x over its first rows: x [V, F], factor [V, 1], count [], weight and bias [F] -> [V, F].

    The running mean and variance, [F] each, are moved on in place.
    """
    activation, residual, noise, p = then
    noise = None if noise is None or p == 0 else noise[:, : x.shape[1]]
    given = (x, factor, count, weight, bias, residual, noise, *running)
    return _Normalise.apply(activation, p, *(None if t is None else t.unsqueeze(0) for t in given))[0].squeeze(0)


@on_its_device
def evaluate(
    x: Tensor, factor: Tensor, weight: Tensor, bias: Tensor, running: tuple[Tensor, Tensor], then: Then
) -> Tensor:
    """The same by the running mean and variance, without dropout; there is no gradient."""
    given = (x, factor, weight, bias, *running, then.residual)
    return _Evaluate.apply(then.activation, *(None if t is None else t.unsqueeze(0) for t in given)).squeeze(0)


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
        place, real = block_of(block, live, F, WIDTH, BLOCK)
        values = tl.load(x + r * V * F + place, mask=real, other=0.0) * factors(factor, r, block, live, V, BLOCK)
        m = tl.minimum(live - block * BLOCK, BLOCK).to(tl.float32)
        centre = tl.sum(values, 0) / m
        away = tl.where(real, values - centre[None, :], 0.0)
        step = centre - mu
        squares += tl.sum(away * away, 0) + step * step * (n * m / (n + m))
        mu += step * (m / (n + m))
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
    """weight · (factor · x - mean) / √(var + ε) + bias, and what comes then."""
    r = tl.program_id(1).to(tl.int64)
    live = tl.load(count + r).to(tl.int32)
    n = tl.maximum(live.to(tl.float32), 1.0)
    k = tl.arange(0, PROGRAMS)[:, None]
    each = tl.load(rows + r * P + k, mask=k < P, other=0.0)
    centres = of_programs(means, r, P, F, WIDTH, PROGRAMS)
    mu = tl.sum(each * centres, 0)[None, :] / n
    away = centres - mu
    squares = tl.sum(of_programs(spreads, r, P, F, WIDTH, PROGRAMS) + each * away * away, 0)[None, :]
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
            value = kept(value, noise + r * noise_r, noise_v, row, inside, F, p, WIDTH)
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
    """The same with a mean and a variance that are known."""
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
    """The gradient of the normalised numbers of a block of rows, and that of the residual."""
    inside = (row < V) & (features(WIDTH)[None, :] < F)
    g = tl.load(grad + r * V * F + place, mask=inside, other=0.0)
    if DROP:
        g = kept(g, noise, noise_v, row, inside, F, p, WIDTH)
    own = tl.where(real, g, 0.0)
    if ACTIVATION is not None:
        y = slope * (values - mu) + of_features(bias, r, F, WIDTH)
        if ACTIVATION == "relu":
            own = tl.where(y <= 0, 0.0, own)
        else:
            own = tl.where(y > 0, own, own * tl.exp(tl.minimum(y, 0.0)))
    return own, g


@triton.jit
def norm_sums(
    x, factor, count, grad, weight, bias, noise, mean, var, total, product, V, F, noise_r, noise_v, p,
    ACTIVATION: tl.constexpr, DROP: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The sums of the gradient, and of the gradient times the distance to the mean, of each program."""
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
    """The gradients of x, of the weight and of the bias, and of the residual."""
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


class _Normalise(Function):
    """x [R, V, F], factor [R, V, 1], count [R], weight and bias [R, F], residual and noise [R, V, F] or None, running
    mean and variance [R, F] -> y [R, V, F], mean and variance [R, F]."""

    @staticmethod
    def forward(activation: str | None, p: float, *inputs: Tensor | None) -> tuple[Tensor, ...]:
        *given, noise, running_mean, running_var = inputs
        x, factor, count, weight, bias, residual = (None if t is None else t.contiguous() for t in given)
        R, V, F = x.shape
        (P, spread, most), columns, shared = programs(V, F), *sizes(F)
        rows, (means, spreads) = x.new_empty(R, P), x.new_empty(2, R, P, F).unbind()
        norm_statistics[(P, R, columns)](x, factor, count, rows, means, spreads, V, known(F, F), **shared)
        y, (mean, var) = torch.empty_like(x), x.new_empty(2, R, F).unbind()
        (drop, numbers), constants = (
            _noise(noise, F),
            {"ACTIVATION": activation, "RESIDUAL": residual is not None, **shared},
        )
        norm_apply[(spread, R, columns)](
            x, factor, count, weight, bias, x if residual is None else residual, x if noise is None else noise,
            running_mean, running_var, rows, means, spreads, y, mean, var, V, known(F, F), P, *numbers,
            running_mean.stride(0), running_var.stride(0), p, DROP=drop, PROGRAMS=most, **constants,
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
    @first_derivative
    def backward(ctx: FunctionCtx, grad: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        *saved, noise = ctx.saved_tensors
        x, factor, count, weight, bias, mean, var = (t.contiguous() for t in saved)
        grad = grad.contiguous()
        R, V, F = x.shape
        (P, spread, most), columns, shared = programs(V, F), *sizes(F)
        drop, numbers = _noise(noise, F)
        totals, products = x.new_empty(2, R, P, F).unbind()
        given = (x, factor, count, grad, weight, bias, x if noise is None else noise, mean, var, totals, products)
        constants = {"ACTIVATION": ctx.activation, "DROP": drop, **shared}
        norm_sums[(P, R, columns)](*given, V, known(F, F), *numbers, ctx.p, **constants)
        grad_x, (grad_weight, grad_bias) = torch.empty_like(x), x.new_empty(2, R, F).unbind()
        apart = ctx.residual and drop  # without dropout it is the incoming gradient itself
        grad_residual = torch.empty_like(x) if apart else grad
        made = (grad_x, grad_residual, grad_weight, grad_bias)
        norm_back[(spread, R, columns)](
            *given, *made, V, known(F, F), P, *numbers, ctx.p, RESIDUAL=apart, PROGRAMS=most, **constants
        )
        others = (grad_residual if ctx.residual else None, None, None, None)
        return None, None, grad_x, None, None, grad_weight, grad_bias, *others

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple, activation: str | None, p: float, *inputs: Tensor | None
    ) -> tuple[tuple, tuple]:
        R, ways = info.batch_size, (replicated,) * 6 + (rows_of_replicas,) * 3
        lifted = (None if t is None else way(t, dim, R) for way, t, dim in zip(ways, inputs, in_dims[2:], strict=True))
        return tuple(t.unflatten(0, (R, -1)) for t in _Normalise.apply(activation, p, *lifted)), (0, 0, 0)


class _Evaluate(Function):
    """x [R, V, F], factor [R, V, 1], weight, bias, mean, variance [R, F], residual [R, V, F] or None -> [R, V, F]."""

    @staticmethod
    def forward(activation: str | None, *inputs: Tensor | None) -> Tensor:
        *given, residual = (None if t is None else t.contiguous() for t in inputs)
        x, y, (R, V, F) = given[0], torch.empty_like(given[0]), given[0].shape
        columns, shared = sizes(F)
        constants = {"ACTIVATION": activation, "RESIDUAL": residual is not None, **shared}
        added = x if residual is None else residual
        norm_evaluate[(-(-V // BLOCK), R, columns)](*given, added, y, V, known(F, F), **constants)
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, activation: str | None, *inputs: Tensor | None) -> tuple[Tensor, int]:
        R = info.batch_size
        lifted = (
            None if t is None else rows_of_replicas(t, dim, R) for t, dim in zip(inputs, in_dims[1:], strict=True)
        )
        return _Evaluate.apply(activation, *lifted).unsqueeze(1), 0


def sums(x: Tensor, factor: Tensor, count: Tensor, grad: Tensor, *norm: Tensor) -> tuple[Tensor, ...]:
    """Of the gradient before a ReLU the sum, and that with the distance to the mean, [R, F]; norm: as the kernel's."""
    (R, V, F), (weight, bias, mean, var) = x.shape, norm
    (P, *_), (columns, constants) = programs(V, F), sizes(F)
    made, given = x.new_empty(2, R, P, F), (x, factor, count, grad, weight, bias, x, mean, var)
    norm_sums[(P, R, columns)](*given, *made, V, known(F, F), 0, 0, 0.0, ACTIVATION="relu", DROP=False, **constants)
    return made.sum(2).unbind()


def _noise(noise: Tensor | None, F: int) -> tuple[bool, tuple[int, int | tl.constexpr]]:
    """Whether there is dropout, and how far the noise of replicas and of rows is apart."""
    if noise is None:
        return False, (0, 0)
    return True, (noise.stride(0), known(noise.stride(1), F))
