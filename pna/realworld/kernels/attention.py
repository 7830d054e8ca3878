"""GAT's attention over the neighbours in two kernels, and three back: the weights of the messages, and the sum.

What comes is one product for each node: z, in H heads, then a · z of the sender and of the receiver. In each head the
weights of i's messages are the softmax over j of LeakyReLU(a · [z_j, z_i]). A program is a node, with all of its
heads. The plain-torch twin is in quoted.py.
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
from pna.realworld.kernels.weighted import weighted_gradients, weighted_sum

__all__ = ["attention", "supports"]

BLOCK = 16  # messages at a time
SLOPE = tl.constexpr(0.01)


def supports(x: Tensor, graph: Neighbourhoods) -> bool:
    """Whether the kernels serve: where the graphs of all replicas are joined."""
    return graph.joined is not None


@on_its_device
def attention(nodes: Tensor, heads: int, graph: Neighbourhoods) -> Tensor:
    """nodes [V, F + 2 H]: z, what it is as a sender and as a receiver -> [V, F]."""
    ptr, _, source, transpose = graph.joined
    return _Attention.apply(heads, nodes.unsqueeze(0), ptr, source, *transpose)[0].squeeze(0)


@triton.jit
def _some(start, end, H: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr):
    """Messages from `start` on, [BLOCK, 1], heads [1, HEADS], and which of them there are."""
    e = start + tl.arange(0, BLOCK)[:, None]
    h = tl.arange(0, HEADS)[None, :]
    return e, h, (e < end) & (h < H)


@triton.jit
def _logits(nodes, source, i, e, h, inside, F: tl.constexpr, H: tl.constexpr):
    """Of messages that i receives, before LeakyReLU."""
    j = tl.load(source + e, mask=inside, other=0)
    sender = tl.load(nodes + j * (F + 2 * H) + F + h, mask=inside, other=0.0)
    return sender + tl.load(nodes + i * (F + 2 * H) + F + H + h, mask=h < H, other=0.0)


@triton.jit
def attention_weights(nodes, ptr, source, weight, F: tl.constexpr, H: tl.constexpr, HEADS: tl.constexpr,
                      BLOCK: tl.constexpr):  # fmt: skip
    """The softmax over the messages of a node."""
    i = tl.program_id(0).to(tl.int64)
    start = tl.load(ptr + i)
    end = tl.load(ptr + i + 1)
    top = tl.full([HEADS], float("-inf"), tl.float32)
    for first in range(start, end, BLOCK):
        e, h, inside = _some(first, end, H, HEADS, BLOCK)
        m = _logits(nodes, source, i, e, h, inside, F, H)
        top = tl.maximum(top, tl.max(tl.where(inside, m, float("-inf")), 0))
    top = tl.where(top > 0, top, SLOPE * top)[None, :]  # LeakyReLU grows with its argument
    total = tl.zeros([HEADS], tl.float32)
    for first in range(start, end, BLOCK):
        e, h, inside = _some(first, end, H, HEADS, BLOCK)
        m = _logits(nodes, source, i, e, h, inside, F, H)
        total += tl.sum(tl.where(inside, tl.exp(tl.where(m > 0, m, SLOPE * m) - top), 0.0), 0)
    for first in range(start, end, BLOCK):
        e, h, inside = _some(first, end, H, HEADS, BLOCK)
        m = _logits(nodes, source, i, e, h, inside, F, H)
        tl.store(weight + e * H + h, tl.exp(tl.where(m > 0, m, SLOPE * m) - top) / total[None, :], mask=inside)


@triton.jit
def attention_received(nodes, ptr, source, weight, grad_weight, grad_logit, grad_nodes, F: tl.constexpr,
                       H: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The gradients of the logits of a node's messages, w_ij (g_ij - Σ_j w_ij g_ij) before LeakyReLU's, and of what it
    is as a receiver."""
    i = tl.program_id(0).to(tl.int64)
    start = tl.load(ptr + i)
    end = tl.load(ptr + i + 1)
    mean = tl.zeros([HEADS], tl.float32)
    for first in range(start, end, BLOCK):
        e, h, inside = _some(first, end, H, HEADS, BLOCK)
        w = tl.load(weight + e * H + h, mask=inside, other=0.0)
        mean += tl.sum(w * tl.load(grad_weight + e * H + h, mask=inside, other=0.0), 0)
    total = tl.zeros([HEADS], tl.float32)
    for first in range(start, end, BLOCK):
        e, h, inside = _some(first, end, H, HEADS, BLOCK)
        g = tl.load(grad_weight + e * H + h, mask=inside, other=0.0) - mean[None, :]
        g *= tl.load(weight + e * H + h, mask=inside, other=0.0)
        g = tl.where(_logits(nodes, source, i, e, h, inside, F, H) > 0, g, SLOPE * g)
        tl.store(grad_logit + e * H + h, g, mask=inside)
        total += tl.sum(g, 0)
    head = tl.arange(0, HEADS)
    tl.store(grad_nodes + i * (F + 2 * H) + F + H + head, total, mask=head < H)


