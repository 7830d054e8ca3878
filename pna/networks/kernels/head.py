"""The three layers before the labels (figure 3) in one kernel each way, for many replicas.

The backward pass recomputes the layers' values from x, which is quicker than reading them. With batch normalisation a
program has all rows of a replica; without it, a block of them.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import Copied, KernelFunction, Strided, contiguous, saved
from pna.networks.kernels.dense import dot, put_row, put_tile
from pna.networks.kernels.gates import padded
from pna.networks.kernels.linear import ACTIVATIONS, rows_at, tile
from pna.networks.kernels.nvrtc import available, shared_memory
from pna.networks.kernels.packing import unpack_gradients

__all__ = ["head", "supports"]

BLOCK, PROGRAMS, WARPS = 64, 80, 4
MOST, MANY_WARPS = 512, 16  # rows that a program can hold, with so many warps
EPSILON = tl.constexpr(1e-5)

# Their alignment changes with the number of replicas, for which kernels need not be compiled again.
WEIGHTS = ["W_1", "b_1", "W_2", "b_2", "W_3", "b_3", "w_1", "c_1", "w_2", "c_2", "mean_1", "var_1", "mean_2", "var_2"]


def supports(x: Tensor, layers: nn.ModuleList, norms: nn.ModuleList | None) -> bool:
    """Whether the kernels can run these layers on x [rows, in]: three, up to 64 features in, 32 between and out.

    With norms, there may be at most 512 rows, which must fit into shared memory: 16 features need 128 KB, 20 twice as
    much. Norms with known statistics have no gradient.
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


def head(x: Tensor, layers: nn.ModuleList, norms: nn.ModuleList | None, between: str, last: str) -> Tensor:
    """Apply the layers and norms, [rows, in] -> [rows, out]; in training, the norms' running statistics are updated."""
    weights = [t for layer in layers for t in (layer.weight, layer.bias)]
    weights += [t for norm in norms or () for t in (norm.weight, norm.bias)]
    running = [t for norm in norms or () for t in (norm.running_mean, norm.running_var)]
    slopes = ACTIVATIONS[between], ACTIVATIONS[last]
    return _Head.call(norms is not None and norms[0].training, slopes, x, *weights, *running)


@triton.jit
def _layer(x, weight, bias, r, inputs, outputs, slope, IN: tl.constexpr, OUT: tl.constexpr):
    """One layer of a block of rows: the activation of x Wᵀ + b, [rows, OUT]."""
    w = tl.trans(tile(weight + r * outputs * inputs, OUT, IN, outputs, inputs))
    value = dot(x, w, tl.zeros([x.shape[0], OUT], tl.float32)) + _row(bias, r, outputs, OUT)
    return tl.where(value > 0, value, slope * value)


@triton.jit
def _row(base, r, width, WIDTH: tl.constexpr):
    """Load row r of a matrix [R, width], zero-padded to [1, WIDTH]."""
    c = tl.arange(0, WIDTH)
    return tl.load(base + r * width + c, mask=c < width, other=0.0)[None, :]


@triton.jit
def _statistics(h, real, V):
    """Mean and biased variance of the V real rows of h, [1, H] each."""
    mean = tl.sum(tl.where(real, h, 0.0), 0)[None, :] / V
    away = tl.where(real, h - mean, 0.0)
    return mean, tl.sum(away * away, 0)[None, :] / V


@triton.jit
def _normalised(
    h, real, weight, bias, mean, var, r, stride, V, hidden, TRAINING: tl.constexpr, H: tl.constexpr
):  # fmt: skip
    """Batch normalisation of h; TRAINING, the running statistics take in a tenth of the mean and unbiased variance."""
    c = tl.arange(0, H)[None, :]
    mean += r * stride + c
    var += r * stride + c
    inside = c < hidden
    of_mean = tl.load(mean, mask=inside, other=0.0)
    of_var = tl.load(var, mask=inside, other=0.0)
    if TRAINING:
        batch_mean, batch_var = _statistics(h, real, V)
        tl.store(mean, 0.9 * of_mean + 0.1 * batch_mean, mask=inside)
        tl.store(var, 0.9 * of_var + 0.1 * batch_var * (V / tl.maximum(1, V - 1)), mask=inside)
        of_mean, of_var = batch_mean, batch_var
    slope = _row(weight, r, hidden, H) / tl.sqrt(of_var + EPSILON)
    return slope * (h - of_mean) + _row(bias, r, hidden, H)


