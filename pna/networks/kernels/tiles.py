"""Batches of small graphs cut into tiles of whole graphs, as the CUDA kernels of the recurrent network take them.

A tile has 128 rows: 16 for each of eight warps, which go over the neighbours of their first eight nodes, then of the
others. The nodes of a tile are sorted by their degrees, and a warp has eight of large and eight of small ones, so that
no warp waits for another.
"""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["ROWS", "Tiles"]

WARPS, GROUP = 8, 8  # a warp has two groups of eight nodes
ROWS = 2 * GROUP * WARPS


class Tiles(NamedTuple):
    """For every row of every tile which node it is, and the rows of its neighbours."""

    node: Tensor  # [tiles · ROWS] int32, -1 where there is none
    lists: Tensor  # [tiles · ROWS, 2] int32: where its list begins in `rows`, in words of four, and its degree
    rows: Tensor  # bytes: of each neighbour its row in the tile; lists are filled up to whole words with the last one

    @property
    def count(self) -> int:
        """The number of tiles."""
        return len(self.node) // ROWS

    @classmethod
    def of(cls, ptr: Tensor, source: Tensor, N: int) -> "Tiles | None":
        """From graphs of N nodes each, end to end, and their CSR; None if a graph is larger than a tile."""
        V = len(ptr) - 1
        if N > ROWS:
            return None
        nodes = ROWS // N * N  # of a full tile
        degree, tile = ptr.diff(), torch.arange(V, device=ptr.device) // nodes
        by_degree = torch.sort(tile * (V + 1) + V - degree, stable=True).indices  # [V], tile after tile
        row = _row(torch.arange(V, device=ptr.device) - tile * nodes)  # of the nodes in that order
        at = tile * ROWS + row
        node = torch.full((-(-V // nodes) * ROWS,), -1, device=ptr.device)
        node[at] = by_degree
        row_of = torch.empty_like(row)
        row_of[by_degree] = row
        d = torch.where(node < 0, 0, degree[node.clamp(min=0)])
        words = (d + 3) // 4
        start = words.cumsum(0) - words
        owner = torch.repeat_interleave(torch.arange(len(node), device=ptr.device), 4 * words)
        k = torch.arange(len(owner), device=ptr.device) - 4 * start[owner]
        rows = row_of[source[ptr[node[owner]] + k.minimum(d[owner] - 1)]].to(torch.uint8)
        return cls(node.int(), torch.stack([start, d], dim=1).int(), torch.cat([rows, rows.new_zeros(4)]))


def _row(rank: Tensor) -> Tensor:
    """The row of a tile's node by its rank: groups go to the warps 0, 1, … 7, and the second ones back to 7, … 0."""
    group, second = rank // GROUP, rank >= GROUP * WARPS
    warp = torch.where(second, 2 * WARPS - 1 - group, group)
    return 2 * GROUP * warp + GROUP * second + rank % GROUP
