"""A whole PNA layer with linear M and U (equations 7 and 8) as one function, forward and backward, in few launches.

On a batch of small graphs a layer takes as long as the host needs to launch its operations one by one. Here they are
few. Everything linear in x_i alone, [U_own; W1; W2] x + b, is one product. The aggregates come from one kernel
(pna.kernels.aggregation). One more multiplies them with U's weights for each scaler, scales and sums them. The mixing
layer is one product. The backward pass is written by hand in the same way. pna.kernels.layer_weights has the weights'
place in memory and their gradients.

The plain-torch twin is the layer itself, pna.conv. It takes over wherever this function cannot be used, also for second
derivatives and for batched gradients.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.func import functional_call

from pna.kernels import aggregation, aggregation_backward, layer_weights
from pna.kernels.compile_time import blocks
from pna.kernels.launch import Launch
from pna.kernels.layer_weights import BH, BN, Plan, degrees, factor, factors
from pna.kernels.selection import many, on_its_device, plain
from pna.neighbourhoods import Neighbourhoods, transpose_edges

__all__ = ["WEIGHTS", "allocate", "backward", "forward", "layer"]

WEIGHTS = ("U.0.weight", "U.0.bias", "M.0.weight", "M.0.bias", "mix.weight", "mix.bias")
WARPS = 4


def layer(conv: nn.Module, x: Tensor, neighbourhoods: Neighbourhoods) -> Tensor:
    """Apply a PNAConv with one layer each in M and U, without edge features: x [N, in] -> [N, out]."""
    modules = conv._modules  # looking up an attribute of a module takes longer than some kernels
    M, U = modules["M"]._modules["0"], modules["U"]._modules["0"]
    inputs = (x, *_weights(U), *_weights(M), *_weights(modules["mix"]))
    save = torch.is_grad_enabled() and True in [t.requires_grad for t in inputs]
    return _Layer.apply(*inputs, conv, neighbourhoods, save)


def _weights(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight and bias of a layer, also where they are no longer parameters."""
    parameters = module._parameters
    return (parameters["weight"], parameters["bias"]) if len(parameters) == 2 else (module.weight, module.bias)


class _Layer(Function):
    """The PNA layer as an autograd Function.

    x [N, in], weight and bias of U, M and the mixing layer, the PNAConv, the graph, whether to save -> [N, out].
    """

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, *inputs: object) -> Tensor:
        with torch._C._AutoDispatchBelowAutograd():  # which would inspect every operation and find nothing to do
            return _Layer.compute(ctx, x, *inputs)

    @staticmethod
    def compute(ctx: FunctionCtx, x: Tensor, *inputs: object) -> Tensor:
        """Run the forward pass, below autograd."""
        *weights, conv, neighbourhoods, save = inputs
        out, results = forward(x, weights, conv, neighbourhoods, save)
        if save:
            ctx.conv = conv
            ptr, column, _, transpose, *_ = neighbourhoods
            combined = conv._modules["combined"]
            graph = (ptr, combined.delta, combined.mean_degree, column, *(transpose or (None,) * 3))
            ctx.save_for_backward(x, *weights, *graph, *results)
        return out

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor | None, ...]:
        x, *rest = ctx.saved_tensors
        weights, graph, results = rest[:6], rest[6:13], rest[13:]
        if torch.is_grad_enabled() or many(g):  # a second derivative or a Jacobian is wanted: through the layer's twin
            return *_by_autograd(ctx, g, x, weights, graph, torch.is_grad_enabled()), None, None, None
        with torch._C._AutoDispatchBelowAutograd():
            wanted = (ctx.needs_input_grad[0], any(ctx.needs_input_grad[1:7]))
            return *backward(g, x, ctx.conv, graph, results, wanted), None, None, None


