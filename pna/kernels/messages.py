"""Functions that the aggregation's kernels share: messages are read, summed up and written in tiles.

A tile is [B, K, BC]: K messages at a time of B nodes, and BC channels, so that several rows are loaded at a time. Sums
are taken of m - p, where p is the node's first message: as one of the messages it is within √d σ of the mean, so
nothing cancels where |μ| is much larger than σ. A tile's rows beyond the last message repeat the first one: they change
neither these sums nor the extremes, and no number has to be masked. The moments of equation 4 and the marks of the
extremes, which need the mean and the extremes themselves, take a second pass.
"""

import triton
import triton.language as tl

from pna.aggregators import EPSILON

__all__ = ["EPS", "MAX", "MEAN", "MIN", "MOMENT", "STD", "SUM", "VAR"]
__all__ += ["centre", "load_shift", "load_weight", "place", "places", "power", "rescan", "scan", "tile"]
__all__ += ["with_epsilon", "write"]

# indices into SLOTS, which holds the place of each aggregator in the output, or -1
MEAN, SUM, MAX, MIN, STD, VAR = (tl.constexpr(i) for i in range(6))
MOMENT = tl.constexpr(4)  # moment n is at place MOMENT + n, n = 2 … 5
EPS = tl.constexpr(EPSILON)


# ---- reading ----


