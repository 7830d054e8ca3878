"""Batches of small graphs cut into tiles of whole graphs, the form that the CUDA kernels of all layers read.

A tile has 16 rows for each warp of a block: the warp goes over the neighbours of its first eight nodes, then of the
other eight. The nodes of a tile are sorted by degree, and each warp gets eight of large and eight of small degree, so
that no warp waits for another.

Two nodes, one in an even and one in an odd row, read their neighbours at a time, and an even and an odd row lie side by
side in the banks of shared memory. So half of a graph's nodes have even rows, and a node's list begins with the
neighbours whose rows have its own parity. This order depends on the graph alone, not on the tile.
"""

from typing import NamedTuple, Self

import torch
from torch import Tensor

from pna.networks.kernels.routes import Routes

__all__ = ["Tiles"]

GROUP = 8  # nodes: a warp has two groups


class Tiles(NamedTuple):
    """The node in every row of every tile, and the rows of its neighbours."""

    node: Tensor  # [tiles · rows] int32, -1 where there is none
    lists: Tensor  # [tiles · rows, 2] int32: where the row's list begins in `rows`, in words of four, and its degree
    rows: Tensor  # bytes: each neighbour's row in the tile; lists are filled up to whole words with the first one
    routes: Tensor  # int32, empty except for attention (with_routes)

    @classmethod
    def of(cls, ptr: Tensor, source: Tensor, N: int, warps: int) -> Self:
        """Cut graphs of N nodes each, none larger than a tile, given end to end as CSR: ptr [V + 1], source [E]."""
        V, size = len(ptr) - 1, 2 * GROUP * warps
        nodes = size // N * N  # of a full tile
        each, degree = torch.arange(V, device=ptr.device), ptr.diff()
        graph, tile = each // N, each // nodes
        odd = (_rank(graph, degree) + graph) % 2
        row_of = _row(2 * _rank(2 * tile + odd, degree) + odd, warps)
        node = torch.full((-(-V // nodes) * size,), -1, device=ptr.device)
        node[tile * size + row_of] = each
        receiver = torch.repeat_interleave(each, degree)
        source = source[torch.sort(2 * receiver + (odd[receiver] + odd[source]) % 2, stable=True).indices]
        d = torch.where(node < 0, 0, degree[node.clamp(min=0)])
        words = (d + 3) // 4
        start = words.cumsum(0) - words
        owner = torch.repeat_interleave(torch.arange(len(node), device=ptr.device), 4 * words)
        k = torch.arange(len(owner), device=ptr.device) - 4 * start[owner]
        rows = row_of[source[ptr[node[owner]] + torch.where(k < d[owner], k, 0)]].to(torch.uint8)
        lists, rows = torch.stack([start, d], dim=1).int(), torch.cat([rows, rows.new_zeros(4)])
        return cls(node.int(), lists, rows, lists.new_empty(0))

    def with_routes(self, routes: Routes, N: int, warps: int, most: int) -> Self:
        """Return the tiles for attention, where a message is a word: the rows of its sender, of left and of right.

        lists: where the messages that a row receives begin, and their number. rows: these messages. routes: the first
        message of each tile; the messages in the order of their senders; of_left and of_right of Routes. most: how many
        messages of a tile the kernels have room for.
        """
        V, size = len(routes.ptr) - 1, 2 * GROUP * warps
        nodes, real = size // N * N, self.node >= 0
        row = torch.empty(V, dtype=torch.int32, device=self.node.device)
        row[self.node[real].long()] = torch.arange(len(self.node), device=row.device, dtype=torch.int32)[real] % size
        received, sent = (
            row[routes.source] | row[left] << 8 | row[right] << 16 for left, right in (routes.received, routes.sent)
        )
        tiles = torch.arange(0, V, nodes, device=row.device)
        first, last = routes.ptr[tiles], routes.ptr[(tiles + nodes).clamp(max=V)]
        if int((last - first).max()) > most:
            raise ValueError("the graphs have edges that appear twice, which the attention's kernels have no room for")
        lists = torch.stack([torch.where(real, routes.ptr[self.node.clamp(min=0)], 0), self.lists[:, 1]], dim=1)
        parts = (first, sent, *routes.of_left, *routes.of_right)
        return type(self)(self.node, lists.contiguous(), received, torch.cat(parts))


def _rank(part: Tensor, degree: Tensor) -> Tensor:
    """Rank of each node within its part, by descending degree, [V]."""
    order = degree.sort(descending=True, stable=True).indices
    order = order[part[order].sort(stable=True).indices]
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device)
    return rank - torch.searchsorted(part[order], part)


def _row(rank: Tensor, warps: int) -> Tensor:
    """Row of each node in its tile by its rank, [V]: first groups go to warps 0, 1, …, second groups back to …, 1, 0.

    Warps whose numbers are equal modulo four share a scheduler. The first warp of four has the most work, so the next
    four are taken in reverse order.
    """
    group, second = rank // GROUP, rank >= GROUP * warps
    warp = torch.where(second, 2 * warps - 1 - group, group)
    warp = torch.where(warp < 4, warp, warps + 3 - warp)
    return 2 * GROUP * warp + GROUP * second + rank % GROUP
