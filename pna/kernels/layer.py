"""A whole PNA layer with linear M and U (equations 7 and 8) as one function, forward and backward, in few launches.

On a batch of small graphs a layer's time is that of the host, which launches its operations one by one. Here they are
few: what is linear in x_i alone, y = [U_own; W1; W2] x + b, is one product; the aggregates come from one kernel
(pna.kernels.aggregation); their products with U's weights, one for each scaler, are one batched product; one kernel
scales and sums them; the mixing layer is one product. The backward pass is the same, backwards and by hand.

The plain-torch twin is the layer itself, pna.conv, which serves wherever this does not, second derivatives included.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.func import functional_call

from pna.kernels import aggregation, aggregation_backward
from pna.kernels.choice import plain
from pna.kernels.launch import Launch
from pna.kernels.layout import blocks, wide
from pna.neighbourhoods import Neighbourhoods, transpose_edges
from pna.scalers import SCALERS

__all__ = ["WEIGHTS", "layer"]

WEIGHTS = ("U.0.weight", "U.0.bias", "M.0.weight", "M.0.bias", "mix.weight", "mix.bias")
TILE, WARPS = 1024, 4  # numbers and warps of a program


def layer(conv: nn.Module, x: Tensor, neighbourhoods: Neighbourhoods) -> Tensor:
    """What a PNAConv with one layer each in M and U, without edge features, makes of x [N, in] -> [N, out]."""
    M, U, mix = conv.M._modules["0"], conv.U._modules["0"], conv.mix
    weights = (U.weight, U.bias, M.weight, M.bias, mix.weight, mix.bias)
    save = torch.is_grad_enabled() and (x.requires_grad or any(w.requires_grad for w in weights))
    return _Layer.apply(x, *weights, conv, neighbourhoods, save)


class Sizes(NamedTuple):
    """T towers, F features in and H out, A aggregators, and the scalers: (log(d + 1) / δ)^α or (d / d̄)^power."""

    T: int
    F: int
    H: int
    A: int
    exponents: tuple[float, ...]
    linear: tuple[bool, ...]
    shared: bool  # whether every tower sees all of x

    @property
    def S(self) -> int:
        """The number of scalers."""
        return len(self.exponents)

    @property
    def R(self) -> int:
        """The rows of a tower's [U_own; W1; W2]."""
        return self.H + 2 * self.F

    @classmethod
    def of(cls, conv: nn.Module) -> "Sizes":
        """Of a PNAConv."""
        combined, F = conv.combined, conv.F_in
        kinds = _kinds(combined.scalers)
        return cls(conv.towers, F, conv.F_out, len(combined.aggregators), *kinds, shared=F == conv.in_channels)


@functools.cache
def _kinds(scalers: tuple[str | float, ...]) -> tuple[tuple[float, ...], tuple[bool, ...]]:
    """The exponents of the scalers, and which are linear."""
    pairs = [SCALERS[s] if isinstance(s, str) else ("logarithmic", float(s)) for s in scalers]
    return tuple(exponent for _, exponent in pairs), tuple(kind == "linear" for kind, _ in pairs)


@functools.cache
def _constants(size: Sizes, dtype: torch.dtype) -> dict:
    """What the kernels of the scalers are told at compile time."""
    C = size.T * size.H
    BC = min(128, triton.next_power_of_2(C))
    return {
        "H": size.H, "C": C, "S": size.S, "EXPONENTS": size.exponents, "LINEAR": size.linear,
        "ACC": wide(dtype), "B": TILE // BC, "BC": BC,
    }  # fmt: skip


