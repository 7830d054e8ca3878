"""Kernels of GatedGCN's backward passes: gated.py has the equations, and launches them.

With g_i the gradient of q_i over its denominator, that of m_ij is g_i (B x_j - q_i) σ (1 - σ), to which is added what
comes back through the normalisation of the messages. Times C it is the gradient of e_ij, to which that of the residual
is added. The normalisation needs two sums first (norm.sums). For a layer in training, the first kernel does the
messages; the second does C, apart, since both products at once have no room in the registers; in the third a program is
a node, and sums what it sent and received.
"""

import triton
import triton.language as tl

from pna.kernels.tiles import load_features, load_rows, multiply, store_rows
from pna.realworld.kernels.norm_tile import EPS

__all__ = ["gated_map_back", "gated_messages_back", "gated_nodes_back", "gated_received", "gated_sent"]


@triton.jit
def gated_sent(nodes, sender_ptr, receiver, place, moved, totals, quotients, grad, grad_moved, grad_nodes, grad_edge,
               MOVED: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    """The gradients of the messages that one node sent, and of its A x, B x and D x."""
    j = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH)
    inside = c < F
    b = tl.load(nodes + j * 4 * F + F + c, mask=inside, other=0.0)
    of_b = tl.zeros([WIDTH], tl.float32)
    of_d = tl.zeros([WIDTH], tl.float32)
    for k in range(tl.load(sender_ptr + j), tl.load(sender_ptr + j + 1)):
        at = tl.load(receiver + k) * F + c
        e = tl.load(place + k) * F + c
        gate = tl.sigmoid(tl.load(moved + e, mask=inside, other=0.0))
        g = tl.load(grad + at, mask=inside, other=0.0) / tl.load(totals + at, mask=inside, other=1.0)
        of_m = g * (b - tl.load(quotients + at, mask=inside, other=0.0)) * gate * (1 - gate)
        if MOVED:
            of_m += tl.load(grad_moved + e, mask=inside, other=0.0)
        tl.store(grad_edge + e, of_m, mask=inside)
        of_b += gate * g
        of_d += of_m
    out = grad_nodes + j * 4 * F + c
    tl.store(out, tl.load(grad + j * F + c, mask=inside, other=0.0), mask=inside)
    tl.store(out + F, of_b, mask=inside)
    tl.store(out + 2 * F, of_d, mask=inside)


@triton.jit
def gated_received(ptr, grad_edge, grad_nodes, F: tl.constexpr, WIDTH: tl.constexpr):
    """The gradient of one node's E x."""
    i = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH)
    total = tl.zeros([WIDTH], tl.float32)
    for e in range(tl.load(ptr + i), tl.load(ptr + i + 1)):
        total += tl.load(grad_edge + e * F + c, mask=c < F, other=0.0)
    tl.store(grad_nodes + i * 4 * F + 3 * F + c, total, mask=c < F)


