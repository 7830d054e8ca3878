"""The gradients of a layer of GatedGCN: gated_step.py has the names.

With g_i the gradient of q_i over its denominator, that of m_ij is g_i (B x_j - q_i) σ (1 - σ), and what comes back by
the normalisation; times C it is that of e_ij, to which that of the residual is added. The normalisation wants two sums
first. The first kernel here does the messages; the second one C, apart, since both products at once have no room in the
registers; in the third a program is a node, and sums up what it has sent and received.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pna.realworld.kernels.gated_tile import of_features, part, per_node, put, sizes, times
from pna.realworld.kernels.norm import sums
from pna.realworld.kernels.norm_tile import EPS

__all__ = ["gradients"]

HALF = 32  # messages of C's gradient at a time: with twice as many, registers run out


@triton.jit
def _of_messages(
    nodes, moved, grad, scale, shift, mean, var, totals, products, pull, quotients, factors, n, row, i, j, real,
    NEXT: tl.constexpr, START: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The gradient of m of some messages, and that of e_ij moved on, of some features, zero for padding."""
    m = part(moved, row, real, F, START, F, WIDTH)
    gate = tl.sigmoid(m)
    away = part(nodes + F, j, real, 4 * F, START, F, WIDTH) - part(quotients, i, real, F, START, F, WIDTH)
    of_m = part(pull, i, real, F, START, F, WIDTH) * away * gate * (1 - gate)
    g = tl.zeros_like(m)
    if NEXT:
        g = part(grad, row, real, F, START, F, WIDTH)
        inverse = tl.rsqrt(of_features(var, START, F, WIDTH) + EPS)
        slope = inverse * of_features(scale, START, F, WIDTH)
        centred = m * factors - of_features(mean, START, F, WIDTH)
        own = tl.where(slope * centred + of_features(shift, START, F, WIDTH) <= 0, 0.0, g)
        total = of_features(totals, START, F, WIDTH) / n
        product = of_features(products, START, F, WIDTH) * inverse * inverse / n
        of_m += factors * slope * (own - (total + centred * product))
    return of_m, g