class _Layer(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, *inputs: object) -> Tensor:
        with torch._C._AutoDispatchBelowAutograd():  # which would look at every operation, and find nothing to do
            return _Layer.compute(ctx, x, *inputs)

    @staticmethod
    def compute(ctx: FunctionCtx, x: Tensor, *inputs: object) -> Tensor:
        """The forward pass."""
        *weights, conv, neighbourhoods, save = inputs
        U, U_bias, M, M_bias, mix, mix_bias = (_contiguous(w) for w in weights)
        size, names = Sizes.of(conv), " ".join(conv.combined.aggregators)
        ptr, column, _, transpose = neighbourhoods
        packed, bias, scaled = _pack(U, U_bias, M, M_bias, size)  # [T·R, F], [T·R], [T, S·H, A·F]
        parts = _project(x, packed, bias, size)  # [N, T, R]
        _, target, source = torch.split_with_sizes(parts, (size.H, size.F, size.F), 2)
        aggregates, saved = aggregation.forward(source, None, target, ptr, column, names, save)  # [N, T, A, F]
        rows = aggregates.view(x.shape[0], size.T, -1).transpose(0, 1)  # [T, N, A·F]
        products = torch.bmm(rows, scaled.transpose(1, 2))  # [T, N, S·H]
        degrees = (ptr, conv.combined.delta, conv.combined.mean_degree)
        y = _combine(parts, products, degrees, size)  # [N, T·H]
        if save:
            ctx.conv, ctx.size, ctx.names = conv, size, names
            kept = (packed, scaled, source, rows, y, *degrees, column, *saved)
            ctx.save_for_backward(x, *weights, *kept, *(transpose or (None,) * 3))
        return torch.addmm(mix_bias, y, mix.t())

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor | None, ...]:
        x, *rest = ctx.saved_tensors
        weights, kept, transpose = rest[:6], rest[6:-3], tuple(rest[-3:])
        if torch.is_grad_enabled():  # a second derivative is wanted: through the layer's twin
            return *_differentiable(ctx, g, x, weights, kept), None, None, None
        with torch._C._AutoDispatchBelowAutograd():
            return _Layer.differentiate(ctx, _contiguous(g), x, weights[4], kept, transpose)

    @staticmethod
    def differentiate(
        ctx: FunctionCtx, g: Tensor, x: Tensor, mix: Tensor, kept: list[Tensor], transpose: tuple
    ) -> tuple[Tensor | None, ...]:
        """The backward pass."""
        packed, scaled, source, rows, y, *degrees, column = kept[:9]
        size, ptr, N = ctx.size, degrees[0], x.shape[0]
        grad_y = torch.mm(g, mix)  # [N, T·H]
        grad_parts, grad_products = _scale(grad_y, degrees, size)  # [N, T, R] with its first H written, [T, N, S·H]
        grad_rows = torch.bmm(grad_products, scaled).view(size.T, N, size.A, size.F).transpose(0, 1)  # [N, T, A, F]
        _, into_target, into_source = torch.split_with_sizes(grad_parts, (size.H, size.F, size.F), 2)
        aggregation_backward.backward(
            grad_rows, source, None, ptr, column, transpose_edges(ptr, column) if transpose[0] is None else transpose,
            ctx.names, aggregation.Saved(*kept[9:]), target=True, into=(into_source, into_target),
        )  # fmt: skip
        grad_x = _project_back(grad_parts, packed, size) if ctx.needs_input_grad[0] else None
        if not any(ctx.needs_input_grad[1:7]):
            return grad_x, *(None,) * 9
        grad_packed, grad_bias = _weights_of_projection(grad_parts, x, size)
        grad_scaled = torch.bmm(grad_products.transpose(1, 2), rows)  # [T, S·H, A·F]
        grads = _unpack(grad_packed, grad_bias, grad_scaled, size)
        return grad_x, *grads, torch.mm(g.t(), y), g.sum(0), None, None, None


def _contiguous(t: Tensor) -> Tensor:
    return t if t.is_contiguous() else t.contiguous()


def _differentiable(
    ctx: FunctionCtx, g: Tensor, x: Tensor, weights: list[Tensor], kept: list[Tensor]
) -> list[Tensor | None]:
    """The gradients of x and of the weights as functions that have derivatives themselves."""
    neighbourhoods = Neighbourhoods(kept[5], kept[8], None)
    wanted = ctx.needs_input_grad[:7]
    with plain():
        out = functional_call(ctx.conv, dict(zip(WEIGHTS, weights, strict=True)), (x, neighbourhoods))
    inputs = [t for t, needed in zip((x, *weights), wanted, strict=True) if needed]
    grads = iter(torch.autograd.grad(out, inputs, g, create_graph=True))
    return [next(grads) if needed else None for needed in wanted]


# ---- products ----


def _project(x: Tensor, packed: Tensor, bias: Tensor, size: Sizes) -> Tensor:
    """Each tower's [U_own; W1; W2] x + b, [N, T, R]."""
    if size.shared:
        return torch.addmm(bias, x, packed.t()).view(x.shape[0], size.T, size.R)
    packed = packed.view(size.T, size.R, size.F).transpose(1, 2)
    return torch.baddbmm(bias.view(size.T, 1, size.R), _towers(x, size), packed).transpose(0, 1)


def _towers(x: Tensor, size: Sizes) -> Tensor:
    """x [N, T·F] by towers, [T, N, F]."""
    return x.reshape(x.shape[0], size.T, size.F).transpose(0, 1)


def _project_back(grad: Tensor, packed: Tensor, size: Sizes) -> Tensor:
    """The gradient of x, [N, in], from that of its projection [N, T, R]."""
    if size.shared:
        return torch.mm(grad.view(grad.shape[0], -1), packed)
    packed = packed.view(size.T, size.R, size.F)
    return torch.bmm(grad.transpose(0, 1), packed).transpose(0, 1).reshape(grad.shape[0], -1)


