"""The weights of a PNA layer as its products read them from memory, and their gradients, sums over all nodes.

A channel is a feature of a tower. Towers lie side by side, each padded to a multiple of four features, so that a row of
channels is read in pieces of 16 bytes wherever it begins. All weights are packed into one piece of memory: those of
everything linear in x alone, [U_own; W1; W2], [W, X], its bias, U's weights scaler by scaler, and the mixing layer's.
Padding is zero, and so are the weights of features that a tower does not see.

A gradient of weights is a sum of outer products over the nodes. cuBLAS gives such a product of two narrow matrices to
few multiprocessors. Here the nodes are divided among programs, and a second kernel sums their parts: without atomics,
so that the bits are the same every time.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from pna.kernels.compile_time import blocks, wide
from pna.kernels.launch import Constants, Launch
from pna.scalers import SCALERS

__all__ = ["Places", "Plan", "Sizes", "degrees", "factor", "factors", "gradients", "pack"]

WARPS = 4
COPIED = 1024  # weights that a program packs
SUMMED, PARTS = 256, 8  # gradients that a program sums, and parts of a sum that it reads at a time
TILE, NODES = 64, 32  # a program's outputs and inputs, and the nodes it reads at a time
PROGRAMS, MOST = 396, 32  # at most in all, three for each of 132 multiprocessors, and at most for one tile
BN, BF, BH = 64, 32, 16  # nodes, features and outputs of a program of U's products (pna.kernels.layer)
_U = "T H A S FP HP C W SCALED EXPONENTS LINEAR ACC PRECISION BN BF BH"
CONSTANTS = (  # of the kernels that pack, sum and unpack gradients, combine and spread
    "T F H A X S FP HP OP C BIAS SCALED MIX END COPIED",
    "T H A X S FP HP OP C W BIAS SCALED MIX END EXPONENTS LINEAR ACC PRECISION TILE NODES",
    "F H T A X S FP HP OP C BIAS SCALED MIX END BEGINS ACC PARTS SUMMED",
    _U + " SP",
    _U,
)


def _up(n: int, to: int) -> int:
    """The smallest multiple of `to` that is at least n."""
    return blocks(n, to) * to


class Sizes(NamedTuple):
    """T towers, F features in and H out, A aggregators, and the scalers: (log(d + 1) / δ)^α or (d / d̄)^power.

    X is the size of x: F, or T·F if the towers divide it among them.
    """

    T: int
    F: int
    H: int
    A: int
    X: int
    exponents: tuple[float, ...]
    linear: tuple[bool, ...]


class Places(NamedTuple):
    """Sizes in memory, and where each part of the packed weights begins; all are multiples of 16 numbers."""

    FP: int  # features of a tower
    HP: int  # outputs of a tower
    OP: int  # outputs of all towers
    C: int  # channels of all towers
    W: int  # OP + C + C, the rows of [U_own; W1; W2]
    BIAS: int  # [W], after [U_own; W1; W2], [W, X]
    SCALED: int  # [T, S, HP, A, FP]
    MIX: int  # [T·H, OP]
    END: int

    @classmethod
    @functools.cache
    def of(cls, size: Sizes) -> "Places":
        """The places for these sizes, with whole blocks of 64 channels if they add no more than an eighth."""
        FP, HP, OP = _up(size.F, 4), _up(size.H, 16), _up(size.T * size.H, 16)
        channels = size.T * FP
        whole = _up(channels, 64)
        C = whole if 8 * whole <= 9 * channels else _up(channels, 16)
        W = OP + 2 * C
        bias = W * size.X
        mix = bias + W + size.T * len(size.exponents) * HP * size.A * FP
        return cls(FP, HP, OP, C, W, bias, bias + W, mix, mix + size.T * size.H * OP)


class Plan:
    """The part of a layer's passes that depends on neither x nor the graph: sizes and constants of the kernels."""

    def __init__(self, size: Sizes, dtype: torch.dtype, names: str) -> None:
        self.size, self.places, self.names = size, Places.of(size), names
        T, F, H, A, X, exponents, linear = size
        S, (FP, HP, _, _, W, *_) = len(exponents), self.places
        out = T * H
        self.shapes = (T, H, (1 + S * A) * F), (T, H), (T, F, 2 * F), (T, F), (out, out), (out,)  # of U, M and mix
        self.begins = tuple(itertools.accumulate(map(math.prod, self.shapes), initial=0))  # one after another
        scaled = T * blocks(S * HP, TILE) * blocks(A * FP, TILE)
        self.tiles = scaled + blocks(W, TILE) * blocks(X, TILE) + blocks(out, TILE) ** 2  # of the weights' gradients
        known = {
            "T": T, "F": F, "H": H, "A": A, "X": X, "S": S, "SP": triton.next_power_of_2(S),
            **self.places._asdict(), "BEGINS": self.begins,
            "EXPONENTS": exponents, "LINEAR": linear, "ACC": wide(dtype),
            "PRECISION": "ieee" if dtype == torch.float64 else "tf32x3",
            "TILE": TILE, "NODES": NODES, "PARTS": PARTS, "COPIED": COPIED, "SUMMED": SUMMED,
            "BN": BN, "BF": BF, "BH": BH,
        }  # fmt: skip
        self.pack, self.outer, self.unpack, self.combine, self.spread = (
            Constants((name, known[name]) for name in names.split()) for names in CONSTANTS
        )

    @classmethod
    def of(cls, conv: nn.Module, combined: nn.Module, dtype: torch.dtype) -> "Plan":
        """The plan of a PNAConv and its combined aggregation, cached."""
        sizes = (conv.towers, conv.F_in, conv.F_out, conv.in_channels)
        return _plan(*sizes, combined.aggregators, combined.scalers, dtype)


