"""The readout S2S of section 3 in Triton: a program keeps the nodes of a few graphs of one replica in its registers."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pna.networks.kernels.dense import (
    dot,
    interleaved,
    matrix,
    put_row,
    put_rows,
    put_tile,
    rows_of,
    tanh,
    transposed,
    vector,
)

__all__ = ["backward", "forward"]

GRAPHS, WARPS = 16, 4  # of a program


@triton.jit
def _nodes(base, graphs, G, N, NODES: tl.constexpr, H: tl.constexpr):
    """Where the nodes of a block of graphs lie, [graphs, NODES, H], and which are real."""
    n = tl.arange(0, NODES)[None, :, None]
    place = base + (graphs[:, None, None] * N + n) * H + tl.arange(0, H)[None, None, :]
    return place, (graphs[:, None, None] < G) & (n < N)


@triton.jit
def _attention(x, state, N, NODES: tl.constexpr):
    """softmax over the nodes of x · state, [graphs, NODES]."""
    logits = tl.sum(x * state[:, None, :], 2)
    real = (tl.arange(0, NODES) < N)[None, :]
    logits = tl.where(real, logits, float("-inf"))
    weight = tl.exp(logits - tl.max(logits, 1)[:, None])
    return weight / tl.sum(weight, 1)[:, None]


@triton.jit
def _gates(state, read, weights, bias, H: tl.constexpr):
    """The LSTM's gates i, f, g and o."""
    zero = tl.zeros_like(state)
    i = dot(read, transposed(weights, 4, H), dot(state, transposed(weights, 0, H), zero)) + vector(bias, 0, H)
    f = dot(read, transposed(weights, 5, H), dot(state, transposed(weights, 1, H), zero)) + vector(bias, 1, H)
    g = dot(read, transposed(weights, 6, H), dot(state, transposed(weights, 2, H), zero)) + vector(bias, 2, H)
    o = dot(read, transposed(weights, 7, H), dot(state, transposed(weights, 3, H), zero)) + vector(bias, 3, H)
    return tl.sigmoid(i), tl.sigmoid(f), tanh(g), tl.sigmoid(o)


@triton.jit
def set2set_forward(
    x, weights, bias, out, steps, G, N, KEEP: tl.constexpr, NODES: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr
):
    """Grid (blocks of graphs, replicas). `steps`, [N, 3, G, H] of each replica, keeps state, memory and read."""
    r = tl.program_id(1)
    graphs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (graphs < G)[:, None]
    place, real = _nodes(x + r * G * N * H, graphs, G, N, NODES, H)
    nodes = tl.load(place, mask=real, other=0.0)
    weights += r * 8 * H * H
    bias += r * 4 * H
    steps += r * N * 3 * G * H
    state = tl.zeros([BLOCK, H], tl.float32)
    memory = state
    read = state
    for step in range(0, N):
        i, f, g, o = _gates(state, read, weights, bias, H)
        memory = f * memory + i * g
        state = o * tanh(memory)
        attention = _attention(nodes, state, N, NODES)
        read = tl.sum(attention[:, :, None] * nodes, 1)
        if KEEP:
            kept = steps + step * 3 * G * H
            put_rows(kept, graphs, inside, state, H)
            put_rows(kept + G * H, graphs, inside, memory, H)
            put_rows(kept + 2 * G * H, graphs, inside, read, H)
    out += r * G * 2 * H
    put_rows(out, 2 * graphs, inside, state, H)
    put_rows(out, 2 * graphs + 1, inside, read, H)