def _weights_of_projection(grad: Tensor, x: Tensor, size: Sizes) -> tuple[Tensor, Tensor]:
    """The gradients of [U_own; W1; W2], [T, R, F], and of its bias, [T, R]."""
    if size.shared:
        flat = grad.view(grad.shape[0], -1)  # [N, T·R]
        return torch.mm(flat.t(), x), flat.sum(0)
    return torch.bmm(grad.permute(1, 2, 0), _towers(x, size)), grad.sum(0)


# ---- scalers ----


@triton.jit
def _factor(d, delta, mean_degree, EXPONENT: tl.constexpr, LINEAR: tl.constexpr, ACC: tl.constexpr):
    """S(d, α) of equation 6, or the linear scaler; at d = 0 a pole is taken as d = 1, as in pna.scalers."""
    if EXPONENT < 0:
        d = tl.maximum(d, 1.0)
    base = d / mean_degree if LINEAR else tl.log(d + 1.0) / delta
    if EXPONENT == 0:
        return tl.full(d.shape, 1.0, ACC)
    elif EXPONENT == 1:
        return base
    elif EXPONENT == -1:
        return 1.0 / base
    else:
        return tl.exp(EXPONENT * tl.log(base))


@triton.jit
def _tile(ptr, delta, mean_degree, N, C: tl.constexpr, ACC: tl.constexpr, B: tl.constexpr, BC: tl.constexpr):
    """B nodes, their degrees, δ and the mean degree, BC channels c = (tower, output), and which of all are real."""
    node = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    start = tl.load(ptr + node, mask=node < N, other=0)
    d = (tl.load(ptr + node + 1, mask=node < N, other=0) - start).to(ACC)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    mask = (node < N)[:, None] & (c < C)[None, :]
    return node, d, tl.load(delta).to(ACC), tl.load(mean_degree).to(ACC), c, mask


