"""Coefficients of every node and channel, from which the gradients of its messages follow (aggregation_backward.py).

The gradient of a message is a polynomial in c = m - μ, of degree 1 for mean, sum, std and var and below n for moment n,
plus a term if the message is an extreme.
"""

import triton
import triton.language as tl

from pna.kernels.launch import Launch
from pna.kernels.messages import EPS, MAX, MEAN, MIN, MOMENT, STD, SUM, VAR, place, power, with_epsilon

__all__ = ["launch_coefficients"]


@triton.jit
def _gradient_of(g, at, stride_a, mask, SLOT: tl.constexpr, ACC: tl.constexpr):
    """Load the gradient of the aggregate at SLOT, or 0 if it is not asked for; the shape is that of the mask."""
    if SLOT >= 0:
        return tl.load(g + at + SLOT * stride_a, mask=mask, other=0.0).to(ACC)
    return tl.zeros(mask.shape, ACC)


@triton.jit
def _moment_factor(g, e, s, d, n: tl.constexpr):
    """g s^(n-1) (|e| s^n + ε)^(1/n-1) / d, the factor of (u - r)^(n-1) - E[(u - r)^(n-1)] in ∂M_n/∂m_j; 0 at e = 0."""
    x = with_epsilon(e, s, n)
    steep = power(tl.minimum(s, 1.0), n - 1) * tl.exp(tl.log(x) * (1.0 / n - 1.0))
    return tl.where(e == 0, 0.0, g * steep / d)


