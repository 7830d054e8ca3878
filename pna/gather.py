"""All aggregates of all neighbourhoods, without the [E, F] tensor of messages.

A linear M(x_i, e_ij, x_j) = W1 x_i + b + W3 e_ij + W2 x_j is the sum of a part for the target i, one for the edge and
one for the source j. The target's part is the same for every neighbour, so it only shifts the aggregates, by a law of
each aggregator. The rest is aggregated, on a GPU in one pass over the neighbours (pna.kernels). The plain-torch twin of
that pass works on a block of nodes at a time: only the messages of one block exist, and the backward pass computes them
again. pna.dispatch chooses among the four functions that begin with `by_`.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna import aggregators as equations
from pna import segments, together
from pna.derivatives import derivative
from pna.kernels import operators
from pna.kernels.replicas import join_graphs
from pna.kernels.selection import many
from pna.neighbourhoods import Neighbourhoods
from pna.workers import over_features

__all__ = ["BLOCK", "by_blocks", "by_equations", "by_kernels", "by_operator"]

BLOCK = 1 << 20  # numbers in the messages of one block: small against a large graph, large against the cost of a call


def by_kernels(
    graph: Neighbourhoods, names: Sequence[str], source: Tensor | None, edge: Tensor | None, target: Tensor | None
) -> Tensor:
    """Aggregate target_i + edge_ij + source_j in one pass on a GPU; the arguments are those of dispatch.aggregate."""
    parts, shape = _flat(graph, names, source, edge, target)
    known = () if graph.joined is None else (graph.joined.ptr, graph.joined.source, *graph.joined.transpose)
    transpose = graph.transpose or (None,) * 3
    return _fused(*parts, graph.ptr, graph.source, *transpose, " ".join(names), *known).view(shape)


def by_equations(
    graph: Neighbourhoods, names: Sequence[str], source: Tensor | None, edge: Tensor | None, target: Tensor | None
) -> Tensor:
    """Aggregate target_i + edge_ij + source_j by the equations of pna.aggregators, with a message for every edge."""
    parts = None if source is None else source[graph.source], edge, None if target is None else target[graph.target]
    m = functools.reduce(torch.add, (part for part in parts if part is not None))  # [E, ..., F]
    return torch.stack([equations.resolve(name).function(m, graph.ptr) for name in names], dim=-2)


def _aggregate(
    function: type[Function],
    graph: Neighbourhoods,
    names: Sequence[str],
    source: Tensor | None,
    edge: Tensor | None,
    target: Tensor | None,
) -> Tensor:
    """Aggregate target_i + edge_ij + source_j a block of nodes at a time, by a Function of source and edge."""
    (*parts, _), shape = _flat(graph, names, source, edge, target)
    out = function.apply(*parts, graph.ptr, graph.source, " ".join(names)).view(shape)
    if target is None:
        return out
    empty = (graph.degree == 0).view(-1, *[1] * (target.dim() - 1))
    target = target.masked_fill(empty, 0)  # an infinite one must not come in as 0 · ∞
    wide, target = _wide(out), target.unsqueeze(-2)  # float16 has no degree of 65,520, nor the product with one
    return torch.addcmul(out.to(wide), _shift(graph.ptr, names, out), target.to(wide)).to(out.dtype)


def _flat(
    graph: Neighbourhoods, names: Sequence[str], source: Tensor | None, edge: Tensor | None, target: Tensor | None
) -> tuple[list[Tensor | None], tuple[int, ...]]:
    """The parts of the messages as [N or E, C, F], and the shape [N, ..., A, F] of the aggregates."""
    *channels, F = (source if source is not None else edge).shape[1:]
    C = math.prod(channels)
    parts = [None if t is None else t.reshape(t.shape[0], C, F) for t in (source, edge, target)]
    return parts, (graph.ptr.shape[0] - 1, *channels, len(names), F)


def _shift(ptr: Tensor, names: Sequence[str], out: Tensor) -> Tensor:
    """How often the target's part is added to each aggregate: once, d times or not at all, [N, 1, ..., A, 1]."""
    d = ptr.diff().to(_wide(out))
    times = {"one": d.clamp(max=1), "degree": d, "none": torch.zeros_like(d)}
    shift = torch.stack([times[equations.resolve(name).shift] for name in names], dim=-1)  # [N, A]
    return shift.view(d.shape[0], *[1] * (out.dim() - 3), len(names), 1)


# ---- the operator: messages of a block of nodes at a time ----