@triton.jit
def _of_messages(
    nodes, moved, grad, scale, shift, mean, var, totals, products, pull, quotients, factors, n, row, i, j, real,
    NEXT: tl.constexpr, START: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The gradients of m and of e moved on, for some features of some messages, zero for padding."""
    m = load_rows(moved, row, real, F, F, WIDTH, START)
    gate = tl.sigmoid(m)
    away = load_rows(nodes + F, j, real, 4 * F, F, WIDTH, START) - load_rows(quotients, i, real, F, F, WIDTH, START)
    of_m = load_rows(pull, i, real, F, F, WIDTH, START) * away * gate * (1 - gate)
    g = tl.zeros_like(m)
    if NEXT:
        g = load_rows(grad, row, real, F, F, WIDTH, START)
        inverse = tl.rsqrt(load_features(var, F, WIDTH, START) + EPS)
        slope = inverse * load_features(scale, F, WIDTH, START)
        centred = m * factors - load_features(mean, F, WIDTH, START)
        behind = tl.where(slope * centred + load_features(shift, F, WIDTH, START) <= 0, 0.0, g)
        total = load_features(totals, F, WIDTH, START) / n
        product = load_features(products, F, WIDTH, START) * inverse * inverse / n
        of_m += factors * slope * (behind - (total + centred * product))
    return of_m, g


@triton.jit
def gated_messages_back(
    nodes, weight, scale, shift, factor, count, source, target, moved, mean, var, totals, products, pull, quotients,
    grad, of_moved, of_edge, E, FIRST: tl.constexpr, NEXT: tl.constexpr,
    D: tl.constexpr, F: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of m and, except in the first layer, of e, for a part of the messages, zero for padding."""
    r = tl.program_id(1).to(tl.int64)
    live = tl.load(count + r).to(tl.int32)
    n = tl.maximum(live.to(tl.float32), 1.0)
    h = tl.arange(0, HEAD)
    t = HEAD + tl.arange(0, TAIL)
    first = r * E * F
    mine = r * F
    if not FIRST:
        weight += r * F * D
        hh = load_rows(weight, h, h < F, D, D, HEAD)  # [out, in]
        ht = load_rows(weight, h, h < F, D, D, TAIL, HEAD)
        th = load_rows(weight, t, t < F, D, D, HEAD)
        tt = load_rows(weight, t, t < F, D, D, TAIL, HEAD)
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
        store_rows(of_moved + first, m_h, row, real, F, HEAD)
        store_rows(of_moved + first, m_t, row, real, F, TAIL, HEAD)
        if not FIRST:
            store_rows(of_edge + first, multiply(m_t, th, multiply(m_h, hh, g_h)), row, row < E, F, HEAD)
            store_rows(of_edge + first, multiply(m_t, tt, multiply(m_h, ht, g_t)), row, row < E, F, TAIL, HEAD)


@triton.jit
def gated_map_back(
    edge, count, grad, of_map, E,
    FIRST: tl.constexpr, D: tl.constexpr, F: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The part of some messages in the gradient of a map of e or s, from the gradient of its result."""
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
        g_h = load_rows(grad + r * E * F, row, real, F, F, HEAD)
        g_t = load_rows(grad + r * E * F, row, real, F, F, TAIL, HEAD)
        e_t = load_rows(edge + r * E * D, row, real, D, D, TAIL, tail)
        ht = multiply(tl.trans(g_h), e_t, ht)
        tt = multiply(tl.trans(g_t), e_t, tt)
        if not FIRST:
            e_h = load_rows(edge + r * E * D, row, real, D, D, HEAD)
            hh = multiply(tl.trans(g_h), e_h, hh)
            th = multiply(tl.trans(e_h), g_t, th)
    of_map += (r * tl.num_programs(0) + tl.program_id(0)) * F * D
    store_rows(of_map, ht, h, h < F, D, TAIL, tail)
    store_rows(of_map, tt, t, t < F, D, TAIL, tail)
    if not FIRST:
        store_rows(of_map, hh, h, h < F, D, HEAD)
        store_rows(of_map, tl.trans(th), t, t < F, D, HEAD)


@triton.jit
def gated_nodes_back(
    count, ptr, sender_ptr, receiver, place, moved, of_moved, pull, grad, of_nodes, V, E,
    F: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The gradients of one node's A x, B x, D x and E x."""
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
        gate = tl.sigmoid(load_rows(moved, e, real, F, F, WIDTH))
        of_b += tl.sum(gate * load_rows(pull, to, real, F, F, WIDTH), 0)
        of_d += tl.sum(load_rows(of_moved, e, real, F, F, WIDTH), 0)
    last = tl.minimum(tl.load(ptr + i + 1), live)
    for first in range(tl.load(ptr + i), last, CHUNK):
        e = first + tl.arange(0, CHUNK)
        of_e += tl.sum(load_rows(of_moved, e, e < last, F, F, WIDTH), 0)
    out = of_nodes + i * 4 * F + c
    tl.store(out, tl.load(grad + i * F + c, mask=inside, other=0.0), mask=inside)
    tl.store(out + F, of_b, mask=inside)
    tl.store(out + 2 * F, of_d, mask=inside)
    tl.store(out + 3 * F, of_e, mask=inside)
