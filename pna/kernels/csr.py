"""A graph in CSR order by one sort: the messages by their receivers and, for a backward pass, by their senders.

Both ends of every edge are sorted as one list of numbers: j for a sender, N + 1 + i for a receiver. A single kernel
reads everything else off the sorted list, by binary search. A number that is no node counts as node N, which has no
row: so nothing is read or written out of bounds, and whether there is one is looked at when all is launched (Check).

The layers of a network are given the same edge_index one after the other: the graph of a small one, whose sorting takes
the host longer than the layer, is remembered for as long as the tensor lives and is not written to.
"""

import functools

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from pna.kernels.compile_time import blocks
from pna.kernels.launch import Constants, Launch
from pna.kernels.selection import on_its_device
from pna.neighbourhoods import Neighbourhoods, Transpose

__all__ = ["Check", "remember", "remembered", "sort", "supports"]

BLOCK, WARPS = 256, 4
SMALL = 1 << 18  # edges of a graph that is remembered, in at most 10 MB
_graphs = WeakTensorKeyDictionary()  # edge_index -> what it was sorted for, and its graph


def supports(edges: Tensor, num_nodes: int) -> bool:
    """Whether `sort` can sort these edges: there are some, and its keys fit into int32."""
    return 0 < edges.shape[1] < 1 << 30 and num_nodes < 1 << 30


@on_its_device
def sort(edges: Tensor, num_nodes: int, reverse: bool, transpose: bool) -> tuple[Neighbourhoods, Tensor]:
    """edges [2, E] of (source, target), or of (target, source) if `reverse`, and whether any number is no node, [1]."""
    E, N = edges.shape[1], num_nodes
    stride, step = edges.stride()
    constants = _told(reverse, transpose)
    keys = edges.new_empty(2 * E if transpose else E, dtype=torch.int32)
    sizes = (edges, stride, step, N, E)
    _keys((blocks(E, BLOCK), 1), (keys, *sizes), constants, WARPS)
    keys, order = torch.sort(keys, stable=True)
    parts = _allocate(edges, N, E, transpose)  # ptr, source, order, sender_ptr, receiver, place, bad
    arguments = (keys, order, *parts, *sizes, E.bit_length())
    _read_off((blocks(max(E, N + 1), BLOCK), 1), arguments, constants, WARPS)
    return Neighbourhoods(*parts[:3], Transpose(*parts[3:6]) if transpose else None), parts[6]


@functools.cache
def _told(reverse: bool, transpose: bool) -> Constants:
    return Constants(REVERSE=reverse, TRANSPOSE=transpose, BLOCK=BLOCK)


def remember(edges: Tensor, num_nodes: int, reverse: bool, graph: Neighbourhoods) -> None:
    """Keeps the graph of an edge_index whose numbers are all nodes; not of a large one."""
    if edges.shape[1] <= SMALL and not _unknowable(edges):
        _graphs[edges] = (_state(edges, num_nodes, reverse), graph)


def remembered(edges: Tensor, num_nodes: int, reverse: bool, transpose: bool) -> Neighbourhoods | None:
    """The graph of an edge_index that has been sorted before, on this stream, and not been written to since."""
    if _unknowable(edges):
        return None
    state, graph = _graphs.get(edges, (None, None))
    known = graph is not None and (graph.transpose is not None or not transpose)
    return graph if known and state == _state(edges, num_nodes, reverse) else None


def _state(edges: Tensor, num_nodes: int, reverse: bool) -> tuple:
    """What a graph depends on besides the tensor itself; another stream need not wait for this one's kernels.

    A tensor that is given other `.data` keeps its version, but lies elsewhere or has another shape.
    """
    stream = torch._C._cuda_getCurrentRawStream(edges.get_device()) if edges.is_cuda else 0
    return edges._version, edges.data_ptr(), edges.shape, edges.stride(), stream, num_nodes, reverse


def _unknowable(edges: Tensor) -> bool:
    """Whether a change would not be noticed: of an inference tensor, or by a CUDA graph that is being recorded."""
    return edges.is_inference() or (edges.is_cuda and torch.cuda.is_current_stream_capturing())


class Check:
    """Whether there was a number that is no node: on its way to the host while more is launched.

    The host waits for the sorted edges alone, and not for what was launched after them. While a CUDA graph is recorded
    nothing can be waited for, and nothing has failed.
    """

    def __init__(self, bad: Tensor) -> None:
        self.capturing = bad.is_cuda and torch.cuda.is_current_stream_capturing()
        self.bad = bad if self.capturing else bad.to("cpu", non_blocking=True)
        self.arrived = (
            torch.cuda.current_stream(bad.device).record_event() if bad.is_cuda and not self.capturing else None
        )

    def failed(self) -> bool:
        """Waits for the answer."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return not self.capturing and bool(self.bad.item())


def _allocate(edges: Tensor, N: int, E: int, transpose: bool) -> tuple[Tensor, ...]:
    """The tensors of Neighbourhoods and of Transpose, and one number: of one piece of memory, each at 16 bytes."""
    lengths = [N + 1, E, E, *((N + 1, E, E) if transpose else (0, 0, 0)), 1]
    sizes = [size for length in lengths for size in (length, length & 1)]
    return torch.split_with_sizes(edges.new_empty(sum(sizes), dtype=torch.int64), sizes)[::2]


@triton.jit
def _end(edges, e, END: tl.constexpr, stride, step, mask, N):
    """The sender (END 0) or the receiver (1) of the edges e; N if it is no node."""
    node = tl.load(edges + END * stride + e.to(tl.int64) * step, mask=mask, other=0).to(tl.int64)
    return tl.where((node < 0) | (node >= N), N, node)


@triton.jit(do_not_specialize=["stride", "step", "N", "E"])
def _keys_kernel(keys, edges, stride, step, N, E, REVERSE: tl.constexpr, TRANSPOSE: tl.constexpr, BLOCK: tl.constexpr):
    """What is sorted: [j …, N + 1 + i …], or only the second half; i = N if either end is no node."""
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
    """How many of the E sorted pairs (key, edge) are smaller than each of these, by `steps` halvings."""
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
    """The tensors of Neighbourhoods (ptr, source, place in the caller's list) and of Transpose, at the places p."""
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = p < E
    none = tl.full(p.shape, -1, tl.int64)
    of_target = keys
    order_of_target = order
    behind = 0  # the number of the first edge in the receivers' half
    if TRANSPOSE:
        of_target += E
        order_of_target += E
        behind += E
        e = tl.load(order + p, mask=live, other=0)
        to = _end(edges, e, 0 if REVERSE else 1, stride, step, live, N)
        at = _first(of_target, order_of_target, to + (N + 1), e + behind, E, steps, live)
        tl.store(receiver + p, tl.minimum(to, N - 1), mask=live)
        tl.store(sent_place + p, at.to(tl.int64), mask=live)
        begin = _first(keys, order, p, none, E, steps, p <= N)
        tl.store(sender_ptr + p, begin.to(tl.int64), mask=p <= N)
    e = tl.load(order_of_target + p, mask=live, other=0) - behind
    sender = _end(edges, e, 1 if REVERSE else 0, stride, step, live, N)
    tl.store(source + p, tl.minimum(sender, N - 1), mask=live)
    tl.store(place + p, e, mask=live)
    begin = _first(of_target, order_of_target, p + (N + 1), none, E, steps, p <= N)
    tl.store(ptr + p, begin.to(tl.int64), mask=p <= N)
    tl.store(bad, (tl.load(of_target + E - 1) > 2 * N).to(tl.int64))


_keys, _read_off = Launch(_keys_kernel), Launch(_read_off_kernel)
