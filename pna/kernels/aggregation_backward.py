"""The gradient of the fused aggregation, in Triton: no atomics, no [E, F] tensor without edge features.

The gradient of a message m_j → i is, with c = m_j - μ_i,

    q0_i + q1_i c + … + [m_j is the maximum] gmax_i / ties_i + [m_j is the minimum] gmin_i / ties_i:

a polynomial, of degree 1 for mean, sum, std and var, below n for moment n. A first kernel makes these coefficients of
every node and channel from the gradients of its aggregates; a second one sums, for every sender j, over its receivers i
through the transposed CSR. Its time is that of reading the coefficients once per message, so they are few: of a linear
polynomial q0 - q1 (μ - μ₀) and q1, μ₀ the mean of each channel, so that little cancels in q1 (m_j - μ₀) - q1 (μ - μ₀);
and instead of the extremes the two bits per message and channel that the forward pass has left.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from pna.kernels.aggregation import Saved
from pna.kernels.choice import on_its_device
from pna.kernels.coefficients import launch_coefficients
from pna.kernels.compile_time import Config, Layout, blocks, grouped, order_of, slots_of, wide, widened
from pna.kernels.hubs import NO_HUBS, chunk_of, chunk_owners, limit, sum_chunks
from pna.kernels.launch import Launch, Told
from pna.kernels.messages import MAX, MIN, load_shift, place, places, tile

__all__ = ["backward"]

K, WARPS = 32, 4  # of a hub's chunk


@on_its_device
def backward(
    g: Tensor,
    source: Tensor | None,
    edge: Tensor | None,
    ptr: Tensor,
    column: Tensor,
    transpose: tuple[Tensor, Tensor, Tensor],
    names: str,
    saved: Saved,
    target: bool,
    config: Config | None = None,
    into: tuple[Tensor, Tensor] | None = None,
    hubs: bool = True,
) -> tuple[Tensor, ...]:
    """The gradient g of the aggregates, [N, G, A, F] -> those of source, edge and target, empty if it is not there.

    transpose: for every sender its messages (ptr), and for each its receiver and its place among the messages.
    into: where to write those of source and target, two parts of one tensor. hubs: as forward's.
    """
    given = source if source is not None else edge
    made = (None, edge) if into is not None else (source, edge)
    grads = [None if t is None else torch.empty_like(t, memory_format=torch.contiguous_format) for t in made]
    if into is not None:
        grads[0], grad_target = into
    else:
        grad_target = torch.empty_like(given[:0]) if not target else g.new_empty(ptr.shape[0] - 1, *given.shape[1:])
    if g.numel() > 0:
        _Backward(g, source, edge, ptr, column, transpose, names, saved, config, hubs).run(*grads, grad_target)
    return *(given.new_empty(0) if grad is None else grad for grad in grads), grad_target


@functools.cache
def _numbers(names: str, has_edge: bool) -> tuple[int, int, bool, int, int]:
    """The highest moment, the terms of the polynomial, if it is centred, what is kept for that, and the planes."""
    order, given = order_of(names), set(names.split())
    constant, linear = not given.isdisjoint({"mean", "sum"}), not given.isdisjoint({"std", "var"})
    terms = max(order, 2 if linear else int(constant))
    centred = terms > 1 and (has_edge or order > 0)
    units = (2 if order > 0 else 1) if centred else 0  # μ and 1/s are kept too
    return order, terms, centred, units, units + terms + ("max" in given) + ("min" in given)


class _Kernels(NamedTuple):
    """What each kernel is told: on all nodes that are not hubs, on a chunk of a hub's messages."""

    coefficients: Told
    messages: tuple[Told, Told]
    senders: tuple[Told, Told]
    planes: int

    @classmethod
    @functools.cache
    def of(
        cls,
        names: str,
        dtype: torch.dtype,
        parts: tuple[bool, bool, bool],
        layout: Layout,
        C: int,
        F: int,
        T: int,
        config: Config,
        stats: int,
        hubs: bool,
    ) -> "_Kernels":
        """parts: whether there is a source, an edge, a target."""
        order, terms, centred, units, planes = _numbers(names, parts[1])
        shared = {
            "SLOTS": slots_of(names), "ORDER": order, "TERMS": terms, "CENTRED": centred, "UNITS": units,
            "PLANES": planes, "LAYOUT": layout, "C": C, "F": F, "LIMIT": T, "ACC": wide(dtype),
        }  # fmt: skip
        BC = config.BC
        coefficients = Told(shared, STATS=stats, HUBS=hubs, HAS_TARGET=parts[2], B=512 // BC, BC=BC)
        sizes = ({"HUBS": False, "B": config.B, "K": config.K}, {"HUBS": True, "B": 1, "K": K})
        messages, senders = (
            tuple(Told(shared, **{name: there}, BC=BC, **size) for size in sizes)
            for name, there in (("HAS_SOURCE", parts[0]), ("HAS_EDGE", parts[1]))
        )
        return cls(coefficients, messages, senders, planes)


class _Backward:
    """The launches of one backward pass, and what they share."""

    def __init__(
        self,
        g: Tensor,
        source: Tensor | None,
        edge: Tensor | None,
        ptr: Tensor,
        column: Tensor,
        transpose: tuple[Tensor, Tensor, Tensor],
        names: str,
        saved: Saved,
        config: Config | None,
        hubs: bool,
    ) -> None:
        self.g, self.ptr, self.column, self.transpose, self.names, self.saved = g, ptr, column, transpose, names, saved
        self.source, self.edge = grouped(source), grouped(edge)
        self.given = self.source if source is not None else self.edge
        self.N, self.E, (self.G, self.F) = ptr.shape[0] - 1, column.shape[0], self.given.shape[1:]
        self.C, self.T = self.G * self.F, limit(self.E) if hubs else NO_HUBS
        self.config = config or Config.of(self.C, backward=True)
        self.blocks = blocks(self.C, self.config.BC)

    def run(self, grad_source: Tensor | None, grad_edge: Tensor | None, grad_target: Tensor) -> None:
        has_target = grad_target.shape[0] > 0
        tensors = [self.given if t is None else t for t in (self.source, self.edge)]
        layout = Layout.of(self.F, self.G, self.config.BC, *tensors, grad_target)
        self.kernels = _Kernels.of(
            self.names, self.given.dtype, (self.source is not None, self.edge is not None, has_target), layout,
            self.C, self.F, self.T, self.config, self.saved.stats.shape[1], self.saved.hub_ties.shape[0] > 0,
        )  # fmt: skip
        shape = (self.N, self.kernels.planes, self.C)
        self.coefficients = self.given.new_empty(shape, dtype=widened(self.given.dtype))
        self._make_coefficients(grad_target)
        if self.E == 0:
            if grad_source is not None:
                grad_source.zero_()
            return
        if grad_edge is not None:
            self._to_messages(grad_edge)
        if grad_source is not None:
            self._to_senders(grad_source, grad_edge)

    def _make_coefficients(self, grad_target: Tensor) -> None:
        """Of every node and channel; a thread makes four numbers of each plane."""
        _, stats, ties, hub_ties, _ = self.saved
        arguments = (
            self.g, *self.g.stride(), self.ptr, stats, ties, hub_ties, self.coefficients,
            grad_target, *grad_target.stride()[:2], self.N,
        )  # fmt: skip
        told = self.kernels.coefficients
        launch_coefficients((blocks(self.N, told["B"]), self.blocks), arguments, told, 4)

    def _to_messages(self, grad_edge: Tensor) -> None:
        """The gradient of every message, [E, G, F]."""
        source, edge = self.source if self.source is not None else self.edge, self.edge
        arguments = (
            source, edge, self.saved.shift, self.ptr, self.column, self.coefficients, self.saved.marks, grad_edge,
            *source.stride()[:2], *edge.stride()[:2], self.N, self.E,
        )  # fmt: skip
        light, chunks = self.kernels.messages
        owner = self.ptr
        if self.E > self.T:
            owner = chunk_owners(self.ptr, self.E, self.T)
            _launch_edge_gradient((owner.shape[0], self.blocks), (*arguments, owner), chunks, WARPS)
        grid = (blocks(self.N, self.config.B), self.blocks)
        _launch_edge_gradient(grid, (*arguments, owner), light, self.config.warps)

    def _to_senders(self, grad_source: Tensor, grad_edge: Tensor | None) -> None:
        """The gradient of every sender, [N, G, F], from those of its messages or from its receivers' coefficients."""
        ptr, receiver, place = self.transpose
        messages = self.coefficients if grad_edge is None else grad_edge
        senders, shift, marks = grad_source.shape[0], self.saved.shift, self.saved.marks
        arguments = (
            self.source, shift, ptr, receiver, place, messages, marks, grad_source,
            *self.source.stride()[:2], *grad_source.stride()[:2], senders,
        )  # fmt: skip
        light, chunks = self.kernels.senders
        grid = (blocks(senders, self.config.B), self.blocks)
        if self.E <= self.T:
            _launch_source_gradient(grid, (*arguments, ptr, self.coefficients), light, self.config.warps)
            return
        owner = chunk_owners(ptr, self.E, self.T)
        P = owner.shape[0]
        arguments = (*arguments, owner, self.coefficients.new_empty(P, 2, self.C))
        _launch_source_gradient((P, self.blocks), arguments, chunks, WARPS)
        _launch_source_gradient(grid, arguments, light, self.config.warps)
        _launch_hub_gradients((P, self.blocks), arguments, chunks, WARPS)


# ---- from coefficients to messages ----


@triton.jit
def _extremes(
    at, marks, e, mask, c,
    SLOTS: tl.constexpr, TERMS: tl.constexpr, UNITS: tl.constexpr, C: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """What the messages at the places e [B, K] get for being an extreme, [B, K, BC]; `at`: their coefficients."""
    out = tl.zeros(mask.shape, ACC)
    at_top: tl.constexpr = UNITS + TERMS
    if SLOTS[MAX] >= 0 or SLOTS[MIN] >= 0:
        width: tl.constexpr = (C + 3) // 4
        byte = tl.load(marks + (e * width)[:, :, None] + (c // 4)[None, None, :], mask=mask, other=0).to(tl.int32)
        own = byte >> (c % 4)[None, None, :]
        if SLOTS[MAX] >= 0:  # few messages are an extreme of any of four channels: the others need not be read
            value = tl.load(at + at_top * C, mask=mask & ((byte & 15) != 0), other=0.0)
            out += tl.where((own & 1) != 0, value, 0.0)
        if SLOTS[MIN] >= 0:
            at_low: tl.constexpr = at_top + (1 if SLOTS[MAX] >= 0 else 0)
            value = tl.load(at + at_low * C, mask=mask & ((byte & 240) != 0), other=0.0)
            out += tl.where((own & 16) != 0, value, 0.0)
    return out


@triton.jit
def _polynomial(
    at, m, mask, ORDER: tl.constexpr, TERMS: tl.constexpr, CENTRED: tl.constexpr, UNITS: tl.constexpr,
    C: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """q0 + q1 u + … by Horner's rule, u = (m - μ) / s, both less μ₀, [B, K, BC]."""
    out = tl.zeros(mask.shape, ACC)
    if CENTRED:
        u = m - tl.load(at, mask=mask, other=0.0)
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
    """The gradients of the messages of B nodes, or of one chunk of a hub -> grad [E, C]."""
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
        m = tile(source, edge, column, places(start, end, begun, E, K), c, stride_s, stride_sg, stride_e, stride_eg,
                 HAS_SOURCE, True, LAYOUT, C, F, ACC)  # fmt: skip
        m -= load_shift(shift, c, C, CENTRED, ACC)[None, None, :]
        here = at + tl.zeros(live.shape, tl.int64)
        value = _polynomial(here, m, live, ORDER, TERMS, CENTRED, UNITS, C, ACC)
        value += _extremes(here, marks, e, live, c, SLOTS, TERMS, UNITS, C, ACC)
        tl.store(grad + (e * C)[:, :, None] + c[None, None, :], value, mask=live)


# ---- from messages to senders ----


@triton.jit
def _gather(
    messages, marks, receiver, order, start, end, m, c,
    SLOTS: tl.constexpr, ORDER: tl.constexpr, TERMS: tl.constexpr, CENTRED: tl.constexpr, UNITS: tl.constexpr,
    PLANES: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, ACC: tl.constexpr, HAS_EDGE: tl.constexpr,
    K: tl.constexpr,
):  # fmt: skip
    """The sum over the messages start : end [B] of each sender, and the sum of their q1, [B, BC] each.

    m [B, BC] is what the sender sends less μ₀; with HAS_EDGE `messages` holds the gradients, else coefficients.
    """
    k = tl.arange(0, K)
    total = tl.zeros([start.shape[0], c.shape[0]], ACC)
    slope = total
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
            value = _polynomial(row, m[:, None, :], live, ORDER, TERMS, CENTRED, UNITS, C, ACC)
            value += _extremes(row, marks, e, live, c, SLOTS, TERMS, UNITS, C, ACC)
            total += tl.sum(value, 1)
            if TERMS == 2 and not CENTRED:
                slope += tl.sum(tl.load(row + C, mask=live, other=0.0), 1)
    return total, slope


@triton.jit
def _sent(
    source, shift, node, c, mask, stride_s, stride_sg,
    SHIFTED: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """What the senders `node` [B] send, less μ₀, [B, BC]."""
    at = (node * stride_s)[:, None] + place(c, stride_sg, F, LAYOUT[1])[None, :]
    return tl.load(source + at, mask=mask, other=0.0).to(ACC) - load_shift(shift, c, C, SHIFTED, ACC)[None, :]


@triton.jit(do_not_specialize=["N"])
def _source_gradient(
    source, shift, ptr, receiver, order, messages, marks, grad, stride_s, stride_sg, stride_o, stride_og, N,
    owner, partial,
    SLOTS: tl.constexpr, ORDER: tl.constexpr, TERMS: tl.constexpr, CENTRED: tl.constexpr, UNITS: tl.constexpr,
    PLANES: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr,
    ACC: tl.constexpr, HAS_EDGE: tl.constexpr, BC: tl.constexpr, HUBS: tl.constexpr, B: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The gradients of B senders -> grad [N, C], or of one chunk of a hub's messages -> partial [P, 2, C]."""
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
    total, slope = _gather(messages, marks, receiver, order, start, end, m, c,
                           SLOTS, ORDER, TERMS, CENTRED, UNITS, PLANES, LAYOUT, C, ACC, HAS_EDGE, K)  # fmt: skip
    if HUBS:
        at = partial + p * (2 * C) + c[None, :]
        tl.store(at, total, mask=mask)
        tl.store(at + C, slope, mask=mask)
    else:
        if TERMS == 2 and not (CENTRED or HAS_EDGE):
            total += slope * m
        to = (node * stride_o)[:, None] + place(c, stride_og, F, LAYOUT[3])[None, :]
        tl.store(grad + to, total, mask=mask)


@triton.jit
def _write_hub_gradients(
    source, shift, ptr, receiver, order, messages, marks, grad, stride_s, stride_sg, stride_o, stride_og, N,
    owner, partial,
    SLOTS: tl.constexpr, ORDER: tl.constexpr, TERMS: tl.constexpr, CENTRED: tl.constexpr, UNITS: tl.constexpr,
    PLANES: tl.constexpr, LAYOUT: tl.constexpr, C: tl.constexpr, F: tl.constexpr, LIMIT: tl.constexpr,
    ACC: tl.constexpr, HAS_EDGE: tl.constexpr, BC: tl.constexpr, HUBS: tl.constexpr, B: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The gradient of a hub from those of its chunks, by the program of its first chunk."""
    p = tl.program_id(0).to(tl.int64)
    hub, first, last, start, _end = chunk_of(ptr, owner, p, LIMIT)
    if (last - first > LIMIT) & (start == first):
        c = tl.program_id(1) * BC + tl.arange(0, BC)
        node = hub + tl.zeros([1], tl.int64)
        mask = (c < C)[None, :]
        total = sum_chunks(partial, 0, first, last, c, C, LIMIT, 2, ACC, K)
        if TERMS == 2 and not (CENTRED or HAS_EDGE):
            m = _sent(source, shift, node, c, mask, stride_s, stride_sg, TERMS > 1, LAYOUT, C, F, ACC)
            slope = sum_chunks(partial, 1, first, last, c, C, LIMIT, 2, ACC, K)
            total += slope * m
        to = (node * stride_o)[:, None] + place(c, stride_og, F, LAYOUT[3])[None, :]
        tl.store(grad + to, total, mask=mask)


_launch_edge_gradient, _launch_source_gradient = Launch(_edge_gradient), Launch(_source_gradient)
_launch_hub_gradients = Launch(_write_hub_gradients)
