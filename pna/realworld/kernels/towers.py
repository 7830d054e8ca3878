"""Equation 8 with towers, linear M and U, for all replicas at once and as one function; its twin is pna.fused.split.

All that is made on the way lies tower by tower, in each the replicas one behind the other, [T, R, V, …]: so a batched
matrix product takes it as it is, as T·R matrices, and the aggregation does, as R·V nodes. The scaled parts of U are put
together, and their gradients spread, by a kernel of one pass.

The features of a tower, 15 say, are filled up with zeros to a multiple of 4: so every row begins at 16 bytes, and is
read in pieces of as many. (Only then does Triton know that a row's addresses are neighbours; else each load is of one
number of many rows.) Padded sizes are named Fp and Hp; the padding of the weights is zero, and no result has any.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.kernels import aggregation, aggregation_backward
from pna.kernels.operators import supports as known
from pna.kernels.priority import Beside
from pna.kernels.selection import first_derivative, on_its_device
from pna.neighbourhoods import Neighbourhoods
from pna.networks.kernels.replicas import graph_of_replicas, rows_of_replicas
from pna.products import in_parts
from pna.realworld.kernels.edge import embedded
from pna.realworld.kernels.tower_weights import pack, padded, unpack
from pna.towers import product

__all__ = ["supports", "towers"]

BLOCK = 1024


def supports(x: Tensor, names: Sequence[str], graph: Neighbourhoods) -> bool:
    """Whether the kernels serve: where the graphs of all replicas are joined, for aggregators with a kernel."""
    return graph.joined is not None and known(names, x)


@on_its_device
def towers(
    x: Tensor,
    M: tuple[Tensor, Tensor],
    U: tuple[Tensor, Tensor],
    scale: Tensor | None,
    edge: tuple[Tensor, Tensor, nn.Linear] | None,
    names: Sequence[str],
    graph: Neighbourhoods,
) -> Tensor:
    """x [V, T·F] -> U(x_i, ⊕ M(x_i, x_j)), [V, T·H].

    Weights and biases: of M's parts for x_i and x_j, [T, F, 2F] and [T, F], and of U, [T, H, (1 + S·A)·F] and
    [T, H]. scale: S(d) of every node, [V, S], or None for the identity alone; edge: e_ij, [E, D], which has no
    gradient, the weight of its embedding in M, [T, F, Q], and the embedding, D to Q. If e_ij is one number no tensor
    of all messages is made.
    """
    joined, features, weight = graph.joined, None, None
    if edge is not None:
        features, W3, embedding = edge
        weight, shift = embedded(W3, M[1], embedding.weight, embedding.bias)  # [T, Fp, D] and [T, F]
        M = (M[0], shift)
        if weight.shape[-1] > 1:
            features, weight = product(features.unsqueeze(1), weight), None  # [E, T, Fp]
    given = (None if t is None else t.unsqueeze(0) for t in (x, *M, *U, scale, features, weight))
    return _apply(*given, " ".join(names), joined.ptr, joined.source, *joined.transpose).squeeze(0)


@triton.jit
def _places(N, H: tl.constexpr, HP: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr):
    """Of BLOCK numbers of a tower, [N, Hp]: node, row, place in it; where they lie node by node; which are there."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    node, o, t = at // HP, at % HP, tl.program_id(1)
    return node, t.to(tl.int64) * N + node, o, node.to(tl.int64) * (T * H) + t * H + o, node < N, (node < N) & (o < H)


@triton.jit
def tower_split(x, by_tower, N, F: tl.constexpr, KP: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr):
    """x [N, T·F] -> [T, N, Kp], with a one behind every row, then zeros."""
    _, row, f, at, inside, there = _places(N, F, KP, T, BLOCK)
    value = tl.load(x + at, mask=there, other=0.0)
    tl.store(by_tower + row * KP + f, tl.where(f == F, 1.0, value), mask=inside)


