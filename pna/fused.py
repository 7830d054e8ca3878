"""Equation 8 in few operations.

Equation 8 as it stands makes a message of every edge. A linear M splits into parts for the receiver, the edge and the
sender, M = W1 x_i + W3 e_ij + W2 x_j + b. What depends on one node alone is then one product for all nodes, only the
sender's part is gathered, and without edge features no message exists (`split`). On a GPU the whole layer is one
function (`layer`, by pna.kernels.layer).
"""

import functools
from collections.abc import Callable, Sequence
from types import ModuleType

import torch
from torch import Tensor, nn

from pna.combined import CombinedAggregation
from pna.dispatch import aggregate
from pna.neighbourhoods import Neighbourhoods, check_range
from pna.towers import TowerLinear, affine, product

__all__ = ["layer", "split"]


def split(
    x_i: Tensor,
    x_j: Tensor,
    graph: Neighbourhoods,
    M: Sequence[nn.Module],
    U: TowerLinear,
    combined: CombinedAggregation,
    edge: Tensor | None = None,
    encoder: nn.Linear | None = None,
    swap_extremes: bool = False,
    scale: Tensor | None = None,
) -> Tensor:
    """Compute equation 8 up to U, the first layer of its network, with the first layer of M in parts -> [N, T, out].

    x_i and x_j [N, T or 1, F] are the features of receivers and senders, perhaps the same tensor. The edge features [E,
    edge_dim] are in the order of the messages, and their linear encoder becomes a part of M. scale is S(d) of every
    node, [N, S], where many layers share it.
    """
    (first, *rest), F = M, x_i.shape[-1]
    names, edge_part, shift = combined.aggregators, None, first.bias
    W1, W2, W3 = first.weight.split([F, F, first.weight.shape[-1] - 2 * F], dim=-1)  # [T, F, F or encoded] each
    U1, U2 = U.weight.split([F, U.weight.shape[-1] - F], dim=-1)  # for x_i, and for the aggregates
    if edge is not None:  # the encoder is linear too: W3 (V e + c) = (W3 V) e + W3 c
        edge_part = product(edge.unsqueeze(1), W3 @ encoder.weight)  # [E, T, F]
        shift = shift if encoder.bias is None else shift + W3 @ encoder.bias
    update, target, source = _parts(x_i, x_j, (U1, W1, W2), U.bias, shift)
    if swap_extremes:
        aggregates = _swapped(graph, names, target, source)
    elif rest:
        m = target[graph.target] + source[graph.source]  # [E, T, F]
        m = m if edge_part is None else m + edge_part
        for module in rest:
            m = module(m)
        aggregates = aggregate(graph, names, edge=m)
    else:
        aggregates = aggregate(graph, names, source=source, edge=edge_part, target=target)  # [N, T, A, F]
    return update + combined.mapped(aggregates, graph.degree, U2, scale)


def _parts(
    x_i: Tensor, x_j: Tensor, weights: tuple[Tensor, Tensor, Tensor], bias: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute U's part for x_i, [N, T, out], and M's parts for x_i, with the bias, and for x_j, [N, T, F] each."""
    update, target, source = weights
    sizes = [update.shape[1], target.shape[1]]
    if x_i is x_j:
        bias = torch.cat([bias, shift, torch.zeros_like(shift)], dim=1)
        return affine(x_i, torch.cat([update, target, source], dim=1), bias).split([*sizes, source.shape[1]], dim=-1)
    bias = torch.cat([bias, shift], dim=1)
    return *affine(x_i, torch.cat([update, target], dim=1), bias).split(sizes, dim=-1), product(x_j, source)


def _swapped(graph: Neighbourhoods, names: Sequence[str], target: Tensor, source: Tensor) -> Tensor:
    """Aggregate as D5 does: mean, std, … of (W1 x_i + b) + W2 x_j, but max and min of (W1 x_j + b) + W2 x_i."""
    columns = {}
    extremes = [name for name in names if name in ("max", "min")]
    others = [name for name in names if name not in extremes]
    for group, i, j in ((others, target, source), (extremes, source, target)):
        if group:
            out = aggregate(graph, group, source=j, target=i)
            columns |= zip(group, out.unbind(-2), strict=True)
    return torch.stack([columns[name] for name in names], dim=-2)


# ---- the whole layer as one function, for a GPU ----


def layer(conv: nn.Module, x: Tensor, edges: Tensor | Neighbourhoods) -> Tensor:
    """Compute a PNAConv on a GPU by pna.kernels.layer, in few launches: x [N, in] -> [N, out].

    While a CUDA graph is recorded no value can be read: an edge that names no node is then silently ignored.
    """
    csr, kernels = _kernels()
    N = x.shape[0]
    if isinstance(edges, Neighbourhoods) and not conv.cached:
        if edges.flow is None:
            edges.check()
        return kernels(conv, x, edges)
    if conv.cached or not csr.supports(edges, N):
        return kernels(conv, x, conv.prepare(x, edges)[2])
    graph, failed = csr.graph_of(edges, N, conv.flow == "target_to_source", torch.is_grad_enabled())
    out = kernels(conv, x, graph)
    if failed():
        check_range(edges, N, N)
    return out


@functools.cache
def _kernels() -> tuple[ModuleType, Callable]:
    """Import the modules that need Triton: pna.kernels.csr, and the function of pna.kernels.layer."""
    from pna.kernels import csr
    from pna.kernels.layer import layer

    return csr, layer
