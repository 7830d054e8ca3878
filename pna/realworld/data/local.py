"""Data sets from local files: SMILES with labels (ZINC, MolHIV), colours and positions of superpixels (CIFAR10, MNIST).

ZINC: train.csv.gz, val.csv.gz and test.csv.gz with the columns smiles and y. MolHIV: mol.csv.gz with the same columns,
and the rows of each split. Superpixels, recomputed from the raw images: an npz file per split with node_ptr, color
(times 255), pos (pixels times 2048) and label; validation is the first 5,000 images of the original training set.
"""

import csv
import gzip
import math
import zlib
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pna.errors import MissingData
from pna.realworld.data.datasets import SPLITS, Dataset
from pna.realworld.data.graphs import Graphs
from pna.realworld.data.molecules import molhiv_graph, zinc_graph
from pna.realworld.data.official import describe
from pna.realworld.data.parallel import each, parallel_map
from pna.realworld.data.superpixels import Superpixels, dropped

__all__ = ["images", "missing_files", "molhiv_rows", "not_here", "read_local", "zinc_rows"]


def not_here(data: Dataset, folder: Path, missing: list[str]) -> MissingData:
    """The error for a data set that is not there: what is missing, its place, and the command that fetches it."""
    place, names = folder / data.folder, ", ".join(data.files)
    return MissingData(
        f"{data.title} is not here: {place / missing[0]} is missing. Put {names} into {place}, "
        f"or fetch it: python -m pna realworld prepare {data.name} --download"
    )


def missing_files(data: Dataset, folder: Path) -> list[str]:
    """The local files of a data set that are not in the folder."""
    return [name for name in data.files if not (folder / data.folder / name).exists()]


def read_local(
    data: Dataset, folder: Path, workers: int | None = None, progress: bool = True
) -> tuple[dict[str, NDArray], dict]:
    """Read a data set from local files: the arrays of all splits, by "split/name", and the facts about them."""
    if missing := missing_files(data, folder):
        raise not_here(data, folder, missing)
    folder = folder / data.folder
    if data.superpixels:
        arrays = _superpixels(data, folder, workers, progress)
        return arrays, {"origin": "local", "train": describe(data, [len(arrays[f"{s}/y"]) for s in SPLITS])}
    rows = (zinc_rows if data.name == "zinc" else molhiv_rows)(data, folder)
    read = zinc_graph if data.name == "zinc" else molhiv_graph
    graphs = parallel_map(partial(each, read), rows, data.title, workers, progress)
    joined = {split: Graphs.of(graphs[split]).arrays() for split in SPLITS}
    arrays = {f"{split}/{name}": array for split in SPLITS for name, array in joined[split].items()}
    return arrays, {"origin": "local", "train": describe(data, [len(rows[s]) for s in SPLITS], rows)}


def zinc_rows(data: Dataset, folder: Path) -> dict[str, list[tuple[str, float]]]:
    """Read ZINC's molecules from local files: (SMILES, label) of each, by split."""
    return {split: _molecules(folder / file) for split, file in zip(SPLITS, data.files, strict=True)}


def molhiv_rows(data: Dataset, folder: Path) -> dict[str, list[tuple[str, float]]]:
    """Read MolHIV's molecules from local files: (SMILES, label) of each, by split."""
    molecules = _molecules(path := folder / data.files[0])
    if others := {y for _, y in molecules} - {0, 1}:
        raise ValueError(f"{path} must have 0 or 1 as y in every row, got {min(others):g}")
    rows = {s: _rows(folder / file, len(molecules)) for s, file in zip(SPLITS, data.files[1:], strict=True)}
    return {split: [molecules[k] for k in index] for split, index in rows.items()}


def _rows(path: Path, count: int) -> list[int]:
    """Read a split's row numbers, each checked to be below `count`."""
    try:
        rows = [int(row["row"]) for row in _read_csv(path)]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} must have the column row, of whole numbers: {error!r}") from error
    if not rows:
        raise ValueError(f"{path} must name at least one row, got none")
    if not all(0 <= row < count for row in rows):
        raise ValueError(f"{path} must name rows from 0 to {count - 1}, got {min(rows)} to {max(rows)}")
    return rows


