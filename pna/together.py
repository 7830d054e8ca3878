"""Mean, sum, max, min, var and std of the same messages (equations 1 to 3), with their common terms computed once.

pna.aggregators has the equations one by one, and pna.derivatives their derivatives. Here are the same numbers in few
operations, because on a CPU the number of operations takes most of a small graph's time. Nothing is recorded for
autograd: the callers have a backward pass of their own.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pna.aggregators import EPSILON

__all__ = ["NAMES", "Statistics", "aggregates", "gradient"]

NAMES = frozenset(("mean", "sum", "max", "min", "var", "std"))


class Statistics(NamedTuple):
    """The tensors of the aggregation that the gradient needs, or None where no aggregator needs one."""

    target: Tensor  # [E], the node of each message
    d: Tensor  # [N, 1, 1], the degree, at least 1
    centred: Tensor | None  # [E, C, F], X - μ
    std: Tensor | None  # [N, C, F], σ with its ε
    extremes: Tensor | None  # [N, C, X, F]: max, min or both, as in the names


def aggregates(m: Tensor, degree: Tensor, names: Sequence[str]) -> tuple[Tensor, Statistics]:
    """Aggregate messages [E, C, F] in CSR order, with the degrees [N] -> [N, C, A, F]."""
    target = torch.repeat_interleave(degree, output_size=m.shape[0])
    d = degree.clamp(min=1).to(m.dtype).view(-1, 1, 1)
    columns, centred, std = {}, None, None
    if not {"max", "min"}.issuperset(names):
        columns["sum"] = _sum(m, target, d)
        columns["mean"] = columns["sum"] / d
    if "std" in names or "var" in names:
        centred = m - columns["mean"].index_select(0, target)
        rest = _sum(centred, target, d).div_(d)  # the rounding of the mean
        centred.sub_(rest.index_select(0, target))
        columns["var"] = _sum(centred.square(), target, d).div_(d)
    if "std" in names:
        std = (columns["var"] + EPSILON).sqrt_()
        columns["std"] = std * degree.clamp(max=1).view(-1, 1, 1)  # an empty neighbourhood has none
    for name in _extremes(names):
        columns[name] = _extreme(m, target, d, name)
    extremes = [columns[name] for name in _extremes(names)]
    statistics = Statistics(target, d, centred, std, torch.stack(extremes, dim=2) if extremes else None)
    return torch.stack([columns[name] for name in names], dim=2), statistics


def gradient(g: Tensor, m: Tensor, names: Sequence[str], statistics: Statistics) -> Tensor:
    """Compute Σ_a g_a ∂a/∂m_j for every message: g [N, C, A, F], m [E, C, F] -> [E, C, F]."""
    target, d, centred, std, extremes = statistics
    grads: dict[str, Tensor] = {}
    for name, grad in zip(names, g.unbind(2), strict=True):
        grads[name] = grads[name] + grad if name in grads else grad
    terms = []
    if "sum" in grads:
        terms.append(grads["sum"].index_select(0, target))
    if "mean" in grads:
        terms.append((grads["mean"] / d).index_select(0, target))
    if "var" in grads:  # ∂σ²/∂m_j = 2 (m_j - μ) / d
        terms.append((2 * grads["var"] / d).index_select(0, target).mul_(centred))
    if "std" in grads:  # ∂σ/∂m_j = (m_j - μ) / (d σ)
        terms.append((grads["std"] / (d * std)).index_select(0, target).mul_(centred))
    if extremes is not None:  # equal maxima share the gradient evenly
        hit = (m.unsqueeze(2) == extremes.index_select(0, target)).to(m.dtype)  # [E, C, X, F]
        share = torch.stack([grads[name] for name in _extremes(names)], dim=2) / _sum(hit, target, d).clamp_(min=1)
        terms.append(share.index_select(0, target).mul_(hit).sum(2))
    total, *rest = terms
    for term in rest:
        total.add_(term)
    return total


def _extremes(names: Sequence[str]) -> list[str]:
    """List which of max and min are among the names."""
    return [name for name in ("max", "min") if name in names]


def _sum(v: Tensor, target: Tensor, d: Tensor) -> Tensor:
    """Sum over each neighbourhood, [E, ...] -> [N, ...]."""
    return v.new_zeros(d.shape[0], *v.shape[1:]).index_add_(0, target, v)


def _extreme(m: Tensor, target: Tensor, d: Tensor, name: str) -> Tensor:
    """Maximum or minimum of each neighbourhood, [E, ...] -> [N, ...], 0 for an empty one."""
    out = m.new_zeros(d.shape[0], *m.shape[1:])
    if m.numel() == 0:
        return out
    index = target.view(-1, 1, 1).expand_as(m)
    return out.scatter_reduce_(0, index, m, "amax" if name == "max" else "amin", include_self=False)
