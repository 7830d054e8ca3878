"""Prepared data sets on disk: made once, then loaded without RDKit, ogb or a network.

A data set is one file under $PNA_DATA/realworld. A file of superpixels holds nodes only, so that it stays small; their
edges, eight a node, are made on the GPU where there is one, and else at the first load, and kept in a second file.
"""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pna.degrees import DegreeStatistics
from pna.files import check_writable, read_arrays, read_facts, write_arrays
from pna.locks import locked, remove_left_over
from pna.places import data_folder
from pna.realworld.data.datasets import SPLITS, Dataset, dataset
from pna.realworld.data.graphs import Graphs
from pna.realworld.data.local import images, missing_files, not_here, read_local
from pna.realworld.data.parallel import each, parallel_map
from pna.realworld.data.public import download
from pna.realworld.data.superpixels import NEIGHBOURS, SCALE, edges, edges_together

__all__ = ["FORMAT", "Splits", "archive_path", "facts_of", "is_here", "load", "prepare"]

FORMAT = 2  # to be raised with any change of the layout


@dataclass(frozen=True)
class Splits:
    """A data set by splits, with the facts that its results carry along."""

    dataset: Dataset
    sets: dict[str, Graphs]
    facts: dict  # origin, train (what the training set is: see training_set), sha256

    def __getitem__(self, split: str) -> Graphs:
        """The split with this name."""
        return self.sets[split]

    def large_enough(self, split: str) -> Graphs:
        """A split without the graphs that are too small for the released code."""
        graphs, large = self[split], self[split].nodes >= self.dataset.min_nodes
        return graphs if large.all() else graphs.take(large.nonzero()[0])

    @cached_property
    def degrees(self) -> DegreeStatistics:
        """δ of equation 5 and the mean degree, as released: over the messages that the training set's nodes send.

        In a molecule, a node sends as many as it receives. A superpixel always sends eight, so that δ is log 9.
        """
        train = self.large_enough("train")
        sent = np.full(len(train.degree), NEIGHBOURS) if self.dataset.superpixels else train.sent
        return DegreeStatistics.from_degrees(torch.from_numpy(sent))


def archive_path(name: str, folder: Path | None = None) -> Path:
    """The file of a prepared data set."""
    return (folder or data_folder()) / "realworld" / f"{dataset(name).name}.npz"


def prepare(
    name: str,
    source: Path | None = None,
    to: Path | None = None,
    *,
    fetch: bool = False,
    workers: int | None = None,
    progress: bool = True,
) -> Path:
    """Make the file of a data set from local files (source, by default $PNA_DATA), or from the public download."""
    data, path = dataset(name), archive_path(name, to)
    check_writable(path)
    arrays, facts = download(data) if fetch else read_local(data, source or data_folder(), workers, progress)
    write_arrays(path, arrays, {"name": name} | facts, FORMAT)
    _edges_path(path).unlink(missing_ok=True)
    return path


def is_here(name: str) -> bool:
    """Whether a data set is prepared, or can be from local files."""
    return archive_path(name).exists() or not missing_files(dataset(name), data_folder())


def facts_of(name: str, folder: Path | None = None) -> dict:
    """Origin, training set and checksum of a data set, which is prepared first if need be, but not loaded."""
    return _known(read_facts(_prepared(name, folder, progress=False), FORMAT))


def load(
    name: str,
    folder: Path | None = None,
    graphs: Sequence[int] | None = None,
    *,
    workers: int | None = None,
    progress: bool = True,
    device: str = "cpu",
) -> Splits:
    """Load a data set, which is prepared first if need be; `graphs` limits the number from each split."""
    path = _prepared(name, folder, workers=workers, progress=progress)
    arrays, facts = read_arrays(path, FORMAT)
    data = dataset(name)
    if "train/position" in arrays:
        if graphs is None and torch.device(device).type == "cuda":
            arrays |= _edges_on(device, data, arrays)
        elif graphs is None:
            arrays |= _all_edges(data, path, arrays, facts, workers, progress)
        sets = {s: _superpixels(data, s, arrays, None if graphs is None else graphs[k]) for k, s in enumerate(SPLITS)}
    else:
        names = ("nodes", "degree", "source", "x", "edge", "y")
        sets = {split: Graphs(**{n: arrays[f"{split}/{n}"] for n in names}) for split in SPLITS}
        if graphs is not None:
            sets = {s: sets[s].take(_some(data, sets[s], count)) for s, count in zip(SPLITS, graphs, strict=True)}
    return Splits(data, sets, _known(facts))


def _known(facts: dict) -> dict:
    """Origin, training set and checksum, from all that a file records."""
    return {key: facts[key] for key in ("origin", "train", "sha256")}


