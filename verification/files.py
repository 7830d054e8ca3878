"""Atomic writing of certificates: a file is there whole or not at all."""

import json
import os
from pathlib import Path

__all__ = ["write"]


def write(path: Path, content: dict, indent: int | None = 1) -> None:
    """Write JSON atomically; without an indent it is one line, for programs of thousands of steps."""
    temporary = path.with_suffix(".partial")
    temporary.write_text(json.dumps(content, indent=indent, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)
