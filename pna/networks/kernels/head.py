"""The three layers before the labels (figure 3) in one kernel each way, for many replicas.

Backward makes the layers' values again from x, which is quicker than to read them. With batch normalisation a program
has all rows of a replica; without it, a block of them.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.kernels.replicas import replicated, rows_of_replicas
from pna.kernels.selection import first_derivative, on_its_device
from pna.networks.kernels.dense import dot, put_row, put_tile
from pna.networks.kernels.gates import padded
from pna.networks.kernels.layout import taken_back
from pna.networks.kernels.linear import ACTIVATIONS, rows_at, tile
from pna.networks.kernels.nvrtc import available, shared_memory

__all__ = ["head", "supports"]

BLOCK, PROGRAMS, WARPS = 64, 80, 4
MOST, MANY_WARPS = 512, 16  # rows that a program can hold, with so many warps
EPSILON = tl.constexpr(1e-5)

# Where they lie changes with the number of replicas, and kernels need not be compiled anew for that.
WEIGHTS = ["W_1", "b_1", "W_2", "b_2", "W_3", "b_3", "w_1", "c_1", "w_2", "c_2", "mean_1", "var_1", "mean_2", "var_2"]


def supports(x: Tensor, layers: nn.ModuleList, norms: nn.ModuleList | None) -> bool:
    """Whether the kernels serve: three layers of up to 64 features in, 32 between and out.

    If normalised, of 512 rows at most, for which shared memory must suffice: 16 features want 128 KB, 20 want twice as
    much. Under statistics that are known there is no gradient.
    """
    sizes = [layers[0].in_features, *(layer.out_features for layer in layers)]
    if len(sizes) != 4 or sizes[1] != sizes[2] or sizes[0] > 64 or max(sizes[1:]) > 32:
        return False
    if norms is None:
        return True
    keep = torch.is_grad_enabled()
    needed = (8 if keep else 4) * _size(len(x)) * _size(sizes[0])  # bytes: x twice, or once
    fits = len(x) <= MOST and available(x) and needed <= shared_memory(x.device)[0]
    return fits and (norms[0].training or not keep)


@on_its_device
def head(x: Tensor, layers: nn.ModuleList, norms: nn.ModuleList | None, between: str, last: str) -> Tensor:
    """[rows, in] -> [rows, out]; in training the norms' running statistics move on."""
    weights = [t for layer in layers for t in (layer.weight, layer.bias)]
    weights += [t for norm in norms or () for t in (norm.weight, norm.bias)]
    running = [t for norm in norms or () for t in (norm.running_mean, norm.running_var)]
    slopes = ACTIVATIONS[between], ACTIVATIONS[last]
    lifted = (t.unsqueeze(0) for t in (x, *weights, *running))
    return _Head.apply(*lifted, norms is not None and norms[0].training, slopes).squeeze(0)


@triton.jit
def _layer(x, weight, bias, r, inputs, outputs, slope, IN: tl.constexpr, OUT: tl.constexpr):
    """The activation of x Wᵀ + b."""
    w = tl.trans(tile(weight + r * outputs * inputs, OUT, IN, outputs, inputs))
    value = dot(x, w, tl.zeros([x.shape[0], OUT], tl.float32)) + _row(bias, r, outputs, OUT)
    return tl.where(value > 0, value, slope * value)


@triton.jit
def _row(base, r, width, WIDTH: tl.constexpr):
    c = tl.arange(0, WIDTH)
    return tl.load(base + r * width + c, mask=c < width, other=0.0)[None, :]


@triton.jit
def _statistics(h, real, V):
    mean = tl.sum(tl.where(real, h, 0.0), 0)[None, :] / V
    away = tl.where(real, h - mean, 0.0)
    return mean, tl.sum(away * away, 0)[None, :] / V


