"""The gradients of DiffPool's assignment: assignment.py has the names.

Of n nodes, let g be the gradient of the normalised numbers. It is zero but at a node's own place, so that Σ_v g_vc and
Σ_v g_vc (u_vc - mean_c), which batch normalisation hands back to every node, come from one graph each. With slope_c the
scale over √(var_c + ε),

    ∂u_vc = slope_c g_vc + offset_c + rate_c u_vc,   ∂t = ∂u where z > 0,   ∂z_v = (∂t_v - t_v Σ_c ∂t_vc t_vc) / |z_v|.

The first kernel does the term of g, and finds offset and rate; the others do their terms, of all columns: rows by rows
for x, and columns by columns for W and b.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pna.realworld.kernels.assignment_tile import blocks, inverse_length, of_clusters, relu, rows_of, sizes, times
from pna.realworld.kernels.norm_tile import EPS

__all__ = ["gradients"]


@triton.jit
def share_own_back(
    x, weight, bias, scale, count, ptr, length, mean, var, share, grad, grad_x, along, grad_weight, grad_bias,
    grad_scale, grad_shift, offset, rate, C, B, P, D: tl.constexpr, K: tl.constexpr, WIDTH: tl.constexpr,
    CLUSTERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """What comes back by a graph's own place: a part of every gradient, and the offset and rate of its columns."""
    place = tl.program_id(0)
    r = tl.program_id(1).to(tl.int64)
    k = tl.arange(0, CLUSTERS)
    c = place * K + k
    inside = k < K
    mu = tl.load(mean + r * C + c, mask=inside, other=0.0)
    spread = tl.rsqrt(tl.load(var + r * C + c, mask=inside, other=1.0) + EPS)
    slope = spread * tl.load(scale + r * C + c, mask=inside, other=0.0)
    w = rows_of(weight + r * C * D, c, inside, D, WIDTH)
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
        inverse, _ = inverse_length(length, row, real)
        own = rows_of(x, row, real, D, WIDTH)
        z = times(own, w) + b[None, :]
        S = rows_of(share, row, real, K, CLUSTERS)
        g = rows_of(grad, row, real, K, CLUSTERS)
        g = S * (g - tl.sum(g * S, 1)[:, None])
        total += tl.sum(g, 0)
        product += tl.sum(g * (relu(z) * inverse[:, None] - mu[None, :]), 0)
        g = tl.where(z > 0, slope[None, :] * g, 0.0) * inverse[:, None]
        tl.store(along + row, tl.sum(g * z, 1), mask=real)
        d = tl.arange(0, WIDTH)[None, :]
        back = tl.dot(g, w, input_precision="tf32x3")
        tl.store(grad_x + row[:, None] * D + d, back, mask=real[:, None] & (d < D))
        of_bias += tl.sum(g, 0)
        of_weight = tl.dot(tl.trans(g), own, of_weight, input_precision="tf32x3")
    n = tl.maximum(tl.load(count + r), 1.0)
    change = -slope * spread * spread * product / n
    tl.store(rate + r * C + c, change, mask=inside)
    tl.store(offset + r * C + c, -slope * total / n - change * mu, mask=inside)
    tl.store(grad_scale + r * C + c, product * spread, mask=inside)
    tl.store(grad_shift + r * C + c, total, mask=inside)
    _put(grad_weight, grad_bias, of_weight, of_bias, r * P, c, inside, C, D, WIDTH)


@triton.jit
def _put(grad_weight, grad_bias, of_weight, of_bias, part, c, inside, C, D: tl.constexpr, WIDTH: tl.constexpr):
    """A part of the gradients of W and b, of some columns."""
    d = tl.arange(0, WIDTH)[None, :]
    tl.store(grad_weight + (part * C + c)[:, None] * D + d, of_weight, mask=inside[:, None] & (d < D))
    tl.store(grad_bias + part * C + c, of_bias, mask=inside)