@triton.jit
def attention_sent(sender_ptr, place, grad_logit, grad_nodes, F: tl.constexpr, H: tl.constexpr, HEADS: tl.constexpr,
                   BLOCK: tl.constexpr):  # fmt: skip
    """The gradient of what a node is as a sender."""
    j = tl.program_id(0).to(tl.int64)
    end = tl.load(sender_ptr + j + 1)
    total = tl.zeros([HEADS], tl.float32)
    for first in range(tl.load(sender_ptr + j), end, BLOCK):
        k, h, inside = _some(first, end, H, HEADS, BLOCK)
        e = tl.load(place + k, mask=inside, other=0)
        total += tl.sum(tl.load(grad_logit + e * H + h, mask=inside, other=0.0), 0)
    head = tl.arange(0, HEADS)
    tl.store(grad_nodes + j * (F + 2 * H) + F + head, total, mask=head < H)


class _Attention(Function):
    """heads, nodes [R, V, F + 2 H], and the joined graph -> [R, V, F], the weights [R, E, H]."""

    @staticmethod
    def forward(heads: int, nodes: Tensor, ptr: Tensor, source: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        nodes, (R, V, width) = nodes.contiguous(), nodes.shape
        F, weight = width - 2 * heads, nodes.new_empty(R, len(source) // R, heads)
        attention_weights[(R * V,)](nodes, ptr, source, weight, **_sizes(F, heads))
        return weighted_sum(nodes, weight, ptr, source, F // heads, added=False), weight

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[1:], output[1])

    @staticmethod
    @first_derivative
    def backward(ctx: FunctionCtx, grad: Tensor, _: None) -> tuple[Tensor | None, ...]:
        nodes, ptr, source, sender_ptr, receiver, place, weight = (t.contiguous() for t in ctx.saved_tensors)
        (R, V, F), H, of_nodes = grad.shape, weight.shape[2], torch.empty_like(nodes)
        transpose = (sender_ptr, receiver, place)
        of_weight = weighted_gradients(nodes, weight, transpose, grad.contiguous(), of_nodes, F // H, added=False)
        of_logit = torch.empty_like(of_weight)
        given = (nodes, ptr, source, weight, of_weight, of_logit, of_nodes)
        attention_received[(R * V,)](*given, **_sizes(F, H))
        attention_sent[(R * V,)](sender_ptr, place, of_logit, of_nodes, **_sizes(F, H))
        return None, of_nodes, *(None,) * 5

    @staticmethod
    def vmap(info: Any, in_dims: tuple, heads: int, nodes: Tensor, *graph: Tensor) -> tuple[tuple, tuple[int, int]]:
        R, lifted = info.batch_size, rows_of_replicas(nodes, in_dims[1], info.batch_size)
        made = _Attention.apply(heads, lifted, *graph_of_replicas(graph, R, lifted.shape[1]))
        return tuple(t.unsqueeze(1) for t in made), (0, 0)


def _sizes(F: int, H: int) -> dict[str, int]:
    return {"F": F, "H": H, "HEADS": triton.next_power_of_2(H), "BLOCK": BLOCK, "num_warps": 1}
