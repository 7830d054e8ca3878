"""MoNet's Σ_j Σ_k w_k(u_ij) z_jk in two kernels, and two back: the weights of the messages, and the sum.

The weights are Gaussians, w_k(u) = exp(-½ Σ_d ((u_d - μ_kd) / σ_kd)²), of two coordinates u_d computed from the degrees
of both nodes. The plain-torch twin is in comparators.py.
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

__all__ = ["gaussian_sum", "supports"]

BLOCK = 512


def supports(z: Tensor, graph: Neighbourhoods) -> bool:
    """Whether the graphs of all replicas are joined."""
    return graph.joined is not None


def gaussian_sum(
    z: Tensor, pseudo: tuple[Tensor, Tensor], mu: Tensor, inverse: Tensor, graph: Neighbourhoods
) -> Tensor:
    """Sum the messages weighted by K Gaussians: z [V, K·F] -> [V, F].

    pseudo: weight [2, 2] and bias [2] of the coordinates; mu and inverse, which is 1/σ, are [K, 2].
    """
    return _GaussianSum.call(z, *pseudo, mu, inverse, Messages.of(graph))[0]


@triton.jit
def _root(ptr, node, inside):
    """1/√(d + 1) for nodes of degree d."""
    d = tl.load(ptr + node + 1, mask=inside, other=0) - tl.load(ptr + node, mask=inside, other=0)
    return tl.rsqrt((d + 1).to(tl.float32))


@triton.jit
def _messages(ptr, source, target, E, BLOCK: tl.constexpr):
    """A program's replica, its messages [BLOCK], the mask of those that exist, and 1/√(d + 1) of j and of i."""
    r = tl.program_id(1).to(tl.int64)
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = e < E
    at = r * E + e
    sender = _root(ptr, tl.load(source + at, mask=inside, other=0), inside)
    receiver = _root(ptr, tl.load(target + at, mask=inside, other=0), inside)
    return r, at, inside, sender, receiver


@triton.jit
def _coordinate(weight, bias, r, d: tl.constexpr, sender, receiver):
    """u_d = tanh(W_d · (1/√(d_j + 1), 1/√(d_i + 1)) + b_d) for each message."""
    row = weight + r * 4 + 2 * d
    v = tl.load(row) * sender + tl.load(row + 1) * receiver + tl.load(bias + r * 2 + d)
    return 2 * tl.sigmoid(2 * v) - 1


@triton.jit
def gaussian_weights(weight, bias, mu, inverse, ptr, source, target, w, E, K: tl.constexpr, BLOCK: tl.constexpr):
    """The weights w_k of a block of one replica's messages."""
    r, at, inside, sender, receiver = _messages(ptr, source, target, E, BLOCK)
    u = _coordinate(weight, bias, r, 0, sender, receiver)
    v = _coordinate(weight, bias, r, 1, sender, receiver)
    for k in tl.static_range(K):
        p = r * 2 * K + 2 * k
        a = (u - tl.load(mu + p)) * tl.load(inverse + p)
        b = (v - tl.load(mu + p + 1)) * tl.load(inverse + p + 1)
        tl.store(w + at * K + k, tl.exp(-0.5 * (a * a + b * b)), mask=inside)


@triton.jit
def gaussian_gradients(weight, bias, mu, inverse, ptr, source, target, w, grad, sums, E, K: tl.constexpr,
                       BLOCK: tl.constexpr):  # fmt: skip
    """One block's parts of the gradients of W, b, mu and 1/σ, in this order."""
    r, at, inside, sender, receiver = _messages(ptr, source, target, E, BLOCK)
    sums += (r * tl.num_programs(0) + tl.program_id(0)) * (6 + 4 * K)
    for d in tl.static_range(2):
        u = _coordinate(weight, bias, r, d, sender, receiver)
        total = tl.zeros([BLOCK], tl.float32)
        for k in tl.static_range(K):
            p = r * 2 * K + 2 * k + d
            s = tl.load(inverse + p)
            away = u - tl.load(mu + p)
            g = tl.load(grad + at * K + k, mask=inside, other=0.0) * tl.load(w + at * K + k, mask=inside, other=0.0)
            g *= -away * s  # the gradient of (u - mu) / σ
            total += g * s
            tl.store(sums + 6 + 2 * k + d, -tl.sum(g, 0) * s)
            tl.store(sums + 6 + 2 * K + 2 * k + d, tl.sum(g * away, 0))
        total *= 1 - u * u
        tl.store(sums + 2 * d, tl.sum(total * sender, 0))
        tl.store(sums + 2 * d + 1, tl.sum(total * receiver, 0))
        tl.store(sums + 4 + d, tl.sum(total, 0))


class _GaussianSum(KernelFunction):
    """MoNet's weighted sum of messages as an autograd Function.

    z [R, V, K·F], W [R, 2, 2], b [R, 2], mu and 1/σ [R, K, 2], messages -> [R, V, F], w [R, E, K].
    """

    @staticmethod
    def forward(
        z: Tensor, weight: Tensor, bias: Tensor, mu: Tensor, inverse: Tensor, messages: Messages
    ) -> tuple[Tensor, Tensor]:
        R, K, E, graph = len(z), mu.shape[1], len(messages.source) // len(z), _by_receiver(messages)
        w = z.new_empty(R, E, K)
        gaussian_weights[(-(-E // BLOCK), R)](weight, bias, mu, inverse, *graph, w, E, K=K, BLOCK=BLOCK)
        return weighted_sum(z, w, messages, z.shape[2] // K, added=True), w

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        *tensors, messages = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, output[1], *messages)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, _: None) -> tuple[Tensor | None, ...]:
        z, weight, bias, mu, inverse, w, *graph = saved(ctx)
        small, messages = (weight, bias, mu, inverse), Messages(*graph)
        (R, E, K), grad_z, programs = w.shape, torch.empty_like(z), -(-w.shape[1] // BLOCK)
        grad_w = weighted_gradients(z, w, messages, grad, grad_z, z.shape[2] // K, added=True)
        sums = z.new_empty(R, programs, 6 + 4 * K)
        tensors = (*small, *_by_receiver(messages), w, grad_w, sums)
        gaussian_gradients[(programs, R)](*tensors, E, K=K, BLOCK=BLOCK)
        parts = sums.sum(1).split([4, 2, 2 * K, 2 * K], dim=1)
        return grad_z, *(part.reshape(t.shape) for part, t in zip(parts, small, strict=True)), None


def _by_receiver(messages: Messages) -> tuple[Tensor, Tensor, Tensor]:
    """Messages in the order of their receivers: ptr, source and target."""
    return messages.ptr, messages.source, messages.target
