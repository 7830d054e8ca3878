"""Data sets on disk: made from local files or downloads, whole or not at all, and never taken for another."""

import gzip
import subprocess
import sys
import zipfile
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
import torch
import torch_geometric.datasets

from pna.__main__ import main
from pna.files import read_facts
from pna.realworld.data import official, parallel, storage, superpixels
from pna.realworld.data.datasets import DATASETS, SPLITS, training_set
from pna.realworld.data.local import MissingData
from pna.realworld.data.parallel import each, parallel_map
from pna.realworld.data.storage import archive_path, facts_of, load, prepare
from pna.realworld.data.superpixels import SCALE, Superpixels, edges


def local_superpixels(folder, name="cifar10", graphs=4):
    colours = DATASETS[name].node_numbers - 2
    splits = {}
    for k, file in enumerate(DATASETS[name].files):
        rng = np.random.default_rng(k)
        nodes = rng.integers(12, 20, graphs)
        arrays = {
            "node_ptr": np.concatenate([[0], nodes.cumsum()]).astype(np.int32),
            "color": rng.integers(0, 256, (nodes.sum(), colours) if colours > 1 else nodes.sum()).astype(np.uint8),
            "pos": rng.integers(0, DATASETS[name].side * SCALE, (nodes.sum(), 2)).astype(np.uint16),
            "label": rng.integers(0, 10, graphs).astype(np.uint8),
        }
        (folder / "superpixels").mkdir(exist_ok=True)
        np.savez_compressed(folder / "superpixels" / file, **arrays)
        splits[SPLITS[k]] = arrays
    return splits


@pytest.fixture
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("PNA_DATA", str(tmp_path))
    return tmp_path


# ---- local files ----


def test_zinc_from_local_files(place, local):
    pytest.importorskip("rdkit")
    local.zinc(place)
    data = load("zinc", workers=1)
    assert data.facts["train"].startswith("unofficial: 6, 6, 6 graphs")
    assert data.facts["origin"] == "local"
    assert {split: len(graphs) for split, graphs in data.sets.items()} == dict.fromkeys(SPLITS, 6)
    assert data["test"].y.tolist() == pytest.approx([k + 0.2 for k in range(6)])
    assert data["train"].nodes.tolist() == [3, 6, 5, 4, 3, 3]
    assert facts_of("zinc") == data.facts


def test_files_with_other_numbers_of_graphs_are_not_official(place, local):
    pytest.importorskip("ogb")
    pytest.importorskip("rdkit")
    local.zinc(place)
    local.molhiv(place)
    local_superpixels(place, "mnist")
    train_sets = {name: load(name, workers=1).facts["train"] for name in ("zinc", "molhiv", "mnist")}
    assert train_sets["zinc"] == "unofficial: 6, 6, 6 graphs in train, validation, test, of 10,000, 1,000, 1,000"
    assert train_sets["molhiv"].startswith("unofficial: 4, 1, 1 graphs")
    assert train_sets["mnist"].startswith("unofficial: 4, 4, 4 graphs")


def test_superpixels_of_every_image_are_said_to_be_recomputed(place, monkeypatch, capsys):
    local_superpixels(place, "mnist")
    monkeypatch.setitem(DATASETS, "mnist", replace(DATASETS["mnist"], sizes=(4, 4, 4)))
    assert main(["realworld", "prepare", "mnist", "--workers", "1"]) == 0
    assert capsys.readouterr().out.endswith("training set recomputed from the raw images\n")
    assert load("mnist", workers=1).facts["train"] == "recomputed from the raw images"


def test_recorded_superpixels_are_not_called_official():
    facts = {"origin": "local", "train": "official"}
    assert training_set("mnist", facts) == training_set("cifar10", facts) == "recomputed from the raw images"
    assert training_set("zinc", facts) == training_set("mnist", facts | {"origin": "public download"}) == "official"


