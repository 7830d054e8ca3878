"""Data sets on disk: the same bits back, and no damaged file accepted."""

import time
from dataclasses import fields

import numpy as np
import pytest

from pna.multitask import RELEASED, Spec, Split, cached, load, make, save
from pna.multitask import splits as splits_module
from pna.multitask import storage as module
from pna.places import data_folder
from tests.kills.forked import Forked

SMALL = (Split("train", "train", (8, 9), 20), Split("tree", "test", (8,), 5, family="tree"))


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A collection with few graphs, and PNA_DATA set to a fresh folder."""
    monkeypatch.setitem(splits_module.COLLECTIONS, "multitask", lambda spec: SMALL)
    monkeypatch.setenv("PNA_DATA", str(tmp_path / "data"))
    return tmp_path


def test_save_and_load_give_the_same_bits(tmp_path):
    data = make(Spec.parse("D1+D3"), SMALL, seed=2**63)
    save(data, tmp_path / "new" / "set.npz")
    again = load(tmp_path / "new" / "set.npz")
    assert (again.spec, again.seed, again.splits) == (data.spec, data.seed, data.splits)
    for name, graphs in data.sets.items():
        for field in fields(graphs):
            one, other = getattr(graphs, field.name), getattr(again[name], field.name)
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["set.npz"]


def test_cached_makes_once_and_then_reads(small, monkeypatch):
    first = cached("multitask", RELEASED)
    monkeypatch.setattr(module, "make", None)
    again = cached("multitask", RELEASED)
    np.testing.assert_array_equal(first["train"].x, again["train"].x)
    assert [path.name for path in (small / "data" / "multitask").iterdir()] == ["multitask-released-1234.npz"]


def test_processes_that_start_together_make_it_once(small, monkeypatch):
    def counted(*arguments, **options):
        with (small / "made").open("a") as file:
            file.write(".")
        time.sleep(0.2)
        return make(*arguments, **options)

    monkeypatch.setattr(module, "make", counted)
    processes = [Forked(lambda: cached("multitask", RELEASED) is None) for _ in range(4)]
    outputs = [process.read() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, outputs
    assert (small / "made").read_text() == "."
    assert [path.name for path in (small / "data" / "multitask").iterdir()] == ["multitask-released-1234.npz"]


def test_what_killed_processes_left_beside_a_data_set_goes_when_it_is_read(small):
    cached("multitask", RELEASED)
    for word in ("lock", "x1.unfinished"):
        (small / "data" / "multitask" / f".multitask-released-1234.npz.{word}").touch()
    cached("multitask", RELEASED)
    assert [path.name for path in (small / "data" / "multitask").iterdir()] == ["multitask-released-1234.npz"]


def test_a_file_under_a_wrong_name_is_not_taken(small):
    cached("multitask", RELEASED, 1)
    folder = data_folder() / "multitask"
    (folder / "multitask-released-1.npz").rename(folder / "multitask-released-2.npz")
    with pytest.raises(ValueError, match=r"multitask-released-2.npz holds another data set \(spec released, seed 1\)"):
        cached("multitask", RELEASED, 2)


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="disk full"):
        save(make(RELEASED, SMALL), tmp_path / "set.npz")
    assert list(tmp_path.iterdir()) == []


# -- damaged files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    save(make(RELEASED, SMALL), tmp_path / "set.npz")
    return tmp_path / "set.npz"


@pytest.mark.parametrize("length", [0, 1, 100, 0.5, 0.99])
def test_truncated(saved, length):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(length * len(whole)) if isinstance(length, float) else length])
    with pytest.raises(ValueError, match=r"set.npz is no data set of this package, or it is damaged"):
        load(saved)


def x_or_error(path):
    try:
        return load(path)["train"].x
    except ValueError as error:
        return str(error)


def test_any_flipped_byte_is_seen_or_harmless(saved):
    """Most bytes are values, which zip's or our checksum covers; the rest is zip's own (dates, for one)."""
    whole = saved.read_bytes()
    expected = load(saved)["train"].x
    for place in range(0, len(whole), len(whole) // 60):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        result = x_or_error(saved)
        assert "set.npz" in result if isinstance(result, str) else np.array_equal(result, expected)


@pytest.mark.parametrize("name", ["train/x", "tree/graph_labels", "train/neighbour"])
def test_altered_values(saved, name):
    with np.load(saved) as file:
        arrays = dict(file)
    arrays[name].flat[0] += 1
    np.savez(saved, **arrays)
    with pytest.raises(ValueError, match=r"set.npz has been altered"):
        load(saved)


def test_altered_metadata(saved):
    with np.load(saved) as file:
        arrays = dict(file)
    text = arrays["facts"].tobytes().replace(b"1234", b"1235")
    np.savez(saved, **arrays | {"facts": np.frombuffer(text, dtype=np.uint8)})
    with pytest.raises(ValueError, match=r"set.npz has been altered"):
        load(saved)


def test_pickles_and_other_files_are_refused(tmp_path):
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("pickle.npy", "other.npz", "array.npy"):
        with pytest.raises(ValueError, match=f"{name} is no data set of this package"):
            load(tmp_path / name)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.npz")


def test_unknown_collection():
    with pytest.raises(
        ValueError, match=r"collection must be one of multitask, .*, redrawn, real, real-subgraphs; got 'all'"
    ):
        cached("all", RELEASED)


def test_data_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("PNA_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.delenv("PNA_DATA")
    assert data_folder().parts[-2:] == (".cache", "pna")
