"""NVIDIA's MPS, which runs the kernels of several processes on one GPU concurrently instead of in turns."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from pna.locks import locked

__all__ = ["mps"]

_CONTROL = "nvidia-cuda-mps-control"
_PREFIX = "pna-mps-"


@contextlib.contextmanager
def mps(gpu: str, say: Callable[[str], object]) -> Iterator[dict[str, str]]:
    """Run an MPS daemon for one GPU during a `with` block; yield the environment variables that its clients need.

    `gpu` is the GPU's number or UUID, as in CUDA_VISIBLE_DEVICES. If the daemon cannot be started, `say` is called with
    the reason, and there are no variables.
    """
    _end_left_over()
    new = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}"))  # hidden from _end_left_over until it is locked
    folder = new.with_name(new.name.removeprefix("."))
    try:
        with locked(new / "daemon", "using MPS"):  # a folder without a lock is left over
            new.rename(folder)
            why = _start(folder, gpu)
            if why:
                say(f"no MPS ({why}): the trainings take turns on the GPU")
            try:
                yield {} if why else _environment(folder) | {"CUDA_VISIBLE_DEVICES": _seen_by_clients(gpu)}
            finally:
                _quit(folder)
    finally:
        for path in (new, folder):
            shutil.rmtree(path, ignore_errors=True)


def _environment(folder: Path) -> dict[str, str]:
    """Environment variables that tell the daemon and its clients where their pipes and logs are."""
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}


def _seen_by_clients(gpu: str) -> str:
    """Name of the daemon's only GPU for its clients: number 0 or, if it was named by a UUID, the same UUID."""
    return "0" if gpu.isdecimal() else gpu


def _start(folder: Path, gpu: str) -> str:
    """Start the daemon; return the reason if it could not be started, and "" otherwise."""
    if shutil.which(_CONTROL) is None:
        return f"{_CONTROL} is not on the PATH"
    if os.geteuid() != 0:
        return "it needs root"
    done = _control(folder, "-d", gpu=gpu)
    if done is None:
        return f"{_CONTROL} did not answer"
    words = (done.stderr or done.stdout).strip().splitlines()
    return "" if done.returncode == 0 else (words[0] if words else f"{_CONTROL} failed with {done.returncode}")


def _quit(folder: Path) -> None:
    """Ask the daemon with its pipes in `folder` to quit, if the control program is installed."""
    if shutil.which(_CONTROL) is not None:
        _control(folder, text="quit\n")  # no effect without a daemon


def _control(folder: Path, *words: str, text: str = "", gpu: str | None = None) -> subprocess.CompletedProcess | None:
    """Call the control program with `text` as its input; None if it hangs or cannot be run."""
    environment = os.environ | _environment(folder) | ({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})
    with contextlib.suppress(subprocess.TimeoutExpired, OSError):
        command = [_CONTROL, *words]
        return subprocess.run(command, input=text, env=environment, capture_output=True, text=True, timeout=60)
    return None


def _end_left_over() -> None:
    """End the daemons of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with (
            contextlib.suppress(OSError, UserWarning),
            warnings.catch_warnings(action="error", category=UserWarning),  # without locks, the owner may be alive
            locked(folder / "daemon", "using MPS"),  # raises if it is
        ):
            _quit(folder)
            shutil.rmtree(folder, ignore_errors=True)
