"""Figure 6's numbers: the recorded runs behind each of its cells, our scores and the published ones.

A score is the mean over seeds of the test metric, with the weights that the released protocol reports
(`Dataset.reported`). Each column shows one budget: the one under which most of its cells are recorded.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from pna.experiments import Cell, Profile, budgets, most_recorded, profile_named
from pna.experiments.figure6 import COLUMNS, TITLES, cell_of
from pna.experiments.realworld import summary
from pna.figures import published
from pna.figures.runs import RECORDED, RecordedRun, recorded_run, seeds_text
from pna.places import results_folder
from pna.realworld.data.datasets import DATASETS, OFFICIAL
from pna.verdicts.statistics import Estimate, mean_of

__all__ = ["CELLS", "COLUMNS", "Place", "budget_lines", "column_title", "deviation", "digits_of", "figure6_runs"]
__all__ += ["lower_is_better", "metric_of", "published_score", "published_seeds", "published_text"]
__all__ += ["score", "score_text", "seeds_of"]

Place = tuple[str, str]  # a cell of the figure: the model's title, the column's name

CELLS: dict[Place, Cell] = {
    (title, column): cell for column in COLUMNS for model, title in TITLES.items() if (cell := cell_of(column, model))
}
"""Every cell of the figure that is trained here, column by column."""


# ---- columns ----


def column_title(column: str) -> str:
    """A column in words, as "ZINC, no edge features"."""
    data, edges = COLUMNS[column]
    title = DATASETS[data].title
    return title if data == "molhiv" else f"{title}, {'edge features' if edges == 'edges' else 'no edge features'}"


def lower_is_better(column: str) -> bool:
    """Whether the column's metric is an error."""
    return DATASETS[COLUMNS[column][0]].task == "regression"


def metric_of(column: str) -> str:
    """The column's metric with its unit."""
    return DATASETS[COLUMNS[column][0]].metric + ("" if lower_is_better(column) else " %")


def digits_of(column: str) -> int:
    """The number of decimals that the column's scores are written with."""
    return 3 if lower_is_better(column) else 2


def published_seeds(column: str) -> int:
    """The number of seeds behind the column's published scores."""
    return 10 if COLUMNS[column][0] == "molhiv" else 4


# ---- runs and scores ----


def figure6_runs(profile: str | Mapping[str, str]) -> dict[Place, RecordedRun]:
    """The recorded runs under a profile, or under one for each data set, column by column."""
    runs = {}
    for column, (data, _) in COLUMNS.items():
        cells = {place: cell for place, cell in CELLS.items() if place[1] == column}
        runs |= _column_runs(cells, profile if isinstance(profile, str) else profile[data])
    return runs


def _column_runs(cells: Mapping[Place, Cell], profile: str) -> dict[Place, RecordedRun]:
    """The recorded runs of one column, all of one budget; those of an earlier configuration are among them.

    The budget is the one with the most runs of the present configuration, and among equals the one with the most runs.
    """
    example = next(iter(cells.values()))
    recorded = profile == RECORDED
    profiles = budgets(results_folder(), example) if recorded else [profile_named(profile, example)]
    tries = {one: {place: recorded_run(cell, one, True) for place, cell in cells.items()} for one in profiles}
    runs = {one: {place: run for place, run in row.items() if run} for one, row in tries.items()}

    def count(profile: Profile) -> tuple[int, int]:
        return sum(not run.outdated for run in runs[profile].values()), len(runs[profile])

    return runs[most_recorded(runs, count)] if runs else {}


def seeds_of(run: RecordedRun) -> int:
    """The number of seeds with a test metric; a diverged one may have none."""
    weights = DATASETS[run.cell.training].reported
    return sum(replica.test[f"test/{weights}"][0] is not None for replica in run.result.replicas)


def score(run: RecordedRun) -> Estimate:
    """Our score, in the table's unit: an error, or a share in percent."""
    data = DATASETS[run.cell.training]
    unit = 1.0 if data.task == "regression" else 100.0
    mean, spread = summary(run.result)[data.reported]
    return mean_of(unit * mean, unit * spread, seeds_of(run))