@pytest.mark.parametrize(("altered", "named"), [((), ""), ((1,), "row 1"), ((0, 2, 3, 4, 5, 7), "row 0")])
def test_zincs_rows_are_compared_with_the_official_ones(monkeypatch, tmp_path, altered, named):
    rows = {split: [("C" * (k + 1), k / 10 + place) for k in range(8)] for place, split in enumerate(SPLITS)}
    lines = [f"{smiles},{y!r}\n".encode() for split in SPLITS for smiles, y in rows[split]]
    (tmp_path / "zinc_rows.bin").write_bytes(b"".join(sha256(line).digest()[:4] for line in lines))
    monkeypatch.setattr(official, "files", lambda package: tmp_path)
    monkeypatch.setattr(official, "ZINC_SHA256", sha256(b"".join(lines)).hexdigest())
    for k in altered:
        rows["train"][k] = (rows["train"][k][0], -1.0)
    words = official.describe(replace(DATASETS["zinc"], sizes=(8, 8, 8)), (8, 8, 8), rows)
    if not altered:
        assert words == "official"
        return
    assert words.startswith(
        f"unofficial: {24 - len(altered)} of 24 rows are the official molecules, all but {named} of"
    )
    assert words.endswith(" and 1 more" if len(altered) == 6 else "row 1 of train")


def test_molhiv_from_local_files(place, local):
    pytest.importorskip("ogb")
    local.molhiv(place)
    data = load("molhiv", workers=1)
    assert [len(data[split]) for split in SPLITS] == [4, 1, 1]
    assert data["train"].y.tolist() == [0, 1, 0, 1]
    assert data["train"].x.shape[1] == 9
    assert data["train"].edge.shape[1] == 3


@pytest.mark.parametrize("name", ["cifar10", "mnist"])
def test_superpixels_from_local_files(place, name):
    splits, side = local_superpixels(place, name), DATASETS[name].side
    data = load(name, workers=1)
    assert data.degrees.delta == pytest.approx(2.1972245773362196, rel=1e-15)  # log 9: a node sends to eight
    for split, arrays in splits.items():
        graphs, color = data[split], arrays["color"].reshape(len(arrays["pos"]), -1)
        expected = np.concatenate([color / 255, arrays["pos"] / (SCALE * side)], axis=1)
        assert np.array_equal(graphs.x, expected.astype(np.float16))
        assert graphs.y.tolist() == arrays["label"].tolist()
        number = 1_000_000 * SPLITS.index(split) + 2
        rows = slice(*arrays["node_ptr"][2:4])
        degree, source, _ = edges(Superpixels(arrays["pos"][rows], side, number))
        assert graphs.degree[rows].tolist() == degree.tolist()
        assert graphs.take(np.array([2])).source.tolist() == source.tolist()


def test_molhiv_has_two_labels(place, local):
    local.molhiv(place)
    path = place / "molhiv" / "mol.csv.gz"
    header, *rows = gzip.decompress(path.read_bytes()).decode().split("\n")
    at = header.split(",").index("y")
    words = rows[0].split(",")
    words[at] = "-1"
    path.write_bytes(gzip.compress("\n".join([header, ",".join(words), *rows[1:]]).encode()))
    with pytest.raises(ValueError, match=r"mol.csv.gz must have 0 or 1 as y in every row, got -1"):
        load("molhiv", workers=1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"color": lambda c: c / 255}, r"from 0 to 255 as color, \[\d+, 3\], got float64"),
        ({"color": lambda c: c[:, :1]}, r"as color, \[\d+, 3\], got uint8 \[\d+, 1\]"),
        ({"pos": lambda p: p.astype(np.float32)}, r"as pos, \[\d+, 2\], got float32"),
        ({"label": lambda y: y.astype(np.int64) + 10}, r"from 0 to 9 as label, \[\d+\], got from 1\d to 1\d"),
        ({"label": lambda y: y.astype(np.int64) - 10}, r"as label, \[\d+\], got from -\d+ to -\d+"),
        ({"label": lambda y: y[:1]}, r"as label, \[4\], got uint8 \[1\]"),
        ({"node_ptr": lambda p: p + 5}, "as node_ptr"),
        ({"node_ptr": lambda p: p[::-1]}, "a node_ptr that rises from 0"),
        ({"node_ptr": lambda p: p[:0]}, r"as node_ptr, \[0\], got"),
        (
            {
                "node_ptr": lambda p: 20 * p[[0, -1]],
                "color": lambda c: np.tile(c, (20, 1)),
                "pos": lambda p: np.tile(p, (20, 1)),
                "label": lambda y: y[:1],
            },
            "graphs of at most 255 nodes, got one of",
        ),
    ],
)
def test_superpixels_of_another_kind_are_named(place, change, words):
    local_superpixels(place)
    path = place / "superpixels" / "cifar10_val.npz"
    arrays = dict(np.load(path))
    np.savez(path, **arrays | {name: function(arrays[name]) for name, function in change.items()})
    with pytest.raises(ValueError, match=rf"cifar10_val.npz must have .*{words}"):
        load("cifar10", workers=1)


