"""Sums, maxima and copies over neighbourhoods in CSR order.

The messages of node i are the rows ptr[i] : ptr[i + 1] of m. `sum` and `spread` are each other's transpose, so each is
the other's gradient: every derivative, of any order, is again a deterministic reduction without atomics. Where replicas
under torch.func.vmap have different graphs, `joined` is the graph of all of them, if it exists already.

Under forward mode (torch.func.jvp) all three are operations of torch, which alone have derivatives of that kind.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.arguments import is_forward_mode
from pna.neighbourhoods import Joined, Neighbourhoods

__all__ = ["joined_index", "joined_ptr", "max", "sent", "spread", "stacked", "sum"]


def sum(m: Tensor, ptr: Tensor, joined: Joined | None = None) -> Tensor:
    """Sum over each neighbourhood, [E, ...] -> [N, ...]; 0 for an empty one."""
    if is_forward_mode():
        target = _target(ptr, m.shape[0], None)
        return m.new_zeros(ptr.shape[0] - 1, *m.shape[1:]).index_put((target,), m, accumulate=True)
    return _Sum.apply(m, ptr, *_known(joined))


def spread(v: Tensor, ptr: Tensor, num_messages: int, joined: Joined | None = None) -> Tensor:
    """Copy the value of each node to all of its messages, [N, ...] -> [E, ...]."""
    if is_forward_mode():
        return v[_target(ptr, num_messages, None)]
    return _Spread.apply(v, ptr, num_messages, *_known(joined))


def max(m: Tensor, ptr: Tensor, joined: Joined | None = None) -> Tensor:
    """Maximum of each neighbourhood, [E, ...] -> [N, ...]; 0 for an empty one. Equal maxima share the gradient."""
    if is_forward_mode():
        return _Max.forward(m, ptr, None, None)
    return _Max.apply(m, ptr, *_known(joined))


def sent(x: Tensor, graph: Neighbourhoods) -> Tensor:
    """Copy the value of each sender to its messages, [V, ...] -> [E, ...].

    If the graph has its transpose, the gradient is summed in a fixed order, without atomics and without sorting.
    """
    if graph.transpose is None:
        return x[graph.source]
    return _Sent.apply(x, *_ways(graph), *(() if graph.joined is None else _ways(graph.joined)))


def _ways(graph: Neighbourhoods | Joined) -> tuple[Tensor, Tensor, Tensor]:
    """The sender of each message [E], and the pointers [V + 1] and places [E] of each sender's messages."""
    return graph.source, graph.transpose.ptr, graph.transpose.place


def _known(joined: Joined | None) -> tuple[Tensor | None, Tensor | None]:
    """Pointers and targets of the joined graph of all replicas; both None if the graphs are not joined."""
    return (None, None) if joined is None else (joined.ptr, joined.target)


def _target(ptr: Tensor, num_messages: int, known: Tensor | None) -> Tensor:
    """The receiver of each message, [E]."""
    return torch.repeat_interleave(ptr.diff().long(), output_size=num_messages) if known is None else known


def _replicas_as_channels(t: Tensor, dim: int | None, replicas: int) -> Tensor:
    """Turn what torch.func.vmap batches along dim into channels: [rows, replicas, ...]."""
    return t.unsqueeze(1).expand(-1, replicas, *t.shape[1:]) if dim is None else t.movedim(dim, 1)


def stacked(t: Tensor, dim: int | None, replicas: int) -> Tensor:
    """Put what torch.func.vmap batches along dim first, and repeat what it does not batch: [replicas, ...]."""
    return t.expand(replicas, *t.shape) if dim is None else t.movedim(dim, 0)


def joined_ptr(ptr: Tensor, rows: int) -> Tensor:
    """Join the pointers of R graphs with `rows` messages each: [R, N + 1] -> [R·N + 1]."""
    before = rows * torch.arange(len(ptr), device=ptr.device).unsqueeze(1)
    starts = ptr + before
    return torch.cat([starts[:, :-1].flatten(), starts[-1, -1:]])


def joined_index(index: Tensor, step: int) -> Tensor:
    """Join indices into R graphs with `step` nodes (or messages) each: [R, E] -> [R·E]."""
    return (index + step * torch.arange(len(index), device=index.device).unsqueeze(1)).flatten()


def _lift(
    function: Callable[..., Tensor], info: Any, dims: tuple, t: Tensor, ptr: Tensor, E: int, known: tuple
) -> tuple[Tensor, int]:
    """Lift a function to replicas for torch.func.vmap: as channels or, if each has its own graph, as one graph."""
    R, (whole, target) = info.batch_size, known
    if dims[1] is None:
        return function(_replicas_as_channels(t, dims[0], R), ptr, E, *known), 1
    whole = joined_ptr(ptr.movedim(dims[1], 0), E) if whole is None else whole
    return function(stacked(t, dims[0], R).flatten(0, 1), whole, R * E, whole, target).unflatten(0, (R, -1)), 0


