"""A whole PNA layer with linear M and U (equations 7 and 8) as one function on a CPU, forward and backward by hand.

On a small graph, most of the time goes into calling operations one by one and recording them for autograd. Here they
are few, and none is recorded. Second derivatives come from the twin, pna.fused.split.
"""

from collections.abc import Sequence
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna import together
from pna.aggregators import resolve
from pna.fused import split
from pna.kernels.selection import many
from pna.neighbourhoods import Neighbourhoods
from pna.towers import affine, product, product_backward

__all__ = ["backward", "forward", "layer"]

EdgePart = tuple[Tensor, Tensor, Tensor]  # sorted features e [E, D], and weight V [F, D] and bias c of their encoder


def layer(conv: nn.Module, x: Tensor, graph: Neighbourhoods, edge: Tensor | None = None) -> Tensor:
    """Compute a PNAConv with one layer each in M and U: x [N, in] and sorted edge features [E, D] -> [N, out]."""
    M, U, mix = conv.M._modules["0"], conv.U._modules["0"], conv.mix
    edges = () if edge is None else (edge, conv.edge_encoder.weight, conv.edge_encoder.bias)
    return _Layer.apply(conv, graph, x, U.weight, U.bias, M.weight, M.bias, mix.weight, mix.bias, *edges)


class _Layer(Function):
    """The layer for T towers of F features and H outputs each, A aggregators and S scalers."""

    @staticmethod
    def forward(ctx: FunctionCtx, conv: nn.Module, graph: Neighbourhoods, x: Tensor, *inputs: Tensor) -> Tensor:
        with torch._C._AutoDispatchBelowAutograd():  # autograd would look at every operation, and find nothing to do
            return _Layer.compute(ctx, conv, graph, x, *inputs)

    @staticmethod
    def compute(ctx: FunctionCtx, conv: nn.Module, graph: Neighbourhoods, x: Tensor, *inputs: Tensor) -> Tensor:
        """Run the forward pass, below autograd."""
        out, results = forward(x, inputs[:6], conv, graph, inputs[6:] or None)
        ctx.conv, ctx.graph, ctx.inputs = conv, graph, len(inputs)
        ctx.save_for_backward(x, *inputs, *results)
        return out

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor | None, ...]:
        x, *rest = ctx.saved_tensors
        inputs, results = rest[: ctx.inputs], rest[ctx.inputs :]
        if torch.is_grad_enabled() or many(g):  # for a second derivative or a Jacobian: through the twin
            return None, None, *_by_autograd(ctx, g, x, inputs, results[3], torch.is_grad_enabled())
        with torch._C._AutoDispatchBelowAutograd():
            grads = backward(g, x, inputs[:6], ctx.conv, ctx.graph.source, results, inputs[6:] or None)
            return None, None, *grads


def forward(
    x: Tensor, weights: Sequence[Tensor], conv: nn.Module, graph: Neighbourhoods, edges: EdgePart | None = None
) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """Compute the layer: x [N, in] and weight and bias of U, M and mix -> [N, out], and results for `backward`."""
    U, U_bias, M, M_bias, mix, mix_bias = weights
    F, H, combined, degree = conv.F_in, conv.F_out, conv.combined, graph.degree
    h = x.unflatten(1, (-1, F))  # [N, T or 1, F]
    U_update, U_combined = U.split_with_sizes([F, U.shape[2] - F], dim=2)
    W1, W2, W3 = M.split_with_sizes([F, F, M.shape[2] - 2 * F], dim=2)  # W3 is empty without edge features
    W = torch.cat([U_update, W1, W2], dim=1)  # [T, H + 2F, F]
    shift = M_bias if edges is None else M_bias + W3 @ edges[2]  # [T, F]
    parts = affine(h, W, torch.cat([U_bias, shift, torch.zeros_like(shift)], dim=1))
    update, target, source = parts.split_with_sizes([H, F, F], dim=-1)
    m = source.index_select(0, graph.source)  # [E, T, F]
    if edges is not None:  # W3 (V e + c) = (W3 V) e + W3 c
        m.add_(product(edges[0].unsqueeze(1), W3 @ edges[1]))
    aggregates, statistics = together.aggregates(m, degree, combined.aggregators)  # [N, T, A, F]
    shares = _shares(conv, degree, x.dtype)
    aggregates.addcmul_(target.masked_fill((degree == 0).view(-1, 1, 1), 0).unsqueeze(2), shares)
    factors = combined.factors(degree).to(x.dtype)[:, None, :, None]  # [N, 1, S, 1]
    y = product(aggregates.flatten(2), combined.by_scaler(U_combined)).unflatten(-1, (-1, H))
    y = (y * factors).sum(2).add_(update).flatten(1)  # [N, T·H]
    return torch.addmm(mix_bias, y, mix.t()), (W, m, aggregates, factors, y, shares, *statistics)


