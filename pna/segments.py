"""Sums, maxima and copies over neighbourhoods in CSR order.

The messages of node i are the rows ptr[i] : ptr[i + 1] of m. `sum` and `spread` are each other's transpose, so each
is the other's gradient: every derivative, of any order, is again a deterministic reduction without atomics.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.neighbourhoods import joined_of, target_of

__all__ = ["joined", "max", "spread", "stacked", "sum"]


def sum(m: Tensor, ptr: Tensor) -> Tensor:
    """[E, ...] -> [N, ...]: the sum over each neighbourhood, 0 for an empty one."""
    return _Sum.apply(m, ptr)


def spread(v: Tensor, ptr: Tensor, num_messages: int) -> Tensor:
    """[N, ...] -> [E, ...]: the value of each node copied to all of its messages."""
    return _Spread.apply(v, ptr, num_messages)


def max(m: Tensor, ptr: Tensor) -> Tensor:
    """[E, ...] -> [N, ...]: the maximum of each neighbourhood, 0 for an empty one; equal maxima share the gradient."""
    return _Max.apply(m, ptr)


def _target(ptr: Tensor, num_messages: int) -> Tensor:
    """The node of each message, [E]."""
    known = target_of(ptr)
    return torch.repeat_interleave(ptr.diff().long(), output_size=num_messages) if known is None else known


def _replicas_as_channels(t: Tensor, dim: int | None, replicas: int) -> Tensor:
    """What torch.func.vmap batches becomes one channel more: [rows, replicas, ...]."""
    return t.unsqueeze(1).expand(-1, replicas, *t.shape[1:]) if dim is None else t.movedim(dim, 1)


def stacked(t: Tensor, dim: int | None, replicas: int) -> Tensor:
    """The same as one more row for each, [replicas, ...]."""
    return t.expand(replicas, *t.shape) if dim is None else t.movedim(dim, 0)


def joined(ptr: Tensor, rows: int) -> Tensor:
    """The pointers of R graphs of `rows` messages each, [R, N + 1], as those of one graph, [R·N + 1]."""
    before = rows * torch.arange(len(ptr), device=ptr.device).unsqueeze(1)
    starts = ptr + before
    return torch.cat([starts[:, :-1].flatten(), starts[-1, -1:]])


def _lift(
    function: Callable[[Tensor, Tensor, int], Tensor], info: Any, dims: tuple, t: Tensor, ptr: Tensor, E: int
) -> tuple[Tensor, int]:
    """For torch.func.vmap: replicas are channels; where each has a graph of its own, all of them are one graph."""
    R = info.batch_size
    if dims[1] is None:
        return function(_replicas_as_channels(t, dims[0], R), ptr, E), 1
    t, known = stacked(t, dims[0], R).flatten(0, 1), joined_of(ptr)
    whole = joined(ptr.movedim(dims[1], 0), E) if known is None else known.ptr
    return function(t, whole, R * E).unflatten(0, (R, -1)), 0


def _rows(m: Tensor, dim: int | None) -> int:
    return m.shape[1 if dim == 0 else 0]


class _Sum(Function):
    @staticmethod
    def forward(m: Tensor, ptr: Tensor) -> Tensor:
        out = m.new_zeros(ptr.shape[0] - 1, *m.shape[1:])
        if m.numel() == 0:
            return out
        if m.is_cuda:  # index_add_ would use atomics there, in an order that changes from run to run
            return torch.segment_reduce(m.contiguous(), "sum", offsets=ptr, axis=0, unsafe=True)
        return out.index_add_(0, _target(ptr, m.shape[0]), m)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        m, ptr = inputs
        ctx.save_for_backward(ptr)
        ctx.num_messages = m.shape[0]

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor, None]:
        (ptr,) = ctx.saved_tensors
        return _Spread.apply(g, ptr, ctx.num_messages), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, m: Tensor, ptr: Tensor) -> tuple[Tensor, int]:
        return _lift(lambda m, ptr, _: _Sum.apply(m, ptr), info, in_dims, m, ptr, _rows(m, in_dims[0]))


class _Spread(Function):
    @staticmethod
    def forward(v: Tensor, ptr: Tensor, num_messages: int) -> Tensor:
        return v.index_select(0, _target(ptr, num_messages))

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor, None, None]:
        (ptr,) = ctx.saved_tensors
        return _Sum.apply(g, ptr), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, v: Tensor, ptr: Tensor, num_messages: int) -> tuple[Tensor, int]:
        return _lift(_Spread.apply, info, in_dims, v, ptr, num_messages)


class _Max(Function):
    @staticmethod
    def forward(m: Tensor, ptr: Tensor) -> Tensor:
        top = m.new_zeros(ptr.shape[0] - 1, *m.shape[1:])
        if m.numel() == 0:
            return top
        index = _target(ptr, m.shape[0]).view(-1, *[1] * (m.dim() - 1)).expand_as(m)
        return top.scatter_reduce_(0, index, m, "amax", include_self=False)  # a maximum is exact in any order

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        m, ptr = inputs
        ctx.save_for_backward(m, output, ptr)

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor, None]:
        m, top, ptr = ctx.saved_tensors
        is_top = (m.detach() == spread(top.detach(), ptr, m.shape[0])).to(m.dtype)
        ties = sum(is_top, ptr).clamp(min=1)
        return spread(g / ties, ptr, m.shape[0]) * is_top, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, m: Tensor, ptr: Tensor) -> tuple[Tensor, int]:
        return _lift(lambda m, ptr, _: _Max.apply(m, ptr), info, in_dims, m, ptr, _rows(m, in_dims[0]))
