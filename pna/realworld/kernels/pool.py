"""Equations 3 and 4 of DiffPool's paper, Sᵀ Z and Sᵀ (A S) of every graph, in one kernel each way.

A program is a graph. The plain-torch twin is in diffpool.py: it writes the outer product of every node, which is k
times as large as what is multiplied here.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import FunctionCtx

from pna.kernels.functions import KernelFunction, saved
from pna.kernels.tiles import load_rows, multiply, store_rows
from pna.neighbourhoods import Joined
from pna.realworld.kernels.graphs import Graphs

__all__ = ["pooled", "supports"]

BLOCK = 32
WIDEST, MOST = 64, 64  # features, and clusters of a graph, that a program has room for


def supports(S: Tensor, Z: Tensor, graphs: Joined | None) -> bool:
    """Whether the graphs of all replicas are joined, with few enough features and clusters."""
    return graphs is not None and Z.shape[-1] <= WIDEST and S.shape[-1] <= MOST


def pooled(S: Tensor, Z: Tensor, received: Tensor, ptr: Tensor, B: int) -> tuple[Tensor, Tensor]:
    """Features Sᵀ Z, [B, k, H], and adjacency Sᵀ (A S), [B, k, k], of the clusters of B graphs.

    S and received, which is A S, are [V, k], Z is [V, H]; ptr: the pointers of the graphs of all replicas.
    """
    return _Pooled.call(S, Z, received, Graphs(ptr, B))


@triton.jit
def pool_forward(S, Z, received, ptr, features, adjacency, B, K: tl.constexpr, H: tl.constexpr, CLUSTERS: tl.constexpr,
                 WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """SᵀZ and Sᵀ(AS) of one graph."""
    r = tl.program_id(1).to(tl.int64)
    graph = ptr + r * (B + 1) + tl.program_id(0)
    end = tl.load(graph + 1)
    of_features = tl.zeros([CLUSTERS, WIDTH], tl.float32)
    of_clusters = tl.zeros([CLUSTERS, CLUSTERS], tl.float32)
    for start in range(tl.load(graph), end, BLOCK):
        row = start + tl.arange(0, BLOCK)
        assignment = tl.trans(load_rows(S, row, row < end, K, K, CLUSTERS))
        of_features = multiply(assignment, load_rows(Z, row, row < end, H, H, WIDTH), of_features)
        of_clusters = multiply(assignment, load_rows(received, row, row < end, K, K, CLUSTERS), of_clusters)
    k = tl.arange(0, CLUSTERS)
    cluster = (r * B + tl.program_id(0)) * K + k
    store_rows(features, of_features, cluster, k < K, H, WIDTH)
    store_rows(adjacency, of_clusters, cluster, k < K, K, CLUSTERS)


@triton.jit
def pool_backward(S, Z, received, ptr, features, adjacency, grad_S, grad_Z, grad_received, B, K: tl.constexpr,
                  H: tl.constexpr, CLUSTERS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The gradients of one graph's nodes, from those of its features and adjacency."""
    r = tl.program_id(1).to(tl.int64)
    graph = ptr + r * (B + 1) + tl.program_id(0)
    end = tl.load(graph + 1)
    k = tl.arange(0, CLUSTERS)
    cluster = (r * B + tl.program_id(0)) * K + k
    of_features = load_rows(features, cluster, k < K, H, H, WIDTH)
    of_clusters = load_rows(adjacency, cluster, k < K, K, K, CLUSTERS)
    for start in range(tl.load(graph), end, BLOCK):
        row = start + tl.arange(0, BLOCK)
        real = row < end
        value = multiply(load_rows(Z, row, real, H, H, WIDTH), tl.trans(of_features))
        value += multiply(load_rows(received, row, real, K, K, CLUSTERS), tl.trans(of_clusters))
        store_rows(grad_S, value, row, real, K, CLUSTERS)
        assignment = load_rows(S, row, real, K, K, CLUSTERS)
        store_rows(grad_Z, multiply(assignment, of_features), row, real, H, WIDTH)
        store_rows(grad_received, multiply(assignment, of_clusters), row, real, K, CLUSTERS)


class _Pooled(KernelFunction):
    """DiffPool's pooling as an autograd Function.

    S [R, V, k], Z [R, V, H], received [R, V, k], the graphs of all replicas -> [R, B, k, H] and [R, B, k, k].
    """

    @staticmethod
    def forward(S: Tensor, Z: Tensor, received: Tensor, graphs: Graphs) -> tuple[Tensor, Tensor]:
        R, K, H, (ptr, B) = len(S), S.shape[2], Z.shape[2], graphs
        features, adjacency = S.new_empty(R, B, K, H), S.new_empty(R, B, K, K)
        pool_forward[(B, R)](S, Z, received, ptr, features, adjacency, B, **_sizes(K, H))
        return features, adjacency

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        *tensors, (ptr, ctx.B) = inputs
        ctx.save_for_backward(*tensors, ptr)

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        S, Z, received, ptr = saved(ctx)
        gradients = [torch.zeros_like(t) for t in (S, Z, received)]  # zeros for the padding
        sizes = _sizes(S.shape[2], Z.shape[2])
        pool_backward[(ctx.B, len(S))](S, Z, received, ptr, *grads, *gradients, ctx.B, **sizes)
        return *gradients, None


def _sizes(K: int, H: int) -> dict[str, int]:
    """Compile-time constants of a launch on K clusters and H features; a product of tiles needs 16 of each."""
    clusters, width = (max(16, triton.next_power_of_2(size)) for size in (K, H))
    return {"K": K, "H": H, "CLUSTERS": clusters, "WIDTH": width, "BLOCK": BLOCK, "num_warps": 4, "num_stages": 2}
