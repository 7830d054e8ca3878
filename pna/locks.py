"""Locks that end with their process, and the removal of what a killed process left behind.

A lock is a file beside the one that it guards, locked with flock. A file that is being written is locked too. So a file
that no process holds is left over, and may be removed.
"""

import contextlib
import errno
import fcntl
import glob
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["locked", "new_beside", "remove_left_over"]

_GUARD = "its new processes read your script again, so put what it does under `if __name__ == '__main__':`"
INSTANT = 0.2  # generous bound, in seconds, on how long clean-up holds a lock
UNFINISHED = ".unfinished"  # end of the name of a file that is being written
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)  # what flock answers on a file system without locks


@contextlib.contextmanager
def locked(path: Path, doing: str, waiting: Callable[[], object] | None = None) -> Iterator[None]:
    """Hold the lock of a file, so that one process at a time writes it; the error of another says who is `doing` what.

    With `waiting`, a function that is called again and again, another process waits instead of raising an error. It
    never waits for the process that started it, because that one waits for its own processes to start.
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
        with contextlib.suppress(OSError):  # on a full disk, the others do not learn the process's number
            os.ftruncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _taken(lock: Path) -> int | None:
    """Open and lock the lock's file, or return None if another process holds it.

    On a file system without locks it is opened and not locked, and a warning says so.
    """
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:
            warnings.warn(f"{lock.parent} has no locks: two processes may do the same work there", stacklevel=4)
            return handle
        os.close(handle)
        if isinstance(error, BlockingIOError):
            return None
        raise
    if _in_place(handle, lock):
        return handle
    os.close(handle)
    return None


def _holder(lock: Path) -> str:
    """The process that holds a lock, in words."""
    with contextlib.suppress(FileNotFoundError):
        if process := lock.read_text():
            return f"process {process}"
    return "another process"


def new_beside(path: Path) -> tuple[int, Path]:
    """Create a file in the folder of `path`, which is locked as long as it is open."""
    while True:
        handle, name = tempfile.mkstemp(UNFINISHED, f".{path.name}.", path.parent)
        with contextlib.suppress(OSError):  # a file system without locks: nothing is removed there
            fcntl.flock(handle, fcntl.LOCK_EX)
        if _in_place(handle, name):
            return handle, Path(name)
        os.close(handle)  # another process removed it before it was locked


def remove_left_over(path: Path) -> None:
    """Remove what killed processes left beside a file: unfinished files and locks that no process holds."""
    name = glob.escape(path.name)
    for left in (*path.parent.glob(f".{name}.*{UNFINISHED}"), path.with_name(f".{path.name}.lock")):
        with contextlib.suppress(OSError), left.open("rb") as file:  # held by another, or gone
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _in_place(file.fileno(), left):
                left.unlink()


def _in_place(handle: int, path: Path | str) -> bool:
    """Whether an open file is still the one at that path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
