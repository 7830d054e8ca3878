"""The weights of M and U as the products of tower_kernel.py take them, in one kernel, and their gradients, in another.

The first product gives three parts of x: U's own, and M's for the receiver and for the sender, P = H + 2F rows; biases
are a column more, to which x has ones, so that their gradients come with those of the weights. The second one is of U's
rows for the aggregates, scaler by scaler. The gradients come as products over parts of the nodes, and are summed here.
"""

import triton
import triton.language as tl
from torch import Tensor

__all__ = ["pack", "unpack"]

BLOCK = 128


@triton.jit
def _part(p, k, H: tl.constexpr, F: tl.constexpr):
    """Of the first product's weights, row p and column k: if it is U's, and row and column of U or M; F is the bias."""
    ours = p < H
    sender = p >= H + F
    return ours, tl.where(ours, p, tl.where(sender, p - H - F, p - H)), tl.where(sender, F + k, k), sender


@triton.jit
def tower_pack(
    U, U_bias, M, M_bias, first, second, R, stride_r, stride_t, stride_f,
    H: tl.constexpr, F: tl.constexpr, T: tl.constexpr, S: tl.constexpr, AF: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """U [R, T, H, F + S·AF], M [R, T, F, 2F], biases -> first [T, R, P, F + 1], second [T, R, S·H, AF]."""
    P: tl.constexpr = H + 2 * F
    K: tl.constexpr = F + 1
    L: tl.constexpr = F + S * AF
    t = tl.program_id(1) // R
    r = tl.program_id(1) % R
    U += (r * T + t) * (H * L)
    M += r * stride_r + t * stride_t
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ours, row, column, sender = _part(at // K, at % K, H, F)
    inside = at < P * K
    bias = at % K == F
    value = tl.load(U + row * L + column, mask=inside & ours & (bias == 0), other=0.0)
    value += tl.load(M + row * stride_f + column, mask=inside & (ours == 0) & (bias == 0), other=0.0)
    value += tl.load(U_bias + (r * T + t) * H + row, mask=inside & ours & bias, other=0.0)
    value += tl.load(M_bias + (r * T + t) * F + row, mask=inside & (ours == 0) & (sender == 0) & bias, other=0.0)
    tl.store(first + tl.program_id(1) * (P * K) + at, value, mask=inside)
    inside = at < S * H * AF
    scaler = at // (H * AF)
    row = at // AF % H
    value = tl.load(U + row * L + F + scaler * AF + at % AF, mask=inside, other=0.0)
    tl.store(second + tl.program_id(1) * (S * H * AF) + at, value, mask=inside)


@triton.jit
def _total(parts, at, inside, size, COUNT: tl.constexpr, PARTS: tl.constexpr):
    """The sum over COUNT products of `size` numbers each, at the places `at`."""
    p = tl.arange(0, PARTS)[:, None]
    return tl.sum(tl.load(parts + p * size + at[None, :], mask=(p < COUNT) & inside[None, :], other=0.0), 0)


@triton.jit
def tower_unpack(
    first, second, grad_U, grad_U_bias, grad_M, grad_M_bias, R,
    H: tl.constexpr, F: tl.constexpr, T: tl.constexpr, S: tl.constexpr, AF: tl.constexpr, BLOCK: tl.constexpr,
    COUNT: tl.constexpr, PARTS: tl.constexpr, COUNT_2: tl.constexpr, PARTS_2: tl.constexpr,
):  # fmt: skip
    """The way back: first [T, R, COUNT, P, F + 1] and second [T, R, COUNT_2, S·H, AF] -> what was packed, [R, T, …]."""
    P: tl.constexpr = H + 2 * F
    K: tl.constexpr = F + 1
    L: tl.constexpr = F + S * AF
    t = tl.program_id(1) // R
    r = tl.program_id(1) % R
    grad_U += (r * T + t) * (H * L)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ours, row, column, sender = _part(at // K, at % K, H, F)
    inside = at < P * K
    bias = at % K == F
    value = _total(first + tl.program_id(1).to(tl.int64) * (COUNT * P * K), at, inside, P * K, COUNT, PARTS)
    tl.store(grad_U + row * L + column, value, mask=inside & ours & (bias == 0))
    tl.store(grad_M + ((r * T + t) * F + row) * (2 * F) + column, value, mask=inside & (ours == 0) & (bias == 0))
    tl.store(grad_U_bias + (r * T + t) * H + row, value, mask=inside & ours & bias)
    tl.store(grad_M_bias + (r * T + t) * F + row, value, mask=inside & (ours == 0) & (sender == 0) & bias)
    inside = at < S * H * AF
    size: tl.constexpr = S * H * AF
    value = _total(second + tl.program_id(1).to(tl.int64) * (COUNT_2 * size), at, inside, size, COUNT_2, PARTS_2)
    scaler = at // (H * AF)
    tl.store(grad_U + (at // AF % H) * L + F + scaler * AF + at % AF, value, mask=inside)


def pack(U: Tensor, U_bias: Tensor, M: Tensor, M_bias: Tensor, S: int) -> tuple[Tensor, Tensor]:
    """U [R, T, H, F + S·A·F], M [R, T, F, 2F] and biases -> [T·R, H + 2F, F + 1] and [T·R, S·H, A·F]."""
    (R, T, H, L), F = U.shape, M.shape[2]
    AF = (L - F) // S
    first, second = U.new_empty(T * R, H + 2 * F, F + 1), U.new_empty(T * R, S * H, AF)
    given = (U.contiguous(), U_bias.contiguous(), M if M.stride(3) == 1 else M.contiguous(), M_bias.contiguous())
    tower_pack[_grid(first, second)](
        *given, first, second, R, *given[2].stride()[:3], H=H, F=F, T=T, S=S, AF=AF, BLOCK=BLOCK
    )
    return first, second


def unpack(first: Tensor, second: Tensor, T: int, S: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of M and its bias, of U and its bias, from products [T·R, parts, …] of those that were packed."""
    (B, count, _, K), (count_2, rows, AF) = first.shape, second.shape[1:]
    R, F, H = B // T, K - 1, rows // S
    grad_U, grad_M = first.new_empty(R, T, H, F + S * AF), first.new_empty(R, T, F, 2 * F)
    grad_U_bias, grad_M_bias = first.new_empty(R, T, H), first.new_empty(R, T, F)
    tower_unpack[_grid(first[:, 0], second[:, 0])](
        first, second, grad_U, grad_U_bias, grad_M, grad_M_bias, R, H=H, F=F, T=T, S=S, AF=AF, BLOCK=BLOCK,
        COUNT=count, PARTS=triton.next_power_of_2(count), COUNT_2=count_2, PARTS_2=triton.next_power_of_2(count_2),
    )  # fmt: skip
    return grad_M, grad_M_bias, grad_U, grad_U_bias


def _grid(first: Tensor, second: Tensor) -> tuple[int, int]:
    return -(-max(first[0].numel(), second[0].numel()) // BLOCK), len(first)
