"""NVIDIA's MPS: the kernels of several processes on one GPU at the same time, where else they would take turns."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pna.locks import locked

__all__ = ["mps"]

_CONTROL = "nvidia-cuda-mps-control"
_PREFIX = "pna-mps-"


@contextlib.contextmanager
def mps(say: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """Starts the daemon in a folder of its own and ends it in any case; yields what its clients' environment needs.

    Where it cannot be started `say` is told why, and nothing is needed.
    """
    _end_left_over()
    new = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}"))  # until it is locked, under a name that no one looks for
    folder = new.with_name(new.name.removeprefix("."))
    try:
        with locked(new / "daemon", "using MPS"):  # which tells the next one whether this folder is left over
            new.rename(folder)
            why = _start(folder)
            if why:
                say(f"no MPS ({why}): the trainings take turns on the GPU")
            try:
                yield {} if why else _environment(folder)
            finally:
                _quit(folder)
    finally:
        for path in (new, folder):
            shutil.rmtree(path, ignore_errors=True)


def _environment(folder: Path) -> dict[str, str]:
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}


def _start(folder: Path) -> str:
    """Why it could not be started; nothing if it was."""
    if shutil.which(_CONTROL) is None:
        return f"{_CONTROL} is not on the PATH"
    if os.geteuid() != 0:
        return "it needs root"
    done = _control(folder, "-d")
    if done is None:
        return f"{_CONTROL} did not answer"
    words = (done.stderr or done.stdout).strip().splitlines()
    return "" if done.returncode == 0 else (words[0] if words else f"{_CONTROL} failed with {done.returncode}")


def _quit(folder: Path) -> None:
    if shutil.which(_CONTROL) is not None:
        _control(folder, said="quit\n")  # without a daemon it has no effect


def _control(folder: Path, *words: str, said: str = "") -> subprocess.CompletedProcess | None:
    """Calls the control program; None if it hangs."""
    own = os.environ | _environment(folder)
    with contextlib.suppress(subprocess.TimeoutExpired, OSError):
        return subprocess.run([_CONTROL, *words], input=said, env=own, capture_output=True, text=True, timeout=60)
    return None


def _end_left_over() -> None:
    """Ends the daemons of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), locked(folder / "daemon", "using MPS"):  # another's that is alive is left
            _quit(folder)
            shutil.rmtree(folder, ignore_errors=True)
