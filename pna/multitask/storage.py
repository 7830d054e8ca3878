"""Data sets on disk: one npz file without pickle, with its specification, seed and checksum inside."""

import hashlib
import json
import os
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pna.atomic import write_whole
from pna.multitask.dataset import SEED, MultiTask, make
from pna.multitask.graphset import GraphSet
from pna.multitask.specification import Spec
from pna.multitask.splits import COLLECTIONS, Split

__all__ = ["cached", "data_folder", "load", "path_of", "save"]

_FORMAT = 1  # to be raised with any change of the layout or of the random numbers
_ARRAYS = tuple(field.name for field in fields(GraphSet) if field.name != "maxima")  # the maxima follow from "train"


def data_folder() -> Path:
    """Where data sets are kept: the folder in the environment variable PNA_DATA, or else ~/.cache/pna."""
    return Path(os.environ.get("PNA_DATA") or Path.home() / ".cache" / "pna").expanduser()


def path_of(collection: str, spec: Spec, seed: int = SEED, folder: Path | None = None) -> Path:
    """The file of one of COLLECTIONS."""
    if collection not in COLLECTIONS:
        raise ValueError(f"collection must be one of {', '.join(COLLECTIONS)}; got {collection!r}")
    return (folder or data_folder()) / "multitask" / f"{collection}-{spec}-{seed}.npz"


def cached(
    collection: str, spec: Spec, seed: int = SEED, folder: Path | None = None, *, progress: bool = False
) -> MultiTask:
    """One of COLLECTIONS from its file, which is made first if it is missing."""
    path = path_of(collection, spec, seed, folder)
    splits = COLLECTIONS[collection](spec)
    if path.exists():
        data = load(path)
        if (data.spec, data.seed, data.splits) != (spec, seed, splits):
            raise ValueError(f"{path} holds another data set (spec {data.spec}, seed {data.seed}); remove or rename it")
        return data
    data = make(spec, splits, seed, progress=progress)
    save(data, path)
    return data


def save(data: MultiTask, path: Path | str) -> None:
    """Write a data set in one go: the file is either there, whole, or not there."""
    path = Path(path)
    metadata = {
        "format": _FORMAT,
        "spec": asdict(data.spec),
        "seed": data.seed,
        "splits": [asdict(split) for split in data.splits],
    }
    arrays = {f"{name}/{field}": getattr(graphs, field) for name, graphs in data.sets.items() for field in _ARRAYS}
    arrays["metadata"] = _text(json.dumps(metadata))
    arrays["sha256"] = _text(_checksum(arrays))
    write_whole(path, lambda file: np.savez_compressed(file, **arrays))


def load(path: Path | str) -> MultiTask:
    """Read a data set; a file that is cut off, altered or not a data set raises a ValueError that names it."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        stated = _string(arrays.pop("sha256"))
        metadata = json.loads(_string(arrays["metadata"]))
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged file fails wherever the reading of zip files stumbles over it
        raise ValueError(f"{path} is no multi-task data set, or it is damaged: {error}") from error
    if _checksum(arrays) != stated:
        raise ValueError(f"{path} has been altered: its contents do not have the checksum it states; make it again")
    if metadata["format"] != _FORMAT:
        raise ValueError(f"{path} has format {metadata['format']}, and this version reads format {_FORMAT}")
    splits = tuple(Split(**split) for split in metadata["splits"])
    sets = {
        split.name: GraphSet(**{field: arrays[f"{split.name}/{field}"] for field in _ARRAYS}, maxima=np.ones(6))
        for split in splits
    }
    return MultiTask(Spec(**metadata["spec"]), metadata["seed"], splits, sets)


def _checksum(arrays: dict[str, NDArray]) -> str:
    """SHA-256 over names, types, shapes and values, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _text(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _string(array: NDArray[np.uint8]) -> str:
    return array.tobytes().decode()
