"""Files are complete or absent, and a damaged one is refused by name."""

import ast
import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pna.files import (
    checksum,
    read_arrays,
    read_json,
    read_tensors,
    write_arrays,
    write_json,
    write_tensors,
    write_whole,
)

TENSORS = {
    "theta": torch.arange(6.0).view(2, 3).t(),  # not contiguous
    "best": torch.tensor([torch.inf, torch.nan], dtype=torch.double),
    "epoch": torch.tensor([2**40]),
    "diverged": torch.tensor([True, False]),
    "empty": torch.zeros(0, 3),
}
FACTS = {"cell": "multitask/released/pna/16", "seconds": 0.1, "seeds": [0, 1], "none": None, "δ": {"a": [1.5, None]}}
WRITERS = {
    "tensors": lambda path, value: write_tensors(path, {"x": torch.tensor([value])}, {}),
    "json": lambda path, value: write_json(path, {"x": value}),
}
READERS = {"tensors": lambda path: read_tensors(path)[0]["x"].item(), "json": lambda path: read_json(path)["x"]}


def test_tensors_and_facts_come_back(tmp_path):
    path = tmp_path / "new" / "folder" / "a.safetensors"
    write_tensors(path, TENSORS, FACTS)
    tensors, facts = read_tensors(path)
    assert facts == FACTS
    assert tensors.keys() == TENSORS.keys()
    for name, t in TENSORS.items():
        torch.testing.assert_close(tensors[name], t, rtol=0, atol=0, equal_nan=True)
    assert list(path.parent.iterdir()) == [path]


def test_json_comes_back_one_key_a_line(tmp_path):
    path = tmp_path / "new" / "folder" / "a.json"
    write_json(path, FACTS)
    assert read_json(path) == FACTS
    assert json.loads(path.read_text()) == FACTS
    assert len(path.read_text().splitlines()) == len(FACTS) + 2


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_is_overwritten(tmp_path, kind):
    for value in (1, 2):
        WRITERS[kind](tmp_path / "a", value)
    assert READERS[kind](tmp_path / "a") == 2
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("kind", WRITERS)
def test_an_error_in_writing_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, kind, call, error):
    def fail(*_, **__):
        raise error

    WRITERS[kind](tmp_path / "a", 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        for name in ("a", "b"):
            with pytest.raises(type(error)):
                WRITERS[kind](tmp_path / name, 2)
    assert READERS[kind](tmp_path / "a") == 1
    assert os.listdir(tmp_path) == ["a"]


def test_what_is_not_json_is_not_written(tmp_path):
    write_json(tmp_path / "a", {"x": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a", {"x": float("nan")})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a", {"x": torch.ones(1)})
    assert read_json(tmp_path / "a") == {"x": 1}
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("kind", WRITERS)
def test_others_may_read_the_files(tmp_path, kind):
    umask = os.umask(0o022)
    try:
        WRITERS[kind](tmp_path / "a", 1)
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_refused_by_name(tmp_path, share):
    path = tmp_path / "a.safetensors"
    write_tensors(path, TENSORS, FACTS)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ValueError, match=r"a\.safetensors is not a file that this package wrote whole"):
        read_tensors(path)
    assert path.exists()


@pytest.mark.parametrize("data", [b"hello", b"\0" * 100, b"\xff" * 100, b'{"x": 1}', bytes([2, *[0] * 7]) + b"{}"])
def test_a_file_of_another_kind_is_refused_by_name(tmp_path, data):
    path = tmp_path / "a.safetensors"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.safetensors is not a file"):
        read_tensors(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"pna": "not JSON"}])
def test_tensors_of_others_are_refused_by_name(tmp_path, metadata):
    path = tmp_path / "a.safetensors"
    save_file({"x": torch.ones(3)}, path, metadata)
    with pytest.raises(ValueError, match=r"a\.safetensors is not a file"):
        read_tensors(path)


@pytest.mark.parametrize("data", [b"", b"{", b'{"x": 1', b"\xff\xfe", b"hello", b"[1]", b"null"])
def test_broken_json_is_refused_by_name(tmp_path, data):
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.json does not hold a JSON object"):
        read_json(path)


@pytest.mark.parametrize("read", [read_json, read_tensors])
def test_a_missing_file_is_missing(tmp_path, read):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "a")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_arrays_and_facts_come_back(tmp_path, method):
    arrays = {"a/b": np.arange(6, dtype=np.uint8).reshape(2, 3), "c": np.ones(2)}
    write_arrays(tmp_path / "x.npz", arrays, {"name": "x"}, 3, method)
    back, facts = read_arrays(tmp_path / "x.npz", 3)
    assert facts == {"name": "x", "format": 3, "sha256": checksum(arrays)}
    assert all(np.array_equal(back[name], array) for name, array in arrays.items())
    assert all(back[name].dtype == array.dtype for name, array in arrays.items())


def test_threads_unpack_arrays_and_read_no_header(tmp_path, monkeypatch):
    """numpy reads a header with Python's ast, which in 3.11 has one counter for all threads, and may raise."""
    where, parse = set(), ast.literal_eval
    monkeypatch.setattr(ast, "literal_eval", lambda text: where.add(threading.get_ident()) or parse(text))
    write_arrays(tmp_path / "x.npz", {name: np.arange(5) for name in "abcdefgh"}, {}, 3)
    arrays, _ = read_arrays(tmp_path / "x.npz", 3)
    assert len(arrays) == 8
    assert where == {threading.get_ident()}


def test_the_same_arrays_are_the_same_bytes(tmp_path):
    for name in ("a.npz", "b.npz"):
        write_arrays(tmp_path / name, {"x": np.arange(99)}, {"name": "x"}, 1)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_flipped_bit_in_a_tensor_is_noticed(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, TENSORS, FACTS)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.safetensors has been altered"):
        read_tensors(path)


