"""Streams in pairs, for work that is recorded side by side: what is launched `behind` waits for free multiprocessors
that no other kernel wants.

A kernel that fills a GPU would keep the small ones of another stream waiting until its last block has begun. A
recording keeps the priorities of the streams that it was made on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

__all__ = ["behind", "streams"]

_behind: dict[int, torch.cuda.Stream] = {}  # of each stream, by its handle, the one of lower priority


@cache
def streams(count: int, device: int) -> list[torch.cuda.Stream]:
    """So many of high priority, the same in every call: PyTorch has few streams, and gives them out again."""
    found = [torch.cuda.Stream(device, priority=-1) for _ in range(count)]
    _behind.update({stream.cuda_stream: torch.cuda.Stream(device, priority=0) for stream in found})
    return found


@contextmanager
def behind(unless: bool = False) -> Iterator[None]:
    """What is launched here has the lower priority, if the current stream is one of these, and its place in it."""
    if unless or not _behind or (lower := _behind.get((current := torch.cuda.current_stream()).cuda_stream)) is None:
        yield
        return
    lower.wait_stream(current)
    with torch.cuda.stream(lower):
        yield
    current.wait_stream(lower)
