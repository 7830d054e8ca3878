"""The weights of M and U as the matrix products of towers.py take them, packed by one kernel, unpacked by another.

The first product maps x to three parts: U's for the node itself, and M's for the receiver and for the sender, P = Hp +
2Fp rows. Biases are one more column, for which x has ones, so that their gradients come with those of the weights. The
second product takes U's weights for the aggregates, scaler by scaler. The gradients come as products over parts of the
nodes, which are summed here. Hp, Fp and Kp are H, F and F + 1 padded to a multiple of 4, with weights that are zero.
"""

import triton
import triton.language as tl
from torch import Tensor

__all__ = ["pack", "padded", "unpack", "with_dense_rows"]

BLOCK = 128


def padded(size: int) -> int:
    """The next multiple of 4 numbers, which are 16 bytes."""
    return -(-size // 4) * 4


def with_dense_rows(weight: Tensor) -> Tensor:
    """The weight itself, [..., columns], or a copy if its columns are not neighbours in memory."""
    return weight if weight.stride(-1) == 1 else weight.contiguous()


@triton.jit
def _first(at, H: tl.constexpr, F: tl.constexpr, HP: tl.constexpr, FP: tl.constexpr, KP: tl.constexpr):
    """Decode places in the first product's weights, [P, Kp].

    Returns whether they are U's (else M's), row and column there, and the masks of weights and of biases; the rest is
    padding.
    """
    p = at // KP
    k = at % KP
    ours = p < HP
    sender = p >= HP + FP
    row = tl.where(ours, p, tl.where(sender, p - HP - FP, p - HP))
    there = (p < HP + 2 * FP) & (row < tl.where(ours, H, F))
    return ours, row, tl.where(sender, F + k, k), there & (k < F), there & (k == F) & (sender == 0)


@triton.jit
def _second(at, H: tl.constexpr, F: tl.constexpr, A: tl.constexpr, S: tl.constexpr, HP: tl.constexpr, FP: tl.constexpr):
    """Decode places in the second product's weights, [S·Hp, A·Fp]: row and column in U, and the mask of weights."""
    p = at // (A * FP)
    k = at % (A * FP)
    there = (p < S * HP) & (p % HP < H) & (k % FP < F)
    return p % HP, F + (p // HP) * (A * F) + k // FP * F + k % FP, there


@triton.jit
def tower_pack(
    U, U_bias, M, M_bias, first, second, R, stride_r, stride_t, stride_f,
    H: tl.constexpr, F: tl.constexpr, A: tl.constexpr, T: tl.constexpr, S: tl.constexpr, HP: tl.constexpr,
    FP: tl.constexpr, KP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Pack U [R, T, H, F + S·A·F], M [R, T, F, 2F], biases into first [T, R, P, Kp], second [T, R, S·Hp, A·Fp]."""
    L: tl.constexpr = F + S * A * F
    t = tl.program_id(1) // R
    r = tl.program_id(1) % R
    U += (r * T + t) * (H * L)
    M += r * stride_r + t * stride_t
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ours, row, column, there, bias = _first(at, H, F, HP, FP, KP)
    value = tl.load(U + row * L + column, mask=there & ours, other=0.0)
    value += tl.load(M + row * stride_f + column, mask=there & (ours == 0), other=0.0)
    value += tl.load(U_bias + (r * T + t) * H + row, mask=bias & ours, other=0.0)
    value += tl.load(M_bias + (r * T + t) * F + row, mask=bias & (ours == 0), other=0.0)
    size: tl.constexpr = (HP + 2 * FP) * KP
    tl.store(first + tl.program_id(1) * size + at, value, mask=at < size)
    row, column, there = _second(at, H, F, A, S, HP, FP)
    size_2: tl.constexpr = S * HP * A * FP
    value = tl.load(U + row * L + column, mask=there, other=0.0)
    tl.store(second + tl.program_id(1) * size_2 + at, value, mask=at < size_2)


@triton.jit
def _total(parts, at, inside, size, COUNT: tl.constexpr, PARTS: tl.constexpr):
    """Sum COUNT products of `size` numbers each, at the places `at`."""
    p = tl.arange(0, PARTS)[:, None]
    return tl.sum(tl.load(parts + p * size + at[None, :], mask=(p < COUNT) & inside[None, :], other=0.0), 0)


@triton.jit
def tower_unpack(
    first, second, grad_U, grad_U_bias, grad_M, grad_M_bias, R,
    H: tl.constexpr, F: tl.constexpr, A: tl.constexpr, T: tl.constexpr, S: tl.constexpr, HP: tl.constexpr,
    FP: tl.constexpr, KP: tl.constexpr, BLOCK: tl.constexpr,
    COUNT: tl.constexpr, PARTS: tl.constexpr, COUNT_2: tl.constexpr, PARTS_2: tl.constexpr,
):  # fmt: skip
    """Sum and unpack gradients: first [T, R, COUNT, P, Kp] and second [T, R, COUNT_2, S·Hp, A·Fp] -> [R, T, …]."""
    L: tl.constexpr = F + S * A * F
    t = tl.program_id(1) // R
    r = tl.program_id(1) % R
    grad_U += (r * T + t) * (H * L)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ours, row, column, there, bias = _first(at, H, F, HP, FP, KP)
    size: tl.constexpr = (HP + 2 * FP) * KP
    value = _total(first + tl.program_id(1).to(tl.int64) * (COUNT * size), at, at < size, size, COUNT, PARTS)
    tl.store(grad_U + row * L + column, value, mask=there & ours)
    tl.store(grad_M + ((r * T + t) * F + row) * (2 * F) + column, value, mask=there & (ours == 0))
    tl.store(grad_U_bias + (r * T + t) * H + row, value, mask=bias & ours)
    tl.store(grad_M_bias + (r * T + t) * F + row, value, mask=bias & (ours == 0))
    row, column, there = _second(at, H, F, A, S, HP, FP)
    size_2: tl.constexpr = S * HP * A * FP
    base = second + tl.program_id(1).to(tl.int64) * (COUNT_2 * size_2)
    value = _total(base, at, at < size_2, size_2, COUNT_2, PARTS_2)
    tl.store(grad_U + row * L + column, value, mask=there)


def pack(U: Tensor, U_bias: Tensor, M: Tensor, M_bias: Tensor, S: int) -> tuple[Tensor, Tensor]:
    """Pack U [R, T, H, F + S·A·F], M [R, T, F, 2F] and biases into [T·R, Hp + 2Fp, Kp] and [T·R, S·Hp, A·Fp]."""
    (R, T, H, L), F = U.shape, M.shape[2]
    sizes = _sizes((T, H, F), S, (L - F) // (S * F))
    first = U.new_empty(T * R, sizes["HP"] + 2 * sizes["FP"], sizes["KP"])
    second = U.new_empty(T * R, S * sizes["HP"], sizes["A"] * sizes["FP"])
    M = with_dense_rows(M)
    tower_pack[_grid(first, second)](U, U_bias, M, M_bias, first, second, R, *M.stride()[:3], **sizes)
    return first, second


def unpack(first: Tensor, second: Tensor, towers: tuple[int, int, int], S: int) -> tuple[Tensor, ...]:
    """The gradients of M, its bias, U and its bias, from the packed gradients [T·R, parts, …] of parts of the nodes.

    towers: T, H and F.
    """
    (T, H, F), R = towers, len(first) // towers[0]
    sizes, count, count_2 = _sizes(towers, S, second.shape[3] // padded(F)), first.shape[1], second.shape[1]
    grad_U, grad_M = first.new_empty(R, T, H, F + S * sizes["A"] * F), first.new_empty(R, T, F, 2 * F)
    grad_U_bias, grad_M_bias = first.new_empty(R, T, H), first.new_empty(R, T, F)
    tower_unpack[_grid(first[:, 0], second[:, 0])](
        first, second, grad_U, grad_U_bias, grad_M, grad_M_bias, R, **sizes,
        COUNT=count, PARTS=triton.next_power_of_2(count), COUNT_2=count_2, PARTS_2=triton.next_power_of_2(count_2),
    )  # fmt: skip
    return grad_M, grad_M_bias, grad_U, grad_U_bias


def _sizes(towers: tuple[int, int, int], S: int, A: int) -> dict[str, int]:
    """Compile-time constants for towers (T, H, F), S scalers and A aggregators."""
    T, H, F = towers
    sizes = {"H": H, "F": F, "A": A, "T": T, "S": S}
    return sizes | {"HP": padded(H), "FP": padded(F), "KP": padded(F + 1), "BLOCK": BLOCK}


def _grid(first: Tensor, second: Tensor) -> tuple[int, int]:
    """Programs for each block of numbers of the larger tensor, and for each tower of each replica."""
    return -(-max(first[0].numel(), second[0].numel()) // BLOCK), len(first)
