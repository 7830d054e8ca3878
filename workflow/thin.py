"""Make the learning curves of recorded results as thin as those of new ones: python workflow/thin.py FOLDER …

The results under results/paper that the plan's new seeds have replaced keep a third of these points. Only curves lose
points. Errors, seeds and provenance stay as they are, and a result states the checksum that it had.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from pna.files import read_json
from pna.training.store import RESULT_POINTS, load, save, thinner


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
    points = RESULT_POINTS // 3 if _replaced(path) else RESULT_POINTS
    if (now := thinner(result, read_json(path)["sha256"], points)) is result:
        return False
    save(path, now)
    return True


def _replaced(path: Path) -> bool:
    """Whether a result was trained before the plan, and its cell is recorded with the plan's new seeds."""
    path = path.resolve()
    return path.parts[-4:-3] == ("paper",) and Path(path.parents[3], "planned", *path.parts[-3:]).exists()


if __name__ == "__main__":
    main(sys.argv[1:])
