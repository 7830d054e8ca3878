"""The kernels of a recurrent PNA network: one layer forward, one layer backward, each a single pass.

A layer is equation 7 with a linear M and U, the mixing layer with LeakyReLU, and the GRU of section 3. A program takes
one replica and a block of nodes after another, so that the weights stay in its multiprocessor's cache and their
gradients in its registers. Between two layers a node keeps x, its state, and the two halves of the messages that it
will send and receive: p = W2 x and q = W1 x, [replicas, nodes, H] each.
Networks narrower than H are padded with zeros, which stay zeros.
"""

import triton
import triton.language as tl

from pna.aggregators import EPSILON
from pna.kernels.dense import (
    add_row,
    add_tile,
    dot,
    gru,
    gru_back,
    matrix,
    pack,
    put_rows,
    rows_of,
    transposed,
    vector,
)

__all__ = ["aggregates_backward", "layer_forward", "node_backward", "project"]

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
    p,
    q,
    column,
    start,
    degree,
    H: tl.constexpr,
    SPREAD: tl.constexpr,
    EXTREMES: tl.constexpr,
    SWAP: tl.constexpr,
    OTHERS: tl.constexpr,
):
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
    x,
    mean,
    deviation,
    top,
    low,
    degree,
    amplification,
    attenuation,
    update,
    bias,
    A: tl.constexpr,
    S: tl.constexpr,
    MEAN: tl.constexpr,
    STD: tl.constexpr,
    MAX: tl.constexpr,
    MIN: tl.constexpr,
    SUM: tl.constexpr,
    H: tl.constexpr,
):
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
    x,
    p,
    q,
    new_x,
    new_p,
    new_q,
    kept_y,
    kept_z,
    ptr,
    column,
    delta,
    update,
    bias,
    gru_weights,
    gru_bias,
    next_projection,
    V,
    x_stride,
    A: tl.constexpr,
    S: tl.constexpr,
    MEAN: tl.constexpr,
    STD: tl.constexpr,
    MAX: tl.constexpr,
    MIN: tl.constexpr,
    SUM: tl.constexpr,
    SWAP: tl.constexpr,
    H: tl.constexpr,
    BLOCK: tl.constexpr,
    KEEP: tl.constexpr,
):
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
            p,
            q,
            column,
            start,
            degree,
            H,
            STD >= 0,
            (MAX >= 0) or (MIN >= 0),
            SWAP,
            (MEAN >= 0) or (STD >= 0) or (SUM >= 0),
        )
        x_p = rows_of(p, rows, inside, H)
        x_q = rows_of(q, rows, inside, H)
        mean, top, low = shifted(mean, top, low, x_p, x_q, vector(bias, 0, H), degree, SWAP)
        amplification, attenuation = scaler_factors(degree, d)
        state = rows_of(x, rows, inside, H)
        y, z = convolve(
            state,
            mean,
            deviation,
            top,
            low,
            degree,
            amplification,
            attenuation,
            update,
            bias,
            A,
            S,
            MEAN,
            STD,
            MAX,
            MIN,
            SUM,
            H,
        )
        if KEEP:
            put_rows(kept_y + r * V * H, rows, inside, y, H)
            put_rows(kept_z + r * V * H, rows, inside, z, H)
        _, u, n, _ = gru(state, z, gru_weights, gru_bias, H)
        state = n + u * (z - n)
        put_rows(new_x + r * V * H, rows, inside, state, H)
        zero = tl.zeros_like(state)
        put_rows(new_p + r * V * H, rows, inside, dot(state, transposed(next_projection, 0, H), zero), H)
        put_rows(new_q + r * V * H, rows, inside, dot(state, transposed(next_projection, 1, H), zero), H)


