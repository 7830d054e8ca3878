"""Pairs of CUDA streams, one of high and one of low priority: large kernels run on the low one, so that small kernels
of other streams are not held up.

A kernel that fills a GPU keeps the small ones of another stream, or of another process under MPS, waiting until its
last block has begun. A recording keeps the priorities of the streams that it was made on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

__all__ = ["Beside", "behind", "streams"]

_behind: dict[int, torch.cuda.Stream] = {}  # handle of a stream -> its partner of lower priority


@cache
def streams(count: int, device: int) -> list[torch.cuda.Stream]:
    """`count` high-priority streams, cached: PyTorch recycles a small pool, so new requests may alias."""
    pool = [torch.cuda.Stream(device, priority=-1) for _ in range(count)]
    _behind.update({stream.cuda_stream: torch.cuda.Stream(device, priority=0) for stream in pool})
    return pool


@contextmanager
def behind(blocks: int) -> Iterator[None]:
    """Launch kernels of `blocks` blocks at low priority, in their order on the current stream.

    This applies if the current stream comes from `streams` and there is a block for every multiprocessor: a smaller
    kernel holds up no other.
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
    """Work on another stream, concurrent with later launches until its `result` is asked for; on a CPU it runs at once.

    The tensors that it reads must be held until then, and not be written to.
    """

    def __init__(self, on: torch.device, work: Callable[[], Tensor]) -> None:
        self.stream = _other(on.index) if on.type == "cuda" else None
        if self.stream is None:
            self.output = work()
            return
        self.stream.wait_stream(torch.cuda.current_stream(on))
        with torch.cuda.stream(self.stream):
            self.output = work()

    def result(self) -> Tensor:
        """Make the current stream wait for the work, and return its tensor."""
        if self.stream is not None:
            torch.cuda.current_stream(self.output.device).wait_stream(self.stream)
        return self.output


@cache
def _other(device: int) -> torch.cuda.Stream:
    """The one stream of a device on which work runs beside the others."""
    return torch.cuda.Stream(device)
