"""DiffPool's assignment: how each node is shared out among the clusters of its graph, all replicas at once.

A node v is mapped to z_v = W x_v + b, C = places · k numbers; t_v = z_v / |z_v|; u_v = ReLU(t_v) is normalised over the
nodes; the softmax is over the k numbers of its graph's place. All others matter as well, but only for |z_v| and for the
mean and variance of each column. So z, up to a hundred times as large as x, is never in memory: it is multiplied anew
where it is wanted, for the lengths, for the statistics, and twice on the way back (assignment_gradients.py). What is
of a graph's own place, a program for each place does.

The plain-torch twin is in diffpool.py; here S of the padding is zero.
"""

from typing import Any

import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna import segments
from pna.kernels.selection import first_derivative, on_its_device
from pna.neighbourhoods import Joined
from pna.networks.kernels.replicas import replicated, rows_of_replicas
from pna.realworld.kernels.assignment_gradients import gradients
from pna.realworld.kernels.assignment_tile import (
    PARTS,
    blocks,
    inverse_length,
    of_clusters,
    relu,
    rows_of,
    sizes,
    times,
)
from pna.realworld.kernels.norm_tile import EPS, move_on

__all__ = ["shares", "supports"]

WIDEST, MOST = 128, 64  # numbers of a node, and clusters of a graph, that a program has room for


def supports(x: Tensor, k: int, graphs: Joined | None) -> bool:
    """Whether the kernels serve: where the graphs of all replicas are joined, and rows are short."""
    return graphs is not None and x.shape[-1] <= WIDEST and k <= MOST


@on_its_device
def shares(
    x: Tensor, linear: tuple[Tensor, ...], norm: tuple[Tensor, ...], count: Tensor, ptr: Tensor, B: int, training: bool
) -> Tensor:
    """x [V, D], of which `count` rows are real; linear: W [places, k, D] and b [C]; norm: weight, bias, running mean
    and variance, [C] each, the last two being moved on in training; ptr: of the graphs of all replicas -> S [V, k]."""
    given = (t.unsqueeze(0) for t in (x, *linear, *norm[:2], count, *norm[2:]))
    return _Shares.apply(training, B, ptr, *given)[0].squeeze(0)


@triton.jit
def share_lengths(x, weight, bias, count, length, V, C, D: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """|z| of a block of rows."""
    r = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = row < tl.load(count + r).to(tl.int32)
    own = rows_of(x + r * V * D, row, real, D, WIDTH)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, C, BLOCK):
        c = start + tl.arange(0, BLOCK)
        z = times(own, rows_of(weight + r * C * D, c, c < C, D, WIDTH))
        z += tl.load(bias + r * C + c, mask=c < C, other=0.0)[None, :]
        squares += tl.sum(z * z, 1)
    tl.store(length + r * V + row, tl.sqrt(squares), mask=real)


@triton.jit
def share_statistics(x, weight, bias, count, length, rows, means, spreads, V, C, D: tl.constexpr, WIDTH: tl.constexpr,
                     BLOCK: tl.constexpr):  # fmt: skip
    """Of some columns of u in a part of the rows: their number, mean and squared distance to it, block by block."""
    r = tl.program_id(1).to(tl.int64)
    me = r * tl.num_programs(0) + tl.program_id(0)
    live = tl.load(count + r).to(tl.int32)
    c = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    w = rows_of(weight + r * C * D, c, c < C, D, WIDTH)
    b = tl.load(bias + r * C + c, mask=c < C, other=0.0)[:, None]
    n = 0.0
    mu = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(live, BLOCK), tl.num_programs(0)):
        row = block * BLOCK + tl.arange(0, BLOCK)
        real = row < live
        inverse, _ = inverse_length(length + r * V, row, real)
        u = relu(times(w, rows_of(x + r * V * D, row, real, D, WIDTH)) + b) * inverse[None, :]  # [columns, rows]
        m = tl.minimum(live - block * BLOCK, BLOCK).to(tl.float32)
        centre = tl.sum(u, 1) / m
        away = tl.where(real[None, :], u - centre[:, None], 0.0)
        step = centre - mu
        squares += tl.sum(away * away, 1) + step * step * (n * m / (n + m))
        mu += step * (m / (n + m))
        n += m
    tl.store(rows + me, n, mask=tl.program_id(2) == 0)
    tl.store(means + me * C + c, mu, mask=c < C)
    tl.store(spreads + me * C + c, squares, mask=c < C)


@triton.jit
def _merged(rows, means, spreads, n, r, c, inside, P, C, PARTS: tl.constexpr):
    """Mean and variance of some columns over all parts of the rows."""
    p = r * P + tl.arange(0, PARTS)[:, None]
    there = tl.arange(0, PARTS)[:, None] < P
    each = tl.load(rows + p, mask=there, other=0.0)
    centres = tl.load(means + p * C + c[None, :], mask=there & inside[None, :], other=0.0)
    mu = tl.sum(each * centres, 0) / n
    away = centres - mu[None, :]
    squares = tl.load(spreads + p * C + c[None, :], mask=there & inside[None, :], other=0.0)
    return mu, tl.sum(squares + each * away * away, 0) / n


