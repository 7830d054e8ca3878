"""What the trainings at the paper's budget took, experiment by experiment, beside the released code's time."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from pna.experiments import EXPERIMENTS, TRAININGS, Cell
from pna.figures.published import RELEASED_SECONDS
from pna.places import results_folder
from pna.training.store import Result, load
from report.markup import table
from report.speed import pace

__all__ = ["campaign", "cost"]

_OTHER = "other cells"
_HEADER = (
    "experiment",
    "cells",
    "epochs of all runs",
    "our hours, cells' clocks",
    "alone on the GPU",
    "released code: hours, timed",
    "estimated",
    "untimed",
)
_CAPTION = (
    "Every result at the paper's budget, each cell under the first experiment that needs it. Our hours are added up "
    "from each cell's own clock, while many of them shared one H200. Alone on the GPU: the hours of as many epochs at "
    "the pace that python -m benchmarks.training --all measured for cells one after the other (a departure alone has "
    "its model's pace as described; of figure 6's cells it was not measured). Beside them as many epochs of the "
    "released code, whose seven recurrent networks with 16 features were timed on an H200, one run at a time. "
    "Estimated: with these same seconds for the standard, ablated and deeper networks, those with 20 features and "
    "those of single tasks, none of which was timed. Of the cells in the last column there is no estimate"
)


def cost() -> str:
    """The table, with its total."""
    groups = campaign()
    rows = [(name, *_took(found)) for name, found in groups.items()]
    everything = [pair for found in groups.values() for pair in found]
    return table(_HEADER, [*rows, ("total", *_took(everything))], _CAPTION) if rows else ""


def campaign() -> dict[str, list[tuple[Cell, Result]]]:
    """Every cell recorded at the paper's budget, under the first experiment that needs it."""
    homes = {cell: name for name, e in reversed(EXPERIMENTS.items()) for spec in e.specs for cell in e.cells(spec)}
    groups = defaultdict(list)
    for path in sorted((results_folder() / "paper").rglob("*.json")):
        if (cell := Cell.at(path)) is not None:
            groups[homes.get(cell, _OTHER)].append((cell, load(path)))
    return {name: groups[name] for name in (*EXPERIMENTS, _OTHER) if groups[name]}


def _took(found: Iterable[tuple[Cell, Result]]) -> tuple[str, ...]:
    hours, alone, timed, estimated, epochs, without, cells, paces = 0.0, 0.0, 0.0, 0.0, 0, 0, 0, pace()
    for cell, result in found:
        own = sum(replica.epochs for replica in result.replicas)
        seconds = RELEASED_SECONDS.get(cell.model, 0.0) * own if cell.training in TRAININGS else 0.0
        if _timed(cell):
            timed += seconds
        else:
            estimated += seconds
        cells, epochs, hours, without = cells + 1, epochs + own, hours + result.seconds, without + (not seconds)
        alone += own * paces.get(cell, paces.get(replace(cell, spec="described"), 0.0))
    theirs = (f"{seconds / 3600:,.0f}" if seconds else "–" for seconds in (timed, estimated))
    ours = f"{hours / 3600:.2f}", f"{alone:.2f}" if alone else "–"
    return f"{cells}", f"{epochs:,}", *ours, *theirs, f"{without or '–'}"


def _timed(cell: Cell) -> bool:
    """Whether its network is one of those that the released code was timed with."""
    return cell.training in ("multitask", "extrapolation") and cell.hidden == 16
