"""Nodes with very many messages, split so that one hub does not hold up the grid, without a look at any degree.

The messages 0 : E are cut every T places. A node with more than T messages, a hub, holds at least one of these places;
the chunk that begins there is its own, and its first chunk also takes the messages before. So the number of chunks,
E / T, is known from the shapes alone, and nothing has to be counted, listed or waited for.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["chunk_of", "chunk_owners", "limit"]

SMALL = 1 << 17  # messages: below, a graph is so quick that the launches for hubs would cost more than a hub does


def limit(num_messages: int) -> int:
    """T: a node with more messages is a hub."""
    return 8192 if num_messages < SMALL else 2048


def chunk_owners(ptr: Tensor, num_messages: int, T: int) -> Tensor:
    """1 + the node of the messages 0, T, 2T, …: [P]."""
    return torch.searchsorted(ptr, torch.arange(0, num_messages, T, device=ptr.device, dtype=ptr.dtype), right=True)


@triton.jit
def chunk_of(ptr, owner, p, T: tl.constexpr):
    """Chunk p: its node, the node's messages first : last, and the chunk's, start : end, if the node is a hub."""
    node = tl.load(owner + p) - 1
    first = tl.load(ptr + node)
    last = tl.load(ptr + node + 1)
    start = tl.where((p - 1) * T < first, first, p * T)
    return node, first, last, start, tl.minimum((p + 1) * T, last)
