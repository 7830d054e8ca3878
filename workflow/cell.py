"""`cell.py PROFILE DEVICE BUILD CELL... [--time-budget SECONDS --side-by-side N]`: trainings as one job.

A training that was left behind by a killed workflow may still be running: the next one waits for it, and then finds
its checkpoint or its result.
"""

import contextlib
import sys
import traceback
from pathlib import Path

from pna.experiments.command import train

STOPPED = 128  # exit codes from here on stand for signals


def main(profile: str, device: str, build: str, *words: str) -> int:
    """Train each cell, from its checkpoint if there is one; return the first exit code that is not 0.

    Cells are trained side by side if `words` say so, otherwise one by one.
    """
    cells = [word for word in words if "/" in word]
    options, logs = words[len(cells) :], Path(build) / "logs" / "train"
    settings = ("--profile", profile, "--device", device, *options)
    if len(cells) > 1 and "--side-by-side" in options:
        return train([*cells, *settings, "--logs", str(logs)])
    first = 0
    for cell in cells:
        code = _train(cell, settings, logs / f"{cell}.log")
        first = first or code
        if code >= STOPPED:
            return code
    return first


def _train(cell: str, settings: tuple[str, ...], log: Path) -> int:
    """Train one cell, with a log of its own; return the exit code."""
    place = settings.index("--side-by-side") if "--side-by-side" in settings else len(settings)
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("a", buffering=1, encoding="utf-8") as out,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        try:
            return train([cell, *settings[:place], "--resume", "--wait"])
        except Exception:  # the other cells of the job go on
            traceback.print_exc()
            return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
