"""Batches of graphs, assembled on the device that holds the data set, in one of a few fixed shapes.

A batch is padded to its shape with the nodes of one more graph, which exchange padding messages. They are masked out of
every average and every sum of a network, so that no result depends on the shape. Assembling is index arithmetic, and no
value is read by the host: on a GPU, one recording serves all batches of a shape.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pna.kernels import selection
from pna.neighbourhoods import Joined, Neighbourhoods, Transpose
from pna.realworld.data.datasets import Dataset
from pna.realworld.data.graphs import Graphs

__all__ = ["NO_GRAPH", "DeviceSplit", "PaddedBatch", "Shape", "shape_of"]

NO_GRAPH = -1  # in the list of a batch's graphs: an empty place
ROUND = 64  # numbers of nodes and messages are multiples of it


class Shape(NamedTuple):
    """The numbers of graphs, nodes and messages that a batch has room for; at least one node is padding."""

    graphs: int
    nodes: int
    messages: int


@dataclass(frozen=True)
class PaddedBatch:
    """B graphs with their nodes end to end, then padding: V nodes and E messages in all."""

    x: Tensor  # [V, inputs]
    edge: Tensor | None  # [E, inputs]
    neighbourhoods: Neighbourhoods
    graph_ptr: Tensor  # [B + 2], the last graph being the padding
    nodes: Tensor  # [B] nodes of each graph
    real: Tensor  # [V, 1] one, or zero for padding
    count: Tensor  # [] real nodes
    norm: Tensor  # [V, 1] 1/√n of a graph with n nodes, zero for padding
    y: Tensor  # [B]
    valid: Tensor  # [B] one, or zero where there is no graph
    joined: Joined | None = None  # graph_ptr of all replicas, if their batches are drawn together
    scale: Tensor | None = None  # [V, S] S(d) of every node, set by a network for all of its layers


class _Places(NamedTuple):
    """Origins of the nodes and messages of a batch: V nodes, one more where the pointers end, and E messages."""

    nodes: Tensor  # [B] nodes of each graph
    node_start: Tensor  # [B] the first node of each graph in the batch
    message_start: Tensor  # [B] the first message of each graph in the batch
    first_message: Tensor  # [B] the row of that message in the data set
    total: Tensor  # [] nodes of all graphs
    total_messages: Tensor  # [] messages of all graphs
    p: Tensor  # [V + 1] 0, 1, 2, …
    q: Tensor  # [E] 0, 1, 2, …
    graph: Tensor  # [V + 1] the graph of each node
    message_graph: Tensor  # [E] the graph of each message
    is_node: Tensor  # [V + 1] False for padding
    is_message: Tensor  # [E] False for padding
    node: Tensor  # [V + 1] the row of each node in the data set, 0 for padding
    message: Tensor  # [E] the row of each message in the data set, 0 for padding


class DeviceSplit:
    """A split of a data set on a device, where batches are drawn from it.

    On a GPU the messages are also sorted by their senders, once, for the backward passes.
    """

    def __init__(
        self,
        data: Dataset,
        graphs: Graphs,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        transposed: bool | None = None,
    ) -> None:
        self.data, self.dtype = data, dtype
        self.nodes, self.messages = graphs.nodes.astype(np.int64), graphs.messages  # for the host
        self.node_ptr, self.message_ptr, self.source, self.x, self.edge = (
            torch.from_numpy(np.ascontiguousarray(array)).to(device)
            for array in (graphs.node_ptr, graphs.message_ptr, graphs.source, graphs.x, graphs.edge)
        )
        self.y = torch.from_numpy(graphs.y).to(device, torch.long if data.task == "classes" else dtype)
        self.transposed = self.y.is_cuda if transposed is None else transposed
        if self.transposed:
            self._transpose()

    def _transpose(self) -> None:
        """Sort the messages of every graph by their senders."""
        first = self.message_ptr[self.node_ptr]  # the first message of each graph, [G + 1]
        counts = {"repeats": first.diff(), "output_size": len(self.source)}
        node, message = (torch.repeat_interleave(t[:-1], **counts) for t in (self.node_ptr, first))  # of its graph, [E]
        sender, place = (node + self.source).sort(stable=True)
        self.sender_ptr = torch.searchsorted(sender, torch.arange(len(self.message_ptr), device=sender.device))
        receiver = torch.searchsorted(self.message_ptr, place, right=True) - 1
        self.receiver = (receiver - node).to(torch.uint8)  # counted within its graph, as source is
        self.place = (place - message).to(torch.int32)  # counted within its graph

    def __len__(self) -> int:
        return len(self.nodes)

    def largest(self, graphs: int) -> Shape:
        """The shape that has room for any batch of `graphs` graphs."""
        nodes, messages = (np.sort(sizes)[-graphs:].sum() for sizes in (self.nodes, self.messages))
        return _shape(graphs, nodes, messages)

    def usual(self, graphs: int, deviations: float = 4) -> Shape:
        """The shape for batches drawn at random whose size is up to `deviations` standard deviations above the mean.

        With four, all but one batch in 30,000 fit, if their sizes are normally distributed.
        """
        most = self.largest(graphs)
        nodes, messages = (
            graphs * sizes.mean() + deviations * math.sqrt(graphs) * sizes.std()
            for sizes in (self.nodes, self.messages)
        )
        shape = _shape(graphs, nodes, messages)
        return Shape(graphs, min(shape.nodes, most.nodes), min(shape.messages, most.messages))

    def fits(self, index: NDArray[np.int64], shape: Shape) -> NDArray[np.bool_]:
        """Whether each of some batches, [..., B], fits into a shape: [...]."""
        nodes, messages = (
            np.where(index == NO_GRAPH, 0, sizes[index]).sum(-1) for sizes in (self.nodes, self.messages)
        )
        return (nodes < shape.nodes) & (messages <= shape.messages)

    def batch(self, index: Tensor, shape: Shape, edges: bool = True) -> PaddedBatch:
        """Draw the graphs of the list `index`, [B], NO_GRAPH for an empty place; edges: whether with edge features."""
        if self.dtype == torch.float32 and self.transposed and selection.usable(self.source):
            return self._draw(index, shape, edges)
        g = index.clamp(min=0)
        at = self._places(g, index >= 0, shape)
        real = at.is_node[:-1].unsqueeze(1).to(self.dtype)
        return PaddedBatch(
            x=self._numbers(self.x[at.node[:-1]], self.data.node_categories) * real,
            edge=self._numbers(self.edge[at.message], self.data.edge_categories) if edges else None,
            neighbourhoods=self._neighbourhoods(at, shape),
            graph_ptr=torch.cat([at.node_start, at.nodes.sum(0, keepdim=True), at.p[-1:]]),
            nodes=at.nodes,
            real=real,
            count=at.total.to(self.dtype),
            norm=real * torch.rsqrt(at.nodes[at.graph[:-1]].clamp(min=1).to(self.dtype)).unsqueeze(1),
            y=self.y[g],
            valid=(index >= 0).to(self.dtype),
        )

    def _draw(self, index: Tensor, shape: Shape, edges: bool) -> PaddedBatch:
        """Draw a batch by kernels, joined with the batches of the other replicas.

        There are no hubs: a graph has at most 255 nodes, and the padding's messages are divided among its nodes.
        """
        from pna.realworld.kernels.batch import Sizes, draw  # here, since it needs Triton

        categories = self.data.node_categories, self.data.edge_categories
        widths = [sum(c) or t.shape[1] for c, t in zip(categories, (self.x, self.edge), strict=True)]
        data = (self.node_ptr, self.message_ptr, self.source, self.sender_ptr, self.receiver, self.place)
        data += (self.x, self.edge, self.y, *(self._offsets[c] for c in categories))
        sizes = Sizes(*shape, widths[0], widths[1] * edges, *map(len, categories))
        batch, messages, graphs = draw(index, data, sizes)
        transpose = Transpose(batch.sender_ptr, batch.receiver, batch.place)
        return PaddedBatch(
            x=batch.x,
            edge=batch.edge if edges else None,
            neighbourhoods=Neighbourhoods(batch.ptr, batch.source, None, transpose, joined=messages),
            joined=graphs,
            **{name: getattr(batch, name) for name in ("graph_ptr", "nodes", "real", "count", "norm", "y", "valid")},
        )

    def _places(self, g: Tensor, valid: Tensor, shape: Shape) -> "_Places":
        """Find the origins of every node, [V + 1], and every message, [E], of a batch."""
        first, last = self.node_ptr[g], self.node_ptr[g + 1]
        first_message = self.message_ptr[first]
        nodes, messages = (last - first) * valid, (self.message_ptr[last] - first_message) * valid  # [B]
        node_end, message_end = nodes.cumsum(0), messages.cumsum(0)
        node_start, message_start = node_end - nodes, message_end - messages
        total, total_messages = node_end[-1], message_end[-1]
        p, q = (torch.arange(n, device=g.device) for n in (shape.nodes + 1, shape.messages))
        b, c = (  # with 0 · end, under vmap, t is a row for each replica in memory, as searchsorted wants it
            torch.searchsorted(end, t + 0 * end[-1], right=True).clamp(max=len(g) - 1)
            for end, t in ((node_end, p), (message_end, q))
        )
        is_node, is_message = p < total, q < total_messages
        return _Places(
            nodes=nodes,
            node_start=node_start,
            message_start=message_start,
            first_message=first_message,
            total=total,
            total_messages=total_messages,
            p=p,
            q=q,
            graph=b,
            message_graph=c,
            is_node=is_node,
            is_message=is_message,
            node=torch.where(is_node, first[b] + p - node_start[b], 0),
            message=torch.where(is_message, first_message[c] + q - message_start[c], 0),
        )

    def _neighbourhoods(self, at: "_Places", shape: Shape) -> Neighbourhoods:
        """The messages by receiver and, if `transposed`, by sender; those of the padding are divided among its nodes.

        Of D nodes and M messages that are padding, message k goes from node ⌊kD/M⌋ to the last node j with ⌊jM/D⌋ <= k.
        """
        b, c, row, message = at.graph, at.message_graph, at.node, at.message
        node, k = at.p - at.total, at.q - at.total_messages  # counted from the first that is padding
        D, M = shape.nodes - at.total, shape.messages - at.total_messages
        before = at.message_start[b] - at.first_message[b]  # from a message's row in the data set to that in the batch

        def by_node(ptr: Tensor, padding: Tensor) -> Tensor:
            return torch.where(at.is_node, before + ptr[row], at.total_messages + padding)

        def by_message(start: Tensor, local: Tensor, padding: Tensor) -> Tensor:
            return torch.where(at.is_message, start[c] + local[message], padding)

        room = M.clamp(min=1)
        source = by_message(at.node_start, self.source, at.total + k * D // room)
        graph = Neighbourhoods(by_node(self.message_ptr, M * node // D), source, None)
        if self.transposed:
            transpose = Transpose(
                by_node(self.sender_ptr, -(-M * node // D)),
                by_message(at.node_start, self.receiver, at.total + ((k + 1) * D - 1) // room),
                by_message(at.message_start, self.place, at.q),
            )
            graph = graph._replace(transpose=transpose)
        return graph

    @cached_property
    def _offsets(self) -> dict[tuple[int, ...], Tensor]:
        """Where the categories of each feature begin, by the numbers of categories."""
        both = (self.data.node_categories, self.data.edge_categories)
        return {
            c: torch.tensor([sum(c[:k]) for k in range(len(c))], dtype=torch.long, device=self.source.device)
            for c in both
        }

    def _numbers(self, rows: Tensor, categories: tuple[int, ...]) -> Tensor:
        """Turn categories into zeros and ones, so that an embedding is a matrix product; numbers stay as they are."""
        if not categories:
            return rows.to(self.dtype)
        places = rows.long() + self._offsets[categories]  # [rows, features]
        none = torch.zeros(len(rows), sum(categories), dtype=self.dtype, device=rows.device)
        return none.scatter(1, places, 1.0)


def shape_of(resident: DeviceSplit, batches: NDArray[np.int64]) -> Shape:
    """The smallest shape that has room for each of some batches, [batches, B]."""
    sums = []
    for sizes in (resident.nodes, resident.messages):
        of_batch = np.where(batches == NO_GRAPH, 0, sizes[batches]).sum(1)
        sums.append(of_batch.max())
    return _shape(batches.shape[1], *sums)


def _shape(graphs: int, nodes: float, messages: float) -> Shape:
    """A shape with numbers rounded up, and at least one node of padding."""
    return Shape(graphs, (int(nodes) // ROUND + 1) * ROUND, max(1, math.ceil(messages / ROUND)) * ROUND)
