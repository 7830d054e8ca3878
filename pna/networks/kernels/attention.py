"""The graph attention of equation 12 (appendix) for many replicas: out_i = Σ_j w_ij h_j, with four heads of features h.

A message's logit is LeakyReLU(left + right), where left = a₁·h and right = a₂·h of two nodes, and its weight is the
softmax over a segment of messages: as described, those that node i receives from its neighbours j, with left of i and
right of j. D6 takes other pairs, and the softmax over the messages that node j sends.

A program takes one replica and a block of nodes, and goes through the messages of each node: a tile is [block, heads,
F], and what belongs to a head [block, heads]. Weights are made again where they are needed from four numbers for each
node and head, so that nothing is kept for each message; the way back writes one number for each message and head, the
gradient of left + right, and gathers it twice. No sum depends on an order that changes: there are no atomics.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from pna.kernels.choice import on_its_device
from pna.networks.kernels.replicas import replicated
from pna.networks.kernels.routes import Routes

__all__ = ["attend", "takes"]

BLOCK, WARPS, PROGRAMS = 8, 1, 4224  # a thread for each node and head
SLOPE = tl.constexpr(0.2)  # of LeakyReLU
LOWEST = tl.constexpr(-1e38)
LEFT, RIGHT, TOP, INVERSE = (tl.constexpr(k) for k in range(4))  # planes of what a node keeps for each head


def takes(h: Tensor, attention: Tensor) -> bool:
    """Whether the kernels serve: if the number of heads is a power of two."""
    return h.shape[1] & (h.shape[1] - 1) == 0


@on_its_device
def attend(h: Tensor, attention: Tensor, routes: Routes) -> Tensor:
    """Σ_j w_ij h_j for each node and head: h [V, heads, F], attention [heads, 2F], a₁ and a₂ -> [V, heads, F]."""
    F = h.shape[-1]
    attention = attention.unflatten(1, (2, F))
    padding = triton.next_power_of_2(F) - F
    if padding:
        h, attention = (functional.pad(t, (0, padding)) for t in (h, attention))
    out, _ = _Attention.apply(h.unsqueeze(0), attention.unsqueeze(0), routes)
    return out.squeeze(0)[..., :F]


@triton.jit
def tile_of(base, nodes, live, HEADS: tl.constexpr, F: tl.constexpr):
    """The features of one node for each row, [block, heads, F]; zeros where a row is not live."""
    head, f = tl.arange(0, HEADS)[None, :, None], tl.arange(0, F)[None, None, :]
    return tl.load(base + nodes[:, None, None] * (HEADS * F) + head * F + f, mask=live[:, None, None], other=0.0)


@triton.jit
def put_tile(base, nodes, live, value, HEADS: tl.constexpr, F: tl.constexpr):
    """Writes [block, heads, F]."""
    head, f = tl.arange(0, HEADS)[None, :, None], tl.arange(0, F)[None, None, :]
    tl.store(base + nodes[:, None, None] * (HEADS * F) + head * F + f, value, mask=live[:, None, None])


@triton.jit
def heads_of(base, rows, live, HEADS: tl.constexpr):
    """One number for each row and head, [block, heads]; zeros where a row is not live."""
    return tl.load(base + rows[:, None] * HEADS + tl.arange(0, HEADS)[None, :], mask=live[:, None], other=0.0)


@triton.jit
def put_heads(base, rows, live, value, HEADS: tl.constexpr):
    """Writes [block, heads]."""
    tl.store(base + rows[:, None] * HEADS + tl.arange(0, HEADS)[None, :], value, mask=live[:, None])


@triton.jit
def vectors(attention, HEADS: tl.constexpr, F: tl.constexpr):
    """a₁ and a₂, [1, heads, F] each."""
    place = attention + tl.arange(0, HEADS)[None, :, None] * (2 * F) + tl.arange(0, F)[None, None, :]
    return tl.load(place), tl.load(place + F)


@triton.jit
def segment_of(ptr, rows, inside):
    """Where the messages of each row begin, and how many they are."""
    start = tl.load(ptr + rows, mask=inside, other=0)
    return start, tl.load(ptr + rows + 1, mask=inside, other=0) - start


@triton.jit
def leaky(s):
    """LeakyReLU."""
    return tl.where(s > 0, s, SLOPE * s)


@triton.jit
def weigh(stats, V, first, second, place, live, top, inverse, HEADS: tl.constexpr):
    """The weight of one message for each row, 0 where there is none, and LeakyReLU's slope there: [block, heads]."""
    s = heads_of(stats + LEFT * V * HEADS, tl.load(first + place, mask=live, other=0), live, HEADS)
    s += heads_of(stats + RIGHT * V * HEADS, tl.load(second + place, mask=live, other=0), live, HEADS)
    weight = tl.exp(tl.where(live[:, None], leaky(s) - top, float("-inf"))) * inverse
    return weight, tl.where(s > 0, 1.0, SLOPE)


