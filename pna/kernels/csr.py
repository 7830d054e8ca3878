"""A graph in CSR order by one sort: the messages by their receivers and, for a backward pass, by their senders.

Both ends of every edge are sorted as one list of keys: j for a sender, N + 1 + i for a receiver. A single kernel reads
everything else off the sorted list, by binary search. A number outside 0 … N - 1 counts as node N, which has no row: so
nothing is read or written out of bounds, and the error is raised once everything is launched (Check).

The layers of a network get the same edge_index one after another. For a small graph, sorting takes the host longer than
the layer, so its result is remembered for as long as the tensor lives and is not written to.
"""

import functools
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from pna.kernels.compile_time import blocks
from pna.kernels.launch import Constants, Launch
from pna.kernels.selection import on_its_device
from pna.neighbourhoods import Neighbourhoods, Transpose

__all__ = ["Check", "from_whole", "graph_of", "remember", "remembered", "sort", "supports", "whole", "whole_size"]

BLOCK, WARPS = 256, 4
SMALL = 1 << 18  # edges of the largest graph that is remembered, which takes 10 MB
_graphs = WeakTensorKeyDictionary()  # edge_index -> its state when it was sorted, and its graph


def supports(edges: Tensor, num_nodes: int) -> bool:
    """Whether `sort` can sort these edges: there are some, and its keys fit into int32."""
    return 0 < edges.shape[1] < 1 << 30 and num_nodes < 1 << 30


@on_its_device
def sort(edges: Tensor, num_nodes: int, reverse: bool, transpose: bool) -> tuple[Neighbourhoods, Tensor]:
    """Sort edges [2, E], rows (source, target) or if `reverse` (target, source), into CSR order.

    Returns the graph, with its transpose if asked for, and a flag [1]: whether any number is not a node.
    """
    E, N = edges.shape[1], num_nodes
    stride, step = edges.stride()
    constants = _constants(reverse, transpose)
    keys = edges.new_empty(2 * E if transpose else E, dtype=torch.int32)
    sizes = (edges, stride, step, N, E)
    _keys((blocks(E, BLOCK), 1), (keys, *sizes), constants, WARPS)
    keys, order = torch.sort(keys, stable=True)
    parts = _allocate(edges, N, E, transpose)  # ptr, source, order, sender_ptr, receiver, place, bad
    arguments = (keys, order, *parts, *sizes, E.bit_length())
    _read_off((blocks(max(E, N + 1), BLOCK), 1), arguments, constants, WARPS)
    return Neighbourhoods(*parts[:3], Transpose(*parts[3:6]) if transpose else None), parts[6]


@functools.cache
def _constants(reverse: bool, transpose: bool) -> Constants:
    """Constants of both kernels."""
    return Constants(REVERSE=reverse, TRANSPOSE=transpose, BLOCK=BLOCK)


def graph_of(
    edges: Tensor, num_nodes: int, reverse: bool, transpose: bool, compiled: bool = False
) -> tuple[Neighbourhoods, Callable[[], bool]]:
    """The remembered graph of an edge_index or else the sorted one, and a function to call once all is launched.

    The function returns whether some number is not a node; if there is none, the graph is remembered. Code that
    torch.compile has compiled remembers nothing on a side stream: there it may be preparing a CUDA graph, whose memory
    must not be held.
    """
    key = (edges, num_nodes, reverse)
    graph = remembered(*key, transpose)
    if graph is not None:
        return graph, bool  # nothing has failed
    graph, bad = sort(*key, transpose)
    check = Check(bad)

    def failed() -> bool:
        """Whether some number is not a node; if all are nodes, remember the graph for the next layer."""
        if check.failed():
            return True
        if not (compiled and _stream(edges)):
            remember(*key, graph)
        return False

    return graph, failed


def whole(graph: Neighbourhoods) -> Tensor:
    """The one tensor in which `sort` has put all parts of a graph and its transpose."""
    return graph.ptr.as_strided((whole_size(graph.num_nodes, graph.num_edges),), (1,), 0)


def whole_size(N: int, E: int) -> int:
    """The number of elements of `whole`."""
    return sum(_sizes(N, E, transpose=True))


def from_whole(tensor: Tensor, N: int, E: int) -> Neighbourhoods:
    """The graph whose parts and transpose lie in one tensor."""
    parts = torch.split_with_sizes(tensor, _sizes(N, E, transpose=True))[::2]
    return Neighbourhoods(*parts[:3], Transpose(*parts[3:6]))


def remember(edges: Tensor, num_nodes: int, reverse: bool, graph: Neighbourhoods) -> None:
    """Remember the graph of an edge_index whose numbers are all nodes, unless it is large."""
    if edges.shape[1] <= SMALL and not _unknowable(edges):
        _graphs[edges] = (_state(edges, num_nodes, reverse), graph)


def remembered(edges: Tensor, num_nodes: int, reverse: bool, transpose: bool) -> Neighbourhoods | None:
    """Graph of an edge_index that was sorted before, on this stream, and has not been written to since; else None."""
    if _unknowable(edges):
        return None
    state, graph = _graphs.get(edges, (None, None))
    known = graph is not None and (graph.transpose is not None or not transpose)
    return graph if known and state == _state(edges, num_nodes, reverse) else None


def _state(edges: Tensor, num_nodes: int, reverse: bool) -> tuple:
    """Everything that a sorted graph depends on besides the tensor itself.

    The stream is part of it: another one need not have waited for the kernels. A tensor whose `.data` is replaced keeps
    its version, but has another address or shape.
    """
    return edges._version, edges.data_ptr(), edges.shape, edges.stride(), _stream(edges), num_nodes, reverse


