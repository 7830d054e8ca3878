"""One way to write certificates: whole or not at all."""

import json
import os
from pathlib import Path

__all__ = ["write"]


def write(path: Path, content: dict) -> None:
    """Writes JSON, atomically."""
    temporary = path.with_suffix(".partial")
    temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)