def published_score(title: str, column: str) -> Estimate | None:
    """The published score of a model; None where there is none."""
    row = published.realworld()[title][column]
    return row and mean_of(*row, published_seeds(column))


def deviation(one: Estimate) -> float:
    """The deviation over the seeds behind a score, 0 for a single seed."""
    return one.error * math.sqrt(one.freedom + 1) if one.known else 0.0


def score_text(one: Estimate | None, sign: str = " ± ") -> str:
    """A score as mean ± deviation, a dash where there is none."""
    if one is None:
        return "–"
    digits = 3 if one.value < 10 else 2  # an error, or a percentage
    return f"{one.value:.{digits}f}{sign}{deviation(one):.{digits}f}"


def published_text(title: str, column: str, sign: str = " ± ") -> str:
    """A published score as text, with the paper's asterisk where it was trained with additional patience."""
    return score_text(published_score(title, column), sign) + "*" * published.patient(title, column)


# ---- what our scores were made from ----


def budget_lines(ours: Mapping[Place, RecordedRun], columns: Collection[str] = tuple(COLUMNS)) -> list[str]:
    """The budget of our scores in the given columns, a line for all of the same settings, and what is not as published.

    That is each training set that is not the official file, and each outdated run.
    """
    runs = {(title, column): run for (title, column), run in ours.items() if column in columns}
    same: dict[tuple[str, str], list[RecordedRun]] = {}  # by data set and settings
    for run in runs.values():
        same.setdefault((run.cell.training, _settings(run)), []).append(run)
    several = {name for name, count in Counter(name for name, _ in same).items() if count > 1}
    groups: dict[str, list[RecordedRun]] = {}  # data sets with the same settings and numbers of seeds share a line
    for (_, settings), group in same.items():
        groups.setdefault(f"{seeds_text(group)}, {settings}", []).extend(group)
    lines = [_group_text(settings, group, several) for settings, group in groups.items()]
    others = sorted({(run.cell.training, run.data[0]) for run in runs.values() if run.data[0] != OFFICIAL})
    lines += [f"{DATASETS[name].title}: the training set is {train}" for name, train in others]
    outdated = {f"{title} on {column_title(c)}" for (title, c), run in runs.items() if run.outdated}
    return lines + [
        f"{name}: outdated, recorded with another configuration than the present one" for name in sorted(outdated)
    ]


def _settings(run: RecordedRun) -> str:
    """Epochs out of the paper's, and the size of a smaller training set."""
    configuration = run.result.configuration
    epochs, most = configuration["epochs"], configuration["model"]["epochs"]
    of = "" if epochs == most else f" of {most:,}"
    parts = [f"at most {epochs:,}{of} epochs"]
    if configuration["profile"]["graphs"]:
        parts.append(f"{run.result.facts['data']['graphs']['train']:,} training graphs")
    return ", ".join(parts)


_WITH_EDGES = {place for place in COLUMNS.values() if place[1] == "edges"}  # data sets that have a column of their own


def _group_text(settings: str, runs: Sequence[RecordedRun], several: Collection[str]) -> str:
    """The cells trained with the same settings, and how many of their runs ended by themselves.

    On a data set that was trained with several settings, the models are named, with and without edge features.
    """
    models: dict[tuple[str, str], dict[str, None]] = {}  # in order, by data set and edge features
    for run in runs:
        data = run.cell.training
        features = ", edge features" if (data, run.cell.variant) in _WITH_EDGES and data in several else ""
        models.setdefault((data, features), {})[run.title] = None
    names = (
        f"{', '.join(titles)} on {DATASETS[data].title}{features}" if data in several else DATASETS[data].title
        for (data, features), titles in models.items()
    )
    replicas = [replica for run in runs for replica in run.result.replicas]
    ended = sum(replica.ended_by == "learning rate" for replica in replicas)
    sooner = f", {ended} of {len(replicas)} runs ended sooner, at the minimum learning rate" * bool(ended)
    lost = sum(replica.diverged for replica in replicas)
    diverged = f", {lost} of {len(replicas)} runs diverged" * bool(lost)
    return f"{', '.join(names)}: {settings}{sooner}{diverged}"
