"""The machine and the versions that a benchmark's JSON line names, and the file that keeps these lines."""

import json
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import torch

from pna.files import write_whole

__all__ = ["describe", "keep"]

RESULTS = Path(__file__).parent / "results.jsonl"


def describe() -> dict[str, str | int]:
    """Device, threads and versions."""
    cuda = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if cuda else _processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "torch_geometric", "numpy", "networkx")},
    }


def _processor() -> str:
    """Name of the processor where the system tells it, else its architecture."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else f"{platform.system()} {platform.machine()}"


def keep(lines: Sequence[dict], same: tuple[str, ...] | None = None, path: Path = RESULTS) -> None:
    """Append lines to results.jsonl, in place of older ones of the same benchmark.

    With `same`, only the rows of older lines go that have these facts in common with a new row.
    """
    names = {line["benchmark"] for line in lines}
    again = {tuple(row[fact] for fact in same) for line in lines for row in line["rows"]} if same else set()
    older_lines = []
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        if line["benchmark"] not in names:
            older_lines.append(line)
        elif same and (rows := [row for row in line["rows"] if tuple(row[fact] for fact in same) not in again]):
            older_lines.append(line | {"rows": rows})
    text = "".join(f"{json.dumps(line)}\n" for line in (*older_lines, *lines))
    write_whole(path, lambda file: file.write(text.encode()))