def test_what_a_killed_process_left_is_removed_by_the_next_write(tmp_path):
    others = [".a.json.swp", ".a.json.x1", ".b.json.x1.unfinished", "a.json.x1.unfinished"]
    for name in (".a.json.x1.unfinished", ".a.json.lock", *others):
        (tmp_path / name).touch()
    with (tmp_path / ".a.json.x2.unfinished").open("wb") as living:
        fcntl.flock(living, fcntl.LOCK_EX)  # as a process does that is writing
        write_json(tmp_path / "a.json", {})
        assert sorted(os.listdir(tmp_path)) == sorted([".a.json.x2.unfinished", "a.json", *others])
    write_json(tmp_path / "a.json", {})
    assert sorted(os.listdir(tmp_path)) == sorted(["a.json", *others])


def test_two_that_write_the_same_file_do_not_take_each_others_for_left_over(tmp_path):
    def write(file):
        file.write(b"1")
        write_json(tmp_path / "a.json", {"x": 2})

    write_whole(tmp_path / "a.json", write)
    assert (tmp_path / "a.json").read_bytes() == b"1"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*a\.json'$"):
        write_json(tmp_path / "a.json", {})


SWAP = """
import os, sys
first, second, path = sys.argv[1:]
while True:
    for other in (first, second):
        os.link(other, path + ".new")
        os.replace(path + ".new", path)
"""


def test_a_file_is_read_whole_while_another_process_replaces_it(tmp_path):
    first, second, path = (tmp_path / name for name in "abx")
    for k, one in enumerate((first, second)):
        write_tensors(one, {name: torch.full((50,), float(k)) for name in "abcd"}, {"k": k})
    path.write_bytes(first.read_bytes())
    with subprocess.Popen([sys.executable, "-c", SWAP, first, second, path]) as swap:
        try:
            while path.stat().st_nlink == 1 and swap.poll() is None:  # not replaced yet
                time.sleep(0.01)
            for _ in range(3000):
                tensors, facts = read_tensors(path)
                assert all((t == facts["k"]).all() for t in tensors.values())
            assert swap.poll() is None
        finally:
            swap.kill()


# ---- files of strangers ----


def resigned(path, change_facts=lambda facts: None, tensors=None):
    """The same file with other facts, as an editor leaves it."""
    from safetensors.torch import load, save

    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    facts = json.loads(header["__metadata__"]["pna"])
    change_facts(facts)
    path.write_bytes(save(load(data) if tensors is None else tensors, {"pna": json.dumps(facts)}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda facts: facts.pop("sha256"), "not have the checksum|wrote whole"),
        (lambda facts: [facts.pop(name) for name in ("sha256", "facts_sha256")], "wrote whole"),
        (lambda facts: facts.update(seeds=[7, 8]), "its facts do not have the checksum"),
        (lambda facts: facts.update(more=1), "its facts do not have the checksum"),
    ],
)
def test_facts_that_were_changed_or_lost_their_checksum_are_refused(tmp_path, change, words):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": torch.ones(2)}, FACTS)
    resigned(path, change)
    with pytest.raises(ValueError, match=words):
        read_tensors(path)


def test_a_file_of_an_earlier_version_has_no_checksum_over_its_facts(tmp_path):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": torch.ones(2)}, FACTS)
    resigned(path, lambda facts: facts.pop("facts_sha256"))
    assert read_tensors(path)[1] == FACTS


@pytest.mark.parametrize("facts", ["[" * 10**5, "3", "null", '{"sha256": NaN}', '{"sha256": 1e999}', "{}"])
def test_facts_that_are_no_object_are_refused_in_a_line(tmp_path, facts):
    path = tmp_path / "a.safetensors"
    save_file({"x": torch.ones(2)}, path, {"pna": facts})
    with pytest.raises(ValueError, match=r"wrote whole|checksum"):
        read_tensors(path)


@pytest.mark.parametrize("text", ["[" * 10**5, '{"a": ' * 10**5, '{"x": NaN}', '{"x": -Infinity}', "1" * 5000, b"\xff"])
def test_json_that_python_would_stumble_over_is_refused_in_a_line(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match="does not hold a JSON object"):
        read_json(path)


@pytest.mark.parametrize("read", [read_json, read_tensors, lambda path: read_arrays(path, 1)])
def test_pipes_devices_and_folders_are_not_waited_for(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe", tmp_path / "endless", tmp_path):
        with pytest.raises(ValueError, match="cannot be read: it is not a regular file"):
            read(path)


def test_a_file_that_is_far_too_large_is_not_read(tmp_path):
    with (path := tmp_path / "a.json").open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(ValueError, match=r"1,099,511,627,776 bytes, and no file of this kind has more than"):
        read_json(path)


@pytest.mark.parametrize("name", ["x", "facts"])
def test_an_archive_that_would_fill_the_memory_is_not_unpacked(tmp_path, name, monkeypatch):
    path = tmp_path / "a.npz"
    write_arrays(path, {"x": np.arange(9)}, {}, 1, zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content + bytes(1 << 26) * (member == f"{name}.npy"))
    monkeypatch.setattr(zipfile.ZipFile, "read", _small_only(zipfile.ZipFile.read))
    with pytest.raises(ValueError, match="it would unpack to"):
        read_arrays(path, 1)


def _small_only(read):
    def wrapped(archive, name, *rest):
        assert archive.getinfo(getattr(name, "filename", name)).file_size < 1 << 20
        return read(archive, name, *rest)

    return wrapped