@triton.jit(do_not_specialize=["N"])
def _coefficients(
    g, stride_n, stride_g, stride_a, stride_f, ptr, stats, ties, hub_ties, coefficients, grad_target,
    stride_t, stride_tg, N,
    SLOTS: tl.constexpr, ORDER: tl.constexpr, TERMS: tl.constexpr, CENTRED: tl.constexpr, UNITS: tl.constexpr,
    PLANES: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr,
    ACC: tl.constexpr, STATS: tl.constexpr, HUBS: tl.constexpr, HAS_TARGET: tl.constexpr,
    B: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Coefficients of B nodes, [μ, 1/s,] q0, q1, …, gmax / ties, gmin / ties; and the gradient of the target's part."""
    node = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    mask = (node < N)[:, None] & (c < C)[None, :]
    start = tl.load(ptr + node, mask=node < N, other=0)
    degree = tl.load(ptr + node + 1, mask=node < N, other=0) - start
    d = tl.maximum(degree, 1).to(ACC)[:, None]
    if LAYOUT[0]:
        at = (node * stride_n)[:, None] + (c * stride_f)[None, :]
    else:
        at = (node * stride_n)[:, None] + ((c // F).to(tl.int64) * stride_g + (c % F) * stride_f)[None, :]
    mean = _gradient_of(g, at, stride_a, mask, SLOTS[MEAN], ACC)
    total = _gradient_of(g, at, stride_a, mask, SLOTS[SUM], ACC)
    top = _gradient_of(g, at, stride_a, mask, SLOTS[MAX], ACC)
    low = _gradient_of(g, at, stride_a, mask, SLOTS[MIN], ACC)
    if HAS_TARGET:
        once = tl.where((degree > 0)[:, None], mean + top + low, 0.0)
        many = total * degree.to(ACC)[:, None]
        here = (node * stride_t)[:, None] + place(c, stride_tg, F, LAYOUT[3])[None, :]
        tl.store(grad_target + here, once + many, mask=mask)

    to = coefficients + (node * (PLANES * C))[:, None] + c[None, :]
    row = stats + (node * (STATS * C))[:, None] + c[None, :]
    q0 = mean / d + total
    q1 = tl.zeros(mask.shape, ACC)
    if STATS > 0:
        mu = tl.load(row, mask=mask, other=0.0)
        var = tl.load(row + C, mask=mask, other=0.0)
        std = _gradient_of(g, at, stride_a, mask, SLOTS[STD], ACC)
        q1 = (std / tl.sqrt(var + EPS) + 2 * _gradient_of(g, at, stride_a, mask, SLOTS[VAR], ACC)) / d
        q1 = tl.where(var == 0, 0.0, q1)  # all messages are equal, so that c = 0
        if CENTRED:
            tl.store(to, mu, mask=mask)
        else:
            q0 -= q1 * mu
    if ORDER > 0:
        s = tl.load(row + 2 * C, mask=mask, other=1.0)
        r = tl.load(row + 3 * C, mask=mask, other=0.0)
        e2 = tl.load(row + 4 * C, mask=mask, other=0.0)
        tl.store(to + C, 1.0 / s, mask=mask)
        q1 *= s
        q2 = tl.zeros(mask.shape, ACC)
        q3, q4 = q2, q2
        if SLOTS[MOMENT + 2] >= 0:  # u - r
            a = _moment_factor(_gradient_of(g, at, stride_a, mask, SLOTS[MOMENT + 2], ACC), e2, s, d, 2)
            q1 += a
            q0 -= a * r
        if ORDER > 2:
            e3 = tl.load(row + 5 * C, mask=mask, other=0.0)
            if SLOTS[MOMENT + 3] >= 0:  # (u - r)² - e2
                a = _moment_factor(_gradient_of(g, at, stride_a, mask, SLOTS[MOMENT + 3], ACC), e3, s, d, 3)
                q2 += a
                q1 -= 2 * a * r
                q0 += a * (r * r - e2)
            if ORDER > 3:
                e4 = tl.load(row + 6 * C, mask=mask, other=0.0)
                if SLOTS[MOMENT + 4] >= 0:  # (u - r)³ - e3
                    a = _moment_factor(_gradient_of(g, at, stride_a, mask, SLOTS[MOMENT + 4], ACC), e4, s, d, 4)
                    q3 += a
                    q2 -= 3 * a * r
                    q1 += 3 * a * r * r
                    q0 -= a * (r * r * r + e3)
                if ORDER > 4:
                    e5 = tl.load(row + 7 * C, mask=mask, other=0.0)
                    a = _moment_factor(_gradient_of(g, at, stride_a, mask, SLOTS[MOMENT + 5], ACC), e5, s, d, 5)
                    q4 += a  # (u - r)⁴ - e4
                    q3 -= 4 * a * r
                    q2 += 6 * a * r * r
                    q1 -= 4 * a * r * r * r
                    q0 += a * (r * r * r * r - e4)
        if TERMS > 2:
            tl.store(to + (UNITS + 2) * C, q2, mask=mask)
        if TERMS > 3:
            tl.store(to + (UNITS + 3) * C, q3, mask=mask)
        if TERMS > 4:
            tl.store(to + (UNITS + 4) * C, q4, mask=mask)
    if TERMS > 0:
        tl.store(to + UNITS * C, q0, mask=mask)
    if TERMS > 1:
        tl.store(to + (UNITS + 1) * C, q1, mask=mask)
    at_top: tl.constexpr = UNITS + TERMS
    at_low: tl.constexpr = at_top + (1 if SLOTS[MAX] >= 0 else 0)
    if SLOTS[MAX] >= 0 or SLOTS[MIN] >= 0:
        hits = tl.load(ties + (node * C)[:, None] + c[None, :], mask=mask, other=0)
        maxima = (hits & 65535).to(ACC)
        minima = (hits >> 16).to(ACC)
        if HUBS:
            hub = mask & (degree > LIMIT)[:, None]
            at = hub_ties + (tl.cdiv(start, LIMIT) * (2 * C))[:, None] + c[None, :]
            maxima = tl.where(hub, tl.load(at, mask=hub, other=1.0), maxima)
            minima = tl.where(hub, tl.load(at + C, mask=hub, other=1.0), minima)
        if SLOTS[MAX] >= 0:
            tl.store(to + at_top * C, top / tl.maximum(maxima, 1.0), mask=mask)
        if SLOTS[MIN] >= 0:
            tl.store(to + at_low * C, low / tl.maximum(minima, 1.0), mask=mask)


launch_coefficients = Launch(_coefficients)
