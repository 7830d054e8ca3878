"""Figure 1 and the theory's figures, as verification draws them, with the numbers behind them."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import matplotlib

from pna.report.theory import outcomes

__all__ = ["figure1", "theory"]


def figure1(folder: Path) -> dict[str, dict]:
    """Draws figure 1; returns what is in it, by name."""
    from verification.counterexamples import EXACT, FIGURE_1

    _draw(folder, lambda name: name == "figure1")
    rows = [
        {
            "X": list(x),
            "Y": list(y),
            "fails": [name for name, g in {**EXACT, "sum": sum}.items() if g(x) == g(y)],
        }
        for x, y in FIGURE_1
    ]
    return {"figure1": {"neighbourhoods and the aggregators that do not tell them apart": rows}}


def theory(folder: Path) -> dict[str, dict]:
    """Draws the theory's figures; returns the outcome of the checks behind each, by name."""
    about = {
        "theory_five_reals": "PNA's four aggregators",
        "theory_collisions": "Theorem 1",
        "theory_round_trip": "Proposition 1",
        "theory_scalers": "Scalers over depth",
    }
    _draw(folder, lambda name: name in about)
    rows = outcomes()
    return {
        name: {row.statement: f"{row.status}: {row.evidence}" for row in rows if row.statement.startswith(start)}
        for name, start in about.items()
    }


def _draw(folder: Path, wanted: Callable[[str], bool]) -> None:
    """verification's figures into a folder, each in one go."""
    from verification.figures import draw_all

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".drawing-") as scratch, matplotlib.rc_context():
        matplotlib.rcdefaults()  # verification has its own style
        for path in draw_all(Path(scratch)):
            if wanted(path.stem):
                os.replace(path, folder / path.name)
