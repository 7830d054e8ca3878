"""The sum or the mean over the nodes of each graph, one kernel each way; a program takes a graph and WIDTH features.

What the padding has is not read, and its gradient is zero: as one more graph, it would be by far the largest. The
plain-torch twin is in networks.py.
"""

from typing import Any

import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna import segments
from pna.kernels.selection import first_derivative, on_its_device
from pna.neighbourhoods import Joined
from pna.networks.kernels.replicas import rows_of_replicas

__all__ = ["readout", "supports"]

BLOCK = 16  # nodes at a time
WIDTH = 64


def supports(x: Tensor, graphs: Joined | None) -> bool:
    """Whether the kernels serve: where the graphs of all replicas are joined."""
    return graphs is not None


@on_its_device
def readout(x: Tensor, graphs: Joined, B: int, mean: bool) -> Tensor:
    """x [V, F] of B graphs, and padding -> [B, F], their sums or means; zeros for a graph without nodes."""
    return _Readout.apply(B, mean, graphs.ptr, x.unsqueeze(0)).squeeze(0)


@triton.jit
def _graph(ptr, B, F: tl.constexpr, WIDTH: tl.constexpr, MEAN: tl.constexpr):
    """The first node of this program's graph and the one behind its last, what to divide by, and the features."""
    at = ptr + tl.program_id(1).to(tl.int64) * (B + 1) + tl.program_id(0)
    start = tl.load(at)
    end = tl.load(at + 1)
    c = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    n = tl.maximum(end - start, 1).to(tl.float32) if MEAN else 1.0
    return start, end, n, c, c < F


@triton.jit
def readout_forward(x, ptr, y, B, F: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, MEAN: tl.constexpr):
    """Of a graph."""
    start, end, n, c, inside = _graph(ptr, B, F, WIDTH, MEAN)
    total = tl.zeros([BLOCK, WIDTH], tl.float32)
    for first in range(start, end, BLOCK):
        row = (first + tl.arange(0, BLOCK))[:, None]
        total += tl.load(x + row * F + c[None, :], mask=(row < end) & inside[None, :], other=0.0)
    r = tl.program_id(1).to(tl.int64)
    tl.store(y + (r * B + tl.program_id(0)) * F + c, tl.sum(total, 0) / n, mask=inside)


@triton.jit
def readout_backward(
    grad, ptr, grad_x, B, F: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, MEAN: tl.constexpr
):
    """Of the nodes of a graph, or of the padding, which is the last."""
    start, end, n, c, inside = _graph(ptr, B, F, WIDTH, MEAN)
    r = tl.program_id(1).to(tl.int64)
    own = inside & (tl.program_id(0) < B)
    g = tl.load(grad + (r * B + tl.program_id(0)) * F + c, mask=own, other=0.0) / n
    for first in range(start, end, BLOCK):
        row = (first + tl.arange(0, BLOCK))[:, None]
        value = tl.broadcast_to(g[None, :], [BLOCK, WIDTH])
        tl.store(grad_x + row * F + c[None, :], value, mask=(row < end) & inside[None, :])


class _Readout(Function):
    """B, whether the mean, ptr [R·(B + 1) + 1], x [R, V, F] -> [R, B, F]."""

    @staticmethod
    def forward(B: int, mean: bool, ptr: Tensor, x: Tensor) -> Tensor:
        R, _, F = x.shape
        y = x.new_empty(R, B, F)
        readout_forward[(B, R, -(-F // WIDTH))](x.contiguous(), ptr, y, B, **_sizes(F, mean))
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        _, ctx.mean, ptr, x = inputs
        ctx.V = x.shape[1]
        ctx.save_for_backward(ptr)

    @staticmethod
    @first_derivative
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[None, None, None, Tensor]:
        (ptr,), (R, B, F) = ctx.saved_tensors, grad.shape
        grad_x = grad.new_empty(R, ctx.V, F)
        readout_backward[(B + 1, R, -(-F // WIDTH))](grad.contiguous(), ptr, grad_x, B, **_sizes(F, ctx.mean))
        return None, None, None, grad_x

    @staticmethod
    def vmap(info: Any, in_dims: tuple, B: int, mean: bool, ptr: Tensor, x: Tensor) -> tuple[Tensor, int]:
        R, x = info.batch_size, rows_of_replicas(x, in_dims[3], info.batch_size)
        if len(ptr) - 1 != R * (B + 1):  # one batch for all replicas, made outside of vmap
            ptr = segments.joined_ptr(ptr.expand(R, -1), x.shape[1])
        return _Readout.apply(B, mean, ptr, x).unsqueeze(1), 0


def _sizes(F: int, mean: bool) -> dict[str, int]:
    return {"F": F, "WIDTH": WIDTH, "BLOCK": BLOCK, "MEAN": mean, "num_warps": 1}
