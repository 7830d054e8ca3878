"""What a node of ogb's GCN and GIN receives, with the embedding of the bonds and its own part, in one kernel each way.

GIN: (1 + ε) x_i + Σ_j ReLU(x_j + B e_ij). GCN: Σ_j ReLU(z_j + B e_ij) / √(d_i d_j) + ReLU(z_i + r) / d_i, z = x + b.
A program takes NODES nodes of a replica, one after the other, and WIDTH features, for which it holds B; each message
reads its e_ij. So no embedded bond is ever written, nor its gradient: that of B, and those of ε, r and b, every program
sums up for its nodes, and these sums are added in the end. Padding receives nothing, has zeros, and gives no gradient.
The plain-torch twins are in quoted.py.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.kernels.selection import first_derivative, on_its_device
from pna.neighbourhoods import Neighbourhoods
from pna.networks.kernels.replicas import graph_of_replicas, rows_of_replicas

__all__ = ["received", "supports"]

NODES, NODES_BACK = 8, 16  # of a program; back, its sums are K + 2 rows beside the nodes' own
WIDTH = 64  # features of a program, which is one warp: all of B for a feature is in one thread's registers
MOST = 16  # numbers of a bond, for which it has enough of them


def supports(x: Tensor, bonds: Tensor, graph: Neighbourhoods) -> bool:
    """Whether the graphs of all replicas are joined and a bond has at most MOST numbers."""
    return graph.joined is not None and bonds.shape[-1] <= MOST


@on_its_device
def received(
    x: Tensor, bonds: Tensor, own: Tensor, bias: Tensor | None, edge: Tensor, count: Tensor, graph: Neighbourhoods
) -> Tensor:
    """Sum the messages that each node receives, with its own part.

    x is [V, F], bonds the matrix B [F, K], edge [E, K] and count [], the number of real nodes; the result is [V, F].
    `own` is ε, [1], for GIN, which has no bias, and r, [F], for GCN, whose bias is [F].
    """
    ptr, _, source, transpose = graph.joined
    given = (x, bonds.mT.contiguous(), own, bias, edge, count)
    given = (None if t is None else t.unsqueeze(0) for t in given)
    return _Received.apply(*given, ptr, source, *transpose).squeeze(0)


@triton.jit
def _share(ptr, i):
    """1/√d_i, the degree counting the node itself."""
    return tl.rsqrt((tl.load(ptr + i + 1) - tl.load(ptr + i) + 1).to(tl.float32))


@triton.jit
def _rows(at, c, F: tl.constexpr, K: tl.constexpr):
    """K rows of F numbers, as so many vectors: in a matrix, a sum over them would go from thread to thread."""
    rows = ()
    for k in tl.static_range(K):
        rows = rows + (tl.load(at + k * F + c, mask=c < F, other=0.0),)  # noqa: RUF005
    return rows


@triton.jit
def _none(K: tl.constexpr, WIDTH: tl.constexpr):
    """So many vectors of zeros."""
    rows = ()
    for _ in tl.static_range(K):
        rows = rows + (tl.zeros([WIDTH], tl.float32),)  # noqa: RUF005
    return rows


@triton.jit
def _bond(edge, e, K: tl.constexpr):
    """The K numbers of e_ij."""
    numbers = ()
    for k in tl.static_range(K):
        numbers = numbers + (tl.load(edge + e * K + k),)  # noqa: RUF005
    return numbers


@triton.jit
def _embedded(m, bond, B, K: tl.constexpr):
    """m + B e_ij."""
    for k in tl.static_range(K):
        m += bond[k] * B[k]
    return m


@triton.jit
def _added(rows, bond, back, K: tl.constexpr):
    """The outer product of a bond and a gradient added to K vectors."""
    more = ()
    for k in tl.static_range(K):
        more = more + (rows[k] + bond[k] * back,)  # noqa: RUF005
    return more


@triton.jit
def _vector(at, r, c, F: tl.constexpr):
    return tl.load(at + r * F + c, mask=c < F, other=0.0)


@triton.jit
def message_forward(x, bonds, own, bias, edge, count, ptr, source, y, V, GCN: tl.constexpr, F: tl.constexpr,
                    K: tl.constexpr, WIDTH: tl.constexpr, NODES: tl.constexpr):  # fmt: skip
    """What each of NODES nodes receives."""
    r = tl.program_id(1).to(tl.int64)
    c = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    first = tl.program_id(0) * NODES
    live = tl.load(count + r).to(tl.int32)
    B = _rows(bonds + r * K * F, c, F, K)
    shift = tl.zeros([WIDTH], tl.float32)
    root = shift
    if GCN:
        shift = _vector(bias, r, c, F)
        root = _vector(own, r, c, F)
    for n in range(first, tl.minimum(first + NODES, live)):
        i = r * V + n
        total = tl.zeros([WIDTH], tl.float32)
        for e in range(tl.load(ptr + i), tl.load(ptr + i + 1)):
            j = tl.load(source + e)
            m = tl.load(x + j * F + c, mask=c < F, other=0.0) + shift
            m = _embedded(m, _bond(edge, e, K), B, K)
            m = tl.where(m < 0, 0.0, m)  # not the maximum: what is no number must stay so
            total += m * _share(ptr, j) if GCN else m
        z = tl.load(x + i * F + c, mask=c < F, other=0.0)
        if GCN:
            s = _share(ptr, i)
            z += shift + root
            total = s * total + s * s * tl.where(z < 0, 0.0, z)
        else:
            total += (1 + tl.load(own + r)) * z
        tl.store(y + i * F + c, total, mask=c < F)
    for n in range(tl.maximum(first, live), tl.minimum(first + NODES, V)):
        tl.store(y + (r * V + n) * F + c, tl.zeros([WIDTH], tl.float32), mask=c < F)


@triton.jit
def message_backward(x, bonds, own, bias, edge, count, ptr, sender_ptr, receiver, place, grad, grad_x, sums, V,
                     GCN: tl.constexpr, F: tl.constexpr, K: tl.constexpr, WIDTH: tl.constexpr,
                     NODES: tl.constexpr):  # fmt: skip
    """The gradients of NODES nodes, by the messages that they have sent; and the sums [K + 2, F] of B, own and bias."""
    r = tl.program_id(1).to(tl.int64)
    c = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)
    first = tl.program_id(0) * NODES
    live = tl.load(count + r).to(tl.int32)
    B = _rows(bonds + r * K * F, c, F, K)
    shift = tl.zeros([WIDTH], tl.float32)
    root = shift
    if GCN:
        shift = _vector(bias, r, c, F)
        root = _vector(own, r, c, F)
    of_bonds = _none(K, WIDTH)
    of_own = tl.zeros([WIDTH], tl.float32)
    of_bias = tl.zeros([WIDTH], tl.float32)
    for n in range(first, tl.minimum(first + NODES, live)):
        j = r * V + n
        z = tl.load(x + j * F + c, mask=c < F, other=0.0) + shift
        s = _share(ptr, j) if GCN else 1.0
        g = tl.load(grad + j * F + c, mask=c < F, other=0.0)
        if GCN:
            total = tl.where(z + root <= 0, 0.0, s * s * g)
            of_own += total
        else:
            total = (1 + tl.load(own + r)) * g
            of_own += g * z
        for k in range(tl.load(sender_ptr + j), tl.load(sender_ptr + j + 1)):
            i = tl.load(receiver + k)
            bond = _bond(edge, tl.load(place + k), K)
            back = tl.load(grad + i * F + c, mask=c < F, other=0.0)
            if GCN:
                back *= s * _share(ptr, i)
            back = tl.where(_embedded(z, bond, B, K) <= 0, 0.0, back)
            total += back
            of_bonds = _added(of_bonds, bond, back, K)
        of_bias += total
        tl.store(grad_x + j * F + c, total, mask=c < F)
    for n in range(tl.maximum(first, live), tl.minimum(first + NODES, V)):
        tl.store(grad_x + (r * V + n) * F + c, tl.zeros([WIDTH], tl.float32), mask=c < F)
    sums += (r * tl.num_programs(0) + tl.program_id(0)) * (K + 2) * F
    for k in tl.static_range(K):
        tl.store(sums + k * F + c, of_bonds[k], mask=c < F)
    tl.store(sums + K * F + c, of_own, mask=c < F)
    tl.store(sums + (K + 1) * F + c, of_bias, mask=c < F)


class _Received(Function):
    """x [R, V, F], bonds [R, K, F], own [R, 1 or F], bias [R, F] or None, edge [R, E, K], count [R], and the joined
    graph -> [R, V, F]."""

    @staticmethod
    def forward(*inputs: Tensor | None) -> Tensor:
        x, bonds, own, bias, edge, count, ptr, source, *_ = (None if t is None else t.contiguous() for t in inputs)
        y, (grid, constants) = torch.empty_like(x), _sizes(x, bonds, bias, NODES)
        given = (x, bonds, own, x if bias is None else bias, edge, count, ptr, source)
        message_forward[grid](*given, y, x.shape[1], **constants)
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @first_derivative
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved = (None if t is None else t.contiguous() for t in ctx.saved_tensors)
        x, bonds, own, bias, edge, count, ptr, _, *transpose = saved
        grad, K, (grid, constants) = grad.contiguous(), bonds.shape[1], _sizes(x, bonds, bias, NODES_BACK)
        grad_x, sums = torch.empty_like(x), x.new_empty(len(x), grid[0], K + 2, x.shape[2])
        given = (x, bonds, own, x if bias is None else bias, edge, count, ptr, *transpose)
        message_backward[grid](*given, grad, grad_x, sums, x.shape[1], **constants)
        of_bonds, of_own, of_bias = sums.sum(1).split([K, 1, 1], dim=1)
        gin = bias is None
        of_own = of_own.sum(2) if gin else of_own.squeeze(1)
        return grad_x, of_bonds, of_own, None if gin else of_bias.squeeze(1), *(None,) * 7

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Tensor | None) -> tuple[Tensor, int]:
        R, graph = info.batch_size, inputs[6:]
        lifted = [
            None if t is None else rows_of_replicas(t, dim, R) for t, dim in zip(inputs[:6], in_dims[:6], strict=True)
        ]
        return _Received.apply(*lifted, *graph_of_replicas(graph, R, lifted[0].shape[1])).unsqueeze(1), 0


def _sizes(x: Tensor, bonds: Tensor, bias: Tensor | None, nodes: int) -> tuple[tuple[int, int, int], dict]:
    """The grid, and what the programs are told; without nodes the first still has its sums to write."""
    (R, V, F), K = x.shape, bonds.shape[1]
    constants = {"GCN": bias is not None, "F": F, "K": K, "WIDTH": WIDTH}
    return (max(1, -(-V // nodes)), R, -(-F // WIDTH)), constants | {"NODES": nodes, "num_warps": 1}