@triton.jit
def attention_statistics(
    h, attention, stats, ptr, first, second, V, HEADS: tl.constexpr, F: tl.constexpr, BLOCK: tl.constexpr
):
    """What a node keeps for each head: left, right, and its segment's largest logit and 1 / Σ exp(logit - largest)."""
    r = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = rows < V
    h += r * V * (HEADS * F)
    stats += r * 4 * V * HEADS
    a_left, a_right = vectors(attention + r * 2 * HEADS * F, HEADS, F)
    start, degree = segment_of(ptr, rows, inside)
    top = tl.full([BLOCK, HEADS], LOWEST, tl.float32)
    total = tl.zeros([BLOCK, HEADS], tl.float32)
    for k in range(0, tl.max(degree, 0)):
        live = k < degree
        left = tile_of(h, tl.load(first + start + k, mask=live, other=0), live, HEADS, F)
        right = tile_of(h, tl.load(second + start + k, mask=live, other=0), live, HEADS, F)
        logit = leaky(tl.sum(left * a_left, 2) + tl.sum(right * a_right, 2))
        logit = tl.where(live[:, None], logit, float("-inf"))
        higher = tl.maximum(top, logit)
        total = total * tl.exp(top - higher) + tl.exp(logit - higher)
        top = higher
    own = tile_of(h, rows, inside, HEADS, F)
    put_heads(stats + LEFT * V * HEADS, rows, inside, tl.sum(own * a_left, 2), HEADS)
    put_heads(stats + RIGHT * V * HEADS, rows, inside, tl.sum(own * a_right, 2), HEADS)
    put_heads(stats + TOP * V * HEADS, rows, inside, top, HEADS)
    put_heads(stats + INVERSE * V * HEADS, rows, inside, 1 / tl.maximum(total, 1.0), HEADS)  # it is 1 or more


