"""Work on many items in several processes, in order, with a progress bar."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial

__all__ = ["parallel_map"]

CHUNK = 256  # items handed to a process at a time


def parallel_map(
    function: Callable, items: Sequence, title: str, workers: int | None = None, progress: bool = True
) -> list:
    """[function(item) for item in items]; workers: processes, by default one for each processor."""
    workers = min(workers or os.cpu_count() or 1, -(-len(items) // CHUNK))
    chunks = [items[k : k + CHUNK] for k in range(0, len(items), CHUNK)]
    with _bar(title, len(items), progress) as bar:
        if workers <= 1:
            return _collect(map(partial(_apply, function), chunks), bar)
        spawn = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in an unknown state
        try:
            with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
                return _collect(pool.map(partial(_apply, function), chunks), bar)
        except BrokenProcessPool:
            raise RuntimeError(f"{title}: one of {workers} processes ended at once; its own message says why") from None


def _apply(function: Callable, items: Sequence) -> list:
    return [function(item) for item in items]


def _collect(results: "map", bar: "_Silent") -> list:
    out = []
    for part in results:
        out += part
        bar.update(len(part))
    return out


class _Silent:
    """A bar that is not shown."""

    def __enter__(self) -> "_Silent":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, _: int) -> None:
        """So many more are done."""


def _bar(title: str, total: int, progress: bool) -> _Silent:
    if not (progress and sys.stderr.isatty()):
        return _Silent()
    from tqdm import tqdm

    return tqdm(total=total, desc=title)
