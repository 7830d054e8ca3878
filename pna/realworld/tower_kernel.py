"""Equation 8 with towers, linear M and U, for all replicas at once and as one function; its twin is pna.fused.split.

All that is made on the way lies tower by tower, in each the replicas one behind the other, [T, R, V, …]: so a batched
matrix product takes it as it is, as T·R matrices, and the aggregation does, as R·V nodes. The scaled parts of U are put
together, and their gradients spread, by a kernel of one pass.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.gather import one_graph
from pna.kernels import aggregation, aggregation_backward
from pna.kernels.choice import on_its_device
from pna.kernels.operators import takes as known
from pna.neighbourhoods import Neighbourhoods
from pna.networks.kernels.replicas import rows_of_replicas
from pna.products import in_parts
from pna.realworld.tower_weights_kernel import pack, unpack
from pna.towers import product

__all__ = ["takes", "towers"]

BLOCK = 16


def takes(x: Tensor, names: Sequence[str], graph: Neighbourhoods) -> bool:
    """Whether the kernels serve: where the graphs of all replicas are joined, for aggregators with a kernel."""
    return graph.joined is not None and known(names, x)


@on_its_device
def towers(
    x: Tensor,
    M: tuple[Tensor, Tensor],
    U: tuple[Tensor, Tensor],
    scale: Tensor | None,
    edge: tuple[Tensor, Tensor] | None,
    names: Sequence[str],
    graph: Neighbourhoods,
) -> Tensor:
    """x [V, T·F] -> U(x_i, ⊕ M(x_i, x_j)), [V, T·H].

    Weights and biases: of M's parts for x_i and x_j, [T, F, 2F] and [T, F], and of U, [T, H, (1 + S·A)·F] and
    [T, H]. scale: S(d) of every node, [V, S], or None for the identity alone; edge: e_ij, [E, D], which
    has no gradient, and its weight in M, [T, F, D]. If e_ij is one number no tensor of all messages is made.
    """
    joined, (features, weight) = graph.joined, edge or (None, None)
    if edge is not None and weight.shape[-1] > 1:
        features, weight = product(features.unsqueeze(1), weight), None  # [E, T, F]
    given = (None if t is None else t.unsqueeze(0) for t in (x, *M, *U, scale, features, weight))
    return _apply(*given, " ".join(names), joined.ptr, joined.source, *joined.transpose).squeeze(0)


@triton.jit
def _places(N, H: tl.constexpr, T: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Of BLOCK nodes: their rows, tower by tower, the output of a tower, where it lies node by node, and if it does."""
    node = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)[:, None]
    c = tl.arange(0, WIDTH)[None, :]
    return (c // H) * N + node, c % H, node * (T * H) + c, (node < N) & (c < T * H)


@triton.jit
def _scale(scale, N, s: tl.constexpr, S: tl.constexpr, BLOCK: tl.constexpr):
    """S_s(d) of BLOCK nodes, [BLOCK, 1]."""
    node = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)[:, None]
    return tl.load(scale + node * S + s, mask=node < N, other=0.0)


