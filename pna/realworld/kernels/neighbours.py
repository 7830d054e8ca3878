"""The sum or mean of the neighbours' x_j, with (1 + ε) x_i added to it or x_i beside it, in one kernel each way.

The layers of GCN, GraphSage and GIN begin so. All of them end by adding their input: it is returned as well, so that
both of its gradients are summed in one kernel. A program is a node. The plain-torch twins are in comparators.py.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import KernelFunction, saved
from pna.neighbourhoods import Neighbourhoods
from pna.realworld.kernels.graphs import Messages

__all__ = ["neighbours", "supports"]


def supports(x: Tensor, graph: Neighbourhoods) -> bool:
    """Whether the graphs of all replicas are joined."""
    return graph.joined is not None


def neighbours(x: Tensor, graph: Neighbourhoods, kind: str, eps: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Aggregate the neighbours' x [V, F] to [V, F], or [V, 2 F] where x_i is beside it; return x too, to be added.

    kind: "mean"; "beside", which is [x_i, mean]; or "sum", which is (1 + eps) x_i + Σ_j x_j with eps [1].
    """
    return _Neighbours.call(kind, x, eps, Messages.of(graph))


@triton.jit
def _scale(ptr, i, KIND: tl.constexpr):
    """The weight of each message to i: 1, or 1/d_i."""
    scale = 1.0
    if KIND != "sum":
        scale = 1 / tl.maximum(tl.load(ptr + i + 1) - tl.load(ptr + i), 1).to(tl.float32)
    return scale


@triton.jit
def neighbours_forward(x, eps, ptr, source, y, V, KIND: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr):
    """Aggregate the messages of one node."""
    i = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH)
    inside = c < F
    total = tl.zeros([WIDTH], tl.float32)
    for e in range(tl.load(ptr + i), tl.load(ptr + i + 1)):
        total += tl.load(x + tl.load(source + e) * F + c, mask=inside, other=0.0)
    total *= _scale(ptr, i, KIND)
    if KIND == "mean":
        tl.store(y + i * F + c, total, mask=inside)
    else:
        features = tl.load(x + i * F + c, mask=inside, other=0.0)
        if KIND == "sum":
            tl.store(y + i * F + c, total + (1 + tl.load(eps + i // V)) * features, mask=inside)
        else:
            tl.store(y + i * 2 * F + c, features, mask=inside)
            tl.store(y + i * 2 * F + F + c, total, mask=inside)


@triton.jit
def neighbours_backward(x, eps, ptr, sender_ptr, receiver, grad, residual, grad_x, grad_eps, V, KIND: tl.constexpr,
                        RESIDUAL: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    """The gradient of one node's x, and its part of the gradient of ε."""
    j = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, WIDTH)
    inside = c < F
    row = 2 * F if KIND == "beside" else F
    shift = F if KIND == "beside" else 0
    total = tl.zeros([WIDTH], tl.float32)
    for k in range(tl.load(sender_ptr + j), tl.load(sender_ptr + j + 1)):
        i = tl.load(receiver + k)
        total += _scale(ptr, i, KIND) * tl.load(grad + i * row + shift + c, mask=inside, other=0.0)
    if KIND != "mean":
        g = tl.load(grad + j * row + c, mask=inside, other=0.0)
        if KIND == "sum":
            tl.store(grad_eps + j, tl.sum(g * tl.load(x + j * F + c, mask=inside, other=0.0), 0))
            g *= 1 + tl.load(eps + j // V)
        total += g
    if RESIDUAL:
        total += tl.load(residual + j * F + c, mask=inside, other=0.0)
    tl.store(grad_x + j * F + c, total, mask=inside)


class _Neighbours(KernelFunction):
    """The sum or mean of the neighbours as an autograd Function.

    kind, x [R, V, F], eps [R, 1] or None, the messages of all replicas -> [R, V, F or 2 F], x.
    """

    @staticmethod
    def forward(kind: str, x: Tensor, eps: Tensor | None, messages: Messages) -> tuple[Tensor, Tensor]:
        R, V, F = x.shape
        y, eps = x.new_empty(R, V, 2 * F if kind == "beside" else F), x if eps is None else eps
        neighbours_forward[(R * V,)](x, eps, messages.ptr, messages.source, y, V, KIND=kind, **_sizes(F))
        return y, x.view_as(x)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        ctx.kind, x, eps, messages = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, eps, messages.ptr, messages.sender_ptr, messages.receiver)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor | None, residual: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, residual, None, None
        x, eps, *graph = saved(ctx)
        (R, V, F), grad_x = x.shape, torch.empty_like(x)
        of_eps, added = x.new_empty(R, V), grad if residual is None else residual
        tensors = (x, x if eps is None else eps, *graph, grad, added, grad_x, of_eps)
        neighbours_backward[(R * V,)](*tensors, V, KIND=ctx.kind, RESIDUAL=residual is not None, **_sizes(F))
        return None, grad_x, None if eps is None else of_eps.sum(1, keepdim=True), None


def _sizes(F: int) -> dict[str, int]:
    """Compile-time constants of a launch on F features."""
    return {"F": F, "WIDTH": triton.next_power_of_2(F), "num_warps": 1}
