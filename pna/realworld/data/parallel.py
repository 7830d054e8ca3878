"""Work on the graphs of all splits in several processes, in order, with the time left."""

import contextlib
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

__all__ = ["each", "parallel_map"]

CHUNK = 1_024  # items handed to a process at a time
INTERVAL = 10  # seconds between two lines of progress


def parallel_map(
    function: Callable[[Sequence], list],
    items: Mapping[str, Sequence],
    title: str,
    workers: int | None = None,
    progress: bool = True,
) -> dict[str, list]:
    """Apply a function, which maps a chunk of items to the list of their results, to all items of every split.

    `workers` is the number of processes, by default one for each processor.
    """
    chunks = [(split, part[k : k + CHUNK]) for split, part in items.items() for k in range(0, len(part), CHUNK)]
    splits, parts = [split for split, _ in chunks], [part for _, part in chunks]
    workers = min(workers or os.cpu_count() or 1, len(chunks))
    report = _reported if progress else lambda results, *_: results
    out: dict[str, list] = {split: [] for split in items}
    with _mapping(workers, title) as mapping:
        for split, part in zip(splits, report(mapping(function, parts), title, sum(map(len, parts))), strict=True):
            out[split] += part
    return out


def each(function: Callable, items: Sequence) -> list:
    """Apply a function to each item; partial(each, function) maps a chunk."""
    return [function(item) for item in items]


@contextlib.contextmanager
def _mapping(workers: int, title: str) -> Iterator[Callable[..., Iterable[list]]]:
    """A `map` over several processes, or over this one alone."""
    if workers <= 1:
        yield map
        return
    spawn = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in an unknown state
    try:
        with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_end_with_parent) as pool:
            yield pool.map
    except BrokenProcessPool:
        raise RuntimeError(f"{title}: one of {workers} processes ended at once; its own message says why") from None


def _end_with_parent() -> None:
    """Start a thread that ends this process as soon as its parent is gone, even if that was killed."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _reported(results: Iterable[list], title: str, total: int) -> Iterator[list]:
    """The results as they come; a bar on a terminal, or a line now and then elsewhere, tells the time left."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        with tqdm(total=total, desc=title, unit=" graphs") as bar:
            for part in results:
                yield part
                bar.update(len(part))
        return
    done, first, said = 0, None, time.monotonic()
    for part in results:
        yield part
        done, now = done + len(part), time.monotonic()
        first = first or (done, now)  # the pace is that of what follows: processes take seconds to start
        if now - said >= INTERVAL and done > first[0]:
            left = (now - first[1]) / (done - first[0]) * (total - done)
            with contextlib.suppress(OSError):  # nobody reads the lines
                print(f"{title}: {done:,} of {total:,} graphs, about {left:.0f} s left", file=sys.stderr, flush=True)
            said = now