@triton.jit(do_not_specialize=["stride_n", "stride_t", "N"])
def _combine_kernel(
    parts, products, y, ptr, delta, mean_degree, stride_n, stride_t, N,
    H: tl.constexpr, C: tl.constexpr, S: tl.constexpr, EXPONENTS: tl.constexpr, LINEAR: tl.constexpr,
    ACC: tl.constexpr, B: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """y = U_own x + b + Σ_s S_s(d) W_s · aggregates."""
    node, d, delta, mean_degree, c, mask = _tile(ptr, delta, mean_degree, N, C, ACC, B, BC)
    tower = (c // H).to(tl.int64)
    own = (node * stride_n)[:, None] + (tower * stride_t + c % H)[None, :]
    total = tl.load(parts + own, mask=mask, other=0.0).to(ACC)
    at = (node * (S * H))[:, None] + (tower * N * (S * H) + c % H)[None, :]
    for s in tl.static_range(S):
        factor = _factor(d, delta, mean_degree, EXPONENTS[s], LINEAR[s], ACC)
        total += factor[:, None] * tl.load(products + at + s * H, mask=mask, other=0.0)
    tl.store(y + (node * C)[:, None] + c[None, :], total, mask=mask)


@triton.jit(do_not_specialize=["stride_n", "stride_t", "N"])
def _scale_kernel(
    parts, products, y, ptr, delta, mean_degree, stride_n, stride_t, N,
    H: tl.constexpr, C: tl.constexpr, S: tl.constexpr, EXPONENTS: tl.constexpr, LINEAR: tl.constexpr,
    ACC: tl.constexpr, B: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """The gradients of the two from that of y."""
    node, d, delta, mean_degree, c, mask = _tile(ptr, delta, mean_degree, N, C, ACC, B, BC)
    tower = (c // H).to(tl.int64)
    grad = tl.load(y + (node * C)[:, None] + c[None, :], mask=mask, other=0.0).to(ACC)
    own = (node * stride_n)[:, None] + (tower * stride_t + c % H)[None, :]
    tl.store(parts + own, grad, mask=mask)
    at = (node * (S * H))[:, None] + (tower * N * (S * H) + c % H)[None, :]
    for s in tl.static_range(S):
        factor = _factor(d, delta, mean_degree, EXPONENTS[s], LINEAR[s], ACC)
        tl.store(products + at + s * H, factor[:, None] * grad, mask=mask)


_launch_combine, _launch_scale = Launch(_combine_kernel), Launch(_scale_kernel)


def _combine(parts: Tensor, products: Tensor, degrees: Sequence[Tensor], size: Sizes) -> Tensor:
    """parts [N, T, R] and products [T, N, S·H] -> [N, T·H]."""
    y = products.new_empty(parts.shape[0], size.T * size.H)
    _run(_launch_combine, parts, products, y, degrees, size)
    return y


def _scale(grad: Tensor, degrees: Sequence[Tensor], size: Sizes) -> tuple[Tensor, Tensor]:
    """The gradients of parts [N, T, R], of which only U's own H are written, and of products [T, N, S·H]."""
    N, T, R = grad.shape[0], size.T, size.R
    parts = grad.new_empty(N, T, R) if size.shared else grad.new_empty(T, N, R).transpose(0, 1)
    products = grad.new_empty(T, N, size.S * size.H)
    _run(_launch_scale, parts, products, grad, degrees, size)
    return parts, products


def _run(launch: Launch, parts: Tensor, products: Tensor, y: Tensor, degrees: Sequence[Tensor], size: Sizes) -> None:
    constants = _constants(size, y.dtype)
    N, C = y.shape
    grid = (blocks(N, constants["B"]), blocks(C, constants["BC"]))
    launch(grid, (parts, products, y, *degrees, parts.stride(0), parts.stride(1), N), constants, WARPS)


# ---- weights ----


@triton.jit
def _copy(packed, own, width, UNPACK: tl.constexpr, BLOCK: tl.constexpr):
    """A row of weights into its place, or its gradient back."""
    for first in range(0, width, BLOCK):
        i = first + tl.arange(0, BLOCK)
        if UNPACK:
            tl.store(own + i, tl.load(packed + i, mask=i < width), mask=i < width)
        else:
            tl.store(packed + i, tl.load(own + i, mask=i < width), mask=i < width)


@triton.jit
def _weights_kernel(
    U, U_bias, M, M_bias, packed, bias, scaled,
    T: tl.constexpr, F: tl.constexpr, H: tl.constexpr, A: tl.constexpr, S: tl.constexpr,
    UNPACK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Row by row: U [T, H, (1 + S·A)·F] and M [T, F, 2F] to [U_own; W1; W2] and U's [T, S·H, A·F]; or back."""
    row = tl.program_id(0)
    R: tl.constexpr = H + 2 * F
    W: tl.constexpr = (1 + S * A) * F
    if row < T * R:
        t = row // R
        i = row % R
        if i < H:
            _copy(packed + row * F, U + (t * H + i) * W, F, UNPACK, BLOCK)
            _copy(bias + row, U_bias + t * H + i, 1, UNPACK, 1)
        elif i < H + F:
            _copy(packed + row * F, M + (t * F + i - H) * 2 * F, F, UNPACK, BLOCK)
            _copy(bias + row, M_bias + t * F + i - H, 1, UNPACK, 1)
        else:
            _copy(packed + row * F, M + (t * F + i - H - F) * 2 * F + F, F, UNPACK, BLOCK)
            if not UNPACK:  # M's bias is with the receiver's part
                tl.store(bias + row, 0.0)
    else:
        row -= T * R
        t = row // (S * H)
        s = row // H % S
        _copy(scaled + row * (A * F), U + (t * H + row % H) * W + F + s * (A * F), A * F, UNPACK, BLOCK)


_launch_weights = Launch(_weights_kernel)


def _pack(U: Tensor, U_bias: Tensor, M: Tensor, M_bias: Tensor, size: Sizes) -> tuple[Tensor, Tensor, Tensor]:
    """[U_own; W1; W2] of each tower, [T·R, F], its bias, [T·R], and U's weights scaler by scaler, [T, S·H, A·F]."""
    T, R = size.T, size.R
    packed, bias = U.new_empty(T * R, size.F), U.new_empty(T * R)
    scaled = U.new_empty(T, size.S * size.H, size.A * size.F)
    _move(U, U_bias, M, M_bias, packed, bias, scaled, size, unpack=False)
    return packed, bias, scaled


def _unpack(packed: Tensor, bias: Tensor, scaled: Tensor, size: Sizes) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of U's and M's weights and biases from those of the packed ones."""
    T, F, H = size.T, size.F, size.H
    U, M = packed.new_empty(T, H, (1 + size.S * size.A) * F), packed.new_empty(T, F, 2 * F)
    U_bias, M_bias = packed.new_empty(T, H), packed.new_empty(T, F)
    _move(U, U_bias, M, M_bias, packed, bias, scaled, size, unpack=True)
    return U, U_bias, M, M_bias


def _move(*tensors: Tensor | Sizes, unpack: bool) -> None:
    *tensors, size = tensors
    T, F, H, A, *_ = size
    constants = {"T": T, "F": F, "H": H, "A": A, "S": size.S, "UNPACK": unpack, "BLOCK": TILE // 2}
    _launch_weights((T * (size.R + size.S * H), 1), tensors, constants, WARPS)
