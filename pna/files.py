"""Files that are complete or absent, whenever the program is stopped and whatever the disk does.

Tensors are stored as safetensors, facts as JSON, arrays as npz, and nothing is pickled. Every file is written under
another name beside its place, and then renamed.
"""

import hashlib
import io
import json
import os
import stat
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pna.locks import new_beside, remove_left_over

if TYPE_CHECKING:
    from torch import Tensor  # not imported: pages and JSON objects do not need torch

__all__ = ["check_file", "check_writable", "checksum", "hash_of", "parse_json"]
__all__ += ["read_arrays", "read_facts", "read_json", "read_tensors", "read_whole"]
__all__ += ["write_arrays", "write_json", "write_tensors", "write_whole"]

MOST_TEXT = 1 << 28  # bytes of a JSON file or a graph: far more than any has
MOST_TENSORS = 1 << 34  # bytes of a safetensors file
EXPANDS = 200  # how many times its own size an npz file may unpack to; the data sets here reach 4


def check_file(path: Path, most: int) -> None:
    """Raise a ValueError unless `path` is a regular file, no pipe or device, of at most `most` bytes."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} cannot be read: it is not a regular file")
    if status.st_size > most:
        raise ValueError(f"{path} has {status.st_size:,} bytes, and no file of this kind has more than {most:,}")


def check_writable(path: Path) -> None:
    """Raise a ValueError if a file could not be written to `path`: better before hours of work than after.

    Only trying tells: a system administrator passes every test of permissions, also on a file system without writing.
    """
    folder = next(parent for parent in path.parents if parent.exists())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = new_beside(path)
        os.close(handle)
        beside.unlink()
    except OSError as error:
        words = f"{path} could not be written: {folder} is no folder that can be written to ({error.strerror})"
        raise ValueError(words) from error


def read_whole(path: Path, most: int = MOST_TEXT) -> bytes:
    """Read a file, after `check_file`."""
    check_file(path, most)
    return path.read_bytes()


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a new file next to `path`, then rename it; after an error only the old file remains."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_left_over(path)
    beside = None
    try:
        handle, beside = new_beside(path)
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(beside, 0o644)
            os.replace(beside, path)
    except BaseException as error:
        if beside is not None:
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = str(path)  # name the file, for instance if the disk is full
            del error.filename2
        raise


# ---- tensors ----


def write_tensors(path: Path, tensors: dict[str, "Tensor"], facts: dict) -> None:
    """Write tensors and a JSON object of facts to one safetensors file, with a checksum over each."""
    from safetensors.torch import save

    contents = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    stated = facts | {"sha256": _tensors_checksum(contents)}
    data = save(contents, {"pna": json.dumps(stated | {"facts_sha256": hash_of(stated)})})
    write_whole(path, lambda file: file.write(data))


def read_tensors(path: Path) -> tuple[dict[str, "Tensor"], dict]:
    """Read what write_tensors wrote: the tensors and the facts. A ValueError names a file that is damaged or altered.

    The file is opened once. safetensors' own reader opens it twice, and another process may replace it in between. A
    file from before version 2 has no checksum over its facts.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    data = read_whole(path, MOST_TENSORS)
    try:
        tensors = load(data)
        header = parse_json(data[8 : 8 + int.from_bytes(data[:8], "little")])
        facts = parse_json(header["__metadata__"]["pna"])
        of_facts = facts.pop("facts_sha256", None)
        intact = of_facts in (None, hash_of(facts))
        stated = facts.pop("sha256")
    except (SafetensorError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a file that this package wrote whole ({error}); remove it to start anew"
        ) from error
    for what, same in (("facts", intact), ("tensors", stated == _tensors_checksum(tensors))):
        if not same:
            raise ValueError(f"{path} has been altered: its {what} do not have the checksum it states; remove it")
    return tensors, facts


def _tensors_checksum(tensors: dict[str, "Tensor"]) -> str:
    """SHA-256 over the names, types, shapes and values of tensors on the CPU."""
    return checksum({name: t.numpy() for name, t in tensors.items()})


# ---- JSON ----


def write_json(path: Path, facts: dict) -> None:
    """Write a JSON object with one top-level key per line, so that differences are readable."""
    lines = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in facts.items())
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    write_whole(path, lambda file: file.write(text.encode()))


