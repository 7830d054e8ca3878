"""Graphs in CSR order: who sends messages to whom, sorted once and shared by the layers that use it."""

from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor

from pna.arguments import choice, is_transformed, tensor

__all__ = ["FLOWS", "Joined", "Neighbourhoods", "Transpose", "check_range"]

FLOWS = ("source_to_target", "target_to_source")


class Transpose(NamedTuple):
    """The messages sorted by sender: those of node j go to receiver[ptr[j] : ptr[j + 1]]."""

    ptr: Tensor  # [N + 1]
    receiver: Tensor  # [E], the node i of each message, sorted by its sender j
    place: Tensor  # [E], the place of the message among those sorted by receiver


class Joined(NamedTuple):
    """The graphs of R replicas joined into one, its nodes and messages numbered consecutively, once for all layers.

    Without it, every operation under torch.func.vmap joins the graphs again. No node may have 2^16 messages, nor enough
    of them that the kernels would have to treat it as a hub.
    """

    ptr: Tensor  # [R·N + 1]
    target: Tensor  # [R·E], the node of each message
    source: Tensor | None = None  # [R·E]; None if ptr does not point to messages
    transpose: Transpose | None = None


class Neighbourhoods(NamedTuple):
    """A graph, sorted once: node i receives its messages from source[ptr[i] : ptr[i + 1]].

    A message travels along each edge (j, i) from j to i, as in equation 8. Repeated edges are repeated neighbours.
    Create it with `Neighbourhoods.of`, and pass it to a layer in place of an edge_index.

    Attributes
    ----------
    ptr : Tensor [N + 1]
        Where the messages of each node begin.
    source : Tensor [E]
        The sender j of each message, sorted by its receiver i.
    order : Tensor [E], optional
        The place of each message's edge in the caller's list; None if the edges were sorted already.
    transpose : Transpose, optional
        The messages sorted by sender, for a GPU's backward pass, which otherwise sorts them itself.
    senders : int, optional
        The number of nodes that can send, in a bipartite graph.
    flow : str, optional
        The flow that the graph was sorted for.
    joined : Joined, optional
        The graph together with those of the other replicas.
    """

    ptr: Tensor
    source: Tensor
    order: Tensor | None
    transpose: Transpose | None = None
    senders: int | None = None
    flow: str | None = None
    joined: Joined | None = None

    @classmethod
    def of(cls, edges: Tensor, num_nodes: int | tuple[int, int], flow: str = "source_to_target") -> "Neighbourhoods":
        """Sort the edges of a graph.

        Parameters
        ----------
        edges : Tensor
            An edge_index [2, E] in any order, PyTorch Geometric's EdgeIndex, or a sparse transposed adjacency matrix.
        num_nodes : int or pair of int
            The number of nodes N or, for a bipartite graph, the numbers of nodes for the two rows of edge_index.
        flow : str
            Which end of an edge receives, as in torch_geometric: source_to_target or target_to_source.
        """
        choice("flow", flow, FLOWS)
        first, second = _sizes(num_nodes)
        two = isinstance(num_nodes, tuple)
        if not isinstance(edges, Tensor):
            raise TypeError(f"edge_index must be a tensor [2, E] or Neighbourhoods, got {type(edges).__name__}")
        if edges.layout != torch.strided:
            return cls._of_sparse(edges, first, second, two, flow)
        if hasattr(edges, "as_tensor"):  # an EdgeIndex, known without PyTorch Geometric, whose import takes seconds
            edges = edges.as_tensor()
        if edges.dim() != 2 or edges.shape[0] != 2:
            raise ValueError(f"edge_index must have the shape [2, E], got {tuple(edges.shape)}")
        if edges.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"edge_index must be of integers (int64 or int32), got {edges.dtype}")
        if flow == "target_to_source":
            edges, first, second = edges.flip(0), second, first
        traced = torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0
        sort = sort_edges if traced or edges.is_meta or type(edges) is not Tensor else _sort
        return cls(*sort(edges, first, second), None, first if two else None, flow)

    @classmethod
    def _of_sparse(cls, adj_t: Tensor, senders: int, N: int, two: bool, flow: str) -> "Neighbourhoods":
        """Sort the entries of a sparse matrix [N, senders], each of which is an edge, even if it is repeated."""
        if flow != "source_to_target":
            raise ValueError(f"a sparse edge_index has its own direction: flow must be source_to_target, got {flow}")
        if adj_t.shape != (N, senders):
            raise ValueError(f"a sparse edge_index must be [{N}, {senders}], got {list(adj_t.shape)}")
        other = (None, senders if two else None, flow)
        if adj_t.layout == torch.sparse_csr:
            graph = cls(adj_t.crow_indices().long(), adj_t.col_indices().long(), None, *other)
            graph.check()
            return graph
        if adj_t.layout == torch.sparse_coo:
            target, source = adj_t._indices()
        elif adj_t.layout == torch.sparse_csc:
            target, columns = adj_t.row_indices(), adj_t.ccol_indices()
            source = torch.repeat_interleave(columns.diff(), output_size=target.shape[0])
        else:
            raise ValueError(f"a sparse edge_index must be COO, CSR or CSC, got {adj_t.layout}")
        return cls(*sort_edges(torch.stack([source, target]), senders, N), *other)

    @property
    def num_nodes(self) -> int:
        """The number of receiving nodes N."""
        return self.ptr.shape[0] - 1

    @property
    def num_edges(self) -> int:
        """The number of messages E."""
        return self.source.shape[0]

    @property
    def degree(self) -> Tensor:
        """The degrees d_i = |N(i)|, [N]."""
        return self.ptr.diff()

    @property
    def target(self) -> Tensor:
        """The receiver i of each message, [E]."""
        return torch.repeat_interleave(self.degree, output_size=self.num_edges)

    def to(self, device: torch.device | str) -> "Neighbourhoods":
        """Move the graph to a device."""
        return _moved(self, device)

    def with_transpose(self, reverse: Tensor | None = None) -> "Neighbourhoods":
        """Add the transpose, to be used by many backward passes.

        An undirected graph is its own transpose and need not be sorted again if reverse [E] is given: for each message
        from j to i, the place of the one from i to j.
        """
        known = None if reverse is None else (self.ptr, self.source, reverse)
        return self._replace(transpose=Transpose(*(known or transpose_edges(self.ptr, self.source, self.senders))))

    def check(self) -> None:
        """Raise an error unless the tensors describe a graph; those of Neighbourhoods made by hand may not.

        Where no value can be read, as under torch.compile or while a CUDA graph is recorded, only shapes are checked.
        """
        for name in ("ptr", "source", "order"):
            value = getattr(self, name)
            if value is None and name == "order":
                continue
            if not isinstance(value, Tensor) or value.dim() != 1 or value.dtype not in (torch.int64, torch.int32):
                raise TypeError(f"{name} of Neighbourhoods must be a tensor of integers with one dimension")
        if self.ptr.shape[0] == 0 or (self.order is not None and self.order.shape != self.source.shape):
            raise ValueError("ptr of Neighbourhoods must be [N + 1], and order as long as source")
        if _is_unreadable(self.ptr):
            return
        ptr, E, senders = self.ptr, self.num_edges, self.num_nodes if self.senders is None else self.senders
        if not bool((ptr[0] == 0) & (ptr[-1] == E) & (ptr.diff() >= 0).all()):
            raise ValueError(f"ptr of Neighbourhoods must rise from 0 to the number of edges, {E}")
        for name, value, most in (("source", self.source, senders), ("order", self.order, E)):
            if value is not None and E > 0 and not bool(((value >= 0) & (value < most)).all()):
                raise ValueError(
                    f"{name} of Neighbourhoods, from edge_index, must be from 0 to {most - 1}, "
                    f"got values from {value.min()} to {value.max()}"
                )
        if self.order is not None and bool((torch.bincount(self.order, minlength=E) != 1).any()):
            raise ValueError("order of Neighbourhoods must hold every place of an edge once")

    def sort(self, edge_attr: Tensor) -> Tensor:
        """Put the caller's edge features [E, ...] into the order of the messages."""
        tensor("edge_attr", edge_attr)
        if edge_attr.dim() == 0 or edge_attr.shape[0] != self.num_edges:
            shape = tuple(edge_attr.shape)
            raise ValueError(f"edge_attr must have a row for each of {self.num_edges} edges, got the shape {shape}")
        return edge_attr if self.order is None else edge_attr.index_select(0, self.order)