def _stream(edges: Tensor) -> int:
    """The current stream of the edges' device; 0 is the default one."""
    return torch._C._cuda_getCurrentRawStream(edges.get_device()) if edges.is_cuda else 0


def _unknowable(edges: Tensor) -> bool:
    """Whether a change of edges could go unnoticed: in an inference tensor, or while a CUDA graph is recorded."""
    return edges.is_inference() or (edges.is_cuda and torch.cuda.is_current_stream_capturing())


class Check:
    """The flag that some number is not a node, on its way to the host while more kernels are launched.

    The host waits for the sorted edges alone, not for what was launched after them. While a CUDA graph is recorded
    there is nothing to wait for, and nothing has failed.
    """

    def __init__(self, bad: Tensor) -> None:
        self.capturing = bad.is_cuda and torch.cuda.is_current_stream_capturing()
        self.bad = bad if self.capturing else bad.to("cpu", non_blocking=True)
        self.arrived = (
            torch.cuda.current_stream(bad.device).record_event() if bad.is_cuda and not self.capturing else None
        )

    def failed(self) -> bool:
        """Wait for the flag and return it."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return not self.capturing and bool(self.bad.item())


def _allocate(edges: Tensor, N: int, E: int, transpose: bool) -> tuple[Tensor, ...]:
    """Allocate the tensors of Neighbourhoods and Transpose and one flag in one piece, each aligned to 16 bytes."""
    sizes = _sizes(N, E, transpose)
    return torch.split_with_sizes(edges.new_empty(sum(sizes), dtype=torch.int64), sizes)[::2]


def _sizes(N: int, E: int, transpose: bool) -> list[int]:
    """Lengths of ptr, source, order, the transpose's three and the flag, and after each the padding to 16 bytes."""
    lengths = [N + 1, E, E, *((N + 1, E, E) if transpose else (0, 0, 0)), 1]
    return [size for length in lengths for size in (length, length % 2)]


@triton.jit
def _end(edges, e, END: tl.constexpr, stride, step, mask, N):
    """Load the sender (END 0) or the receiver (1) of the edges e; N where it is not a node."""
    node = tl.load(edges + END * stride + e.to(tl.int64) * step, mask=mask, other=0).to(tl.int64)
    return tl.where((node < 0) | (node >= N), N, node)


@triton.jit(do_not_specialize=["stride", "step", "N", "E"])
def _keys_kernel(keys, edges, stride, step, N, E, REVERSE: tl.constexpr, TRANSPOSE: tl.constexpr, BLOCK: tl.constexpr):
    """Keys to sort: [j …, N + 1 + i …], or only the second half; i = N if either end is not a node."""
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sender = _end(edges, e, 1 if REVERSE else 0, stride, step, e < E, N)
    if TRANSPOSE:
        tl.store(keys + e, sender.to(tl.int32), mask=e < E)
        keys += E
    receiver = _end(edges, e, 0 if REVERSE else 1, stride, step, e < E, N)
    receiver = tl.where(sender == N, N, receiver)
    tl.store(keys + e, (receiver + (N + 1)).to(tl.int32), mask=e < E)


@triton.jit
def _first(keys, order, key, edge, E, steps, mask):
    """Number of the E sorted pairs (key, edge) that are smaller than each of these, by `steps` bisections."""
    low = tl.zeros(key.shape, tl.int32)
    high = tl.where(mask, E, low)
    for _ in range(0, steps):
        open = low < high
        middle = (low + high) >> 1
        there = tl.load(keys + middle, mask=open, other=0)
        number = tl.load(order + middle, mask=open, other=0)
        less = open & ((there < key) | ((there == key) & (number < edge)))
        high = tl.where(open & (less == 0), middle, high)
        low = tl.where(less, middle + 1, low)
    return low


@triton.jit(do_not_specialize=["stride", "step", "N", "E", "steps"])
def _read_off_kernel(
    keys, order, ptr, source, place, sender_ptr, receiver, sent_place, bad, edges, stride, step, N, E, steps,
    REVERSE: tl.constexpr, TRANSPOSE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write Neighbourhoods (ptr, source, place in the caller's list) and Transpose at this program's places p."""
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = p < E
    none = tl.full(p.shape, -1, tl.int64)
    of_target = keys
    order_of_target = order
    offset = 0  # the number of the first edge in the receivers' half
    if TRANSPOSE:
        of_target += E
        order_of_target += E
        offset += E
        e = tl.load(order + p, mask=live, other=0)
        to = _end(edges, e, 0 if REVERSE else 1, stride, step, live, N)
        at = _first(of_target, order_of_target, to + (N + 1), e + offset, E, steps, live)
        tl.store(receiver + p, tl.minimum(to, N - 1), mask=live)
        tl.store(sent_place + p, at.to(tl.int64), mask=live)
        begin = _first(keys, order, p, none, E, steps, p <= N)
        tl.store(sender_ptr + p, begin.to(tl.int64), mask=p <= N)
    e = tl.load(order_of_target + p, mask=live, other=0) - offset
    sender = _end(edges, e, 1 if REVERSE else 0, stride, step, live, N)
    tl.store(source + p, tl.minimum(sender, N - 1), mask=live)
    tl.store(place + p, e, mask=live)
    begin = _first(of_target, order_of_target, p + (N + 1), none, E, steps, p <= N)
    tl.store(ptr + p, begin.to(tl.int64), mask=p <= N)
    tl.store(bad, (tl.load(of_target + E - 1) > 2 * N).to(tl.int64))


_keys, _read_off = Launch(_keys_kernel), Launch(_read_off_kernel)