@triton.jit
def tower_sum(
    z, parts, scale, y, N, P: tl.constexpr, H: tl.constexpr, HP: tl.constexpr, T: tl.constexpr, S: tl.constexpr,
    SCALED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """U's own part and the sum over the scalers: z [T, N, S·Hp] and the first Hp of parts [T, N, P] -> y [N, T·H]."""
    node, row, o, to, inside, there = _places(N, H, HP, T, BLOCK)
    value = tl.load(parts + row * P + o, mask=inside, other=0.0)
    for s in tl.static_range(S):
        term = tl.load(z + row * (S * HP) + s * HP + o, mask=inside, other=0.0)
        if SCALED:
            term *= tl.load(scale + node * S + s, mask=inside, other=0.0)
        value += term
    tl.store(y + to, value, mask=there)


@triton.jit
def tower_spread(
    grad, scale, grad_z, grad_parts, N, P: tl.constexpr, H: tl.constexpr, HP: tl.constexpr, T: tl.constexpr,
    S: tl.constexpr, SCALED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The way back: grad [N, T·H] -> grad_z [T, N, S·Hp] and the first Hp of grad_parts [T, N, P]."""
    node, row, o, at, inside, there = _places(N, H, HP, T, BLOCK)
    g = tl.load(grad + at, mask=there, other=0.0)
    tl.store(grad_parts + row * P + o, g, mask=inside)
    for s in tl.static_range(S):
        term = g
        if SCALED:
            term = g * tl.load(scale + node * S + s, mask=inside, other=0.0)
        tl.store(grad_z + row * (S * HP) + s * HP + o, term, mask=inside)


def _apply(*inputs: Any) -> Tensor:
    save = torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in inputs)
    return _Towers.apply(save, *inputs)[0]


class _Towers(Function):
    """The tensors of `towers`, R of each, the aggregators' names, the joined graph -> y [R, V, T·H], and what is kept:
    x [T·R, V, Kp], its parts [T·R, V, Hp + 2Fp], the weights of both products, and the aggregates [T·R, V, A·Fp]."""

    @staticmethod
    def forward(
        save: bool,
        x: Tensor,
        M: Tensor,
        M_bias: Tensor,
        U: Tensor,
        U_bias: Tensor,
        scale: Tensor | None,
        edge: Tensor | None,
        W3: Tensor | None,
        names: str,
        *graph: Tensor,
    ) -> tuple[Tensor, ...]:
        (R, V, _), (T, H), F, S = x.shape, U.shape[1:3], M.shape[2], _scalers(scale)
        Hp, Fp, Kp = padded(H), padded(F), padded(F + 1)
        weight, by_scaler = pack(U, U_bias, M, M_bias, S)
        x, given = x.new_empty(T * R, V, Kp), x.contiguous()
        tower_split[_grid(R * V * Kp, T)](given, x, R * V, F=F, KP=Kp, T=T, BLOCK=BLOCK)
        parts = torch.bmm(x, weight.mT)  # [T·R, V, Hp + 2Fp]
        _, target, source = _nodes(parts, T).split([Hp, Fp, Fp], dim=-1)
        edge, W3 = _edges(edge, W3)
        ptr, column = graph[:2]
        aggregates, saved = aggregation.forward(
            source, edge, target, ptr, column, names, save, hubs=False, by_group=True, weight=W3
        )
        aggregates = aggregates.transpose(0, 1).reshape(T * R, V, -1)
        z = torch.bmm(aggregates, by_scaler.mT)  # [T·R, V, S·Hp]
        y = x.new_empty(R, V, T * H)
        given = (z, parts, y if scale is None else scale.contiguous(), y)
        tower_sum[_grid(R * V * Hp, T)](*given, R * V, H=H, **_sizes(parts, Hp, T, S, scale))
        return y, x, parts, weight, by_scaler, aggregates, *saved

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        _, _, M, _, U, _, scale, edge, W3, ctx.names, *graph = inputs
        ctx.sizes, kept = (*U.shape[1:3], M.shape[2]), output[1:]
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(scale, edge, W3, *graph, *kept)

    @staticmethod
    @first_derivative
    def backward(ctx: FunctionCtx, grad: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        scale, edge, W3, ptr, column, *rest = ctx.saved_tensors
        transpose, (x, parts, weight, by_scaler, aggregates), saved = tuple(rest[:3]), rest[3:8], rest[8:]
        (R, V), (T, H, F), S = grad.shape[:2], ctx.sizes, _scalers(scale)
        Hp, Fp = padded(H), padded(F)
        grad = grad.contiguous()
        grad_parts, grad_z = torch.empty_like(parts), grad.new_empty(T * R, V, S * Hp)
        given = (grad, grad if scale is None else scale.contiguous(), grad_z, grad_parts)
        tower_spread[_grid(R * V * Hp, T)](*given, R * V, H=H, **_sizes(parts, Hp, T, S, scale))
        of_aggregates = Beside(grad.device, lambda: in_parts(grad_z, aggregates))
        _, target, source = _nodes(grad_parts, T).split([Hp, Fp, Fp], dim=-1)
        grad_aggregates = _nodes(torch.bmm(grad_z, by_scaler), T).unflatten(-1, (-1, Fp))  # [R·V, T, A, Fp]
        rows, weight_e = _edges(edge, W3)
        _, grad_edge, _ = aggregation_backward.backward(
            grad_aggregates, _nodes(parts, T)[..., Hp + Fp :], rows, ptr, column, transpose, ctx.names,
            aggregation.Saved(*saved), True, into=(source, target), hubs=False, weight=weight_e,
        )  # fmt: skip
        of_x = Beside(grad.device, lambda: in_parts(grad_parts, x))
        grad_x = torch.bmm(grad_parts, weight).view(T, R, V, -1)[..., :F].permute(1, 2, 0, 3).reshape(R, V, T * F)
        grads = unpack(of_x.result(), of_aggregates.result(), (T, H, F), S)
        grad_W3 = None if W3 is None else grad_edge.view(W3.shape)
        grad_edge = None if edge is None or W3 is not None else grad_edge.view(edge.shape)
        return None, grad_x, *grads, None, grad_edge, grad_W3, *(None,) * 6

    @staticmethod
    def vmap(info: Any, in_dims: tuple, save: bool, *inputs: Any) -> tuple[tuple[Tensor], tuple[int]]:
        R, names, graph = info.batch_size, inputs[8], inputs[9:]
        lifted = [
            None if t is None else rows_of_replicas(t, dim, R) for t, dim in zip(inputs[:8], in_dims[1:9], strict=True)
        ]
        return (_apply(*lifted, names, *graph_of_replicas(graph, R, lifted[0].shape[1])).unsqueeze(1),), (0,)


def _nodes(t: Tensor, T: int) -> Tensor:
    """[T·R, V, F] as [R·V, T, F], without a copy."""
    return t.view(T, -1, t.shape[2]).transpose(0, 1)


def _edges(edge: Tensor | None, weight: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """[R, E, T, F] as [R·E, T, F]; of edges that are one number all, [R·E], and their weights, [R, T, F]."""
    if weight is None:
        return None if edge is None else edge.flatten(0, 1), None
    return edge.flatten(), weight.squeeze(-1)


def _scalers(scale: Tensor | None) -> int:
    return 1 if scale is None else scale.shape[-1]


def _grid(numbers: int, T: int) -> tuple[int, int]:
    return -(-numbers // BLOCK), T


def _sizes(parts: Tensor, Hp: int, T: int, S: int, scale: Tensor | None) -> dict[str, int | bool]:
    return {"P": parts.shape[2], "HP": Hp, "T": T, "S": S, "SCALED": scale is not None, "BLOCK": BLOCK}
