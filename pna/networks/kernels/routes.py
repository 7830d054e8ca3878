"""The messages of a graph as the kernels of GAT read them (recurrence/attention.cuh)."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

__all__ = ["Routes"]


@dataclass(frozen=True)
class Routes:
    """The nodes whose left and right terms make up the logit of each message, in 32-bit integers.

    The graph is undirected: the messages that node n receives come from source[ptr[n] : ptr[n + 1]], and those that it
    sends go to the same nodes.
    """

    ptr: Tensor  # [V + 1]
    source: Tensor  # [E]
    received: tuple[Tensor, Tensor]  # [E] each: the nodes of left and right, in the order of the receivers
    sent: tuple[Tensor, Tensor]  # [E] each: these nodes in the order of the senders
    over_received: bool  # whether the softmax is over the messages that a node receives, or over those it sends
    of_left: tuple[Tensor, Tensor]  # [V + 1], [E]: the places in `sent` where each node is the left one
    of_right: tuple[Tensor, Tensor]  # [V + 1], [E]: the places where each node is the right one

    @classmethod
    def of(
        cls, ptr: Tensor, source: Tensor, reverse: Tensor, pairs: tuple[Tensor, Tensor], over_received: bool
    ) -> Self:
        """Routes of a graph from pairs of nodes, left and right, [E] each; a row of them has one softmax."""
        turned = tuple(node[reverse] for node in pairs)
        received, sent = (pairs, turned) if over_received else (turned, pairs)
        return cls(
            ptr.int(),
            source.int(),
            tuple(node.int() for node in received),
            tuple(node.int() for node in sent),
            over_received,
            *(_places(node, len(ptr)) for node in sent),
        )


def _places(node: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Places of each node in a list of nodes [E], in CSR order: [rows], [E]."""
    node, place = node.sort(stable=True)
    return torch.searchsorted(node, torch.arange(rows, device=node.device)).int(), place.int()