@triton.jit
def gated_messages_back(
    nodes, weight, scale, shift, factor, count, source, target, moved, mean, var, totals, products, pull, quotients,
    grad, of_moved, of_edge, E, FIRST: tl.constexpr, NEXT: tl.constexpr,
    D: tl.constexpr, F: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of m and, but in the first layer, of e_ij of a part of the messages, zero for padding."""
    r = tl.program_id(1).to(tl.int64)
    live = tl.load(count + r).to(tl.int32)
    n = tl.maximum(live.to(tl.float32), 1.0)
    h = tl.arange(0, HEAD)
    t = HEAD + tl.arange(0, TAIL)
    first = r * E * F
    mine = r * F
    if not FIRST:
        weight += r * F * D
        hh = part(weight, h, h < F, D, 0, D, HEAD)  # [out, in]
        ht = part(weight, h, h < F, D, HEAD, D, TAIL)
        th = part(weight, t, t < F, D, 0, D, HEAD)
        tt = part(weight, t, t < F, D, HEAD, D, TAIL)
    for block in range(tl.program_id(0), tl.cdiv(E, BLOCK), tl.num_programs(0)):
        row = block * BLOCK + tl.arange(0, BLOCK)
        real = row < live
        j = tl.load(source + r * E + row, mask=real, other=0)
        i = tl.load(target + r * E + row, mask=real, other=0)
        factors = tl.load(factor + r * E + row, mask=real, other=0.0)[:, None]
        m_h, g_h = _of_messages(
            nodes, moved + first, grad + first, scale + mine, shift + mine, mean + mine, var + mine, totals + mine,
            products + mine, pull, quotients, factors, n, row, i, j, real, NEXT, 0, F, HEAD)  # fmt: skip
        m_t, g_t = _of_messages(
            nodes, moved + first, grad + first, scale + mine, shift + mine, mean + mine, var + mine, totals + mine,
            products + mine, pull, quotients, factors, n, row, i, j, real, NEXT, HEAD, F, TAIL)  # fmt: skip
        put(of_moved + first, m_h, row, real, 0, F, HEAD)
        put(of_moved + first, m_t, row, real, HEAD, F, TAIL)
        if not FIRST:
            put(of_edge + first, times(m_t, th, times(m_h, hh, g_h)), row, row < E, 0, F, HEAD)
            put(of_edge + first, times(m_t, tt, times(m_h, ht, g_t)), row, row < E, HEAD, F, TAIL)


@triton.jit
def gated_map_back(
    edge, count, grad, of_map, E,
    FIRST: tl.constexpr, D: tl.constexpr, F: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """What a part of the messages adds to the gradient of a map of e or s, from that of what it makes of them."""
    r = tl.program_id(1).to(tl.int64)
    live = tl.load(count + r).to(tl.int32)
    h = tl.arange(0, HEAD)
    t = HEAD + tl.arange(0, TAIL)
    tail: tl.constexpr = 0 if FIRST else HEAD  # where it begins
    hh = tl.zeros([HEAD, HEAD], tl.float32)  # [out, in]
    ht = tl.zeros([HEAD, TAIL], tl.float32)
    th = tl.zeros([HEAD, TAIL], tl.float32)  # the other way round: a product has 64 rows at least
    tt = tl.zeros([TAIL, TAIL], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(live, BLOCK), tl.num_programs(0)):
        row = block * BLOCK + tl.arange(0, BLOCK)
        real = row < live
        g_h = part(grad + r * E * F, row, real, F, 0, F, HEAD)
        g_t = part(grad + r * E * F, row, real, F, HEAD, F, TAIL)
        e_t = part(edge + r * E * D, row, real, D, tail, D, TAIL)
        ht = times(tl.trans(g_h), e_t, ht)
        tt = times(tl.trans(g_t), e_t, tt)
        if not FIRST:
            e_h = part(edge + r * E * D, row, real, D, 0, D, HEAD)
            hh = times(tl.trans(g_h), e_h, hh)
            th = times(tl.trans(e_h), g_t, th)
    of_map += (r * tl.num_programs(0) + tl.program_id(0)) * F * D
    put(of_map, ht, h, h < F, tail, D, TAIL)
    put(of_map, tt, t, t < F, tail, D, TAIL)
    if not FIRST:
        put(of_map, hh, h, h < F, 0, D, HEAD)
        put(of_map, tl.trans(th), t, t < F, 0, D, HEAD)


@triton.jit
def gated_nodes_back(
    count, ptr, sender_ptr, receiver, place, moved, of_moved, pull, grad, of_nodes, V, E,
    F: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The gradients of A x, B x, D x and E x of a node."""
    r = tl.program_id(1).to(tl.int64)
    i = r * V + tl.program_id(0)
    live = r * E + tl.load(count + r).to(tl.int64)
    c = tl.arange(0, WIDTH)
    inside = c < F
    of_b = tl.zeros([WIDTH], tl.float32)
    of_d = tl.zeros([WIDTH], tl.float32)
    of_e = tl.zeros([WIDTH], tl.float32)
    end = tl.load(sender_ptr + i + 1)
    for first in range(tl.load(sender_ptr + i), end, CHUNK):
        k = first + tl.arange(0, CHUNK)
        e = tl.load(place + k, mask=k < end, other=0)
        real = (k < end) & (e < live)
        to = tl.load(receiver + k, mask=real, other=0)
        gate = tl.sigmoid(part(moved, e, real, F, 0, F, WIDTH))
        of_b += tl.sum(gate * part(pull, to, real, F, 0, F, WIDTH), 0)
        of_d += tl.sum(part(of_moved, e, real, F, 0, F, WIDTH), 0)
    last = tl.minimum(tl.load(ptr + i + 1), live)
    for first in range(tl.load(ptr + i), last, CHUNK):
        e = first + tl.arange(0, CHUNK)
        of_e += tl.sum(part(of_moved, e, e < last, F, 0, F, WIDTH), 0)
    out = of_nodes + i * 4 * F + c
    tl.store(out, tl.load(grad + i * F + c, mask=inside, other=0.0), mask=inside)
    tl.store(out + F, of_b, mask=inside)
    tl.store(out + 2 * F, of_d, mask=inside)
    tl.store(out + 3 * F, of_e, mask=inside)


def gradients(grad: Tensor, of_beyond: Tensor | None, *saved: Tensor | None) -> tuple[Tensor | None, ...]:
    """Of the nodes, of e, of both maps, and of the normalisation's scale and shift, None where there is none, from that
    of y, [R, V, F], and that of e moved on, [R, E, F], or None where nobody asks for it."""
    nodes, edge, weight, start, scale, shift, factor, count, ptr, source, *transpose, target = saved[:14]
    moved, denominators, quotients, mean, var = saved[14:]
    (R, V, _), (_, E, F), first, ahead = nodes.shape, moved.shape, start is not None, of_beyond is not None
    pull, total, product, after = grad / denominators, mean, mean, moved
    if ahead:
        total, product = sums(moved, factor, count, of_beyond, scale, shift, mean, var)
        after = of_beyond
    parts, constants = sizes(edge, F)
    of_moved, of_edge = torch.empty_like(moved), moved.new_empty(R, 0 if first else E, F)
    gated_messages_back[(parts, R)](
        nodes, weight, scale, shift, factor, count, source, target, moved, mean, var, total, product, pull, quotients,
        after, of_moved, of_edge, E, FIRST=first, NEXT=ahead,
        num_stages=1, **constants,  # with more stages shared memory runs out
    )  # fmt: skip
    of_nodes = torch.empty_like(nodes)
    gated_nodes_back[(V, R)](count, ptr, *transpose, moved, of_moved, pull, grad, of_nodes, V, E, **per_node(F))
    of_maps = _of_map(edge, count, of_moved, first), _of_map(edge, count, of_beyond, first) if first and ahead else None
    of_norm = (product * torch.rsqrt(var + 1e-5), total) if ahead else (None, None)
    return of_nodes, None if first else of_edge, *of_maps, *of_norm


def _of_map(edge: Tensor, count: Tensor, grad: Tensor, first: bool) -> Tensor:
    """Σ g_ij e_ijᵀ over the real messages: edge [R, E, D] and grad [R, E, F] -> [R, F, D]."""
    (R, E, D), F = edge.shape, grad.shape[2]
    parts, constants = sizes(edge, F)
    made = edge.new_empty(R, parts, F, D)
    gated_map_back[(parts, R)](edge, count, grad, made, E, FIRST=first, num_stages=3, **constants | {"BLOCK": HALF})
    return made.sum(1)
