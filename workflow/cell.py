"""`cell.py PROFILE BUILD CELL... [--time-budget SECONDS]`: trainings as one job of the workflow.

A training that was left behind by a killed workflow may still be running: the next one waits for it, and then finds
its checkpoint or its result.
"""

import contextlib
import sys
import traceback
from pathlib import Path

from pna.experiments.command import train

STOPPED = 128  # exit codes from here on are of signals


def main(profile: str, build: str, *words: str) -> int:
    """Trains each cell on from its checkpoint; the exit code is the first that is not 0."""
    place = words.index("--time-budget") if "--time-budget" in words else len(words)
    cells, budget = words[:place], words[place:]
    first = 0
    for cell in cells:
        code = _train(cell, profile, Path(build), budget)
        first = first or code
        if code >= STOPPED:
            return code
    return first


def _train(cell: str, profile: str, build: Path, budget: tuple[str, ...]) -> int:
    """One cell, with a log of its own."""
    log = build / "logs" / "train" / f"{cell}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("a", buffering=1, encoding="utf-8") as out,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        try:
            return train([cell, "--profile", profile, "--resume", "--wait", *budget])
        except Exception:  # the other cells of the job go on
            traceback.print_exc()
            return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