@triton.jit
def _normalised(
    h, real, weight, bias, mean, var, r, stride, V, hidden, TRAINING: tl.constexpr, H: tl.constexpr
):  # fmt: skip
    """Batch normalisation; in training the running statistics move on by a tenth, of the unbiased variance."""
    c = tl.arange(0, H)[None, :]
    mean += r * stride + c
    var += r * stride + c
    inside = c < hidden
    of_mean = tl.load(mean, mask=inside, other=0.0)
    of_var = tl.load(var, mask=inside, other=0.0)
    if TRAINING:
        own_mean, own_var = _statistics(h, real, V)
        tl.store(mean, 0.9 * of_mean + 0.1 * own_mean, mask=inside)
        tl.store(var, 0.9 * of_var + 0.1 * own_var * (V / tl.maximum(1, V - 1)), mask=inside)
        of_mean, of_var = own_mean, own_var
    slope = _row(weight, r, hidden, H) / tl.sqrt(of_var + EPSILON)
    return slope * (h - of_mean) + _row(bias, r, hidden, H)


@triton.jit(do_not_specialize_on_alignment=WEIGHTS)
def head_forward(
    x, W_1, b_1, W_2, b_2, W_3, b_3, w_1, c_1, w_2, c_2, mean_1, var_1, mean_2, var_2, y,
    V, stride, inputs, hidden, outputs, between, last,
    NORM: tl.constexpr, TRAINING: tl.constexpr, IN: tl.constexpr, H: tl.constexpr, OUT: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place, real = rows_at(x + r * V * inputs, rows, V, inputs, IN)
    h = _layer(tl.load(place, mask=real, other=0.0), W_1, b_1, r, inputs, hidden, between, IN, H)
    if NORM:
        h = _normalised(h, (rows < V)[:, None], w_1, c_1, mean_1, var_1, r, stride, V, hidden, TRAINING, H)
    h = _layer(h, W_2, b_2, r, hidden, hidden, between, H, H)
    if NORM:
        h = _normalised(h, (rows < V)[:, None], w_2, c_2, mean_2, var_2, r, stride, V, hidden, TRAINING, H)
    place, real = rows_at(y + r * V * outputs, rows, V, outputs, OUT)
    tl.store(place, _layer(h, W_3, b_3, r, hidden, outputs, last, H, OUT), mask=real)


@triton.jit
def _standardised(h, real, V):
    """(h - mean) / √(variance + ε), and the inverse of that root."""
    mean, var = _statistics(h, real, V)
    inverse = 1 / tl.sqrt(var + EPSILON)
    return tl.where(real, (h - mean) * inverse, 0.0), inverse


@triton.jit
def _norm_back(grad, u, inverse, weight, r, V, hidden, to, H: tl.constexpr):
    """The gradient of h, weight / √(variance + ε) · (g - E[g] - u E[g u]); those of weight and bias are stored."""
    total, product = tl.sum(grad, 0), tl.sum(grad * u, 0)
    put_row(to, product, H)
    put_row(to + H, total, H)
    return _row(weight, r, hidden, H) * inverse * (grad - (total / V)[None, :] - u * (product / V)[None, :])


@triton.jit
def _outer(d, z, sums):
    """sums + dᵀ z, by chunks of rows: [rows, m] and [rows, n], [chunks, m, n], since each warp has one then."""
    CHUNKS: tl.constexpr = sums.shape[0]
    rows: tl.constexpr = d.shape[0] // CHUNKS
    left = tl.permute(tl.reshape(d, [CHUNKS, rows, d.shape[1]]), (0, 2, 1))
    return dot(left, tl.reshape(z, [CHUNKS, rows, z.shape[1]]), sums)


@triton.jit(do_not_specialize_on_alignment=WEIGHTS[:10])
def head_backward(
    x, W_1, b_1, W_2, b_2, W_3, b_3, w_1, c_1, w_2, c_2, grad, grad_x, sums,
    V, inputs, hidden, outputs, between, last,
    NORM: tl.constexpr, IN: tl.constexpr, H: tl.constexpr, OUT: tl.constexpr, BLOCK: tl.constexpr,
    CHUNKS: tl.constexpr, ROW: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(1)
    sums += (r * tl.num_programs(0) + tl.program_id(0)) * ROW
    of_norms = sums + H * IN + H * H + OUT * H + 2 * H + OUT
    of_1 = tl.zeros([CHUNKS, H, IN], tl.float32)
    of_2 = tl.zeros([CHUNKS, H, H], tl.float32)
    of_3 = tl.zeros([CHUNKS, OUT, H], tl.float32)
    bias_1 = tl.zeros([H], tl.float32)
    bias_2 = tl.zeros([H], tl.float32)
    bias_3 = tl.zeros([OUT], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        rows = block * BLOCK + tl.arange(0, BLOCK)
        real = (rows < V)[:, None]
        place, inside = rows_at(x + r * V * inputs, rows, V, inputs, IN)
        given = tl.load(place, mask=inside, other=0.0)
        h_1 = _layer(given, W_1, b_1, r, inputs, hidden, between, IN, H)
        z_1 = h_1
        if NORM:
            u_1, inverse_1 = _standardised(h_1, real, V)
            z_1 = tl.where(real, _row(w_1, r, hidden, H) * u_1 + _row(c_1, r, hidden, H), 0.0)
        h_2 = _layer(z_1, W_2, b_2, r, hidden, hidden, between, H, H)
        z_2 = h_2
        if NORM:
            u_2, inverse_2 = _standardised(h_2, real, V)
            z_2 = tl.where(real, _row(w_2, r, hidden, H) * u_2 + _row(c_2, r, hidden, H), 0.0)
        y = _layer(z_2, W_3, b_3, r, hidden, outputs, last, H, OUT)
        place, inside = rows_at(grad + r * V * outputs, rows, V, outputs, OUT)
        d = tl.load(place, mask=inside, other=0.0)
        d = tl.where(y > 0, d, last * d)
        bias_3 += tl.sum(d, 0)
        of_3 = _outer(d, z_2, of_3)
        d = dot(d, tile(W_3 + r * outputs * hidden, OUT, H, outputs, hidden), tl.zeros([BLOCK, H], tl.float32))
        if NORM:
            d = _norm_back(d, u_2, inverse_2, w_2, r, V, hidden, of_norms + 2 * H, H)
        d = tl.where(real, tl.where(h_2 > 0, d, between * d), 0.0)
        bias_2 += tl.sum(d, 0)
        of_2 = _outer(d, z_1, of_2)
        d = dot(d, tile(W_2 + r * hidden * hidden, H, H, hidden, hidden), tl.zeros([BLOCK, H], tl.float32))
        if NORM:
            d = _norm_back(d, u_1, inverse_1, w_1, r, V, hidden, of_norms, H)
        d = tl.where(real, tl.where(h_1 > 0, d, between * d), 0.0)
        bias_1 += tl.sum(d, 0)
        of_1 = _outer(d, given, of_1)
        d = dot(d, tile(W_1 + r * hidden * inputs, H, IN, hidden, inputs), tl.zeros([BLOCK, IN], tl.float32))
        place, inside = rows_at(grad_x + r * V * inputs, rows, V, inputs, IN)
        tl.store(place, d, mask=inside)
    put_tile(sums, tl.sum(of_1, 0), H, IN)
    put_row(sums + H * IN, bias_1, H)
    sums += H * IN + H
    put_tile(sums, tl.sum(of_2, 0), H, H)
    put_row(sums + H * H, bias_2, H)
    sums += H * H + H
    put_tile(sums, tl.sum(of_3, 0), OUT, H)
    put_row(sums + OUT * H, bias_3, OUT)


def _size(width: int) -> int:
    return max(16, triton.next_power_of_2(width))


def _gradients(*tensors: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The layout of what head_backward sums: of each layer W, padded, and b; of the norms their weights and biases."""
    rows = []
    for t in tensors:
        t = padded(t, _size(t.shape[-1]))
        rows.append(torch.nn.functional.pad(t, (0, 0, 0, _size(len(t)) - len(t))) if t.dim() == 2 else t)
    return [], [torch.cat([t.flatten() for t in rows]).unsqueeze(0)]


class _Head(Function):
    """x [R, V, in], the layers' and norms' tensors [R, …], running statistics -> [R, V, out]."""

    @staticmethod
    def forward(x: Tensor, *arguments: Any) -> Tensor:
        *tensors, training, slopes = arguments
        weights, running = _parted(tensors)
        x, weights = x.contiguous(), [t.contiguous() for t in weights]
        y = x.new_empty(*x.shape[:2], weights[4].shape[1])
        sizes = _constants(x, weights)
        stride = running[0].stride(0) if running else 0
        if len({t.stride() for t in running}) > 1:
            raise ValueError("the running statistics of both norms must be columns of one matrix")
        nothing = [x] * (14 - len(weights) - len(running))
        head_forward[(-(-x.shape[1] // sizes["BLOCK"]), len(x))](
            x, *weights, *running, *nothing, y, x.shape[1], stride, *_widths(weights), *slopes, TRAINING=training,
            **sizes,
        )  # fmt: skip
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        x, *tensors, _, ctx.slopes = inputs
        weights, running = _parted(tensors)
        ctx.constants = len(running)
        ctx.save_for_backward(x, *weights)

    @staticmethod
    @first_derivative
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = (t.contiguous() for t in ctx.saved_tensors)
        R, V, _ = x.shape
        sizes = _constants(x, weights)
        T = min(
            -(-V // sizes["BLOCK"]), PROGRAMS
        )  # whatever R is, so that a replica has the same bits beside any others
        row = sum(_size(t.shape[1]) * (_size(t.shape[2]) if t.dim() == 3 else 1) for t in weights)
        grad_x, sums = torch.empty_like(x), x.new_empty(R * T * row)
        nothing = [x] * (10 - len(weights))
        head_backward[(T, R)](
            x, *weights, *nothing, grad.contiguous(), grad_x, sums, V, *_widths(weights), *ctx.slopes, ROW=row,
            CHUNKS=min(sizes["num_warps"], sizes["BLOCK"] // 16), **sizes,
        )  # fmt: skip
        return grad_x, *taken_back(_gradients, weights, sums, T), *(None,) * (ctx.constants + 2)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, x: Tensor, *rest: Any) -> tuple[Tensor, int]:
        *tensors, training, slopes = rest
        R, dims = info.batch_size, in_dims[1:-2]
        _, running = _parted(list(zip(tensors, dims, strict=True)))
        if training and any(dim is None for _, dim in running):
            raise ValueError("replicas need running statistics of their own")
        lifted = (rows_of_replicas(t, dim, R) for t, dim in zip(tensors, dims, strict=True))
        return _Head.apply(replicated(x, in_dims[0], R), *lifted, training, slopes).unflatten(0, (R, -1)), 0


def _parted(tensors: list) -> tuple[list, list]:
    """The weights, and the running statistics of the two norms if there are any."""
    return (tensors[:10], tensors[10:]) if len(tensors) > 6 else (tensors, [])


def _widths(weights: list[Tensor]) -> tuple[int, int, int]:
    """In, between, out."""
    return weights[0].shape[2], weights[2].shape[2], weights[4].shape[1]


def _constants(x: Tensor, weights: list[Tensor]) -> dict[str, Any]:
    norm = len(weights) > 6
    sizes = dict(zip(("IN", "H", "OUT"), map(_size, _widths(weights)), strict=True))
    block = _size(x.shape[1]) if norm else BLOCK
    warps = min(MANY_WARPS, max(WARPS, block // 32))
    return {"NORM": norm, **sizes, "BLOCK": block, "num_warps": warps, "num_stages": 1}
