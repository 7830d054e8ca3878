"""DiffPool's assignment of nodes to the clusters of their graphs, for all replicas at once.

A node v is mapped to z_v = W x_v + b, C = places · k numbers; t_v = z_v / |z_v|; u_v = ReLU(t_v) is normalised over the
nodes; S is the softmax over the k numbers of the place of v's graph. The other numbers matter only for |z_v| and for
the mean and variance of their columns. So z, up to a hundred times as large as x, is never in memory: it is multiplied
again wherever it is needed, for the lengths, for the statistics, and twice in the backward pass. A program per place
computes the k columns that belong to it.

For the backward pass, let g be the gradient of the normalised numbers of n nodes. It is zero but at a node's own place,
so that Σ_v g_vc and Σ_v g_vc (u_vc - mean_c), which batch normalisation hands back to every node, come from one graph
each. With slope_c the scale over √(var_c + ε),

    ∂u_vc = slope_c g_vc + offset_c + rate_c u_vc,   ∂t = ∂u where z > 0,   ∂z_v = (∂t_v - t_v Σ_c ∂t_vc t_vc) / |z_v|.

The first kernel does the term of g, and finds offset and rate; the others do the terms of all columns: row by row for
x, and column by column for W and b.

The plain-torch twin is in diffpool.py; here S of the padding is zero.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import Copied, KernelFunction, Strided, saved
from pna.kernels.moments import block_moments, merge, merge_parts
from pna.kernels.tiles import load_rows, multiply, relu, store_rows
from pna.neighbourhoods import Joined
from pna.realworld.kernels.graphs import Graphs
from pna.realworld.kernels.norm_tile import EPS, move_on

__all__ = ["assign", "supports"]

WIDEST, MOST = 128, 64  # numbers of a node, and clusters of a graph, that a program has room for
PARTS = 8  # of a replica's rows, at most: each column's sums over them are put together at the end
SHORTEST = tl.constexpr(1e-12)  # as in torch.nn.functional.normalize


def supports(x: Tensor, k: int, graphs: Joined | None) -> bool:
    """Whether the graphs of all replicas are joined, with few enough features and clusters."""
    return graphs is not None and x.shape[-1] <= WIDEST and k <= MOST


def assign(
    x: Tensor, linear: tuple[Tensor, ...], norm: tuple[Tensor, ...], count: Tensor, ptr: Tensor, B: int, training: bool
) -> Tensor:
    """Assign the nodes x [V, D] of B graphs to the clusters of their graphs: S [V, k].

    linear: W [places, k, D] and b [C]. norm: weight, bias, running mean and variance, [C] each, the last two being
    updated in training. count []: the number of rows that are real. ptr: the pointers of the graphs of all replicas.
    """
    return _Assign.call(training, x, *linear, *norm[:2], count, *norm[2:], Graphs(ptr, B))[0]


# ---- forward ----


@triton.jit
def _inverse_length(length, row, inside):
    """1/|z| of some rows, 0 beyond the last one, and whether |z| is at least SHORTEST."""
    n = tl.load(length + row, mask=inside, other=float("inf"))
    return 1 / tl.where(n < SHORTEST, SHORTEST, n), n >= SHORTEST


@triton.jit
def _load_columns(at, r, c, C):
    """One number for each of some columns, of a replica; zero beyond the last one."""
    return tl.load(at + r * C + c, mask=c < C, other=0.0)


@triton.jit
def assignment_lengths(x, weight, bias, count, length, V, C, D: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """|z| of a block of rows."""
    r = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = row < tl.load(count + r).to(tl.int32)
    nodes = load_rows(x + r * V * D, row, real, D, D, WIDTH)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, C, BLOCK):
        c = start + tl.arange(0, BLOCK)
        z = multiply(nodes, tl.trans(load_rows(weight + r * C * D, c, c < C, D, D, WIDTH)))
        z += _load_columns(bias, r, c, C)[None, :]
        squares += tl.sum(z * z, 1)
    tl.store(length + r * V + row, tl.sqrt(squares), mask=real)


@triton.jit
def assignment_statistics(
    x, weight, bias, count, length, rows, means, spreads, V, C,
    D: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Number, mean and squared distance to it of some columns of u in a part of the rows, merged block by block."""
    r = tl.program_id(1).to(tl.int64)
    me = r * tl.num_programs(0) + tl.program_id(0)
    live = tl.load(count + r).to(tl.int32)
    c = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    w = load_rows(weight + r * C * D, c, c < C, D, D, WIDTH)
    b = _load_columns(bias, r, c, C)[:, None]
    n = 0.0
    mu = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(live, BLOCK), tl.num_programs(0)):
        row = block * BLOCK + tl.arange(0, BLOCK)
        real = row < live
        inverse, _ = _inverse_length(length + r * V, row, real)
        z = multiply(w, tl.trans(load_rows(x + r * V * D, row, real, D, D, WIDTH))) + b  # [columns, rows]
        u = relu(z) * inverse[None, :]
        m = tl.minimum(live - block * BLOCK, BLOCK).to(tl.float32)
        centre, within = block_moments(u, real[None, :], m, 1)
        mu, between = merge(n, mu, m, centre)
        squares += within + between
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
    distances = tl.load(spreads + p * C + c[None, :], mask=there & inside[None, :], other=0.0)
    mu, squares = merge_parts(each, centres, distances, n)
    return mu, squares / n