def aggregate_blocks(source: Tensor | None, edge: Tensor | None, ptr: Tensor, column: Tensor, names: str) -> Tensor:
    """Aggregate by the equations of pna.aggregators: source [N, C, F] and edge [E, C, F] -> [N, C, A, F]."""
    values = source if source is not None else edge
    split = names.split()
    if _is_one_block(column, values):
        return _aggregate_block(_messages(source, edge, column), ptr, split)
    out = values.new_empty(ptr.shape[0] - 1, values.shape[1], len(split), values.shape[2])

    def aggregate(share: slice) -> None:
        """Fill a share of the features of `out`, block by block."""
        for nodes, messages, f in _blocks(ptr, values, share):
            m = _messages(source, edge, column, messages, f)  # [e, C, f]
            out[nodes, :, :, f] = _aggregate_block(m, ptr[nodes.start : nodes.stop + 1] - messages.start, split)

    over_features(aggregate, values.shape[2])
    return out


def _aggregate_block(m: Tensor, ptr: Tensor, names: Sequence[str]) -> Tensor:
    """Aggregate the messages of one block, [e, C, f] -> [n, C, A, f]."""
    if m.is_cpu and m.dtype == _wide(m) and together.NAMES.issuperset(names):
        return together.aggregates(m, ptr.diff(), names)[0]
    return torch.stack([equations.resolve(name).function(m, ptr) for name in names], dim=2)


gather_aggregate = torch.library.custom_op("pna::gather_aggregate", aggregate_blocks, mutates_args=())


@gather_aggregate.register_fake
def _(source: Tensor | None, edge: Tensor | None, ptr: Tensor, column: Tensor, names: str) -> Tensor:
    """Allocate the aggregates [N, C, A, F], which tells a compiler their shape."""
    values = source if source is not None else edge
    return values.new_empty(ptr.shape[0] - 1, values.shape[1], len(names.split()), values.shape[2])


def differentiate_blocks(
    g: Tensor, source: Tensor | None, edge: Tensor | None, ptr: Tensor, column: Tensor, names: str
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of source, with its strides, and of edge, contiguous; empty for a missing one."""
    values = source if source is not None else edge
    if _is_one_block(column, values):
        grad_m = _gradient(g, _messages(source, edge, column), ptr, names)
        grad_edge = values.new_empty(0) if edge is None else grad_m.to(values.dtype).contiguous()
        if source is None:
            return values.new_empty(0), grad_edge
        grad_source = torch.zeros_like(source, dtype=_wide(source))
        _add_rows(grad_source, column, grad_m)
        return grad_source.to(values.dtype), grad_edge
    grad_source = torch.zeros_like(source, dtype=_wide(source)) if source is not None else values.new_empty(0)
    grad_edge = values.new_empty(0 if edge is None else edge.shape)

    def differentiate(share: slice) -> None:
        """Fill a share of the features of grad_source and grad_edge, block by block."""
        for nodes, messages, f in _blocks(ptr, values, share):
            m = _messages(source, edge, column, messages, f)
            local = ptr[nodes.start : nodes.stop + 1] - messages.start
            grad_m = _gradient(g[nodes, :, :, f], m, local, names)  # [e, C, f]
            if edge is not None:
                grad_edge[messages, :, f] = grad_m
            if source is not None:
                _add_rows(grad_source[:, :, f], column[messages], grad_m)

    over_features(differentiate, values.shape[2])
    return grad_source.to(values.dtype), grad_edge


gather_aggregate_backward = torch.library.custom_op(
    "pna::gather_aggregate_backward", differentiate_blocks, mutates_args=()
)


@gather_aggregate_backward.register_fake
def _(
    g: Tensor, source: Tensor | None, edge: Tensor | None, ptr: Tensor, column: Tensor, names: str
) -> tuple[Tensor, Tensor]:
    """Allocate the gradients of source and edge, which tells a compiler their shapes; empty for a missing one."""
    values = source if source is not None else edge
    of_source = values.new_empty(0) if source is None else torch.empty_like(source)
    return of_source, values.new_empty(0 if edge is None else edge.shape)


def _is_one_block(column: Tensor, values: Tensor) -> bool:
    """Whether the messages are one block."""
    return not values.is_cpu or column.shape[0] * math.prod(values.shape[1:]) <= BLOCK  # a GPU takes all at once


_ALL = slice(None)


def _messages(
    source: Tensor | None, edge: Tensor | None, column: Tensor, messages: slice = _ALL, f: slice = _ALL
) -> Tensor:
    """Compute source_j + edge_ij for some messages and features, [e, C, f]."""
    if source is None:
        return edge[messages, :, f]
    m = source[:, :, f].index_select(0, column[messages])
    return m if edge is None else m + edge[messages, :, f]


def _blocks(ptr: Tensor, values: Tensor, share: slice) -> Iterator[tuple[slice, slice, slice]]:
    """Slices of nodes, of their messages and of a share of the features: about BLOCK numbers each."""
    N, C, F = ptr.shape[0] - 1, values.shape[1], share.stop - share.start
    E = int(ptr[-1])
    step = max(1, BLOCK // max(1, C * F))  # messages of one block
    starts = torch.arange(0, E, step, device=ptr.device)
    nodes = [0, *torch.searchsorted(ptr, starts[1:]).unique().tolist(), N]
    edges = ptr[torch.tensor(nodes, device=ptr.device)].tolist()
    for i in range(len(nodes) - 1):
        if nodes[i] == nodes[i + 1]:
            continue
        hub = edges[i + 1] - edges[i]
        width = F if hub <= 4 * step else max(1, F * step // hub)  # the messages of a hub are split by features
        for f in range(share.start, share.stop, width):
            yield slice(nodes[i], nodes[i + 1]), slice(edges[i], edges[i + 1]), slice(f, min(f + width, share.stop))


def _add_rows(out: Tensor, rows: Tensor, values: Tensor) -> None:
    """Add values [e, ...] in place to the rows of `out` that `rows` [e] names, in a fixed order."""
    if out.is_cuda:
        out.index_put_((rows,), values, accumulate=True)  # sorts, so that the order of the sum is fixed
    else:
        out.index_add_(0, rows, values)


def _gradient(g: Tensor, m: Tensor, ptr: Tensor, names: str) -> Tensor:
    """Compute Σ_a g_a ∂a/∂m_j for every message: g [n, C, A, f], m [e, C, f] -> [e, C, f]."""
    g, m = g.to(_wide(m)), m.to(_wide(m))
    split = names.split()
    if m.is_cpu and not torch.is_grad_enabled() and together.NAMES.issuperset(split):
        return together.gradient(g, m, split, together.aggregates(m, ptr.diff(), split)[1])
    return functools.reduce(torch.add, (derivative(name)(g[:, :, a], m, ptr) for a, name in enumerate(split)))


def _wide(t: Tensor) -> torch.dtype:
    """Dtype in which t is accumulated: float32 for half precision, else its own."""
    return torch.float32 if t.dtype in (torch.float16, torch.bfloat16) else t.dtype


# ---- how the operator is differentiated, and lifted to many replicas ----


class _Direct(Function):
    """The aggregation without the operator, which costs a small graph as much as the aggregation itself."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, source: Tensor | None, edge: Tensor | None, ptr: Tensor, column: Tensor, names: str
    ) -> Tensor:
        ctx.save_for_backward(source, edge, ptr, column)
        ctx.names = names
        return aggregate_blocks(source, edge, ptr, column, names)

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor | None, ...]:
        source, edge, ptr, column = ctx.saved_tensors
        differentiate = _differentiable_backward if torch.is_grad_enabled() or many(g) else differentiate_blocks
        grads = differentiate(g, source, edge, ptr, column, ctx.names)
        return *(None if t is None else grad for t, grad in zip((source, edge), grads, strict=True)), None, None, None


