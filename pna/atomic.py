"""Files that are whole or not there, whenever the program is stopped and whatever the disk does."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

__all__ = ["write_whole"]


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Lets `write` fill a file beside `path`, then renames it; on any error the old file stays and no other is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