def test_the_first_graphs_alone_are_the_same_graphs(place):
    local_superpixels(place)
    whole, some = load("cifar10", workers=1), load("cifar10", graphs=(3, 2, 1))
    assert [len(some[split]) for split in SPLITS] == [3, 2, 1]
    for split in SPLITS:
        first = whole[split].take(np.arange(len(some[split])))
        for name, array in some[split].arrays().items():
            assert np.array_equal(array, getattr(first, name)), name


def test_edges_are_made_once(place, monkeypatch):
    local_superpixels(place)
    once = load("cifar10", workers=1)
    monkeypatch.setattr(storage, "edges", lambda image: pytest.fail("made again"))
    again = load("cifar10")
    assert np.array_equal(once["train"].source, again["train"].source)


def test_edges_made_together_are_those_made_one_by_one(place, monkeypatch):
    monkeypatch.setattr(superpixels, "TOGETHER", 3)
    local_superpixels(place)
    whole, (arrays, _) = (
        load("cifar10", workers=1),
        storage.read_arrays(storage.archive_path("cifar10"), storage.FORMAT),
    )
    for name, array in storage._edges_on("cpu", DATASETS["cifar10"], arrays).items():
        split, _, field = name.partition("/")
        expected = getattr(whole[split], field)
        assert array.dtype == expected.dtype
        assert np.array_equal(array, expected)


def test_edges_of_other_nodes_are_not_taken(place):
    local_superpixels(place, graphs=4)
    load("cifar10", workers=1)
    contents = (place / "realworld" / "cifar10-edges.npz").read_bytes()
    local_superpixels(place, graphs=5)
    prepare("cifar10", workers=1)
    assert not (place / "realworld" / "cifar10-edges.npz").exists()
    (place / "realworld" / "cifar10-edges.npz").write_bytes(contents)
    assert len(load("cifar10", workers=1)["train"]) == 5


def test_a_few_graphs_have_both_labels(folder):
    some = load("molhiv", graphs=(6, 4, 4))
    assert [sorted(some[split].y.tolist()) for split in SPLITS] == [[0] * 3 + [1] * 3, [0, 0, 1, 1], [0, 0, 1, 1]]


