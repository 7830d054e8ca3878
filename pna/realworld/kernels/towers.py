"""Equation 8 with towers, linear M and U, for all replicas at once and as one function; its twin is pna.fused.split.

Everything in between lies tower by tower, and in each tower replica by replica, [T, R, V, …]: a batched matrix product
takes it as T·R matrices and the aggregation as R·V nodes, without a copy. The scaled parts of U are summed, and their
gradients spread, by a kernel of one pass.

The features of a tower, 15 say, are padded with zeros to a multiple of 4: so every row begins at 16 bytes, and is read
in pieces of as many. (Only then does Triton know that a row's addresses are neighbours; else each load is of one number
of many rows.) Padded sizes are named Fp and Hp; the padding of the weights is zero, and no result has any.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from pna.kernels import aggregation, aggregation_backward
from pna.kernels.functions import KernelFunction, Strided, contiguous, differentiated
from pna.kernels.operators import supports as aggregates_by_kernels
from pna.kernels.priority import Beside
from pna.neighbourhoods import Neighbourhoods
from pna.products import in_parts
from pna.realworld.kernels.edge import embedded
from pna.realworld.kernels.graphs import Messages
from pna.realworld.kernels.tower_weights import pack, padded, unpack
from pna.towers import product

__all__ = ["supports", "towers"]

BLOCK = 1024


def supports(x: Tensor, names: Sequence[str], graph: Neighbourhoods) -> bool:
    """Whether the graphs of all replicas are joined and every aggregator has a kernel."""
    return graph.joined is not None and aggregates_by_kernels(names, x)


def towers(
    x: Tensor,
    M: tuple[Tensor, Tensor],
    U: tuple[Tensor, Tensor],
    scale: Tensor | None,
    edge: tuple[Tensor, Tensor, nn.Linear] | None,
    names: Sequence[str],
    graph: Neighbourhoods,
) -> Tensor:
    """Compute U(x_i, ⊕ M(x_i, x_j)): x [V, T·F] -> [V, T·H].

    M: weight [T, F, 2F] and bias [T, F] for x_i and x_j. U: weight [T, H, (1 + S·A)·F] and bias [T, H]. scale: S(d) of
    every node, [V, S], or None for the identity alone. edge: e_ij, [E, D], which has no gradient, the weight of its
    embedding in M, [T, F, Q], and the embedding, D to Q. If D = 1, no tensor of all messages is made.
    """
    features, weight = None, None
    if edge is not None:
        features, W3, embedding = edge
        weight, shift = embedded(W3, M[1], embedding.weight, embedding.bias)  # [T, Fp, D] and [T, F]
        M = (M[0], shift)
        if weight.shape[-1] > 1:
            features, weight = product(features.unsqueeze(1), weight), None  # [E, T, Fp]
    tensors = (x, *M, *U, scale, features, weight)
    return _Towers.call(differentiated(*tensors), *tensors, " ".join(names), Messages.of(graph))[0]


@triton.jit
def _places(N, H: tl.constexpr, HP: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr):
    """Decode BLOCK places in a tower's numbers, [N, Hp].

    Returns node, row of all towers, column, place in [N, T·H], and the masks with and without the padding of rows.
    """
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    node, o, t = at // HP, at % HP, tl.program_id(1)
    return node, t.to(tl.int64) * N + node, o, node.to(tl.int64) * (T * H) + t * H + o, node < N, (node < N) & (o < H)


@triton.jit
def tower_split(x, by_tower, N, F: tl.constexpr, KP: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr):
    """Split x [N, T·F] into towers, [T, N, Kp], with a one behind every row, then zeros."""
    _, row, f, at, inside, there = _places(N, F, KP, T, BLOCK)
    value = tl.load(x + at, mask=there, other=0.0)
    tl.store(by_tower + row * KP + f, tl.where(f == F, 1.0, value), mask=inside)


@triton.jit
def tower_sum(
    z, parts, scale, y, N, P: tl.constexpr, H: tl.constexpr, HP: tl.constexpr, T: tl.constexpr, S: tl.constexpr,
    SCALED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sum U's part of the node and of every scaler: the first Hp of parts [T, N, P], z [T, N, S·Hp] -> y [N, T·H]."""
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
    """Spread the gradient [N, T·H] to grad_z [T, N, S·Hp] and the first Hp of grad_parts [T, N, P]."""
    node, row, o, at, inside, there = _places(N, H, HP, T, BLOCK)
    g = tl.load(grad + at, mask=there, other=0.0)
    tl.store(grad_parts + row * P + o, g, mask=inside)
    for s in tl.static_range(S):
        term = g
        if SCALED:
            term = g * tl.load(scale + node * S + s, mask=inside, other=0.0)
        tl.store(grad_z + row * (S * HP) + s * HP + o, term, mask=inside)


