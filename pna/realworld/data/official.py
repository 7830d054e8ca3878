"""Whether a local training set is the official one: by its size, and for ZINC by the SHA-256 of its rows.

A row of ZINC is the line "smiles,y", as read from the local files, of all splits in order. zinc_rows.bin holds the
first four bytes of every official row's own SHA-256, so that a set that is not official can be described row by row.
"""

import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files

from pna.realworld.data.datasets import OFFICIAL, RECOMPUTED, SPLITS, Dataset

__all__ = ["describe"]

ZINC_SHA256 = "f280f412772a6a74dbc7d58c3149a047fb6fc0e06b334fe290b7db70e7361edd"
BYTES = 4  # of a row in zinc_rows.bin
NAMED = 5  # rows that a description names

Row = tuple[str, float]  # SMILES, label


def describe(data: Dataset, sizes: Sequence[int], rows: Mapping[str, Sequence[Row]] | None = None) -> str:
    """Words for the training set of a data set read from local files.

    Args:
        data: the data set.
        sizes: how many graphs there are in each split.
        rows: the molecules by split; they are looked at for ZINC.
    """
    if tuple(sizes) != data.sizes:
        here, there = (", ".join(f"{count:,}" for count in counts) for counts in (sizes, data.sizes))
        return f"unofficial: {here} graphs in {', '.join(SPLITS)}, of {there}"
    if data.superpixels:
        return RECOMPUTED
    return _describe_zinc(rows) if data.name == "zinc" else OFFICIAL


def _describe_zinc(rows: Mapping[str, Sequence[Row]]) -> str:
    """OFFICIAL, or how many rows are the official ones and which are not."""
    lines = {(split, k): f"{smiles},{y!r}\n".encode() for split in SPLITS for k, (smiles, y) in enumerate(rows[split])}
    if hashlib.sha256(b"".join(lines.values())).hexdigest() == ZINC_SHA256:
        return OFFICIAL
    official = (files(__package__) / "zinc_rows.bin").read_bytes()
    others = [
        f"row {k} of {split}"
        for place, ((split, k), line) in enumerate(lines.items())
        if hashlib.sha256(line).digest()[:BYTES] != official[BYTES * place : BYTES * (place + 1)]
    ]
    more = f" and {len(others) - NAMED:,} more" * (len(others) > NAMED)
    count = f"{len(lines) - len(others):,} of {len(lines):,} rows are the official molecules"
    return f"unofficial: {count}, all but {', '.join(others[:NAMED])}{more}"