@triton.jit
def gather_gradient(
    own_p,
    own_q,
    coefficients,
    column,
    start,
    degree,
    C: tl.constexpr,
    H: tl.constexpr,
    MEANS: tl.constexpr,
    SPREAD: tl.constexpr,
    MAX: tl.constexpr,
    MIN: tl.constexpr,
    SWAP: tl.constexpr,
):
    """The gradients of p and q of each node as a sender: one pass over its receivers' coefficients.

    The graph is undirected: the receivers of a node are its neighbours.
    """
    grad_p = tl.zeros_like(own_p)
    grad_q = tl.zeros_like(own_p)
    c = tl.arange(0, H)[None, :]
    for k in range(0, tl.max(degree, 0)):
        live = k < degree
        i = tl.load(column + start + k, mask=live, other=0)
        base = coefficients + i[:, None] * (C * H) + c
        live = live[:, None]
        if MEANS:
            grad_p += tl.load(base, mask=live, other=0.0)
            base += H
        if SPREAD:
            slope = tl.load(base, mask=live, other=0.0)
            grad_p += slope * (own_p - tl.load(base + H, mask=live, other=0.0))
            base += 2 * H
        e = own_p
        if SWAP:
            e = own_q
        extreme = tl.zeros_like(own_p)
        if MAX:
            extreme += tl.where(tl.load(base + H, mask=live, other=0.0) == e, tl.load(base, mask=live, other=0.0), 0.0)
            base += 2 * H
        if MIN:
            extreme += tl.where(tl.load(base + H, mask=live, other=0.0) == e, tl.load(base, mask=live, other=0.0), 0.0)
        if SWAP:
            grad_q += extreme
        else:
            grad_p += extreme
    return grad_p, grad_q


@triton.jit
def back_through(gradients, update, a: tl.constexpr, A: tl.constexpr, S: tl.constexpr, H: tl.constexpr):
    """The gradient of one aggregate from those of the scaled sums."""
    g = dot(gradients[0], matrix(update, COMBINED + a, H), tl.zeros_like(gradients[0]))
    if S == 3:
        g = dot(gradients[1], matrix(update, COMBINED + A + a, H), g)
        g = dot(gradients[2], matrix(update, COMBINED + 2 * A + a, H), g)
    return g