@triton.jit
def assignment_softmax(
    x, weight, bias, scale, shift, count, ptr, length, running_mean, running_var, rows, means, spreads, mean, var,
    S, C, B, P, stride_m, stride_v, TRAINING: tl.constexpr, PARTS: tl.constexpr, D: tl.constexpr, K: tl.constexpr,
    WIDTH: tl.constexpr, CLUSTERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """S of the nodes of the graph at one place, and the mean and variance of that place's columns."""
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
    w = load_rows(weight + r * C * D, c, inside, D, D, WIDTH)
    b = tl.load(bias + r * C + c, mask=inside, other=0.0)
    graph = ptr + r * (B + 1) + place
    end = tl.load(graph + 1, mask=place < B, other=0)
    for start in range(tl.load(graph, mask=place < B, other=0), end, BLOCK):  # nodes of all replicas
        row = start + tl.arange(0, BLOCK)
        inverse, _ = _inverse_length(length, row, row < end)
        z = multiply(load_rows(x, row, row < end, D, D, WIDTH), tl.trans(w)) + b[None, :]
        u = relu(z) * inverse[:, None]
        y = tl.where(inside[None, :], slope[None, :] * (u - mu[None, :]) + after[None, :], float("-inf"))
        e = tl.exp(y - tl.max(y, 1)[:, None])
        store_rows(S, e / tl.sum(e, 1)[:, None], row, row < end, K, CLUSTERS)


# ---- backward ----


@triton.jit
def assignment_softmax_back(
    x, weight, bias, scale, count, ptr, length, mean, var, S, grad, grad_x, along, grad_weight, grad_bias,
    grad_scale, grad_shift, offset, rate, C, B, P, D: tl.constexpr, K: tl.constexpr, WIDTH: tl.constexpr,
    CLUSTERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients through a graph's own place: a part of each one, and the offset and rate of that place's columns."""
    place = tl.program_id(0)
    r = tl.program_id(1).to(tl.int64)
    k = tl.arange(0, CLUSTERS)
    c = place * K + k
    inside = k < K
    mu = tl.load(mean + r * C + c, mask=inside, other=0.0)
    spread = tl.rsqrt(tl.load(var + r * C + c, mask=inside, other=1.0) + EPS)
    slope = spread * tl.load(scale + r * C + c, mask=inside, other=0.0)
    w = load_rows(weight + r * C * D, c, inside, D, D, WIDTH)
    b = tl.load(bias + r * C + c, mask=inside, other=0.0)
    total = tl.zeros([CLUSTERS], tl.float32)
    product = tl.zeros([CLUSTERS], tl.float32)
    of_bias = tl.zeros([CLUSTERS], tl.float32)
    of_weight = tl.zeros([CLUSTERS, WIDTH], tl.float32)
    graph = ptr + r * (B + 1) + place
    end = tl.load(graph + 1, mask=place < B, other=0)
    for start in range(tl.load(graph, mask=place < B, other=0), end, BLOCK):
        row = start + tl.arange(0, BLOCK)
        real = row < end
        inverse, _ = _inverse_length(length, row, real)
        nodes = load_rows(x, row, real, D, D, WIDTH)
        z = multiply(nodes, tl.trans(w)) + b[None, :]
        assignment = load_rows(S, row, real, K, K, CLUSTERS)
        g = load_rows(grad, row, real, K, K, CLUSTERS)
        g = assignment * (g - tl.sum(g * assignment, 1)[:, None])
        total += tl.sum(g, 0)
        product += tl.sum(g * (relu(z) * inverse[:, None] - mu[None, :]), 0)
        g = tl.where(z > 0, slope[None, :] * g, 0.0) * inverse[:, None]
        tl.store(along + row, tl.sum(g * z, 1), mask=real)
        store_rows(grad_x, multiply(g, w), row, real, D, WIDTH)
        of_bias += tl.sum(g, 0)
        of_weight = multiply(tl.trans(g), nodes, of_weight)
    n = tl.maximum(tl.load(count + r), 1.0)
    change = -slope * spread * spread * product / n
    tl.store(rate + r * C + c, change, mask=inside)
    tl.store(offset + r * C + c, -slope * total / n - change * mu, mask=inside)
    tl.store(grad_scale + r * C + c, product * spread, mask=inside)
    tl.store(grad_shift + r * C + c, total, mask=inside)
    store_rows(grad_weight, of_weight, r * P * C + c, inside, D, WIDTH)
    tl.store(grad_bias + r * P * C + c, of_bias, mask=inside)


@triton.jit
def assignment_rows_back(x, weight, bias, count, length, offset, rate, pulled, grad_x, along, V, C, D: tl.constexpr,
                         WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The gradient of a block of rows of x, and Σ_c ∂t_c t_c of each; pulled: Σ_c z_c W_c."""
    r = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = row < tl.load(count + r).to(tl.int32)
    inverse, long = _inverse_length(length + r * V, row, real)
    nodes = load_rows(x + r * V * D, row, real, D, D, WIDTH)
    total = tl.zeros([BLOCK], tl.float32)
    back = tl.zeros([BLOCK, WIDTH], tl.float32)
    for start in range(0, C, BLOCK):
        c = start + tl.arange(0, BLOCK)
        w = load_rows(weight + r * C * D, c, c < C, D, D, WIDTH)
        z = multiply(nodes, tl.trans(w)) + _load_columns(bias, r, c, C)[None, :]
        t = z * inverse[:, None]
        g = _load_columns(offset, r, c, C)[None, :]
        g = tl.where(z > 0, g + _load_columns(rate, r, c, C)[None, :] * t, 0.0)
        total += tl.sum(g * t, 1)
        back = multiply(g, w, back)
    total = tl.where(long, total + tl.load(along + r * V + row, mask=real, other=0.0), 0.0)
    tl.store(along + r * V + row, total, mask=real)
    back -= (total * inverse)[:, None] * load_rows(pulled + r * V * D, row, real, D, D, WIDTH)
    back = load_rows(grad_x + r * V * D, row, real, D, D, WIDTH) + back * inverse[:, None]
    store_rows(grad_x + r * V * D, back, row, row < V, D, WIDTH)


@triton.jit
def assignment_columns_back(x, weight, bias, count, length, offset, rate, along, grad_weight, grad_bias, V, C,
                            D: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The gradients of a block of rows of W and b, from a part of the rows of x; part 0 is that of the own places."""
    r = tl.program_id(1).to(tl.int64)
    live = tl.load(count + r).to(tl.int32)
    c = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    w = load_rows(weight + r * C * D, c, c < C, D, D, WIDTH)
    b = _load_columns(bias, r, c, C)[:, None]
    still = _load_columns(offset, r, c, C)[:, None]
    change = _load_columns(rate, r, c, C)[:, None]
    of_bias = tl.zeros([BLOCK], tl.float32)
    of_weight = tl.zeros([BLOCK, WIDTH], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(live, BLOCK), tl.num_programs(0)):
        row = block * BLOCK + tl.arange(0, BLOCK)
        real = row < live
        inverse, _ = _inverse_length(length + r * V, row, real)
        nodes = load_rows(x + r * V * D, row, real, D, D, WIDTH)
        z = multiply(w, tl.trans(nodes)) + b  # [columns, rows]
        t = z * inverse[None, :]
        g = tl.where(z > 0, still + change * t, 0.0)
        g = (g - t * tl.load(along + r * V + row, mask=real, other=0.0)[None, :]) * inverse[None, :]
        of_bias += tl.sum(g, 1)
        of_weight = multiply(g, nodes, of_weight)
    part = r * (tl.num_programs(0) + 1) + tl.program_id(0) + 1
    store_rows(grad_weight, of_weight, part * C + c, c < C, D, WIDTH)
    tl.store(grad_bias + part * C + c, of_bias, mask=c < C)


# ---- the function ----


class _Assign(KernelFunction):
    """DiffPool's assignment as an autograd Function.

    training, x [R, V, D], W [R, places, k, D], b, scale, shift [R, C], count [R], running mean and variance [R, C],
    the graphs of all replicas -> S [R, V, k], |z| [R, V], mean and variance [R, C].
    """

    @staticmethod
    def forward(
        training: bool, x: Copied, weight: Copied, bias: Copied, scale: Copied, shift: Copied, count: Copied,
        running_mean: Strided, running_var: Strided, graphs: Graphs,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        (R, V, _), (_, places, K, _), C, (ptr, B) = x.shape, weight.shape, bias.shape[1], graphs
        parts, sizes = _sizes(x)
        length, S, (mean, var) = x.new_empty(R, V), x.new_zeros(R, V, K), x.new_empty(2, R, C).unbind()
        assignment_lengths[(_blocks(V, sizes), R)](x, weight, bias, count, length, V, C, **sizes)
        rows, (means, spreads) = x.new_empty(R, parts), x.new_empty(2, R, parts, C).unbind()
        if training:
            tensors = (x, weight, bias, count, length, rows, means, spreads)
            assignment_statistics[(parts, R, _blocks(C, sizes))](*tensors, V, C, **sizes)
        assignment_softmax[(places, R)](
            x, weight, bias, scale, shift, count, ptr, length, running_mean, running_var, rows, means, spreads,
            mean, var, S, C, B, parts, running_mean.stride(0), running_var.stride(0),
            TRAINING=training, PARTS=PARTS, **_cluster_sizes(K), **sizes,
        )  # fmt: skip
        return S, length, mean, var

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        _, x, weight, bias, scale, _, count, _, _, (ptr, ctx.B) = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, weight, bias, scale, count, ptr, *output)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        x, weight, bias, scale, count, ptr, S, length, mean, var = saved(ctx)
        (R, V, D), (_, places, K, _), C = x.shape, weight.shape, bias.shape[1]
        parts, sizes = _sizes(x)
        grad_x, along = torch.empty_like(x), torch.empty_like(length)
        of_weight, of_bias = x.new_empty(R, parts + 1, C, D), x.new_empty(R, parts + 1, C)
        of_scale, of_shift, offset, rate = x.new_empty(4, R, C).unbind()
        assignment_softmax_back[(places, R)](
            x, weight, bias, scale, count, ptr, length, mean, var, S, grad, grad_x, along, of_weight, of_bias,
            of_scale, of_shift, offset, rate, C, ctx.B, parts + 1, **_cluster_sizes(K), **sizes,
        )  # fmt: skip
        tensors, flat = (x, weight, bias, count, length, offset, rate), weight.flatten(1, 2)  # [R, C, D]
        pulled = torch.baddbmm(bias.unsqueeze(1) @ flat, x, flat.mT @ flat)  # (x Wᵀ + b) W
        assignment_rows_back[(_blocks(V, sizes), R)](*tensors, pulled, grad_x, along, V, C, **sizes)
        grid = (parts, R, _blocks(C, sizes))
        assignment_columns_back[grid](*tensors, along, of_weight, of_bias, V, C, **sizes)
        grads = grad_x, of_weight.sum(1).view_as(weight), of_bias.sum(1), of_scale, of_shift
        return None, *grads, None, None, None, None


def _sizes(x: Tensor) -> tuple[int, dict[str, int]]:
    """The number of parts into which the rows are divided, and the constants of all kernels."""
    V, D = x.shape[1:]
    width = max(16, triton.next_power_of_2(D))
    block = 64 if width <= 64 else 32  # that products of wide rows fit the shared memory
    sizes = {"D": D, "WIDTH": width, "BLOCK": block, "num_warps": 4, "num_stages": 2}
    return min(_blocks(V, sizes), PARTS), sizes


def _blocks(rows: int, sizes: dict[str, int]) -> int:
    """The number of blocks of rows; at least one, which may be empty."""
    return max(1, -(-rows // sizes["BLOCK"]))


def _cluster_sizes(K: int) -> dict[str, int]:
    """Further constants of the kernels with a program per place."""
    return {"K": K, "CLUSTERS": max(16, triton.next_power_of_2(K))}
