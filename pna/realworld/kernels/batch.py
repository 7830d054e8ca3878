"""Batches drawn from a data set by two kernels, for all replicas at once; the plain-torch twin is in batches.py.

The first kernel finds where the graphs of every batch begin, the second the row of every node and every message in the
data set. It writes the graph of each replica, and all of them joined into one, over which the layers aggregate.
"""

from functools import partial
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import KernelFunction, Shared
from pna.neighbourhoods import Joined, Transpose

__all__ = ["Drawn", "Sizes", "draw"]

BLOCK, WIDE_BLOCK = 64, 16  # rows of a program; fewer if they have more than 64 numbers, to fit into its registers


class Sizes(NamedTuple):
    """The sizes of a batch; a node or message whose features are numbers has 0 categories."""

    B: int  # graphs
    V: int  # nodes
    E: int  # messages
    node_width: int  # numbers of a node
    edge_width: int  # numbers of a message, 0 if the network does not use edge features
    node_categories: int
    edge_categories: int


class Drawn(NamedTuple):
    """The tensors of a batch, named as in PaddedBatch."""

    x: Tensor  # [V, node_width]
    edge: Tensor  # [E, edge_width]
    ptr: Tensor  # [V + 1]
    source: Tensor  # [E]
    sender_ptr: Tensor  # [V + 1]
    receiver: Tensor  # [E]
    place: Tensor  # [E]
    graph_ptr: Tensor  # [B + 2]
    nodes: Tensor  # [B]
    real: Tensor  # [V, 1]
    count: Tensor  # []
    norm: Tensor  # [V, 1]
    y: Tensor  # [B]
    valid: Tensor  # [B]


def draw(index: Tensor, data: tuple[Tensor, ...], sizes: Sizes) -> tuple[Drawn, Joined, Joined]:
    """Draw the graphs of the list `index`, [B]; return a replica's batch, and the messages and graphs of all replicas.

    data: node_ptr, message_ptr, source, sender_ptr, receiver, place, x, edge, y, and the offsets at which the
    categories of each feature of a node and of an edge begin.
    """
    tensors = _Draw.call(index, sizes, *data)
    ptr, target, source, *transpose, graph_ptr, graph = tensors[_Draw.results :]
    messages = Joined(ptr, target, source, Transpose(*transpose))
    return Drawn(*tensors[: _Draw.results]), messages, Joined(graph_ptr, graph)


@triton.jit
def batch_graphs(
    index, node_ptr, message_ptr, labels, first, first_message, message_start, graph_ptr, joined_ptr, nodes, count, y,
    valid, B, V, WIDTH: tl.constexpr,
):  # fmt: skip
    """Find where the B graphs of one replica begin, in the data set and in the batch."""
    r = tl.program_id(0).to(tl.int64)
    b = tl.arange(0, WIDTH)
    inside = b < B
    g = tl.load(index + r * B + b, mask=inside, other=-1)
    there = g >= 0
    g = tl.maximum(g, 0)
    begin = tl.load(node_ptr + g)
    end = tl.load(node_ptr + g + 1)
    begin_message = tl.load(message_ptr + begin)
    n = tl.where(there, end - begin, 0)
    m = tl.where(there, tl.load(message_ptr + end) - begin_message, 0)
    node_end = tl.cumsum(n, 0)
    message_end = tl.cumsum(m, 0)
    total = tl.sum(n, 0)
    tl.store(first + r * B + b, begin, mask=inside)
    tl.store(first_message + r * B + b, begin_message, mask=inside)
    tl.store(message_start + r * (B + 1) + 1 + b, message_end, mask=inside)
    tl.store(message_start + r * (B + 1) + b, message_end - m, mask=b == 0)
    tl.store(graph_ptr + r * (B + 2) + b, node_end - n, mask=inside)
    tl.store(graph_ptr + r * (B + 2) + B + b, tl.where(b == 0, total, V), mask=b < 2)
    tl.store(joined_ptr + r * (B + 1) + b, node_end - n + r * V, mask=inside)
    tl.store(joined_ptr + r * (B + 1) + B + b, tl.where(b == 0, total, V) + r * V, mask=b < 2)  # the next one's first
    tl.store(nodes + r * B + b, n, mask=inside)
    tl.store(y + r * B + b, tl.load(labels + g), mask=inside)
    tl.store(valid + r * B + b, there.to(tl.float32), mask=inside)
    tl.store(count + r, total.to(tl.float32))


