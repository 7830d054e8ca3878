"""The end of a linear layer in one kernel each way: bias, activation, and a residual.

In the backward pass every program sums the gradient of the bias over its rows. The plain-torch twin is in layers.py.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import KernelFunction, saved

__all__ = ["activated", "supports"]

BLOCK = 32
PROGRAMS = 128  # for each replica, at most
SLOPE = tl.constexpr(0.01)
SHORTEST = tl.constexpr(1e-12)  # as in torch.nn.functional.normalize


def supports(*_: Tensor) -> bool:
    """Always: there is no restriction."""
    return True


def activated(z: Tensor, bias: Tensor, kind: str, residual: Tensor | None = None) -> Tensor:
    """Add the bias, apply the activation, and add the residual where there is one.

    z and residual are [V, F], bias [F]. kind: "leaky", "relu", or "unit", the ReLU of a row scaled to length 1.
    """
    return _Activated.call(kind, z, bias, residual)


@triton.jit
def _inverse_length(value):
    """1/|row|, [BLOCK, 1], and whether the length is at least SHORTEST."""
    length = tl.sqrt(tl.sum(value * value, 1))[:, None]
    return 1 / tl.where(length < SHORTEST, SHORTEST, length), length >= SHORTEST


@triton.jit
def activation_forward(z, bias, residual, y, V, F, KIND: tl.constexpr, RESIDUAL: tl.constexpr, WIDTH: tl.constexpr,
                       BLOCK: tl.constexpr):  # fmt: skip
    """Bias, activation and residual of a block of one replica's rows."""
    r = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    c = tl.arange(0, WIDTH)[None, :]
    at = r * V * F + row * F + c
    inside = (row < V) & (c < F)
    value = tl.load(z + at, mask=inside, other=0.0) + tl.load(bias + r * F + c, mask=c < F, other=0.0)
    if KIND == "unit":
        inverse, _ = _inverse_length(value)
        value *= inverse
    low = SLOPE * value if KIND == "leaky" else 0.0
    value = tl.where(value < 0, low, value)  # NaN must propagate, so not the maximum
    if RESIDUAL:
        value += tl.load(residual + at, mask=inside, other=0.0)
    tl.store(y + at, value, mask=inside)


@triton.jit
def activation_backward(grad, z, bias, grad_z, sums, V, F, KIND: tl.constexpr, WIDTH: tl.constexpr,
                        BLOCK: tl.constexpr):  # fmt: skip
    """The gradient of z, and its sum over the rows of each program."""
    r = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, WIDTH)
    b = tl.load(bias + r * F + c, mask=c < F, other=0.0)[None, :]
    total = tl.zeros([WIDTH], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        row = block * BLOCK + tl.arange(0, BLOCK)[:, None]
        at = r * V * F + row * F + c[None, :]
        inside = (row < V) & (c < F)[None, :]
        g = tl.load(grad + at, mask=inside, other=0.0)
        value = tl.load(z + at, mask=inside, other=0.0) + b
        low = SLOPE * g if KIND == "leaky" else 0.0
        g = tl.where(value > 0, g, low)
        if KIND == "unit":
            inverse, long = _inverse_length(value)
            along = tl.sum(g * value, 1)[:, None] * inverse * inverse
            g = tl.where(inside, (g - tl.where(long, along, 0.0) * value) * inverse, 0.0)
        tl.store(grad_z + at, g, mask=inside)
        total += tl.sum(g, 0)
    tl.store(sums + (r * tl.num_programs(0) + tl.program_id(0)) * F + c, total, mask=c < F)


class _Activated(KernelFunction):
    """Bias, activation and residual as an autograd Function.

    kind, z [R, V, F], bias [R, F], residual [R, V, F] or None -> [R, V, F].
    """

    @staticmethod
    def forward(kind: str, z: Tensor, bias: Tensor, residual: Tensor | None) -> Tensor:
        R, V, F = z.shape
        y, added = torch.empty_like(z), z if residual is None else residual
        constants = {"KIND": kind, "RESIDUAL": residual is not None, **_sizes(F)}
        activation_forward[(-(-V // BLOCK), R)](z, bias, added, y, V, F, **constants)
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        ctx.kind, z, bias, residual = inputs
        ctx.residual = residual is not None
        ctx.save_for_backward(z, bias)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, bias = saved(ctx)
        R, V, F = z.shape
        programs = min(-(-V // BLOCK), PROGRAMS)
        grad_z, sums = torch.empty_like(z), z.new_empty(R, programs, F)
        activation_backward[(programs, R)](grad, z, bias, grad_z, sums, V, F, KIND=ctx.kind, **_sizes(F))
        return None, grad_z, sums.sum(1), grad if ctx.residual else None


def _sizes(F: int) -> dict[str, int]:
    """Compile-time constants of a launch on F features."""
    return {"WIDTH": triton.next_power_of_2(F), "BLOCK": BLOCK, "num_warps": 8}
