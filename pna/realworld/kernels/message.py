"""The sum of the messages to a node of ogb's GCN and GIN, with its bonds and its own part, in one kernel each way.

GIN: (1 + ε) x_i + Σ_j ReLU(x_j + B e_ij). GCN: Σ_j ReLU(z_j + B e_ij) / √(d_i d_j) + ReLU(z_i + r) / d_i, z = x + b.
A program takes NODES nodes of a replica, one after the other, and WIDTH features, for which it holds B; each message
reads its e_ij. So no embedded bond is ever written, nor its gradient: every program sums the gradients of B, ε, r and b
over its nodes, and these sums are added in the end. Padding receives nothing, has zeros, and gives no gradient. The
plain-torch twins are in comparators.py.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import KernelFunction, saved
from pna.kernels.tiles import relu
from pna.neighbourhoods import Neighbourhoods
from pna.realworld.kernels.graphs import Messages

__all__ = ["received", "supports"]

NODES, NODES_BACK = 8, 16  # nodes of a program, forward and backward, where it also writes K + 2 rows of sums
WIDTH = 64  # features of a program, which is one warp: all of B for a feature is in one thread's registers
MOST = 16  # numbers of a bond, for which there are registers enough


def supports(x: Tensor, bonds: Tensor, graph: Neighbourhoods) -> bool:
    """Whether the graphs of all replicas are joined and a bond has at most MOST numbers."""
    return graph.joined is not None and bonds.shape[-1] <= MOST


def received(
    x: Tensor, bonds: Tensor, own: Tensor, bias: Tensor | None, edge: Tensor, count: Tensor, graph: Neighbourhoods
) -> Tensor:
    """Sum the messages that each node receives, with its own part.

    x is [V, F], bonds the matrix B [F, K], edge [E, K] and count [], the number of real nodes; the result is [V, F].
    `own` is ε, [1], for GIN, which has no bias, and r, [F], for GCN, whose bias is [F].
    """
    return _Received.call(x, bonds.mT.contiguous(), own, bias, edge, count, Messages.of(graph))


@triton.jit
def _root_degree(ptr, i):
    """1/√d_i, where the degree counts the node itself."""
    return tl.rsqrt((tl.load(ptr + i + 1) - tl.load(ptr + i) + 1).to(tl.float32))


@triton.jit
def _rows(at, c, F: tl.constexpr, K: tl.constexpr):
    """Load K rows of F numbers as K vectors: in one matrix, a sum over them would go from thread to thread."""
    rows = ()
    for k in tl.static_range(K):
        rows = rows + (tl.load(at + k * F + c, mask=c < F, other=0.0),)  # noqa: RUF005
    return rows


@triton.jit
def _zeros(K: tl.constexpr, WIDTH: tl.constexpr):
    """K vectors of zeros."""
    rows = ()
    for _ in tl.static_range(K):
        rows = rows + (tl.zeros([WIDTH], tl.float32),)  # noqa: RUF005
    return rows


@triton.jit
def _bond(edge, e, K: tl.constexpr):
    """Load the K numbers of e_ij."""
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
    """Add the outer product of a bond and a gradient to K vectors."""
    more = ()
    for k in tl.static_range(K):
        more = more + (rows[k] + bond[k] * back,)  # noqa: RUF005
    return more


@triton.jit
def _vector(at, r, c, F: tl.constexpr):
    """Load features `c` of the row of a replica."""
    return tl.load(at + r * F + c, mask=c < F, other=0.0)


@triton.jit
def message_forward(x, bonds, own, bias, edge, count, ptr, source, y, V, GCN: tl.constexpr, F: tl.constexpr,
                    K: tl.constexpr, WIDTH: tl.constexpr, NODES: tl.constexpr):  # fmt: skip
    """Sum the messages of each of NODES nodes."""
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
            m = relu(m)
            total += m * _root_degree(ptr, j) if GCN else m
        z = tl.load(x + i * F + c, mask=c < F, other=0.0)
        if GCN:
            s = _root_degree(ptr, i)
            z += shift + root
            total = s * total + s * s * relu(z)
        else:
            total += (1 + tl.load(own + r)) * z
        tl.store(y + i * F + c, total, mask=c < F)
    for n in range(tl.maximum(first, live), tl.minimum(first + NODES, V)):
        tl.store(y + (r * V + n) * F + c, tl.zeros([WIDTH], tl.float32), mask=c < F)


@triton.jit
def message_backward(x, bonds, own, bias, edge, count, ptr, sender_ptr, receiver, place, grad, grad_x, sums, V,
                     GCN: tl.constexpr, F: tl.constexpr, K: tl.constexpr, WIDTH: tl.constexpr,
                     NODES: tl.constexpr):  # fmt: skip
    """The gradients of NODES nodes, from the messages that they sent, and their sums [K + 2, F] for B, own and bias."""
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
    of_bonds = _zeros(K, WIDTH)
    of_own = tl.zeros([WIDTH], tl.float32)
    of_bias = tl.zeros([WIDTH], tl.float32)
    for n in range(first, tl.minimum(first + NODES, live)):
        j = r * V + n
        z = tl.load(x + j * F + c, mask=c < F, other=0.0) + shift
        s = _root_degree(ptr, j) if GCN else 1.0
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
                back *= s * _root_degree(ptr, i)
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


class _Received(KernelFunction):
    """The sum of a node's messages as an autograd Function.

    x [R, V, F], bonds [R, K, F], own [R, 1 or F], bias [R, F] or None, edge [R, E, K], count [R] -> [R, V, F].
    """

    @staticmethod
    def forward(
        x: Tensor, bonds: Tensor, own: Tensor, bias: Tensor | None, edge: Tensor, count: Tensor, messages: Messages
    ) -> Tensor:
        y, (grid, constants) = torch.empty_like(x), _sizes(x, bonds, bias, NODES)
        tensors = (x, bonds, own, x if bias is None else bias, edge, count, messages.ptr, messages.source, y)
        message_forward[grid](*tensors, x.shape[1], **constants)
        return y

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        *tensors, (ptr, _, *transpose, _) = inputs
        ctx.save_for_backward(*tensors, ptr, *transpose)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, bonds, own, bias, *rest = saved(ctx)
        K, (grid, constants), gin = bonds.shape[1], _sizes(x, bonds, bias, NODES_BACK), bias is None
        grad_x, sums = torch.empty_like(x), x.new_empty(len(x), grid[0], K + 2, x.shape[2])
        tensors = (x, bonds, own, x if gin else bias, *rest, grad, grad_x, sums)
        message_backward[grid](*tensors, x.shape[1], **constants)
        of_bonds, of_own, of_bias = sums.sum(1).split([K, 1, 1], dim=1)
        of_own = of_own.sum(2) if gin else of_own.squeeze(1)
        return grad_x, of_bonds, of_own, None if gin else of_bias.squeeze(1), None, None, None


def _sizes(x: Tensor, bonds: Tensor, bias: Tensor | None, nodes: int) -> tuple[tuple[int, int, int], dict]:
    """The grid and the constants of a kernel; without nodes, one program still has its sums to write."""
    (R, V, F), K = x.shape, bonds.shape[1]
    constants = {"GCN": bias is not None, "F": F, "K": K, "WIDTH": WIDTH}
    return (max(1, -(-V // nodes)), R, -(-F // WIDTH)), constants | {"NODES": nodes, "num_warps": 1}
