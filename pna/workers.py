"""Work on a CPU divided among threads once for each pass, instead of once for each operation.

Torch divides every operation among its threads and waits for all of them. On a busy machine each wait lasts until the
last thread gets its turn, and a pass over a graph has hundreds of operations. Here each thread takes a share of the
features through the whole pass, so there is one wait.
"""

import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

__all__ = ["over_features"]

LEAST = 16  # features of a share: 64 bytes, which memory delivers at once


def over_features(work: Callable[[slice], None], features: int) -> None:
    """Call `work` with slices of the features, each in a thread of its own, without gradients.

    A thread does not inherit inference mode, without which it may not write to the tensors of its caller.
    """
    shares = min(torch.get_num_threads(), features // LEAST)
    if shares < 2:
        work(slice(0, features))
        return
    ends = [features * k // shares for k in range(shares + 1)]
    mode = torch.inference_mode(torch.is_inference_mode_enabled())  # outermost: it sets whether gradients are recorded
    list(_pool(shares).map(mode(torch.no_grad()(work)), map(slice, ends, ends[1:])))


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads in which torch divides no operation among others; this setting belongs to the thread that makes it."""
    before, ready = torch.get_num_threads(), threading.Barrier(threads)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="pna")

    def prepare(_: int) -> None:
        torch.set_num_threads(1)
        ready.wait()

    list(pool.map(prepare, range(threads)))
    torch.set_num_threads(before)
    return pool


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child process has none of its parent's threads