def _molecules(path: Path) -> list[tuple[str, float]]:
    """Read the SMILES and labels of a file of molecules, none of them empty."""
    try:
        molecules = [(row["smiles"], float(row["y"])) for row in _read_csv(path)]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} must have the columns smiles and y, y being a number: {error!r}") from error
    if strange := [y for _, y in molecules if not math.isfinite(y)]:
        raise ValueError(f"{path} must have a finite number y in every row, got {strange[0]}")
    if not molecules or not all(smiles for smiles, _ in molecules):
        empty = f"row {[bool(smiles) for smiles, _ in molecules].index(False)} is empty" if molecules else "none"
        raise ValueError(f"{path} must have a molecule in every row, and at least one, got {empty}")
    return molecules


def _read_csv(path: Path) -> list[dict[str, str]]:
    """Read the rows of a compressed CSV file, as dictionaries by column."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        raise ValueError(f"{path} is not a gzip file of CSV: {error}") from error


def _superpixels(data: Dataset, folder: Path, workers: int | None, progress: bool) -> dict[str, NDArray]:
    """The nodes of all splits. Colours are kept as differences of the channels, which compress better."""
    files = {split: _image_file(data, folder / name) for split, name in zip(SPLITS, data.files, strict=True)}
    pictures = {split: images(data, split, nodes, position) for split, (nodes, _, position, _) in files.items()}
    without = parallel_map(dropped, pictures, data.title, workers, progress)
    arrays = {}
    for split, (nodes, color, position, y) in files.items():
        arrays |= {
            f"{split}/nodes": nodes,
            f"{split}/colour": np.diff(color, axis=0, prepend=np.uint8(0)),
            f"{split}/position": position,  # [2, V]
            f"{split}/dropped": np.concatenate(without[split]),
            f"{split}/y": y,
        }
    return arrays


def _image_file(data: Dataset, path: Path) -> tuple[NDArray, ...]:
    """Read the superpixels of a split: nodes of each graph [G], colours [channels, V], positions [2, V], labels [G]."""
    try:
        with np.load(path, allow_pickle=False) as file:
            ptr, color, position, y = (np.atleast_1d(file[name]) for name in ("node_ptr", "color", "pos", "label"))
    except Exception as error:  # whatever a file of another kind makes the reader stumble over
        raise ValueError(f"{path} must be an npz file of node_ptr, color, pos and label: {error}") from error
    V, G, channels = len(position), len(ptr) - 1, data.node_numbers - 2
    for name, array, shape, most in (
        ("node_ptr", ptr, (G + 1,), V),
        ("color", color, (V,) if channels == color.ndim == 1 else (V, channels), 255),
        ("pos", position, (V, 2), 65_535),
        ("label", y, (G,), data.outputs - 1),
    ):
        whole = array.dtype.kind in "iu" and array.shape == shape and array.size > 0
        if not (whole and 0 <= array.min() and array.max() <= most):
            got = f"from {array.min()} to {array.max()}" if whole else f"{array.dtype} {list(array.shape)}"
            raise ValueError(f"{path} must have whole numbers from 0 to {most} as {name}, {list(shape)}, got {got}")
    sizes = np.diff(ptr.astype(np.int64))
    if not (ptr[0] == 0 and ptr[-1] == V and (sizes > 0).all()):
        raise ValueError(f"{path} must have a node_ptr that rises from 0 to the number of nodes, {V}")
    if sizes.max() > 255:
        raise ValueError(f"{path} must have graphs of at most 255 nodes, got one of {sizes.max()}")
    return sizes.astype(np.uint8), color.reshape(V, -1).T, position.T, y


def images(
    data: Dataset, split: str, nodes: NDArray, position: NDArray, without: NDArray | None = None
) -> list[Superpixels]:
    """The images of a split one by one, their numbers apart from those of other splits; `without`: dropped [V]."""
    ends = np.cumsum(nodes, dtype=np.int64)[:-1]
    parts = np.split(position.T, ends)
    drops = [None] * len(parts) if without is None else np.split(without, ends)
    first = 1_000_000 * SPLITS.index(split)
    return [Superpixels(part, data.side, first + k, d) for k, (part, d) in enumerate(zip(parts, drops, strict=True))]
