"""Hubs: nodes with so many messages that a single one would hold up the grid. Their messages are cut into chunks.

The messages 0 : E are cut every T places. A node with more than T messages, a hub, contains at least one of these
places. The chunk that begins there belongs to it, and its first chunk also has the messages before. So the number of
chunks, E / T, is known from the shapes alone, and nothing has to be counted, listed or waited for. One program has a
chunk; another, that of a hub's first chunk, merges them all.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pna.kernels.launch import Constants, Launch
from pna.kernels.messages import SUM, centre, load_shift, places, rescan, scan, tile, write

__all__ = ["NO_HUBS", "Hubs", "chunk_of", "chunk_owners", "limit", "sum_chunks"]

SMALL = 1 << 17  # messages: a smaller graph is so quick that the launches for hubs would cost more than a hub does
NO_HUBS = (1 << 31) - 1  # T of a graph that is known to have none
PLANES = tl.constexpr(5)  # of a chunk's first pass: mean, centred squares, maximum, minimum, sum
PLANES_2 = tl.constexpr(7)  # of its second pass: how many maxima and minima, and the sums of the powers 1 … 5
AT_ONCE = tl.constexpr(64)  # chunks that are merged at a time


def limit(num_messages: int) -> int:
    """T, the largest number of messages of a node that is not a hub."""
    return 8192 if num_messages < SMALL else 1024


def chunk_owners(ptr: Tensor, num_messages: int, T: int) -> Tensor:
    """1 + the node to which each of the messages 0, T, 2T, … belongs, [P]."""
    return torch.searchsorted(ptr, torch.arange(0, num_messages, T, device=ptr.device, dtype=ptr.dtype), right=True)


@triton.jit
def chunk_of(ptr, owner, p, T: tl.constexpr):
    """Node of chunk p, the node's messages first : last, and the chunk's, start : end, valid if the node is a hub."""
    node = tl.load(owner + p) - 1
    first = tl.load(ptr + node)
    last = tl.load(ptr + node + 1)
    start = tl.where((p - 1) * T < first, first, p * T)
    return node, first, last, start, tl.minimum((p + 1) * T, last)


class Hubs:
    """The launches for nodes with more than `limit` messages: over chunks, again over chunks if needed, over hubs."""

    K, warps = 32, 4

    def __init__(self, ptr: Tensor, E: int, C: int, T: int, wide: Tensor, second: bool) -> None:
        self.owner = chunk_owners(ptr, E, T)  # [P]
        P = self.owner.shape[0]
        self.first = wide.new_empty(P, PLANES.value, C)
        self.merged = torch.empty_like(self.first)  # of a hub, at the place of its first chunk
        self.second = wide.new_empty(P, PLANES_2.value, C) if second else None

    def scan(self, arguments: list, constants: Constants, columns: int) -> None:
        """Launch the first pass over the chunks."""
        _launch_scan((self.owner.shape[0], columns), (*arguments, self.owner, self.first), constants, self.warps)

    def finish(self, arguments: list, constants: Constants, columns: int) -> None:
        """Launch the merging of the chunks, their second pass, if there is one, and the hubs' aggregates."""
        grid = (self.owner.shape[0], columns)
        _launch_merge(grid, (*arguments, self.owner, self.first, self.merged), constants, self.warps)
        kernel_arguments = (*arguments, self.owner, self.merged, self.merged if self.second is None else self.second)
        if self.second is not None:
            _launch_rescan(grid, kernel_arguments, constants, self.warps)
        _launch_write(grid, kernel_arguments, constants, self.warps)


@triton.jit
def _store(planes, chunk, mean, squares, top, low, total, c, C: tl.constexpr):
    """Store the first pass over some messages, [1, BC] each, at their chunk's place of planes [P, PLANES, C]."""
    at = planes + chunk * (PLANES * C) + c[None, :]
    tl.store(at, mean, mask=(c < C)[None, :])
    tl.store(at + C, squares, mask=(c < C)[None, :])
    tl.store(at + 2 * C, top, mask=(c < C)[None, :])
    tl.store(at + 3 * C, low, mask=(c < C)[None, :])
    tl.store(at + 4 * C, total, mask=(c < C)[None, :])