@triton.jit
def set2set_backward(
    x, weights, bias, steps, grad, grad_x, grad_weights, grad_bias, G, N,
    NODES: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(1)
    me = r * tl.num_programs(0) + tl.program_id(0)
    graphs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (graphs < G)[:, None]
    place, real = _nodes(x + r * G * N * H, graphs, G, N, NODES, H)
    nodes = tl.load(place, mask=real, other=0.0)
    weights += r * 8 * H * H
    bias += r * 4 * H
    steps += r * N * 3 * G * H
    d_nodes = tl.zeros_like(nodes)
    d_state = rows_of(grad + r * G * 2 * H, 2 * graphs, inside, H)
    d_read = rows_of(grad + r * G * 2 * H, 2 * graphs + 1, inside, H)
    d_memory = tl.zeros_like(d_state)
    of_state = tl.zeros([4 * H, H], tl.float32)
    of_read = tl.zeros([4 * H, H], tl.float32)
    of_bias = tl.zeros([BLOCK, 4 * H], tl.float32)
    for back in range(0, N):
        kept = steps + (N - 1 - back) * 3 * G * H
        state = rows_of(kept, graphs, inside, H)
        memory = rows_of(kept + G * H, graphs, inside, H)
        attention = _attention(nodes, state, N, NODES)
        d_attention = tl.sum(nodes * d_read[:, None, :], 2)
        d_logits = attention * (d_attention - tl.sum(attention * d_attention, 1)[:, None])
        d_nodes += attention[:, :, None] * d_read[:, None, :] + d_logits[:, :, None] * state[:, None, :]
        d_state += tl.sum(d_logits[:, :, None] * nodes, 1)
        before = inside & (back < N - 1)  # before the first step all three are zeros
        kept -= 3 * G * H
        old_state = rows_of(kept, graphs, before, H)
        old_memory = rows_of(kept + G * H, graphs, before, H)
        old_read = rows_of(kept + 2 * G * H, graphs, before, H)
        i, f, g, o = _gates(old_state, old_read, weights, bias, H)
        t = tanh(memory)
        d_memory += d_state * o * (1 - t * t)
        d_o = d_state * t * o * (1 - o)
        d_i = d_memory * g * i * (1 - i)
        d_g = d_memory * i * (1 - g * g)
        d_f = d_memory * old_memory * f * (1 - f)
        d_memory *= f
        zero = tl.zeros_like(d_i)
        d_state = dot(d_i, matrix(weights, 0, H), dot(d_f, matrix(weights, 1, H), zero))
        d_state = dot(d_g, matrix(weights, 2, H), dot(d_o, matrix(weights, 3, H), d_state))
        d_read = dot(d_i, matrix(weights, 4, H), dot(d_f, matrix(weights, 5, H), zero))
        d_read = dot(d_g, matrix(weights, 6, H), dot(d_o, matrix(weights, 7, H), d_read))
        gates = interleaved(d_i, d_f, d_g, d_o)
        of_bias += gates
        gates = tl.trans(gates)
        of_state = dot(gates, old_state, of_state)
        of_read = dot(gates, old_read, of_read)
    place, real = _nodes(grad_x + r * G * N * H, graphs, G, N, NODES, H)
    tl.store(place, d_nodes, mask=real)
    put_tile(grad_weights + me * 8 * H * H, of_state, 4 * H, H)
    put_tile(grad_weights + me * 8 * H * H + 4 * H * H, of_read, 4 * H, H)
    put_row(grad_bias + me * 4 * H, tl.sum(of_bias, 0), 4 * H)


def forward(x: Tensor, weights: Tensor, bias: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    """State and read [R, G, 2, H]; and of every step what backward needs."""
    R, G, N, H = x.shape
    out = x.new_empty(R, G, 2, H)
    steps = x.new_empty(R, N, 3, G, H) if keep else x.new_empty(0)
    grid = -(-G // GRAPHS), R
    set2set_forward[grid](x, weights, bias, out, steps, G, N, KEEP=keep, **_constants(N, H))
    return out, steps


def backward(x: Tensor, weights: Tensor, bias: Tensor, steps: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, int]:
    """The gradient of x; those of the weights, [R, …], then of the bias; and that they are in one part."""
    R, G, N, H = x.shape
    programs = -(-G // GRAPHS)
    grad_x = torch.empty_like(x)
    grad_weights, grad_bias = x.new_empty(R, programs, 8 * H, H), x.new_empty(R, programs, 4 * H)
    set2set_backward[(programs, R)](
        x, weights, bias, steps, grad, grad_x, grad_weights, grad_bias, G, N, **_constants(N, H)
    )
    of_weights = grad_weights.sum(1).view(R, 2, H, 4, H).transpose(2, 3).flatten(1, 2)  # [R, 8, H, H]
    of_bias = grad_bias.sum(1).view(R, H, 4).transpose(1, 2)
    return grad_x, torch.cat([of_weights.flatten(), of_bias.flatten()]), 1


def _constants(N: int, H: int) -> dict[str, int]:
    return {"NODES": max(16, triton.next_power_of_2(N)), "H": H, "BLOCK": GRAPHS, "num_warps": WARPS, "num_stages": 1}
