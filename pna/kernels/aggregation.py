"""All aggregators of all neighbourhoods in one pass over the neighbours (section 2.1, equations 1 to 4), in Triton.

A program takes B nodes and BC channels, and reads their messages in tiles [B, K, BC], so that several rows are under
way at a time. Sums are taken of m - p, p the node's first message: as one of the messages it is no further from the
mean than √d σ, so that nothing cancels where |μ| is much larger than σ. A tile's rows beyond the last message repeat
the first one: they change neither these sums nor the extremes, and no number has to be masked. The moments of equation
4 and the marks of the extremes, which need the mean or the extremes themselves, take a second pass.

A node with more messages than LIMIT, a hub, would hold the others up: `pna.kernels.hubs` cuts its messages into chunks,
a program takes a chunk, and another puts the chunks of a hub together. The plain-torch twin is in pna.aggregate.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from pna.aggregators import EPSILON
from pna.kernels.hubs import chunk_of, chunk_owners, limit
from pna.kernels.launch import Launch
from pna.kernels.layout import Config, Layout, blocks, grouped, number_of_stats, order_of, slots_of, wide, widened

__all__ = ["Saved", "allocate", "forward"]

# places in SLOTS, which says where in the output each aggregator stands, or -1
MEAN, SUM, MAX, MIN, STD, VAR = (tl.constexpr(i) for i in range(6))
MOMENT = tl.constexpr(4)  # moment n is at place MOMENT + n, n = 2 … 5
EPS = tl.constexpr(EPSILON)
PLANES = tl.constexpr(5)  # of a chunk's first pass: mean, centred squares, maximum, minimum, sum
PLANES_2 = tl.constexpr(7)  # of its second pass: how many maxima and minima, and the sums of the powers 1 … 5
SAMPLE = 1024


class Saved(NamedTuple):
    """What the backward pass needs of the forward pass; empty tensors where it needs nothing. C channels = G·F."""

    shift: Tensor  # [C]: μ₀, the mean of some rows
    stats: Tensor  # [N, S, C]: μ - μ₀, σ², then for moments the unit s, the rest r of the mean, E[(X - μ)^n] / s^n
    ties: Tensor  # [N, C]: how many messages are the maximum, + 2^16 times how many are the minimum; not of a hub
    hub_ties: Tensor  # [P, 2, C]: the two of a hub, at the place of its first chunk
    marks: Tensor  # [E, C / 4] bytes: of four channels each whether a message is the maximum (4 bits), the minimum


def forward(
    source: Tensor | None,
    edge: Tensor | None,
    target: Tensor | None,
    ptr: Tensor,
    column: Tensor,
    names: str,
    save: bool,
    config: Config | None = None,
) -> tuple[Tensor, Saved]:
    """Source and target [N, G, F], edge [E, G, F] -> aggregates of target_i + edge_ij + source_j, [N, G, A, F]."""
    given = source if source is not None else edge
    N, E, (G, F) = len(ptr) - 1, len(column), given.shape[1:]
    out, shift, *saved = allocate(given, N, E, names, save)
    if out.numel() == 0 or E == 0:
        return out.zero_(), Saved(shift, *(t.zero_() for t in saved))
    saved = Saved(channel_means(given) if len(shift) > 0 else shift, *saved)
    C, T = G * F, limit(E)
    config = config or Config.of(C)
    tensors = [given if t is None else grouped(t) for t in (source, edge, target)]
    strides = [s for t in tensors for s in (t.stride(0), t.stride(1))]
    arguments = [*tensors, ptr, column, out, *saved, *strides, N, E]
    constants = {
        "SLOTS": slots_of(names), "A": out.shape[2], "ORDER": order_of(names),
        "STATS": saved.stats.shape[1], "MARKED": len(saved.marks) > 0,
        "HAS_SOURCE": source is not None, "HAS_EDGE": edge is not None, "HAS_TARGET": target is not None,
        "LAYOUT": Layout.of(F, G, config.BC, *tensors), "C": C, "F": F, "LIMIT": T, "BC": config.BC,
        "ACC": wide(given.dtype),
    }  # fmt: skip
    columns = blocks(C, config.BC)
    hubs = _Hubs(ptr, E, C, T, saved.shift, order_of(names) > 0 or len(saved.marks) > 0) if E > T else None
    if hubs:
        hubs.scan(arguments, constants, columns)
    light = constants | {"B": config.B, "K": config.K}
    _launch_light((blocks(N, config.B), columns), arguments, light, config.warps)
    if hubs:
        hubs.finish(arguments, constants, columns)
    return out, saved


def channel_means(given: Tensor) -> Tensor:
    """μ₀: the mean over about SAMPLE rows of [rows, G, F], which tell the mean of a channel well enough, [G·F]."""
    step = given.shape[0] // SAMPLE
    rows = given[::step] if step > 1 else given
    return torch.mean(rows, 0, dtype=widened(given.dtype)).view(-1)


def allocate(given: Tensor, N: int, E: int, names: str, save: bool) -> tuple[Tensor, ...]:
    """The output [N, G, A, F] and the tensors of Saved, not yet written."""
    G, F = given.shape[1:]
    C = G * F
    extremes = save and not {"max", "min"}.isdisjoint(names.split())
    stats = number_of_stats(names) if save else 0
    dtype = widened(given.dtype)
    T = limit(E)
    return (
        given.new_empty(N, G, len(names.split()), F),
        given.new_empty(C if stats > 0 else 0, dtype=dtype),
        given.new_empty(N, stats, C, dtype=dtype),
        given.new_empty(N if extremes else 0, C, dtype=torch.int32),
        given.new_empty((E + T - 1) // T if extremes and E > T else 0, 2, C, dtype=dtype),
        given.new_empty(E if extremes else 0, (C + 3) // 4, dtype=torch.uint8),
    )


class _Hubs:
    """The launches for the nodes with more than `limit` messages: chunks, chunks again if needed, hubs."""

    K, warps = 32, 4

    def __init__(self, ptr: Tensor, E: int, C: int, T: int, wide: Tensor, second: bool) -> None:
        self.owner = chunk_owners(ptr, E, T)  # [P]
        self.first = wide.new_empty(len(self.owner), PLANES.value, C)
        self.second = wide.new_empty(len(self.owner) if second else 0, PLANES_2.value, C)

    def scan(self, arguments: list, constants: dict, columns: int) -> None:
        grid = (len(self.owner), columns)
        _scan_chunks[grid](*arguments, self.owner, self.first, **constants, K=self.K, num_warps=self.warps)

    def finish(self, arguments: list, constants: dict, columns: int) -> None:
        grid, parts = (len(self.owner), columns), (self.owner, self.first, self.second)
        if len(self.second) > 0:
            _rescan_chunks[grid](*arguments, *parts, **constants, K=self.K, num_warps=self.warps)
        _write_hubs[grid](*arguments, *parts, **constants, K=self.K, num_warps=self.warps)


# ---- reading ----


@triton.jit
def place(c, stride_g, F: tl.constexpr, FLAT: tl.constexpr):
    """Where channel c = (group, feature) lies in a row."""
    if FLAT:
        return c
    else:  # Triton would compile what follows a return
        return (c // F) * stride_g + c % F


@triton.jit
def read(at, c, WHOLE: tl.constexpr, C: tl.constexpr, ACC: tl.constexpr):
    """Numbers of the channels c, which lie along the last axis of `at` [B, K, BC]; 0 beyond the last channel."""
    if WHOLE:
        return tl.load(at).to(ACC)
    else:  # Triton would compile what follows a return
        return tl.load(at, mask=(c < C)[None, None, :], other=0.0).to(ACC)


@triton.jit
def tile(
    source, edge, column, e, c, stride_s, stride_sg, stride_e, stride_eg, HAS_SOURCE: tl.constexpr,
    HAS_EDGE: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """The messages at the places e [B, K], channels c [BC] -> [B, K, BC]."""
    if HAS_SOURCE:
        j = tl.load(column + e)
        row = (j * stride_s)[:, :, None] + place(c, stride_sg, F, LAYOUT[1])[None, None, :]
        m = read(source + row, c, LAYOUT[4], C, ACC)
        if HAS_EDGE:
            row = (e * stride_e)[:, :, None] + place(c, stride_eg, F, LAYOUT[2])[None, None, :]
            m += read(edge + row, c, LAYOUT[4], C, ACC)
    else:
        row = (e * stride_e)[:, :, None] + place(c, stride_eg, F, LAYOUT[2])[None, None, :]
        m = read(edge + row, c, LAYOUT[4], C, ACC)
    return m


@triton.jit
def load_shift(shift, c, C: tl.constexpr, SHIFTED: tl.constexpr, ACC: tl.constexpr):
    """μ₀, [BC]; 0 where a sampled row was infinite or no number, which must not reach the other nodes."""
    if SHIFTED:
        mu0 = tl.load(shift + c, mask=c < C, other=0.0)
        return tl.where(tl.abs(mu0) < float("inf"), mu0, 0.0)
    return tl.zeros(c.shape, ACC)


@triton.jit
def places(start, end, first, E, K: tl.constexpr):
    """The K messages from the first-th of each node, [B, K]; the node's first one again where it has no more."""
    e = start[:, None] + first + tl.arange(0, K)[None, :]
    return tl.where(e < end[:, None], e, tl.minimum(start, E - 1)[:, None])


