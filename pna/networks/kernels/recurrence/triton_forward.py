"""One layer of a recurrent PNA network, forward, as one kernel.

A layer is equation 7 with a linear M and U, the mixing layer with LeakyReLU, and the GRU of section 3. A program takes
one replica and a block of nodes after another, so that the weights stay in its multiprocessor's cache and their
gradients in its registers. Between two layers a node keeps x, its state, and the two halves of the messages that it
will send and receive: p = W2 x and q = W1 x, [replicas, nodes, H] each. Networks narrower than H are
padded with zeros, which stay zeros.
"""

import triton
import triton.language as tl

from pna.aggregators import EPSILON
from pna.networks.kernels.dense import dot, gru, put_rows, rows_of, transposed, vector

__all__ = ["COMBINED", "MIX", "OWN", "SLOPE", "gather", "layer_forward", "project", "scaler_factors", "shifted"]

EPS = tl.constexpr(EPSILON)  # ε of equation 3
SLOPE = tl.constexpr(0.01)  # of LeakyReLU
OWN, MIX, COMBINED = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)  # where U's and the mixing matrices lie


@triton.jit
def scaler_factors(degree, delta):
    """Amplification and attenuation, S(d, 1) and S(d, -1) of equation 6, [block, 1]."""
    d = degree.to(tl.float32)
    amplification = tl.log(d + 1) / delta
    attenuation = delta / tl.log(tl.maximum(d, 1.0) + 1)
    return amplification[:, None], attenuation[:, None]


@triton.jit
def gather(
    p, q, column, start, degree, H: tl.constexpr, SPREAD: tl.constexpr, EXTREMES: tl.constexpr, SWAP: tl.constexpr,
    OTHERS: tl.constexpr,
):  # fmt: skip
    """One pass over the neighbours: mean, standard deviation, maximum, minimum and how often each extreme is taken.

    Sums are of differences to the first neighbour, so that the variance does not cancel.
    """
    c = tl.arange(0, H)[None, :]
    j = tl.load(column + start, mask=degree > 0, other=0)
    first = tl.load(p + j[:, None] * H + c, mask=(degree > 0)[:, None], other=0.0)
    total = tl.zeros_like(first)
    squares = tl.zeros_like(first)
    top = tl.full(first.shape, float("-inf"), tl.float32)
    low = tl.full(first.shape, float("inf"), tl.float32)
    tops = tl.zeros_like(first)
    lows = tl.zeros_like(first)
    for k in range(0, tl.max(degree, 0)):
        live = k < degree
        j = tl.load(column + start + k, mask=live, other=0)
        offset = j[:, None] * H + c
        live = live[:, None]
        m = first
        if OTHERS or not SWAP:
            m = tl.load(p + offset, mask=live, other=0.0)
        if OTHERS:
            difference = tl.where(live, m - first, 0.0)
            total += difference
            if SPREAD:
                squares += difference * difference
        if EXTREMES:
            e = m
            if SWAP:
                e = tl.load(q + offset, mask=live, other=0.0)
            up = tl.where(live, e, float("-inf"))
            down = tl.where(live, e, float("inf"))
            tops = tl.where(up > top, 1.0, tops + tl.where(up == top, 1.0, 0.0))
            lows = tl.where(down < low, 1.0, lows + tl.where(down == low, 1.0, 0.0))
            top = tl.maximum(top, up)
            low = tl.minimum(low, down)
    some = (degree > 0)[:, None]
    d = tl.maximum(degree, 1).to(tl.float32)[:, None]
    away = total / d
    mean = first + away
    deviation = tl.where(some, tl.sqrt(tl.maximum(squares / d - away * away, 0.0) + EPS), 0.0)
    top = tl.where(some, top, 0.0)
    low = tl.where(some, low, 0.0)
    return mean, deviation, top, low, tops, lows


@triton.jit
def shifted(mean, top, low, x_p, x_q, bias, degree, SWAP: tl.constexpr):
    """The receiver's part of the messages, which shifts mean, maximum and minimum, and the sum d times."""
    some = (degree > 0)[:, None]
    target = tl.where(some, x_q + bias, 0.0)
    other = target
    if SWAP:
        other = tl.where(some, x_p + bias, 0.0)
    return mean + target, top + other, low + other


@triton.jit
def combine(sums, aggregate, update, a: tl.constexpr, A: tl.constexpr, S: tl.constexpr, H: tl.constexpr):
    """Adds the products of one aggregate with U's matrices, one for each scaler."""
    s0 = dot(aggregate, transposed(update, COMBINED + a, H), sums[0])
    if S == 3:
        s1 = dot(aggregate, transposed(update, COMBINED + A + a, H), sums[1])
        s2 = dot(aggregate, transposed(update, COMBINED + 2 * A + a, H), sums[2])
        return s0, s1, s2
    else:
        return s0, s0, s0