def backward(
    g: Tensor,
    x: Tensor,
    weights: Sequence[Tensor],
    conv: nn.Module,
    source: Tensor,
    results: Sequence[Tensor | None],
    edges: EdgePart | None = None,
) -> tuple[Tensor, ...]:
    """Compute the gradients of x, of the six weights and of `edges` from that of the output, g [N, out].

    `source` [E] are the senders, `results` those of `forward`.
    """
    W, m, aggregates, factors, y, shares = results[:6]
    F, H, T, combined = conv.F_in, conv.F_out, conv.towers, conv.combined
    grad_y = (g @ weights[4]).unflatten(1, (T, H))
    scaled = (grad_y.unsqueeze(2) * factors).flatten(2)  # [N, T, S·H]
    P = combined.by_scaler(weights[0][:, :, F:])  # [T, S·H, A·F]
    grad_aggregates, grad_P = product_backward(scaled, aggregates.flatten(2), P)
    grad_aggregates = grad_aggregates.unflatten(-1, (-1, F))  # [N, T, A, F]
    grad_target = (grad_aggregates * shares).sum(2)
    grad_m = together.gradient(grad_aggregates, m, combined.aggregators, together.Statistics(*results[6:]))
    grad_source = torch.zeros_like(grad_target).index_add_(0, source, grad_m)
    grad_parts = torch.cat([grad_y, grad_target, grad_source], dim=2)  # [N, T, H + 2F]
    grad_x, grad_W = product_backward(grad_parts, x.unflatten(1, (-1, F)), W)
    grad_update, *grad_M = grad_W.split_with_sizes([H, F, F], dim=1)
    U_bias, M_bias, _ = grad_parts.sum(0).split_with_sizes([H, F, F], dim=1)
    grad_U = torch.cat([grad_update, combined.by_output(grad_P)], dim=2)
    of_edges = ()
    if edges is not None:
        grad_W3, *of_edges = _edge_gradients(grad_m, M_bias, weights[2][:, :, 2 * F :], *edges)
        grad_M.append(grad_W3)
    return grad_x.flatten(1), grad_U, U_bias, torch.cat(grad_M, dim=2), M_bias, g.t() @ y, g.sum(0), *of_edges


def _edge_gradients(
    grad_m: Tensor, grad_shift: Tensor, W3: Tensor, edge: Tensor, V: Tensor, c: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute the gradients of W3, e, V and c from those of the messages (W3 V) e, [E, T, F], and of W3 c, [T, F]."""
    g, W = grad_m.flatten(1), W3.flatten(0, 1)  # [E, T·F] and [T·F, F]
    grad_product = g.t() @ edge  # that of W3 V, [T·F, D]
    grad_W3 = torch.addmm(grad_shift.flatten().outer(c), grad_product, V.t()).view(W3.shape)
    return grad_W3, g @ (W @ V), W.t() @ grad_product, grad_shift.flatten() @ W


def _shares(conv: nn.Module, degree: Tensor, dtype: torch.dtype) -> Tensor:
    """How often M's part for the receiver is added to each aggregate: once, d times or not at all, [N, 1, A, 1]."""
    laws = [resolve(name).shift for name in conv.combined.aggregators]
    d = degree.to(dtype).view(-1, 1, 1, 1)
    once = d.clamp(max=1) * torch.tensor([[law != "none"] for law in laws], dtype=dtype, device=degree.device)
    if "degree" not in laws:
        return once
    return torch.where(torch.tensor([[law == "degree"] for law in laws], device=degree.device), d, once)


@torch.enable_grad()
def _by_autograd(
    ctx: FunctionCtx, g: Tensor, x: Tensor, inputs: list[Tensor], factors: Tensor, differentiable: bool
) -> list[Tensor | None]:
    """Compute the gradients of x and of the other inputs through the twin; `differentiable`: to do it again.

    The factors of the scalers, [N, 1, S, 1], are those of the forward pass: by now the layer may have another δ.
    """
    U, U_bias, M, M_bias, mix, mix_bias, *edges = inputs
    first, second = SimpleNamespace(weight=M, bias=M_bias), SimpleNamespace(weight=U, bias=U_bias)
    edge, encoder = (edges[0], SimpleNamespace(weight=edges[1], bias=edges[2])) if edges else (None, None)
    h = x.unflatten(1, (-1, ctx.conv.F_in))
    y = split(h, h, ctx.graph, [first], second, ctx.conv.combined, edge, encoder, scale=factors[:, 0, :, 0])
    out = nn.functional.linear(y.flatten(1), mix, mix_bias)
    wanted = ctx.needs_input_grad[2:]
    asked = [t for t, needed in zip((x, *inputs), wanted, strict=True) if needed]
    grads = iter(torch.autograd.grad(out, asked, g, create_graph=differentiable))
    return [next(grads) if needed else None for needed in wanted]
