"""GatedGCN's layers, all replicas at once: what the nodes receive, and the messages moved on.

m_ij = C e_ij + D x_j + E x_i; node i receives A x_i + q_i, with q_i = Σ_j σ(m_ij) B x_j / (Σ_j σ(m_ij) + ε); and e_ij
becomes e_ij + ReLU(m_ij normalised over all messages). The maps of nodes come as one product, [A x, B x, D x, E x].

`layer` does all of it in training. There are eight times as many messages as nodes, so what counts is how often they
are read and written. Its first kernel multiplies, adds what comes from the nodes, and has the mean and variance of what
it writes; in its last one, a program is a node, and goes through the messages that it receives. The first layer starts
from a few numbers s_ij of each edge, e_ij = W s_ij: there C W is multiplied by s_ij, and e_ij is never in memory.

`gated` is used in evaluation, and in training where `trains` says no. It takes C e_ij, and leaves the normalisation of
m_ij to its caller.

The kernels of the backward passes are in gated_gradients.py, the plain-torch twin in comparators.py. A matrix product
wants 16, 32 or 64 features, and there are 70: rows come in two parts, a head and a tail of 16. The numbers of an edge,
from which the first layer starts, are a tail alone.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import Copied, KernelFunction, Strided, saved
from pna.kernels.moments import block_moments, merge, merge_parts
from pna.kernels.tiles import load_features, load_rows, multiply, store_rows
from pna.neighbourhoods import Neighbourhoods
from pna.realworld.kernels.gated_gradients import (
    gated_map_back,
    gated_messages_back,
    gated_nodes_back,
    gated_received,
    gated_sent,
)
from pna.realworld.kernels.graphs import Messages
from pna.realworld.kernels.norm import sums
from pna.realworld.kernels.norm_tile import EPS, move_on

__all__ = ["gated", "layer", "supports", "trains"]

LEAST = tl.constexpr(1e-6)  # ε, beside the gates
TAIL = 16
WIDEST = 64 + TAIL
BLOCK = 64  # messages at a time
HALF = 32  # messages of C's gradient at a time: with twice as many, registers run out
PARTS = 128  # of a replica's messages, at most: their sums are put together at the end
MERGED = 16  # features of a program that puts the parts' statistics together


def supports(x: Tensor, edge: Tensor, graph: Neighbourhoods) -> bool:
    """Whether the graphs of all replicas are joined."""
    return graph.joined is not None


def trains(x: Tensor, edge: Tensor, first: bool) -> bool:
    """Whether rows are short enough for `layer`; edge is e or, in the first layer, s, which may get one more column."""
    return x.shape[-1] <= WIDEST and (not first or edge.shape[-1] < TAIL)


def gated(nodes: Tensor, edge: Tensor, graph: Neighbourhoods) -> tuple[Tensor, Tensor]:
    """Sum the gated messages: nodes [V, 4 F] and C e_ij, [E, F] -> A x_i + q_i, [V, F], and m_ij, [E, F]."""
    return _Gated.call(nodes, edge, Messages.of(graph))[:2]


def layer(
    nodes: Tensor, edge: Tensor, maps: tuple[Tensor, Tensor | None], rows: tuple[Tensor, Tensor],
    norm: tuple[Tensor, ...], graph: Neighbourhoods, last: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Train a layer: return A x_i + q_i, [V, F], and e_ij moved on, [E, F], or none of them after the last layer.

    nodes: A x, B x, D x and E x, [V, 4 F]. edge: e_ij, [E, F], or in the first layer s_ij, [E, D], which has no
    gradient. maps: C, [F, F], and None, or in the first layer C W and W, [F, D]. rows: 1/√m of the messages, [E, 1],
    and the number of real ones. norm: weight, bias, running mean and variance, [F] each, the last two being updated.
    """
    return _GatedLayer.call(last, nodes, edge, *maps, *norm[:2], *rows, *norm[2:], Messages.of(graph))[:2]


