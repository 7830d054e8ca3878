"""Figure 1 and the theory's figures, as verification draws them, with the numbers behind them."""

import tempfile
from functools import cache
from pathlib import Path

import matplotlib

from pna.figures.theory import outcomes

__all__ = ["figure1", "pictures", "theory"]


def figure1() -> dict[str, dict]:
    """The numbers of figure 1, by its name."""
    from verification.counterexamples import EXACT, FIGURE_1

    rows = [
        {
            "X": list(x),
            "Y": list(y),
            "fails": [name for name, g in {**EXACT, "sum": sum}.items() if g(x) == g(y)],
        }
        for x, y in FIGURE_1
    ]
    return {"figure1": {"neighbourhoods and the aggregators that do not tell them apart": rows}}


def theory() -> dict[str, dict]:
    """The outcome of the checks behind each of the theory's figures, by name."""
    about = {
        "theory_five_reals": "fails",
        "theory_collisions": "theorem1",
        "theory_round_trip": "proposition1",
        "theory_scalers": "depth",
    }
    rows = outcomes()
    return {
        name: {row.statement: f"{row.status}: {row.evidence}" for row in rows if row.topic == topic}
        for name, topic in about.items()
    }


def pictures(name: str) -> dict[str, bytes]:
    """The files of one of verification's figures, by their endings."""
    return {suffix: content for (stem, suffix), content in _drawn().items() if stem == name}


@cache
def _drawn() -> dict[tuple[str, str], bytes]:
    """Draw all of verification's figures, once; return the content of each file by its name and ending."""
    from verification.figures import draw_all

    with tempfile.TemporaryDirectory() as scratch, matplotlib.rc_context():
        matplotlib.rcdefaults()  # verification has its own style
        return {(path.stem, path.suffix[1:]): path.read_bytes() for path in draw_all(Path(scratch))}