class _GatherAggregate(Function):
    """The operator inside a Function, so that torch.func's grad, jacrev and vmap see through it."""

    @staticmethod
    def forward(source: Tensor | None, edge: Tensor | None, ptr: Tensor, column: Tensor, names: str) -> Tensor:
        return gather_aggregate(source, edge, ptr, column, names)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        *tensors, ctx.names = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor | None, ...]:
        source, edge, ptr, column = ctx.saved_tensors
        if torch.is_grad_enabled() or many(g):  # for a second derivative or a Jacobian: by the equations, with messages
            grads = _differentiable_backward(g, source, edge, ptr, column, ctx.names)
        else:
            grads = gather_aggregate_backward(g, source, edge, ptr, column, ctx.names)
        return *(None if t is None else grad for t, grad in zip((source, edge), grads, strict=True)), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, source: Tensor | None, edge: Tensor | None, *rest: Any) -> tuple[Tensor, int]:
        """Aggregate replicas as channels, [N, R·C, F], or, if each has its own graph, as one graph, [R·N, C, F]."""
        R = info.batch_size
        *graph, names = rest
        if any(dim is not None for dim in in_dims[2:]):
            parts = _as_nodes(source, in_dims[0], R), _as_nodes(edge, in_dims[1], R)
            senders = None if source is None else len(parts[0]) // R
            graph = join_graphs(graph, in_dims[2:], R, senders)
            return _GatherAggregate.apply(*parts, *graph, names).unflatten(0, (R, -1)), 0
        parts = _as_channels(source, in_dims[0], R), _as_channels(edge, in_dims[1], R)
        return _GatherAggregate.apply(*parts, *rest).unflatten(1, (R, -1)), 1  # [N, R·C, A, F] -> [N, R, C, A, F]


by_blocks = functools.partial(_aggregate, _Direct)
by_operator = functools.partial(_aggregate, _GatherAggregate)

# For programs of torch.export, which keep the operator but not the Function around it.
gather_aggregate.register_autograd(_GatherAggregate.backward, setup_context=_GatherAggregate.setup_context)


