"""Figure 6's table, cell by cell: published, ours, their difference and what it says; for the page and `pna figure6`.

The difference has Welch's 95 % interval, from the mean, deviation and number of seeds of both sides, and p comes from
the same t. The verdict is by p, corrected by Holm's method over all rows that have both numbers. What is not run, or
not to the end, has the hours that it would take, from what benchmarks/realworld.py measured.
"""

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pna.command_line import positive, run_command, say_if_empty
from pna.experiments.cells import Cell
from pna.experiments.figure6 import epochs_text
from pna.experiments.realworld import PROFILES
from pna.figures.realworld import COLUMNS, Column, Score, budgets, published_score, scores
from pna.figures.runs import RECORDED
from pna.places import repository, results_folder
from pna.realworld.data.datasets import DATASETS, WEIGHTS
from pna.realworld.hyperparameters import HYPERPARAMETERS, Hyperparameters
from pna.text import table
from pna.verdicts.rules import number
from pna.verdicts.statistics import LEVEL, Estimate, holm

__all__ = ["CAPTION", "COSTS", "Cost", "Row", "compared", "complete", "costs_text", "main", "rows_of", "text"]

CAPTION = (
    "Ours minus published with its 95 % interval (Welch), one by one; p is corrected by Holm's method over the {} rows "
    "that have both numbers"
)
NOT_MEASURED = "How long the rest would take is not measured: python -m benchmarks.realworld --cells DATA does that"
ASSUMED = (
    "s/epoch: of one run, with all seeds at once on one {}. Hours: of all seeds, by themselves there, to the end: as "
    "many epochs as the same model took on ZINC without edge features, where its schedule is the same (CIFAR10 and "
    "MNIST), and else the published maximum"
)


@dataclass(frozen=True)
class Cost:
    """What the training of a cell would take."""

    seconds: float  # for an epoch of one run
    set_up: float
    seeds: int
    epochs: float
    machine: str

    @property
    def hours(self) -> float:
        """Of all its seeds, together and by themselves on the machine."""
        return (self.set_up + self.seconds * self.seeds * self.epochs) / 3600


@dataclass(frozen=True)
class Row:
    """A cell of the figure: the published number, ours if it is recorded, and p of their difference, corrected."""

    title: str
    column: Column
    published: Score | None  # PNA without scalers on MolHIV is not in the paper
    ours: Score | None
    p: float = math.nan
    cost: Cost | None = None  # of what is not run to the end, where it is measured

    @property
    def cell(self) -> Cell:
        """That is trained for it."""
        return self.column.cells[self.title]

    @property
    def difference(self) -> Estimate | None:
        """Ours minus published."""
        return self.ours.estimate - self.published.estimate if self.ours and self.published else None

    @property
    def digits(self) -> int:
        """That the difference is written with."""
        return 3 if self.column.lower_is_better else 2

    @property
    def interval(self) -> str:
        """Of the difference; empty where there is none."""
        if self.difference is None or not self.difference.known:
            return ""
        return " … ".join(number(end, self.digits) for end in self.difference.interval)

    @property
    def verdict(self) -> str:
        """What ours is, by the corrected p."""
        if self.ours is None:
            return "not run"
        if math.isnan(self.p):
            return "not published" if self.published is None else "too few seeds"
        better = (self.difference.value < 0) == self.column.lower_is_better
        return ("better" if better else "worse") if self.p < 1 - LEVEL else "no difference found"


def rows_of(ours: dict[tuple[str, str], Score]) -> list[Row]:
    """Every cell of the figure that is trained here, column by column."""
    places = [(title, name) for name, column in COLUMNS.items() for title in column.titles]
    rows = [Row(t, COLUMNS[name], published_score(t, name), ours.get((t, name))) for t, name in places]
    found = {k: _p(row.difference) for k, row in enumerate(rows) if row.difference and row.difference.known}
    corrected, measured = dict(zip(found, holm([*found.values()]), strict=True)), _measured()
    return [replace(r, p=corrected.get(k, math.nan), cost=_cost(r, ours, measured)) for k, r in enumerate(rows)]


def _p(difference: Estimate) -> float:
    """Two-sided."""
    below = difference.below()
    return 2 * min(below, 1 - below)


def compared(rows: Iterable[Row]) -> int:
    """How many rows have a p."""
    return sum(not math.isnan(row.p) for row in rows)


# ---- what is not run ----

COSTS = ("s/epoch", "hours to the end")  # the last columns, where a cell is not run to its end


def complete(rows: Iterable[Row]) -> bool:
    """Whether every cell is run at the paper's budget, so that there is nothing to say of what is left."""
    return all(row.ours and row.ours.full for row in rows)


def _measured() -> dict[str, tuple[dict, str]]:
    """By cell what was measured last, and the machine."""
    path = repository() / "benchmarks" / "results.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    facts = [one for one in map(json.loads, lines) if one["benchmark"] == "realworld_cells"]
    return {row["cell"]: (row, one["machine"]["device"]) for one in facts for row in one["rows"]}