@triton.jit
def place(c, stride_g, F: tl.constexpr, FLAT: tl.constexpr):
    """Offset of channel c = (group, feature) in a row."""
    if FLAT:
        return c
    else:  # Triton would compile what follows a return
        return (c // F) * stride_g + c % F


@triton.jit
def read(at, c, WHOLE: tl.constexpr, C: tl.constexpr, ACC: tl.constexpr):
    """Load the numbers at `at` [B, K, BC], whose last axis are the channels c; 0 beyond the last channel."""
    if WHOLE:
        return tl.load(at).to(ACC)
    else:  # Triton would compile what follows a return
        return tl.load(at, mask=(c < C)[None, None, :], other=0.0).to(ACC)


@triton.jit
def tile(
    source, edge, w, column, e, c, stride_s, stride_sg, stride_e, stride_eg, HAS_SOURCE: tl.constexpr,
    HAS_EDGE: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Load the messages at the places e [B, K], channels c [BC]: [B, K, BC]; w [BC]: weight of one-number edges."""
    if HAS_SOURCE:
        j = tl.load(column + e)
        row = (j * stride_s)[:, :, None] + place(c, stride_sg, F, LAYOUT[1])[None, None, :]
        m = read(source + row, c, LAYOUT[4], C, ACC)
        if LAYOUT[5]:  # one rounding wherever this is compiled, so that an extreme is found again
            m = tl.fma(tl.load(edge + e).to(ACC)[:, :, None], w[None, None, :], m)
        elif HAS_EDGE:
            row = (e * stride_e)[:, :, None] + place(c, stride_eg, F, LAYOUT[2])[None, None, :]
            m += read(edge + row, c, LAYOUT[4], C, ACC)
    else:
        row = (e * stride_e)[:, :, None] + place(c, stride_eg, F, LAYOUT[2])[None, None, :]
        m = read(edge + row, c, LAYOUT[4], C, ACC)
    return m


@triton.jit
def load_shift(shift, c, C: tl.constexpr, SHIFTED: tl.constexpr, ACC: tl.constexpr):
    """Load μ₀, [BC]; 0 where a sampled row was infinite or NaN, which must not reach the other nodes."""
    if SHIFTED:
        mu0 = tl.load(shift + c, mask=c < C, other=0.0)
        return tl.where(tl.abs(mu0) < float("inf"), mu0, 0.0)
    return tl.zeros(c.shape, ACC)


@triton.jit
def load_weight(weight, node, V, c, LAYOUT: tl.constexpr, C: tl.constexpr, ACC: tl.constexpr):
    """Load the weight of one-number edges in the replica of a node, [BC]; zeros without such edges."""
    if LAYOUT[5]:
        return tl.load(weight + (node // V) * C + c, mask=c < C, other=0.0).to(ACC)
    else:  # Triton would compile what follows a return
        return tl.zeros(c.shape, ACC)


@triton.jit
def places(start, end, first, E, K: tl.constexpr):
    """Places of K messages of each node from its first-th on, [B, K]; beyond its last, that of its first one."""
    e = start[:, None] + first + tl.arange(0, K)[None, :]
    return tl.where(e < end[:, None], e, tl.minimum(start, E - 1)[:, None])


# ---- the two passes ----


@triton.jit
def _sum_of_live(m, start, end, first):
    """Sum of a tile's messages, from the first-th of each node on, without the repeated ones, [B, BC]."""
    e = start[:, None] + first + tl.arange(0, m.shape[1])[None, :]
    return tl.sum(tl.where((e < end[:, None])[:, :, None], m, 0.0), 1)


@triton.jit
def scan(
    source, edge, w, column, start, end, c, E, stride_s, stride_sg, stride_e, stride_eg,
    SUMMED: tl.constexpr, HAS_SOURCE: tl.constexpr, HAS_EDGE: tl.constexpr, LAYOUT: tl.constexpr,
    C: tl.constexpr, F: tl.constexpr, ACC: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """First pass over the messages start : end [B]: the first tile, p, Σ (m - p), Σ (m - p)², max, min, Σ m.

    All but the tile [B, K, BC] are [B, BC]; Σ m is computed only if SUMMED.
    """
    tile_0 = tile(source, edge, w, column, places(start, end, 0, E, K), c, stride_s, stride_sg, stride_e, stride_eg,
                  HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC)  # fmt: skip
    p = tl.sum(tl.where((tl.arange(0, K) == 0)[None, :, None], tile_0, 0.0), 1)  # the first of each node
    apart = tile_0 - p[:, None, :]
    sums, squares = tl.sum(apart, 1), tl.sum(apart * apart, 1)
    top, low = tl.max(tile_0, 1), tl.min(tile_0, 1)
    total = tl.zeros(top.shape, ACC)
    if SUMMED:
        total += _sum_of_live(tile_0, start, end, 0)
    for first in range(K, tl.max(end - start, 0), K):
        m = tile(source, edge, w, column, places(start, end, first, E, K), c, stride_s, stride_sg, stride_e, stride_eg,
                 HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC)  # fmt: skip
        apart = m - p[:, None, :]
        sums += tl.sum(apart, 1)
        squares += tl.sum(apart * apart, 1)
        top, low = tl.maximum(top, tl.max(m, 1)), tl.minimum(low, tl.min(m, 1))
        if SUMMED:
            total += _sum_of_live(m, start, end, first)
    return tile_0, p, sums, squares, top, low, total


@triton.jit
def centre(p, sums, squares, d, mu0):
    """Mean less μ₀, and Σ (m - μ)², [B, BC] each, from the sums of d [B, 1] messages."""
    mean = sums / d
    return mean + (p - mu0[None, :]), tl.maximum(squares - sums * mean, 0.0)


@triton.jit
def _unit(mean, mu0, top, low):
    """Unit s of the moments, [B, BC]: the largest |m - μ|, never 0, so that no power leaves the floats' range."""
    mu = mean + mu0[None, :]
    return tl.maximum(tl.maximum(top - mu, mu - low), 1e-30)


@triton.jit
def _mark(m, e, live, top, low, marks, c, C: tl.constexpr):
    """Mark which of the messages m [B, K, BC] are extremes, and count them: maxima + 2^16 · minima, [B, BC]."""
    B: tl.constexpr = m.shape[0]
    K: tl.constexpr = m.shape[1]
    Q: tl.constexpr = m.shape[2] // 4
    width: tl.constexpr = (C + 3) // 4
    hit = tl.where(m == top[:, None, :], 1, 0) + tl.where(m == low[:, None, :], 65536, 0)
    hit = tl.where(live[:, :, None], hit, 0)
    four = tl.sum(tl.reshape(hit << (c % 4)[None, None, :], [B, K, Q, 4]), 3)  # [B, K, Q]: bits 0 … 3 and 16 … 19
    byte = (four & 15) | ((four >> 12) & 240)
    q = tl.program_id(1) * Q + tl.arange(0, Q)
    tl.store(
        marks + (e * width)[:, :, None] + q[None, None, :],
        byte.to(tl.uint8),
        mask=live[:, :, None] & (q < width)[None, None, :],
    )
    return tl.sum(hit, 1)


@triton.jit
def _powers(m, live, mu0, mean, s, p1, p2, p3, p4, p5, ORDER: tl.constexpr):
    """Add the powers of u = (m - μ) / s of a tile to their sums, [B, BC] each."""
    u = tl.where(live[:, :, None], (m - mu0[None, None, :] - mean[:, None, :]) / s[:, None, :], 0.0)
    u2 = u * u
    p1 += tl.sum(u, 1)
    p2 += tl.sum(u2, 1)
    if ORDER > 2:
        p3 += tl.sum(u2 * u, 1)
    if ORDER > 3:
        p4 += tl.sum(u2 * u2, 1)
    if ORDER > 4:
        p5 += tl.sum(u2 * u2 * u, 1)
    return p1, p2, p3, p4, p5


@triton.jit
def rescan(
    source, edge, w, column, marks, tile_0, start, end, mu0, mean, top, low, c, E,
    stride_s, stride_sg, stride_e, stride_eg, ORDER: tl.constexpr, MARKED: tl.constexpr, HAS_SOURCE: tl.constexpr,
    HAS_EDGE: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, ACC: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Second pass: count and mark the extremes, and sum the powers of (m - μ) / s; tile_0 was loaded by the first."""
    hits = tl.zeros(mean.shape, tl.int32)
    p1 = tl.zeros(mean.shape, ACC)
    p2, p3, p4, p5 = p1, p1, p1, p1
    s = _unit(mean, mu0, top, low)
    e = start[:, None] + tl.arange(0, K)[None, :]
    live = e < end[:, None]
    if MARKED:
        hits += _mark(tile_0, e, live, top, low, marks, c, C)
    if ORDER > 0:
        p1, p2, p3, p4, p5 = _powers(tile_0, live, mu0, mean, s, p1, p2, p3, p4, p5, ORDER)
    for first in range(K, tl.max(end - start, 0), K):
        m = tile(source, edge, w, column, places(start, end, first, E, K), c, stride_s, stride_sg, stride_e, stride_eg,
                 HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC)  # fmt: skip
        e = start[:, None] + first + tl.arange(0, K)[None, :]
        live = e < end[:, None]
        if MARKED:
            hits += _mark(m, e, live, top, low, marks, c, C)
        if ORDER > 0:
            p1, p2, p3, p4, p5 = _powers(m, live, mu0, mean, s, p1, p2, p3, p4, p5, ORDER)
    return hits, p1, p2, p3, p4, p5


# ---- writing ----


@triton.jit
def power(x, n: tl.constexpr):
    """x^n by products: exact signs, and as accurate as n roundings."""
    y = x
    for _ in tl.static_range(n - 1):
        y = y * x
    return y


@triton.jit
def _central(p1, p2, p3, p4, p5, d):
    """Rest r of the mean and E[(u - r)^n], n = 2 … 5, from sums of powers of u, by the binomial theorem."""
    r = p1 / d
    e2 = p2 / d
    e3 = p3 / d
    e4 = p4 / d
    e5 = p5 / d
    c2 = e2 - r * r
    c3 = e3 - 3 * r * e2 + 2 * r * r * r
    c4 = e4 - 4 * r * e3 + 6 * r * r * e2 - 3 * r * r * r * r
    c5 = e5 - 5 * r * e4 + 10 * r * r * e3 - 10 * r * r * r * e2 + 4 * r * r * r * r * r
    return r, c2, c3, c4, c5


@triton.jit
def with_epsilon(e, s, n: tl.constexpr):
    """|e| + ε of the expectation e s^n, in units of S^n, S = max(s, 1): no power of s is out of range."""
    return tl.abs(e) * power(tl.minimum(s, 1.0), n) + EPS / power(tl.maximum(s, 1.0), n)


@triton.jit
def _root(e, s, n: tl.constexpr):
    """Equation 4's signed n-th root, with ε inside: sign(e) (|e| s^n + ε)^(1/n)."""
    x = with_epsilon(e, s, n)
    sign = tl.where(e > 0, 1.0, tl.where(e < 0, -1.0, 0.0))
    return sign * tl.maximum(s, 1.0) * (tl.sqrt(x) if n == 2 else tl.exp(tl.log(x) / n))


@triton.jit
def _put(out, at, value, mask, SLOT: tl.constexpr, F: tl.constexpr):
    """Store an aggregate at its place in the output, if SLOT says that it has one."""
    if SLOT >= 0:
        tl.store(out + at + SLOT * F, value, mask=mask)


@triton.jit
def write(
    target, out, stats, mu0, node, mine, d, mean, squares, top, low, total, p1, p2, p3, p4, p5, c, stride_t, stride_tg,
    stride_o, stride_og, SLOTS: tl.constexpr, A: tl.constexpr, ORDER: tl.constexpr, STATS: tl.constexpr,
    HAS_TARGET: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Store the aggregates of the nodes `node` [B] of degree d [B], and the statistics; 0 for empty neighbourhoods."""
    mask = mine[:, None] & (c < C)[None, :]  # [B, BC]
    some = (d > 0)[:, None]
    d = tl.maximum(d, 1.0)[:, None]
    shift = tl.zeros(mean.shape, ACC)
    if HAS_TARGET:
        at = (node * stride_t)[:, None] + place(c, stride_tg, F, LAYOUT[3])[None, :]
        shift = tl.where(some, tl.load(target + at, mask=mask, other=0.0).to(ACC), 0.0)
    at = (node * stride_o)[:, None] + place(c, stride_og, F, LAYOUT[0])[None, :]
    same = top == low  # all messages are equal: then they are the mean, to the bit, and nothing is left to centre
    mean = tl.where(same, top - mu0[None, :], mean)
    var = tl.where(same, 0.0, squares / d)
    _put(out, at, tl.where(some, mean + mu0[None, :], 0.0) + shift, mask, SLOTS[MEAN], F)
    _put(out, at, tl.where(some, total, 0.0) + shift * d, mask, SLOTS[SUM], F)
    _put(out, at, tl.where(some, top, 0.0) + shift, mask, SLOTS[MAX], F)
    _put(out, at, tl.where(some, low, 0.0) + shift, mask, SLOTS[MIN], F)
    _put(out, at, tl.where(some, tl.sqrt(var + EPS), 0.0), mask, SLOTS[STD], F)
    _put(out, at, var, mask, SLOTS[VAR], F)
    row = stats + (node * (STATS * C))[:, None] + c[None, :]
    if STATS > 0:
        tl.store(row, mean, mask=mask)
        tl.store(row + C, var, mask=mask)
    if ORDER > 0:
        s = _unit(mean, mu0, top, low)
        r, c2, c3, c4, c5 = _central(p1, p2, p3, p4, p5, d)
        _put(out, at, _root(c2, s, 2), mask, SLOTS[MOMENT + 2], F)
        _put(out, at, _root(c3, s, 3), mask, SLOTS[MOMENT + 3], F)
        _put(out, at, _root(c4, s, 4), mask, SLOTS[MOMENT + 4], F)
        _put(out, at, _root(c5, s, 5), mask, SLOTS[MOMENT + 5], F)
        if STATS > 0:
            tl.store(row + 2 * C, s, mask=mask)
            tl.store(row + 3 * C, r, mask=mask)
            tl.store(row + 4 * C, c2, mask=mask)
            if ORDER > 2:
                tl.store(row + 5 * C, c3, mask=mask)
            if ORDER > 3:
                tl.store(row + 6 * C, c4, mask=mask)
            if ORDER > 4:
                tl.store(row + 7 * C, c5, mask=mask)
