"""The gradient of the fused aggregation, in Triton: no atomics, no [E, F] tensor without edge features.

The gradient of a message m_j → i is, with c = m_j - μ_i,

    q0_i + q1_i c + … + [m_j is the maximum] gmax_i / ties_i + [m_j is the minimum] gmin_i / ties_i:

a polynomial, of degree 1 for mean, sum, std and var and below n for moment n. A first kernel computes the coefficients
of every node and channel from the gradients of its aggregates. A second one sums, for every sender j, over its
receivers i through the transposed CSR. It spends its time reading the coefficients once per message, so they are few.
Those of a linear polynomial are q0 - q1 (μ - μ₀) and q1, with μ₀ the mean of each channel, so that little cancels in
q1 (m_j - μ₀) - q1 (μ - μ₀). The extremes are not compared again: the forward pass leaves two bits per message and
channel.
"""

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from pna.kernels.aggregation import Saved
from pna.kernels.coefficients import launch_coefficients
from pna.kernels.compile_time import ChannelLayout, Config, blocks, grouped, order_of, slots_of, wide, widened
from pna.kernels.gradients import launch_edge_gradient, launch_hub_gradients, launch_source_gradient
from pna.kernels.hubs import NO_HUBS, chunk_owners, limit
from pna.kernels.launch import Constants
from pna.kernels.selection import on_its_device

__all__ = ["backward"]

K, WARPS = 32, 4  # for a chunk of a hub's messages


