"""The sum or the mean over the nodes of each graph, in one kernel each way; a program takes a graph and WIDTH features.

The padding's nodes are not read, and their gradients are zero: as one more graph, it would be by far the largest. The
plain-torch twin is in networks.py.
"""

import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import KernelFunction
from pna.neighbourhoods import Joined
from pna.realworld.kernels.graphs import Graphs

__all__ = ["readout", "supports"]

BLOCK = 16  # nodes at a time
WIDTH = 64


def supports(x: Tensor, graphs: Joined | None) -> bool:
    """Whether the graphs of all replicas are joined."""
    return graphs is not None


def readout(x: Tensor, graphs: Joined, B: int, mean: bool) -> Tensor:
    """Sum or average the nodes of each of B graphs: x [V, F] -> [B, F], zeros for a graph without nodes."""
    return _Readout.call(mean, x, Graphs(graphs.ptr, B))


@triton.jit
def _graph(ptr, B, F: tl.constexpr, WIDTH: tl.constexpr, MEAN: tl.constexpr):
    """The first node of this program's graph and the one behind its last, the divisor, the features and their mask."""
    at = ptr + tl.program_id(1).to(tl.int64) * (B + 1) + tl.program_id(0)
    start = tl.load(at)
    end = tl.load(at + 1)
    c = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    n = tl.maximum(end - start, 1).to(tl.float32) if MEAN else 1.0
    return start, end, n, c, c < F


@triton.jit
def readout_forward(x, ptr, y, B, F: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, MEAN: tl.constexpr):
    """Sum or mean of one graph's nodes."""
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
    """Gradients of one graph's nodes, or of the padding's, which is the last graph."""
    start, end, n, c, inside = _graph(ptr, B, F, WIDTH, MEAN)
    r = tl.program_id(1).to(tl.int64)
    real = inside & (tl.program_id(0) < B)
    g = tl.load(grad + (r * B + tl.program_id(0)) * F + c, mask=real, other=0.0) / n
    for first in range(start, end, BLOCK):
        row = (first + tl.arange(0, BLOCK))[:, None]
        value = tl.broadcast_to(g[None, :], [BLOCK, WIDTH])
        tl.store(grad_x + row * F + c[None, :], value, mask=(row < end) & inside[None, :])


class _Readout(KernelFunction):
    """The readout as an autograd Function.

    mean or sum, x [R, V, F], the graphs of all replicas -> [R, B, F].
    """

    @staticmethod
    def forward(mean: bool, x: Tensor, graphs: Graphs) -> Tensor:
        (R, _, F), (ptr, B) = x.shape, graphs
        y = x.new_empty(R, B, F)
        readout_forward[(B, R, -(-F // WIDTH))](x, ptr, y, B, **_sizes(F, mean))
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        ctx.mean, x, graphs = inputs
        ctx.V = x.shape[1]
        ctx.save_for_backward(graphs.ptr)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[None, Tensor, None]:
        (ptr,), (R, B, F) = ctx.saved_tensors, grad.shape
        grad_x = grad.new_empty(R, ctx.V, F)
        readout_backward[(B + 1, R, -(-F // WIDTH))](grad, ptr, grad_x, B, **_sizes(F, ctx.mean))
        return None, grad_x, None


def _sizes(F: int, mean: bool) -> dict[str, int]:
    """Compile-time constants of a launch that sums or averages F features."""
    return {"F": F, "WIDTH": WIDTH, "BLOCK": BLOCK, "MEAN": mean, "num_warps": 1}