@triton.jit
def tower_split(x, by_tower, N, F: tl.constexpr, T: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """x [N, T·F] -> [T, N, F + 1], with a one at the end of every row."""
    row, f, at, inside = _places(N, F, T, WIDTH, BLOCK)
    tl.store(by_tower + row * (F + 1) + f, tl.load(x + at, mask=inside, other=0.0), mask=inside)
    tl.store(by_tower + row * (F + 1) + F, tl.full([BLOCK, WIDTH], 1.0, tl.float32), mask=inside & (f == 0))


@triton.jit
def tower_sum(
    z, parts, scale, y, N, P: tl.constexpr, H: tl.constexpr, T: tl.constexpr, S: tl.constexpr, SCALED: tl.constexpr,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """U's own part and the sum over the scalers: z [T, N, S·H] and the first H of parts [T, N, P] -> y [N, T·H]."""
    row, o, to, inside = _places(N, H, T, WIDTH, BLOCK)
    value = tl.load(parts + row * P + o, mask=inside, other=0.0)
    for s in tl.static_range(S):
        term = tl.load(z + row * (S * H) + s * H + o, mask=inside, other=0.0)
        if SCALED:
            term *= _scale(scale, N, s, S, BLOCK)
        value += term
    tl.store(y + to, value, mask=inside)


@triton.jit
def tower_spread(
    grad, scale, grad_z, grad_parts, N, P: tl.constexpr, H: tl.constexpr, T: tl.constexpr, S: tl.constexpr,
    SCALED: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The way back: grad [N, T·H] -> grad_z [T, N, S·H] and the first H of grad_parts [T, N, P]."""
    row, o, at, inside = _places(N, H, T, WIDTH, BLOCK)
    g = tl.load(grad + at, mask=inside, other=0.0)
    tl.store(grad_parts + row * P + o, g, mask=inside)
    for s in tl.static_range(S):
        term = g
        if SCALED:
            term = g * _scale(scale, N, s, S, BLOCK)
        tl.store(grad_z + row * (S * H) + s * H + o, term, mask=inside)


def _apply(*inputs: Any) -> Tensor:
    save = torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in inputs)
    return _Towers.apply(save, *inputs)[0]


class _Towers(Function):
    """The tensors of `towers`, R of each, the aggregators' names, the joined graph -> y [R, V, T·H], and what is kept:
    x [T·R, V, F + 1], its parts [T·R, V, H + 2F], the weights of both products, and the aggregates [T·R, V, A·F]."""

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
        weight, by_scaler = pack(U, U_bias, M, M_bias, S)
        x, given = x.new_empty(T * R, V, F + 1), x.contiguous()
        tower_split[_grid(given)](given, x, R * V, F=F, T=T, **_sizes(T * F))
        parts = torch.bmm(x, weight.mT)  # [T·R, V, H + 2F]
        _, target, source = _nodes(parts, T).split([H, F, F], dim=-1)
        edge, W3 = _edges(edge, W3)
        ptr, column = graph[:2]
        aggregates, saved = aggregation.forward(
            source, edge, target, ptr, column, names, save, hubs=False, by_group=True, weight=W3
        )
        aggregates = aggregates.transpose(0, 1).reshape(T * R, V, -1)
        z = torch.bmm(aggregates, by_scaler.mT)  # [T·R, V, S·H]
        y = x.new_empty(R, V, T * H)
        given = (z, parts, y if scale is None else scale.contiguous(), y)
        tower_sum[_grid(y)](*given, R * V, P=H + 2 * F, H=H, T=T, S=S, SCALED=scale is not None, **_sizes(T * H))
        return y, x, parts, weight, by_scaler, aggregates, *saved

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        _, _, _, _, U, _, scale, edge, W3, ctx.names, *graph = inputs
        ctx.towers, kept = U.shape[1:3], output[1:]
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(scale, edge, W3, *graph, *kept)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        scale, edge, W3, ptr, column, *rest = ctx.saved_tensors
        transpose, (x, parts, weight, by_scaler, aggregates), saved = tuple(rest[:3]), rest[3:8], rest[8:]
        (R, V), (T, H), F, S = grad.shape[:2], ctx.towers, x.shape[2] - 1, _scalers(scale)
        grad = grad.contiguous()
        grad_parts, grad_z = torch.empty_like(parts), grad.new_empty(T * R, V, S * H)
        given = (grad, grad if scale is None else scale.contiguous(), grad_z, grad_parts)
        told = {"P": H + 2 * F, "H": H, "T": T, "S": S, "SCALED": scale is not None}
        tower_spread[_grid(grad)](*given, R * V, **told, **_sizes(T * H))
        _, target, source = _nodes(grad_parts, T).split([H, F, F], dim=-1)
        grad_aggregates = _nodes(torch.bmm(grad_z, by_scaler), T).unflatten(-1, (-1, F))  # [R·V, T, A, F]
        rows, weight_e = _edges(edge, W3)
        _, grad_edge, _ = aggregation_backward.backward(
            grad_aggregates, _nodes(parts, T)[..., H + F :], rows, ptr, column, transpose, ctx.names,
            aggregation.Saved(*saved), True, into=(source, target), hubs=False, weight=weight_e,
        )  # fmt: skip
        grad_x = torch.bmm(grad_parts, weight[..., :F]).view(T, R, V, F).permute(1, 2, 0, 3).reshape(R, V, T * F)
        grads = unpack(in_parts(grad_parts, x), in_parts(grad_z, aggregates), T, S)
        grad_W3 = None if W3 is None else grad_edge.view(W3.shape)
        grad_edge = None if edge is None or W3 is not None else grad_edge.view(edge.shape)
        return None, grad_x, *grads, None, grad_edge, grad_W3, *(None,) * 6

    @staticmethod
    def vmap(info: Any, in_dims: tuple, save: bool, *inputs: Any) -> tuple[tuple[Tensor], tuple[int]]:
        R, names, graph = info.batch_size, inputs[8], inputs[9:]
        lifted = [
            None if t is None else rows_of_replicas(t, dim, R) for t, dim in zip(inputs[:8], in_dims[1:9], strict=True)
        ]
        if len(graph[0]) - 1 < R * lifted[0].shape[1]:  # one batch for all replicas, made outside of vmap
            graph = one_graph(graph, (None,) * 5, R)
        return (_apply(*lifted, names, *graph).unsqueeze(1),), (0,)


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


def _grid(y: Tensor) -> tuple[int]:
    return (-(-y.shape[0] * y.shape[1] // BLOCK),)


def _sizes(width: int) -> dict[str, int]:
    return {"WIDTH": triton.next_power_of_2(width), "BLOCK": BLOCK, "num_warps": 4}
