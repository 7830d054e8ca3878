"""A layer of GatedGCN in training, all replicas at once: what its nodes receive, and its messages moved on.

m_ij = C e_ij + D x_j + E x_i; node i gets A x_i + q_i, with q_i = Σ_j σ(m_ij) B x_j / (Σ_j σ(m_ij) + ε); and e_ij
becomes e_ij + ReLU(m_ij normalised over all messages). There are eight times as many messages as nodes, so what counts
is how often they are read and written. The first kernel multiplies, adds what comes from the nodes, and has the mean
and variance of what it writes; in the last one, a program is a node, and goes through the messages that it receives.
The first layer starts from a few numbers s_ij of each edge, e_ij = W s_ij: there C W is multiplied by s_ij, and e_ij is
never in memory. The way back is in gated_gradients.py, the plain-torch twin in quoted.py; in evaluation,
gated.py serves.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.kernels.selection import first_derivative, on_its_device
from pna.neighbourhoods import Neighbourhoods
from pna.networks.kernels.replicas import graph_of_replicas, replicated, rows_of_replicas
from pna.realworld.kernels.gated_gradients import gradients
from pna.realworld.kernels.gated_tile import PARTS, TAIL, WIDEST, of_features, part, per_node, put, sizes, times
from pna.realworld.kernels.norm_tile import EPS, move_on

__all__ = ["layer", "supports"]

LEAST = tl.constexpr(1e-6)  # ε, beside the gates
SETTLED = 16  # features of a program that puts the parts together


def supports(x: Tensor, edge: Tensor, graph: Neighbourhoods, first: bool) -> bool:
    """Whether the kernels serve: where the graphs of all replicas are joined, and rows are short; edge: e, or s in the
    first layer, to which a number may be added."""
    return graph.joined is not None and x.shape[-1] <= WIDEST and (not first or edge.shape[-1] < TAIL)


@on_its_device
def layer(
    nodes: Tensor, edge: Tensor, maps: tuple[Tensor, Tensor | None], rows: tuple[Tensor, Tensor],
    norm: tuple[Tensor, ...], graph: Neighbourhoods, last: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """nodes [V, 4 F]: A x, B x, D x, E x; edge: e_ij, [E, F], or in the first layer s_ij, [E, D], without a gradient;
    maps: C, [F, F], and None, or in the first layer C W and W, [F, D]; rows: 1/√m of the messages, [E, 1], and the
    number of those that are real; norm: weight, bias, running mean and variance, [F] each, the last two being moved on
    -> what the nodes receive, A x_i added, [V, F]; e_ij moved on, [E, F], or none of them after the last layer."""
    ptr, target, source, transpose = graph.joined
    given = (None if t is None else t.unsqueeze(0) for t in (nodes, edge, *maps, *norm[:2], *rows, *norm[2:]))
    made = _GatedLayer.apply(last, *given, ptr, source, *transpose, target)
    return made[0].squeeze(0), made[1].squeeze(0)


@triton.jit
def _merge(values, real, n, m, mu, squares):
    """Mean and squared distance to it of n rows and of m more."""
    centre = tl.sum(values, 0) / m
    away = tl.where(real[:, None], values - centre[None, :], 0.0)
    step = centre - mu
    return mu + step * (m / (n + m)), squares + tl.sum(away * away, 0) + step * step * (n * m / (n + m))


@triton.jit
def gated_move(
    nodes, edge, weight, factor, count, source, target, moved, rows, means, spreads, E,
    FIRST: tl.constexpr, D: tl.constexpr, F: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """m of a part of the messages; their number, mean and squared distance to it, merged block by block."""
    r = tl.program_id(1).to(tl.int64)
    me = r * tl.num_programs(0) + tl.program_id(0)
    live = tl.load(count + r).to(tl.int32)
    h = tl.arange(0, HEAD)
    t = HEAD + tl.arange(0, TAIL)
    weight += r * F * D
    tail: tl.constexpr = 0 if FIRST else HEAD  # where it begins
    th = tl.trans(part(weight, h, h < F, D, tail, D, TAIL))  # [in, out]
    tt = tl.trans(part(weight, t, t < F, D, tail, D, TAIL))
    if not FIRST:
        hh = tl.trans(part(weight, h, h < F, D, 0, D, HEAD))
        ht = tl.trans(part(weight, t, t < F, D, 0, D, HEAD))
    n = 0.0
    mu_h = tl.zeros([HEAD], tl.float32)
    mu_t = tl.zeros([TAIL], tl.float32)
    squares_h = tl.zeros([HEAD], tl.float32)
    squares_t = tl.zeros([TAIL], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(live, BLOCK), tl.num_programs(0)):
        row = block * BLOCK + tl.arange(0, BLOCK)
        real = row < live
        j = tl.load(source + r * E + row, mask=real, other=0)
        i = tl.load(target + r * E + row, mask=real, other=0)
        e_t = part(edge + r * E * D, row, real, D, tail, D, TAIL)
        m_h = times(e_t, th, tl.zeros([BLOCK, HEAD], tl.float32))
        m_t = times(e_t, tt, tl.zeros([BLOCK, TAIL], tl.float32))
        if not FIRST:
            e_h = part(edge + r * E * D, row, real, D, 0, D, HEAD)
            m_h = times(e_h, hh, m_h)
            m_t = times(e_h, ht, m_t)
        m_h += part(nodes + 2 * F, j, real, 4 * F, 0, F, HEAD) + part(nodes + 3 * F, i, real, 4 * F, 0, F, HEAD)
        m_t += part(nodes + 2 * F, j, real, 4 * F, HEAD, F, TAIL) + part(nodes + 3 * F, i, real, 4 * F, HEAD, F, TAIL)
        put(moved + r * E * F, m_h, row, real, 0, F, HEAD)
        put(moved + r * E * F, m_t, row, real, HEAD, F, TAIL)
        scale = tl.load(factor + r * E + row, mask=real, other=0.0)[:, None]
        m = tl.minimum(live - block * BLOCK, BLOCK).to(tl.float32)
        mu_h, squares_h = _merge(m_h * scale, real, n, m, mu_h, squares_h)
        mu_t, squares_t = _merge(m_t * scale, real, n, m, mu_t, squares_t)
        n += m
    tl.store(rows + me, n)
    tl.store(means + me * F + h, mu_h, mask=h < F)
    tl.store(means + me * F + t, mu_t, mask=t < F)
    tl.store(spreads + me * F + h, squares_h, mask=h < F)
    tl.store(spreads + me * F + t, squares_t, mask=t < F)


@triton.jit
def gated_statistics(
    count, rows, means, spreads, running_mean, running_var, mean, var, F, P, stride_m, stride_v,
    WIDTH: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Mean and variance of some features over all parts of the messages."""
    r = tl.program_id(1).to(tl.int64)
    n = tl.maximum(tl.load(count + r), 1.0)
    c = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    p = tl.arange(0, PARTS)[:, None]
    each = tl.load(rows + r * P + p, mask=p < P, other=0.0)
    inside = (p < P) & (c < F)[None, :]
    centres = tl.load(means + (r * P + p) * F + c[None, :], mask=inside, other=0.0)
    mu = tl.sum(each * centres, 0) / n
    away = centres - mu[None, :]
    squares = tl.sum(tl.load(spreads + (r * P + p) * F + c[None, :], mask=inside, other=0.0) + each * away * away, 0)
    tl.store(mean + r * F + c, mu, mask=c < F)
    tl.store(var + r * F + c, squares / n, mask=c < F)
    move_on(running_mean + r * stride_m + c, mu, c < F)
    move_on(running_var + r * stride_v + c, squares / tl.maximum(n - 1, 1.0), c < F)


