"""The gradients of a layer of GatedGCN: gated_step_kernel.py has the names.

With g_i the gradient of q_i over its denominator, that of m_ij is g_i (B x_j - q_i) σ (1 - σ), and what comes back by
the normalisation; times C it is that of e_ij, to which that of the residual is added. The normalisation wants two sums
first. The first kernel here does the messages; the second one C, apart, since both products at once have no room in the
registers; in the third a program is a node, and sums up what it has sent and received.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pna.realworld.gated_tile_kernel import EPS, of_features, of_nodes, part, put, sizes, times
from pna.realworld.norm_kernel import sums

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
    grad, of_moved, of_edge, E,
    NEXT: tl.constexpr, F: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of m and of e_ij of a part of the messages, the second one zero for padding."""
    r = tl.program_id(1).to(tl.int64)
    live = tl.load(count + r).to(tl.int32)
    n = tl.maximum(live.to(tl.float32), 1.0)
    h = tl.arange(0, HEAD)
    t = HEAD + tl.arange(0, TAIL)
    first = r * E * F
    mine = r * F
    weight += r * F * F
    hh = part(weight, h, h < F, F, 0, F, HEAD)  # [out, in]
    ht = part(weight, h, h < F, F, HEAD, F, TAIL)
    th = part(weight, t, t < F, F, 0, F, HEAD)
    tt = part(weight, t, t < F, F, HEAD, F, TAIL)
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
        put(of_edge + first, times(m_t, th, times(m_h, hh, g_h)), row, row < E, 0, F, HEAD)
        put(of_edge + first, times(m_t, tt, times(m_h, ht, g_t)), row, row < E, HEAD, F, TAIL)


@triton.jit
def gated_weight_back(
    edge, count, of_moved, of_weight, E, F: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """What a part of the messages adds to the gradient of C."""
    r = tl.program_id(1).to(tl.int64)
    live = tl.load(count + r).to(tl.int32)
    h = tl.arange(0, HEAD)
    t = HEAD + tl.arange(0, TAIL)
    hh = tl.zeros([HEAD, HEAD], tl.float32)  # [out, in]
    ht = tl.zeros([HEAD, TAIL], tl.float32)
    th = tl.zeros([HEAD, TAIL], tl.float32)  # the other way round: a product has 64 rows at least
    tt = tl.zeros([TAIL, TAIL], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(live, BLOCK), tl.num_programs(0)):
        row = block * BLOCK + tl.arange(0, BLOCK)
        real = row < live
        m_h = part(of_moved + r * E * F, row, real, F, 0, F, HEAD)
        m_t = part(of_moved + r * E * F, row, real, F, HEAD, F, TAIL)
        e_h = part(edge + r * E * F, row, real, F, 0, F, HEAD)
        e_t = part(edge + r * E * F, row, real, F, HEAD, F, TAIL)
        hh = times(tl.trans(m_h), e_h, hh)
        ht = times(tl.trans(m_h), e_t, ht)
        th = times(tl.trans(e_h), m_t, th)
        tt = times(tl.trans(m_t), e_t, tt)
    of_weight += (r * tl.num_programs(0) + tl.program_id(0)) * F * F
    put(of_weight, hh, h, h < F, 0, F, HEAD)
    put(of_weight, ht, h, h < F, HEAD, F, TAIL)
    put(of_weight, tl.trans(th), t, t < F, 0, F, HEAD)
    put(of_weight, tt, t, t < F, HEAD, F, TAIL)


@triton.jit
def gated_nodes_back(
    count, ptr, sender_ptr, receiver, place, moved, of_moved, pull, grad, of_nodes, V, E,
    F: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The gradients of A x, B x, D x and E x of a node."""
    i = tl.program_id(0).to(tl.int64)
    r = i // V
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


def gradients(grad: Tensor, after: Tensor | None, *saved: Tensor) -> tuple[Tensor | None, ...]:
    """Of the nodes, e, C, and of the normalisation's scale and shift, from that of y, [R, V, F], and that of e moved
    on, [R, E, F], or None where nobody asks for it."""
    nodes, edge, weight, scale, shift, factor, count, ptr, source, *transpose, target = saved[:13]
    moved, denominators, quotients, mean, var = saved[13:]
    (R, V, _), (_, E, F), ahead = nodes.shape, edge.shape, after is not None
    pull = grad / denominators
    total, product = sums(moved, factor, count, after, scale, shift, mean, var) if ahead else (mean, mean)
    parts, told = sizes(edge)
    of_moved, of_edge, of_weight = torch.empty_like(edge), torch.empty_like(edge), edge.new_empty(R, parts, F, F)
    gated_messages_back[(parts, R)](
        nodes, weight, scale, shift, factor, count, source, target, moved, mean, var, total, product, pull, quotients,
        after if ahead else moved, of_moved, of_edge, E, NEXT=ahead, **told,
    )  # fmt: skip
    gated_weight_back[(parts, R)](edge, count, of_moved, of_weight, E, **told | {"BLOCK": HALF})
    grad_nodes = torch.empty_like(nodes)
    gated_nodes_back[(R * V,)](count, ptr, *transpose, moved, of_moved, pull, grad, grad_nodes, V, E, **of_nodes(F))
    of_norm = (product * torch.rsqrt(var + 1e-5), total) if ahead else (None, None)
    return grad_nodes, of_edge, of_weight.sum(1), *of_norm