@pytest.mark.parametrize("name", DATASETS)
def test_missing_files_are_told_with_place_and_command(place, name):
    with pytest.raises(MissingData) as error:
        load(name)
    data = DATASETS[name]
    assert f"{place / data.folder / data.files[0]} is missing" in str(error.value)
    assert f"python -m pna realworld prepare {name} --download" in str(error.value)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("val.csv.gz", b"no gzip", "val.csv.gz is not a gzip file of CSV"),
        ("test.csv.gz", gzip.compress(b"smiles,label\nC,1\n"), "test.csv.gz must have the columns smiles and y"),
        ("train.csv.gz", gzip.compress(b"smiles,y\nC,much\n"), "train.csv.gz must have the columns smiles and y"),
        ("train.csv.gz", gzip.compress(b"smiles,y\nC\n"), "train.csv.gz must have the columns smiles and y"),
        ("train.csv.gz", gzip.compress(b"smiles,y\nC,nan\n"), "train.csv.gz must have a finite number y .* got nan"),
        ("val.csv.gz", gzip.compress(b"")[:10] + b"\xff" * 9, "val.csv.gz is not a gzip file of CSV"),
        ("val.csv.gz", gzip.compress(b"smiles,y\n" + b"C" * 200_000 + b",1\n"), "val.csv.gz is not a gzip file of CSV"),
        ("val.csv.gz", gzip.compress(b"smiles,y\n"), "val.csv.gz must have a molecule in every row.* got none"),
        ("val.csv.gz", gzip.compress(b"smiles,y\nC,1\n,2\n"), "val.csv.gz must have a molecule.* row 1 is empty"),
    ],
    ids=(  # the bytes hold the time
        "no gzip",
        "other columns",
        "no numbers",
        "one column",
        "not a number",
        "damaged",
        "a huge field",
        "no rows",
        "an empty row",
    ),
)
def test_a_file_of_another_kind_is_named(place, local, file, content, message):
    local.zinc(place)
    (place / "zinc" / file).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load("zinc", workers=1)
    assert not archive_path("zinc").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("row\n0\n6\n", "must name rows from 0 to 5, got 0 to 6"),
        ("line\n0\n", "must have the column row"),
        ("id,row\n5\n", "must have the column row, of whole numbers"),
        ("row\n", "must name at least one row, got none"),
    ],
)
def test_rows_that_are_not_there_are_named(place, local, rows, message):
    local.molhiv(place)
    (place / "molhiv" / "split_test.csv.gz").write_bytes(gzip.compress(rows.encode()))
    with pytest.raises(ValueError, match=f"split_test.csv.gz {message}"):
        load("molhiv", workers=1)


def test_a_file_that_holds_no_superpixels_is_named(place):
    local_superpixels(place)
    (place / "superpixels" / "cifar10_val.npz").write_bytes(b"?")
    with pytest.raises(ValueError, match=r"cifar10_val\.npz must be an npz file of node_ptr, color, pos and label"):
        load("cifar10", workers=1)


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="data set must be one of zinc, molhiv, cifar10, mnist, got 'qm9'"):
        load("qm9")


# ---- archives ----


def test_a_cut_off_an_altered_and_a_foreign_file_are_refused(folder):
    path = archive_path("zinc")
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(ValueError, match="is no data set of this package, or it is damaged"):
        load("zinc")
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="is no data set of this package"):
        load("zinc")
    path.write_bytes(whole)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    key = "train/y.npy"
    members[key] = members[key][:-1] + bytes([members[key][-1] ^ 1])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match="has been altered"):
        load("zinc")


def test_another_format_is_refused(folder):
    with pytest.raises(ValueError, match="has format 2, and this version reads format 99"):
        read_facts(archive_path("zinc"), 99)


def test_the_work_of_several_processes_is_in_order(monkeypatch):
    monkeypatch.setattr(parallel, "CHUNK", 3)
    items = {"train": list(range(-10, 0)), "test": [-7], "validation": []}
    numbers = {"train": list(range(10, 0, -1)), "test": [7], "validation": []}
    for workers in (1, 2):
        assert parallel_map(partial(each, abs), items, "abs", workers) == numbers
    assert parallel_map(partial(each, abs), {}, "abs") == {}


