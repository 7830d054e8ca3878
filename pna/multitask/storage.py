"""Multi-task data sets on disk: one npz file each, without pickle, with specification, seed and checksum inside."""

import zipfile
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np

from pna.files import check_writable, read_arrays, write_arrays
from pna.locks import locked, remove_left_over
from pna.multitask.dataset import SEED, MultiTask, make
from pna.multitask.graphset import GraphSet
from pna.multitask.real import RealSplit
from pna.multitask.specification import Spec
from pna.multitask.splits import COLLECTIONS, Split
from pna.places import data_folder

__all__ = ["cached", "load", "path_of", "save"]

_FORMAT = 2  # to be raised with any change of the layout or of the random numbers
_ARRAYS = tuple(field.name for field in fields(GraphSet) if field.name != "maxima")  # the maxima follow from "train"


def path_of(collection: str, spec: Spec, seed: int = SEED, folder: Path | None = None) -> Path:
    """The file of a collection, which is one of COLLECTIONS."""
    if collection not in COLLECTIONS:
        raise ValueError(f"collection must be one of {', '.join(COLLECTIONS)}; got {collection!r}")
    return (folder or data_folder()) / "multitask" / f"{collection}-{spec}-{seed}.npz"


def cached(
    collection: str, spec: Spec, seed: int = SEED, folder: Path | None = None, *, progress: bool = False
) -> MultiTask:
    """Load one of COLLECTIONS from its file, which is made first if it is missing."""
    path = path_of(collection, spec, seed, folder)
    splits = COLLECTIONS[collection](spec)
    remove_left_over(path)
    if not path.exists():
        check_writable(path)
        with locked(path, f"making {path}", waiting=lambda: None):  # several trainings that start together make it once
            if not path.exists():
                data = make(spec, splits, seed, progress=progress)
                save(data, path)
                return data
    data = load(path)
    if (data.spec, data.seed, data.splits) != (spec, seed, splits):
        raise ValueError(f"{path} holds another data set (spec {data.spec}, seed {data.seed}); remove or rename it")
    return data


def save(data: MultiTask, path: Path | str) -> None:
    """Write a data set to a file, whole or not at all."""
    facts = {"spec": asdict(data.spec), "seed": data.seed, "splits": [asdict(split) for split in data.splits]}
    arrays = {f"{name}/{field}": getattr(graphs, field) for name, graphs in data.sets.items() for field in _ARRAYS}
    write_arrays(Path(path), arrays, facts, _FORMAT, zipfile.ZIP_DEFLATED)


def load(path: Path | str) -> MultiTask:
    """Read a data set; a file that is cut off, altered or not a data set raises a ValueError that names it."""
    arrays, facts = read_arrays(Path(path), _FORMAT)
    splits = tuple((RealSplit if "group" in split else Split)(**split) for split in facts["splits"])
    sets = {
        split.name: GraphSet(**{field: arrays[f"{split.name}/{field}"] for field in _ARRAYS}, maxima=np.ones(6))
        for split in splits
    }
    return MultiTask(Spec(**facts["spec"]), facts["seed"], splits, sets)
