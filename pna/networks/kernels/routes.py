"""The messages of a graph as the kernels of GAT take them (recurrence/attention.cuh)."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

__all__ = ["Routes"]


@dataclass(frozen=True)
class Routes:
    """Which nodes' left and right make up the logit of each message, in 32-bit integers.

    The graph is undirected: the messages that node n receives come from source[ptr[n] : ptr[n + 1]], and those that it
    sends go there.
    """

    ptr: Tensor  # [V + 1]
    source: Tensor  # [E]
    received: tuple[Tensor, Tensor]  # [E] each: the nodes of left and right, in the order of the receivers
    sent: tuple[Tensor, Tensor]  # [E] each: the same in the order of the senders
    over_received: bool  # whether the softmax is over the messages that a node receives, or over those it sends
    of_left: tuple[Tensor, Tensor]  # [V + 1], [E]: the places in `sent` where each node is that of left
    of_right: tuple[Tensor, Tensor]  # the same of right

    @classmethod
    def of(
        cls, ptr: Tensor, source: Tensor, reverse: Tensor, pairs: tuple[Tensor, Tensor], over_received: bool
    ) -> Self:
        """Pairs [E] each are in the order of the segments: a row's messages are those of one softmax."""
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
    """Where each node stands in a list of nodes [E], in CSR order: [rows], [E]."""
    node, place = node.sort(stable=True)
    return torch.searchsorted(node, torch.arange(rows, device=node.device)).int(), place.int()