# ---- the messages alone ----


@triton.jit
def gated_forward(nodes, edge, ptr, source, y, moved, totals, quotients, F: tl.constexpr, WIDTH: tl.constexpr):
    """Sum the gated messages of one node."""
    i = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH)
    inside = c < F
    node = nodes + i * 4 * F + c
    shift = tl.load(node + 3 * F, mask=inside, other=0.0)
    total = tl.zeros([WIDTH], tl.float32)
    received = tl.zeros([WIDTH], tl.float32)
    for e in range(tl.load(ptr + i), tl.load(ptr + i + 1)):
        sender = nodes + tl.load(source + e) * 4 * F + c
        m = tl.load(edge + e * F + c, mask=inside, other=0.0) + tl.load(sender + 2 * F, mask=inside, other=0.0) + shift
        tl.store(moved + e * F + c, m, mask=inside)
        gate = tl.sigmoid(m)
        total += gate
        received += gate * tl.load(sender + F, mask=inside, other=0.0)
    total += LEAST
    quotient = received / total
    tl.store(totals + i * F + c, total, mask=inside)
    tl.store(quotients + i * F + c, quotient, mask=inside)
    tl.store(y + i * F + c, tl.load(node, mask=inside, other=0.0) + quotient, mask=inside)


class _Gated(KernelFunction):
    """What the nodes of GatedGCN receive, as an autograd Function.

    nodes [R, V, 4 F], edge [R, E, F], the messages of all replicas -> y [R, V, F], m [R, E, F], Σ σ(m_ij) + ε and
    the quotients [R, V, F].
    """

    @staticmethod
    def forward(nodes: Tensor, edge: Tensor, messages: Messages) -> tuple[Tensor, ...]:
        (R, V, _), F = nodes.shape, edge.shape[2]
        y, totals, quotients = nodes.new_empty(3, R, V, F)
        moved = torch.empty_like(edge)
        tensors = (nodes, edge, messages.ptr, messages.source, y, moved, totals, quotients)
        gated_forward[(R * V,)](*tensors, **_row_sizes(F))
        return y, moved, totals, quotients

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        nodes, _, messages = inputs
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(nodes, *output[1:], *messages)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor | None, of_moved: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        nodes, moved, totals, quotients, ptr, _, *transpose, _ = saved(ctx)
        grad, last = torch.zeros_like(totals) if grad is None else grad, of_moved is None  # its edges go nowhere
        R, V, F = grad.shape
        grad_nodes, grad_edge = torch.empty_like(nodes), torch.empty_like(moved)
        tensors = (nodes, *transpose, moved, totals, quotients, grad, moved if last else of_moved)
        gated_sent[(R * V,)](*tensors, grad_nodes, grad_edge, MOVED=not last, **_row_sizes(F))
        gated_received[(R * V,)](ptr, grad_edge, grad_nodes, **_row_sizes(F))
        return grad_nodes, grad_edge, None


def _row_sizes(F: int) -> dict[str, int]:
    """The constants of the kernels that go through a node's messages one by one."""
    return {"F": F, "WIDTH": triton.next_power_of_2(F), "num_warps": 2}


# ---- a layer in training ----


@triton.jit
def _add_rows(values, real, n, m, mu, squares):
    """Mean and squared distance to it of n rows, merged with those of m more."""
    centre, within = block_moments(values, real[:, None], m, 0)
    mu, between = merge(n, mu, m, centre)
    return mu, squares + within + between


