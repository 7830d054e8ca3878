"""The weights of many replicas packed as a kernel reads them, and its gradients unpacked: one kernel each way.

A packing is a function of a network's tensors, each of one replica, that only moves numbers: it stacks, permutes and
pads. Applied to the numbers' places instead, it says once and for all where every number comes from and goes to.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from math import prod

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["Packing", "pack_weights", "unpack_gradients"]

# (tensors) -> the groups that a kernel reads, and the one or two rows that it writes as their gradients. The first
# axis of each is summed over: numbers that a kernel sees only added up.
Packing = Callable[..., tuple[Sequence[Tensor], Sequence[Tensor]]]

COPIED, BLOCK, PARTS = 256, 64, 64  # numbers of a program, and parts that it reads at once


@triton.jit
def gather(source, places, out, count, K: tl.constexpr, BLOCK: tl.constexpr):
    """A block of `out` [count]: each number is the sum of the K in `source` whose places [K, count] are not -1."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.zeros([BLOCK], tl.float32)
    for k in tl.static_range(K):
        place = tl.load(places + k * count + i, mask=i < count, other=-1)
        value += tl.load(source + place, mask=place >= 0, other=0.0)
    tl.store(out + i, value, mask=i < count)


@triton.jit
def scatter(parts, places, out, R, T, first, second, K: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    """Sum a block of gradients over T parts, in their order, and store each at its K places.

    Grid: (blocks of the first row's numbers, then of the second's; replicas).
    """
    r, block, blocks = tl.program_id(1), tl.program_id(0), tl.cdiv(first, BLOCK)
    size = tl.where(block < blocks, first, second)
    begin = tl.where(block < blocks, 0, R * first)
    j = tl.where(block < blocks, block, block - blocks) * BLOCK + tl.arange(0, BLOCK)
    parts += (begin.to(tl.int64) + r * size) * T
    total = tl.zeros([BLOCK], tl.float32)
    for t in range(0, T, PARTS):
        part = t + tl.arange(0, PARTS)[:, None]
        total += tl.sum(tl.load(parts + part * size + j[None, :], mask=(part < T) & (j < size)[None, :], other=0.0), 0)
    for k in tl.static_range(K):
        place = tl.load(places + k * R * (first + second) + begin + r * size + j, mask=j < size, other=-1)
        tl.store(out + place, total, mask=place >= 0)


def pack_weights(packing: Packing, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Copy tensors [R, …] to the groups of a packing, [R, …] each, one after another in memory."""
    R, shapes = len(tensors[0]), _shapes(tensors)
    source, begins = _one_memory(tensors)
    places, groups = _forward(packing, shapes, begins, R, source.device)
    out = source.new_empty(places.shape[1])
    gather[(-(-len(out) // COPIED),)](source, places, out, len(out), K=len(places), BLOCK=COPIED)
    sizes = [R * prod(shape) for shape in groups]
    return tuple(t.view(R, *shape) for t, shape in zip(out.split(sizes), groups, strict=True))


def unpack_gradients(packing: Packing, tensors: Sequence[Tensor], parts: Tensor, T: int) -> list[Tensor]:
    """Sum the rows' gradients over T parts and return those of the tensors, [R, …] each.

    parts: [R, T, row] of the first row, then of the second, flat; tensors: for their shapes alone.
    """
    R, shapes = len(tensors[0]), _shapes(tensors)
    places, (first, second) = _backward(packing, shapes, R, parts.device)
    sizes = [R * prod(shape) for shape in shapes]
    out = parts.new_empty(sum(sizes))
    blocks = -(-first // BLOCK) + -(-second // BLOCK)
    scatter[(blocks, R)](parts, places, out, R, T, first, second, K=len(places), BLOCK=BLOCK, PARTS=PARTS)
    return [t.view(R, *shape) for t, shape in zip(out.split(sizes), shapes, strict=True)]


def _shapes(tensors: Sequence[Tensor]) -> tuple[torch.Size, ...]:
    """Shapes of the tensors [R, …] without the axis of replicas."""
    return tuple(t.shape[1:] for t in tensors)


def _one_memory(tensors: Sequence[Tensor]) -> tuple[Tensor, tuple[int, ...]]:
    """One tensor that holds them all, and where each begins in it; they are copied unless they share memory."""
    shared = len({t.untyped_storage().data_ptr() for t in tensors}) == 1 and all(t.is_contiguous() for t in tensors)
    if not shared:
        sizes = [t.numel() for t in tensors]
        return torch.cat([t.flatten() for t in tensors]), tuple(accumulate(sizes[:-1], initial=0))
    source = min(tensors, key=Tensor.storage_offset)
    return source, tuple(t.storage_offset() - source.storage_offset() for t in tensors)


@cache
def _forward(
    packing: Packing, shapes: tuple[torch.Size, ...], begins: tuple[int, ...], R: int, device: torch.device
) -> tuple[Tensor, list[torch.Size]]:
    """Where each number of the groups comes from, [K, numbers], -1 for a zero; and the shape of each group."""
    places = _places(lambda *tensors: packing(*tensors)[0], shapes, begins, R)  # [K, R, …] each
    return torch.cat([p.flatten(1) for p in places], dim=1).to(device), [p.shape[2:] for p in places]


@cache
def _backward(
    packing: Packing, shapes: tuple[torch.Size, ...], R: int, device: torch.device
) -> tuple[Tensor, tuple[int, int]]:
    """Where each number of the rows goes to, [K, numbers], -1 for nowhere; and the rows' lengths."""
    begins = tuple(accumulate((R * prod(shape) for shape in shapes[:-1]), initial=0))
    places = _places(lambda *tensors: packing(*tensors)[1], shapes, begins, R)  # [K, R, row] each
    lengths = [p.shape[2] for p in places]
    return torch.cat([p.flatten(1) for p in places], dim=1).to(device), (*lengths, 0)[:2]


def _places(
    moves: Callable[..., Sequence[Tensor]], shapes: Sequence[torch.Size], begins: Sequence[int], R: int
) -> list[Tensor]:
    """Places of the numbers that `moves` returns, for every replica, [K, R, …] each; -1 for padding.

    A place is first + step · r: `moves` is applied to the places of the first replica, counted from 1 so that its zero
    padding stands out, and to the steps from one replica to the next.
    """
    places = [torch.arange(prod(shape)).view(shape) + 1 + begin for shape, begin in zip(shapes, begins, strict=True)]
    firsts, steps = moves(*places), moves(*(torch.full(shape, prod(shape)) for shape in shapes))
    r = torch.arange(R)
    return [
        (first.unsqueeze(1) + step.unsqueeze(1) * r.view(-1, *[1] * (first.dim() - 1)) - 1).int()
        for first, step in zip(firsts, steps, strict=True)
    ]
