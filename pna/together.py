"""Mean, sum, max, min, var and std of the same messages (equations 1 to 3): what they share is computed once.

The equations one by one are in pna.aggregators, their derivatives in pna.derivatives; here are the same numbers in few
operations, for a layer on a CPU, where most of a small graph's time is the number of operations. Nothing here is
recorded for autograd: those who call it have both directions.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pna.aggregators import EPSILON

__all__ = ["NAMES", "Kept", "aggregates", "gradient"]

NAMES = frozenset(("mean", "sum", "max", "min", "var", "std"))


class Kept(NamedTuple):
    """What the gradient needs of the aggregation, and None for what no name asks for."""

    target: Tensor  # [E], the node of each message
    d: Tensor  # [N, 1, 1], the degree, at least 1
    centred: Tensor | None  # [E, C, F], X - μ
    std: Tensor | None  # [N, C, F], σ with its ε
    extremes: Tensor | None  # [N, C, X, F]: max, min or both, as in the names


def aggregates(m: Tensor, degree: Tensor, names: Sequence[str]) -> tuple[Tensor, Kept]:
    """Messages [E, C, F] in CSR order and the degrees [N] -> [N, C, A, F]."""
    target = torch.repeat_interleave(degree, output_size=m.shape[0])
    d = degree.clamp(min=1).to(m.dtype).view(-1, 1, 1)
    found, centred, std = {}, None, None
    if not {"max", "min"}.issuperset(names):
        found["sum"] = _sum(m, target, d)
        found["mean"] = found["sum"] / d
    if "std" in names or "var" in names:
        centred = m - found["mean"].index_select(0, target)
        rest = _sum(centred, target, d).div_(d)  # the rounding of the mean
        centred.sub_(rest.index_select(0, target))
        found["var"] = _sum(centred.square(), target, d).div_(d)
    if "std" in names:
        std = (found["var"] + EPSILON).sqrt_()
        found["std"] = std * degree.clamp(max=1).view(-1, 1, 1)  # an empty neighbourhood has none
    for name in _extremes(names):
        found[name] = _extreme(m, target, d, name)
    extremes = [found[name] for name in _extremes(names)]
    kept = Kept(target, d, centred, std, torch.stack(extremes, dim=2) if extremes else None)
    return torch.stack([found[name] for name in names], dim=2), kept


def gradient(g: Tensor, m: Tensor, names: Sequence[str], kept: Kept) -> Tensor:
    """Σ_a g_a ∂a/∂m_j for every message: g [N, C, A, F], m [E, C, F] -> [E, C, F]."""
    target, d, centred, std, extremes = kept
    of: dict[str, Tensor] = {}
    for name, one in zip(names, g.unbind(2), strict=True):
        of[name] = of[name] + one if name in of else one
    terms = []
    if "sum" in of:
        terms.append(of["sum"].index_select(0, target))
    if "mean" in of:
        terms.append((of["mean"] / d).index_select(0, target))
    if "var" in of:  # ∂σ²/∂m_j = 2 (m_j - μ) / d
        terms.append((2 * of["var"] / d).index_select(0, target).mul_(centred))
    if "std" in of:  # ∂σ/∂m_j = (m_j - μ) / (d σ)
        terms.append((of["std"] / (d * std)).index_select(0, target).mul_(centred))
    if extremes is not None:  # equal maxima share the gradient evenly
        hit = (m.unsqueeze(2) == extremes.index_select(0, target)).to(m.dtype)  # [E, C, X, F]
        share = torch.stack([of[name] for name in _extremes(names)], dim=2) / _sum(hit, target, d).clamp_(min=1)
        terms.append(share.index_select(0, target).mul_(hit).sum(2))
    total, *rest = terms
    for term in rest:
        total.add_(term)
    return total


def _extremes(names: Sequence[str]) -> list[str]:
    return [name for name in ("max", "min") if name in names]


def _sum(v: Tensor, target: Tensor, d: Tensor) -> Tensor:
    return v.new_zeros(d.shape[0], *v.shape[1:]).index_add_(0, target, v)


def _extreme(m: Tensor, target: Tensor, d: Tensor, name: str) -> Tensor:
    out = m.new_zeros(d.shape[0], *m.shape[1:])
    if m.numel() == 0:
        return out
    index = target.view(-1, 1, 1).expand_as(m)
    return out.scatter_reduce_(0, index, m, "amax" if name == "max" else "amin", include_self=False)
