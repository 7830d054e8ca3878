"""Files that somebody damaged: each is refused by name, or returns what was written."""

import json
import random
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load, save

from pna.files import read_arrays, read_json, read_tensors, write_arrays, write_json, write_tensors

FACTS = {"cell": "multitask/released/pna/16", "seeds": [0, 1], "seconds": 0.5}
VALUES = [None, True, -1, 1e308, 10**400, "", "x" * 5000, [], {}, [[[]]], {"seeds": [7]}, "\x1b[31m", "[" * 5000]


def damaged(rng: random.Random) -> tuple[Path, Callable[[], object], object]:
    """A damaged file in a new folder, the call that reads it, and what it held."""
    folder = Path(tempfile.mkdtemp())
    path = folder / rng.choice(["a.json", "a.safetensors", "a.npz"])
    x = np.arange(rng.randint(0, 5), dtype=np.float32)
    if path.suffix == ".json":
        write_json(path, FACTS)
        read, held = (lambda: read_json(path)), FACTS
    elif path.suffix == ".safetensors":
        write_tensors(path, {"x": torch.from_numpy(x)}, FACTS)
        read, held = (lambda: plain(*read_tensors(path))), plain({"x": x}, FACTS)
    else:
        write_arrays(path, {"x": x}, FACTS, 1, rng.choice([zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED]))
        read, held = (lambda: plain(*read_arrays(path, 1))), plain({"x": x}, FACTS)
    rng.choice([flip, cut, repeat, noise, edit])(rng, path)
    return path, read, held


def plain(arrays: dict, facts: dict) -> tuple[dict, dict]:
    """Arrays as lists, and the facts that were written, to be compared."""
    return {name: array.tolist() for name, array in arrays.items()}, {key: facts.get(key) for key in FACTS}


def flip(rng: random.Random, path: Path) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 5))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def cut(rng: random.Random, path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])


def repeat(rng: random.Random, path: Path) -> None:
    data = path.read_bytes()
    k = rng.randrange(len(data))
    path.write_bytes(data[:k] + data[k // 2 :])


def noise(rng: random.Random, path: Path) -> None:
    path.write_bytes(rng.randbytes(rng.randint(0, 200)))


def edit(rng: random.Random, path: Path) -> None:
    """Another value or no value for a fact, as an editor leaves it; in JSON, which has no checksum, broken syntax."""
    if path.suffix == ".json":
        text = path.read_text()
        path.write_text(rng.choice(["[" * 10**5, "1" * 5000, text.replace("0.5", "NaN"), text.replace("{", "", 1)]))
        return
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            x = archive.read("x.npy")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", x)
            archive.writestr("facts.npy", rng.choice([x, b"", b"[" * 10**5]))
        return
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    facts = json.loads(header["__metadata__"]["pna"])
    key = rng.choice([*FACTS, "sha256"])
    value = rng.choice(VALUES)
    facts |= {key: value}
    if rng.random() < 0.3 and key == "sha256":
        del facts[key]
    path.write_bytes(save(load(data), {"pna": json.dumps(facts)}))
