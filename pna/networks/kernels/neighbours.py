"""The sum over neighbours and the node itself, as GCN and GIN take it, for many replicas: [R, V, F] -> [R, V, F].

    out_i = n_i (Σ_j n_j h_j + w n_i h_i)

with n = 1/√(d + 1), w = 1 in GCN (equation 11) and n = 1, w = 1 + ε in GIN (equation 13). On an undirected graph this
map is symmetric: its gradient is the map itself.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.kernels.choice import on_its_device
from pna.networks.kernels.replicas import replicated

__all__ = ["neighbour_sum", "takes"]

BLOCK, WARPS = 64, 4


def takes(h: Tensor) -> bool:
    """Whether the kernels serve: for any h."""
    return True


@on_its_device
def neighbour_sum(
    h: Tensor, neighbourhoods: tuple[Tensor, Tensor], own: Tensor | None = None, normalised: bool = False
) -> Tensor:
    """h [V, F], the undirected graph's (ptr, source), and w as a tensor of one number, or None for 1 -> [V, F]."""
    own = h.new_ones(1) if own is None else own
    return _NeighbourSum.apply(h.unsqueeze(0), own.reshape(1), *neighbourhoods, normalised).squeeze(0)


@triton.jit
def neighbour_sum_kernel(
    h, own, ptr, column, out, V, F, NORMALISED: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Grid (blocks, replicas)."""
    r = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, WIDTH)[None, :]
    start = tl.load(ptr + rows, mask=rows < V, other=0)
    degree = tl.load(ptr + rows + 1, mask=rows < V, other=0) - start
    h += r * V * F
    real = (rows < V)[:, None] & (c < F)
    mine = tl.load(h + rows[:, None] * F + c, mask=real, other=0.0)
    norm = tl.full([BLOCK], 1.0, tl.float32)
    if NORMALISED:
        norm = tl.rsqrt(degree.to(tl.float32) + 1)
    total = tl.load(own + r) * norm[:, None] * mine
    for k in range(0, tl.max(degree, 0)):
        live = k < degree
        j = tl.load(column + start + k, mask=live, other=0)
        m = tl.load(h + j[:, None] * F + c, mask=live[:, None] & (c < F), other=0.0)
        if NORMALISED:
            theirs = tl.load(ptr + j + 1, mask=live, other=0) - tl.load(ptr + j, mask=live, other=0)
            m *= tl.rsqrt(theirs.to(tl.float32) + 1)[:, None]
        total += m
    tl.store(out + r * V * F + rows[:, None] * F + c, norm[:, None] * total, mask=real)


def _apply(h: Tensor, own: Tensor, ptr: Tensor, column: Tensor, normalised: bool) -> Tensor:
    R, V, F = h.shape
    out = torch.empty_like(h)
    neighbour_sum_kernel[(-(-V // BLOCK), R)](
        h, own, ptr, column, out, V, F, NORMALISED=normalised, WIDTH=triton.next_power_of_2(F), BLOCK=BLOCK,
        num_warps=WARPS, num_stages=1,
    )  # fmt: skip
    return out


class _NeighbourSum(Function):
    """h [R, V, F], own [R] -> [R, V, F]."""

    @staticmethod
    def forward(h: Tensor, own: Tensor, ptr: Tensor, column: Tensor, normalised: bool) -> Tensor:
        return _apply(h.contiguous(), own.contiguous(), ptr, column, normalised)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        *tensors, ctx.normalised = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, own, ptr, column = ctx.saved_tensors
        grad_h = _apply(grad.contiguous(), own.contiguous(), ptr, column, ctx.normalised)
        grad_own = None
        if ctx.needs_input_grad[1]:
            share = 1 / (ptr.diff() + 1).to(h.dtype).unsqueeze(1) if ctx.normalised else 1.0  # n_i², [V, 1]
            grad_own = (grad * h * share).sum((1, 2))
        return grad_h, grad_own, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, h: Tensor, own: Tensor, *rest: Any) -> tuple[Tensor, int]:
        R = info.batch_size
        h, own = (replicated(t, dim, R) for t, dim in zip((h, own), in_dims[:2], strict=True))
        return _NeighbourSum.apply(h, own, *rest).unflatten(0, (R, -1)), 0
