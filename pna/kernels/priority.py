"""Streams in pairs, for work that is recorded side by side: what is launched `behind` waits for free multiprocessors
that no other kernel wants.

A kernel that fills a GPU would keep the small ones of another stream, or of another process under MPS, waiting until
its last block has begun. A recording keeps the priorities of the streams that it was made on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

__all__ = ["Beside", "behind", "streams"]

_behind: dict[int, torch.cuda.Stream] = {}  # of each stream, by its handle, the one of lower priority


@cache
def streams(count: int, device: int) -> list[torch.cuda.Stream]:
    """So many of high priority, the same in every call: PyTorch has few streams, and gives them out again."""
    found = [torch.cuda.Stream(device, priority=-1) for _ in range(count)]
    _behind.update({stream.cuda_stream: torch.cuda.Stream(device, priority=0) for stream in found})
    return found


@contextmanager
def behind(blocks: int) -> Iterator[None]:
    """What is launched here has the lower priority, if the current stream is one of these, and its place in it.

    So it is if it has a block for every multiprocessor: a smaller kernel keeps nobody waiting, and need not wait.
    """
    current = torch.cuda.current_stream() if _behind else None
    lower = None if current is None else _behind.get(current.cuda_stream)
    if lower is None or blocks < torch.cuda.get_device_properties(current.device).multi_processor_count:
        yield
        return
    lower.wait_stream(current)
    with torch.cuda.stream(lower):
        yield
    current.wait_stream(lower)


class Beside:
    """Work that nothing waits for until its `result` is asked for: beside what is launched next; on a CPU at once.

    What it reads must be held until then, and not be written to.
    """

    def __init__(self, on: torch.device, work: Callable[[], Tensor]) -> None:
        self.stream = _other(on.index) if on.type == "cuda" else None
        if self.stream is None:
            self.made = work()
            return
        self.stream.wait_stream(torch.cuda.current_stream(on))
        with torch.cuda.stream(self.stream):
            self.made = work()

    def result(self) -> Tensor:
        """What it has made, once what comes next here waits for it."""
        if self.stream is not None:
            torch.cuda.current_stream(self.made.device).wait_stream(self.stream)
        return self.made


@cache
def _other(device: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)