@triton.jit
def share_rows_back(x, weight, bias, count, length, offset, rate, pulled, grad_x, along, V, C, D: tl.constexpr,
                    WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The gradient of a block of rows of x, and Σ_c ∂t_c t_c of each; pulled: Σ_c z_c W_c."""
    r = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = row < tl.load(count + r).to(tl.int32)
    inverse, long = inverse_length(length + r * V, row, real)
    own = rows_of(x + r * V * D, row, real, D, WIDTH)
    total = tl.zeros([BLOCK], tl.float32)
    back = tl.zeros([BLOCK, WIDTH], tl.float32)
    for start in range(0, C, BLOCK):
        c = start + tl.arange(0, BLOCK)
        w = rows_of(weight + r * C * D, c, c < C, D, WIDTH)
        z = times(own, w) + tl.load(bias + r * C + c, mask=c < C, other=0.0)[None, :]
        t = z * inverse[:, None]
        g = tl.load(offset + r * C + c, mask=c < C, other=0.0)[None, :]
        g = tl.where(z > 0, g + tl.load(rate + r * C + c, mask=c < C, other=0.0)[None, :] * t, 0.0)
        total += tl.sum(g * t, 1)
        back = tl.dot(g, w, back, input_precision="tf32x3")
    total = tl.where(long, total + tl.load(along + r * V + row, mask=real, other=0.0), 0.0)
    tl.store(along + r * V + row, total, mask=real)
    back -= (total * inverse)[:, None] * rows_of(pulled + r * V * D, row, real, D, WIDTH)
    back = rows_of(grad_x + r * V * D, row, real, D, WIDTH) + back * inverse[:, None]
    d = tl.arange(0, WIDTH)[None, :]
    tl.store(grad_x + r * V * D + row[:, None] * D + d, back, mask=(row < V)[:, None] & (d < D))


@triton.jit
def share_columns_back(x, weight, bias, count, length, offset, rate, along, grad_weight, grad_bias, V, C,
                       D: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The gradients of a block of rows of W and b, from a part of the rows of x; the first part is the own places'."""
    r = tl.program_id(1).to(tl.int64)
    live = tl.load(count + r).to(tl.int32)
    c = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    w = rows_of(weight + r * C * D, c, c < C, D, WIDTH)
    b = tl.load(bias + r * C + c, mask=c < C, other=0.0)[:, None]
    still = tl.load(offset + r * C + c, mask=c < C, other=0.0)[:, None]
    change = tl.load(rate + r * C + c, mask=c < C, other=0.0)[:, None]
    of_bias = tl.zeros([BLOCK], tl.float32)
    of_weight = tl.zeros([BLOCK, WIDTH], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(live, BLOCK), tl.num_programs(0)):
        row = block * BLOCK + tl.arange(0, BLOCK)
        real = row < live
        inverse, _ = inverse_length(length + r * V, row, real)
        own = rows_of(x + r * V * D, row, real, D, WIDTH)
        z = times(w, own) + b  # [columns, rows]
        t = z * inverse[None, :]
        g = tl.where(z > 0, still + change * t, 0.0)
        g = (g - t * tl.load(along + r * V + row, mask=real, other=0.0)[None, :]) * inverse[None, :]
        of_bias += tl.sum(g, 1)
        of_weight = tl.dot(g, own, of_weight, input_precision="tf32x3")
    part = r * (tl.num_programs(0) + 1) + tl.program_id(0) + 1
    _put(grad_weight, grad_bias, of_weight, of_bias, part, c, c < C, C, D, WIDTH)


def gradients(grad: Tensor, B: int, ptr: Tensor, *saved: Tensor) -> tuple[Tensor, ...]:
    """Of x, W, b, and of the normalisation's scale and shift, from that of S, [R, V, k]; all as in assignment.py."""
    x, weight, bias, scale, _, count, share, length, mean, var = saved
    (R, V, D), (_, places, K, _), C = x.shape, weight.shape, bias.shape[1]
    parts, constants = sizes(x)
    grad_x, along = torch.empty_like(x), torch.empty_like(length)
    of_weight, of_bias = x.new_empty(R, parts + 1, C, D), x.new_empty(R, parts + 1, C)
    of_scale, of_shift, offset, rate = x.new_empty(4, R, C).unbind()
    share_own_back[(places, R)](
        x, weight, bias, scale, count, ptr, length, mean, var, share, grad, grad_x, along, of_weight, of_bias,
        of_scale, of_shift, offset, rate, C, B, parts + 1, **of_clusters(K), **constants,
    )  # fmt: skip
    given, flat = (x, weight, bias, count, length, offset, rate), weight.flatten(1, 2)  # [R, C, D]
    pulled = torch.baddbmm(bias.unsqueeze(1) @ flat, x, flat.mT @ flat)  # (x Wᵀ + b) W
    share_rows_back[(blocks(V, constants), R)](*given, pulled, grad_x, along, V, C, **constants)
    share_columns_back[(parts, R, blocks(C, constants))](*given, along, of_weight, of_bias, V, C, **constants)
    return grad_x, of_weight.sum(1).view_as(weight), of_bias.sum(1), of_scale, of_shift
