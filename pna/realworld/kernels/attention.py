"""GAT's attention over the neighbours in two kernels, and three back: the weights of the messages, and the sum.

The input is one product for each node: z, in H heads, then a · z as a sender and as a receiver. In each head the
weights of i's messages are the softmax over j of LeakyReLU(a · [z_j, z_i]). A program is a node, with all of its heads.
The plain-torch twin is in comparators.py.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import KernelFunction, saved
from pna.neighbourhoods import Neighbourhoods
from pna.realworld.kernels.graphs import Messages
from pna.realworld.kernels.weighted import weighted_gradients, weighted_sum

__all__ = ["attention", "supports"]

BLOCK = 16  # messages at a time
SLOPE = tl.constexpr(0.01)


def supports(x: Tensor, graph: Neighbourhoods) -> bool:
    """Whether the graphs of all replicas are joined."""
    return graph.joined is not None


def attention(nodes: Tensor, heads: int, graph: Neighbourhoods) -> Tensor:
    """Attend to the neighbours: nodes [V, F + 2 H], which are z, then a · z as a sender and as a receiver -> [V, F]."""
    return _Attention.call(heads, nodes, Messages.of(graph))[0]


@triton.jit
def _some(start, end, H: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr):
    """Messages from `start` on, [BLOCK, 1], heads [1, HEADS], and the mask of those that exist."""
    e = start + tl.arange(0, BLOCK)[:, None]
    h = tl.arange(0, HEADS)[None, :]
    return e, h, (e < end) & (h < H)


@triton.jit
def _logits(nodes, source, i, e, h, inside, F: tl.constexpr, H: tl.constexpr):
    """Logits of messages that i receives, before LeakyReLU."""
    j = tl.load(source + e, mask=inside, other=0)
    sender = tl.load(nodes + j * (F + 2 * H) + F + h, mask=inside, other=0.0)
    return sender + tl.load(nodes + i * (F + 2 * H) + F + H + h, mask=h < H, other=0.0)


@triton.jit
def attention_weights(nodes, ptr, source, weight, F: tl.constexpr, H: tl.constexpr, HEADS: tl.constexpr,
                      BLOCK: tl.constexpr):  # fmt: skip
    """The weights of one node's messages: the softmax of their logits."""
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
    """The gradients of the logits of one node's messages, and of its a · z as a receiver.

    Behind LeakyReLU a logit has the gradient w_ij (g_ij - Σ_j w_ij g_ij).
    """
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
    """The gradient of one node's a · z as a sender."""
    j = tl.program_id(0).to(tl.int64)
    end = tl.load(sender_ptr + j + 1)
    total = tl.zeros([HEADS], tl.float32)
    for first in range(tl.load(sender_ptr + j), end, BLOCK):
        k, h, inside = _some(first, end, H, HEADS, BLOCK)
        e = tl.load(place + k, mask=inside, other=0)
        total += tl.sum(tl.load(grad_logit + e * H + h, mask=inside, other=0.0), 0)
    head = tl.arange(0, HEADS)
    tl.store(grad_nodes + j * (F + 2 * H) + F + head, total, mask=head < H)


class _Attention(KernelFunction):
    """GAT's attention as an autograd Function.

    heads, nodes [R, V, F + 2 H], the messages of all replicas -> [R, V, F], the weights [R, E, H].
    """

    @staticmethod
    def forward(heads: int, nodes: Tensor, messages: Messages) -> tuple[Tensor, Tensor]:
        (R, V, width), ptr, source = nodes.shape, messages.ptr, messages.source
        F, weight = width - 2 * heads, nodes.new_empty(R, len(source) // R, heads)
        attention_weights[(R * V,)](nodes, ptr, source, weight, **_sizes(F, heads))
        return weighted_sum(nodes, weight, messages, F // heads, added=False), weight

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        _, nodes, messages = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(nodes, output[1], *messages)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, _: None) -> tuple[None, Tensor, None]:
        nodes, weight, *graph = saved(ctx)
        messages, (R, V, F), H, grad_nodes = Messages(*graph), grad.shape, weight.shape[2], torch.empty_like(nodes)
        grad_weight = weighted_gradients(nodes, weight, messages, grad, grad_nodes, F // H, added=False)
        grad_logit = torch.empty_like(grad_weight)
        tensors = (nodes, messages.ptr, messages.source, weight, grad_weight, grad_logit, grad_nodes)
        attention_received[(R * V,)](*tensors, **_sizes(F, H))
        attention_sent[(R * V,)](messages.sender_ptr, messages.place, grad_logit, grad_nodes, **_sizes(F, H))
        return None, grad_nodes, None


def _sizes(F: int, H: int) -> dict[str, int]:
    """Compile-time constants of a launch on H heads of F features."""
    return {"F": F, "H": H, "HEADS": triton.next_power_of_2(H), "BLOCK": BLOCK, "num_warps": 1}
