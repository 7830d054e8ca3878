"""The time of all trainings at the paper's budget, by experiment, beside the released code's."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

from markupsafe import Markup

from pna.experiments import EXPERIMENTS, TRAININGS, Cell
from pna.figures.published import RELEASED_SECONDS
from pna.places import results_folder
from pna.training.store import Result, load
from report.markup import table
from report.speed import pace

__all__ = ["campaign", "cost"]

_OTHER = "other cells"
_HEADER = ("experiment", "cells", "epochs of all runs", "our hours, cells' clocks", "alone on the GPU")
_HEADER += ("released code: hours, timed", "estimated", "untimed")
_CAPTION = (
    "Every result at the paper's budget, each cell under the first experiment that needs it. Our hours are the sum of "
    "the cells' own clocks, while many cells shared one H200. Alone on the GPU: hours for the same number of epochs at "
    "the pace that python -m benchmarks.training --all measured for one cell after the other (a single departure has "
    "its model's pace as described; figure 6's cells were not measured). Released code: hours for the same number of "
    "epochs; its seven recurrent networks with 16 features were timed on an H200, one run at a time. Estimated: with "
    "these same timings for the standard, ablated and deeper networks, those with 20 features and those of single "
    "tasks, none of which was timed. Untimed: cells without an estimate"
)


def cost() -> Markup | str:
    """The table, with its total; empty if nothing is recorded."""
    groups = campaign()
    rows = [(name, *_totals(cells)) for name, cells in groups.items()]
    everything = [pair for cells in groups.values() for pair in cells]
    return table(_HEADER, [*rows, ("total", *_totals(everything))], _CAPTION) if rows else ""


def campaign() -> dict[str, list[tuple[Cell, Result]]]:
    """Every cell recorded at the paper's budget, under the first experiment that needs it."""
    homes = {cell: name for name, e in reversed(EXPERIMENTS.items()) for spec in e.specs for cell in e.cells(spec)}
    groups = defaultdict(list)
    for path in sorted((results_folder() / "paper").rglob("*.json")):
        if (cell := Cell.at(path)) is not None:
            groups[homes.get(cell, _OTHER)].append((cell, load(path)))
    return {name: groups[name] for name in (*EXPERIMENTS, _OTHER) if groups[name]}


def _totals(cells: Iterable[tuple[Cell, Result]]) -> tuple[str, ...]:
    """The columns of a row: cells, epochs, our hours, and the released code's."""
    sums, paces = Counter(), pace()
    for cell, result in cells:
        epochs = sum(replica.epochs for replica in result.replicas)
        seconds = RELEASED_SECONDS.get(cell.model, 0.0) * epochs if cell.training in TRAININGS else 0.0
        alone = epochs * paces.get(cell, paces.get(replace(cell, spec="described"), 0.0))
        sums += Counter(cells=1, epochs=epochs, seconds=result.seconds, alone=alone, untimed=int(not seconds))
        sums["timed" if _timed(cell) else "estimated"] += seconds
    theirs = (f"{sums[kind] / 3600:,.0f}" if sums[kind] else "–" for kind in ("timed", "estimated"))
    ours = f"{sums['seconds'] / 3600:.2f}", f"{sums['alone']:.2f}" if sums["alone"] else "–"
    return f"{sums['cells']}", f"{sums['epochs']:,}", *ours, *theirs, f"{sums['untimed'] or '–'}"


def _timed(cell: Cell) -> bool:
    """Whether the released code was timed with the cell's network."""
    return cell.training in ("multitask", "extrapolation") and cell.hidden == 16
