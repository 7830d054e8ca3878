"""Work on a GPU recorded once as a CUDA graph, and replayed: the host then launches one thing instead of thousands."""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from pna.kernels.priority import streams

__all__ = ["Recording"]


class Recording:
    """`works` recorded: a call replays them, side by side. What they change meanwhile, `changed`, is set back.

    None may read what another changes. The recording reads where tensors were: it holds `works`, so that none of them
    is freed.
    """

    def __init__(self, works: Sequence[Callable[[], object]], changed: Iterable[Tensor] = ()) -> None:
        self.works, self.graph = works, torch.cuda.CUDAGraph()
        changed = list(changed)
        before = [t.clone() for t in changed]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # a first run outside the recording, so that libraries set themselves up
            for work in works:
                work()
        torch.cuda.current_stream().wait_stream(stream)
        gc.collect()  # an older recording that is freed during this one would spoil it
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
        """Do the work once more."""
        self.graph.replay()


@contextmanager
def _recorded_by(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """An error in what is recorded is raised itself, and not the one about unjoined streams that comes of it."""
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
