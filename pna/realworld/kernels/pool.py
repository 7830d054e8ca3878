"""Equations 3 and 4 of DiffPool's paper, Sᵀ Z and Sᵀ (A S) of every graph, in one kernel each way.

A program is a graph. The plain-torch twin is in diffpool.py: it writes the outer product of every node, which is k
times as large as what is multiplied here.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna import segments
from pna.kernels.selection import first_derivative, on_its_device
from pna.neighbourhoods import Joined
from pna.networks.kernels.replicas import rows_of_replicas
from pna.realworld.kernels.assignment_tile import rows_of, times

__all__ = ["pooled", "supports"]

BLOCK = 32
WIDEST, MOST = 64, 64  # features, and clusters of a graph, that a program has room for


def supports(S: Tensor, Z: Tensor, graphs: Joined | None) -> bool:
    """Whether the kernels serve: where the graphs of all replicas are joined, and rows are short."""
    return graphs is not None and Z.shape[-1] <= WIDEST and S.shape[-1] <= MOST


@on_its_device
def pooled(S: Tensor, Z: Tensor, received: Tensor, ptr: Tensor, B: int) -> tuple[Tensor, Tensor]:
    """S and received, A S, [V, k], Z [V, H], ptr of the graphs of all replicas -> [B, k, H] and [B, k, k]."""
    features, adjacency = _Pooled.apply(B, ptr, *(t.unsqueeze(0) for t in (S, Z, received)))
    return features.squeeze(0), adjacency.squeeze(0)


@triton.jit
def _put(at, tile, row, inside, F: tl.constexpr, WIDTH: tl.constexpr):
    """Writes rows of a matrix."""
    c = tl.arange(0, WIDTH)[None, :]
    tl.store(at + row[:, None] * F + c, tile, mask=inside[:, None] & (c < F))


@triton.jit
def pool_forward(S, Z, received, ptr, features, adjacency, B, K: tl.constexpr, H: tl.constexpr, CLUSTERS: tl.constexpr,
                 WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Of a graph."""
    r = tl.program_id(1).to(tl.int64)
    graph = ptr + r * (B + 1) + tl.program_id(0)
    end = tl.load(graph + 1)
    of_features = tl.zeros([CLUSTERS, WIDTH], tl.float32)
    of_clusters = tl.zeros([CLUSTERS, CLUSTERS], tl.float32)
    for start in range(tl.load(graph), end, BLOCK):
        row = start + tl.arange(0, BLOCK)
        share = tl.trans(rows_of(S, row, row < end, K, CLUSTERS))
        of_features = tl.dot(share, rows_of(Z, row, row < end, H, WIDTH), of_features, input_precision="tf32x3")
        sent = rows_of(received, row, row < end, K, CLUSTERS)
        of_clusters = tl.dot(share, sent, of_clusters, input_precision="tf32x3")
    k = tl.arange(0, CLUSTERS)
    cluster = (r * B + tl.program_id(0)) * K + k
    _put(features, of_features, cluster, k < K, H, WIDTH)
    _put(adjacency, of_clusters, cluster, k < K, K, CLUSTERS)


@triton.jit
def pool_backward(S, Z, received, ptr, features, adjacency, grad_S, grad_Z, grad_received, B, K: tl.constexpr,
                  H: tl.constexpr, CLUSTERS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The gradients of the nodes of a graph, from those of its features and adjacency."""
    r = tl.program_id(1).to(tl.int64)
    graph = ptr + r * (B + 1) + tl.program_id(0)
    end = tl.load(graph + 1)
    k = tl.arange(0, CLUSTERS)
    cluster = (r * B + tl.program_id(0)) * K + k
    of_features = rows_of(features, cluster, k < K, H, WIDTH)
    of_clusters = rows_of(adjacency, cluster, k < K, K, CLUSTERS)
    for start in range(tl.load(graph), end, BLOCK):
        row = start + tl.arange(0, BLOCK)
        real = row < end
        value = times(rows_of(Z, row, real, H, WIDTH), of_features)
        value += times(rows_of(received, row, real, K, CLUSTERS), of_clusters)
        _put(grad_S, value, row, real, K, CLUSTERS)
        share = rows_of(S, row, real, K, CLUSTERS)
        _put(grad_Z, tl.dot(share, of_features, input_precision="tf32x3"), row, real, H, WIDTH)
        _put(grad_received, tl.dot(share, of_clusters, input_precision="tf32x3"), row, real, K, CLUSTERS)


class _Pooled(Function):
    """B, ptr [R·(B + 1) + 1], S [R, V, k], Z [R, V, H], received [R, V, k] -> [R, B, k, H] and [R, B, k, k]."""

    @staticmethod
    def forward(B: int, ptr: Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        S, Z, received = (t.contiguous() for t in inputs)
        R, K, H = len(S), S.shape[2], Z.shape[2]
        features, adjacency = S.new_empty(R, B, K, H), S.new_empty(R, B, K, K)
        pool_forward[(B, R)](S, Z, received, ptr, features, adjacency, B, **_sizes(K, H))
        return features, adjacency

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        ctx.B, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @first_derivative
    def backward(ctx: FunctionCtx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        ptr, *given = (t.contiguous() for t in ctx.saved_tensors)
        made = [torch.zeros_like(t) for t in given]  # for the padding
        S, Z, received = given
        sizes = _sizes(S.shape[2], Z.shape[2])
        pool_backward[(ctx.B, len(S))](S, Z, received, ptr, *(g.contiguous() for g in grads), *made, ctx.B, **sizes)
        return None, None, *made

    @staticmethod
    def vmap(info: Any, in_dims: tuple, B: int, ptr: Tensor, *inputs: Tensor) -> tuple[tuple, tuple]:
        R = info.batch_size
        lifted = [rows_of_replicas(t, dim, R) for t, dim in zip(inputs, in_dims[2:], strict=True)]
        if len(ptr) - 1 != R * (B + 1):  # one batch for all replicas, made outside of vmap
            ptr = segments.joined_ptr(ptr.expand(R, -1), lifted[0].shape[1])
        return tuple(t.unsqueeze(1) for t in _Pooled.apply(B, ptr, *lifted)), (0, 0)


def _sizes(K: int, H: int) -> dict[str, int]:
    clusters, width = (max(16, triton.next_power_of_2(size)) for size in (K, H))
    return {"K": K, "H": H, "CLUSTERS": clusters, "WIDTH": width, "BLOCK": BLOCK, "num_warps": 4, "num_stages": 2}