def test_processes_end_with_one_that_is_killed():
    """They would otherwise wait for ever, and hold its output open."""
    work = "print('begun', flush=True); import time; time.sleep(300)"
    code = (
        "from functools import partial; from pna.realworld.data import parallel; parallel.CHUNK = 1; "
        f"parallel.parallel_map(partial(parallel.each, exec), {{'train': [{work!r}] * 2}}, 'work', workers=2)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    process.kill()
    process.communicate(timeout=120)  # until nobody can write to it any more


def test_without_a_terminal_lines_tell_the_time_left(monkeypatch, capsys):
    monkeypatch.setattr(parallel, "CHUNK", 3)
    monkeypatch.setattr(parallel, "INTERVAL", 0)
    monkeypatch.setattr(parallel.time, "monotonic", partial(next, iter(range(0, 100, 5))))  # five seconds a chunk
    items = {"train": [1, 2, 3, 4, 5, 6], "test": [7, 8, 9]}
    parallel_map(partial(each, abs), items, "abs", workers=1)
    assert capsys.readouterr().err.splitlines() == [
        "abs: 6 of 9 graphs, about 5 s left",  # none after the first chunk, when no pace is known
        "abs: 9 of 9 graphs, about 0 s left",
    ]
    parallel_map(partial(each, abs), items, "abs", workers=1, progress=False)
    assert capsys.readouterr().err == ""


# ---- downloads, with the packages' data sets replaced ----


def pyg_graphs(data):
    """What the data sets of torch_geometric hold, in the order of DGL: edges sorted by source."""
    torch.manual_seed(0)
    graphs = []
    for _ in range(3):
        edge_index = torch.tensor([[0, 0, 1, 2, 3], [1, 2, 0, 3, 2]])
        extra = (
            {"x": torch.rand(4, data.node_numbers - 2), "pos": torch.rand(4, 2), "edge_attr": torch.rand(5)}
            if data.superpixels
            else {"x": torch.randint(0, 21, (4, 1)), "edge_attr": torch.randint(1, 4, (5,))}
        )
        graphs.append(SimpleNamespace(edge_index=edge_index, y=torch.tensor([1]), **extra))
    return graphs


@pytest.mark.parametrize("name", ["zinc", "cifar10", "mnist"])
def test_torch_geometrics_data_sets(place, monkeypatch, name):
    data, calls = DATASETS[name], []
    graphs = pyg_graphs(data)
    for source in ("ZINC", "GNNBenchmarkDataset"):
        monkeypatch.setattr(torch_geometric.datasets, source, lambda *a, **k: calls.append((a[1:], k)) or graphs)
    prepare(name, fetch=True)
    loaded = load(name)
    assert loaded.facts["train"] == "official"
    assert loaded.facts["origin"] == "public download"
    assert [k["split"] for _, k in calls] == ["train", "val", "test"]
    assert all(a == (data.title,) if data.superpixels else k["subset"] for a, k in calls)
    one = loaded["train"].take(np.array([1]))
    assert one.degree.tolist() == [1, 1, 2, 1]
    assert one.source.tolist() == [1, 0, 0, 3, 2]
    order = [2, 0, 1, 4, 3]
    assert one.edge[:, 0].tolist() == graphs[1].edge_attr[order].numpy().astype(one.edge.dtype).tolist()
    assert one.x.shape[1] == (data.node_numbers or 1)


def test_without_a_network_the_words_say_what_else_there_is(place, monkeypatch, capsys):
    def unreachable(*arguments, **options):
        raise URLError("Name or service not known")

    monkeypatch.setattr(torch_geometric.datasets, "ZINC", unreachable)
    assert main(["realworld", "prepare", "zinc", "--download"]) == 1
    error = capsys.readouterr().err
    assert "the public files of ZINC cannot be fetched (Name or service not known)" in error
    assert "--source FOLDER" in error
    assert not archive_path("zinc").exists()


def test_ogbs_raw_files(place, monkeypatch):
    pytest.importorskip("ogb")
    import ogb.io.read_graph_raw
    import ogb.utils.url

    def extract(path, folder):
        for name, rows in (("raw/graph-label", (0, 1, 0)), ("split/scaffold/train", (2, 0))):
            write_lines(f"{folder}/hiv/{name}.csv.gz", rows)
        write_lines(f"{folder}/hiv/split/scaffold/valid.csv.gz", (1,))
        write_lines(f"{folder}/hiv/split/scaffold/test.csv.gz", (1,))

    monkeypatch.setattr(ogb.utils.url, "download_url", lambda url, folder: url)
    monkeypatch.setattr(ogb.utils.url, "extract_zip", extract)
    graph = {
        "edge_index": np.array([[0, 1], [1, 0]]),
        "edge_feat": np.array([[1, 0, 0], [1, 0, 0]]),
        "node_feat": np.arange(18).reshape(2, 9) % 2,
        "num_nodes": 2,
    }
    monkeypatch.setattr(ogb.io.read_graph_raw, "read_csv_graph_raw", lambda raw, add_inverse_edge: [graph] * 3)
    prepare("molhiv", fetch=True)
    data = load("molhiv")
    assert [data[split].y.tolist() for split in SPLITS] == [[0, 0], [1], [1]]
    assert data["train"].x[:2].tolist() == graph["node_feat"].tolist()


def write_lines(path, rows):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(f"{row}\n" for row in rows)
