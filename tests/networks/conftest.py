"""Small graphs for the tests of the networks, made without the code under test."""

from types import SimpleNamespace

import pytest
import torch

from pna.multitask import Batch
from pna.networks import GraphBatch


def _adjacency(seed, G, N, p=0.4, isolated=False):
    """G random undirected graphs, [G, N, N]; unless wanted, no node is isolated: it is joined to the next one."""
    generator = torch.Generator().manual_seed(seed)
    A = (torch.rand(G, N, N, generator=generator) < p).triu(1)
    A = A | A.transpose(1, 2)
    if not isolated:
        for g, n in (A.sum(2) == 0).nonzero().tolist():
            A[g, n, (n + 1) % N] = A[g, (n + 1) % N, n] = True
    return A.double()


def _edge_index(A):
    """[2, E]: sender and receiver of each message, graph after graph."""
    g, i, j = A.nonzero().t()
    return torch.stack([g * A.shape[1] + j, g * A.shape[1] + i])


def _batch(A, x=None, dtype=torch.double, device="cpu"):
    """The networks' batch of the graphs with these adjacency matrices, and features x [V, 2]."""
    G, N, _ = A.shape
    if x is None:
        x = torch.rand(G * N, 2, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    degree = A.sum(2).long().flatten()
    raw = Batch(
        ptr=torch.cat([torch.zeros(1, dtype=torch.long), degree.cumsum(0)]),
        source=_edge_index(A)[0],
        x=x,
        y_node=torch.zeros(G * N, 3),
        y_graph=torch.zeros(G, 3),
        sizes=torch.full((G,), N),
    )
    return GraphBatch.of(raw, device, dtype)


def _permuted(A, x, seed):
    """Graphs with their nodes in another order, and the old row of each new row."""
    G, N, _ = A.shape
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(N, generator=generator) for _ in range(G)]
    B = torch.stack([a[order][:, order] for a, order in zip(A, orders, strict=True)])
    rows = torch.cat([g * N + order for g, order in enumerate(orders)])
    return B, x[rows], rows


@pytest.fixture(scope="session")
def graphs():
    return SimpleNamespace(adjacency=_adjacency, edge_index=_edge_index, batch=_batch, permuted=_permuted)
