"""The end of a layer with towers in one kernel each way: LeakyReLU(z + b), and the input where it is added.

On the way back every program sums up the gradient of the bias over its rows. The plain-torch twin is in layers.py.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.kernels.choice import on_its_device
from pna.networks.kernels.replicas import rows_of_replicas

__all__ = ["leaky", "takes"]

BLOCK = 32
PROGRAMS = 128  # at most, of each replica
SLOPE = tl.constexpr(0.01)


def takes(*_: Tensor) -> bool:
    """Whether the kernels serve: for any."""
    return True


@on_its_device
def leaky(z: Tensor, bias: Tensor, residual: Tensor | None) -> Tensor:
    """LeakyReLU(z + bias) + residual: z and residual [V, F], bias [F] -> [V, F]."""
    return _Leaky.apply(*(None if t is None else t.unsqueeze(0) for t in (z, bias, residual))).squeeze(0)


@triton.jit
def leaky_forward(z, bias, residual, y, V, F, RESIDUAL: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Of a block of rows of a replica."""
    r = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = tl.arange(0, WIDTH)[None, :]
    at = r * V * F + row * F + c
    inside = (row < V) & (c < F)
    value = tl.load(z + at, mask=inside, other=0.0) + tl.load(bias + r * F + c, mask=c < F, other=0.0)
    value = tl.where(value > 0, value, SLOPE * value)
    if RESIDUAL:
        value += tl.load(residual + at, mask=inside, other=0.0)
    tl.store(y + at, value, mask=inside)


@triton.jit
def leaky_backward(grad, z, bias, grad_z, sums, V, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The gradient of z, and of each program the sum of its rows."""
    r = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, WIDTH)
    b = tl.load(bias + r * F + c, mask=c < F, other=0.0)[None, :]
    total = tl.zeros([WIDTH], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
        at = r * V * F + row * F + c[None, :]
        inside = (row < V) & (c < F)[None, :]
        g = tl.load(grad + at, mask=inside, other=0.0)
        g = tl.where(tl.load(z + at, mask=inside, other=0.0) + b > 0, g, SLOPE * g)
        tl.store(grad_z + at, g, mask=inside)
        total += tl.sum(g, 0)
    tl.store(sums + (r * tl.num_programs(0) + tl.program_id(0)) * F + c, total, mask=c < F)


class _Leaky(Function):
    """z [R, V, F], bias [R, F], residual [R, V, F] or None -> [R, V, F]."""

    @staticmethod
    def forward(z: Tensor, bias: Tensor, residual: Tensor | None) -> Tensor:
        z, bias = z.contiguous(), bias.contiguous()
        R, V, F = z.shape
        y, added = torch.empty_like(z), z if residual is None else residual.contiguous()
        leaky_forward[(-(-V // BLOCK), R)](z, bias, added, y, V, F, RESIDUAL=residual is not None, **_sizes(F))
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        z, bias, residual = inputs
        ctx.residual = residual is not None
        ctx.save_for_backward(z, bias)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad, z, bias = (t.contiguous() for t in (grad, *ctx.saved_tensors))
        R, V, F = z.shape
        programs = min(-(-V // BLOCK), PROGRAMS)
        grad_z, sums = torch.empty_like(z), z.new_empty(R, programs, F)
        leaky_backward[(programs, R)](grad, z, bias, grad_z, sums, V, F, **_sizes(F))
        return grad_z, sums.sum(1), grad if ctx.residual else None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Tensor | None) -> tuple[Tensor, int]:
        R = info.batch_size
        lifted = (None if t is None else rows_of_replicas(t, dim, R) for t, dim in zip(inputs, in_dims, strict=True))
        return _Leaky.apply(*lifted).unsqueeze(1), 0


def _sizes(F: int) -> dict[str, int]:
    return {"WIDTH": triton.next_power_of_2(F), "BLOCK": BLOCK, "num_warps": 8}
