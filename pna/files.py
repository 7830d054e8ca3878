"""Files that are whole or not there, whenever the program is stopped and whatever the disk does.

Tensors as safetensors, facts as JSON, arrays as npz, nothing pickled; written beside their place and renamed.
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
    from torch import Tensor  # what writes a page or reads a JSON object does not wait for torch

__all__ = ["checksum", "hash_of", "read_arrays", "read_facts", "read_json", "read_tensors"]
__all__ += ["write_arrays", "write_json", "write_tensors", "write_whole"]


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Lets `write` fill a file beside `path`, then renames it; on any error the old file stays and no other is left."""
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
            error.filename = str(path)  # a full disk says for which file
            del error.filename2
        raise


# ---- tensors ----


def write_tensors(path: Path, tensors: dict[str, "Tensor"], facts: dict) -> None:
    """Tensors with a JSON object beside them, in one safetensors file with a checksum over the tensors."""
    from safetensors.torch import save

    kept = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    data = save(kept, {"pna": json.dumps(facts | {"sha256": _tensors_checksum(kept)})})
    write_whole(path, lambda file: file.write(data))


def read_tensors(path: Path) -> tuple[dict[str, "Tensor"], dict]:
    """What write_tensors wrote; a file that is cut off, altered or something else raises a ValueError that names it.

    It is read at once: safetensors' own reader opens it twice, and another process may replace it in between.
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
    """A JSON object, one key a line at the top, so that differences are readable."""
    lines = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in facts.items())
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    write_whole(path, lambda file: file.write(text.encode()))


def read_json(path: Path, content: bytes | None = None) -> dict:
    """What write_json wrote; `content`, where the file has been read already."""
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
    """Arrays and a few facts in one npz file, with a checksum over each; LZMA saves a fifth, and takes longer."""
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
    """Arrays and facts; a file that is cut off, altered or something else raises a ValueError that names it."""
    facts = read_facts(path, format)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if name != "facts.npy"]
        with ThreadPoolExecutor() as pool:  # most of the time goes into unpacking
            contents = list(pool.map(lambda name: _unpacked(path, name), members))
        # Not in the threads: numpy reads headers by Python's ast, which in 3.11 may fail where two threads are in it.
        arrays = {name.removesuffix(".npy"): _array(content) for name, content in zip(members, contents, strict=True)}
    except Exception as error:  # a damaged file fails wherever the reading of zip files stumbles over it
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
    """What a file of arrays says of itself, without reading them."""
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