@triton.jit
def _load_merged(merged, first, c, C: tl.constexpr, LIMIT: tl.constexpr):
    """Load what was merged of the hub whose messages begin at first: five planes, [1, BC] each."""
    at = merged + tl.cdiv(first, LIMIT) * (PLANES * C) + c[None, :]
    mean = tl.load(at, mask=(c < C)[None, :], other=0.0)
    squares = tl.load(at + C, mask=(c < C)[None, :], other=0.0)
    top = tl.load(at + 2 * C, mask=(c < C)[None, :], other=0.0)
    low = tl.load(at + 3 * C, mask=(c < C)[None, :], other=0.0)
    total = tl.load(at + 4 * C, mask=(c < C)[None, :], other=0.0)
    return mean, squares, top, low, total


@triton.jit
def _scan_chunks(
    source, edge, target, ptr, column, out, shift, stats, ties, hub_ties, marks,
    stride_s, stride_sg, stride_e, stride_eg, stride_t, stride_tg, stride_o, stride_og, N, E, owner, partial,
    SLOTS: tl.constexpr, A: tl.constexpr, ORDER: tl.constexpr, STATS: tl.constexpr, MARKED: tl.constexpr,
    HAS_SOURCE: tl.constexpr, HAS_EDGE: tl.constexpr, HAS_TARGET: tl.constexpr, LAYOUT: tl.constexpr,
    C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """First pass over one chunk of a hub, into partial [P, PLANES, C]."""
    chunk = tl.program_id(0).to(tl.int64)
    _hub, first, last, start, end = chunk_of(ptr, owner, chunk, LIMIT)
    if last - first > LIMIT:
        one = tl.zeros([1], tl.int64)
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        _tile_0, p, sums, squares, top, low, total = scan(
            source, edge, 0.0, column, start + one, end + one, c, E, stride_s, stride_sg, stride_e, stride_eg,
            SLOTS[SUM] >= 0, HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC, K)  # fmt: skip
        many = (end - start + one).to(ACC)[:, None]
        mean, centred = centre(p, sums, squares, many, load_shift(shift, c, C, STATS > 0, ACC))
        _store(partial, chunk, mean, centred, top, low, total, c, C)


@triton.jit
def _merge(partial, first, last, c, C: tl.constexpr, LIMIT: tl.constexpr, ACC: tl.constexpr):
    """Merge the first-pass results of a hub's chunks into those of all its messages, first : last; [1, BC] each."""
    lead = tl.cdiv(first, LIMIT)  # its chunks are lead : stop
    stop = tl.cdiv(last, LIMIT)
    mean = tl.zeros([1, c.shape[0]], ACC)
    squares, total = mean, mean
    top, low = mean - float("inf"), mean + float("inf")
    seen = tl.zeros([1], ACC)
    for base in range(lead, stop, AT_ONCE):
        chunk = base + tl.arange(0, AT_ONCE).to(tl.int64)  # [K], K = AT_ONCE
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
def _merge_chunks(
    source, edge, target, ptr, column, out, shift, stats, ties, hub_ties, marks,
    stride_s, stride_sg, stride_e, stride_eg, stride_t, stride_tg, stride_o, stride_og, N, E, owner, partial, merged,
    SLOTS: tl.constexpr, A: tl.constexpr, ORDER: tl.constexpr, STATS: tl.constexpr, MARKED: tl.constexpr,
    HAS_SOURCE: tl.constexpr, HAS_EDGE: tl.constexpr, HAS_TARGET: tl.constexpr, LAYOUT: tl.constexpr,
    C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Merge the first pass over a hub's chunks into merged [P, PLANES, C], by the program of its first chunk."""
    chunk = tl.program_id(0).to(tl.int64)
    _hub, first, last, start, _end = chunk_of(ptr, owner, chunk, LIMIT)
    if (last - first > LIMIT) & (start == first):
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        mean, squares, top, low, total = _merge(partial, first, last, c, C, LIMIT, ACC)
        _store(merged, chunk, mean, squares, top, low, total, c, C)


@triton.jit
def _rescan_chunks(
    source, edge, target, ptr, column, out, shift, stats, ties, hub_ties, marks,
    stride_s, stride_sg, stride_e, stride_eg, stride_t, stride_tg, stride_o, stride_og, N, E, owner, merged, partial_2,
    SLOTS: tl.constexpr, A: tl.constexpr, ORDER: tl.constexpr, STATS: tl.constexpr, MARKED: tl.constexpr,
    HAS_SOURCE: tl.constexpr, HAS_EDGE: tl.constexpr, HAS_TARGET: tl.constexpr, LAYOUT: tl.constexpr,
    C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Second pass over one chunk of a hub, into partial_2 [P, PLANES_2, C], with the marks of its messages."""
    chunk = tl.program_id(0).to(tl.int64)
    _hub, first, last, begin, stop = chunk_of(ptr, owner, chunk, LIMIT)
    if last - first > LIMIT:
        start = begin + tl.zeros([1], tl.int64)
        end = stop + tl.zeros([1], tl.int64)
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        mean, _squares, top, low, _total = _load_merged(merged, first, c, C, LIMIT)
        mu0 = load_shift(shift, c, C, STATS > 0, ACC)
        tile_0 = tile(source, edge, 0.0, column, places(start, end, 0, E, K), c, stride_s, stride_sg, stride_e,
                      stride_eg, HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC)  # fmt: skip
        hits, p1, p2, p3, p4, p5 = rescan(
            source, edge, 0.0, column, marks, tile_0, start, end, mu0, mean, top, low, c, E,
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
    C: tl.constexpr, LIMIT: tl.constexpr, PLANES: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Sum of one plane of partial [P, PLANES, C] over the chunks of a hub, [1, BC]."""
    stop = tl.cdiv(last, LIMIT)
    total = tl.zeros([1, c.shape[0]], ACC)
    for base in range(tl.cdiv(first, LIMIT), stop, AT_ONCE):
        chunk = base + tl.arange(0, AT_ONCE).to(tl.int64)
        live = (chunk < stop)[:, None] & (c < C)[None, :]
        at = partial + (chunk * (PLANES * C))[:, None] + plane * C + c[None, :]
        total += tl.sum(tl.load(at, mask=live, other=0.0), 0)[None, :]
    return total


@triton.jit
def _write_hubs(
    source, edge, target, ptr, column, out, shift, stats, ties, hub_ties, marks,
    stride_s, stride_sg, stride_e, stride_eg, stride_t, stride_tg, stride_o, stride_og, N, E, owner, merged, partial_2,
    SLOTS: tl.constexpr, A: tl.constexpr, ORDER: tl.constexpr, STATS: tl.constexpr, MARKED: tl.constexpr,
    HAS_SOURCE: tl.constexpr, HAS_EDGE: tl.constexpr, HAS_TARGET: tl.constexpr, LAYOUT: tl.constexpr,
    C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Aggregates of a hub from its chunks, by the program of its first chunk."""
    chunk = tl.program_id(0).to(tl.int64)
    hub, first, last, start, _end = chunk_of(ptr, owner, chunk, LIMIT)
    if (last - first > LIMIT) & (start == first):
        one = tl.zeros([1], tl.int64)
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        mean, squares, top, low, total = _load_merged(merged, first, c, C, LIMIT)
        p1 = tl.zeros(mean.shape, ACC)
        p2, p3, p4, p5 = p1, p1, p1, p1
        if MARKED:
            at = hub_ties + chunk * (2 * C) + c[None, :]
            maxima = sum_chunks(partial_2, 0, first, last, c, C, LIMIT, PLANES_2, ACC)
            minima = sum_chunks(partial_2, 1, first, last, c, C, LIMIT, PLANES_2, ACC)
            tl.store(at, maxima, mask=(c < C)[None, :])
            tl.store(at + C, minima, mask=(c < C)[None, :])
        if ORDER > 0:
            p1 = sum_chunks(partial_2, 2, first, last, c, C, LIMIT, PLANES_2, ACC)
            p2 = sum_chunks(partial_2, 3, first, last, c, C, LIMIT, PLANES_2, ACC)
            p3 = sum_chunks(partial_2, 4, first, last, c, C, LIMIT, PLANES_2, ACC)
            p4 = sum_chunks(partial_2, 5, first, last, c, C, LIMIT, PLANES_2, ACC)
            p5 = sum_chunks(partial_2, 6, first, last, c, C, LIMIT, PLANES_2, ACC)
        mu0 = load_shift(shift, c, C, STATS > 0, ACC)
        write(target, out, stats, mu0, hub + one, one == 0, (last - first + one).to(ACC), mean, squares, top, low,
               total, p1, p2, p3, p4, p5, c, stride_t, stride_tg, stride_o, stride_og,
               SLOTS, A, ORDER, STATS, HAS_TARGET, LAYOUT, C, F, ACC)  # fmt: skip


_launch_scan, _launch_merge = Launch(_scan_chunks), Launch(_merge_chunks)
_launch_rescan, _launch_write = Launch(_rescan_chunks), Launch(_write_hubs)
