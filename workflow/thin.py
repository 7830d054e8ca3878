"""Make the learning curves of recorded results as thin as those of new ones: python workflow/thin.py FOLDER …

Only curves lose points. Errors, seeds and provenance stay as they are, and a result states the checksum that it had.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from pna.files import read_json
from pna.training.store import load, save, thinner


def main(folders: Sequence[str]) -> None:
    """Make every result below the folders thinner."""
    parser = argparse.ArgumentParser(prog="thin.py", description=__doc__)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="a folder of results, such as results/planned")
    folders = parser.parse_args(folders).folders
    if missing := [folder for folder in folders if not Path(folder).is_dir()]:
        sys.exit(f"no such folder: {', '.join(missing)}")
    paths = sorted(path for folder in folders for path in Path(folder).rglob("*.json"))
    try:
        changed = [path for path in tqdm(paths, unit="result", disable=None) if _thin(path)]
    except ValueError as error:
        sys.exit(str(error))
    print(f"{len(changed)} of {len(paths)} results have thinner curves now")


def _thin(path: Path) -> bool:
    """Write a result with thinner curves, and tell whether it changed."""
    result = load(path)
    if (now := thinner(result, read_json(path)["sha256"])) is result:
        return False
    save(path, now)
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
