"""Work on a GPU recorded once as a CUDA graph, and replayed: the host then launches one thing instead of thousands."""

import gc
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

__all__ = ["Recording"]


class Recording:
    """`work` recorded: a call replays it. What it changes while it is recorded, `changed`, is set back.

    The recording reads where tensors were: it holds `work`, so that none of them is freed.
    """

    def __init__(self, work: Callable[[], object], changed: Iterable[Tensor] = ()) -> None:
        self.work, self.graph = work, torch.cuda.CUDAGraph()
        changed = list(changed)
        before = [t.clone() for t in changed]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # a first run outside the recording, so that libraries set themselves up
            work()
        torch.cuda.current_stream().wait_stream(stream)
        gc.collect()  # an older recording that is freed during this one would spoil it
        with torch.cuda.graph(self.graph):
            work()
        for t, old in zip(changed, before, strict=True):
            t.copy_(old)

    def __call__(self) -> None:
        """Do the work once more."""
        self.graph.replay()