@triton.jit
def gated_receive(
    nodes, edge, start, scale, shift, factor, count, ptr, source, moved, mean, var, y, beyond, totals, quotients, V, E,
    FIRST: tl.constexpr, LAST: tl.constexpr, D: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """What a node receives, and its messages moved on; those of the padding stay, and do nothing."""
    r = tl.program_id(1).to(tl.int64)
    i = r * V + tl.program_id(0)
    live = r * E + tl.load(count + r).to(tl.int64)
    c = tl.arange(0, WIDTH)
    inside = c < F
    mu = of_features(mean + r * F, 0, F, WIDTH)
    slope = tl.rsqrt(of_features(var + r * F, 0, F, WIDTH) + EPS) * of_features(scale + r * F, 0, F, WIDTH)
    after = of_features(shift + r * F, 0, F, WIDTH)
    total = tl.zeros([WIDTH], tl.float32)
    received = tl.zeros([WIDTH], tl.float32)
    end = tl.load(ptr + i + 1)
    for first in range(tl.load(ptr + i), end, CHUNK):
        e = first + tl.arange(0, CHUNK)
        real = e < tl.minimum(end, live)
        m = part(moved, e, real, F, 0, F, WIDTH)
        gate = tl.where(real[:, None], tl.sigmoid(m), 0.0)
        j = tl.load(source + e, mask=real, other=0)
        total += tl.sum(gate, 0)
        received += tl.sum(gate * part(nodes + F, j, real, 4 * F, 0, F, WIDTH), 0)
        if not LAST:
            value = slope * (m * tl.load(factor + e, mask=real, other=0.0)[:, None] - mu) + after
            value = tl.where((value < 0) | (e >= live)[:, None], 0.0, value)  # what is no number stays so
            if FIRST:
                for d in tl.static_range(D):
                    s = tl.load(edge + e * D + d, mask=e < end, other=0.0)[:, None]
                    value += s * tl.load(start + (r * F + c) * D + d, mask=inside, other=0.0)[None, :]
            else:
                value += part(edge, e, e < end, F, 0, F, WIDTH)
            put(beyond, value, e, e < end, 0, F, WIDTH)
    total += LEAST
    quotient = received / total
    tl.store(totals + i * F + c, total, mask=inside)
    tl.store(quotients + i * F + c, quotient, mask=inside)
    tl.store(y + i * F + c, tl.load(nodes + i * 4 * F + c, mask=inside, other=0.0) + quotient, mask=inside)


class _GatedLayer(Function):
    """last, nodes [R, V, 4 F], e [R, E, F], C [R, F, F] and None, or s [R, E, D], C W and W [R, F, D]; scale and shift
    [R, F], factor [R, E, 1], count [R], running mean and variance [R, F], and the joined graph, with its targets ->
    y [R, V, F], e moved on [R, E, F], m [R, E, F], Σ σ(m) and the quotients [R, V, F], mean and variance [R, F]."""

    @staticmethod
    def forward(last: bool, *inputs: Tensor | None) -> tuple[Tensor, ...]:
        running_mean, running_var, ptr, source, *_, target = inputs[8:]
        given = (None if t is None else t.contiguous() for t in inputs[:8])
        nodes, edge, weight, start, scale, shift, factor, count = given
        (R, V, _), E, F, first = nodes.shape, edge.shape[1], weight.shape[1], start is not None
        parts, constants = sizes(edge, F)
        moved, rows, (means, spreads) = (
            edge.new_empty(R, E, F),
            edge.new_empty(R, parts),
            edge.new_empty(2, R, parts, F),
        )
        given = (nodes, edge, weight, factor, count, source, target)
        gated_move[(parts, R)](*given, moved, rows, means, spreads, E, FIRST=first, num_stages=2, **constants)
        mean, var = edge.new_empty(2, R, F).unbind()
        gated_statistics[(-(-F // SETTLED), R)](
            count, rows, means, spreads, running_mean, running_var, mean, var, F, parts,
            running_mean.stride(0), running_var.stride(0), WIDTH=SETTLED, PARTS=PARTS,
        )  # fmt: skip
        y, totals, quotients = nodes.new_empty(3, R, V, F).unbind()
        beyond = edge.new_empty(R, 0, F) if last else torch.empty_like(moved)
        given = (nodes, edge, start if first else edge, scale, shift, factor, count, ptr, source, moved, mean, var)
        constants = {"FIRST": first, "LAST": last, "D": edge.shape[2], **per_node(F)}
        gated_receive[(V, R)](*given, y, beyond, totals, quotients, V, E, **constants)
        return y, beyond, moved, totals, quotients, mean, var

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        _, *given, _, _, ptr, source, sender_ptr, receiver, place, target = inputs
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*given, ptr, source, sender_ptr, receiver, place, target, *output[2:])

    @staticmethod
    @first_derivative
    def backward(ctx: FunctionCtx, grad: Tensor | None, of_edge: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        saved = [None if t is None else t.contiguous() for t in ctx.saved_tensors]
        grad = torch.zeros_like(saved[-3]) if grad is None else grad.contiguous()
        return None, *gradients(grad, None if of_edge is None else of_edge.contiguous(), *saved), *(None,) * 10

    @staticmethod
    def vmap(info: Any, in_dims: tuple, last: bool, *inputs: Tensor | None) -> tuple[tuple, tuple]:
        R, ways = info.batch_size, (rows_of_replicas,) * 2 + (replicated,) * 6 + (rows_of_replicas,) * 2
        given = zip(ways, inputs[:10], in_dims[1:11], strict=True)
        lifted = [None if t is None else way(t, dim, R) for way, t, dim in given]
        made = _GatedLayer.apply(last, *lifted, *graph_of_replicas(inputs[10:], R, lifted[0].shape[1]))
        return tuple(t.unsqueeze(1) for t in made), (0,) * 7
