"""Arrays and a few facts in one npz file, without pickle, with a checksum over all of it."""

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pna.atomic import write_whole

__all__ = ["checksum", "read_archive", "read_facts", "write_archive"]

_FORMAT = 1  # to be raised with any change of the layout


def write_archive(path: Path, arrays: dict[str, NDArray], facts: dict, compressed: bool = True) -> str:
    """Writes the file whole or not at all; returns its checksum. LZMA takes a fifth less than numpy's own zip files."""
    digest = checksum(arrays)
    text = json.dumps(facts | {"format": _FORMAT, "sha256": digest})
    members = arrays | {"facts": np.frombuffer(text.encode(), dtype=np.uint8)}
    method = zipfile.ZIP_LZMA if compressed else zipfile.ZIP_STORED

    def write(file: object) -> None:
        with zipfile.ZipFile(file, "w", method) as archive:
            for name, array in members.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)

    write_whole(path, write)
    return digest


def read_archive(path: Path) -> tuple[dict[str, NDArray], dict]:
    """Arrays and facts; a file that is cut off, altered or something else raises a ValueError that names it."""
    facts = read_facts(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files if name != "facts"}
    except Exception as error:  # a damaged file fails wherever the reading of zip files stumbles over it
        raise ValueError(f"{path} is damaged: {error}; remove it, it is made again") from error
    if checksum(arrays) != facts["sha256"]:
        raise ValueError(f"{path} has been altered: its contents do not have the checksum it states; remove it")
    return arrays, facts


def read_facts(path: Path) -> dict:
    """What the file says of itself, without reading its arrays."""
    try:
        with np.load(path, allow_pickle=False) as file:
            facts = json.loads(file["facts"].tobytes())
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path} is no data set of this package, or it is damaged: {error}; remove it") from error
    if facts.get("format") != _FORMAT:
        raise ValueError(f"{path} has format {facts.get('format')}, and this version reads format {_FORMAT}")
    return facts


def checksum(arrays: dict[str, NDArray]) -> str:
    """SHA-256 over names, types, shapes and values, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data)
    return digest.hexdigest()
