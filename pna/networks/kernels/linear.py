"""A fully-connected layer and its activation for many replicas, [R, V, in] -> [R, V, out].

The gradient of the weights is a sum over all rows. cuBLAS gives such a product of two narrow matrices to few
multiprocessors. Here the rows are divided among programs, and their partial sums are added at the end.
"""

import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import Copied, CopiedOrShared, KernelFunction, saved
from pna.networks.kernels.dense import dot, put_row, put_tile

__all__ = ["ACTIVATIONS", "linear", "rows_at", "supports", "tile"]

ACTIVATIONS = {"identity": 1.0, "leaky_relu": 0.01, "relu": 0.0}  # by their slope below zero
BLOCK, WARPS, PROGRAMS = 64, 4, 1056


def supports(x: Tensor, weight: Tensor) -> bool:
    """Whether the kernels can apply the weight [out, in]: up to 64 features, in and out."""
    return max(weight.shape) <= 64


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    """Compute activation(x Wᵀ + b): x [V, in], weight [out, in], bias [out] or None -> [V, out]."""
    bias = x.new_zeros(len(weight)) if bias is None else bias
    return _Linear.call(x, weight, bias, ACTIVATIONS[activation])


@triton.jit
def tile(base, ROWS: tl.constexpr, COLUMNS: tl.constexpr, rows, columns):
    """Load a matrix [rows, columns], zero-padded to [ROWS, COLUMNS]."""
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    return tl.load(base + i * columns + j, mask=(i < rows) & (j < columns), other=0.0)


@triton.jit
def rows_at(base, rows, V, width, WIDTH: tl.constexpr):
    """Where the rows [block] of a matrix [V, width] lie, and which numbers are real, [block, WIDTH] each."""
    j = tl.arange(0, WIDTH)[None, :]
    return base + rows[:, None] * width + j, (rows[:, None] < V) & (j < width)


@triton.jit
def linear_forward(
    x, weight, bias, y, V, x_stride, inputs, outputs, slope, IN: tl.constexpr, OUT: tl.constexpr, BLOCK: tl.constexpr
):
    """One block of rows of y = activation(x Wᵀ + b); x_stride: how far replicas of x are apart, 0 if they share it."""
    r = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place, real = rows_at(x + r * x_stride, rows, V, inputs, IN)
    j = tl.arange(0, OUT)
    b = tl.load(bias + r * outputs + j, mask=j < outputs, other=0.0)
    zero = tl.zeros([BLOCK, OUT], tl.float32)
    w = tl.trans(tile(weight + r * outputs * inputs, OUT, IN, outputs, inputs))
    value = dot(tl.load(place, mask=real, other=0.0), w, zero) + b[None, :]
    place, real = rows_at(y + r * V * outputs, rows, V, outputs, OUT)
    tl.store(place, tl.where(value > 0, value, slope * value), mask=real)


@triton.jit
def linear_backward(
    x, weight, y, grad, grad_x, sums, V, x_stride, inputs, outputs, slope,
    IN: tl.constexpr, OUT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradient of x, and the sums over this program's rows for those of weight and bias, [OUT · (IN + 1)]."""
    r = tl.program_id(1)
    me = r * tl.num_programs(0) + tl.program_id(0)
    w = tile(weight + r * outputs * inputs, OUT, IN, outputs, inputs)
    of_weight = tl.zeros([OUT, IN], tl.float32)
    of_bias = tl.zeros([OUT], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        rows = block * BLOCK + tl.arange(0, BLOCK)
        place, real = rows_at(grad + r * V * outputs, rows, V, outputs, OUT)
        d = tl.load(place, mask=real, other=0.0)
        place, real = rows_at(y + r * V * outputs, rows, V, outputs, OUT)
        d = tl.where(tl.load(place, mask=real, other=0.0) > 0, d, slope * d)
        of_bias += tl.sum(d, 0)
        place, real = rows_at(x + r * x_stride, rows, V, inputs, IN)
        of_weight = dot(tl.trans(d), tl.load(place, mask=real, other=0.0), of_weight)
        place, real = rows_at(grad_x + r * V * inputs, rows, V, inputs, IN)
        tl.store(place, dot(d, w, tl.zeros([BLOCK, IN], tl.float32)), mask=real)
    sums += me * OUT * (IN + 1)
    put_tile(sums, of_weight, OUT, IN)
    put_row(sums + OUT * IN, of_bias, OUT)


def _sizes(inputs: int, outputs: int) -> dict[str, int]:
    """Constants of both kernels for these numbers of features."""
    return {
        "IN": max(16, triton.next_power_of_2(inputs)),
        "OUT": max(16, triton.next_power_of_2(outputs)),
        "BLOCK": BLOCK,
        "num_warps": WARPS,
        "num_stages": 1,
    }


class _Linear(KernelFunction):
    """The linear layer with its activation as an autograd Function.

    x [R, V, in], or [1, V, in] for every replica; weight [R, out, in], bias [R, out] -> [R, V, out].
    """

    @staticmethod
    def forward(x: CopiedOrShared, weight: Copied, bias: Copied, slope: float) -> Tensor:
        (R, outputs, inputs), V = weight.shape, x.shape[1]
        y = x.new_empty(R, V, outputs)
        sizes = (V, V * inputs * (len(x) > 1), inputs, outputs)
        linear_forward[(-(-V // BLOCK), R)](x, weight, bias, y, *sizes, slope, **_sizes(inputs, outputs))
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        x, weight, _, ctx.slope = inputs
        ctx.save_for_backward(x, weight, output)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, y = saved(ctx)
        (R, outputs, inputs), V = weight.shape, x.shape[1]
        programs = min(-(-V // BLOCK), max(1, PROGRAMS // R))
        constants = _sizes(inputs, outputs)
        IN, OUT = constants["IN"], constants["OUT"]
        grad_x, sums = x.new_empty(R, V, inputs), x.new_empty(R, programs, OUT * (IN + 1))
        sizes = (V, V * inputs * (len(x) > 1), inputs, outputs)
        linear_backward[(programs, R)](x, weight, y, grad, grad_x, sums, *sizes, ctx.slope, **constants)
        grad_x = grad_x if len(x) == R else grad_x.sum(0, keepdim=True)
        grad_weight, grad_bias = sums.sum(1).tensor_split([OUT * IN], dim=1)
        return grad_x, grad_weight.unflatten(1, (OUT, -1))[:, :outputs, :inputs], grad_bias[:, :outputs], None
