"""Σ_j s_j ReLU(x_j + e_ij) over the neighbours, which ogb's GCN and GIN begin with, in one kernel and two back.

A program takes some nodes, or messages, and WIDTH features. Its plain-torch twin is in quoted.py.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.kernels.choice import first_derivative, on_its_device
from pna.neighbourhoods import Neighbourhoods
from pna.networks.kernels.replicas import graph_of_replicas, rows_of_replicas

__all__ = ["relu_sum", "takes"]

BLOCK = 4


def takes(x: Tensor, edge: Tensor, scale: Tensor, graph: Neighbourhoods) -> bool:
    """Whether the kernels serve: where the graphs of all replicas are joined."""
    return graph.joined is not None


@on_its_device
def relu_sum(x: Tensor, edge: Tensor, scale: Tensor, graph: Neighbourhoods) -> Tensor:
    """x [V, F], edge [E, F] and scale, s_j, [V, 1], which has no gradient -> [V, F]."""
    ptr, _, source, transpose = graph.joined
    given = (t.unsqueeze(0) for t in (x, edge, scale))
    return _ReluSum.apply(*given, ptr, source, *transpose).squeeze(0)


@triton.jit
def _rows(first, N, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Of a program: its rows [BLOCK], its features [1, WIDTH], and which of them there are."""
    row = first + tl.arange(0, BLOCK)
    c = (tl.program_id(1) * WIDTH + tl.arange(0, WIDTH))[None, :]
    return row, c, (row < N)[:, None] & (c < F)


@triton.jit
def message_sum(x, edge, scale, ptr, source, y, N, F, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """The sum over the messages of each of BLOCK nodes."""
    node, c, inside = _rows(tl.program_id(0).to(tl.int64) * BLOCK, N, F, WIDTH, BLOCK)
    start = tl.load(ptr + node, mask=node < N, other=0)
    end = tl.load(ptr + node + 1, mask=node < N, other=0)
    total = tl.zeros([BLOCK, WIDTH], tl.float32)
    for k in range(0, tl.max(end - start, 0)):
        e = start + k
        j = tl.load(source + e, mask=e < end, other=0)[:, None]
        live = inside & (e < end)[:, None]
        m = tl.load(x + j * F + c, mask=live, other=0.0) + tl.load(edge + e[:, None] * F + c, mask=live, other=0.0)
        total += tl.where(m < 0, 0.0, m) * tl.load(scale + j)  # not the maximum: what is no number must stay so
    tl.store(y + node[:, None] * F + c, total, mask=inside)


@triton.jit
def message_gradient(x, edge, scale, sender_ptr, receiver, place, grad, grad_x, grad_edge, N, F,
                     WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The gradients of the messages that each of BLOCK nodes has sent, and their sum, which is that of the node."""
    node, c, inside = _rows(tl.program_id(0).to(tl.int64) * BLOCK, N, F, WIDTH, BLOCK)
    start = tl.load(sender_ptr + node, mask=node < N, other=0)
    end = tl.load(sender_ptr + node + 1, mask=node < N, other=0)
    own = tl.load(x + node[:, None] * F + c, mask=inside, other=0.0)
    s = tl.load(scale + node, mask=node < N, other=0.0)[:, None]
    total = tl.zeros([BLOCK, WIDTH], tl.float32)
    for k in range(0, tl.max(end - start, 0)):
        at = start + k
        live = inside & (at < end)[:, None]
        i = tl.load(receiver + at, mask=at < end, other=0)[:, None]
        e = tl.load(place + at, mask=at < end, other=0)[:, None]
        m = own + tl.load(edge + e * F + c, mask=live, other=0.0)
        g = tl.where(m <= 0, 0.0, s * tl.load(grad + i * F + c, mask=live, other=0.0))
        tl.store(grad_edge + e * F + c, g, mask=live)
        total += tl.where(live, g, 0.0)
    tl.store(grad_x + node[:, None] * F + c, total, mask=inside)


class _ReluSum(Function):
    """x [R, V, F], edge [R, E, F], scale [R, V, 1], and the joined graph -> [R, V, F]."""

    @staticmethod
    def forward(x: Tensor, edge: Tensor, scale: Tensor, ptr: Tensor, source: Tensor, *transpose: Tensor) -> Tensor:
        x, edge, scale = (t.contiguous() for t in (x, edge, scale))
        y, F = torch.empty_like(x), x.shape[2]
        message_sum[_grid(y)](x, edge, scale, ptr, source, y, y.numel() // F, F, **_sizes(F))
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @first_derivative
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        *given, _, _, sender_ptr, receiver, place = ctx.saved_tensors
        x, edge, scale, grad = (t.contiguous() for t in (*given, grad))
        grads, F = (torch.empty_like(x), torch.empty_like(edge)), x.shape[2]
        graph = (sender_ptr, receiver, place)
        message_gradient[_grid(x)](x, edge, scale, *graph, grad, *grads, x.numel() // F, F, **_sizes(F))
        return *grads, *(None,) * 6

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Tensor) -> tuple[Tensor, int]:
        R, graph = info.batch_size, inputs[3:]
        lifted = [rows_of_replicas(t, dim, R) for t, dim in zip(inputs[:3], in_dims[:3], strict=True)]
        return _ReluSum.apply(*lifted, *graph_of_replicas(graph, R, lifted[0].shape[1])).unsqueeze(1), 0


def _grid(y: Tensor) -> tuple[int, int]:
    R, V, F = y.shape
    return -(-R * V // BLOCK), -(-F // _sizes(F)["WIDTH"])


def _sizes(F: int) -> dict[str, int]:
    return {"WIDTH": min(triton.next_power_of_2(F), 128), "BLOCK": BLOCK, "num_warps": 4}