def _prepared(name: str, folder: Path | None, workers: int | None = None, progress: bool = True) -> Path:
    """Path of a data set's file, which is made from local files if it is missing."""
    path, data = archive_path(name, folder), dataset(name)
    if not path.exists():
        source = folder or data_folder()
        if missing := missing_files(data, source):
            raise not_here(data, source, missing)
        with locked(path, f"making {path}", waiting=lambda: None):  # trainings that start together make it once
            if not path.exists():
                prepare(name, source, folder, workers=workers, progress=progress)
    remove_left_over(path)
    return path


def _some(data: Dataset, graphs: Graphs, count: int) -> NDArray[np.int64]:
    """Indices of the first `count` graphs, half of each label where it is binary."""
    index = (graphs.nodes >= data.min_nodes).nonzero()[0]
    if data.task != "binary":
        return index[:count]
    y = graphs.y[index]
    return np.sort(np.concatenate([index[y == 1][: count // 2], index[y == 0][: count - count // 2]]))


# ---- superpixels ----


def _superpixels(data: Dataset, split: str, arrays: dict[str, NDArray], count: int | None) -> Graphs:
    """The graphs of a split, or its first `count` graphs, whose edges are made here."""
    part = {name: arrays[f"{split}/{name}"] for name in ("nodes", "y", "colour", "position")}
    if count is not None:
        part = _first(part | {"dropped": arrays[f"{split}/dropped"]}, count)
        pictures = images(data, split, part["nodes"], part["position"], part["dropped"])
        degree, source, edge = (np.concatenate(column) for column in zip(*map(edges, pictures), strict=True))
    else:
        degree, source, edge = (arrays[f"{split}/{name}"] for name in ("degree", "source", "edge"))
    colour = np.cumsum(part["colour"], axis=0, dtype=np.uint8)  # modulo 256, as the differences are
    shade, place = (np.arange(n) / unit for n, unit in ((256, 255), (65536, SCALE * data.side)))  # of every number
    x = np.concatenate([shade.astype(np.float16)[colour], place.astype(np.float16)[part["position"]]])
    return Graphs(part["nodes"], degree, source, x.T, edge, part["y"])


def _first(part: dict[str, NDArray], count: int) -> dict[str, NDArray]:
    """Arrays of the first `count` graphs: one entry for each graph, or one column for each of their nodes."""
    V = int(part["nodes"][:count].sum(dtype=np.int64))
    return {name: array[:count] if name in ("nodes", "y") else array[..., :V] for name, array in part.items()}


def _edges_on(device: str, data: Dataset, arrays: dict[str, NDArray]) -> dict[str, NDArray]:
    """Make the edges of all splits on a device."""
    columns = {}
    for split in SPLITS:
        nodes, position, without = (arrays[f"{split}/{name}"] for name in ("nodes", "position", "dropped"))
        columns[split] = edges_together(nodes, position.T, without, data.side, device)
    return _by_name(columns)


def _by_name(columns: dict[str, Sequence[NDArray]]) -> dict[str, NDArray]:
    """The arrays degree, source and edge of each split, by "split/name"."""
    names = ("degree", "source", "edge")
    return {f"{split}/{name}": array for split in SPLITS for name, array in zip(names, columns[split], strict=True)}


def _edges_path(path: Path) -> Path:
    """Path of the file that keeps the computed edges of a prepared data set."""
    return path.with_name(f"{path.stem}-edges.npz")


def _all_edges(
    data: Dataset, path: Path, arrays: dict[str, NDArray], facts: dict, workers: int | None, progress: bool
) -> dict[str, NDArray]:
    """The edges of all splits, from their file if it belongs to these nodes, or else made on the processor."""
    place = _edges_path(path)
    remove_left_over(place)
    if (stored := _stored_edges(place, facts)) is not None:
        return stored
    with locked(place, f"making {place}", waiting=lambda: None):
        if (stored := _stored_edges(place, facts)) is not None:
            return stored
        names = ("nodes", "position", "dropped")
        pictures = {s: images(data, s, *(arrays[f"{s}/{name}"] for name in names)) for s in SPLITS}
        parts = parallel_map(partial(each, edges), pictures, f"{data.title}: edges", workers, progress)
        columns = {s: [np.concatenate(column) for column in zip(*parts[s], strict=True)] for s in SPLITS}
        write_arrays(place, _by_name(columns), {"nodes": facts["sha256"]}, FORMAT, zipfile.ZIP_STORED)
    return _by_name(columns)


def _stored_edges(place: Path, facts: dict) -> dict[str, NDArray] | None:
    """Read the edges from a file; None if there is no file, or if it belongs to other nodes."""
    if not place.exists():
        return None
    arrays, stated = read_arrays(place, FORMAT)
    return arrays if stated["nodes"] == facts["sha256"] else None
