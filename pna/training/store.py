"""The store: one small JSON per finished cell, with its configuration, per-seed errors, curves and provenance."""

import hashlib
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

import pna
from pna.files import hash_of, read_json, read_whole, write_json

__all__ = ["FORMAT", "ReplicaResult", "Result", "code_files", "code_hash"]
__all__ += ["finite", "load", "provenance", "rounded", "save", "thinned", "thinner"]

FORMAT = 3  # raised when a field goes or changes its meaning; one that is new and has a default needs no other format
BY_REPLICA = 2  # the format before, in which each replica had its own test errors; it is read, too
FIRST_EPOCHS = 10  # always in a learning curve, for a replay to be compared with
CURVE_POINTS = 500  # at most, besides
RESULT_POINTS = 1_500  # over all curves of a result

# What a training depends on: the modules of the package's root and of these folders, except those that only choose
# what is trained, show a result, or talk to the user.
_FOLDERS = ("kernels", "networks", "multitask", "realworld", "training", "experiments")
_LEFT_OUT = {
    *("__init__.py", "__main__.py", "command_line.py", "report.py", "text.py", "kernels/choice.py"),
    *("multitask/card.py", "multitask/command.py", "multitask/gallery.py", "networks/command.py"),
    *("realworld/command.py", "realworld/data/card.py"),
    *("experiments/__init__.py", "experiments/command.py", "experiments/figure6.py", "experiments/mps.py"),
    *("experiments/progress.py", "experiments/replay.py", "experiments/side_by_side.py", "experiments/tables.py"),
}


@dataclass(frozen=True)
class ReplicaResult:
    """What became of one replica: one seed, or one seed on one task."""

    seed: int
    task: str | None  # None: all tasks
    epochs: int
    best_epoch: int
    ended_by: str  # patience, epochs, learning rate, divergence, or search: left behind in a search
    validation: float | None  # in the best epoch; None if there is none, or if it is not finite
    test: dict[str, list[float | None]]  # the error on each task, by test set
    curve: list[list[float | None]]  # epoch, training loss, validation loss, …

    @property
    def diverged(self) -> bool:
        """Whether the replica ended because its loss was not finite."""
        return self.ended_by == "divergence"


@dataclass(frozen=True)
class Result:
    """A recorded cell: its configuration, what became of every replica, and where the numbers come from."""

    cell: str
    hash: str  # SHA-256 of the configuration
    configuration: dict
    facts: dict  # what the benchmark adds
    seconds: float
    device: str
    versions: dict[str, str]
    code: str  # SHA-256 of the sources that a training depends on
    commit: str | None
    clean: bool | None = field(default=None, kw_only=True)  # whether the package was as committed; None: not known
    written: str
    replicas: tuple[ReplicaResult, ...]
    relabelled: dict | None = None  # its first configuration, if the table of departures has changed since
    unthinned: str | None = None  # the checksum that it had before its curves were made thinner
    format: int = FORMAT


def save(path: Path, result: Result) -> None:
    """Write a result, with a checksum of all its fields."""
    content = _by_test_set(asdict(result))
    write_json(path, {"sha256": hash_of(content)} | content)


def _by_test_set(content: dict) -> dict:
    """The fields as a file holds them: a test set's name once, with the errors of every replica."""
    tests = [replica["test"] for replica in content["replicas"]]
    if any(test.keys() != tests[0].keys() for test in tests):
        raise ValueError(f"the replicas of {content['cell']} were not tested on the same sets")
    bare = [{name: value for name, value in replica.items() if name != "test"} for replica in content["replicas"]]
    return content | {"replicas": bare, "tests": {name: [test[name] for test in tests] for name in tests[0]}}


def _by_replica(content: dict) -> dict:
    """The fields of a result, from those of a file: the inverse of `_by_test_set`."""
    tests, replicas = content.pop("tests", None), content.get("replicas")
    if not isinstance(tests, dict) or not all(
        isinstance(rows, list) and len(rows) == len(replicas) for rows in tests.values()
    ):
        raise TypeError("tests must be lists, with a row for each replica, by name")
    rows = (replica | {"test": {name: rows[k] for name, rows in tests.items()}} for k, replica in enumerate(replicas))
    return content | {"replicas": list(rows)}


def load(path: Path) -> Result:
    """Read a result; a file that is damaged, altered or of another format raises a ValueError that names it."""
    return _checked(read_whole(path), path)


@lru_cache(maxsize=256)  # a page, or a list of claims, asks for the same result many times
def _checked(text: bytes, path: Path) -> Result:
    """Parse a result; raise unless format, fields and checksums are right."""
    content = read_json(path, text)
    stated, form = content.pop("sha256", None), content.get("format")
    if form not in (FORMAT, BY_REPLICA):
        raise ValueError(f"{path} is not a result of format {FORMAT} or {BY_REPLICA}, but of format {form}")
    if stated != hash_of(content):
        raise ValueError(f"{path} has been altered: its contents do not have the checksum that it states")
    try:
        result = Result(**_by_replica(content) if form == FORMAT else content | {"format": FORMAT})
        result = replace(result, replicas=tuple(ReplicaResult(**replica) for replica in result.replicas))
        _check_kinds(result)
        for replica in result.replicas:
            _check_kinds(replica)
    except TypeError as error:
        raise ValueError(f"{path} does not hold what a result holds: {error}") from error
    if result.hash != hash_of(result.configuration):
        raise ValueError(f"{path} has been altered: its configuration does not have the hash that it claims")
    return result