def _cost(row: Row, ours: dict[tuple[str, str], Score], measured: dict[str, tuple[dict, str]]) -> Cost | None:
    if str(row.cell) not in measured or (row.ours and row.ours.full):
        return None
    found, machine = measured[str(row.cell)]
    model, zinc = _hyperparameters(row.cell), ours.get((row.title, "ZINC_noedge_MAE"))
    epochs = float(model.epochs)
    if zinc and zinc.full and _schedule(model) == _schedule(_hyperparameters(Cell.parse(zinc.result.cell))):
        epochs = sum(replica.epochs for replica in zinc.result.replicas) / zinc.seeds
    seconds = found["seconds_per_epoch_and_run"]
    return Cost(seconds, found["set_up_seconds"], model.seeds, epochs, machine)


def _hyperparameters(cell: Cell) -> Hyperparameters:
    return HYPERPARAMETERS[cell.training, cell.model, cell.variant]


def _schedule(model: Hyperparameters) -> tuple:
    return model.patience, model.learning_rate, model.min_learning_rate, model.epochs


def costs_text(rows: Iterable[Row]) -> str:
    """What the columns of seconds and hours are, and the hours together."""
    costs = [row.cost for row in rows if row.cost]
    if not costs:
        return f"{NOT_MEASURED}."
    together = sum(cost.hours for cost in costs)
    machines = ", ".join(dict.fromkeys(cost.machine for cost in costs))
    return f"{ASSUMED.format(machines)}. These {len(costs)} cells together: {together:.1f} hours."


# ---- as text ----

_HEADER = (
    "data",
    "model",
    "published",
    "ours",
    "difference",
    "95 % interval",
    "p",
    "ours is",
    "seeds",
    "epochs",
    "budget",
    *COSTS,
)


def text(ours: dict[tuple[str, str], Score]) -> str:
    """The table, a line per cell, and what ours were made from."""
    rows = rows_of(ours)
    best = ", ".join(data.title for data in DATASETS.values() if data.reported == "best")
    notes = [f"{CAPTION.format(compared(rows))}.", f"Ours: {WEIGHTS['last']} ({best}: {WEIGHTS['best']})."]
    notes += [] if complete(rows) else [costs_text(rows)]
    header = _HEADER[: -len(COSTS)] if complete(rows) else _HEADER
    shown = table(header, (_line(row)[: len(header)] for row in rows))
    return "\n".join([shown, "", *notes, *budgets(ours)])


def _line(row: Row) -> tuple[str, ...]:
    place = (row.column.title, row.title, _short(row.published))
    cost = (f"{row.cost.seconds:.3f}", f"{row.cost.hours:.2f}") if row.cost else ("", "")
    if row.ours is None:
        return (*place, "not run", *[""] * (len(_HEADER) - len(place) - 3), *cost)
    change = number(row.difference.value, row.digits) if row.difference else ""
    p = "" if math.isnan(row.p) else f"{row.p:.3f}"
    made = (str(row.ours.seeds), epochs_text(row.ours.result), row.ours.budget)
    return (*place, _short(row.ours), change, row.interval, p, row.verdict, *made, *cost)


def _short(score: Score | None) -> str:
    return "–" if score is None else str(score).replace(" ", "")


def main(arguments: Sequence[str]) -> int:
    """`python -m pna figure6`: the table, published beside ours."""
    parser = argparse.ArgumentParser(prog="pna figure6", description="Figure 6's table: published, ours, or not run.")
    parser.add_argument("--profile", choices=PROFILES, help="of one budget (default: the fullest recorded)")
    parser.add_argument("--seeds", type=positive, help="of trainings with other seeds than the profile's")
    parser.add_argument(
        "--epochs",
        type=_epochs,
        action="append",
        default=[],
        help="of trainings with other epochs than the profile's: a number, or as zinc=200 for one data set",
    )
    options = parser.parse_args(arguments)
    say_if_empty(results_folder())
    return run_command("figure6", lambda: print(text(scores(dict(_chosen(options)).__getitem__))))


def _chosen(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """By data set the folder of results that is shown; the fullest where nothing is said of it."""
    said = dict(options.epochs)
    for data in DATASETS:
        epochs = said.get(data, said.get(""))
        fullest = (options.profile, options.seeds, epochs) == (None, None, None)
        changed = PROFILES[options.profile or "paper"].changed(options.seeds, epochs).name
        yield data, RECORDED if fullest else changed


def _epochs(text: str) -> tuple[str, int]:
    """ "200" or "zinc=200"."""
    data, _, number = text.rpartition("=")
    if data and data not in DATASETS:
        raise argparse.ArgumentTypeError(f"data set must be one of {', '.join(DATASETS)}, got {data!r}")
    return data, positive(number)
