"""The plan of the runs that decide, results/plan.json: which cells are trained, in which order, with which seeds.

It was written before the first of these runs; docs/plan.md explains it. Their seeds begin at 100, so that they share
none with the runs that the plan was made from.
"""

from functools import lru_cache
from pathlib import Path

from pna.errors import MissingData
from pna.experiments.cells import Cell
from pna.files import read_json
from pna.places import weights_folders

__all__ = ["planned_cells", "planned_seeds", "planned_test"]


def planned_cells() -> list[Cell]:
    """The cells of the plan, the most important first."""
    return [Cell.parse(name) for name in _cells()]


def planned_seeds(cell: Cell) -> list[int]:
    """The seeds that the plan gives a cell; none if the cell is not in the plan."""
    return list(_cells().get(str(cell), ()))


def planned_test(claim: str, spec: str) -> dict | None:
    """The plan's row for a claim, by its id, if it states the test's power; None otherwise, or if there is no plan."""
    try:
        rows = _plan()["claims"]
    except MissingData:
        return None
    tests = (row for row in rows if (row["id"], row["spec"]) == (claim, spec) and row["power"] is not None)
    return next(tests, None)


def _cells() -> dict[str, range]:
    """The seeds of each cell, by its name."""
    plan = _plan()
    first = plan["about"]["first_seed"]
    return {row["cell"]: range(first, first + row["seeds"]) for row in plan["cells"]}


def _plan() -> dict:
    """The plan as it was written."""
    paths = [folder / "plan.json" for folder in weights_folders()]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        raise MissingData(f"{paths[0]} is missing: it says which seeds are planned for a cell")
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _read(path: Path, changed: int) -> dict:
    """The file as it was when it last changed."""
    return read_json(path, path.read_bytes())
