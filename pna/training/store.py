"""The store: one small JSON per finished cell, with its configuration, per-seed errors, curves and provenance."""

import hashlib
import math
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

import pna
from pna.files import hash_of, read_json, write_json

__all__ = ["FORMAT", "ReplicaResult", "Result", "finite", "load", "provenance", "save", "thinned"]

FORMAT = 2  # to be raised with any change of what a file holds
CURVE_POINTS = 500
RESULT_POINTS = 5_000  # of all its curves: a result with sixty replicas, as single tasks have, would be a megabyte


@dataclass(frozen=True)
class ReplicaResult:
    """What became of one replica: one seed, or one seed on one task."""

    seed: int
    task: str | None  # None: all of them
    epochs: int
    best_epoch: int
    ended_by: str  # patience, epochs, learning rate, divergence, or search: left behind in a search
    validation: float | None  # of the best epoch; None where there is none, or where it is not a finite number
    test: dict[str, list[float | None]]  # the errors by test set
    curve: list[list[float | None]]  # epoch, training loss, validation loss, …

    @property
    def diverged(self) -> bool:
        """Whether its loss was no longer finite."""
        return self.ended_by == "divergence"


@dataclass(frozen=True)
class Result:
    """A recorded cell: a fact with its provenance."""

    cell: str
    hash: str  # of the configuration
    configuration: dict
    facts: dict  # what else the benchmark has to say
    seconds: float
    device: str
    versions: dict[str, str]
    code: str  # hash of the package's sources
    commit: str | None
    written: str
    replicas: tuple[ReplicaResult, ...]
    relabelled: dict | None = None  # what it was recorded as, where the table of departures has grown since
    format: int = FORMAT


def save(path: Path, result: Result) -> None:
    """Writes a result, with a checksum over all of it."""
    content = asdict(result)
    write_json(path, {"sha256": hash_of(content)} | content)


def load(path: Path) -> Result:
    """A result; a file that is damaged, altered or of another format raises a ValueError that names it."""
    return _checked(path.read_bytes(), path)


@lru_cache(maxsize=256)  # a page, or a list of claims, asks for the same result many times
def _checked(text: bytes, path: Path) -> Result:
    content = read_json(path, text)
    stated, found = content.pop("sha256", None), content.get("format")
    if found != FORMAT:
        raise ValueError(f"{path} is not a result of format {FORMAT}, but of format {found}")
    if stated != hash_of(content):
        raise ValueError(f"{path} has been altered: its contents do not have the checksum that it states")
    try:
        result = Result(**content)
        result = replace(result, replicas=tuple(ReplicaResult(**replica) for replica in result.replicas))
    except TypeError as error:
        raise ValueError(f"{path} does not hold what a result holds: {error}") from error
    if result.hash != hash_of(result.configuration):
        raise ValueError(f"{path} has been altered: its configuration does not have the hash that it claims")
    return result


def provenance(on_gpu: bool) -> dict:
    """What a result says of where it comes from: device, versions, code, commit, time."""
    return {
        "device": torch.cuda.get_device_name() if on_gpu else platform.machine(),
        "versions": {name: version(name) for name in ("torch", "torch_geometric", "numpy", "networkx")}
        | {"python": platform.python_version()},
        "code": _code_hash(),
        "commit": _commit(),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _commit() -> str | None:
    """The commit that the package is of: PNA_COMMIT, or what git says of its folder; None if neither knows."""
    if named := os.environ.get("PNA_COMMIT"):
        return named
    try:
        asked = ["git", "-C", str(Path(pna.__file__).parent), "rev-parse", "HEAD"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _code_hash() -> str:
    """Of the package's sources."""
    root = Path(pna.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".cu", ".cuh")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def thinned(curve: Tensor, curves: int) -> list[list[float | None]]:
    """[epoch, training loss, validation loss, …] of some epochs, the first and the last among them; one of `curves`."""
    most = min(CURVE_POINTS, max(2, RESULT_POINTS // curves), len(curve))
    points = torch.linspace(0, len(curve) - 1, most).round().long().unique().tolist()
    return [[epoch + 1, *(finite(float(f"{loss:.6g}")) for loss in curve[epoch].tolist())] for epoch in points]


def finite(value: float) -> float | None:
    """A number that JSON knows, or null."""
    return value if math.isfinite(value) else None