@functools.cache
def _plan(
    T: int, F: int, H: int, X: int, aggregators: tuple[str, ...], scalers: tuple[str | float, ...], dtype: torch.dtype
) -> Plan:
    """The plan for T towers of F features in and H out, x of size X, these aggregators and scalers; cached."""
    pairs = [SCALERS[s] if isinstance(s, str) else ("logarithmic", float(s)) for s in scalers]
    exponents, linear = tuple(exponent for _, exponent in pairs), tuple(kind == "linear" for kind, _ in pairs)
    return Plan(Sizes(T, F, H, len(aggregators), X, exponents, linear), dtype, " ".join(aggregators))


# ---- scalers ----


@triton.jit
def factor(d, delta, mean_degree, EXPONENT: tl.constexpr, LINEAR: tl.constexpr, ACC: tl.constexpr):
    """S(d, α) of equation 6, or the linear scaler; where d = 0 is a pole, d = 1 is used, as in pna.scalers."""
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
def factors(
    d, delta, mean_degree, scaler, S: tl.constexpr, EXPONENTS: tl.constexpr, LINEAR: tl.constexpr, ACC: tl.constexpr
):
    """Factors of the nodes of degrees d [B] for each column's scaler, [B, columns]."""
    out = tl.zeros([d.shape[0], scaler.shape[0]], ACC)
    for s in tl.static_range(S):
        scale = factor(d, delta, mean_degree, EXPONENTS[s], LINEAR[s], ACC)
        out = tl.where((scaler == s)[None, :], scale[:, None], out)
    return out


@triton.jit
def degrees(ptr, node, end, ACC: tl.constexpr):
    """Load the degrees of the nodes [B]; 0 from `end` on."""
    start = tl.load(ptr + node, mask=node < end, other=0)
    return (tl.load(ptr + node + 1, mask=node < end, other=0) - start).to(ACC)


# ---- packing ----


