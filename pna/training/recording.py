"""GPU work recorded once as a CUDA graph and replayed: the host launches one graph instead of thousands of kernels."""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from pna.kernels.priority import streams

__all__ = ["Recording"]


class Recording:
    """A CUDA graph of the functions `works`, which run concurrently; calling the recording replays it.

    Recording runs every function twice; the tensors `changed` are then set back to what they were. No function may read
    what another one changes. A graph reads tensors by their address, so the recording holds `works` to keep them alive.
    """

    def __init__(self, works: Sequence[Callable[[], object]], changed: Iterable[Tensor] = ()) -> None:
        self.works, self.graph = works, torch.cuda.CUDAGraph()
        changed = list(changed)
        before = [t.clone() for t in changed]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # once outside the recording, so that libraries initialise
            for work in works:
                work()
        torch.cuda.current_stream().wait_stream(stream)
        gc.collect()  # freeing an earlier recording during this one would invalidate it
        beside = streams(len(works), torch.cuda.current_device())
        with _recorded_by(self.graph):
            for work, stream in zip(works, beside, strict=True):
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    work()
            for stream in beside:
                torch.cuda.current_stream().wait_stream(stream)
        for t, old in zip(changed, before, strict=True):
            t.copy_(old)

    def __call__(self) -> None:
        """Replay the work once."""
        self.graph.replay()


@contextmanager
def _recorded_by(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """Record into `graph`; an error of the recorded work is raised instead of the one about unjoined streams."""
    first = None
    try:
        with torch.cuda.graph(graph):
            try:
                yield
            except BaseException as error:  # Ctrl-C, too
                first = error
                raise
    except RuntimeError as last:
        raise first or last from None