@on_its_device
def backward(
    g: Tensor,
    source: Tensor | None,
    edge: Tensor | None,
    ptr: Tensor,
    column: Tensor,
    transpose: tuple[Tensor, Tensor, Tensor],
    names: str,
    saved: Saved,
    target: bool,
    config: Config | None = None,
    into: tuple[Tensor, Tensor] | None = None,
    hubs: bool = True,
    weight: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Gradients of source, edge and target, each empty if there is none, from g of the aggregates [N, G, A, F].

    transpose: for every sender its messages (ptr), and for each its receiver and its place among the messages. target:
    whether there is one. into: where to write the gradients of source and target, two parts of one tensor. hubs and
    weight: as in `forward`; with a weight, its gradient takes the place of the edges', which get none.
    """
    like, hubs = source if source is not None else edge, hubs and weight is None
    new = (None if into is not None else source, edge if weight is None else weight)
    grads = [None if t is None else torch.empty_like(t, memory_format=torch.contiguous_format) for t in new]
    if into is not None:
        grads[0], grad_target = into
    else:
        grad_target = torch.empty_like(like[:0]) if not target else g.new_empty(ptr.shape[0] - 1, *like.shape[1:])
    if g.numel() > 0:
        _Backward(g, source, edge, ptr, column, transpose, names, saved, config, hubs, weight).run(*grads, grad_target)
    elif weight is not None:
        grads[1].zero_()
    return *(like.new_empty(0) if grad is None else grad for grad in grads), grad_target


@functools.cache
def _numbers(names: str, has_edge: bool) -> tuple[int, int, bool, int, int]:
    """Highest moment, terms of the polynomial, whether it is centred, the units stored for that, and all planes."""
    order, aggregators = order_of(names), set(names.split())
    constant, linear = not aggregators.isdisjoint({"mean", "sum"}), not aggregators.isdisjoint({"std", "var"})
    terms = max(order, 2 if linear else int(constant))
    centred = terms > 1 and (has_edge or order > 0)
    units = (2 if order > 0 else 1) if centred else 0  # μ, and 1/s for moments
    return order, terms, centred, units, units + terms + ("max" in aggregators) + ("min" in aggregators)


class _Kernels(NamedTuple):
    """Constants of each kernel; in pairs, for nodes that are not hubs and for a chunk of a hub's messages."""

    coefficients: Constants
    messages: tuple[Constants, Constants]
    senders: tuple[Constants, Constants]
    planes: int

    @classmethod
    @functools.cache
    def of(
        cls,
        names: str,
        dtype: torch.dtype,
        parts: tuple[bool, bool, bool],
        layout: ChannelLayout,
        C: int,
        F: int,
        T: int,
        config: Config,
        stats: int,
        hubs: bool,
    ) -> "_Kernels":
        """The constants for these aggregators and sizes; parts: whether there is a source, an edge, a target."""
        order, terms, centred, units, planes = _numbers(names, parts[1])
        shared = {
            "SLOTS": slots_of(names), "ORDER": order, "TERMS": terms, "CENTRED": centred, "UNITS": units,
            "PLANES": planes, "LAYOUT": layout, "C": C, "F": F, "LIMIT": T, "ACC": wide(dtype),
        }  # fmt: skip
        BC = config.BC
        coefficients = Constants(shared, STATS=stats, HUBS=hubs, HAS_TARGET=parts[2], B=512 // BC, BC=BC)
        sizes = ({"HUBS": False, "B": config.B, "K": config.K}, {"HUBS": True, "B": 1, "K": K})
        messages, senders = (
            tuple(Constants(shared, **{name: there}, BC=BC, **size) for size in sizes)
            for name, there in (("HAS_SOURCE", parts[0]), ("HAS_EDGE", parts[1]))
        )
        return cls(coefficients, messages, senders, planes)


class _Backward:
    """The launches of one backward pass, and the tensors and sizes that they share."""

    def __init__(
        self,
        g: Tensor,
        source: Tensor | None,
        edge: Tensor | None,
        ptr: Tensor,
        column: Tensor,
        transpose: tuple[Tensor, Tensor, Tensor],
        names: str,
        saved: Saved,
        config: Config | None,
        hubs: bool,
        weight: Tensor | None,
    ) -> None:
        self.g, self.ptr, self.column, self.transpose, self.names, self.saved = g, ptr, column, transpose, names, saved
        self.source, self.edge = grouped(source), grouped(edge) if weight is None else None
        self.number, self.weight = (None, None) if weight is None else (edge.contiguous(), weight.contiguous())
        self.like = self.source if source is not None else self.edge
        self.N, self.E, (self.G, self.F) = ptr.shape[0] - 1, column.shape[0], self.like.shape[1:]
        self.C, self.T = self.G * self.F, limit(self.E) if hubs else NO_HUBS
        self.config = config or Config.of(self.C, backward=True)
        if weight is not None:
            self.config = self.config.within(self.N // weight.shape[0])
        self.blocks = blocks(self.C, self.config.BC)

    def run(self, grad_source: Tensor | None, grad_edge: Tensor | None, grad_target: Tensor) -> None:
        """Launch all kernels, which write the gradients."""
        has_target = grad_target.shape[0] > 0
        tensors = [self.like if t is None else t for t in (self.source, self.edge)]
        layout = ChannelLayout.of(self.F, self.G, self.config.BC, *tensors, grad_target)
        layout = layout._replace(number=self.weight is not None)
        self.kernels = _Kernels.of(
            self.names, self.like.dtype, (self.source is not None, self.edge is not None, has_target), layout,
            self.C, self.F, self.T, self.config, self.saved.stats.shape[1], self.saved.hub_ties.shape[0] > 0,
        )  # fmt: skip
        shape = (self.N, self.kernels.planes, self.C)
        self.coefficients = self.like.new_empty(shape, dtype=widened(self.like.dtype))
        self._make_coefficients(grad_target)
        if self.E == 0:
            for grad in (grad_source, grad_edge):
                if grad is not None:
                    grad.zero_()
            return
        if self.edge is not None:
            self._to_messages(grad_edge)
        if grad_source is not None:
            self._to_senders(grad_source, grad_edge)

    def _make_coefficients(self, grad_target: Tensor) -> None:
        """Compute the coefficients of every node and channel, [N, planes, C], four of each plane a thread."""
        _, stats, ties, hub_ties, _ = self.saved
        arguments = (
            self.g, *self.g.stride(), self.ptr, stats, ties, hub_ties, self.coefficients,
            grad_target, *grad_target.stride()[:2], self.N,
        )  # fmt: skip
        constants = self.kernels.coefficients
        launch_coefficients((blocks(self.N, constants["B"]), self.blocks), arguments, constants, 4)

    def _to_messages(self, grad_edge: Tensor) -> None:
        """Compute the gradient of every message, [E, G, F]."""
        source, edge = self.source if self.source is not None else self.edge, self.edge
        arguments = (
            source, edge, self.saved.shift, self.ptr, self.column, self.coefficients, self.saved.marks, grad_edge,
            *source.stride()[:2], *edge.stride()[:2], self.N, self.E,
        )  # fmt: skip
        light, chunks = self.kernels.messages
        owner = self.ptr
        if self.E > self.T:
            owner = chunk_owners(self.ptr, self.E, self.T)
            launch_edge_gradient((owner.shape[0], self.blocks), (*arguments, owner), chunks, WARPS)
        grid = (blocks(self.N, self.config.B), self.blocks)
        launch_edge_gradient(grid, (*arguments, owner), light, self.config.warps)

    def _to_senders(self, grad_source: Tensor, grad_edge: Tensor | None) -> None:
        """Compute the gradient of every sender, [N, G, F], from its messages' gradients or its receivers' coefficients.

        Where there is a weight, also its gradient, [R, G, F]: summed in each program, then over those of a replica.
        """
        ptr, receiver, place = self.transpose
        messages = self.coefficients if self.edge is None else grad_edge
        senders, shift, marks = grad_source.shape[0], self.saved.shift, self.saved.marks
        arguments = (
            self.source, shift, ptr, receiver, place, messages, marks, grad_source,
            *self.source.stride()[:2], *grad_source.stride()[:2], senders,
        )  # fmt: skip
        light, chunks = self.kernels.senders
        grid = (blocks(senders, self.config.B), self.blocks)
        if self.weight is not None:
            partial, R = self.coefficients.new_empty(grid[0], self.C), self.weight.shape[0]
            weighted = (partial, self.number, self.weight, self.N // R)
            launch_source_gradient(grid, (*arguments, ptr, *weighted), light, self.config.warps)
            torch.sum(partial.view(R, -1, self.C), 1, dtype=grad_edge.dtype, out=grad_edge.view(R, self.C))
            return
        none = (self.coefficients, self.coefficients, self.N)
        if self.E <= self.T:
            launch_source_gradient(grid, (*arguments, ptr, self.coefficients, *none), light, self.config.warps)
            return
        owner = chunk_owners(ptr, self.E, self.T)
        P = owner.shape[0]
        arguments = (*arguments, owner, self.coefficients.new_empty(P, 2, self.C), *none)
        launch_source_gradient((P, self.blocks), arguments, chunks, WARPS)
        launch_source_gradient(grid, arguments, light, self.config.warps)
        launch_hub_gradients((P, self.blocks), arguments, chunks, WARPS)
