"""Figure 6's table for the page and for `pna figure6`: published, ours, their difference and a verdict for each cell.

The difference has Welch's 95 % interval, from the mean, deviation and number of seeds of both sides; p comes from the
same t and is corrected by Holm's method over all rows that have both scores. A cell that is not trained to its end has
an estimate of the hours that it would take, from the measurements of benchmarks/realworld.py.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pna.command_line import positive, run_command, say_if_empty
from pna.experiments.cells import Cell
from pna.experiments.figure6 import epochs_text
from pna.experiments.realworld import PROFILES
from pna.experiments.tables import profile_of
from pna.figures import realworld
from pna.figures.runs import RECORDED, RecordedRun
from pna.places import repository, results_folder
from pna.realworld.data.datasets import DATASETS, WEIGHTS
from pna.realworld.hyperparameters import HYPERPARAMETERS, Hyperparameters
from pna.text import table
from pna.verdicts.planning import power
from pna.verdicts.rules import interval_end, number
from pna.verdicts.statistics import LEVEL, Estimate, holm

__all__ = ["CAPTION", "COSTS", "PATIENCE", "Cost", "Power", "Row"]
__all__ += ["compared", "complete", "costs_text", "main", "power_of", "rows_of"]

CAPTION = (
    "Ours minus published with its 95 % interval (Welch), one by one; p is corrected by Holm's method over the {} rows "
    "that have both numbers"
)
PATIENCE = "* By the paper's note, trained with additional patience to ensure convergence; ours were not."
NOT_MEASURED = "How long the rest would take is not measured: python -m benchmarks.realworld --cells DATA does that"
ASSUMED = (
    "s/epoch: seconds of one run, with all seeds at once on one {}. Hours: of all seeds to their end, alone on that "
    "machine, with as many epochs as the same model took on ZINC without edge features if its schedule is the same "
    "(CIFAR10 and MNIST), and else with the published maximum"
)


@dataclass(frozen=True)
class Cost:
    """An estimate of what the training of a cell would take."""

    seconds: float  # for an epoch of one run
    set_up: float
    seeds: int
    epochs: float
    machine: str

    @property
    def hours(self) -> float:
        """The hours of all seeds together, with the machine to themselves."""
        return (self.set_up + self.seconds * self.seeds * self.epochs) / 3600


@dataclass(frozen=True)
class Row:
    """A cell of the figure: the published score, our run if it is recorded, and the corrected p of their difference."""

    title: str
    column: str
    published: Estimate | None  # PNA without scalers on MolHIV is not in the paper
    ours: RecordedRun | None
    p: float = math.nan
    cost: Cost | None = None  # if it is not trained to its end, where that is measured

    @property
    def cell(self) -> Cell:
        """The cell that is trained for this row."""
        return realworld.CELLS[self.title, self.column]

    @property
    def where(self) -> str:
        """Data set and edge features of the column, in words."""
        return realworld.column_title(self.column)

    @property
    def score(self) -> Estimate | None:
        """Our score; None if the cell is not recorded."""
        return realworld.score(self.ours) if self.ours else None

    @property
    def difference(self) -> Estimate | None:
        """Our score minus the published one; None if one of them is missing."""
        return self.score - self.published if self.ours and self.published else None

    @property
    def interval(self) -> str:
        """The interval of the difference in words; empty where there is none."""
        if self.difference is None or not self.difference.known:
            return ""
        return " … ".join(interval_end(end, realworld.digits_of(self.column)) for end in self.difference.interval)

    @property
    def verdict(self) -> str:
        """How ours compares with the published score, by the corrected p."""
        if self.ours is None:
            return "not run"
        if math.isnan(self.p):
            return "not published" if self.published is None else "too few seeds"
        better = (self.difference.value < 0) == realworld.lower_is_better(self.column)
        return ("better" if better else "worse") if self.p < 1 - LEVEL else "no difference found"


def rows_of(ours: Mapping[realworld.Place, RecordedRun]) -> list[Row]:
    """A row for every cell of the figure that is trained here, column by column."""
    rows = [Row(title, c, realworld.published_score(title, c), ours.get((title, c))) for title, c in realworld.CELLS]
    differences = {k: row.difference for k, row in enumerate(rows) if row.difference and row.difference.known}
    corrected = dict(zip(differences, holm([one.unlike(0.0) for one in differences.values()]), strict=True))
    measured = _measured()
    return [replace(r, p=corrected.get(k, math.nan), cost=_cost(r, ours, measured)) for k, r in enumerate(rows)]


def compared(rows: Iterable[Row]) -> int:
    """Number of rows that have a p-value."""
    return sum(not math.isnan(row.p) for row in rows)


@dataclass(frozen=True)
class Power:
    """How likely a true difference is to be significant after Holm's correction, with the seeds that most rows have."""

    ours: int  # seeds of our score
    published: int  # seeds of the published one
    two: float  # for a difference of two standard deviations
    four: float


def power_of(rows: Sequence[Row]) -> Power:
    """The power of the comparisons of all rows; at least one row must have a p-value."""
    pairs = Counter(
        (realworld.seeds_of(row.ours), realworld.published_seeds(row.column)) for row in rows if not math.isnan(row.p)
    )
    ((seeds, _),) = pairs.most_common(1)
    return Power(*seeds, *(power(size, 1.0, seeds, compared(rows)) for size in (2.0, 4.0)))


# ---- what is not run ----

COSTS = ("s/epoch", "hours to the end")  # the last columns, unless every cell is trained to its end


def complete(rows: Iterable[Row]) -> bool:
    """Whether every cell is trained at the paper's budget, so that there is no cost left to estimate."""
    return all(row.ours and row.ours.full for row in rows)


