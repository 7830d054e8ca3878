"""One voice for all commands: what an option takes, and how a failure ends.

Exit codes: 0 done, 1 something failed, 2 a bad value, 3 stopped by the time budget, 4 a data set is not there.
"""

import argparse
import math
import sys
from collections.abc import Callable

__all__ = ["BAD_VALUE", "FAILED", "MISSING_DATA", "UNFINISHED", "MissingData", "device", "positive", "seconds", "told"]

FAILED = 1
BAD_VALUE = 2
UNFINISHED = 3
MISSING_DATA = 4


class MissingData(ValueError):  # noqa: N818 (it reads as what it is)
    """A data set that is not there: nothing is wrong with the program."""


def told(name: str, run: Callable[[], int | None]) -> int:
    """Runs a command; an error becomes words on stderr and an exit code instead of a traceback."""
    try:
        return run() or 0
    except MissingData as error:
        code, words = MISSING_DATA, error
    except (ValueError, ImportError) as error:
        code, words = BAD_VALUE, error
    except OSError as error:
        code, words = FAILED, error
    print(f"pna {name}: {words}", file=sys.stderr)
    return code


def positive(text: str) -> int:
    """The type of an option that counts something."""
    if not text.isdecimal() or not 1 <= int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """The type of an option that gives a time."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not negative, got {text!r}")
    return number


def device(text: str) -> str:
    """The type of an option that names a device, which must be there."""
    import torch

    if text.partition(":")[0] not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"must be cpu or cuda, got {text!r}")
    try:
        torch.empty(0, device=text)
    except (RuntimeError, AssertionError) as error:  # torch raises either
        raise argparse.ArgumentTypeError(f"{text!r} cannot be used here: {str(error).splitlines()[0]}") from error
    return text