@triton.jit(do_not_specialize_on_alignment=WEIGHTS)
def head_forward(
    x, W_1, b_1, W_2, b_2, W_3, b_3, w_1, c_1, w_2, c_2, mean_1, var_1, mean_2, var_2, y,
    V, stride, inputs, hidden, outputs, between, last,
    NORM: tl.constexpr, TRAINING: tl.constexpr, IN: tl.constexpr, H: tl.constexpr, OUT: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """A block of rows of y; if NORM, all rows of a replica. stride: from replica to replica of running statistics."""
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
    """u = (h - mean) / √(variance + ε), [rows, H], and 1 / √(variance + ε), [1, H]."""
    mean, var = _statistics(h, real, V)
    inverse = 1 / tl.sqrt(var + EPSILON)
    return tl.where(real, (h - mean) * inverse, 0.0), inverse


@triton.jit
def _norm_back(grad, u, inverse, weight, r, V, hidden, to, H: tl.constexpr):
    """Gradient of h, weight / √(variance + ε) · (g - E[g] - u E[g u]); those of weight and bias are stored at `to`."""
    total, product = tl.sum(grad, 0), tl.sum(grad * u, 0)
    put_row(to, product, H)
    put_row(to + H, total, H)
    return _row(weight, r, hidden, H) * inverse * (grad - (total / V)[None, :] - u * (product / V)[None, :])


@triton.jit
def _outer(d, z, sums):
    """sums + dᵀ z for d [rows, m], z [rows, n] and sums [chunks, m, n]: each warp sums a chunk of rows."""
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
    """Gradient of x, and this program's sums for those of the weights, [ROW], in the order of `_gradients`."""
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
        z_0 = tl.load(place, mask=inside, other=0.0)
        h_1 = _layer(z_0, W_1, b_1, r, inputs, hidden, between, IN, H)
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
        of_1 = _outer(d, z_0, of_1)
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
    """Next power of two, at least 16."""
    return max(16, triton.next_power_of_2(width))


def _gradients(*tensors: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The packing of what head_backward sums: each layer's padded W and b, then the norms' weights and biases."""
    rows = []
    for t in tensors:
        t = padded(t, _size(t.shape[-1]))
        rows.append(torch.nn.functional.pad(t, (0, 0, 0, _size(len(t)) - len(t))) if t.dim() == 2 else t)
    return [], [torch.cat([t.flatten() for t in rows]).unsqueeze(0)]


class _Head(KernelFunction):
    """The layers before the labels as an autograd Function.

    training, slopes, x [R, V, in], the layers' and norms' tensors [R, …], running statistics -> [R, V, out].
    """

    @staticmethod
    def forward(training: bool, slopes: tuple[float, float], x: Copied, *tensors: Strided) -> Tensor:
        weights, running = _parted(tensors)
        weights = contiguous(*weights)
        if len({t.stride() for t in running}) > 1:
            raise ValueError("the running statistics of both norms must be columns of one matrix")
        y = x.new_empty(*x.shape[:2], weights[4].shape[1])
        constants, stride = _constants(x, weights), running[0].stride(0) if running else 0
        absent = [x] * (14 - len(weights) - len(running))
        head_forward[(-(-x.shape[1] // constants["BLOCK"]), len(x))](
            x, *weights, *running, *absent, y, x.shape[1], stride, *_widths(weights), *slopes, TRAINING=training,
            **constants,
        )  # fmt: skip
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        _, ctx.slopes, x, *tensors = inputs
        weights, running = _parted(tensors)
        ctx.running = len(running)
        ctx.save_for_backward(x, *weights)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = saved(ctx)
        R, V, _ = x.shape
        constants = _constants(x, weights)
        T = min(-(-V // constants["BLOCK"]), PROGRAMS)  # whatever R is: a replica has the same bits beside any others
        row = sum(_size(t.shape[1]) * (_size(t.shape[2]) if t.dim() == 3 else 1) for t in weights)
        grad_x, sums = torch.empty_like(x), x.new_empty(R * T * row)
        absent = [x] * (10 - len(weights))
        head_backward[(T, R)](
            x, *weights, *absent, grad, grad_x, sums, V, *_widths(weights), *ctx.slopes, ROW=row,
            CHUNKS=min(constants["num_warps"], constants["BLOCK"] // 16), **constants,
        )  # fmt: skip
        return None, None, grad_x, *unpack_gradients(_gradients, weights, sums, T), *(None,) * ctx.running

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple, *inputs: Any) -> tuple[Any, Any]:
        """Lift replicas, which must have running statistics of their own in training."""
        training, _, running = inputs[0], *_parted(in_dims[3:])
        if training and None in running:
            raise ValueError("replicas need running statistics of their own")
        return super().vmap(info, in_dims, *inputs)


def _parted(tensors: Sequence) -> tuple[Sequence, Sequence]:
    """The weights, and the running statistics of the two norms if there are any."""
    return (tensors[:10], tensors[10:]) if len(tensors) > 6 else (tensors, ())


def _widths(weights: Sequence[Tensor]) -> tuple[int, int, int]:
    """Numbers of features: in, between, out."""
    return weights[0].shape[2], weights[2].shape[2], weights[4].shape[1]


def _constants(x: Tensor, weights: Sequence[Tensor]) -> dict[str, Any]:
    """Constants that both kernels share, for x [R, V, in] and the weights [R, …]."""
    norm = len(weights) > 6
    sizes = dict(zip(("IN", "H", "OUT"), map(_size, _widths(weights)), strict=True))
    block = _size(x.shape[1]) if norm else BLOCK
    warps = min(MANY_WARPS, max(WARPS, block // 32))
    return {"NORM": norm, **sizes, "BLOCK": block, "num_warps": warps, "num_stages": 1}
