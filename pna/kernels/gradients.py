"""Kernels for the gradients of messages and of senders, from coefficients (aggregation_backward.py)."""

import triton
import triton.language as tl

from pna.kernels.hubs import chunk_of, sum_chunks
from pna.kernels.launch import Launch
from pna.kernels.messages import MAX, MIN, load_shift, load_weight, place, places, tile

__all__ = ["launch_edge_gradient", "launch_hub_gradients", "launch_source_gradient"]


# ---- from coefficients to messages ----


@triton.jit
def _extremes(
    at, marks, e, live, mask, c,
    SLOTS: tl.constexpr, TERMS: tl.constexpr, UNITS: tl.constexpr, C: tl.constexpr, ACC: tl.constexpr,
    ONCE: tl.constexpr,
):  # fmt: skip
    """The extremes' share in the gradients of the messages at e [B, K], [B, K, BC]; at: their coefficients.

    The bits of four channels are one byte. With ONCE it is loaded once and spread, else once for each channel: that is
    quicker in small tiles whose rows of bytes are aligned.
    """
    out = tl.zeros(mask.shape, ACC)
    at_top: tl.constexpr = UNITS + TERMS
    if SLOTS[MAX] >= 0 or SLOTS[MIN] >= 0:
        width: tl.constexpr = (C + 3) // 4
        if ONCE:
            Q: tl.constexpr = mask.shape[2] // 4
            q = tl.program_id(1) * Q + tl.arange(0, Q)[None, None, :]
            within = live[:, :, None] & (q < width)
            byte = tl.load(marks + (e * width)[:, :, None] + q, mask=within, other=0).to(tl.int32)  # [B, K, Q]
            four = tl.broadcast_to(byte[:, :, :, None], [mask.shape[0], mask.shape[1], Q, 4])
            byte = tl.max_constancy(tl.reshape(four, mask.shape), [1, 1, 4])
        else:
            byte = tl.load(marks + (e * width)[:, :, None] + (c // 4)[None, None, :], mask=mask, other=0).to(tl.int32)
        bits = byte >> (c % 4)[None, None, :]
        if SLOTS[MAX] >= 0:  # few messages are an extreme of any of four channels: the others need not be read
            value = tl.load(at + at_top * C, mask=mask & ((byte & 15) != 0), other=0.0)
            out += tl.where((bits & 1) != 0, value, 0.0)
        if SLOTS[MIN] >= 0:
            at_low: tl.constexpr = at_top + (1 if SLOTS[MAX] >= 0 else 0)
            value = tl.load(at + at_low * C, mask=mask & ((byte & 240) != 0), other=0.0)
            out += tl.where((bits & 16) != 0, value, 0.0)
    return out


@triton.jit
def _polynomial(
    at, m, mask, ORDER: tl.constexpr, TERMS: tl.constexpr, CENTRED: tl.constexpr, UNITS: tl.constexpr,
    NUMBER: tl.constexpr, C: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """q0 + q1 u + … by Horner's rule, [B, K, BC], with u = (m - μ) / s; m and μ are given less μ₀.

    If not CENTRED, u = m where edges are one number (NUMBER); else only q0 is returned.
    """
    out = tl.zeros(mask.shape, ACC)
    if CENTRED or (NUMBER and TERMS > 1):
        u = m
        if CENTRED:
            u -= tl.load(at, mask=mask, other=0.0)
        if ORDER > 0:
            u *= tl.load(at + C, mask=mask, other=0.0)
        for t in tl.static_range(TERMS):
            out = out * u + tl.load(at + (UNITS + TERMS - 1 - t) * C, mask=mask, other=0.0)
    elif TERMS > 0:
        out += tl.load(at + UNITS * C, mask=mask, other=0.0)
    return out


@triton.jit
def _edge_gradient(
    source, edge, shift, ptr, column, coefficients, marks, grad, stride_s, stride_sg, stride_e, stride_eg, N, E, owner,
    SLOTS: tl.constexpr, ORDER: tl.constexpr, TERMS: tl.constexpr, CENTRED: tl.constexpr, UNITS: tl.constexpr,
    PLANES: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr,
    ACC: tl.constexpr, HAS_SOURCE: tl.constexpr, BC: tl.constexpr, HUBS: tl.constexpr, B: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Gradients of the messages of B nodes, or of one chunk of a hub's, into grad [E, C]."""
    if HUBS:
        p = tl.program_id(0).to(tl.int64)
        hub, first, last, begin, stop = chunk_of(ptr, owner, p, LIMIT)
        one = tl.zeros([B], tl.int64)
        node, start = hub + one, begin + one
        end = tl.where(last - first > LIMIT, stop, begin) + one
    else:
        node = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
        start = tl.load(ptr + node, mask=node < N, other=0)
        end = tl.load(ptr + node + 1, mask=node < N, other=0)
        end = tl.where(end - start <= LIMIT, end, start)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    k = tl.arange(0, K)
    at = coefficients + (node * (PLANES * C))[:, None, None] + c[None, None, :]  # [B, 1, BC]
    for begun in range(0, tl.max(end - start, 0), K):
        e = start[:, None] + begun + k[None, :]
        live = (e < end[:, None])[:, :, None] & (c < C)[None, None, :]
        m = tile(source, edge, 0.0, column, places(start, end, begun, E, K), c, stride_s, stride_sg, stride_e,
                 stride_eg, HAS_SOURCE, True, LAYOUT, C, F, ACC)  # fmt: skip
        m -= load_shift(shift, c, C, CENTRED, ACC)[None, None, :]
        here = at + tl.zeros(live.shape, tl.int64)
        value = _polynomial(here, m, live, ORDER, TERMS, CENTRED, UNITS, False, C, ACC)
        value += _extremes(
            here, marks, e, e < end[:, None], live, c, SLOTS, TERMS, UNITS, C, ACC, HUBS or C % 4 != 0)  # fmt: skip
        tl.store(grad + (e * C)[:, :, None] + c[None, None, :], value, mask=live)


# ---- from messages to senders ----


@triton.jit
def _gather(
    messages, marks, receiver, order, start, end, m, edge, weight, c,
    SLOTS: tl.constexpr, ORDER: tl.constexpr, TERMS: tl.constexpr, CENTRED: tl.constexpr, UNITS: tl.constexpr,
    PLANES: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, ACC: tl.constexpr, HAS_EDGE: tl.constexpr,
    K: tl.constexpr, ONCE: tl.constexpr,
):  # fmt: skip
    """Sums over each sender's messages start : end [B] of their gradients, of q1, and of gradients times e_ij.

    Each is [B, BC]. m [B, BC]: what the sender sends, less μ₀. With HAS_EDGE, `messages` holds the gradients, else
    coefficients. weight [BC] belongs to edges of one number: only these have the third sum, and not the second.
    """
    k = tl.arange(0, K)
    total = tl.zeros([start.shape[0], c.shape[0]], ACC)
    slope, weighted = total, total
    for begun in range(0, tl.max(end - start, 0), K):
        at = start[:, None] + begun + k[None, :]
        within = at < end[:, None]
        if LAYOUT[4]:
            live = tl.broadcast_to(within[:, :, None], [start.shape[0], K, c.shape[0]])
        else:
            live = within[:, :, None] & (c < C)[None, None, :]
        e = tl.load(order + at, mask=within, other=0)  # [B, K]
        if HAS_EDGE:
            row = messages + (e * C)[:, :, None] + c[None, None, :]
            total += tl.sum(tl.load(row, mask=live, other=0.0).to(ACC), 1)
        else:
            i = tl.load(receiver + at, mask=within, other=0)
            row = messages + (i * (PLANES * C))[:, :, None] + c[None, None, :]
            sent = m[:, None, :]
            if LAYOUT[5]:
                number = tl.load(edge + e, mask=within, other=0.0).to(ACC)[:, :, None]
                sent = tl.fma(number, weight[None, None, :], sent)
            value = _polynomial(row, sent, live, ORDER, TERMS, CENTRED, UNITS, LAYOUT[5], C, ACC)
            value += _extremes(row, marks, e, within, live, c, SLOTS, TERMS, UNITS, C, ACC, ONCE)
            total += tl.sum(value, 1)
            if LAYOUT[5]:
                weighted += tl.sum(number * value, 1)
            elif TERMS == 2 and not CENTRED:
                slope += tl.sum(tl.load(row + C, mask=live, other=0.0), 1)
    return total, slope, weighted


@triton.jit
def _sent(
    source, shift, node, c, mask, stride_s, stride_sg,
    SHIFTED: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Load what the senders `node` [B] send, less μ₀, [B, BC]."""
    at = (node * stride_s)[:, None] + place(c, stride_sg, F, LAYOUT[1])[None, :]
    return tl.load(source + at, mask=mask, other=0.0).to(ACC) - load_shift(shift, c, C, SHIFTED, ACC)[None, :]


@triton.jit(do_not_specialize=["N", "V"])
def _source_gradient(
    source, shift, ptr, receiver, order, messages, marks, grad, stride_s, stride_sg, stride_o, stride_og, N,
    owner, partial, edge, weight, V,
    SLOTS: tl.constexpr, ORDER: tl.constexpr, TERMS: tl.constexpr, CENTRED: tl.constexpr, UNITS: tl.constexpr,
    PLANES: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr,
    ACC: tl.constexpr, HAS_EDGE: tl.constexpr, BC: tl.constexpr, HUBS: tl.constexpr, B: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Gradients of B senders into grad [N, C], or the sums of one chunk of a hub's messages into partial [P, 2, C].

    Where edges are one number, partial [programs, C] gets each program's share in the gradient of their weight.
    """
    p = tl.program_id(0).to(tl.int64)
    if HUBS:
        hub, first, last, begin, stop = chunk_of(ptr, owner, p, LIMIT)
        one = tl.zeros([B], tl.int64)
        node, start = hub + one, begin + one
        end = tl.where(last - first > LIMIT, stop, begin) + one
        mine = end > start
    else:
        node = p * B + tl.arange(0, B)
        start = tl.load(ptr + node, mask=node < N, other=0)
        end = tl.load(ptr + node + 1, mask=node < N, other=0)
        mine = (node < N) & (end - start <= LIMIT)
        end = tl.where(mine, end, start)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    mask = mine[:, None] & (c < C)[None, :]
    m = _sent(source, shift, node, c, mask, stride_s, stride_sg, TERMS > 1, LAYOUT, C, F, ACC)
    w = load_weight(weight, tl.program_id(0) * B, V, c, LAYOUT, C, ACC)
    total, slope, weighted = _gather(
        messages, marks, receiver, order, start, end, m, edge, w, c,
        SLOTS, ORDER, TERMS, CENTRED, UNITS, PLANES, LAYOUT, C, ACC, HAS_EDGE, K, HUBS or C % 4 != 0)  # fmt: skip
    if HUBS:
        at = partial + p * (2 * C) + c[None, :]
        tl.store(at, total, mask=mask)
        tl.store(at + C, slope, mask=mask)
    else:
        if LAYOUT[5]:
            tl.store(partial + p * C + c, tl.sum(weighted, 0), mask=c < C)
        elif TERMS == 2 and not (CENTRED or HAS_EDGE):
            total += slope * m
        to = (node * stride_o)[:, None] + place(c, stride_og, F, LAYOUT[3])[None, :]
        tl.store(grad + to, total, mask=mask)


@triton.jit
def _write_hub_gradients(
    source, shift, ptr, receiver, order, messages, marks, grad, stride_s, stride_sg, stride_o, stride_og, N,
    owner, partial, edge, weight, V,
    SLOTS: tl.constexpr, ORDER: tl.constexpr, TERMS: tl.constexpr, CENTRED: tl.constexpr, UNITS: tl.constexpr,
    PLANES: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr,
    ACC: tl.constexpr, HAS_EDGE: tl.constexpr, BC: tl.constexpr, HUBS: tl.constexpr, B: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Gradient of a hub from the sums of its chunks, by the program of its first chunk."""
    p = tl.program_id(0).to(tl.int64)
    hub, first, last, start, _end = chunk_of(ptr, owner, p, LIMIT)
    if (last - first > LIMIT) & (start == first):
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        node = hub + tl.zeros([1], tl.int64)
        mask = (c < C)[None, :]
        total = sum_chunks(partial, 0, first, last, c, C, LIMIT, 2, ACC)
        if TERMS == 2 and not (CENTRED or HAS_EDGE):
            m = _sent(source, shift, node, c, mask, stride_s, stride_sg, TERMS > 1, LAYOUT, C, F, ACC)
            slope = sum_chunks(partial, 1, first, last, c, C, LIMIT, 2, ACC)
            total += slope * m
        to = (node * stride_o)[:, None] + place(c, stride_og, F, LAYOUT[3])[None, :]
        tl.store(grad + to, total, mask=mask)


launch_edge_gradient, launch_source_gradient = Launch(_edge_gradient), Launch(_source_gradient)
launch_hub_gradients = Launch(_write_hub_gradients)