@triton.jit
def _row(row, T: tl.constexpr, F: tl.constexpr, H: tl.constexpr, FP: tl.constexpr, OP: tl.constexpr, C: tl.constexpr):
    """Decode rows of [U_own; W1; W2] into (is U, is W2, tower, row in U [T·H] or M [T·F], is real)."""
    of_U = row < OP
    c = (row - OP) % C
    tower = tl.where(of_U, row // H, c // FP)
    real = tl.where(of_U, row < T * H, (c // FP < T) & (c % FP < F))
    return of_U, row >= OP + C, tower, tl.where(of_U, row, tower * F + c % FP), real


@triton.jit
def _pack_kernel(
    U, U_bias, M, M_bias, mix, packed,
    T: tl.constexpr, F: tl.constexpr, H: tl.constexpr, A: tl.constexpr, X: tl.constexpr, S: tl.constexpr,
    FP: tl.constexpr, HP: tl.constexpr, OP: tl.constexpr, C: tl.constexpr,
    BIAS: tl.constexpr, SCALED: tl.constexpr, MIX: tl.constexpr, END: tl.constexpr, COPIED: tl.constexpr,
):  # fmt: skip
    """Pack U [T, H, (1 + S·A)·F], M [T, F, 2F], their biases and mix [T·H, T·H]; padding is 0."""
    WIDTH: tl.constexpr = (1 + S * A) * F
    at = tl.program_id(0) * COPIED + tl.arange(0, COPIED)
    of_U, sent, tower, row, real = _row(at // X, T, F, H, FP, OP, C)
    f = at % X - (tower * F if X > F else 0)  # in the tower's share of x
    real &= (at < BIAS) & (f >= 0) & (f < F)
    value = tl.load(U + row * WIDTH + f, mask=real & of_U, other=0.0)
    value += tl.load(M + row * (2 * F) + tl.where(sent, F, 0) + f, mask=real & (of_U == 0), other=0.0)

    of_U, sent, tower, row, real = _row(at - BIAS, T, F, H, FP, OP, C)
    real &= (at >= BIAS) & (at < SCALED) & (sent == 0)  # M's bias is with the receiver's part
    value += tl.load(U_bias + row, mask=real & of_U, other=0.0)
    value += tl.load(M_bias + row, mask=real & (of_U == 0), other=0.0)

    k = at - SCALED  # = (((t S + s) HP + h) A + a) FP + f
    f = k % FP
    h = k // (A * FP) % HP
    s = k // (HP * A * FP) % S
    real = (at >= SCALED) & (at < MIX) & (f < F) & (h < H)
    row = k // (S * HP * A * FP) * H + h
    value += tl.load(U + row * WIDTH + F + (s * A + k // FP % A) * F + f, mask=real, other=0.0)

    k = at - MIX
    real = (at >= MIX) & (at < END) & (k % OP < T * H)
    value += tl.load(mix + k // OP * (T * H) + k % OP, mask=real, other=0.0)
    tl.store(packed + at, value, mask=at < END)


_launch_pack = Launch(_pack_kernel)


def pack(U: Tensor, U_bias: Tensor, M: Tensor, M_bias: Tensor, mix: Tensor, plan: Plan) -> Tensor:
    """Pack all weights into one tensor, [END], in the order of Places."""
    end = plan.places.END
    packed = U.new_empty(end)
    _launch_pack((blocks(end, COPIED), 1), (U, U_bias, M, M_bias, mix, packed), plan.pack, WARPS)
    return packed


# ---- gradients ----


@triton.jit
def _sum_over_nodes(
    p, i_at, i_real, stride_p, scaler, q, j_at, j_real, stride_q, ptr, delta, mean_degree, begin, end,
    S: tl.constexpr, EXPONENTS: tl.constexpr, LINEAR: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    """Sum p_n[i] q_n[j] and p_n[i] over the nodes begin : end; if S > 0, p is multiplied by the factors of `scaler`."""
    total = tl.zeros([i_at.shape[0], j_at.shape[0]], ACC)
    sums = tl.zeros([i_at.shape[0]], ACC)
    for first in range(begin, end, BN):
        node = first + tl.arange(0, BN).to(tl.int64)
        live = (node < end)[:, None]
        a = tl.load(p + (node * stride_p)[:, None] + i_at[None, :], mask=live & i_real[None, :], other=0.0)
        b = tl.load(q + (node * stride_q)[:, None] + j_at[None, :], mask=live & j_real[None, :], other=0.0)
        if S > 0:
            d = degrees(ptr, node, end, ACC)
            a *= factors(d, delta, mean_degree, scaler, S, EXPONENTS, LINEAR, ACC)
        sums += tl.sum(a, 0)
        total = tl.dot(tl.trans(a), b, total, input_precision=PRECISION, out_dtype=ACC)
    return total, sums


@triton.jit(do_not_specialize=["N", "share"])
def _outer_kernel(
    grad_parts, x, rows, g, y, partial, ptr, delta, mean_degree, N, share,
    T: tl.constexpr, H: tl.constexpr, A: tl.constexpr, X: tl.constexpr, S: tl.constexpr,
    FP: tl.constexpr, HP: tl.constexpr, OP: tl.constexpr, C: tl.constexpr, W: tl.constexpr,
    BIAS: tl.constexpr, SCALED: tl.constexpr, MIX: tl.constexpr, END: tl.constexpr,
    EXPONENTS: tl.constexpr, LINEAR: tl.constexpr, ACC: tl.constexpr, PRECISION: tl.constexpr,
    TILE: tl.constexpr, NODES: tl.constexpr,
):  # fmt: skip
    """One tile [TILE, TILE] of a gradient, summed over one share of the nodes, into partial [shares, END + OP]."""
    OUT: tl.constexpr = T * H
    ACROSS: tl.constexpr = (A * FP + TILE - 1) // TILE  # tiles of U's weights, scaler by scaler, …
    MANY: tl.constexpr = ACROSS * ((S * HP + TILE - 1) // TILE)  # … of one tower
    ACROSS_X: tl.constexpr = (X + TILE - 1) // TILE
    MANY_X: tl.constexpr = ACROSS_X * ((W + TILE - 1) // TILE)
    ACROSS_O: tl.constexpr = (OUT + TILE - 1) // TILE
    tile = tl.program_id(0)
    delta, mean_degree = tl.load(delta).to(ACC), tl.load(mean_degree).to(ACC)
    begin = tl.program_id(1) * share
    end = tl.minimum(begin + share, N)
    partial += tl.program_id(1).to(tl.int64) * (END + OP)
    k = tl.arange(0, TILE)
    if tile < T * MANY:
        tower = tile // MANY
        i = tile % MANY // ACROSS * TILE + k  # = s HP + h
        j = tile % ACROSS * TILE + k  # = a FP + f
        i_real = (i < S * HP) & (i % HP < H)
        total, _sums = _sum_over_nodes(
            grad_parts, tower * H + i % HP, i_real, W, i // HP, rows, j // FP * C + tower * FP + j % FP, j < A * FP,
            A * C, ptr, delta, mean_degree, begin, end, S, EXPONENTS, LINEAR, ACC, PRECISION, NODES)  # fmt: skip
        to = partial + SCALED + (tower * (S * HP) + i)[:, None] * (A * FP) + j[None, :]
        tl.store(to, total, mask=(i < S * HP)[:, None] & (j < A * FP)[None, :])
    elif tile < T * MANY + MANY_X:
        tile -= T * MANY
        i = tile // ACROSS_X * TILE + k
        j = tile % ACROSS_X * TILE + k
        total, sums = _sum_over_nodes(
            grad_parts, i, i < W, W, i, x, j, j < X, X, ptr, delta, mean_degree, begin, end,
            0, EXPONENTS, LINEAR, ACC, PRECISION, NODES)  # fmt: skip
        tl.store(partial + i[:, None] * X + j[None, :], total, mask=(i < W)[:, None] & (j < X)[None, :])
        tl.store(partial + BIAS + i, sums, mask=(i < W) & (tile % ACROSS_X == 0))
    else:
        tile -= T * MANY + MANY_X
        i = tile // ACROSS_O * TILE + k
        j = tile % ACROSS_O * TILE + k
        total, sums = _sum_over_nodes(
            g, i, i < OUT, OUT, i, y, j, j < OUT, OUT, ptr, delta, mean_degree, begin, end,
            0, EXPONENTS, LINEAR, ACC, PRECISION, NODES)  # fmt: skip
        tl.store(partial + MIX + i[:, None] * OP + j[None, :], total, mask=(i < OUT)[:, None] & (j < OUT)[None, :])
        tl.store(partial + END + i, sums, mask=(i < OUT) & (tile % ACROSS_O == 0))


@triton.jit(do_not_specialize=["shares"])
def _unpack_kernel(
    partial, U, U_bias, M, M_bias, mix, mix_bias, shares,
    F: tl.constexpr, H: tl.constexpr, T: tl.constexpr, A: tl.constexpr, X: tl.constexpr, S: tl.constexpr,
    FP: tl.constexpr, HP: tl.constexpr, OP: tl.constexpr, C: tl.constexpr,
    BIAS: tl.constexpr, SCALED: tl.constexpr, MIX: tl.constexpr, END: tl.constexpr, BEGINS: tl.constexpr,
    ACC: tl.constexpr, PARTS: tl.constexpr, SUMMED: tl.constexpr,
):  # fmt: skip
    """Sum the shares of each gradient and store it at its place; places are counted through all tensors in turn."""
    WIDTH: tl.constexpr = (1 + S * A) * F
    to = tl.program_id(0) * SUMMED + tl.arange(0, SUMMED)
    row = to // WIDTH
    k = to % WIDTH - F  # = (s A + a) F + f
    scaled = SCALED + ((row // H * S + k // (A * F)) * HP + row % H) * (A * FP) + k // F % A * FP + k % F
    at = tl.where(k < 0, row * X + (row // H * F if X > F else 0) + k + F, scaled)

    at = tl.where(to >= BEGINS[1], BIAS + to - BEGINS[1], at)

    row = (to - BEGINS[2]) // (2 * F)
    k = (to - BEGINS[2]) % (2 * F)
    c = OP + row // F * FP + row % F
    weight = tl.where(k < F, c * X + k, (c + C) * X + k - F) + (row // F * F if X > F else 0)
    at = tl.where(to >= BEGINS[2], weight, at)

    row = to - BEGINS[3]
    at = tl.where(to >= BEGINS[3], BIAS + OP + row // F * FP + row % F, at)

    k = to - BEGINS[4]
    at = tl.where(to >= BEGINS[4], MIX + k // (T * H) * OP + k % (T * H), at)
    at = tl.where(to >= BEGINS[5], END + to - BEGINS[5], at)

    total = tl.zeros([SUMMED], ACC)
    for first in range(0, shares, PARTS):
        share = first + tl.arange(0, PARTS)
        live = (share < shares)[:, None] & (to < BEGINS[6])[None, :]
        parts = partial + (share.to(tl.int64) * (END + OP))[:, None] + at[None, :]
        total += tl.sum(tl.load(parts, mask=live, other=0.0), 0)
    tl.store(U + to, total, mask=to < BEGINS[1])
    tl.store(U_bias + to - BEGINS[1], total, mask=(to >= BEGINS[1]) & (to < BEGINS[2]))
    tl.store(M + to - BEGINS[2], total, mask=(to >= BEGINS[2]) & (to < BEGINS[3]))
    tl.store(M_bias + to - BEGINS[3], total, mask=(to >= BEGINS[3]) & (to < BEGINS[4]))
    tl.store(mix + to - BEGINS[4], total, mask=(to >= BEGINS[4]) & (to < BEGINS[5]))
    tl.store(mix_bias + to - BEGINS[5], total, mask=(to >= BEGINS[5]) & (to < BEGINS[6]))


_launch_outer, _launch_unpack = Launch(_outer_kernel), Launch(_unpack_kernel)


def gradients(
    grad_parts: Tensor, x: Tensor, rows: Tensor, g: Tensor, y: Tensor, degrees: Sequence[Tensor], plan: Plan
) -> list[Tensor]:
    """Gradients of weight and bias of U, M and the mixing layer.

    grad_parts [N, W]: the gradient of [U_own; W1; W2] x. rows [N, A, C]: the aggregates. g and y [N, T·H]: the gradient
    of the mixing layer's output, and its input. degrees: ptr, δ and the mean degree.
    """
    N, places, tiles = x.shape[0], plan.places, plan.tiles
    shares = max(1, min(PROGRAMS // tiles, MOST, N // NODES))
    share = NODES * blocks(blocks(N, NODES), shares)
    shares = blocks(N, share)
    partial = x.new_empty(shares, places.END + places.OP)
    _launch_outer((tiles, shares), (grad_parts, x, rows, g, y, partial, *degrees, N, share), plan.outer, WARPS)
    grads = [x.new_empty(shape) for shape in plan.shapes]
    _launch_unpack((blocks(plan.begins[-1], SUMMED), 1), (partial, *grads, shares), plan.unpack, WARPS)
    return grads
