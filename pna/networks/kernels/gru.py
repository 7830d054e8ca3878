"""The gated recurrent unit of section 3 for many replicas, in one kernel each way."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from pna.kernels.choice import on_its_device
from pna.networks.kernels.dense import dot, gru, gru_back, interleaved, matrix, put_row, put_rows, put_tile, rows_of
from pna.networks.kernels.replicas import replicated

__all__ = ["gate_tensors", "gated", "gru_weights", "padded", "takes", "width"]

BLOCK, PROGRAMS = 32, 660
LAUNCH = {"num_warps": 2, "num_stages": 1}


def takes(x: Tensor, z: Tensor) -> bool:
    """Whether the kernels serve: up to 32 features."""
    return z.shape[-1] <= 32


def width(hidden: int) -> int:
    """H: the size that the kernels' matrices are padded to."""
    return 16 if hidden <= 16 else 32


def padded(t: Tensor, H: int, axes: int = 1) -> Tensor:
    """With zeros to H in the last axes; as it is if it is so long, of which functional.pad would make a copy."""
    padding = H - t.shape[-1]
    return functional.pad(t, (0, padding) * axes) if padding else t


def gate_tensors(gates: torch.nn.Module) -> list[Tensor]:
    """Weight and bias of the gates' input, then of their state."""
    return [t for layer in (gates.input, gates.state) for t in (layer.weight, layer.bias)]


def gru_weights(
    of_input: Tensor, bias: Tensor, of_state: Tensor, bias_of_state: Tensor, H: int
) -> tuple[Tensor, Tensor]:
    """The GRU's six matrices [6, H, H] and biases [6, H]: reset, update, new of the input, then of the state."""
    hidden = of_state.shape[1]
    matrices = torch.cat([W.view(3, hidden, hidden) for W in (of_input, of_state)])
    biases = torch.cat([b.view(3, hidden) for b in (bias, bias_of_state)])
    return padded(matrices, H, 2), padded(biases, H)


def _of_gates(weights: Tensor, bias: Tensor, R: int, H: int) -> tuple[Tensor, Tensor]:
    """The gradients of what `gru_weights` gives, [R, 6, H, H] and [R, 6, H], from those of (r, u, n, b).

    weights: [R, 2·H·4, H], of the input and of the state; bias: [R, H·4].
    """
    weights = weights.view(R, 2, H, 4, H).transpose(2, 3)  # [R, input or state, gate, H, H]
    bias = bias.view(R, H, 4).transpose(1, 2)  # [R, gate, H]
    r, u, n, b = range(4)
    of_weights = [weights[:, 0, gate] for gate in (r, u, n)] + [weights[:, 1, gate] for gate in (r, u, b)]
    of_bias = [bias[:, gate] for gate in (r, u, n, r, u, b)]
    return torch.stack(of_weights, dim=1), torch.stack(of_bias, dim=1)


@on_its_device
def gated(x: Tensor, z: Tensor, gates: torch.nn.Module) -> Tensor:
    """The new state for input x and state z, [V, F] each."""
    F = x.shape[-1]
    H = width(F)
    x, z = padded(x, H), padded(z, H)
    weights, bias = gru_weights(*gate_tensors(gates), H)
    return _Gated.apply(*(t.unsqueeze(0) for t in (x, z, weights, bias))).squeeze(0)[:, :F]


@triton.jit
def gru_forward(x, z, new, weights, bias, V, x_stride, H: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows < V)[:, None]
    state = rows_of(z + r * V * H, rows, inside, H)
    given = rows_of(x + r * x_stride, rows, inside, H)
    _, u, n, _ = gru(given, state, weights + r * 6 * H * H, bias + r * 6 * H, H)
    put_rows(new + r * V * H, rows, inside, n + u * (state - n), H)


@triton.jit
def gru_backward(
    x, z, grad, weights, bias, grad_x, grad_z, grad_weights, grad_bias, V, x_stride,
    H: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(1)
    me = r * tl.num_programs(0) + tl.program_id(0)
    weights += r * 6 * H * H
    of_x = tl.zeros([4 * H, H], tl.float32)
    of_z = tl.zeros([4 * H, H], tl.float32)
    of_bias = tl.zeros([4 * H], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        rows = block * BLOCK + tl.arange(0, BLOCK)
        inside = (rows < V)[:, None]
        state = rows_of(z + r * V * H, rows, inside, H)
        given = rows_of(x + r * x_stride, rows, inside, H)
        g = rows_of(grad + r * V * H, rows, inside, H)
        reset, u, n, b = gru(given, state, weights, bias + r * 6 * H, H)
        d_r, d_u, d_n, d_b = gru_back(g, state, reset, u, n, b)
        down = dot(d_r, matrix(weights, 0, H), tl.zeros_like(g))
        down = dot(d_u, matrix(weights, 1, H), down)
        put_rows(grad_x + r * V * H, rows, inside, dot(d_n, matrix(weights, 2, H), down), H)
        down = dot(d_r, matrix(weights, 3, H), g * u)
        down = dot(d_u, matrix(weights, 4, H), down)
        put_rows(grad_z + r * V * H, rows, inside, dot(d_b, matrix(weights, 5, H), down), H)
        all_four = interleaved(d_r, d_u, d_n, d_b)
        of_bias += tl.sum(all_four, 0)
        all_four = tl.trans(all_four)
        of_x = dot(all_four, given, of_x)
        of_z = dot(all_four, state, of_z)
    put_tile(grad_weights + me * 8 * H * H, of_x, 4 * H, H)
    put_tile(grad_weights + me * 8 * H * H + 4 * H * H, of_z, 4 * H, H)
    put_row(grad_bias + me * 4 * H, of_bias, 4 * H)


class _Gated(Function):
    """x [R, V, H], or [1, V, H] for every replica; z [R, V, H]; weights [R, 6, H, H]; bias [R, 6, H] -> [R, V, H]."""

    @staticmethod
    def forward(x: Tensor, z: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
        x, z = x.contiguous(), z.contiguous()
        R, V, H = z.shape
        new = torch.empty_like(z)
        gru_forward[(-(-V // BLOCK), R)](
            x, z, new, weights.contiguous(), bias.contiguous(), V, V * H * (len(x) > 1), H=H, BLOCK=BLOCK,
            **LAUNCH,
        )  # fmt: skip
        return new

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, ...]:
        x, z, weights, bias = (t.contiguous() for t in ctx.saved_tensors)
        R, V, H = z.shape
        programs = min(-(-V // BLOCK), max(1, PROGRAMS // R))
        grad_x, grad_z = torch.empty_like(z), torch.empty_like(z)
        grad_weights, grad_bias = z.new_empty(R, programs, 8 * H, H), z.new_empty(R, programs, 4 * H)
        gru_backward[(programs, R)](
            x, z, grad.contiguous(), weights, bias, grad_x, grad_z, grad_weights, grad_bias, V,
            V * H * (len(x) > 1), H=H, BLOCK=BLOCK, **LAUNCH,
        )  # fmt: skip
        grad_x = grad_x if len(x) == R else grad_x.sum(0, keepdim=True)
        return grad_x, grad_z, *_of_gates(grad_weights.sum(1), grad_bias.sum(1), R, H)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, x: Tensor, *others: Tensor) -> tuple[Tensor, int]:
        R = info.batch_size
        others = [replicated(t, dim, R) for t, dim in zip(others, in_dims[1:], strict=True)]
        x = x if in_dims[0] is None else replicated(x, in_dims[0], R)
        return _Gated.apply(x, *others).unflatten(0, (R, -1)), 0
