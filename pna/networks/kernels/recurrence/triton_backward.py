"""One layer of a recurrent PNA network, backward, as two kernels: what a node does for itself, and its aggregates.

Nothing is scattered: an aggregate leaves coefficients at its receiver, and the senders come and read them.
"""

import triton
import triton.language as tl

from pna.networks.kernels.dense import (
    add_row,
    add_tile,
    dot,
    gru,
    gru_back,
    interleaved,
    matrix,
    put_rows,
    rows_of,
    vector,
)
from pna.networks.kernels.recurrence.triton_forward import COMBINED, MIX, OWN, SLOPE, gather, scaler_factors, shifted

__all__ = ["aggregates_backward", "node_backward"]


@triton.jit
def gather_gradient(
    own_p, own_q, coefficients, column, start, degree, C: tl.constexpr, H: tl.constexpr, MEANS: tl.constexpr,
    SPREAD: tl.constexpr, MAX: tl.constexpr, MIN: tl.constexpr, SWAP: tl.constexpr,
):  # fmt: skip
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
    x, y, z, new_x, new_p, new_q, ptr, column, update, gru_weights, gru_bias, next_projection, grad_new,
    coefficients, next_p, next_q, grad_x, grad_y, grad_projection, grad_node, grad_gru, grad_bias, V, x_stride,
    new_stride, C: tl.constexpr, COUNT: tl.constexpr, MEANS: tl.constexpr, SPREAD: tl.constexpr,
    MAXIMUM: tl.constexpr, MINIMUM: tl.constexpr, SWAP: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr,
    LAST: tl.constexpr, LAYER: tl.constexpr,
):  # fmt: skip
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
                own_p, own_q, coefficients + r * V * C * H, column, start, degree, C, H, MEANS, SPREAD, MAXIMUM,
                MINIMUM, SWAP,
            )  # fmt: skip
            sent_q += rows_of(next_q + plane, rows, inside, H)
            if SWAP:
                sent_p += rows_of(next_p + plane, rows, inside, H)
            both = tl.trans(interleaved(sent_p, sent_p, sent_q, sent_q, False))
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
            gates = interleaved(d_r, d_u, d_n, d_b, True)
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
    p, q, ptr, column, delta, update, bias, grad_y, coefficients, grad_p, grad_q, grad_combined, grad_bias, V,
    A: tl.constexpr, S: tl.constexpr, MEAN: tl.constexpr, STD: tl.constexpr, MAX: tl.constexpr, MIN: tl.constexpr,
    SUM: tl.constexpr, SWAP: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
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
            p + plane, q + plane, column, start, degree, H, STD >= 0, (MAX >= 0) or (MIN >= 0), SWAP,
            (MEAN >= 0) or (STD >= 0) or (SUM >= 0),
        )  # fmt: skip
        mean, top, low = shifted(
            mu, e_top, e_low, rows_of(p + plane, rows, inside, H), rows_of(q + plane, rows, inside, H),
            vector(bias, 0, H), degree, SWAP,
        )  # fmt: skip
        d_y = rows_of(grad_y + plane, rows, inside, H)
        scaled = (d_y, d_y, d_y)
        wide = d_y
        if FOUR:
            amplification, attenuation = scaler_factors(degree, d)
            scaled = (d_y, d_y * amplification, d_y * attenuation)
            wide = interleaved(scaled[0], scaled[1], scaled[2], d_y, True)
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
