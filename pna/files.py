"""Files that are complete or absent, whenever the program is stopped and whatever the disk does.

Tensors are stored as safetensors, facts as JSON, arrays as npz, and nothing is pickled. Every file is written under
another name beside its place, and then renamed.
"""

import hashlib
import io
import json
import os
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

__all__ = ["checksum", "hash_of", "read_arrays", "read_facts", "read_json", "read_tensors"]
__all__ += ["write_arrays", "write_json", "write_tensors", "write_whole"]


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a file beside `path`, then rename it; after an error the old file is there and no other."""
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
    """Write tensors and a JSON object of facts to one safetensors file, with a checksum over the tensors."""
    from safetensors.torch import save

    kept = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    data = save(kept, {"pna": json.dumps(facts | {"sha256": _tensors_checksum(kept)})})
    write_whole(path, lambda file: file.write(data))


def read_tensors(path: Path) -> tuple[dict[str, "Tensor"], dict]:
    """Read what write_tensors wrote: the tensors and the facts. A ValueError names a file that is damaged or altered.

    The file is opened once. safetensors' own reader opens it twice, and another process may replace it in between.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    data = path.read_bytes()
    try:
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        facts = json.loads(header.get("__metadata__", {})["pna"])
        stated = facts.pop("sha256", None)
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(
            f"{path} is not a file that this package wrote whole ({error}); remove it to start anew"
        ) from error
    if stated is not None and stated != _tensors_checksum(tensors):
        raise ValueError(f"{path} has been altered: its tensors do not have the checksum it states; remove it")
    return tensors, facts


def _tensors_checksum(tensors: dict[str, "Tensor"]) -> str:
    return checksum({name: t.numpy() for name, t in tensors.items()})


# ---- JSON ----


def write_json(path: Path, facts: dict) -> None:
    """Write a JSON object with one top-level key per line, so that differences are readable."""
    lines = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in facts.items())
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    write_whole(path, lambda file: file.write(text.encode()))


def read_json(path: Path, content: bytes | None = None) -> dict:
    """Read a JSON object from `path`, or from `content` if the file has been read already."""
    try:
        facts = json.loads((path.read_bytes() if content is None else content).decode())
    except ValueError as error:
        raise ValueError(f"{path} does not hold a JSON object: {error}") from error
    if not isinstance(facts, dict):
        raise ValueError(f"{path} does not hold a JSON object")
    return facts


# ---- arrays ----


def write_arrays(
    path: Path, arrays: dict[str, NDArray], facts: dict, format: int, method: int = zipfile.ZIP_LZMA
) -> None:
    """Write arrays and facts to one npz file, with a checksum over each; LZMA saves a fifth of its size."""
    stated = facts | {"format": format, "sha256": checksum(arrays)}
    text = json.dumps(stated | {"facts_sha256": hash_of(stated)})
    members = arrays | {"facts": np.frombuffer(text.encode(), dtype=np.uint8)}

    def write(file: BinaryIO) -> None:
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


def _unpacked(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(name)


def _array(content: bytes) -> NDArray:
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


def read_facts(path: Path, format: int) -> dict:
    """Read the facts of a file of arrays, without the arrays."""
    try:
        with np.load(path, allow_pickle=False) as file:
            facts = json.loads(file["facts"].tobytes())
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path} is no data set of this package, or it is damaged: {error}; remove it") from error
    if facts.get("format") != format:
        raise ValueError(f"{path} has format {facts.get('format')}, and this version reads format {format}; remove it")
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