def read_json(path: Path, content: bytes | None = None) -> dict:
    """Read a JSON object from `path`, or from `content` if the file has been read already."""
    text = read_whole(path) if content is None else content
    try:
        facts = parse_json(text)
    except ValueError as error:
        raise ValueError(f"{path} does not hold a JSON object: {error}") from error
    if not isinstance(facts, dict):
        raise ValueError(f"{path} does not hold a JSON object")
    return facts


def parse_json(text: str | bytes) -> dict | list | str | float | bool | None:
    """Parse JSON; raise a ValueError for NaN and Infinity, too, which json.loads accepts, and for too deep nesting."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse_constant(name: str) -> None:
    """Raise a ValueError for NaN, Infinity or -Infinity, which JSON does not have."""
    raise ValueError(f"{name} is no number of JSON")


# ---- arrays ----


def write_arrays(
    path: Path, arrays: dict[str, NDArray], facts: dict, format: int, method: int = zipfile.ZIP_LZMA
) -> None:
    """Write arrays and facts to one npz file, with a checksum over each; LZMA saves a fifth of its size."""
    stated = facts | {"format": format, "sha256": checksum(arrays)}
    text = json.dumps(stated | {"facts_sha256": hash_of(stated)})
    members = arrays | {"facts": np.frombuffer(text.encode(), dtype=np.uint8)}

    def write(file: BinaryIO) -> None:
        """Write every member to an open file, as a zip archive of npy files."""
        with zipfile.ZipFile(file, "w", method) as archive:
            for name, array in members.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)

    write_whole(path, write)


def read_arrays(path: Path, format: int) -> tuple[dict[str, NDArray], dict]:
    """Read what write_arrays wrote: arrays and facts. A ValueError names a file that is damaged or altered."""
    facts = read_facts(path, format)
    try:
        with zipfile.ZipFile(path) as archive:
            _check_unpacked(path, archive.infolist())
            members = [name for name in archive.namelist() if name != "facts.npy"]
        with ThreadPoolExecutor() as pool:  # most of the time goes into unpacking
            contents = list(pool.map(lambda name: _unpacked(path, name), members))
        # Not in the threads: numpy reads headers with Python's ast, which in 3.11 may fail if two threads use it.
        arrays = {name.removesuffix(".npy"): _array(content) for name, content in zip(members, contents, strict=True)}
    except Exception as error:  # a damaged zip file may raise almost anything
        raise ValueError(f"{path} is damaged: {error}; remove it, it is made again") from error
    if checksum(arrays) != facts["sha256"]:
        raise ValueError(f"{path} has been altered: its contents do not have the checksum it states; remove it")
    return arrays, facts


def _check_unpacked(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Raise a ValueError if the members would unpack to far more bytes than the file has."""
    size = sum(member.file_size for member in members)
    if size > EXPANDS * path.stat().st_size + MOST_TEXT // EXPANDS:
        raise ValueError(f"it would unpack to {size:,} bytes, more than {EXPANDS} times its size")


def _unpacked(path: Path, name: str) -> bytes:
    """Unpack one member of an npz file to bytes; the file is opened anew, so that threads share no handle."""
    with zipfile.ZipFile(path) as archive:
        return archive.read(name)


def _array(content: bytes) -> NDArray:
    """Parse the content of an npy file; pickled objects are refused."""
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


def read_facts(path: Path, format: int) -> dict:
    """Read the facts of a file of arrays, without the arrays."""
    check_file(path, MOST_TENSORS)
    try:
        with zipfile.ZipFile(path) as archive:
            _check_unpacked(path, [archive.getinfo("facts.npy")])
            facts = parse_json(_array(archive.read("facts.npy")).tobytes())
            form = facts.get("format")
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path} is no data set of this package, or it is damaged: {error}; remove it") from error
    if form != format:
        raise ValueError(f"{path} has format {form}, and this version reads format {format}; remove it")
    if facts.pop("facts_sha256", None) != hash_of(facts):
        raise ValueError(f"{path} has been altered: its facts do not have the checksum it states; remove it")
    return facts


def hash_of(content: dict) -> str:
    """SHA-256 of a JSON object."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def checksum(arrays: dict[str, NDArray]) -> str:
    """SHA-256 over names, types, shapes and values, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()