def _as_nodes(t: Tensor | None, dim: int | None, R: int) -> Tensor | None:
    """Stack what torch.func.vmap batches along dim: [R, N, C, F] -> [R·N, C, F]."""
    return None if t is None else segments.stacked(t, dim, R).flatten(0, 1)


def _as_channels(t: Tensor | None, dim: int | None, R: int) -> Tensor | None:
    """Turn what torch.func.vmap batches along dim into channels: [R, N, C, F] -> [N, R·C, F]."""
    if t is None:
        return None
    t = t.unsqueeze(1).expand(-1, R, -1, -1) if dim is None else t.movedim(dim, 1)
    return t.flatten(1, 2)


def _differentiable_backward(
    g: Tensor, source: Tensor | None, edge: Tensor | None, ptr: Tensor, column: Tensor, names: str
) -> tuple[Tensor | None, ...]:
    """Compute the gradients of source and edge by operations that autograd can differentiate again."""
    m = None if source is None else source[column]  # index_select's own gradient has no fixed order on a GPU
    m = edge if m is None else m if edge is None else m + edge
    grad_m = _gradient(g, m, ptr, names).to(m.dtype)
    grad_source = None if source is None else torch.zeros_like(source).index_put((column,), grad_m, accumulate=True)
    return grad_source, grad_m


# ---- the kernels as a Function ----


def _fused(source: Tensor | None, edge: Tensor | None, target: Tensor | None, *rest: Any) -> Tensor:
    """Aggregate by the kernels: source and target [N, C, F], edge [E, C, F] -> [N, C, A, F].

    The rest: ptr, column, the transpose's three tensors, the aggregators' names, and perhaps those five tensors of the
    joined graphs of all replicas. What the backward pass needs is saved only if there will be one.
    """
    parts = (source, edge, target)
    save = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in parts)
    return _FusedAggregate.apply(save, *parts, *rest)[0]


class _FusedAggregate(Function):
    """The operators of pna.kernels.operators, differentiable and lifted to replicas."""

    @staticmethod
    def forward(
        save: bool,
        source: Tensor | None,
        edge: Tensor | None,
        target: Tensor | None,
        ptr: Tensor,
        column: Tensor,
        *rest: Any,
    ) -> tuple[Tensor, ...]:
        _, _, _, names, *joined = rest
        return operators.aggregate(source, edge, target, ptr, column, names, save, hubs=not joined)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        ctx.save, *tensors, ctx.names = inputs[:10]
        ctx.hubs = len(inputs) == 10
        saved = output[1:]
        ctx.mark_non_differentiable(*saved)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *saved)

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        source, edge, target, ptr, column, *transpose_and_saved = ctx.saved_tensors
        parts, others = (source, edge, target), (None,) * (len(ctx.needs_input_grad) - 4)
        if g is None:
            return None, None, None, None, *others
        if torch.is_grad_enabled() or many(g):  # for a second derivative or a Jacobian
            grads = _differentiable_backward(g, source, edge, ptr, column, ctx.names)
            grads = (*grads, None if target is None else _target_gradient(g, ptr, ctx.names))
        else:
            transpose, saved = transpose_and_saved[:3], transpose_and_saved[3:]
            if not ctx.save:  # the forward pass, inside a transformation of torch.func, did not know
                saved = operators.aggregate(source, edge, None, ptr, column, ctx.names, True, ctx.hubs)[1:]
            tensors = (g, source, edge, ptr, column, *transpose, ctx.names, *saved)
            grads = operators.aggregate_backward(*tensors, target is not None, ctx.hubs)
        return None, *(None if t is None else grad for t, grad in zip(parts, grads, strict=True)), *others

    @staticmethod
    def vmap(info: Any, in_dims: tuple, save: bool, *inputs: Any) -> tuple[tuple, tuple[int | None, ...]]:
        """Aggregate replicas as channels or, if each has its own graph, as one graph."""
        R, graph, names, joined = info.batch_size, inputs[3:8], inputs[8], inputs[9:]
        dims = in_dims[4:9]
        several = any(dim is not None for dim in dims)  # graphs, one for each replica
        lift, at = (_as_nodes, 0) if several else (_as_channels, 1)
        parts = [lift(t, dim, R) for t, dim in zip(inputs[:3], in_dims[1:4], strict=True)]
        if several:
            graph = joined or join_graphs(graph, dims, R)
        out = _fused(*parts, *graph, names, *joined)
        return (out.unflatten(at, (R, -1)), *(out.new_empty(0) for _ in range(5))), (at, *(None,) * 5)


def _target_gradient(g: Tensor, ptr: Tensor, names: str) -> Tensor:
    """Compute the gradient of the target's part from that of the aggregates: g [N, C, A, F] -> [N, C, F]."""
    return (g * _shift(ptr, names.split(), g)).sum(-2).to(g.dtype)