@triton.jit
def convolve(
    x, mean, deviation, top, low, degree, amplification, attenuation, update, bias, A: tl.constexpr, S: tl.constexpr,
    MEAN: tl.constexpr, STD: tl.constexpr, MAX: tl.constexpr, MIN: tl.constexpr, SUM: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    """U of equation 8 and the mixing layer: y and z, [block, H] each."""
    zero = tl.zeros_like(x)
    sums = (dot(x, transposed(update, OWN, H), zero), zero, zero)
    if MEAN >= 0:
        sums = combine(sums, mean, update, MEAN, A, S, H)
    if STD >= 0:
        sums = combine(sums, deviation, update, STD, A, S, H)
    if MAX >= 0:
        sums = combine(sums, top, update, MAX, A, S, H)
    if MIN >= 0:
        sums = combine(sums, low, update, MIN, A, S, H)
    if SUM >= 0:
        sums = combine(sums, mean * degree.to(tl.float32)[:, None], update, SUM, A, S, H)
    y = sums[0] + vector(bias, 1, H)
    if S == 3:
        y += amplification * sums[1] + attenuation * sums[2]
    z = dot(y, transposed(update, MIX, H), zero) + vector(bias, 2, H)
    return y, tl.where(z > 0, z, SLOPE * z)


@triton.jit
def project(x, p, q, projection, V, x_stride, H: tl.constexpr, BLOCK: tl.constexpr):
    """p = W2 x and q = W1 x of the first layer, for a grid of (blocks, replicas)."""
    r = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows < V)[:, None]
    projection += r * 2 * H * H
    state = rows_of(x + r * x_stride, rows, inside, H)
    put_rows(p + r * V * H, rows, inside, dot(state, transposed(projection, 0, H), tl.zeros_like(state)), H)
    put_rows(q + r * V * H, rows, inside, dot(state, transposed(projection, 1, H), tl.zeros_like(state)), H)


@triton.jit
def layer_forward(
    x, p, q, new_x, new_p, new_q, kept_y, kept_z, ptr, column, delta, update, bias, gru_weights, gru_bias,
    next_projection, V, x_stride, A: tl.constexpr, S: tl.constexpr, MEAN: tl.constexpr, STD: tl.constexpr,
    MAX: tl.constexpr, MIN: tl.constexpr, SUM: tl.constexpr, SWAP: tl.constexpr, H: tl.constexpr,
    BLOCK: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """x, p and q of all nodes after a layer, for a grid of (programs, replicas); KEEP y and z for the way back."""
    r = tl.program_id(1)
    x += r * x_stride
    p += r * V * H
    q += r * V * H
    update += r * (COMBINED + S * A) * H * H
    bias += r * 3 * H
    gru_weights += r * 6 * H * H
    gru_bias += r * 6 * H
    next_projection += r * 2 * H * H
    d = tl.load(delta + r)
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        rows = block * BLOCK + tl.arange(0, BLOCK)
        inside = rows < V
        start = tl.load(ptr + rows, mask=inside, other=0)
        degree = tl.load(ptr + rows + 1, mask=inside, other=0) - start
        inside = inside[:, None]
        mean, deviation, top, low, _, _ = gather(
            p, q, column, start, degree, H, STD >= 0, (MAX >= 0) or (MIN >= 0), SWAP,
            (MEAN >= 0) or (STD >= 0) or (SUM >= 0),
        )  # fmt: skip
        x_p = rows_of(p, rows, inside, H)
        x_q = rows_of(q, rows, inside, H)
        mean, top, low = shifted(mean, top, low, x_p, x_q, vector(bias, 0, H), degree, SWAP)
        amplification, attenuation = scaler_factors(degree, d)
        state = rows_of(x, rows, inside, H)
        y, z = convolve(
            state, mean, deviation, top, low, degree, amplification, attenuation, update, bias, A, S, MEAN, STD, MAX,
            MIN, SUM, H,
        )  # fmt: skip
        if KEEP:
            put_rows(kept_y + r * V * H, rows, inside, y, H)
            put_rows(kept_z + r * V * H, rows, inside, z, H)
        _, u, n, _ = gru(state, z, gru_weights, gru_bias, H)
        state = n + u * (z - n)
        put_rows(new_x + r * V * H, rows, inside, state, H)
        zero = tl.zeros_like(state)
        put_rows(new_p + r * V * H, rows, inside, dot(state, transposed(next_projection, 0, H), zero), H)
        put_rows(new_q + r * V * H, rows, inside, dot(state, transposed(next_projection, 1, H), zero), H)
