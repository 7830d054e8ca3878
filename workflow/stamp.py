"""What a successful run left behind: as long as nothing has changed since, there is nothing to do.

Only names, sizes and times of files are compared, without importing the package, so that it takes a second. Whatever
differs is left to Snakemake, which knows what depends on what.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["environment", "remember", "up_to_date"]

ROOT = Path(__file__).parents[1]
READ = ("pna", "report", "notebooks", "workflow", "verification", "benchmarks")  # folders that a run may read
SKIPPED = {"__pycache__", ".ipynb_checkpoints"}


def environment() -> dict[str, str]:
    """The variables that decide what a run reads and writes."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(("PNA_", "CUDA_VISIBLE"))}


def up_to_date(arguments: Sequence[str]) -> str | None:
    """The last words of the last run with these arguments, if it would find everything as it left it; else None."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        stamp = json.loads(_place(arguments).read_text(encoding="utf-8"))
        folders = [Path(folder) for folder in stamp["folders"]]
        if stamp["state"] == _state(arguments, folders, environment()):
            return stamp["words"]
    return None


def remember(arguments: Sequence[str], folders: Sequence[Path], words: str | None, began: dict[str, str]) -> None:
    """Record what a successful run left in its folders, and its last words; with None, only remove the older record.

    `began` is the `environment` with which the run began, and to which it may have added.
    """
    place = _place(arguments)
    with contextlib.suppress(OSError):
        place.unlink(missing_ok=True)
        if words is not None and "--" not in arguments:
            stamp = {"folders": list(map(str, folders)), "state": _state(arguments, folders, began), "words": words}
            place.write_text(json.dumps(stamp), encoding="utf-8")


def _place(arguments: Sequence[str]) -> Path:
    """The path of the stamp for these arguments."""
    build = Path(os.environ.get("PNA_BUILD") or ROOT / "build")
    return build / f"done-{hashlib.sha256(repr(_asked(arguments)).encode()).hexdigest()[:12]}.json"


def _asked(arguments: Sequence[str]) -> list[str]:
    """The arguments that decide what a run does: all but --dry-run."""
    return [word for word in arguments if word != "--dry-run"]


def _state(arguments: Sequence[str], folders: Sequence[Path], variables: dict[str, str]) -> str:
    """SHA-256 over the arguments, the environment, and name, size and time of every file that is read or written."""
    facts = [_asked(arguments), sys.executable, variables]
    facts.append(sorted(map(str, Path("/dev").glob("nvidia[0-9]*"))))
    digest = hashlib.sha256(repr(facts).encode())
    for folder in (*(ROOT / name for name in READ), *folders):
        for path, status in _files(folder):
            digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and the status of every file in a folder and its subfolders, in order."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - SKIPPED)
        for name in sorted(files):
            if name != "lock" and not name.startswith("."):  # a lock file beside what it guards
                path = os.path.join(here, name)
                yield path, os.stat(path)