class _Towers(KernelFunction):
    """All towers of a layer: the tensors of `towers` for R replicas, the aggregators' names, messages -> y [R, V, T·H].

    Then what the backward pass needs: x [T·R, V, Kp], its parts [T·R, V, Hp + 2Fp], the weights of both products, the
    aggregates [T·R, V, A·Fp], and what their kernel saves if `save`.
    """

    results = 1

    @staticmethod
    def forward(
        save: bool,
        x: Tensor,
        M: Strided,
        M_bias: Tensor,
        U: Tensor,
        U_bias: Tensor,
        scale: Tensor | None,
        edge: Strided | None,
        W3: Strided | None,
        names: str,
        messages: Messages,
    ) -> tuple[Tensor, ...]:
        (R, V, _), (T, H), F, S = x.shape, U.shape[1:3], M.shape[2], _scalers(scale)
        Hp, Fp, Kp = padded(H), padded(F), padded(F + 1)
        weight, by_scaler = pack(U, U_bias, M, M_bias, S)
        by_tower = x.new_empty(T * R, V, Kp)
        tower_split[_grid(R * V * Kp, T)](x, by_tower, R * V, F=F, KP=Kp, T=T, BLOCK=BLOCK)
        parts = torch.bmm(by_tower, weight.mT)  # [T·R, V, Hp + 2Fp]
        _, target, source = _nodes(parts, T).split([Hp, Fp, Fp], dim=-1)
        edge, W3 = _edges(edge, W3)
        aggregates, saved = aggregation.forward(
            source, edge, target, messages.ptr, messages.source, names, save, hubs=False, by_group=True, weight=W3
        )
        aggregates = aggregates.transpose(0, 1).reshape(T * R, V, -1)
        z = torch.bmm(aggregates, by_scaler.mT)  # [T·R, V, S·Hp]
        y = x.new_empty(R, V, T * H)
        tensors = (z, parts, y if scale is None else scale, y)
        tower_sum[_grid(R * V * Hp, T)](*tensors, R * V, H=H, **_sizes(parts, Hp, T, S, scale))
        return y, by_tower, parts, weight, by_scaler, aggregates, *saved

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        _, _, M, _, U, _, scale, edge, W3, ctx.names, messages = inputs
        ctx.sizes = (*U.shape[1:3], M.shape[2])
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(scale, edge, W3, *messages, *output[1:])

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        scale, edge, W3, *rest = ctx.saved_tensors
        (scale,), graph = contiguous(scale), Messages(*rest[:6])
        (x, parts, weight, by_scaler, aggregates), saved = rest[6:11], rest[11:]
        (R, V), (T, H, F), S = grad.shape[:2], ctx.sizes, _scalers(scale)
        Hp, Fp = padded(H), padded(F)
        grad_parts, grad_z = torch.empty_like(parts), grad.new_empty(T * R, V, S * Hp)
        tensors = (grad, grad if scale is None else scale, grad_z, grad_parts)
        tower_spread[_grid(R * V * Hp, T)](*tensors, R * V, H=H, **_sizes(parts, Hp, T, S, scale))
        of_aggregates = Beside(grad.device, lambda: in_parts(grad_z, aggregates))
        _, target, source = _nodes(grad_parts, T).split([Hp, Fp, Fp], dim=-1)
        grad_aggregates = _nodes(torch.bmm(grad_z, by_scaler), T).unflatten(-1, (-1, Fp))  # [R·V, T, A, Fp]
        rows, weight_e = _edges(edge, W3)
        _, grad_edge, _ = aggregation_backward.backward(
            grad_aggregates, _nodes(parts, T)[..., Hp + Fp :], rows, graph.ptr, graph.source,
            (graph.sender_ptr, graph.receiver, graph.place), ctx.names, aggregation.Saved(*saved), True,
            into=(source, target), hubs=False, weight=weight_e,
        )  # fmt: skip
        of_x = Beside(grad.device, lambda: in_parts(grad_parts, x))
        grad_x = torch.bmm(grad_parts, weight).view(T, R, V, -1)[..., :F].permute(1, 2, 0, 3).reshape(R, V, T * F)
        grads = unpack(of_x.result(), of_aggregates.result(), (T, H, F), S)
        grad_W3 = None if W3 is None else grad_edge.view(W3.shape)
        grad_edge = None if edge is None or W3 is not None else grad_edge.view(edge.shape)
        return None, grad_x, *grads, None, grad_edge, grad_W3, None, None

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple, save: bool, *inputs: Any) -> tuple[Any, Any]:
        """Lift the replicas, as KernelFunction does; only here is it known whether a tensor has a gradient."""
        return super().vmap(info, in_dims, differentiated(*inputs), *inputs)


def _nodes(t: Tensor, T: int) -> Tensor:
    """[T·R, V, F] as [R·V, T, F], without a copy."""
    return t.view(T, -1, t.shape[2]).transpose(0, 1)


def _edges(edge: Tensor | None, weight: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Edge features [R, E, T, F] as [R·E, T, F]; if each is one number, those, [R·E], and their weights, [R, T, F]."""
    if weight is None:
        return None if edge is None else edge.flatten(0, 1), None
    return edge.flatten(), weight.squeeze(-1)


def _scalers(scale: Tensor | None) -> int:
    """Number of scalers S, from their factors [..., S]; one if there are none."""
    return 1 if scale is None else scale.shape[-1]


def _grid(numbers: int, T: int) -> tuple[int, int]:
    """Programs for each block of numbers, and for each of T towers."""
    return -(-numbers // BLOCK), T


def _sizes(parts: Tensor, Hp: int, T: int, S: int, scale: Tensor | None) -> dict[str, int | bool]:
    """Compile-time constants of a launch on the nodes' parts [T·R, V, P], with rows of U padded to Hp."""
    return {"P": parts.shape[2], "HP": Hp, "T": T, "S": S, "SCALED": scale is not None, "BLOCK": BLOCK}
