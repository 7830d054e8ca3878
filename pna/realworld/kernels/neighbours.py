"""The sum or mean of the neighbours' x_j, with (1 + ε) x_i added to it or x_i beside it, in one kernel each way.

So begin the layers of GCN, GraphSage and GIN. All of them end with the input being added: it comes back beside the
result, so that both of its gradients are added up where one is made. A program is a node. The plain-torch twins are in
quoted.py.
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

__all__ = ["neighbours", "supports"]


def supports(x: Tensor, graph: Neighbourhoods) -> bool:
    """Whether the kernels serve: where the graphs of all replicas are joined."""
    return graph.joined is not None


@on_its_device
def neighbours(x: Tensor, graph: Neighbourhoods, kind: str, eps: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """x [V, F] -> [V, F], or [V, 2 F] where x_i is beside it; and x, for who adds it in the end.

    kind: "mean"; "beside", which is [x_i, mean]; or "sum", which is (1 + eps) x_i + Σ_j x_j with eps [1].
    """
    ptr, _, source, transpose = graph.joined
    eps = None if eps is None else eps.unsqueeze(0)
    made = _Neighbours.apply(kind, x.unsqueeze(0), eps, ptr, source, *transpose)
    return made[0].squeeze(0), made[1].squeeze(0)


@triton.jit
def _scale(ptr, i, KIND: tl.constexpr):
    """What each message to i counts: 1, or 1/d_i."""
    scale = 1.0
    if KIND != "sum":
        scale = 1 / tl.maximum(tl.load(ptr + i + 1) - tl.load(ptr + i), 1).to(tl.float32)
    return scale


@triton.jit
def neighbours_forward(x, eps, ptr, source, y, V, KIND: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr):
    """What a node receives."""
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
        own = tl.load(x + i * F + c, mask=inside, other=0.0)
        if KIND == "sum":
            tl.store(y + i * F + c, total + (1 + tl.load(eps + i // V)) * own, mask=inside)
        else:
            tl.store(y + i * 2 * F + c, own, mask=inside)
            tl.store(y + i * 2 * F + F + c, total, mask=inside)


@triton.jit
def neighbours_backward(x, eps, ptr, sender_ptr, receiver, grad, residual, grad_x, grad_eps, V, KIND: tl.constexpr,
                        RESIDUAL: tl.constexpr, F: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    """The gradient of x of a node, and the part of that of ε which comes from it."""
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
        own = tl.load(grad + j * row + c, mask=inside, other=0.0)
        if KIND == "sum":
            tl.store(grad_eps + j, tl.sum(own * tl.load(x + j * F + c, mask=inside, other=0.0), 0))
            own *= 1 + tl.load(eps + j // V)
        total += own
    if RESIDUAL:
        total += tl.load(residual + j * F + c, mask=inside, other=0.0)
    tl.store(grad_x + j * F + c, total, mask=inside)


class _Neighbours(Function):
    """kind, x [R, V, F], eps [R, 1] or None, and the joined graph -> [R, V, F or 2 F], x."""

    @staticmethod
    def forward(
        kind: str, x: Tensor, eps: Tensor | None, ptr: Tensor, source: Tensor, *_: Tensor
    ) -> tuple[Tensor, Tensor]:
        own, (R, V, F) = x.contiguous(), x.shape
        y, eps = x.new_empty(R, V, 2 * F if kind == "beside" else F), x if eps is None else eps.contiguous()
        neighbours_forward[(R * V,)](own, eps, ptr, source, y, V, KIND=kind, **_sizes(F))
        return y, x.view_as(x)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        ctx.kind, x, eps, ptr, _, sender_ptr, receiver, _ = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, eps, ptr, sender_ptr, receiver)

    @staticmethod
    @first_derivative
    def backward(ctx: FunctionCtx, grad: Tensor | None, residual: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, residual, *(None,) * 6
        x, eps, *graph = (None if t is None else t.contiguous() for t in ctx.saved_tensors)
        (R, V, F), grad, grad_x = x.shape, grad.contiguous(), torch.empty_like(x)
        of_eps = x.new_empty(R, V)
        added = grad if residual is None else residual.contiguous()
        given = (x, x if eps is None else eps, *graph, grad, added, grad_x, of_eps)
        neighbours_backward[(R * V,)](*given, V, KIND=ctx.kind, RESIDUAL=residual is not None, **_sizes(F))
        return None, grad_x, None if eps is None else of_eps.sum(1, keepdim=True), *(None,) * 5

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple, kind: str, x: Tensor, eps: Tensor | None, *graph: Tensor
    ) -> tuple[tuple, tuple]:
        R, x = info.batch_size, rows_of_replicas(x, in_dims[1], info.batch_size)
        eps = None if eps is None else rows_of_replicas(eps, in_dims[2], R)
        made = _Neighbours.apply(kind, x, eps, *graph_of_replicas(graph, R, x.shape[1]))
        return tuple(t.unsqueeze(1) for t in made), (0, 0)


def _sizes(F: int) -> dict[str, int]:
    return {"F": F, "WIDTH": triton.next_power_of_2(F), "num_warps": 1}
