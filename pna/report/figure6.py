"""Figure 6's table, cell by cell: published, ours, their difference and what it says; for the page and `pna figure6`.

The difference has Welch's 95 % interval, from the mean, deviation and number of seeds of both sides, and p comes from
the same t. The verdict is by p, corrected after Holm over all rows that have both numbers.
"""

import argparse
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pna.command_line import positive, told
from pna.experiments.cells import Cell
from pna.experiments.figure6 import epochs_text
from pna.experiments.realworld import PROFILES
from pna.multitask.card import table
from pna.realworld.data.datasets import DATASETS, WEIGHTS
from pna.report.realworld import COLUMNS, Column, Score, budgets, published_score, scores
from pna.report.runs import RECORDED
from pna.report.statistics import LEVEL, Estimate, holm
from pna.report.verdicts import number

__all__ = ["CAPTION", "Row", "compared", "main", "rows_of", "text"]

CAPTION = (
    "Ours minus published with its 95 % interval (Welch), one by one; p is corrected after Holm over the {} rows that "
    "have both numbers"
)


@dataclass(frozen=True)
class Row:
    """A cell of the figure: the published number, ours if it is recorded, and p of their difference, corrected."""

    title: str
    column: Column
    published: Score | None  # PNA without scalers on MolHIV is not in the paper
    ours: Score | None
    p: float = math.nan

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
    corrected = dict(zip(found, holm([*found.values()]), strict=True))
    return [Row(r.title, r.column, r.published, r.ours, corrected.get(k, math.nan)) for k, r in enumerate(rows)]


def _p(difference: Estimate) -> float:
    """Two-sided."""
    below = difference.below()
    return 2 * min(below, 1 - below)


def compared(rows: Iterable[Row]) -> int:
    """How many rows have a p."""
    return sum(not math.isnan(row.p) for row in rows)


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
)


def text(ours: dict[tuple[str, str], Score]) -> str:
    """The table, a line per cell, and what ours were made from."""
    rows = rows_of(ours)
    best = ", ".join(data.title for data in DATASETS.values() if data.reported == "best")
    notes = [f"{CAPTION.format(compared(rows))}.", f"Ours: {WEIGHTS['last']} ({best}: {WEIGHTS['best']})."]
    return "\n".join([table(_HEADER, map(_line, rows)), "", *notes, *budgets(ours)])


def _line(row: Row) -> tuple[str, ...]:
    place = (row.column.title, row.title, _short(row.published))
    if row.ours is None:
        return (*place, "not run", *[""] * (len(_HEADER) - len(place) - 1))
    change = number(row.difference.value, row.digits) if row.difference else ""
    p = "" if math.isnan(row.p) else f"{row.p:.3f}"
    made = (str(row.ours.seeds), epochs_text(row.ours.result), row.ours.budget)
    return (*place, _short(row.ours), change, row.interval, p, row.verdict, *made)


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
    return told("figure6", lambda: print(text(scores(dict(_chosen(options)).__getitem__))))


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
