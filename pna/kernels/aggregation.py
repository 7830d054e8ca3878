"""All aggregators of all neighbourhoods in one pass over the neighbours (section 2.1, equations 1 to 4), in Triton.

A program has B nodes and BC channels, and reads their messages in tiles (pna.kernels.messages). Nodes with very many
messages are left to pna.kernels.hubs. The plain-torch twin is in pna.gather.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from pna.kernels.compile_time import (
    ChannelLayout,
    Config,
    blocks,
    grouped,
    number_of_stats,
    order_of,
    slots_of,
    wide,
    widened,
)
from pna.kernels.hubs import NO_HUBS, Hubs, limit
from pna.kernels.launch import Constants, Launch
from pna.kernels.messages import MAX, MIN, SUM, centre, load_shift, load_weight, rescan, scan, write
from pna.kernels.selection import on_its_device

__all__ = ["Saved", "allocate", "forward"]

SAMPLE = 1024  # rows whose mean stands for that of a channel


class Saved(NamedTuple):
    """Results of the forward pass that the backward pass needs, empty where it needs none. C = G·F channels."""

    shift: Tensor  # [C]: μ₀, the mean of some rows
    stats: Tensor  # [N, S, C]: μ - μ₀, σ², then for moments the unit s, the rest r of the mean, E[(X - μ)^n] / s^n
    ties: Tensor  # [N, C]: number of messages that are the maximum, + 2^16 · those that are the minimum; not of hubs
    hub_ties: Tensor  # [P, 2, C]: both numbers of a hub, at the place of its first chunk
    marks: Tensor  # [E, C / 4] bytes: in which of four channels a message is the maximum (4 bits) or the minimum


@on_its_device
def forward(
    source: Tensor | None,
    edge: Tensor | None,
    target: Tensor | None,
    ptr: Tensor,
    column: Tensor,
    names: str,
    save: bool,
    config: Config | None = None,
    hubs: bool = True,
    by_group: bool = False,
    weight: Tensor | None = None,
) -> tuple[Tensor, Saved]:
    """Aggregate target_i + edge_ij + source_j: source and target [N, G, F], edge [E, G, F] -> [N, G, A, F].

    hubs: whether there may be any; if not, nothing is launched for them. by_group: whether all nodes of a group lie
    together in the output's memory, instead of all groups of a node. weight [R, G, F]: by which edges of one number
    each, [E], are multiplied, in the graph of each of R replicas; these have equally many nodes, and no hubs.
    """
    like, hubs = source if source is not None else edge, hubs and weight is None
    N, E, (G, F), dtype = ptr.shape[0] - 1, column.shape[0], like.shape[1:], like.dtype
    if N * G * F == 0 or E == 0:
        out, *saved = allocate(like, N, E, names, save, hubs)
        return out.zero_(), Saved(saved[0], *(t.zero_() for t in saved[1:]))
    out, *saved = allocate(like, N, E, names, save, hubs, means=True)
    saved = Saved(*saved)
    out = out.view(G, N, -1, F).transpose(0, 1) if by_group else out
    C, T = G * F, limit(E) if hubs else NO_HUBS
    config, V = config or Config.of(C, dense=E >= 8 * N), N if weight is None else N // weight.shape[0]
    config = config if weight is None else config.within(V)
    rows = edge if weight is None else None
    tensors = [like if t is None else grouped(t) for t in (source, rows, target)]
    layout = ChannelLayout.of(F, G, config.BC, *tensors)._replace(number=weight is not None)
    strides = [s for t in (*tensors, out) for s in t.stride()[:2]]
    tensors[1] = tensors[1] if weight is None else edge.contiguous()
    arguments = [*tensors, ptr, column, out, *saved, *strides, N, E]
    parts = (source is not None, edge is not None, target is not None)
    light, chunks, again = _constants(names, dtype, save, parts, layout, C, F, T, config)
    columns = blocks(C, config.BC)
    large = Hubs(ptr, E, C, T, saved.shift, again) if E > T else None
    if large:
        large.scan(arguments, chunks, columns)
    weighted = (like if weight is None else weight.contiguous(), V)
    _launch_light((blocks(N, config.B), columns), (*arguments, *weighted), light, config.warps)
    if large:
        large.finish(arguments, chunks, columns)
    return out, saved


@functools.cache
def _constants(
    names: str,
    dtype: torch.dtype,
    save: bool,
    parts: tuple[bool, bool, bool],
    layout: ChannelLayout,
    C: int,
    F: int,
    T: int,
    config: Config,
) -> tuple[Constants, Constants, bool]:
    """Constants of the kernel for most nodes and of those for hubs; and whether there is a second pass."""
    marked = save and max(slots_of(names)[MAX.value : MIN.value + 1]) >= 0
    constants = {
        "SLOTS": slots_of(names), "A": len(names.split()), "ORDER": order_of(names),
        "STATS": number_of_stats(names) if save else 0, "MARKED": marked,
        "HAS_SOURCE": parts[0], "HAS_EDGE": parts[1], "HAS_TARGET": parts[2],
        "LAYOUT": layout, "C": C, "F": F, "LIMIT": T, "BC": config.BC, "ACC": wide(dtype),
    }  # fmt: skip
    light, chunks = Constants(constants, B=config.B, K=config.K), Constants(constants, K=Hubs.K)
    return light, chunks, order_of(names) > 0 or marked


def channel_means(messages: Tensor) -> Tensor:
    """μ₀, [G·F]: the mean over about SAMPLE rows of [rows, G, F], close enough to the mean of each channel."""
    step = messages.shape[0] // SAMPLE
    rows = messages[::step] if step > 1 else messages
    return torch.mean(rows, 0, dtype=widened(messages.dtype)).view(-1)


def allocate(
    like: Tensor, N: int, E: int, names: str, save: bool, hubs: bool = True, means: bool = False
) -> tuple[Tensor, ...]:
    """Allocate the output [N, G, A, F] and the tensors of Saved for messages like [rows, G, F].

    Only `shift` is computed, and only if `means`.
    """
    G, F = like.shape[1:]
    C = G * F
    extremes = save and max(slots_of(names)[MAX.value : MIN.value + 1]) >= 0
    stats = number_of_stats(names) if save else 0
    dtype = widened(like.dtype)
    T = limit(E) if hubs else NO_HUBS
    return (
        like.new_empty(N, G, names.count(" ") + 1, F),
        channel_means(like) if means and stats > 0 else like.new_empty(C if stats > 0 else 0, dtype=dtype),
        like.new_empty(N, stats, C, dtype=dtype),
        like.new_empty(N if extremes else 0, C, dtype=torch.int32),
        like.new_empty((E + T - 1) // T if extremes and E > T else 0, 2, C, dtype=dtype),
        like.new_empty(E if extremes else 0, (C + 3) // 4, dtype=torch.uint8),
    )


@triton.jit(do_not_specialize=["N", "E", "V"])
def _light(
    source, edge, target, ptr, column, out, shift, stats, ties, hub_ties, marks,
    stride_s, stride_sg, stride_e, stride_eg, stride_t, stride_tg, stride_o, stride_og, N, E, weight, V,
    SLOTS: tl.constexpr, A: tl.constexpr, ORDER: tl.constexpr, STATS: tl.constexpr, MARKED: tl.constexpr,
    HAS_SOURCE: tl.constexpr, HAS_EDGE: tl.constexpr, HAS_TARGET: tl.constexpr, LAYOUT: tl.constexpr,
    C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr,
    B: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Aggregate B nodes that are not hubs, for BC channels."""
    node = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    start = tl.load(ptr + node, mask=node < N, other=0)
    end = tl.load(ptr + node + 1, mask=node < N, other=0)
    mine = (node < N) & (end - start <= LIMIT)
    end = tl.where(mine, end, start)
    d = (end - start).to(ACC)
    many = tl.maximum(d, 1.0)[:, None]
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    mu0 = load_shift(shift, c, C, STATS > 0, ACC)
    w = load_weight(weight, tl.program_id(0) * B, V, c, LAYOUT, C, ACC)
    tile_0, p, sums, squares, top, low, total = scan(
        source, edge, w, column, start, end, c, E, stride_s, stride_sg, stride_e, stride_eg,
        SLOTS[SUM] >= 0, HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC, K)  # fmt: skip
    mean, squares = centre(p, sums, squares, many, mu0)
    p1 = tl.zeros(mean.shape, ACC)
    p2, p3, p4, p5 = p1, p1, p1, p1
    if MARKED or ORDER > 0:
        hits, p1, p2, p3, p4, p5 = rescan(
            source, edge, w, column, marks, tile_0, start, end, mu0, mean, top, low, c, E,
            stride_s, stride_sg, stride_e, stride_eg,
            ORDER, MARKED, HAS_SOURCE, HAS_EDGE, LAYOUT, C, F, ACC, K)  # fmt: skip
        if MARKED:
            mask = mine[:, None] & (c < C)[None, :]
            tl.store(ties + (node * C)[:, None] + c[None, :], hits, mask=mask)
    write(target, out, stats, mu0, node, mine, d, mean, squares, top, low, total, p1, p2, p3, p4, p5, c,
           stride_t, stride_tg, stride_o, stride_og, SLOTS, A, ORDER, STATS, HAS_TARGET, LAYOUT, C, F, ACC)  # fmt: skip


_launch_light = Launch(_light)
