"""The fused aggregation as operators of torch, which torch.compile, autocast and CUDA graphs know how to handle.

Triton is imported at the first call: without a GPU, the package works without it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from pna.kernels.selection import usable
from pna.neighbourhoods import transpose_edges

__all__ = ["aggregate", "aggregate_backward", "supports"]

_FUSED = frozenset(("mean", "sum", "max", "min", "std", "var", "moment2", "moment3", "moment4", "moment5"))


def supports(names: Sequence[str], messages: Tensor) -> bool:
    """Whether kernels can read these messages and there is one for each of these aggregators, none named twice."""
    return usable(messages) and _FUSED.issuperset(names) and len(set(names)) == len(names)


_library = torch.library.Library("pna", "FRAGMENT")
_library.define(
    "fused_aggregate(Tensor? source, Tensor? edge, Tensor? target, Tensor ptr, Tensor column, str names, bool save,"
    " bool hubs=True)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_library.define(
    "fused_aggregate_backward(Tensor g, Tensor? source, Tensor? edge, Tensor ptr, Tensor column,"
    " Tensor? sender_ptr, Tensor? receiver, Tensor? place, str names,"
    " Tensor shift, Tensor stats, Tensor ties, Tensor hub_ties, Tensor marks, bool target,"
    " bool hubs=True) -> (Tensor, Tensor, Tensor)"
)


def _aggregate(
    source: Tensor | None,
    edge: Tensor | None,
    target: Tensor | None,
    ptr: Tensor,
    column: Tensor,
    names: str,
    save: bool,
    hubs: bool = True,
) -> tuple[Tensor, ...]:
    """Aggregate source and target [N, G, F] and edge [E, G, F]: [N, G, A, F], and what the backward pass needs."""
    from pna.kernels.aggregation import forward

    out, saved = forward(source, edge, target, ptr, column, names, save, hubs=hubs)
    return out, *saved


def _aggregate_backward(
    g: Tensor,
    source: Tensor | None,
    edge: Tensor | None,
    ptr: Tensor,
    column: Tensor,
    sender_ptr: Tensor | None,
    receiver: Tensor | None,
    place: Tensor | None,
    names: str,
    shift: Tensor,
    stats: Tensor,
    ties: Tensor,
    hub_ties: Tensor,
    marks: Tensor,
    target: bool,
    hubs: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of source, edge and target from g [N, G, A, F]; empty for a missing one.

    The messages are sorted by sender unless the transpose's three tensors are given.
    """
    from pna.kernels.aggregation import Saved
    from pna.kernels.aggregation_backward import backward

    transpose = (sender_ptr, receiver, place)
    if sender_ptr is None and source is not None:
        transpose = transpose_edges(ptr, column)
    saved = Saved(shift, stats, ties, hub_ties, marks)
    return backward(g, source, edge, ptr, column, transpose, names, saved, target, hubs=hubs)


for _key in ("CUDA", "CPU"):  # on a CPU for Triton's interpreter, which the tests use
    _library.impl("fused_aggregate", _aggregate, _key)
    _library.impl("fused_aggregate_backward", _aggregate_backward, _key)


@torch.library.register_fake("pna::fused_aggregate", lib=_library)
def _(
    source: Tensor | None,
    edge: Tensor | None,
    target: Tensor | None,
    ptr: Tensor,
    column: Tensor,
    names: str,
    save: bool,
    hubs: bool = True,
) -> tuple[Tensor, ...]:
    """Allocate the aggregates [N, G, A, F] and what the backward pass needs, which tells a compiler their shapes."""
    from pna.kernels.aggregation import allocate

    messages = source if source is not None else edge
    return allocate(messages, ptr.shape[0] - 1, column.shape[0], names, save, hubs=hubs)


@torch.library.register_fake("pna::fused_aggregate_backward", lib=_library)
def _(
    g: Tensor, source: Tensor | None, edge: Tensor | None, ptr: Tensor, column: Tensor, *rest: object
) -> tuple[Tensor, Tensor, Tensor]:
    """Allocate the gradients of source, edge and target (empty if missing), which tells a compiler their shapes."""
    messages, target = source if source is not None else edge, rest[9]  # hubs may come after it
    grads = (messages.new_empty(0) if t is None else t.new_empty(t.shape) for t in (source, edge))
    return *grads, messages.new_empty(ptr.shape[0] - 1 if target else 0, *messages.shape[1:])


aggregate = torch.ops.pna.fused_aggregate.default
aggregate_backward = torch.ops.pna.fused_aggregate_backward.default
