"""The aggregates by plain operations that ONNX has, for torch.onnx.export: gathers and scatters of unsorted edges.

ONNX knows neither CSR order nor the operators of this package. Nothing here is differentiated, and no value is looked
at, so the exported layer does not check that the edges name nodes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pna.aggregators import EPSILON
from pna.neighbourhoods import Neighbourhoods

__all__ = ["Edges", "aggregate"]


@dataclass(frozen=True)
class Edges:
    """A graph with its edges in any order, and the attributes of Neighbourhoods that a layer uses."""

    source: Tensor  # [E]
    target: Tensor  # [E]
    num_nodes: int
    senders: int | None
    order: Tensor | None = None  # [E], the place of each edge in the caller's list; None if they are in its order

    @classmethod
    def of(cls, graph: Neighbourhoods) -> "Edges":
        """Take over a graph that has been sorted before."""
        ends = graph.ptr[1:-1]  # ONNX has no repeat_interleave for `graph.target`: it counts the nodes that have ended
        target = _sum(torch.ones_like(ends), ends, graph.num_edges + 1).cumsum(0)[:-1]
        return cls(graph.source, target, graph.num_nodes, graph.senders, graph.order)

    @property
    def num_edges(self) -> int:
        """The number of messages E."""
        return self.source.shape[0]

    @property
    def degree(self) -> Tensor:
        """The degrees [N]."""
        return _sum(torch.ones_like(self.target), self.target, self.num_nodes)

    def sort(self, edge_attr: Tensor) -> Tensor:
        """Put the caller's edge features [E, ...] into the order of the messages."""
        return edge_attr if self.order is None else edge_attr[self.order]


def aggregate(
    graph: Edges, names: Sequence[str], source: Tensor | None, edge: Tensor | None, target: Tensor | None
) -> Tensor:
    """Aggregate target_i + edge_ij + source_j as dispatch.aggregate does: [N or E, ..., F] -> [N, ..., A, F]."""
    parts = [None if source is None else source[graph.source], edge, None if target is None else target[graph.target]]
    m, *others = [part for part in parts if part is not None]
    for part in others:
        m = m + part
    messages = _Messages(m, graph)
    return torch.stack([messages.by(name) for name in names], dim=-2)


class _Messages:
    """Messages m [E, ...] and their aggregates [N, ...] (equations 1 to 4 and 10)."""

    def __init__(self, m: Tensor, graph: Edges) -> None:
        self.m, self.target, self.N = m, graph.target, graph.num_nodes
        d = graph.degree.to(m.dtype).view(-1, *[1] * (m.dim() - 1))
        self.d, self.full = d.clamp(min=1), d.clamp(max=1)  # an empty neighbourhood has aggregates of 0

    def by(self, name: str) -> Tensor:
        """Aggregate by the name of an aggregator."""
        if "moment" in name:
            return self._moment(int(name.rpartition("moment")[2]))
        functions: dict[str, Callable[[], Tensor]] = {
            "sum": lambda: self._sum(self.m),
            "mean": lambda: self._mean(self.m),
            "max": lambda: self._max(self.m),
            "min": lambda: -self._max(-self.m),
            "var": self._var,
            "std": lambda: (self._var() + EPSILON).sqrt() * self.full,
            "softmax": lambda: self._softmax(self.m),
            "softmin": lambda: -self._softmax(-self.m),
        }
        return functions[name]()

    def _sum(self, v: Tensor) -> Tensor:
        """Sum of v [E, ...] over each neighbourhood, [N, ...]."""
        return _sum(v, self.target, self.N)

    def _mean(self, v: Tensor) -> Tensor:
        """Mean of v [E, ...] over each neighbourhood, [N, ...]; 0 for an empty one."""
        return self._sum(v) / self.d

    def _max(self, v: Tensor) -> Tensor:
        """Maximum of v [E, ...] over each neighbourhood, [N, ...]; 0 for an empty one."""
        lowest = v.new_full((self.N, *v.shape[1:]), torch.finfo(v.dtype).min)
        index = self.target.view(-1, *[1] * (v.dim() - 1)).expand_as(v)
        top = lowest.scatter_reduce(0, index, v, "amax", include_self=True)
        return torch.where(self.full > 0, top, torch.zeros_like(top))

    def _centred(self) -> Tensor:
        """Messages minus the mean of their neighbourhood, [E, ...]; a second pass removes the rounding error."""
        c = self.m - self._mean(self.m)[self.target]
        return c - self._mean(c)[self.target]

    def _var(self) -> Tensor:
        """Variance σ² of the messages, [N, ...], as in equation 3."""
        return self._mean(self._centred().square())

    def _softmax(self, v: Tensor) -> Tensor:
        """Softmax aggregation of v [E, ...] (equation 10), [N, ...]."""
        weight = (v - self._max(v)[self.target]).exp()
        total = self._sum(weight)
        return self._sum(weight * v) / torch.where(total == 0, torch.ones_like(total), total)

    def _moment(self, n: int) -> Tensor:
        """M_n of the messages (equation 4), [N, ...]: the signed n-th root of their central moment."""
        c = self._centred()
        s = self._max(c.abs())
        s = torch.where(s == 0, torch.ones_like(s), s)  # the unit, as in pna.aggregators
        e = self._mean((c / s[self.target]) ** n)
        small, large = s.clamp(max=1), s.clamp(min=1)  # no power leaves the floats' range, as in pna.aggregators
        inside = e.abs() * small**n + EPSILON / large**n
        return e.sign() * large * inside ** (1 / n)


def _sum(v: Tensor, target: Tensor, N: int) -> Tensor:
    """Sum over each neighbourhood, [E, ...] -> [N, ...]."""
    index = target.view(-1, *[1] * (v.dim() - 1)).expand_as(v)
    return v.new_zeros(N, *v.shape[1:]).scatter_add(0, index, v)
