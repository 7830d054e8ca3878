"""Made data sets on disk, and back: prepared once, then loaded without RDKit, ogb or a network.

A data set is one file under $PNA_DATA/realworld. That of the superpixels holds nodes only, so that it stays small; its
edges, eight a node, are made on the GPU where there is one, and else at the first load, and kept in a second file.
"""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pna.files import read_arrays, read_facts, write_arrays
from pna.locks import locked, remove_left_over
from pna.places import data_folder
from pna.realworld.data.datasets import SPLITS, Dataset, dataset
from pna.realworld.data.graphs import Graphs
from pna.realworld.data.local import images, missing_files, not_here, read_local
from pna.realworld.data.parallel import parallel_map
from pna.realworld.data.public import download
from pna.realworld.data.superpixels import NEIGHBOURS, SCALE, edges, edges_together
from pna.scalers import DegreeStatistics

__all__ = ["FORMAT", "Splits", "archive_path", "facts_of", "is_here", "load", "prepare"]

FORMAT = 2  # to be raised with any change of the layout


@dataclass(frozen=True)
class Splits:
    """A data set: its splits, and the facts that its results carry along."""

    dataset: Dataset
    sets: dict[str, Graphs]
    facts: dict  # origin, train (official or redrawn), sha256

    def __getitem__(self, split: str) -> Graphs:
        """The split of that name."""
        return self.sets[split]

    def kept(self, split: str) -> Graphs:
        """A split without the graphs that are too small for the released code."""
        graphs, large = self[split], self[split].nodes >= self.dataset.min_nodes
        return graphs if large.all() else graphs.take(large.nonzero()[0])

    def half(self, first: int) -> "Splits":
        """With every second graph of the training set, from the first (0) or from the second (1) on."""
        train = self["train"].take(np.arange(first, len(self["train"]), 2))
        facts = self.facts | {"train": f"{self.facts['train']}; every second row of it"}
        return Splits(self.dataset, self.sets | {"train": train}, facts)

    @cached_property
    def degrees(self) -> DegreeStatistics:
        """δ of equation 5 and the mean degree as released: of the messages that the training set's nodes send.

        A node of a molecule receives as many; a superpixel sends eight, whatever it receives, so that δ is log 9.
        """
        train = self.kept("train")
        sent = np.full(len(train.degree), NEIGHBOURS) if self.dataset.superpixels else train.sent
        return DegreeStatistics.from_degrees(torch.from_numpy(sent))


def archive_path(name: str, folder: Path | None = None) -> Path:
    """The file of a made data set."""
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
    """Makes the file of a data set from local files (source, by default $PNA_DATA), or from the public download."""
    data, path = dataset(name), archive_path(name, to)
    arrays, facts = download(data) if fetch else read_local(data, source or data_folder(), workers, progress)
    write_arrays(path, arrays, {"name": name} | facts, FORMAT)
    _edges_path(path).unlink(missing_ok=True)
    return path


def is_here(name: str) -> bool:
    """Whether a data set has been made, or can be from local files."""
    return archive_path(name).exists() or not missing_files(dataset(name), data_folder())


def facts_of(name: str, folder: Path | None = None) -> dict:
    """Origin, training set and checksum of a data set that may be loaded later; MissingData if it is not there."""
    return _known(read_facts(_made(name, folder, progress=False), FORMAT))


def load(
    name: str,
    folder: Path | None = None,
    graphs: Sequence[int] | None = None,
    *,
    workers: int | None = None,
    progress: bool = True,
    device: str = "cpu",
) -> Splits:
    """A data set, made first if its local files are there; `graphs`: only so many of each split, as the smoke runs."""
    path = _made(name, folder, workers=workers, progress=progress)
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
    return {key: facts[key] for key in ("origin", "train", "sha256")}


def _made(name: str, folder: Path | None, workers: int | None = None, progress: bool = True) -> Path:
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
    """The first `count` graphs; of a binary label the first of each value, so that both are there."""
    index = (graphs.nodes >= data.min_nodes).nonzero()[0]
    if data.task != "binary":
        return index[:count]
    y = graphs.y[index]
    return np.sort(np.concatenate([index[y == 1][: count // 2], index[y == 0][: count - count // 2]]))


# ---- superpixels ----


def _superpixels(data: Dataset, split: str, arrays: dict[str, NDArray], count: int | None) -> Graphs:
    """The graphs of a split, or the first `count` of them, with their edges made on the spot."""
    part = {name: arrays[f"{split}/{name}"] for name in ("nodes", "y", "colour", "position")}
    if count is not None:
        part = _first(part | {"dropped": arrays[f"{split}/dropped"]}, count)
        made = [edges(image) for image in images(data, split, part["nodes"], part["position"], part["dropped"])]
        degree, source, edge = (np.concatenate(column) for column in zip(*made, strict=True))
    else:
        degree, source, edge = (arrays[f"{split}/{name}"] for name in ("degree", "source", "edge"))
    colour = np.cumsum(part["colour"], axis=0, dtype=np.uint8)  # modulo 256, as the differences are
    shade, place = (np.arange(n) / unit for n, unit in ((256, 255), (65536, SCALE * data.side)))  # of every number
    x = np.concatenate([shade.astype(np.float16)[colour], place.astype(np.float16)[part["position"]]])
    return Graphs(part["nodes"], degree, source, x.T, edge, part["y"])


def _first(part: dict[str, NDArray], count: int) -> dict[str, NDArray]:
    V = int(part["nodes"][:count].sum(dtype=np.int64))
    return {name: array[:count] if name in ("nodes", "y") else array[..., :V] for name, array in part.items()}


def _edges_on(device: str, data: Dataset, arrays: dict[str, NDArray]) -> dict[str, NDArray]:
    """The edges of all splits, made on a device."""
    made = {}
    for split in SPLITS:
        nodes, position, without = (arrays[f"{split}/{name}"] for name in ("nodes", "position", "dropped"))
        found = edges_together(nodes, position.T, without, data.side, device)
        made |= dict(zip((f"{split}/{name}" for name in ("degree", "source", "edge")), found, strict=True))
    return made


def _edges_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}-edges.npz")


def _all_edges(
    data: Dataset, path: Path, arrays: dict[str, NDArray], facts: dict, workers: int | None, progress: bool
) -> dict[str, NDArray]:
    """The edges of all splits, from their file if it belongs to these nodes."""
    place = _edges_path(path)
    remove_left_over(place)
    if (kept := _kept_edges(place, facts)) is not None:
        return kept
    with locked(place, f"making {place}", waiting=lambda: None):
        if (kept := _kept_edges(place, facts)) is not None:
            return kept
        made = {}
        for split in SPLITS:
            nodes = images(data, split, *(arrays[f"{split}/{name}"] for name in ("nodes", "position", "dropped")))
            parts = parallel_map(edges, nodes, f"{data.title} {split}: edges", workers, progress)
            for name, part in zip(("degree", "source", "edge"), zip(*parts, strict=True), strict=True):
                made[f"{split}/{name}"] = np.concatenate(part)
        write_arrays(place, made, {"nodes": facts["sha256"]}, FORMAT, zipfile.ZIP_STORED)
    return made


def _kept_edges(place: Path, facts: dict) -> dict[str, NDArray] | None:
    if not place.exists():
        return None
    kept, of = read_arrays(place, FORMAT)
    return kept if of["nodes"] == facts["sha256"] else None