def _lift_reduction(
    reduce: Callable[..., Tensor], info: Any, dims: tuple, m: Tensor, ptr: Tensor, known: tuple
) -> tuple[Tensor, int]:
    """Lift a reduction to replicas for torch.func.vmap; m has a row for each message."""
    E = m.shape[1 if dims[0] == 0 else 0]
    return _lift(lambda m, ptr, _, *known: reduce(m, ptr, *known), info, dims, m, ptr, E, known)


class _Sum(Function):
    """The sum, whose gradient is _Spread."""

    @staticmethod
    def forward(m: Tensor, ptr: Tensor, whole: Tensor | None, target: Tensor | None) -> Tensor:
        out = m.new_zeros(ptr.shape[0] - 1, *m.shape[1:])
        if m.numel() == 0:
            return out
        if m.is_cuda:  # index_add_ would use atomics there, in an order that changes from run to run
            return torch.segment_reduce(m.contiguous(), "sum", offsets=ptr, axis=0, unsafe=True)
        return out.index_add_(0, _target(ptr, m.shape[0], target), m)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        m, *graph = inputs
        ctx.save_for_backward(*graph)
        ctx.num_messages = m.shape[0]

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor | None, ...]:
        ptr, *known = ctx.saved_tensors
        return _Spread.apply(g, ptr, ctx.num_messages, *known), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, m: Tensor, ptr: Tensor, *known: Tensor | None) -> tuple[Tensor, int]:
        return _lift_reduction(_Sum.apply, info, in_dims, m, ptr, known)


class _Spread(Function):
    """The copy, whose gradient is _Sum."""

    @staticmethod
    def forward(v: Tensor, ptr: Tensor, num_messages: int, whole: Tensor | None, target: Tensor | None) -> Tensor:
        return v.index_select(0, _target(ptr, num_messages, target))

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        _, ptr, _, *known = inputs
        ctx.save_for_backward(ptr, *known)

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor | None, ...]:
        return _Sum.apply(g, *ctx.saved_tensors), None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, v: Tensor, ptr: Tensor, E: int, *known: Tensor | None) -> tuple[Tensor, int]:
        return _lift(_Spread.apply, info, in_dims, v, ptr, E, known)


class _Max(Function):
    """The maximum, whose gradient equal maxima share."""

    @staticmethod
    def forward(m: Tensor, ptr: Tensor, whole: Tensor | None, target: Tensor | None) -> Tensor:
        top = m.new_zeros(ptr.shape[0] - 1, *m.shape[1:])
        if m.numel() == 0:
            return top
        index = _target(ptr, m.shape[0], target).view(-1, *[1] * (m.dim() - 1)).expand_as(m)
        return top.scatter_reduce_(0, index, m, "amax", include_self=False)  # a maximum is exact in any order

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        m, *graph = inputs
        ctx.save_for_backward(m, output, *graph)

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor | None, ...]:
        m, top, ptr, *known = ctx.saved_tensors
        is_top = (m.detach() == _Spread.apply(top.detach(), ptr, m.shape[0], *known)).to(m.dtype)
        ties = _Sum.apply(is_top, ptr, *known).clamp(min=1)
        return _Spread.apply(g / ties, ptr, m.shape[0], *known) * is_top, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, m: Tensor, ptr: Tensor, *known: Tensor | None) -> tuple[Tensor, int]:
        return _lift_reduction(_Max.apply, info, in_dims, m, ptr, known)


class _Sent(Function):
    """The copy from senders, whose gradient is a sum over the transpose."""

    @staticmethod
    def forward(x: Tensor, source: Tensor, ptr: Tensor, place: Tensor, *joined: Tensor) -> Tensor:
        return x.index_select(0, source)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(*inputs[2:4])

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor | None, ...]:
        ptr, place = ctx.saved_tensors
        return _Sum.apply(g.index_select(0, place), ptr, None, None), *(None,) * (len(ctx.needs_input_grad) - 1)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, x: Tensor, *graph: Tensor) -> tuple[Tensor, int]:
        R, (dim, *dims), joined = info.batch_size, in_dims, graph[3:]
        if all(d is None for d in dims):  # replicas are channels
            return _Sent.apply(x.movedim(dim, 1), *graph), 1
        if not joined:
            source, ptr, place = (stacked(t, d, R) for t, d in zip(graph, dims, strict=True))
            E = place.shape[1]
            joined = joined_index(source, ptr.shape[1] - 1), joined_ptr(ptr, E), joined_index(place, E)
        return _Sent.apply(stacked(x, dim, R).flatten(0, 1), *joined).unflatten(0, (R, -1)), 0
