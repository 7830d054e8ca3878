"""The graphs of all replicas as one, as the kernels of figure 6's layers take them."""

from typing import NamedTuple, Self

from torch import Tensor

from pna import segments
from pna.kernels.replicas import graph_of_replicas
from pna.neighbourhoods import Neighbourhoods

__all__ = ["Graphs", "Messages"]


class Messages(NamedTuple):
    """The messages of R replicas with V nodes and E messages each, by their receivers and by their senders."""

    ptr: Tensor  # [R·V + 1], where the messages to each node begin
    source: Tensor  # [R·E], the sender of each message
    sender_ptr: Tensor  # [R·V + 1], where the messages from each node begin, sorted by their senders
    receiver: Tensor  # [R·E], the receiver of each message, in that order
    place: Tensor  # [R·E], where such a message stands among those sorted by receivers
    target: Tensor  # [R·E], the receiver of each message, in the order of the receivers

    @classmethod
    def of(cls, neighbourhoods: Neighbourhoods) -> Self:
        """The messages of neighbourhoods that are joined."""
        ptr, target, source, transpose = neighbourhoods.joined
        return cls(ptr, source, *transpose, target)

    def of_replicas(self, replicas: int, V: int) -> Self:
        """Return joined messages as they are; repeat those of one batch, drawn outside of vmap, for every replica."""
        return Messages(*graph_of_replicas(self, replicas, V))


class Graphs(NamedTuple):
    """The nodes of B graphs, and of the padding behind them, in each of R replicas."""

    ptr: Tensor  # [R·(B + 1) + 1], where the nodes of each graph begin
    B: int

    def of_replicas(self, replicas: int, V: int) -> Self:
        """Return joined pointers as they are; repeat those of one batch, drawn outside of vmap, for every replica."""
        if len(self.ptr) - 1 == replicas * (self.B + 1):
            return self
        return Graphs(segments.joined_ptr(self.ptr.expand(replicas, -1), V), self.B)