@triton.jit
def share_own(
    x, weight, bias, scale, shift, count, ptr, length, running_mean, running_var, rows, means, spreads, mean, var,
    share, C, B, P, stride_m, stride_v, TRAINING: tl.constexpr, PARTS: tl.constexpr, D: tl.constexpr, K: tl.constexpr,
    WIDTH: tl.constexpr, CLUSTERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """S of the nodes of the graph at a place; and the mean and variance of the columns of that place."""
    place = tl.program_id(0)
    r = tl.program_id(1).to(tl.int64)
    k = tl.arange(0, CLUSTERS)
    c = place * K + k
    inside = k < K
    if TRAINING:
        n = tl.maximum(tl.load(count + r), 1.0)
        mu, variance = _merged(rows, means, spreads, n, r, c, inside, P, C, PARTS)
        tl.store(mean + r * C + c, mu, mask=inside)
        tl.store(var + r * C + c, variance, mask=inside)
        move_on(running_mean + r * stride_m + c, mu, inside)
        move_on(running_var + r * stride_v + c, variance * (n / tl.maximum(n - 1, 1.0)), inside)
    else:
        mu = tl.load(running_mean + r * stride_m + c, mask=inside, other=0.0)
        variance = tl.load(running_var + r * stride_v + c, mask=inside, other=0.0)
    slope = tl.rsqrt(variance + EPS) * tl.load(scale + r * C + c, mask=inside, other=0.0)
    after = tl.load(shift + r * C + c, mask=inside, other=0.0)
    w = rows_of(weight + r * C * D, c, inside, D, WIDTH)
    b = tl.load(bias + r * C + c, mask=inside, other=0.0)
    graph = ptr + r * (B + 1) + place
    end = tl.load(graph + 1, mask=place < B, other=0)
    for start in range(tl.load(graph, mask=place < B, other=0), end, BLOCK):  # nodes of all replicas
        row = start + tl.arange(0, BLOCK)
        inverse, _ = inverse_length(length, row, row < end)
        u = relu(times(rows_of(x, row, row < end, D, WIDTH), w) + b[None, :]) * inverse[:, None]
        y = tl.where(inside[None, :], slope[None, :] * (u - mu[None, :]) + after[None, :], float("-inf"))
        e = tl.exp(y - tl.max(y, 1)[:, None])
        there = (row < end)[:, None] & inside[None, :]
        tl.store(share + row[:, None] * K + k[None, :], e / tl.sum(e, 1)[:, None], mask=there)


class _Shares(Function):
    """training, B, ptr [R·(B + 1) + 1], x [R, V, D], W [R, places, k, D], b, scale and shift [R, C], count [R], running
    mean and variance [R, C] -> S [R, V, k], |z| [R, V], mean and variance [R, C]."""

    @staticmethod
    def forward(training: bool, B: int, ptr: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        *given, running_mean, running_var = inputs
        x, weight, bias, scale, shift, count = (t.contiguous() for t in given)
        (R, V, _), (_, places, K, _), C = x.shape, weight.shape, bias.shape[1]
        parts, constants = sizes(x)
        length, share, (mean, var) = x.new_empty(R, V), x.new_zeros(R, V, K), x.new_empty(2, R, C).unbind()
        share_lengths[(blocks(V, constants), R)](x, weight, bias, count, length, V, C, **constants)
        rows, (means, spreads) = x.new_empty(R, parts), x.new_empty(2, R, parts, C).unbind()
        if training:
            made = (length, rows, means, spreads)
            share_statistics[(parts, R, blocks(C, constants))](x, weight, bias, count, *made, V, C, **constants)
        share_own[(places, R)](
            x, weight, bias, scale, shift, count, ptr, length, running_mean, running_var, rows, means, spreads,
            mean, var, share, C, B, parts, running_mean.stride(0), running_var.stride(0),
            TRAINING=training, PARTS=PARTS, **of_clusters(K), **constants,
        )  # fmt: skip
        return share, length, mean, var

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        _, ctx.B, ptr, *given, _, _ = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(ptr, *given, *output)

    @staticmethod
    @first_derivative
    def backward(ctx: FunctionCtx, grad: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        grads = gradients(grad.contiguous(), ctx.B, *(t.contiguous() for t in ctx.saved_tensors))
        return None, None, None, *grads, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, training: bool, B: int, ptr: Tensor, *inputs: Tensor) -> tuple[tuple, tuple]:
        R, ways = info.batch_size, (replicated,) * 6 + (rows_of_replicas,) * 2
        lifted = [way(t, dim, R) for way, t, dim in zip(ways, inputs, in_dims[3:], strict=True)]
        if len(ptr) - 1 != R * (B + 1):  # one batch for all replicas, made outside of vmap
            ptr = segments.joined_ptr(ptr.expand(R, -1), lifted[0].shape[1])
        return tuple(t.unsqueeze(1) for t in _Shares.apply(training, B, ptr, *lifted)), (0,) * 4