# ---- the two passes ----


@triton.jit
def _sum_of_live(m, start, end, first):
    """The sum of a tile's messages, from the first-th of each node, without its repetitions of the first one."""
    e = start[:, None] + first + tl.arange(0, m.shape[1])[None, :]
    return tl.sum(tl.where((e < end[:, None])[:, :, None], m, 0.0), 1)


@triton.jit
def _scan(
    source, edge, column, start, end, c, E, stride_s, stride_sg, stride_e, stride_eg,
    SUMMED: tl.constexpr, HAS_SOURCE: tl.constexpr, HAS_EDGE: tl.constexpr, LAYOUT: tl.constexpr,
    C: tl.constexpr, F: tl.constexpr, ACC: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """First pass over the messages start : end [B]: the first tile, p, Σ (m - p), Σ (m - p)², max, min, Σ m."""
    B: tl.constexpr = start.shape[0]
    p = tl.reshape(tile(source, edge, column, places(start, end, 0, E, 1), c, stride_s, stride_sg, stride_e, stride_eg,
                        HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC), [B, c.shape[0]])  # fmt: skip
    tile_0 = tile(source, edge, column, places(start, end, 0, E, K), c, stride_s, stride_sg, stride_e, stride_eg,
                  HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC)  # fmt: skip
    apart = tile_0 - p[:, None, :]
    sums, squares = tl.sum(apart, 1), tl.sum(apart * apart, 1)
    top, low = tl.max(tile_0, 1), tl.min(tile_0, 1)
    total = tl.zeros(top.shape, ACC)
    if SUMMED:
        total += _sum_of_live(tile_0, start, end, 0)
    for first in range(K, tl.max(end - start, 0), K):
        m = tile(source, edge, column, places(start, end, first, E, K), c, stride_s, stride_sg, stride_e, stride_eg,
                 HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC)  # fmt: skip
        apart = m - p[:, None, :]
        sums += tl.sum(apart, 1)
        squares += tl.sum(apart * apart, 1)
        top, low = tl.maximum(top, tl.max(m, 1)), tl.minimum(low, tl.min(m, 1))
        if SUMMED:
            total += _sum_of_live(m, start, end, first)
    return tile_0, p, sums, squares, top, low, total


@triton.jit
def _centre(p, sums, squares, d, mu0):
    """The mean less μ₀, and Σ (m - μ)², from the sums of d [B, 1] messages."""
    mean = sums / d
    return mean + (p - mu0[None, :]), tl.maximum(squares - sums * mean, 0.0)


@triton.jit
def _unit(mean, mu0, top, low):
    """The unit s of the moments: the largest |m - μ|, or 1; so that no power overflows."""
    mu = mean + mu0[None, :]
    return tl.maximum(tl.maximum(top - mu, mu - low), 1.0)


@triton.jit
def _mark(m, e, live, top, low, marks, c, C: tl.constexpr):
    """Writes which of the messages m [B, K, BC] are extremes, and counts them: maxima + 2^16 minima, [B, BC]."""
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
    """Adds the powers of u = (m - μ) / s of a tile to their sums."""
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
def _rescan(
    source, edge, column, marks, tile_0, start, end, mu0, mean, top, low, c, E,
    stride_s, stride_sg, stride_e, stride_eg, ORDER: tl.constexpr, MARKED: tl.constexpr, HAS_SOURCE: tl.constexpr,
    HAS_EDGE: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, ACC: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Second pass: counts and marks the extremes, sums the powers of (m - μ) / s; its first tile is here already."""
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
        m = tile(source, edge, column, places(start, end, first, E, K), c, stride_s, stride_sg, stride_e, stride_eg,
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
    """The rest r of the mean and E[(u - r)^n], n = 2 … 5, from sums of powers of u (the binomial theorem)."""
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
def _root(e, s, n: tl.constexpr):
    """Equation 4's n-th root with ε inside and a sign: s sign(e) (|e| + ε/s^n)^(1/n)."""
    x = tl.abs(e) + EPS / power(s, n)
    sign = tl.where(e > 0, 1.0, tl.where(e < 0, -1.0, 0.0))
    return sign * s * (tl.sqrt(x) if n == 2 else tl.exp(tl.log(x) / n))


@triton.jit
def _put(out, at, value, mask, SLOT: tl.constexpr, F: tl.constexpr):
    """One aggregate into its place of the output."""
    if SLOT >= 0:
        tl.store(out + at + SLOT * F, value, mask=mask)


@triton.jit
def _write(
    target, out, stats, mu0, node, mine, d, mean, squares, top, low, total, p1, p2, p3, p4, p5, c, stride_t, stride_tg,
    SLOTS: tl.constexpr, A: tl.constexpr, ORDER: tl.constexpr, STATS: tl.constexpr, HAS_TARGET: tl.constexpr,
    LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """The aggregates of the nodes `node` [B] of degree d [B], and the statistics; an empty neighbourhood gives 0."""
    mask = mine[:, None] & (c < C)[None, :]  # [B, BC]
    some = (d > 0)[:, None]
    d = tl.maximum(d, 1.0)[:, None]
    shift = tl.zeros(mean.shape, ACC)
    if HAS_TARGET:
        at = (node * stride_t)[:, None] + place(c, stride_tg, F, LAYOUT[3])[None, :]
        shift = tl.where(some, tl.load(target + at, mask=mask, other=0.0).to(ACC), 0.0)
    at = (node * (A * C))[:, None] + place(c, A * F, F, LAYOUT[0])[None, :]
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


# ---- the kernels ----


@triton.jit(do_not_specialize=["N", "E"])
def _light(
    source, edge, target, ptr, column, out, shift, stats, ties, hub_ties, marks,
    stride_s, stride_sg, stride_e, stride_eg, stride_t, stride_tg, N, E,
    SLOTS: tl.constexpr, A: tl.constexpr, ORDER: tl.constexpr, STATS: tl.constexpr, MARKED: tl.constexpr,
    HAS_SOURCE: tl.constexpr, HAS_EDGE: tl.constexpr, HAS_TARGET: tl.constexpr, LAYOUT: tl.constexpr,
    C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr,
    B: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """All of B nodes that are not hubs, for BC channels."""
    node = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    start = tl.load(ptr + node, mask=node < N, other=0)
    end = tl.load(ptr + node + 1, mask=node < N, other=0)
    mine = (node < N) & (end - start <= LIMIT)
    end = tl.where(mine, end, start)
    d = (end - start).to(ACC)
    many = tl.maximum(d, 1.0)[:, None]
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    mu0 = load_shift(shift, c, C, STATS > 0, ACC)
    tile_0, p, sums, squares, top, low, total = _scan(
        source, edge, column, start, end, c, E, stride_s, stride_sg, stride_e, stride_eg,
        SLOTS[SUM] >= 0, HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC, K)  # fmt: skip
    mean, squares = _centre(p, sums, squares, many, mu0)
    p1 = tl.zeros(mean.shape, ACC)
    p2, p3, p4, p5 = p1, p1, p1, p1
    if MARKED or ORDER > 0:
        hits, p1, p2, p3, p4, p5 = _rescan(
            source, edge, column, marks, tile_0, start, end, mu0, mean, top, low, c, E,
            stride_s, stride_sg, stride_e, stride_eg,
            ORDER, MARKED, HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC, K)  # fmt: skip
        if MARKED:
            mask = mine[:, None] & (c < C)[None, :]
            tl.store(ties + (node * C)[:, None] + c[None, :], hits, mask=mask)
    _write(target, out, stats, mu0, node, mine, d, mean, squares, top, low, total, p1, p2, p3, p4, p5, c,
           stride_t, stride_tg, SLOTS, A, ORDER, STATS, HAS_TARGET, LAYOUT, C, F, ACC)  # fmt: skip


_launch_light = Launch(_light)


@triton.jit
def _scan_chunks(
    source, edge, target, ptr, column, out, shift, stats, ties, hub_ties, marks,
    stride_s, stride_sg, stride_e, stride_eg, stride_t, stride_tg, N, E, owner, partial,
    SLOTS: tl.constexpr, A: tl.constexpr, ORDER: tl.constexpr, STATS: tl.constexpr, MARKED: tl.constexpr,
    HAS_SOURCE: tl.constexpr, HAS_EDGE: tl.constexpr, HAS_TARGET: tl.constexpr, LAYOUT: tl.constexpr,
    C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The first pass over one chunk of a hub -> partial [P, PLANES, C]."""
    chunk = tl.program_id(0).to(tl.int64)
    _hub, first, last, start, end = chunk_of(ptr, owner, chunk, LIMIT)
    if last - first > LIMIT:
        one = tl.zeros([1], tl.int64)
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        _tile_0, p, sums, squares, top, low, total = _scan(
            source, edge, column, start + one, end + one, c, E, stride_s, stride_sg, stride_e, stride_eg,
            SLOTS[SUM] >= 0, HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC, K)  # fmt: skip
        many = (end - start + one).to(ACC)[:, None]
        mean, centred = _centre(p, sums, squares, many, load_shift(shift, c, C, STATS > 0, ACC))
        at = partial + chunk * (PLANES * C) + c[None, :]
        tl.store(at, mean, mask=(c < C)[None, :])
        tl.store(at + C, centred, mask=(c < C)[None, :])
        tl.store(at + 2 * C, top, mask=(c < C)[None, :])
        tl.store(at + 3 * C, low, mask=(c < C)[None, :])
        tl.store(at + 4 * C, total, mask=(c < C)[None, :])


@triton.jit
def _merge(partial, first, last, c, C: tl.constexpr, LIMIT: tl.constexpr, ACC: tl.constexpr, K: tl.constexpr):
    """The first pass over a hub's messages first : last from those over its chunks, [1, BC] each."""
    lead = tl.cdiv(first, LIMIT)  # its chunks are lead : stop
    stop = tl.cdiv(last, LIMIT)
    mean = tl.zeros([1, c.shape[0]], ACC)
    squares, total = mean, mean
    top, low = mean - float("inf"), mean + float("inf")
    seen = tl.zeros([1], ACC)
    for base in range(lead, stop, K):
        chunk = base + tl.arange(0, K).to(tl.int64)  # [K]
        live = (chunk < stop)[:, None] & (c < C)[None, :]
        at = partial + (chunk * (PLANES * C))[:, None] + c[None, :]
        start = tl.where(chunk == lead, first, chunk * LIMIT)
        n = tl.where(chunk < stop, tl.minimum((chunk + 1) * LIMIT, last) - start, 0).to(ACC)  # [K], of each chunk
        means = tl.load(at, mask=live, other=0.0)
        size = tl.sum(n, 0)
        tile_mean = tl.sum(means * (n / size)[:, None], 0)[None, :]
        apart = tl.where(live, means - tile_mean, 0.0)
        inside = tl.load(at + C, mask=live, other=0.0) + apart * apart * n[:, None]
        # Chan's formula: two sets of sizes `seen` and `size` become one
        weight = (size / (seen + size))[:, None]
        between = tile_mean - mean
        squares += tl.sum(inside, 0)[None, :] + between * between * seen[:, None] * weight
        mean += between * weight
        seen += size
        top = tl.maximum(top, tl.max(tl.load(at + 2 * C, mask=live, other=float("-inf")), 0)[None, :])
        low = tl.minimum(low, tl.min(tl.load(at + 3 * C, mask=live, other=float("inf")), 0)[None, :])
        total += tl.sum(tl.load(at + 4 * C, mask=live, other=0.0), 0)[None, :]
    return mean, squares, top, low, total


@triton.jit
def _rescan_chunks(
    source, edge, target, ptr, column, out, shift, stats, ties, hub_ties, marks,
    stride_s, stride_sg, stride_e, stride_eg, stride_t, stride_tg, N, E, owner, partial, partial_2,
    SLOTS: tl.constexpr, A: tl.constexpr, ORDER: tl.constexpr, STATS: tl.constexpr, MARKED: tl.constexpr,
    HAS_SOURCE: tl.constexpr, HAS_EDGE: tl.constexpr, HAS_TARGET: tl.constexpr, LAYOUT: tl.constexpr,
    C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The second pass over one chunk of a hub -> partial_2 [P, PLANES_2, C], and the marks of its messages."""
    chunk = tl.program_id(0).to(tl.int64)
    _hub, first, last, begin, stop = chunk_of(ptr, owner, chunk, LIMIT)
    if last - first > LIMIT:
        start = begin + tl.zeros([1], tl.int64)
        end = stop + tl.zeros([1], tl.int64)
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        mean, _squares, top, low, _total = _merge(partial, first, last, c, C, LIMIT, ACC, K)
        mu0 = load_shift(shift, c, C, STATS > 0, ACC)
        tile_0 = tile(source, edge, column, places(start, end, 0, E, K), c, stride_s, stride_sg, stride_e, stride_eg,
                      HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC)  # fmt: skip
        hits, p1, p2, p3, p4, p5 = _rescan(
            source, edge, column, marks, tile_0, start, end, mu0, mean, top, low, c, E,
            stride_s, stride_sg, stride_e, stride_eg,
            ORDER, MARKED, HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC, K)  # fmt: skip
        at = partial_2 + chunk * (PLANES_2 * C) + c[None, :]
        tl.store(at, (hits & 65535).to(ACC), mask=(c < C)[None, :])
        tl.store(at + C, (hits >> 16).to(ACC), mask=(c < C)[None, :])
        tl.store(at + 2 * C, p1, mask=(c < C)[None, :])
        tl.store(at + 3 * C, p2, mask=(c < C)[None, :])
        tl.store(at + 4 * C, p3, mask=(c < C)[None, :])
        tl.store(at + 5 * C, p4, mask=(c < C)[None, :])
        tl.store(at + 6 * C, p5, mask=(c < C)[None, :])


@triton.jit
def sum_chunks(
    partial, plane, first, last, c,
    C: tl.constexpr, LIMIT: tl.constexpr, PLANES: tl.constexpr, ACC: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """One plane of partial [P, PLANES, C] summed over the chunks of a hub, [1, BC]."""
    stop = tl.cdiv(last, LIMIT)
    total = tl.zeros([1, c.shape[0]], ACC)
    for base in range(tl.cdiv(first, LIMIT), stop, K):
        chunk = base + tl.arange(0, K).to(tl.int64)
        live = (chunk < stop)[:, None] & (c < C)[None, :]
        at = partial + (chunk * (PLANES * C))[:, None] + plane * C + c[None, :]
        total += tl.sum(tl.load(at, mask=live, other=0.0), 0)[None, :]
    return total


@triton.jit
def _write_hubs(
    source, edge, target, ptr, column, out, shift, stats, ties, hub_ties, marks,
    stride_s, stride_sg, stride_e, stride_eg, stride_t, stride_tg, N, E, owner, partial, partial_2,
    SLOTS: tl.constexpr, A: tl.constexpr, ORDER: tl.constexpr, STATS: tl.constexpr, MARKED: tl.constexpr,
    HAS_SOURCE: tl.constexpr, HAS_EDGE: tl.constexpr, HAS_TARGET: tl.constexpr, LAYOUT: tl.constexpr,
    C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """A hub's aggregates from its chunks, by the program of its first chunk."""
    chunk = tl.program_id(0).to(tl.int64)
    hub, first, last, start, _end = chunk_of(ptr, owner, chunk, LIMIT)
    if (last - first > LIMIT) & (start == first):
        one = tl.zeros([1], tl.int64)
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        mean, squares, top, low, total = _merge(partial, first, last, c, C, LIMIT, ACC, K)
        p1 = tl.zeros(mean.shape, ACC)
        p2, p3, p4, p5 = p1, p1, p1, p1
        if MARKED:
            at = hub_ties + chunk * (2 * C) + c[None, :]
            maxima = sum_chunks(partial_2, 0, first, last, c, C, LIMIT, PLANES_2, ACC, K)
            minima = sum_chunks(partial_2, 1, first, last, c, C, LIMIT, PLANES_2, ACC, K)
            tl.store(at, maxima, mask=(c < C)[None, :])
            tl.store(at + C, minima, mask=(c < C)[None, :])
        if ORDER > 0:
            p1 = sum_chunks(partial_2, 2, first, last, c, C, LIMIT, PLANES_2, ACC, K)
            p2 = sum_chunks(partial_2, 3, first, last, c, C, LIMIT, PLANES_2, ACC, K)
            p3 = sum_chunks(partial_2, 4, first, last, c, C, LIMIT, PLANES_2, ACC, K)
            p4 = sum_chunks(partial_2, 5, first, last, c, C, LIMIT, PLANES_2, ACC, K)
            p5 = sum_chunks(partial_2, 6, first, last, c, C, LIMIT, PLANES_2, ACC, K)
        mu0 = load_shift(shift, c, C, STATS > 0, ACC)
        _write(target, out, stats, mu0, hub + one, one == 0, (last - first + one).to(ACC), mean, squares, top, low,
               total, p1, p2, p3, p4, p5, c, stride_t, stride_tg,
               SLOTS, A, ORDER, STATS, HAS_TARGET, LAYOUT, C, F, ACC)  # fmt: skip
