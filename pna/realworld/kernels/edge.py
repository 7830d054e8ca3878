"""The embedding of the edges as a part of M, in one kernel each way: both are linear, so M takes (W3 E) e_ij + W3 b.

The plain-torch twin is W3 @ E and W3 @ b, as in pna.fused.split.
"""

import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import KernelFunction, Strided, contiguous
from pna.realworld.kernels.tower_weights import padded, with_dense_rows

__all__ = ["embedded"]

BLOCK = 16  # features of the embedding that a program of the backward pass takes


def embedded(W3: Tensor, shift: Tensor, E: Tensor, b: Tensor | None) -> tuple[Tensor, Tensor]:
    """Fold the embedding of the edges into M.

    W3 is [T, F, Q], shift, M's bias, [T, F], and the embedding's weight E and bias b are [Q, D] and [Q]. Returns W3 E,
    [T, Fp, D] with zeros in the padding, and shift + W3 b, [T, F].
    """
    weight, bias = _Embedded.call(W3, shift, E, b)
    return weight, shift if b is None else bias


@triton.jit
def edge_embed(
    W3, shift, E, b, weight, bias, stride_r, stride_t, stride_f, Q, T: tl.constexpr, F: tl.constexpr, FP: tl.constexpr,
    D: tl.constexpr, BIASED: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """W3 E and shift + W3 b of one tower of a replica."""
    t = tl.program_id(0)
    r = tl.program_id(1)
    f = tl.arange(0, ROWS)
    q = tl.arange(0, WIDTH)
    at = W3 + r * stride_r + t * stride_t + f[:, None] * stride_f + q[None, :]
    w = tl.load(at, mask=(f < F)[:, None] & (q < Q)[None, :], other=0.0)  # [ROWS, WIDTH]
    row = (r * T + t) * FP + f
    for d in tl.static_range(D):
        e = tl.load(E + (r * Q + q) * D + d, mask=q < Q, other=0.0)
        tl.store(weight + row * D + d, tl.sum(w * e[None, :], 1), mask=f < FP)
    if BIASED:
        e = tl.load(b + r * Q + q, mask=q < Q, other=0.0)
        place = (r * T + t) * F + f
        value = tl.load(shift + place, mask=f < F, other=0.0) + tl.sum(w * e[None, :], 1)
        tl.store(bias + place, value, mask=f < F)


@triton.jit
def _column(weight, bias, at, row, inside, d: tl.constexpr, D: tl.constexpr):
    """Column d of a matrix [rows, D]; behind the last one comes the bias, [rows]."""
    if d < D:
        return tl.load(weight + at * D + d, mask=inside, other=0.0)
    else:  # Triton would compile what follows a return
        return tl.load(bias + row, mask=inside, other=0.0)


@triton.jit
def edge_embed_back(
    grad_weight, grad_bias, W3, E, b, grad_W3, grad_E, grad_b, stride_r, stride_t, stride_f, Q,
    T: tl.constexpr, F: tl.constexpr, FP: tl.constexpr, D: tl.constexpr, BIASED: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of some of the embedding's features in one replica, tower by tower."""
    r = tl.program_id(1)
    f = tl.arange(0, ROWS)
    q = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (f < F)[:, None] & (q < Q)[None, :]
    columns: tl.constexpr = D + 1 if BIASED else D
    for t in tl.static_range(T):
        value = tl.zeros([ROWS, BLOCK], tl.float32)
        for d in tl.static_range(columns):
            g = _column(grad_weight, grad_bias, (r * T + t) * FP + f, (r * T + t) * F + f, f < F, d, D)
            value += g[:, None] * _column(E, b, r * Q + q, r * Q + q, q < Q, d, D)[None, :]
        tl.store(grad_W3 + ((r * T + t) * F + f[:, None]) * Q + q[None, :], value, mask=inside)
    for d in tl.static_range(columns):
        total = tl.zeros([BLOCK], tl.float32)
        for t in tl.static_range(T):
            g = _column(grad_weight, grad_bias, (r * T + t) * FP + f, (r * T + t) * F + f, f < F, d, D)
            w = tl.load(W3 + r * stride_r + t * stride_t + f[:, None] * stride_f + q[None, :], mask=inside, other=0.0)
            total += tl.sum(w * g[:, None], 0)
        if d < D:
            tl.store(grad_E + (r * Q + q) * D + d, total, mask=q < Q)
        else:
            tl.store(grad_b + r * Q + q, total, mask=q < Q)


class _Embedded(KernelFunction):
    """The embedding of the edges in M as an autograd Function.

    W3 [R, T, F, Q], shift [R, T, F], E [R, Q, D], b [R, Q] or None -> [R, T, Fp, D], and [R, T, F] if b.
    """

    @staticmethod
    def forward(W3: Strided, shift: Tensor, E: Tensor, b: Tensor | None) -> tuple[Tensor, Tensor]:
        (R, T, F, Q), D, W3 = W3.shape, E.shape[2], with_dense_rows(W3)
        weight, bias = E.new_empty(R, T, padded(F), D), E.new_empty(0 if b is None else R, T, F)
        tensors = (W3, shift, E, E if b is None else b, weight, bias)
        sizes = _sizes(W3, D, b is not None)
        edge_embed[(T, R)](*tensors, *W3.stride()[:3], Q, **sizes, WIDTH=triton.next_power_of_2(Q))
        return weight, bias

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        W3, _, *embedding = inputs
        ctx.save_for_backward(W3, *embedding)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, grad_bias: Tensor) -> tuple[Tensor | None, ...]:
        W3, E, b = ctx.saved_tensors
        W3, (E, b), biased = with_dense_rows(W3), contiguous(E, b), b is not None
        (R, T, F, Q), D = W3.shape, E.shape[2]
        grad_W3, grad_E, grad_b = E.new_empty(R, T, F, Q), E.new_empty(R, Q, D), E.new_empty(R if biased else 0, Q)
        tensors = (grad, grad_bias, W3, E, b if biased else E, grad_W3, grad_E, grad_b)
        edge_embed_back[(-(-Q // BLOCK), R)](*tensors, *W3.stride()[:3], Q, **_sizes(W3, D, biased), BLOCK=BLOCK)
        return grad_W3, grad_bias if biased else None, grad_E, grad_b if biased else None


def _sizes(W3: Tensor, D: int, biased: bool) -> dict[str, int]:
    """Compile-time constants of a launch on W3 [R, T, F, Q] and edges of D features."""
    T, F = W3.shape[1:3]
    rows = triton.next_power_of_2(padded(F))
    return {"T": T, "F": F, "FP": padded(F), "D": D, "BIASED": biased, "ROWS": rows}