@triton.jit
def node_backward(
    x,
    y,
    z,
    new_x,
    new_p,
    new_q,
    ptr,
    column,
    update,
    gru_weights,
    gru_bias,
    next_projection,
    grad_new,
    coefficients,
    next_p,
    next_q,
    grad_x,
    grad_y,
    grad_projection,
    grad_node,
    grad_gru,
    grad_bias,
    V,
    x_stride,
    new_stride,
    C: tl.constexpr,
    COUNT: tl.constexpr,
    MEANS: tl.constexpr,
    SPREAD: tl.constexpr,
    MAXIMUM: tl.constexpr,
    MINIMUM: tl.constexpr,
    SWAP: tl.constexpr,
    H: tl.constexpr,
    BLOCK: tl.constexpr,
    LAST: tl.constexpr,
    LAYER: tl.constexpr,
):
    """Back through the part of a layer that each node does for itself, for a grid of (programs, replicas).

    First the gradient of new_x, the layer's output: what comes down directly (grad_new) and, unless it is the LAST
    layer, what the next layer's receivers and the node itself ask of new_p and new_q. Then, if there is a LAYER (not
    so for the input), back through GRU and mixing to x and y. Gradients of weights are added to each program's place.
    """
    r = tl.program_id(1)
    me = r * tl.num_programs(0) + tl.program_id(0)
    plane = r * V * H
    update += r * COUNT * H * H
    gru_weights += r * 6 * H * H
    gru_bias += r * 6 * H
    next_projection += r * 2 * H * H
    projections = tl.zeros([2 * H, H], tl.float32)
    of_own = tl.zeros([H, H], tl.float32)
    of_mix = tl.zeros([H, H], tl.float32)
    gates_x = tl.zeros([4 * H, H], tl.float32)
    gates_z = tl.zeros([4 * H, H], tl.float32)
    bias_y = tl.zeros([H], tl.float32)
    bias_z = tl.zeros([H], tl.float32)
    bias_gates = tl.zeros([4 * H], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        rows = block * BLOCK + tl.arange(0, BLOCK)
        within = rows < V
        inside = within[:, None]
        grad = rows_of(grad_new + plane, rows, inside, H)
        if not LAST:
            start = tl.load(ptr + rows, mask=within, other=0)
            degree = tl.load(ptr + rows + 1, mask=within, other=0) - start
            own_p = rows_of(new_p + plane, rows, inside, H)
            own_q = rows_of(new_q + plane, rows, inside, H)
            sent_p, sent_q = gather_gradient(
                own_p,
                own_q,
                coefficients + r * V * C * H,
                column,
                start,
                degree,
                C,
                H,
                MEANS,
                SPREAD,
                MAXIMUM,
                MINIMUM,
                SWAP,
            )
            sent_q += rows_of(next_q + plane, rows, inside, H)
            if SWAP:
                sent_p += rows_of(next_p + plane, rows, inside, H)
            both = tl.trans(pack(sent_p, sent_p, sent_q, sent_q, False))
            projections = dot(both, rows_of(new_x + r * new_stride, rows, inside, H), projections)
            grad = dot(sent_p, matrix(next_projection, 0, H), grad)
            grad = dot(sent_q, matrix(next_projection, 1, H), grad)
        if LAYER:
            state = rows_of(x + r * x_stride, rows, inside, H)
            out = rows_of(z + plane, rows, inside, H)
            reset, u, n, b = gru(state, out, gru_weights, gru_bias, H)
            d_r, d_u, d_n, d_b = gru_back(grad, out, reset, u, n, b)
            down = dot(d_r, matrix(gru_weights, 0, H), tl.zeros_like(grad))
            down = dot(d_u, matrix(gru_weights, 1, H), down)
            down = dot(d_n, matrix(gru_weights, 2, H), down)
            d_z = dot(d_r, matrix(gru_weights, 3, H), grad * u)
            d_z = dot(d_u, matrix(gru_weights, 4, H), d_z)
            d_z = dot(d_b, matrix(gru_weights, 5, H), d_z)
            gates = pack(d_r, d_u, d_n, d_b, True)
            bias_gates += tl.sum(gates, 0)
            gates = tl.trans(gates)
            gates_x = dot(gates, state, gates_x)
            gates_z = dot(gates, out, gates_z)
            d_z = tl.where(out > 0, d_z, SLOPE * d_z)
            d_y = dot(d_z, matrix(update, MIX, H), tl.zeros_like(grad))
            of_mix = dot(tl.trans(d_z), rows_of(y + plane, rows, inside, H), of_mix)
            of_own = dot(tl.trans(d_y), state, of_own)
            bias_z += tl.sum(d_z, 0)
            bias_y += tl.sum(d_y, 0)
            down = dot(d_y, matrix(update, OWN, H), down)
            put_rows(grad_x + plane, rows, inside, down, H)
            put_rows(grad_y + plane, rows, inside, d_y, H)
    if not LAST:
        add_tile(grad_projection + me * 2 * H * H, projections, 2 * H, H)
    if LAYER:
        add_tile(grad_node + me * 2 * H * H, of_own, H, H)
        add_tile(grad_node + me * 2 * H * H + H * H, of_mix, H, H)
        add_tile(grad_gru + me * 8 * H * H, gates_x, 4 * H, H)
        add_tile(grad_gru + me * 8 * H * H + 4 * H * H, gates_z, 4 * H, H)
        add_row(grad_bias + me * 6 * H, bias_y, H)
        add_row(grad_bias + me * 6 * H + H, bias_z, H)
        add_row(grad_bias + me * 6 * H + 2 * H, bias_gates, 4 * H)


@triton.jit
def aggregates_backward(
    p,
    q,
    ptr,
    column,
    delta,
    update,
    bias,
    grad_y,
    coefficients,
    grad_p,
    grad_q,
    grad_combined,
    grad_bias,
    V,
    A: tl.constexpr,
    S: tl.constexpr,
    MEAN: tl.constexpr,
    STD: tl.constexpr,
    MAX: tl.constexpr,
    MIN: tl.constexpr,
    SUM: tl.constexpr,
    SWAP: tl.constexpr,
    H: tl.constexpr,
    BLOCK: tl.constexpr,
    C: tl.constexpr,
):
    """Back through U to the aggregates, for a grid of (programs, replicas).

    What an aggregate asks of its receiver's own part goes to grad_p and grad_q. What it asks of a sender depends on
    that sender's message m: level + slope (m - mean) + share at the extremes. These are the coefficients.
    """
    r = tl.program_id(1)
    me = r * tl.num_programs(0) + tl.program_id(0)
    plane = r * V * H
    update += r * (COMBINED + S * A) * H * H
    bias += r * 3 * H
    d = tl.load(delta + r)
    FOUR: tl.constexpr = S == 3
    W: tl.constexpr = 4 * H if FOUR else H
    zero = tl.zeros([W, H], tl.float32)
    of_mean, of_std, of_max, of_min, of_sum = zero, zero, zero, zero, zero
    message_bias = tl.zeros([H], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(V, BLOCK), tl.num_programs(0)):
        rows = block * BLOCK + tl.arange(0, BLOCK)
        within = rows < V
        inside = within[:, None]
        start = tl.load(ptr + rows, mask=within, other=0)
        degree = tl.load(ptr + rows + 1, mask=within, other=0) - start
        mu, deviation, e_top, e_low, tops, lows = gather(
            p + plane,
            q + plane,
            column,
            start,
            degree,
            H,
            STD >= 0,
            (MAX >= 0) or (MIN >= 0),
            SWAP,
            (MEAN >= 0) or (STD >= 0) or (SUM >= 0),
        )
        mean, top, low = shifted(
            mu,
            e_top,
            e_low,
            rows_of(p + plane, rows, inside, H),
            rows_of(q + plane, rows, inside, H),
            vector(bias, 0, H),
            degree,
            SWAP,
        )
        d_y = rows_of(grad_y + plane, rows, inside, H)
        scaled = (d_y, d_y, d_y)
        wide = d_y
        if FOUR:
            amplification, attenuation = scaler_factors(degree, d)
            scaled = (d_y, d_y * amplification, d_y * attenuation)
            wide = pack(scaled[0], scaled[1], scaled[2], d_y, True)
        wide = tl.trans(wide)
        some = (degree > 0)[:, None]
        once = tl.where(some, 1.0, 0.0)
        degrees = degree.to(tl.float32)[:, None]
        share = once / tl.maximum(degrees, 1.0)
        base = coefficients + (r * V + rows)[:, None] * (C * H) + tl.arange(0, H)[None, :]
        target = tl.zeros_like(d_y)
        level = tl.zeros_like(d_y)
        others = tl.zeros_like(d_y)
        if MEAN >= 0:
            of_mean = dot(wide, mean, of_mean)
            g = back_through(scaled, update, MEAN, A, S, H)
            target += g * once
            level += g * share
        if SUM >= 0:
            of_sum = dot(wide, mean * degrees, of_sum)
            g = back_through(scaled, update, SUM, A, S, H)
            target += g * degrees
            level += g * once
        if (MEAN >= 0) or (SUM >= 0):
            tl.store(base, level, mask=inside)
            base += H
        if STD >= 0:
            of_std = dot(wide, deviation, of_std)
            g = back_through(scaled, update, STD, A, S, H)
            tl.store(base, g * share / tl.where(some, deviation, 1.0), mask=inside)
            tl.store(base + H, mu, mask=inside)
            base += 2 * H
        if MAX >= 0:
            of_max = dot(wide, top, of_max)
            g = back_through(scaled, update, MAX, A, S, H) * once
            others += g
            tl.store(base, g / tl.maximum(tops, 1.0), mask=inside)
            tl.store(base + H, e_top, mask=inside)
            base += 2 * H
        if MIN >= 0:
            of_min = dot(wide, low, of_min)
            g = back_through(scaled, update, MIN, A, S, H) * once
            others += g
            tl.store(base, g / tl.maximum(lows, 1.0), mask=inside)
            tl.store(base + H, e_low, mask=inside)
        message_bias += tl.sum(target + others, 0)
        if SWAP:
            put_rows(grad_p + plane, rows, inside, others, H)
        else:
            target += others
        put_rows(grad_q + plane, rows, inside, target, H)
    grad_combined += me * A * W * H
    if MEAN >= 0:
        add_tile(grad_combined + MEAN * W * H, of_mean, W, H)
    if STD >= 0:
        add_tile(grad_combined + STD * W * H, of_std, W, H)
    if MAX >= 0:
        add_tile(grad_combined + MAX * W * H, of_max, W, H)
    if MIN >= 0:
        add_tile(grad_combined + MIN * W * H, of_min, W, H)
    if SUM >= 0:
        add_tile(grad_combined + SUM * W * H, of_sum, W, H)
    add_row(grad_bias + me * H, message_bias, H)