def _measured() -> dict[str, tuple[dict, str]]:
    """Latest measurement of each cell's time per epoch, and the machine that it was made on."""
    path = repository() / "benchmarks" / "results.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    facts = [one for one in map(json.loads, lines) if one["benchmark"] == "realworld_cells"]
    return {row["cell"]: (row, one["machine"]["device"]) for one in facts for row in one["rows"]}


def _cost(row: Row, ours: Mapping[realworld.Place, RecordedRun], measured: dict[str, tuple[dict, str]]) -> Cost | None:
    """Estimate the cost of training a cell to its end; None if it has been, or if no epoch was measured."""
    if str(row.cell) not in measured or (row.ours and row.ours.full):
        return None
    facts, machine = measured[str(row.cell)]
    model, zinc = _hyperparameters(row.cell), ours.get((row.title, "ZINC_noedge_MAE"))
    epochs = float(model.epochs)
    if zinc and zinc.full and _schedule(model) == _schedule(_hyperparameters(zinc.cell)):
        epochs = sum(replica.epochs for replica in zinc.result.replicas) / realworld.seeds_of(zinc)
    return Cost(facts["seconds_per_epoch_and_run"], facts["set_up_seconds"], model.seeds, epochs, machine)


def _hyperparameters(cell: Cell) -> Hyperparameters:
    """Hyper-parameters of the network that a real-world cell trains."""
    return HYPERPARAMETERS[cell.training, cell.model, cell.variant]


def _schedule(model: Hyperparameters) -> tuple:
    """Settings that decide how many epochs a training takes: patience, learning rates and maximum."""
    return model.patience, model.learning_rate, model.min_learning_rate, model.epochs


def costs_text(rows: Iterable[Row]) -> str:
    """A note on the columns of seconds and hours, with the sum of the hours."""
    costs = [row.cost for row in rows if row.cost]
    if not costs:
        return f"{NOT_MEASURED}."
    together = sum(cost.hours for cost in costs)
    machines = ", ".join(dict.fromkeys(cost.machine for cost in costs))
    return f"{ASSUMED.format(machines)}. These {len(costs)} cells together: {together:.1f} hours."


# ---- as text ----

_HEADER = ("data", "model", "published", "ours", "difference", "95 % interval", "p", "ours is")
_HEADER += ("seeds", "epochs", "budget", *COSTS)


def _text(ours: Mapping[realworld.Place, RecordedRun]) -> str:
    """The table as text, a line for each cell, with notes on how our scores were made."""
    rows = rows_of(ours)
    best = ", ".join(data.title for data in DATASETS.values() if data.reported == "best")
    notes = [f"{CAPTION.format(compared(rows))}.", f"Ours: {WEIGHTS['last']} ({best}: {WEIGHTS['best']})."]
    notes += [PATIENCE]
    notes += [] if complete(rows) else [costs_text(rows)]
    header = _HEADER[: -len(COSTS)] if complete(rows) else _HEADER
    lines = table(header, (_line(row)[: len(header)] for row in rows))
    return "\n".join([lines, "", *notes, *realworld.budget_lines(ours)])


def _line(row: Row) -> tuple[str, ...]:
    """One row as the texts of its columns: place, scores, comparison, budget and cost."""
    place = (row.where, row.title, realworld.published_text(row.title, row.column, "±"))
    cost = (f"{row.cost.seconds:.3f}", f"{row.cost.hours:.2f}") if row.cost else ("", "")
    if row.ours is None:
        return (*place, "not run", *[""] * (len(_HEADER) - len(place) - 3), *cost)
    change = number(row.difference.value, realworld.digits_of(row.column)) if row.difference else ""
    p = "" if math.isnan(row.p) else f"{row.p:.3f}"
    budget = (str(realworld.seeds_of(row.ours)), epochs_text(row.ours.result), row.ours.profile.name)
    return (*place, realworld.score_text(row.score, "±"), change, row.interval, p, row.verdict, *budget, *cost)


def main(arguments: Sequence[str]) -> int:
    """Print figure 6's table: published scores beside ours."""
    parser = argparse.ArgumentParser(prog="pna figure6", description=main.__doc__)
    parser.add_argument("--profile", choices=PROFILES, help="show this budget (default: the fullest recorded)")
    parser.add_argument("--seeds", type=positive, help="show trainings with another number of seeds than the profile's")
    parser.add_argument(
        "--epochs",
        type=_epochs,
        action="append",
        default=[],
        help="show trainings with other epochs than the profile's: a number, or as zinc=200 for one data set",
    )
    options = parser.parse_args(arguments)
    say_if_empty(results_folder())
    return run_command("figure6", lambda: print(_text(realworld.figure6_runs(dict(_profiles(options))))))


def _profiles(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The profile to show for each data set; the fullest recorded where no option names one."""
    epochs_by_data = dict(options.epochs)
    for data in DATASETS:
        epochs = epochs_by_data.get(data, epochs_by_data.get(""))
        fullest = (options.profile, options.seeds, epochs) == (None, None, None)
        example = next(cell for cell in realworld.CELLS.values() if cell.training == data)
        changed = profile_of(example, options.profile or "paper", options.seeds, epochs)
        yield data, RECORDED if fullest else changed.name


def _epochs(text: str) -> tuple[str, int]:
    """Parse "200" or "zinc=200" to a data set, "" for all, and a number."""
    data, _, number = text.rpartition("=")
    if data and data not in DATASETS:
        raise argparse.ArgumentTypeError(f"data set must be one of {', '.join(DATASETS)}, got {data!r}")
    return data, positive(number)