def _is_number(value: object) -> bool:
    """Whether a value is a number that a float can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _are_rows(value: object) -> bool:
    """Whether a value is a list of lists of numbers, or of None."""
    return isinstance(value, list | tuple) and all(
        isinstance(row, list) and all(number is None or _is_number(number) for number in row) for row in value
    )


# What the fields must be that the rest of the program computes with, in words and as a function.
_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    **dict.fromkeys(
        ("cell", "hash", "device", "code", "written", "ended_by"), ("a text", lambda v: isinstance(v, str))
    ),
    **dict.fromkeys(("configuration", "facts", "versions"), ("an object", lambda v: isinstance(v, dict))),
    **dict.fromkeys(("commit", "task"), ("a text or null", lambda v: v is None or isinstance(v, str))),
    **dict.fromkeys(("seed", "epochs", "best_epoch"), ("an integer", lambda v: isinstance(v, int) and _is_number(v))),
    "seconds": ("a number", _is_number),
    "validation": ("a number or null", lambda v: v is None or _is_number(v)),
    "replicas": ("a list of at least one", lambda v: len(v) > 0),
    "test": ("lists of numbers by name", lambda v: isinstance(v, dict) and _are_rows(list(v.values()))),
    "curve": ("a list of rows of numbers", _are_rows),
}


def _check_kinds(record: Result | ReplicaResult) -> None:
    """Raise a TypeError that names the first field whose value is not of the kind that _KINDS states."""
    for name, (words, fits) in _KINDS.items():
        if hasattr(record, name) and not fits(getattr(record, name)):
            raise TypeError(f"{name} must be {words}")


def provenance(on_gpu: bool) -> dict:
    """The fields of a result that say where it comes from: device, versions, code, commit, time."""
    return {
        "device": torch.cuda.get_device_name() if on_gpu else platform.machine(),
        "versions": {name: version(name) for name in ("torch", "torch_geometric", "numpy", "networkx")}
        | {"python": platform.python_version()},
        "code": code_hash(Path(pna.__file__).parent),
        **_commit(),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _commit() -> dict[str, str | bool | None]:
    """The commit of the package, and whether its folder is as committed; None for what git does not know.

    The environment variable PNA_COMMIT names the commit instead; a tree that was not clean ends in -dirty there, as in
    the output of `git describe --dirty`.
    """
    if named := os.environ.get("PNA_COMMIT"):
        return {"commit": named.removesuffix("-dirty"), "clean": not named.endswith("-dirty")}
    try:
        commit, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "clean": None}
    return {"commit": commit, "clean": not changes}


def _git(*words: str) -> str:
    """The output of a git command in the package's folder."""
    command = ["git", "-C", str(Path(pna.__file__).parent), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def code_files(package: Path) -> list[str]:
    """The sources that a training depends on, by their paths within the package, sorted."""
    paths = [*package.glob("*"), *(path for folder in _FOLDERS for path in (package / folder).rglob("*"))]
    names = (path.relative_to(package).as_posix() for path in paths if path.suffix in (".py", ".cu", ".cuh"))
    return sorted(name for name in names if name not in _LEFT_OUT)


def code_hash(package: Path) -> str:
    """SHA-256 over the names and contents of `code_files`."""
    digest = hashlib.sha256()
    for name in code_files(package):
        digest.update(name.encode() + b"\0" + (package / name).read_bytes() + b"\0")
    return digest.hexdigest()


def thinned(curve: Tensor, curves: int) -> list[list[float | None]]:
    """Thin a learning curve to rows [epoch, training loss, validation loss, …]; the first epochs and the last remain.

    `curves` is the number of curves in the result, which share RESULT_POINTS.
    """
    return [[epoch + 1, *map(rounded, curve[epoch].tolist())] for epoch in _places(len(curve), _most(curves))]


def thinner(result: Result, checksum: str, points: int = RESULT_POINTS) -> Result:
    """A recorded result whose curves share `points`, as in a new one; the point nearest the best epoch remains.

    Its checksum, which the repository's history can be searched for, is kept. A result whose curves are thin enough is
    returned as it is.
    """
    replicas = tuple(_thinner(replica, len(result.replicas), points) for replica in result.replicas)
    if replicas == result.replicas:
        return result
    return replace(result, replicas=replicas, unthinned=result.unthinned or checksum)


def _thinner(replica: ReplicaResult, curves: int, points: int) -> ReplicaResult:
    """A replica with fewer points of its curve, unless it has few already."""
    if len(replica.curve) <= _most(curves, points) + FIRST_EPOCHS + 1:
        return replica
    places = set(_places(len(replica.curve), _most(curves, points)))
    near = (point for point in replica.curve if point[1] is not None)
    best = min(near, key=lambda point: abs(point[0] - replica.best_epoch), default=None)
    curve = [point for place, point in enumerate(replica.curve) if place in places or point is best]
    return replace(replica, curve=curve)


def _places(points: int, most: int) -> list[int]:
    """The places of the points that remain of a curve: the first epochs', and others as far apart as possible."""
    spread = torch.linspace(0, points - 1, min(most, points)).round().long()
    return torch.cat([torch.arange(min(FIRST_EPOCHS, points)), spread]).unique().tolist()


def _most(curves: int, points: int = RESULT_POINTS) -> int:
    """How many points a curve may have besides its first epochs, if all curves of a result share `points`."""
    return min(CURVE_POINTS, max(2, points // curves))


def rounded(loss: float) -> float | None:
    """A loss to the six digits of a learning curve; None if it is not finite."""
    return finite(float(f"{loss:.6g}"))


def finite(value: float) -> float | None:
    """The number, or None if JSON cannot hold it."""
    return value if math.isfinite(value) else None
