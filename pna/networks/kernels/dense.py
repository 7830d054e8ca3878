"""What the kernels of dense layers have in common: small matrices, blocks of rows, products, the GRU.

Matrices are H × H with H = 16 or 32; smaller ones are padded with zeros. The tensor cores multiply TF32 numbers, with
eleven bits of significand; a product of float32 matrices is taken as three of those, so that float32's precision stays.
"""

import triton
import triton.language as tl

__all__ = ["dot", "gru", "gru_back", "interleaved", "matrix", "put_row", "put_rows", "put_tile", "rows_of", "tanh"]
__all__ += ["transposed", "vector"]


@triton.jit
def halves(a):
    """The first eleven bits of the significand, all that TF32 holds, and the rest."""
    high = (a.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)
    return high, a - high


@triton.jit
def dot(a, b, c):
    """a b + c as precise as float32: all products of the operands' halves but the smallest."""
    a_high, a_low = halves(a)
    b_high, b_low = halves(b)
    c = tl.dot(a_low, b_high, c, input_precision="tf32")
    c = tl.dot(a_high, b_low, c, input_precision="tf32")
    return tl.dot(a_high, b_high, c, input_precision="tf32")


@triton.jit
def matrix(base, k, H: tl.constexpr):
    """The k-th matrix W, [out, in], for d W."""
    i = tl.arange(0, H)
    return tl.load(base + (i[:, None] * H + i[None, :]) + k * H * H)


@triton.jit
def transposed(base, k, H: tl.constexpr):
    """The k-th matrix as Wᵀ, [in, out], for x Wᵀ."""
    i = tl.arange(0, H)
    return tl.load(base + (i[:, None] + i[None, :] * H) + k * H * H)


@triton.jit
def vector(base, k, H: tl.constexpr):
    """The k-th bias, [1, H]."""
    return tl.load(base + tl.arange(0, H) + k * H)[None, :]


@triton.jit
def rows_of(base, rows, inside, H: tl.constexpr):
    """[block, H], zeros where a row is not inside."""
    return tl.load(base + rows[:, None] * H + tl.arange(0, H)[None, :], mask=inside, other=0.0)


@triton.jit
def put_rows(base, rows, inside, value, H: tl.constexpr):
    """Writes [block, H]."""
    tl.store(base + rows[:, None] * H + tl.arange(0, H)[None, :], value, mask=inside)


@triton.jit
def tanh(x):
    """By the exponential of a negative number, so that it never overflows."""
    t = tl.exp(-2 * tl.abs(x))
    return tl.where(x < 0, t - 1, 1 - t) / (1 + t)


@triton.jit
def interleaved(a, b, c, d):
    """[block, H] each -> their columns interleaved, [block, 4H]."""
    both = tl.join(tl.join(a, c), tl.join(b, d))
    return tl.reshape(both, [a.shape[0], 4 * a.shape[1]])


@triton.jit
def put_tile(base, value, ROWS: tl.constexpr, H: tl.constexpr):
    """Writes a program's [ROWS, H]."""
    tl.store(base + tl.arange(0, ROWS)[:, None] * H + tl.arange(0, H)[None, :], value)


@triton.jit
def put_row(base, value, WIDTH: tl.constexpr):
    """Writes a program's [WIDTH]."""
    tl.store(base + tl.arange(0, WIDTH), value)


@triton.jit
def gru(x, z, weights, bias, H: tl.constexpr):
    """The gates r, u, the candidate n, and the state's part of n before the reset gate, for input x and state z."""
    zero = tl.zeros_like(x)
    r = dot(z, transposed(weights, 3, H), dot(x, transposed(weights, 0, H), zero))
    u = dot(z, transposed(weights, 4, H), dot(x, transposed(weights, 1, H), zero))
    r = tl.sigmoid(r + vector(bias, 0, H) + vector(bias, 3, H))
    u = tl.sigmoid(u + vector(bias, 1, H) + vector(bias, 4, H))
    b = dot(z, transposed(weights, 5, H), zero) + vector(bias, 5, H)
    n = tanh(dot(x, transposed(weights, 2, H), zero) + vector(bias, 2, H) + r * b)
    return r, u, n, b


@triton.jit
def gru_back(grad, z, r, u, n, b):
    """The gradients of the gates before their activations, from that of the new state n + u (z - n).

    Of r, u and n, and of b, the state's part of n.
    """
    d_n = grad * (1 - u) * (1 - n * n)
    d_u = grad * (z - n) * u * (1 - u)
    return d_n * b * r * (1 - r), d_u, d_n, d_n * r