@triton.jit
def attention_forward(
    h, stats, out, ptr, source, first, second, V,
    OWN: tl.constexpr, HEADS: tl.constexpr, F: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out_i = Σ_j w_ij h_j; OWN: the segment of a message is that of its receiver i, else of its sender j."""
    r = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = rows < V
    h += r * V * (HEADS * F)
    stats += r * 4 * V * HEADS
    start, degree = segment_of(ptr, rows, inside)
    top = heads_of(stats + TOP * V * HEADS, rows, inside, HEADS)
    inverse = heads_of(stats + INVERSE * V * HEADS, rows, inside, HEADS)
    sums = tl.zeros([BLOCK, HEADS, F], tl.float32)
    for k in range(0, tl.max(degree, 0)):
        live = k < degree
        j = tl.load(source + start + k, mask=live, other=0)
        if not OWN:
            top = heads_of(stats + TOP * V * HEADS, j, live, HEADS)
            inverse = heads_of(stats + INVERSE * V * HEADS, j, live, HEADS)
        weight, _ = weigh(stats, V, first, second, start + k, live, top, inverse, HEADS)
        sums += weight[:, :, None] * tile_of(h, j, live, HEADS, F)
    put_tile(out + r * V * (HEADS * F), rows, inside, sums, HEADS, F)


@triton.jit
def attention_messages(
    h, stats, out, grad, grad_h, grad_sum, ptr, source, first, second, V, E,
    OWN: tl.constexpr, HEADS: tl.constexpr, F: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Node j, which sends: its part Σ_i w_ij g_i of h's gradient, and the gradients of left + right of its messages.

    A logit's gradient is w_ij (g_i·h_j - T), T = Σ w g·h over its segment: T = g_i·out_i where that is i's, and
    T = h_j·(Σ_i w_ij g_i), known after a first pass, where it is j's (OWN).
    """
    r = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = rows < V
    plane = r * V * (HEADS * F)
    stats += r * 4 * V * HEADS
    grad += plane
    grad_sum += r * E * HEADS
    start, degree = segment_of(ptr, rows, inside)
    longest = tl.max(degree, 0)
    top = heads_of(stats + TOP * V * HEADS, rows, inside, HEADS)
    inverse = heads_of(stats + INVERSE * V * HEADS, rows, inside, HEADS)
    own = tile_of(h + plane, rows, inside, HEADS, F)
    sums = tl.zeros([BLOCK, HEADS, F], tl.float32)
    for k in range(0, longest):
        live = k < degree
        i = tl.load(source + start + k, mask=live, other=0)
        if not OWN:
            top = heads_of(stats + TOP * V * HEADS, i, live, HEADS)
            inverse = heads_of(stats + INVERSE * V * HEADS, i, live, HEADS)
        weight, slope = weigh(stats, V, first, second, start + k, live, top, inverse, HEADS)
        g = tile_of(grad, i, live, HEADS, F)
        sums += weight[:, :, None] * g
        if not OWN:
            along = tl.sum(g * (own - tile_of(out + plane, i, live, HEADS, F)), 2)
            put_heads(grad_sum, start + k, live, weight * slope * along, HEADS)
    put_tile(grad_h + plane, rows, inside, sums, HEADS, F)
    if OWN:
        for k in range(0, longest):
            live = k < degree
            i = tl.load(source + start + k, mask=live, other=0)
            weight, slope = weigh(stats, V, first, second, start + k, live, top, inverse, HEADS)
            along = tl.sum(own * (tile_of(grad, i, live, HEADS, F) - sums), 2)
            put_heads(grad_sum, start + k, live, weight * slope * along, HEADS)


@triton.jit
def gathered(grad_sum, ptr, place, rows, inside, HEADS: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of each row's entries, [block, heads]."""
    start, degree = segment_of(ptr, rows, inside)
    total = tl.zeros([BLOCK, HEADS], tl.float32)
    for k in range(0, tl.max(degree, 0)):
        live = k < degree
        total += heads_of(grad_sum, tl.load(place + start + k, mask=live, other=0), live, HEADS)
    return total


@triton.jit
def attention_scores(
    h, attention, grad_sum, grad_h, grad_attention, left_ptr, left_place, right_ptr, right_place, V, E,
    HEADS: tl.constexpr, F: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of left = a₁·h and right = a₂·h: added to that of h, and each program's part of that of a."""
    r = tl.program_id(1)
    plane = r * V * (HEADS * F)
    grad_sum += r * E * HEADS
    a_left, a_right = vectors(attention + r * 2 * HEADS * F, HEADS, F)
    of_left = tl.zeros([BLOCK, HEADS, F], tl.float32)
    of_right = tl.zeros([BLOCK, HEADS, F], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        rows = block * BLOCK + tl.arange(0, BLOCK)
        inside = rows < V
        left = gathered(grad_sum, left_ptr, left_place, rows, inside, HEADS, BLOCK)[:, :, None]
        right = gathered(grad_sum, right_ptr, right_place, rows, inside, HEADS, BLOCK)[:, :, None]
        own = tile_of(h + plane, rows, inside, HEADS, F)
        of_left += left * own
        of_right += right * own
        down = tile_of(grad_h + plane, rows, inside, HEADS, F) + left * a_left + right * a_right
        put_tile(grad_h + plane, rows, inside, down, HEADS, F)
    grad_attention += (r * tl.num_programs(0) + tl.program_id(0)) * 2 * HEADS * F
    place = grad_attention + tl.arange(0, HEADS)[:, None] * (2 * F) + tl.arange(0, F)[None, :]
    tl.store(place, tl.sum(of_left, 0))
    tl.store(place + F, tl.sum(of_right, 0))


class _Attention(Function):
    """h [R, V, heads, F], attention [R, heads, 2, F] -> out [R, V, heads, F]; F is a power of two.

    The second output is what the backward pass needs: left, right and the segments' statistics, [R, 4, V, heads].
    """

    @staticmethod
    def forward(h: Tensor, attention: Tensor, routes: Routes) -> tuple[Tensor, Tensor]:
        h, (R, V, HEADS, F) = h.contiguous(), h.shape
        stats, out = h.new_empty(R, 4, V, HEADS), torch.empty_like(h)
        grid, sizes = (-(-V // BLOCK), R), _sizes(HEADS, F)
        segments = routes.received if routes.over_received else routes.sent
        attention_statistics[grid](h, attention.contiguous(), stats, routes.ptr, *segments, V, **sizes)
        attention_forward[grid](
            h, stats, out, routes.ptr, routes.source, *routes.received, V, OWN=routes.over_received, **sizes
        )
        return out, stats

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        h, attention, ctx.routes = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(h, attention, *output)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None]:
        h, attention, out, stats = (t.contiguous() for t in ctx.saved_tensors)
        routes, (R, V, HEADS, F), E = ctx.routes, h.shape, len(ctx.routes.source)
        blocks, sizes = -(-V // BLOCK), _sizes(HEADS, F)
        programs = min(blocks, max(1, PROGRAMS // R))
        grad_h, grad_sum = torch.empty_like(h), h.new_empty(R, E, HEADS)
        grad_attention = h.new_empty(R, programs, HEADS, 2, F)
        attention_messages[(blocks, R)](
            h, stats, out, grad.contiguous(), grad_h, grad_sum, routes.ptr, routes.source, *routes.sent, V, E,
            OWN=not routes.over_received, **sizes,
        )  # fmt: skip
        attention_scores[(programs, R)](
            h, attention, grad_sum, grad_h, grad_attention, *routes.of_left, *routes.of_right, V, E, **sizes
        )
        return grad_h, grad_attention.sum(1), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, h: Tensor, attention: Tensor, routes: Routes) -> tuple[tuple, tuple]:
        R = info.batch_size
        h, attention = (replicated(t, dim, R) for t, dim in zip((h, attention), in_dims[:2], strict=True))
        out, stats = _Attention.apply(h, attention, routes)
        return (out.unflatten(0, (R, -1)), stats), (0, None)


def _sizes(HEADS: int, F: int) -> dict[str, int]:
    return {"HEADS": HEADS, "F": F, "BLOCK": BLOCK, "num_warps": WARPS, "num_stages": 1}
