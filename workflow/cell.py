"""`cell.py PROFILE BUILD CELL... [--time-budget SECONDS]`: trainings as one job of the workflow.

A training that was left behind by a killed workflow may still be running: the next one waits for it at the cell's
lock, and then finds its checkpoint or its result.
"""

import contextlib
import fcntl
import sys
import traceback
from pathlib import Path

from pna.experiments.command import train


def main(profile: str, build: str, *words: str) -> int:
    """Trains each cell on from its checkpoint; the exit code is the first that is not 0."""
    place = words.index("--time-budget") if "--time-budget" in words else len(words)
    cells, budget = words[:place], words[place:]
    codes = [_train(cell, profile, Path(build), budget) for cell in cells]
    return next((code for code in codes if code), 0)


def _train(cell: str, profile: str, build: Path, budget: tuple[str, ...]) -> int:
    """One cell, with a log of its own."""
    log = build / "logs" / "train" / f"{cell}.log"
    lock = build / "locks" / f"{cell.replace('/', '-')}.lock"
    for path in (log, lock):
        path.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("a", buffering=1, encoding="utf-8") as out,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
        lock.open("w") as held,
    ):
        fcntl.flock(held, fcntl.LOCK_EX)  # released when the process ends, however it does
        try:
            return train([cell, "--profile", profile, "--resume", *budget])
        except Exception:  # the other cells of the job go on
            traceback.print_exc()
            return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
