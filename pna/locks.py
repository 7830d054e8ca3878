"""Locks that die with their process, and what a killed process left behind.

A lock is a file, locked with flock, beside the one that it guards. A file that is being written is locked too: so
what no process holds is left over, whoever left it, and may go.
"""

import contextlib
import fcntl
import glob
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["locked", "new_beside", "remove_left_over"]

_GUARD = "its new processes read your script again, so put what it does under `if __name__ == '__main__':`"
INSTANT = 0.2  # seconds for which one who removes what is left over may hold a lock, and far more


@contextlib.contextmanager
def locked(path: Path, doing: str, waiting: Callable[[], object] | None = None) -> Iterator[None]:
    """Holds the lock of a file, so that one process at a time makes it; another one is told which is `doing` that.

    With `waiting`, which is called again and again, it waits for the other instead; but never for the process that
    started it, since that one waits for its own processes to be up.
    """
    lock = path.with_name(f".{path.name}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    patient = time.monotonic() + INSTANT
    while (handle := _taken(lock)) is None:
        if waiting is not None and _holder(lock) != f"process {os.getppid()}":
            waiting()
        elif waiting is not None:
            raise RuntimeError(f"{_holder(lock)}, which started this one, is {doing}: {_GUARD}")
        elif time.monotonic() > patient:
            raise BlockingIOError(f"{_holder(lock)} is {doing} at this moment")
        time.sleep(INSTANT / 10)
    try:
        with contextlib.suppress(OSError):  # on a full disk the other one is not told the number, and no more is lost
            os.ftruncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _taken(lock: Path) -> int | None:
    """The lock's file, open and locked; None if another process has it."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _in_place(handle, lock):
            return handle
    os.close(handle)
    return None


def _holder(lock: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        if process := lock.read_text():
            return f"process {process}"
    return "another process"


def new_beside(path: Path) -> tuple[int, Path]:
    """A new file in the same folder, open and locked for as long as it is."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with contextlib.suppress(OSError):  # a file system without locks: there nothing is taken for left over
            fcntl.flock(handle, fcntl.LOCK_EX)
        if _in_place(handle, name):
            return handle, Path(name)
        os.close(handle)  # it was taken for left over before it was locked


def remove_left_over(path: Path) -> None:
    """Removes what killed processes left beside a file: unfinished files and locks that no process holds."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
        with contextlib.suppress(OSError), left.open("rb") as file:  # held by another, or gone
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _in_place(file.fileno(), left):
                left.unlink()


def _in_place(handle: int, path: Path | str) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
