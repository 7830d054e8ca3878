"""GatedGCN's messages in one kernel, and two back: e_ij moves on, and gates what is received.

e_ij becomes C e_ij + D x_j + E x_i; node i gets A x_i + q_i, with q_i = Σ_j σ(e_ij) B x_j / (Σ_j σ(e_ij) + ε). The maps
of nodes come as one product, [A x, B x, D x, E x]. A program is a node: it goes through the messages that it receives,
on the way back also through those that it has sent. The plain-torch twin is in quoted.py.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.kernels.selection import first_derivative, on_its_device
from pna.neighbourhoods import Neighbourhoods
from pna.networks.kernels.replicas import graph_of_replicas, rows_of_replicas

__all__ = ["gated", "supports"]

EPS = tl.constexpr(1e-6)


def supports(x: Tensor, edge: Tensor, graph: Neighbourhoods) -> bool:
    """Whether the kernels serve: where the graphs of all replicas are joined."""
    return graph.joined is not None


@on_its_device
def gated(nodes: Tensor, edge: Tensor, graph: Neighbourhoods) -> tuple[Tensor, Tensor]:
    """nodes [V, 4 F], edge, C e_ij, [E, F] -> what the nodes receive, A x_i added, [V, F]; e_ij moved on, [E, F]."""
    ptr, _, source, transpose = graph.joined
    made = _Gated.apply(nodes.unsqueeze(0), edge.unsqueeze(0), ptr, source, *transpose)
    return made[0].squeeze(0), made[1].squeeze(0)


@triton.jit
def gated_forward(nodes, edge, ptr, source, y, moved, totals, quotients, F: tl.constexpr, WIDTH: tl.constexpr):
    """What a node receives."""
    i = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH)
    inside = c < F
    own = nodes + i * 4 * F + c
    shift = tl.load(own + 3 * F, mask=inside, other=0.0)
    total = tl.zeros([WIDTH], tl.float32)
    received = tl.zeros([WIDTH], tl.float32)
    for e in range(tl.load(ptr + i), tl.load(ptr + i + 1)):
        sender = nodes + tl.load(source + e) * 4 * F + c
        m = tl.load(edge + e * F + c, mask=inside, other=0.0) + tl.load(sender + 2 * F, mask=inside, other=0.0) + shift
        tl.store(moved + e * F + c, m, mask=inside)
        gate = tl.sigmoid(m)
        total += gate
        received += gate * tl.load(sender + F, mask=inside, other=0.0)
    total += EPS
    quotient = received / total
    tl.store(totals + i * F + c, total, mask=inside)
    tl.store(quotients + i * F + c, quotient, mask=inside)
    tl.store(y + i * F + c, tl.load(own, mask=inside, other=0.0) + quotient, mask=inside)


@triton.jit
def gated_sent(nodes, sender_ptr, receiver, place, moved, totals, quotients, grad, grad_moved, grad_nodes, grad_edge,
               MOVED: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    """The gradients of the messages that a node has sent, and of its A x, B x and D x.

    With g_i, that of q_i over its denominator, a message's is g_i (B x_j - q_i) σ (1 - σ), and that of e_ij moved on.
    """
    j = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH)
    inside = c < F
    b = tl.load(nodes + j * 4 * F + F + c, mask=inside, other=0.0)
    of_b = tl.zeros([WIDTH], tl.float32)
    of_d = tl.zeros([WIDTH], tl.float32)
    for k in range(tl.load(sender_ptr + j), tl.load(sender_ptr + j + 1)):
        at = tl.load(receiver + k) * F + c
        e = tl.load(place + k) * F + c
        gate = tl.sigmoid(tl.load(moved + e, mask=inside, other=0.0))
        g = tl.load(grad + at, mask=inside, other=0.0) / tl.load(totals + at, mask=inside, other=1.0)
        of_m = g * (b - tl.load(quotients + at, mask=inside, other=0.0)) * gate * (1 - gate)
        if MOVED:
            of_m += tl.load(grad_moved + e, mask=inside, other=0.0)
        tl.store(grad_edge + e, of_m, mask=inside)
        of_b += gate * g
        of_d += of_m
    out = grad_nodes + j * 4 * F + c
    tl.store(out, tl.load(grad + j * F + c, mask=inside, other=0.0), mask=inside)
    tl.store(out + F, of_b, mask=inside)
    tl.store(out + 2 * F, of_d, mask=inside)


@triton.jit
def gated_received(ptr, grad_edge, grad_nodes, F: tl.constexpr, WIDTH: tl.constexpr):
    """The gradient of E x of a node."""
    i = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH)
    total = tl.zeros([WIDTH], tl.float32)
    for e in range(tl.load(ptr + i), tl.load(ptr + i + 1)):
        total += tl.load(grad_edge + e * F + c, mask=c < F, other=0.0)
    tl.store(grad_nodes + i * 4 * F + 3 * F + c, total, mask=c < F)


class _Gated(Function):
    """nodes [R, V, 4 F], edge [R, E, F], and the joined graph -> y, moved, Σ σ(e_ij) and the quotient, [R, V, F]."""

    @staticmethod
    def forward(nodes: Tensor, edge: Tensor, ptr: Tensor, source: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        nodes, edge, (R, V, _), F = nodes.contiguous(), edge.contiguous(), nodes.shape, edge.shape[2]
        y, totals, quotients = nodes.new_empty(3, R, V, F)
        moved = torch.empty_like(edge)
        gated_forward[(R * V,)](nodes, edge, ptr, source, y, moved, totals, quotients, **_sizes(F))
        return y, moved, totals, quotients

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        nodes, _, ptr, _, *transpose = inputs
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(nodes, ptr, *transpose, *output[1:])

    @staticmethod
    @first_derivative
    def backward(ctx: FunctionCtx, grad: Tensor | None, of_moved: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        nodes, ptr, *graph, moved, totals, quotients = (t.contiguous() for t in ctx.saved_tensors)
        grad = torch.zeros_like(totals) if grad is None else grad.contiguous()
        last = of_moved is None  # its edges go nowhere
        R, V, F = grad.shape
        grads = grad_nodes, grad_edge = torch.empty_like(nodes), torch.empty_like(moved)
        given = (nodes, *graph, moved, totals, quotients, grad, moved if last else of_moved.contiguous())
        gated_sent[(R * V,)](*given, *grads, MOVED=not last, **_sizes(F))
        gated_received[(R * V,)](ptr, grad_edge, grad_nodes, **_sizes(F))
        return *grads, *(None,) * 5

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Tensor) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        R = info.batch_size
        lifted = [rows_of_replicas(t, dim, R) for t, dim in zip(inputs[:2], in_dims[:2], strict=True)]
        made = _Gated.apply(*lifted, *graph_of_replicas(inputs[2:], R, lifted[0].shape[1]))
        return tuple(t.unsqueeze(1) for t in made), (0,) * 4


def _sizes(F: int) -> dict[str, int]:
    return {"F": F, "WIDTH": triton.next_power_of_2(F), "num_warps": 2}
