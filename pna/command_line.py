"""What all commands share: the types of their options, and how they end.

Exit codes: 0 done, 1 failed, 2 bad value, 3 out of time, 4 missing data set, 5 GPU memory full, 130 stopped by Ctrl-C,
143 by SIGTERM, 141 because nobody reads the output any more.
"""

import argparse
import errno
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from pna.errors import GPUFull, MissingData, OutOfTime

__all__ = ["BAD_VALUE", "FAILED", "GPU_FULL", "MISSING_DATA", "UNFINISHED", "Interrupts"]
__all__ += ["device", "positive", "quietly", "run_command", "say_if_empty", "seconds"]

FAILED = 1
BAD_VALUE = 2
UNFINISHED = 3
MISSING_DATA = 4
GPU_FULL = 5
SAME = 1.0  # seconds within which two signals count as one


def say_if_empty(results: Path) -> None:
    """Say on stderr that no result is recorded, as after an installation without the repository."""
    if not any(results.glob("*/*/*/*.json")):
        words = f"No result is recorded in {results}: results come with a clone of the repository, or by pna train."
        print(words, file=sys.stderr)


def run_command(name: str, run: Callable[[], int | None], stopped: str = "stopped") -> int:
    """Run a command; an error or Ctrl-C becomes one line on stderr and an exit code instead of a traceback."""
    try:
        return run() or 0
    except MissingData as error:
        code, words = MISSING_DATA, error
    except OutOfTime as error:
        code, words = UNFINISHED, error
    except GPUFull as error:
        code, words = GPU_FULL, error
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        installable = package not in sys.stdlib_module_names  # unlike fcntl, which Windows lacks
        code, words = BAD_VALUE, f"{package} is not installed: pip install {package}" if installable else error
    except (ValueError, ImportError) as error:
        code, words = BAD_VALUE, error
    except (OSError, MemoryError) as error:
        if _of_the_output(error):
            raise
        code, words = FAILED, error
    except KeyboardInterrupt as error:
        code, words = 128 + (error.args[0] if error.args else signal.SIGINT), stopped
    print(f"pna {name}: {words}", file=sys.stderr)
    return code


def quietly(run: Callable[[], int]) -> int:
    """Run a whole program; an output that is closed or full ends it without a traceback."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: the next file to be opened would take its place
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (open to the end)
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if not _of_the_output(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
        if error.errno == errno.EPIPE:
            return 128 + signal.SIGPIPE
        print(f"pna: the output cannot be written: {error.strerror}", file=sys.stderr)
        return FAILED


def _of_the_output(error: BaseException) -> bool:
    """Whether an error comes from printing: errors of files name the file."""
    numbers = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF)
    return isinstance(error, OSError) and error.filename is None and error.errno in numbers


class Interrupts:
    """Defer Ctrl-C and SIGTERM to the end of the step in progress.

    Outside the stepping loop, or when sent a second time, they take effect immediately. Signals within a second of the
    first count as one, because a terminal and the program that was started from it may both send it.
    """

    def __enter__(self) -> "Interrupts":
        self.signal, self._when, self._asked = 0, math.inf, False
        numbers = (signal.SIGINT, signal.SIGTERM)
        self._before = {number: signal.getsignal(number) for number in numbers}
        for number, before in self._before.items():
            if before is not signal.SIG_IGN:  # ignored, as in a script's background job
                signal.signal(number, self._came)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def __call__(self) -> bool:
        """Whether a signal has come; to be asked after every step."""
        self._asked = True
        return self.signal > 0

    def no_more_steps(self) -> None:
        """Leave the stepping loop: a signal that came during the last step takes effect now."""
        self._asked = False
        if self.signal:
            raise KeyboardInterrupt(self.signal)

    def _came(self, number: int, _: FrameType | None) -> None:
        """Handle a signal: remember it, or raise KeyboardInterrupt."""
        if not self._asked or time.monotonic() > self._when + SAME:
            raise KeyboardInterrupt(number)
        if not self.signal:
            self.signal, self._when = number, time.monotonic()


def positive(text: str) -> int:
    """Parse an option that counts something: a positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    if int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"must be less than 2,147,483,648, got {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """Parse an option that is a time in seconds."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not negative, got {text!r}")
    return number


def device(text: str) -> str:
    """Parse an option that names a device, and check that it is available; cpu:0 is cpu."""
    import torch

    if text.partition(":")[0] not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"must be cpu or cuda, got {text!r}")
    try:
        if torch.cuda.is_available() and text == "cuda":
            return text  # known without a context, which a process that only starts others must not hold
        torch.empty(0, device=text)
    except (RuntimeError, AssertionError) as error:  # torch raises either
        raise argparse.ArgumentTypeError(f"{text!r} cannot be used here: {str(error).splitlines()[0]}") from error
    return "cpu" if text.startswith("cpu") else text