def _moved(part: object, device: torch.device | str) -> object:
    """A tensor, or a tuple of such parts, on another device; anything else as it is."""
    if isinstance(part, tuple):
        return type(part)(*(_moved(value, device) for value in part))
    return part.to(device) if isinstance(part, Tensor) else part


def _is_unreadable(t: Tensor) -> bool:
    """Whether values of a tensor cannot be read now."""
    capturing = t.is_cuda and torch.cuda.is_current_stream_capturing()
    return capturing or t.is_meta or torch.compiler.is_compiling() or is_transformed() or type(t) is not Tensor


def _sizes(num_nodes: int | tuple[int, int]) -> tuple[int, int]:
    """Check num_nodes, and return the numbers of nodes for the two rows of edge_index."""
    sizes = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
    whole = [isinstance(size, Integral | torch.SymInt) and not isinstance(size, bool) and size >= 0 for size in sizes]
    if len(sizes) != 2 or not all(whole):
        raise ValueError(f"num_nodes must be an integer of at least 0, or a pair of them, got {num_nodes!r}")
    return tuple(size if isinstance(size, torch.SymInt) else int(size) for size in sizes)


def _sort(edges: Tensor, senders: int, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sort edges [2, E] of (source, target) stably by target -> ptr [N + 1], source [E] and order [E]."""
    check_range(edges, senders, num_nodes)
    target, order = edges[1].long().sort(stable=True)
    ptr = torch.searchsorted(target, torch.arange(num_nodes + 1, device=edges.device))
    return ptr, edges[0].long().index_select(0, order), order


# An operator of its own, so that a compiled graph does not break at the checks, which look at values.
sort_edges = torch.library.custom_op("pna::sort_edges", _sort, mutates_args=())


@sort_edges.register_fake
def _(edges: Tensor, senders: int, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Allocate ptr [N + 1], source [E] and order [E], which tells a compiler their shapes."""
    ptr = edges.new_empty(num_nodes + 1, dtype=torch.int64)
    return ptr, edges.new_empty(edges.shape[1], dtype=torch.int64), edges.new_empty(edges.shape[1], dtype=torch.int64)


def transpose_edges(ptr: Tensor, source: Tensor, senders: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Sort messages by sender, each sender's by receiver: the three tensors of Transpose."""
    sender, place = source.sort(stable=True)
    ends = ptr.shape[0] if senders is None else senders + 1
    sender_ptr = torch.searchsorted(sender, torch.arange(ends, device=ptr.device))
    return sender_ptr, torch.searchsorted(ptr, place, right=True) - 1, place


def check_range(edges: Tensor, senders: int, num_nodes: int) -> None:
    """Raise a ValueError, with the smallest and the largest number, if edges [2, E] name a node that does not exist."""
    capturing = edges.is_cuda and torch.cuda.is_current_stream_capturing()  # no value can be read then
    if edges.numel() == 0 or capturing:
        return
    lows, highs = torch.stack(edges.aminmax(dim=1)).tolist()  # one wait for the device, not four
    if min(lows) >= 0 and highs[0] < senders and highs[1] < num_nodes:
        return
    if senders == num_nodes:
        raise ValueError(
            f"edge_index must hold node numbers from 0 to {num_nodes - 1} (x has {num_nodes} rows), "
            f"got values from {min(lows)} to {max(highs)}"
        )
    raise ValueError(
        f"edge_index must hold senders from 0 to {senders - 1} and receivers from 0 to {num_nodes - 1}, "
        f"got values from {lows[0]} to {highs[0]} and from {lows[1]} to {highs[1]}"
    )