@triton.jit
def _graph_of(start, p, B, STEPS: tl.constexpr):
    """The last graph that begins at p or before, found by bisection; B for places behind all graphs."""
    b = tl.zeros(p.shape, tl.int32)
    for k in tl.static_range(STEPS):
        at = b + (1 << (STEPS - 1 - k))
        begins = tl.load(start + at, mask=at <= B, other=0)
        b = tl.where((at <= B) & (begins <= p), at, b)
    return b


@triton.jit
def _features(rows, row, real, to, at, offsets, W, K: tl.constexpr, WIDE: tl.constexpr):
    """W numbers of each row, or K categories as zeros and ones; returns places, values and the mask of columns."""
    w = tl.arange(0, WIDE)[None, :]
    if K == 0:
        value = tl.load(rows + row[:, None] * W + w, mask=real[:, None] & (w < W), other=0.0).to(tl.float32)
    else:
        value = tl.zeros([row.shape[0], WIDE], tl.float32)
        for k in tl.static_range(K):
            hot = tl.load(rows + row * K + k).to(tl.int64) + tl.load(offsets + k)
            value = tl.where((hot[:, None] == w) & real[:, None], 1.0, value)
    return to + at[:, None] * W + w, value, w < W


@triton.jit
def batch_places(
    node_ptr, message_ptr, data_source, data_sender_ptr, data_receiver, data_place, data_x, data_edge, node_offsets,
    edge_offsets, first, first_message, message_start, graph_ptr, x, edge, ptr, source, sender_ptr, receiver, place,
    real, norm, all_ptr, all_source, all_sender_ptr, all_receiver, all_place, all_target, all_graph, B, V, E, X, W,
    STEPS: tl.constexpr, NODE_K: tl.constexpr, EDGE_K: tl.constexpr, NODE_WIDE: tl.constexpr, EDGE_WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Write a block of one replica's nodes and their pointers, or a block of its messages."""
    r = tl.program_id(1).to(tl.int64)
    first += r * B
    first_message += r * B
    message_start += r * (B + 1)
    graph_ptr += r * (B + 2)
    total = tl.load(graph_ptr + B)
    total_messages = tl.load(message_start + B)
    D = V - total
    M = E - total_messages
    blocks = tl.cdiv(V + 1, BLOCK)
    if tl.program_id(0) < blocks:
        p = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        b = tl.minimum(_graph_of(graph_ptr, p, B, STEPS), B - 1)
        is_node = p < total
        begin = tl.load(graph_ptr + b)
        row = tl.where(is_node, tl.load(first + b) + p - begin, 0)
        before = tl.load(message_start + b) - tl.load(first_message + b)
        here = before + tl.load(message_ptr + row)
        sent = before + tl.load(data_sender_ptr + row)
        if (tl.program_id(0) + 1) * BLOCK > total:  # divisions of 64 bits take long: only where there is padding
            spare = tl.where(is_node, 0, p - total) * M
            here = tl.where(is_node, here, total_messages + spare // D)
            sent = tl.where(is_node, sent, total_messages + (spare + D - 1) // D)
        inside = p <= V
        tl.store(ptr + r * (V + 1) + p, here, mask=inside)
        tl.store(sender_ptr + r * (V + 1) + p, sent, mask=inside)
        tl.store(all_ptr + r * V + p, here + r * E, mask=inside)  # the last is the next one's first
        tl.store(all_sender_ptr + r * V + p, sent + r * E, mask=inside)
        inside = p < V
        n = tl.load(graph_ptr + b + 1) - begin
        live = tl.where(is_node, 1.0, 0.0)
        tl.store(real + r * V + p, live, mask=inside)
        tl.store(norm + r * V + p, live * (1 / tl.sqrt_rn(tl.maximum(n, 1).to(tl.float32))), mask=inside)
        tl.store(all_graph + r * V + p, r * (B + 1) + tl.where(is_node, b, B), mask=inside)
        to, value, wide = _features(data_x, row, is_node, x + r * V * X, p, node_offsets, X, NODE_K, NODE_WIDE)
        tl.store(to, value, mask=inside[:, None] & wide)
    else:
        q = ((tl.program_id(0) - blocks) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        b = tl.minimum(_graph_of(message_start, q, B, STEPS), B - 1)
        is_message = q < total_messages
        begin = tl.load(message_start + b)
        node = tl.load(graph_ptr + b)
        row = tl.where(is_message, tl.load(first_message + b) + q - begin, 0)
        j = node + tl.load(data_source + row)
        i = node + tl.load(data_receiver + row)
        e = tl.where(is_message, begin + tl.load(data_place + row), q)
        if (tl.program_id(0) - blocks + 1) * BLOCK > total_messages:
            k = tl.where(is_message, 0, q - total_messages)
            room = tl.maximum(M, 1)
            j = tl.where(is_message, j, total + k * D // room)
            i = tl.where(is_message, i, total + ((k + 1) * D - 1) // room)
        inside = q < E
        tl.store(source + r * E + q, j, mask=inside)
        tl.store(receiver + r * E + q, i, mask=inside)
        tl.store(place + r * E + q, e, mask=inside)
        tl.store(all_source + r * E + q, j + r * V, mask=inside)
        tl.store(all_receiver + r * E + q, i + r * V, mask=inside)
        tl.store(all_place + r * E + q, e + r * E, mask=inside)
        tl.store(all_target + r * E + e, i + r * V, mask=inside)
        if W > 0:
            at, numbers, within = _features(  # named unlike above: Triton wants one type for a name in both branches
                data_edge, row, inside, edge + r * E * W, q, edge_offsets, W, EDGE_K, EDGE_WIDE)  # fmt: skip
            tl.store(at, numbers, mask=inside[:, None] & within)


class _Draw(KernelFunction):
    """The draw of a batch as an autograd Function.

    index [R, B], sizes, the data set -> the parts of Drawn, [R, ...] each, then the joined graphs of all replicas.

    It is index arithmetic: no output has a gradient.
    """

    results = len(Drawn._fields)

    @staticmethod
    def forward(index: Tensor, sizes: Sizes, *data: Shared) -> tuple[Tensor, ...]:
        node_ptr, message_ptr, source, sender_ptr, receiver, place, x, edge, y, node_offsets, edge_offsets = data
        R, (B, V, E, X, W, node_k, edge_k) = len(index), sizes
        integers = partial(torch.empty, dtype=torch.int64, device=index.device)
        floats = partial(torch.empty, dtype=torch.float32, device=index.device)
        batch = Drawn(
            floats(R, V, X), floats(R, E, W), integers(R, V + 1), integers(R, E), integers(R, V + 1), integers(R, E),
            integers(R, E), integers(R, B + 2), integers(R, B), floats(R, V, 1), floats(R), floats(R, V, 1),
            y.new_empty(R, B), floats(R, B),
        )  # fmt: skip
        all_ptr, all_target, all_source = integers(R * V + 1), integers(R * E), integers(R * E)
        transpose = integers(R * V + 1), integers(R * E), integers(R * E)
        all_graph_ptr, all_graph = integers(R * (B + 1) + 1), integers(R * V)
        scratch = integers(R, B), integers(R, B), integers(R, B + 1)  # first, first_message, message_start
        batch_graphs[(R,)](
            index, node_ptr, message_ptr, y, *scratch, batch.graph_ptr, all_graph_ptr, batch.nodes, batch.count,
            batch.y, batch.valid, B, V, WIDTH=max(triton.next_power_of_2(B), 2),
        )  # fmt: skip
        block = BLOCK if X <= 64 else WIDE_BLOCK
        grid = (-(-(V + 1) // block) + -(-E // block), R)
        batch_places[grid](
            node_ptr, message_ptr, source, sender_ptr, receiver, place, x, edge, node_offsets, edge_offsets, *scratch,
            batch.graph_ptr, *batch[:7], batch.real, batch.norm, all_ptr, all_source, *transpose, all_target, all_graph,
            B, V, E, X, W, STEPS=B.bit_length(), NODE_K=node_k, EDGE_K=edge_k,
            NODE_WIDE=triton.next_power_of_2(X), EDGE_WIDE=triton.next_power_of_2(max(W, 1)), BLOCK=block,
            num_warps=2 if block == BLOCK else 4,  # a thread for every row
        )  # fmt: skip
        return *batch, all_ptr, all_target, all_source, *transpose, all_graph_ptr, all_graph

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output)