@on_its_device
def forward(
    x: Tensor, weights: Sequence[Tensor], conv: nn.Module, neighbourhoods: Neighbourhoods, save: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Compute the layer: x [N, in] and the WEIGHTS -> [N, out], and the results that the backward pass needs.

    conv has the sizes, aggregators and scalers of a PNAConv, δ and the mean degree.
    """
    U, U_bias, M, M_bias, mix, mix_bias = [_contiguous(w) for w in weights]
    combined = conv._modules["combined"]
    plan = Plan.of(conv, combined, x.dtype)
    ptr, column = neighbourhoods[:2]
    packed = layer_weights.pack(U, U_bias, M, M_bias, mix, plan)
    parts = _project(x, packed, plan)  # [N, W]
    target, source = _split(parts, plan)
    aggregates, saved = aggregation.forward(source, None, target, ptr, column, plan.names, save)  # [N, 1, A, C]
    y = _combine(parts, aggregates, packed, (ptr, combined.delta, combined.mean_degree), plan)  # [N, T·H]
    return torch.addmm(mix_bias, y, mix.t()), (packed, parts, aggregates, y, *saved)


@on_its_device
def backward(
    g: Tensor,
    x: Tensor,
    conv: nn.Module,
    graph: Sequence[Tensor | None],
    results: Sequence[Tensor],
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, ...]:
    """Compute the gradients of x and of the WEIGHTS, if they are wanted, from that of the output, g [N, out].

    graph: ptr, δ, the mean degree, the senders, and the three tensors of the transpose or None. results: as `forward`
    returns them.
    """
    g, (packed, parts, aggregates, y) = _contiguous(g), results[:4]
    plan = Plan.of(conv, conv._modules["combined"], x.dtype)
    ptr, column, transpose, scaling = graph[0], graph[3], tuple(graph[4:]), graph[:3]
    grad_parts = _back_through_mix(g, packed, plan)  # [N, W], of which U's part is written
    grad_aggregates = _spread(grad_parts, packed, scaling, plan)  # [N, 1, A, C]
    into_target, into_source = _split(grad_parts, plan)
    aggregation_backward.backward(
        grad_aggregates, _split(parts, plan)[1], None, ptr, column,
        transpose_edges(ptr, column) if transpose[0] is None else transpose,
        plan.names, aggregation.Saved(*results[4:]), target=True, into=(into_source, into_target),
    )  # fmt: skip
    grad_x = _back_to_x(grad_parts, packed, plan) if wanted[0] else None
    if not wanted[1]:
        return grad_x, *(None,) * 6
    return grad_x, *layer_weights.gradients(grad_parts, _contiguous(x), aggregates, g, y, scaling, plan)


def allocate(like: Tensor, conv: nn.Module, N: int, E: int) -> tuple[Tensor, ...]:
    """Allocate what `forward` returns with save=True, the output first, for x like `like`."""
    combined = conv._modules["combined"]
    places, names = Plan.of(conv, combined, like.dtype).places, " ".join(combined.aggregators)
    width = conv.towers * conv.F_out
    aggregates, *saved = aggregation.allocate(like.new_empty(N, 1, places.C), N, E, names, True)
    out, y, parts = (like.new_empty(N, columns) for columns in (width, width, places.W))
    return out, like.new_empty(places.END), parts, aggregates, y, *saved


def _contiguous(t: Tensor) -> Tensor:
    """Make t contiguous; checking first is quicker than a call that does nothing."""
    return t if t.is_contiguous() else t.contiguous()


@torch.enable_grad()
def _by_autograd(
    ctx: FunctionCtx, g: Tensor, x: Tensor, weights: list[Tensor], graph: list[Tensor], differentiable: bool
) -> list[Tensor | None]:
    """Gradients of x and of the weights through the twin; `differentiable`: they have derivatives themselves."""
    neighbourhoods = Neighbourhoods(graph[0], graph[3], None)
    wanted = ctx.needs_input_grad[:7]
    with plain():
        out = functional_call(ctx.conv, dict(zip(WEIGHTS, weights, strict=True)), (x, neighbourhoods))
    inputs = [t for t, needed in zip((x, *weights), wanted, strict=True) if needed]
    grads = iter(torch.autograd.grad(out, inputs, g, create_graph=differentiable))
    return [next(grads) if needed else None for needed in wanted]


# ---- products with the packed weights ----


def _project(x: Tensor, packed: Tensor, plan: Plan) -> Tensor:
    """Compute [U_own; W1; W2] x + b, [N, W]."""
    X, W = plan.size.X, plan.places.W
    return torch.addmm(packed.as_strided((W,), (1,), plan.places.BIAS), x, packed.as_strided((X, W), (1, X)))


def _split(parts: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """M's parts of [N, W], for the receiver and for the sender, [N, 1, C] each: all towers as one."""
    _, _, OP, C, W, *_ = plan.places
    shape, strides = (parts.shape[0], 1, C), (W, C, 1)
    return parts.as_strided(shape, strides, OP), parts.as_strided(shape, strides, OP + C)


def _back_to_x(grad_parts: Tensor, packed: Tensor, plan: Plan) -> Tensor:
    """Gradient of x, [N, in], from that of its projection, [N, W]."""
    X = plan.size.X
    return torch.mm(grad_parts, packed.as_strided((plan.places.W, X), (X, 1)))


def _back_through_mix(g: Tensor, packed: Tensor, plan: Plan) -> Tensor:
    """Gradient of the parts, [N, W], of which only U's is written, from that of the layer's output, [N, out]."""
    N, (_, _, OP, _, W, _, _, MIX, _) = g.shape[0], plan.places
    grad_parts = g.new_empty(N, W)
    mix = packed.as_strided((g.shape[1], OP), (OP, 1), MIX)
    torch.mm(g, mix, out=grad_parts.as_strided((N, OP), (W, 1)))
    return grad_parts


# ---- products with the aggregates ----


@triton.jit(do_not_specialize=["N"])
def _combine_kernel(
    parts, aggregates, packed, y, ptr, delta, mean_degree, N,
    T: tl.constexpr, H: tl.constexpr, A: tl.constexpr, S: tl.constexpr, FP: tl.constexpr, HP: tl.constexpr,
    C: tl.constexpr, W: tl.constexpr, SCALED: tl.constexpr, EXPONENTS: tl.constexpr, LINEAR: tl.constexpr,
    ACC: tl.constexpr, PRECISION: tl.constexpr, SP: tl.constexpr, BN: tl.constexpr, BF: tl.constexpr, BH: tl.constexpr,
):  # fmt: skip
    """Compute y = U_own x + b + Σ_s S_s(d) W_s · aggregates, for BN nodes and BH outputs of one tower."""
    node = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    tower = tl.program_id(1) // (HP // BH)
    begin = tl.program_id(1) % (HP // BH) * BH
    scaler = tl.arange(0, SP * BH) // BH
    h = begin + tl.arange(0, SP * BH) % BH
    weights = packed + SCALED + ((tower * S + scaler) * HP + h) * (A * FP)
    rows = aggregates + node * (A * C) + tower * FP
    total = tl.zeros([BN, SP * BH], ACC)
    STEPS: tl.constexpr = (FP + BF - 1) // BF
    for step in range(0, A * STEPS):
        a = step // STEPS
        f = step % STEPS * BF + tl.arange(0, BF)
        row = tl.load(rows[:, None] + (a * C + f)[None, :], mask=(node < N)[:, None] & (f < FP)[None, :], other=0.0)
        w = tl.load(weights[None, :] + (a * FP + f)[:, None], mask=(f < FP)[:, None] & (scaler < S)[None, :], other=0.0)
        total = tl.dot(row, w, total, input_precision=PRECISION, out_dtype=ACC)
    d = degrees(ptr, node, N, ACC)
    total *= factors(d, tl.load(delta).to(ACC), tl.load(mean_degree).to(ACC), scaler, S, EXPONENTS, LINEAR, ACC)
    out = tl.sum(tl.reshape(total, [BN, SP, BH]), 1)
    h = begin + tl.arange(0, BH)
    mask = (node < N)[:, None] & (h < H)[None, :]
    out += tl.load(parts + (node * W)[:, None] + (tower * H + h)[None, :], mask=mask, other=0.0)
    tl.store(y + (node * (T * H))[:, None] + (tower * H + h)[None, :], out, mask=mask)


@triton.jit(do_not_specialize=["N"])
def _spread_kernel(
    grad_parts, packed, grad, ptr, delta, mean_degree, N,
    T: tl.constexpr, H: tl.constexpr, A: tl.constexpr, S: tl.constexpr, FP: tl.constexpr, HP: tl.constexpr,
    C: tl.constexpr, W: tl.constexpr, SCALED: tl.constexpr, EXPONENTS: tl.constexpr, LINEAR: tl.constexpr,
    ACC: tl.constexpr, PRECISION: tl.constexpr, BN: tl.constexpr, BF: tl.constexpr, BH: tl.constexpr,
):  # fmt: skip
    """Compute Σ_s S_s(d) W_sᵀ grad_y for BN nodes, one aggregate and one tower; the last tower has all the padding."""
    node = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    tower = tl.program_id(1) // A
    a = tl.program_id(1) % A
    d = degrees(ptr, node, N, ACC)
    delta, mean_degree = tl.load(delta).to(ACC), tl.load(mean_degree).to(ACC)
    width = tl.where(tower == T - 1, C - (T - 1) * FP, FP)
    for first in range(0, C - (T - 1) * FP, BF):
        f = first + tl.arange(0, BF)
        total = tl.zeros([BN, BF], ACC)
        for begin in range(0, HP, BH):
            h = begin + tl.arange(0, BH)
            at = (node * W)[:, None] + (tower * H + h)[None, :]
            g = tl.load(grad_parts + at, mask=(node < N)[:, None] & (h < H)[None, :], other=0.0)
            for s in tl.static_range(S):
                at = ((tower * S + s) * HP + h)[:, None] * (A * FP) + (a * FP + f)[None, :]
                w = tl.load(packed + SCALED + at, mask=(f < FP)[None, :], other=0.0)
                scale = factor(d, delta, mean_degree, EXPONENTS[s], LINEAR[s], ACC)
                total = tl.dot(g * scale[:, None], w, total, input_precision=PRECISION, out_dtype=ACC)
        to = (node * (A * C))[:, None] + (a * C + tower * FP + f)[None, :]
        tl.store(grad + to, total, mask=(node < N)[:, None] & (f < width)[None, :])


_launch_combine, _launch_spread = Launch(_combine_kernel), Launch(_spread_kernel)


def _combine(parts: Tensor, aggregates: Tensor, packed: Tensor, graph: Sequence[Tensor], plan: Plan) -> Tensor:
    """Combine parts [N, W] and aggregates [N, 1, A, C] into U's output, [N, T·H]."""
    N, T = parts.shape[0], plan.size.T
    y = parts.new_empty(N, T * plan.size.H)
    grid = (blocks(N, BN), T * (plan.places.HP // BH))
    _launch_combine(grid, (parts, aggregates, packed, y, *graph, N), plan.combine, WARPS)
    return y


def _spread(grad_parts: Tensor, packed: Tensor, graph: Sequence[Tensor], plan: Plan) -> Tensor:
    """Gradient of the aggregates, [N, 1, A, C], from U's part of that of the parts, [N, W]."""
    N, A = grad_parts.shape[0], plan.size.A
    grad = grad_parts.new_empty(N, 1, A, plan.places.C)
    _launch_spread((blocks(N, BN), plan.size.T * A), (grad_parts, packed, grad, *graph, N), plan.spread, WARPS)
    return grad