@triton.jit
def gated_move(
    nodes, edge, weight, factor, count, source, target, moved, rows, means, spreads, E,
    FIRST: tl.constexpr, D: tl.constexpr, F: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """m of a part of the messages; their number, mean and squared distance to it, merged block by block."""
    r = tl.program_id(1).to(tl.int64)
    me = r * tl.num_programs(0) + tl.program_id(0)
    live = tl.load(count + r).to(tl.int32)
    h = tl.arange(0, HEAD)
    t = HEAD + tl.arange(0, TAIL)
    weight += r * F * D
    tail: tl.constexpr = 0 if FIRST else HEAD  # where it begins
    th = tl.trans(load_rows(weight, h, h < F, D, D, TAIL, tail))  # [in, out]
    tt = tl.trans(load_rows(weight, t, t < F, D, D, TAIL, tail))
    if not FIRST:
        hh = tl.trans(load_rows(weight, h, h < F, D, D, HEAD))
        ht = tl.trans(load_rows(weight, t, t < F, D, D, HEAD))
    n = 0.0
    mu_h = tl.zeros([HEAD], tl.float32)
    mu_t = tl.zeros([TAIL], tl.float32)
    squares_h = tl.zeros([HEAD], tl.float32)
    squares_t = tl.zeros([TAIL], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(live, BLOCK), tl.num_programs(0)):
        row = block * BLOCK + tl.arange(0, BLOCK)
        real = row < live
        j = tl.load(source + r * E + row, mask=real, other=0)
        i = tl.load(target + r * E + row, mask=real, other=0)
        e_t = load_rows(edge + r * E * D, row, real, D, D, TAIL, tail)
        m_h = multiply(e_t, th)
        m_t = multiply(e_t, tt)
        if not FIRST:
            e_h = load_rows(edge + r * E * D, row, real, D, D, HEAD)
            m_h = multiply(e_h, hh, m_h)
            m_t = multiply(e_h, ht, m_t)
        m_h += load_rows(nodes + 2 * F, j, real, 4 * F, F, HEAD) + load_rows(nodes + 3 * F, i, real, 4 * F, F, HEAD)
        m_t += (load_rows(nodes + 2 * F, j, real, 4 * F, F, TAIL, HEAD)
                + load_rows(nodes + 3 * F, i, real, 4 * F, F, TAIL, HEAD))  # fmt: skip
        store_rows(moved + r * E * F, m_h, row, real, F, HEAD)
        store_rows(moved + r * E * F, m_t, row, real, F, TAIL, HEAD)
        scale = tl.load(factor + r * E + row, mask=real, other=0.0)[:, None]
        m = tl.minimum(live - block * BLOCK, BLOCK).to(tl.float32)
        mu_h, squares_h = _add_rows(m_h * scale, real, n, m, mu_h, squares_h)
        mu_t, squares_t = _add_rows(m_t * scale, real, n, m, mu_t, squares_t)
        n += m
    tl.store(rows + me, n)
    tl.store(means + me * F + h, mu_h, mask=h < F)
    tl.store(means + me * F + t, mu_t, mask=t < F)
    tl.store(spreads + me * F + h, squares_h, mask=h < F)
    tl.store(spreads + me * F + t, squares_t, mask=t < F)


@triton.jit
def gated_statistics(
    count, rows, means, spreads, running_mean, running_var, mean, var, F, P, stride_m, stride_v,
    WIDTH: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Mean and variance of some features over all parts of the messages."""
    r = tl.program_id(1).to(tl.int64)
    n = tl.maximum(tl.load(count + r), 1.0)
    c = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    p = tl.arange(0, PARTS)[:, None]
    each = tl.load(rows + r * P + p, mask=p < P, other=0.0)
    inside = (p < P) & (c < F)[None, :]
    centres = tl.load(means + (r * P + p) * F + c[None, :], mask=inside, other=0.0)
    distances = tl.load(spreads + (r * P + p) * F + c[None, :], mask=inside, other=0.0)
    mu, squares = merge_parts(each, centres, distances, n)
    tl.store(mean + r * F + c, mu, mask=c < F)
    tl.store(var + r * F + c, squares / n, mask=c < F)
    move_on(running_mean + r * stride_m + c, mu, c < F)
    move_on(running_var + r * stride_v + c, squares / tl.maximum(n - 1, 1.0), c < F)


@triton.jit
def gated_receive(
    nodes, edge, start, scale, shift, factor, count, ptr, source, moved, mean, var, y, beyond, totals, quotients, V, E,
    FIRST: tl.constexpr, LAST: tl.constexpr, D: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Sum the gated messages of one node, and move them on; those of the padding stay, and add nothing."""
    r = tl.program_id(1).to(tl.int64)
    i = r * V + tl.program_id(0)
    live = r * E + tl.load(count + r).to(tl.int64)
    c = tl.arange(0, WIDTH)
    inside = c < F
    mu = load_features(mean + r * F, F, WIDTH)
    slope = tl.rsqrt(load_features(var + r * F, F, WIDTH) + EPS) * load_features(scale + r * F, F, WIDTH)
    after = load_features(shift + r * F, F, WIDTH)
    total = tl.zeros([WIDTH], tl.float32)
    received = tl.zeros([WIDTH], tl.float32)
    end = tl.load(ptr + i + 1)
    for first in range(tl.load(ptr + i), end, CHUNK):
        e = first + tl.arange(0, CHUNK)
        real = e < tl.minimum(end, live)
        m = load_rows(moved, e, real, F, F, WIDTH)
        gate = tl.where(real[:, None], tl.sigmoid(m), 0.0)
        j = tl.load(source + e, mask=real, other=0)
        total += tl.sum(gate, 0)
        received += tl.sum(gate * load_rows(nodes + F, j, real, 4 * F, F, WIDTH), 0)
        if not LAST:
            value = slope * (m * tl.load(factor + e, mask=real, other=0.0)[:, None] - mu) + after
            value = tl.where((value < 0) | (e >= live)[:, None], 0.0, value)  # NaN must propagate, so not max(value, 0)
            if FIRST:
                for d in tl.static_range(D):
                    s = tl.load(edge + e * D + d, mask=e < end, other=0.0)[:, None]
                    value += s * tl.load(start + (r * F + c) * D + d, mask=inside, other=0.0)[None, :]
            else:
                value += load_rows(edge, e, e < end, F, F, WIDTH)
            store_rows(beyond, value, e, e < end, F, WIDTH)
    total += LEAST
    quotient = received / total
    tl.store(totals + i * F + c, total, mask=inside)
    tl.store(quotients + i * F + c, quotient, mask=inside)
    tl.store(y + i * F + c, tl.load(nodes + i * 4 * F + c, mask=inside, other=0.0) + quotient, mask=inside)


class _GatedLayer(KernelFunction):
    """A layer of GatedGCN, messages moved on, as an autograd Function.

    last, nodes [R, V, 4 F], e [R, E, F], C [R, F, F] and None, or s [R, E, D], C W and W [R, F, D]; scale and shift
    [R, F], factor [R, E, 1], count [R], running mean and variance [R, F], the messages of all replicas -> y [R, V, F],
    e moved on [R, E, F], m [R, E, F], Σ σ(m) + ε and the quotients [R, V, F], mean and variance [R, F].
    """

    @staticmethod
    def forward(
        last: bool, nodes: Tensor, edge: Tensor, weight: Copied, start: Copied | None, scale: Copied, shift: Copied,
        factor: Copied, count: Copied, running_mean: Strided, running_var: Strided, messages: Messages,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        (R, V, _), E, F, first = nodes.shape, edge.shape[1], weight.shape[1], start is not None
        ptr, source, target = messages.ptr, messages.source, messages.target
        parts, sizes = _message_sizes(edge, F)
        moved, rows = edge.new_empty(R, E, F), edge.new_empty(R, parts)
        means, spreads = edge.new_empty(2, R, parts, F)
        tensors = (nodes, edge, weight, factor, count, source, target, moved, rows, means, spreads)
        gated_move[(parts, R)](*tensors, E, FIRST=first, num_stages=2, **sizes)
        mean, var = edge.new_empty(2, R, F).unbind()
        gated_statistics[(-(-F // MERGED), R)](
            count, rows, means, spreads, running_mean, running_var, mean, var, F, parts,
            running_mean.stride(0), running_var.stride(0), WIDTH=MERGED, PARTS=PARTS,
        )  # fmt: skip
        y, totals, quotients = nodes.new_empty(3, R, V, F).unbind()
        beyond = edge.new_empty(R, 0, F) if last else torch.empty_like(moved)
        gated_receive[(V, R)](
            nodes, edge, start if first else edge, scale, shift, factor, count, ptr, source, moved, mean, var,
            y, beyond, totals, quotients, V, E, FIRST=first, LAST=last, D=edge.shape[2], **_chunk_sizes(F),
        )  # fmt: skip
        return y, beyond, moved, totals, quotients, mean, var

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        _, *tensors, _, _, messages = inputs
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *output[2:], *messages)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor | None, ahead: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        """From the gradients of y, [R, V, F], and of e moved on, [R, E, F], or None where nobody asks for it."""
        nodes, edge, weight, start, scale, shift, factor, count, *rest = saved(ctx)
        (moved, totals, quotients, mean, var), messages = rest[:5], Messages(*rest[5:])
        grad = torch.zeros_like(totals) if grad is None else grad
        (R, V, _), (_, E, F), first = nodes.shape, moved.shape, start is not None
        pull, total, product = grad / totals, mean, mean
        if ahead is not None:
            total, product = sums(moved, factor, count, ahead, scale, shift, mean, var)
        parts, sizes = _message_sizes(edge, F)
        of_moved, of_edge = torch.empty_like(moved), moved.new_empty(R, 0 if first else E, F)
        gated_messages_back[(parts, R)](
            nodes, weight, scale, shift, factor, count, messages.source, messages.target, moved, mean, var, total,
            product, pull, quotients, moved if ahead is None else ahead, of_moved, of_edge, E,
            FIRST=first, NEXT=ahead is not None, num_stages=1, **sizes,  # with more stages shared memory runs out
        )  # fmt: skip
        of_nodes, graph = torch.empty_like(nodes), (messages.ptr, *messages[2:5])
        tensors = (count, *graph, moved, of_moved, pull, grad, of_nodes)
        gated_nodes_back[(V, R)](*tensors, V, E, **_chunk_sizes(F))
        of_weight = _map_gradient(edge, count, of_moved, first)
        of_start = _map_gradient(edge, count, ahead, first) if first and ahead is not None else None
        of_norm = (None, None) if ahead is None else (product * torch.rsqrt(var + 1e-5), total)
        return None, of_nodes, None if first else of_edge, of_weight, of_start, *of_norm, *(None,) * 5


def _map_gradient(edge: Tensor, count: Tensor, grad: Tensor, first: bool) -> Tensor:
    """Σ g_ij e_ijᵀ over the real messages: edge [R, E, D] and grad [R, E, F] -> [R, F, D]."""
    (R, E, D), F = edge.shape, grad.shape[2]
    parts, sizes = _message_sizes(edge, F)
    products = edge.new_empty(R, parts, F, D)
    gated_map_back[(parts, R)](edge, count, grad, products, E, FIRST=first, num_stages=3, **sizes | {"BLOCK": HALF})
    return products.sum(1)


def _message_sizes(edge: Tensor, F: int) -> tuple[int, dict[str, int]]:
    """The number of parts of edge [R, E, D], and the constants of the kernels that multiply messages."""
    E, D = edge.shape[1:]
    sizes = {"D": D, "F": F, "HEAD": 16 if F <= 2 * TAIL else 64, "TAIL": TAIL, "BLOCK": BLOCK, "num_warps": 4}
    return max(1, min(-(-E // BLOCK), PARTS)), sizes


def _chunk_sizes(F: int) -> dict[str, int]:
    """The constants of the kernels that go through CHUNK messages of a node at a time."""
    return _row_sizes(F) | {"CHUNK": 8}
