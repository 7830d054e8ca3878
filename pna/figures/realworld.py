"""Figure 6's columns, and what is recorded of them: results/<profile>/<data set>/released/<model>-<edges>.json.

A number is of the weights that the released protocol reports (`Dataset.reported`). Within a column, one budget is
shown: the paper's if there is any of it, else the one with most models.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pna.experiments.cells import Cell
from pna.experiments.figure6 import COLUMNS as PLACES
from pna.experiments.figure6 import TITLES, cell_of
from pna.experiments.realworld import PROFILES, Figure6Run, summary
from pna.figures import published
from pna.figures.runs import RECORDED
from pna.files import hash_of
from pna.places import results_folder
from pna.realworld.data.datasets import DATASETS, OFFICIAL, RECOMPUTED, training_set
from pna.training.store import Result, load
from pna.verdicts.statistics import Estimate, mean_of

__all__ = ["COLUMNS", "Column", "Score", "budgets", "missing", "published_score", "scores"]

PAPER = "paper"


@dataclass(frozen=True)
class Column:
    """A column of figure 6: the data set, and whether edge features are used."""

    data: str
    edges: str

    @property
    def cells(self) -> dict[str, Cell]:
        """The cells that are trained here, by the model's title."""
        (name,) = (name for name, place in PLACES.items() if place == (self.data, self.edges))
        cells = {title: cell_of(name, model) for model, title in TITLES.items()}
        return {title: cell for title, cell in cells.items() if cell}

    @property
    def title(self) -> str:
        """As ZINC, no edge features."""
        title = DATASETS[self.data].title
        edges = "edge features" if self.edges == "edges" else "no edge features"
        return title if self.data == "molhiv" else f"{title}, {edges}"

    @property
    def metric(self) -> str:
        """With its unit."""
        return DATASETS[self.data].metric + ("" if self.lower_is_better else " %")

    @property
    def heading(self) -> str:
        """Data set, edges and metric, a short line each."""
        short = self.title.replace("no edge features", "no edges").replace("edge features", "edges")
        return "\n".join([*short.split(", "), self.metric.replace("accuracy", "acc.")])

    @property
    def lower_is_better(self) -> bool:
        """Which way is better."""
        return DATASETS[self.data].task == "regression"

    @property
    def weights(self) -> str:
        """The weights that are tested: "last" or "best"."""
        return DATASETS[self.data].reported

    @property
    def scale(self) -> float:
        """From the recorded metric to the table's unit."""
        return 1.0 if self.lower_is_better else 100.0

    @property
    def seeds(self) -> int:
        """How many seeds the published numbers have."""
        return 10 if self.data == "molhiv" else 4

    @property
    def titles(self) -> list[str]:
        """The models that are trained here."""
        return list(self.cells)


COLUMNS: dict[str, Column] = {name: Column(*place) for name, place in PLACES.items()}


@dataclass(frozen=True)
class Score:
    """Mean and deviation over seeds, in the table's units; of a published one there is no result."""

    mean: float
    deviation: float
    seeds: int
    budget: str = ""  # the profile's name
    result: Result | None = None
    file: str = ""  # under results/

    def __str__(self) -> str:
        digits = 3 if self.mean < 10 else 2  # an error, or a percentage
        return f"{self.mean:.{digits}f} ± {self.deviation:.{digits}f}"

    @property
    def estimate(self) -> Estimate:
        """For Welch's test."""
        return mean_of(self.mean, self.deviation, self.seeds)

    @property
    def full(self) -> bool:
        """Whether it was published, or has the paper's budget."""
        return self.result is None or (self.budget == PAPER and not self.outdated)

    @property
    def outdated(self) -> bool:
        """Whether it was recorded at the paper's budget with another configuration than the present one."""
        if self.result is None or self.budget != PAPER:
            return False
        return _apart_from_seeds(self.result.configuration) != _now(self.result.cell)

    @property
    def data(self) -> tuple[str, str] | None:
        """What it was trained on, as two of ours can be compared by; None for a published one."""
        return self.result and (_training_set(self.result), self.result.facts["data"].get("sha256", ""))

    @property
    def official(self) -> bool:
        """Whether its training set holds the published molecules or images."""
        return self.result is None or _training_set(self.result) in (OFFICIAL, RECOMPUTED)


def _training_set(result: Result) -> str:
    """Words for the training set of a result."""
    return training_set(result.cell.split("/")[0], result.facts["data"])


def _apart_from_seeds(configuration: dict) -> str:
    """Of how many seeds a score is, it says itself."""
    return hash_of({name: value for name, value in configuration.items() if name != "seeds"})


@cache
def _now(cell: str) -> str:
    """The configuration that a cell has now at the paper's budget, hashed without its seeds."""
    return _apart_from_seeds(Figure6Run(Cell.parse(cell), PROFILES[PAPER]).configuration)


def published_score(title: str, column: str) -> Score | None:
    """The published number of a model; None where there is none."""
    found = published.realworld()[title][column]
    return found and Score(*found, COLUMNS[column].seeds)


def scores(profile: str | Callable[[str], str]) -> dict[tuple[str, str], Score]:
    """What is recorded under a profile, or one for each data set, by the model's title and the published column."""
    found = {}
    for name, column in COLUMNS.items():
        folder = _folder(column, profile if isinstance(profile, str) else profile(column.data))
        for title, path in _files(folder, column).items():
            found[title, name] = _score(load(path), column, path)
    return found


def _files(folder: Path, column: Column) -> dict[str, Path]:
    """The results in a folder, by the model's title."""
    paths = {title: folder / cell.place for title, cell in column.cells.items()}
    return {title: path for title, path in paths.items() if path.exists()}


def _folder(column: Column, profile: str) -> Path:
    root = results_folder()
    if profile != RECORDED:
        return root / profile
    folders = [root / PAPER, *sorted(path for path in root.glob("*") if path.name != PAPER)]
    if _files(folders[0], column):
        return folders[0]
    return max(folders, key=lambda folder: len(_files(folder, column)))


def _score(result: Result, column: Column, path: Path) -> Score:
    mean, deviation = summary(result)[column.weights]
    seeds = sum(replica.test[f"test/{column.weights}"][0] is not None for replica in result.replicas)
    file = path.relative_to(results_folder())
    return Score(column.scale * mean, column.scale * deviation, seeds, file.parts[0], result, file.as_posix())


def budgets(ours: dict[tuple[str, str], Score], columns: Iterable[str] = COLUMNS) -> list[str]:
    """What our scores were made from: a line for all of the same settings, and for each training set not official."""
    found = {name: [score.result for (_, where), score in ours.items() if where == name] for name in columns}
    trained: dict[str, list[tuple[str, str, Result]]] = {}  # data, model and result by their settings
    for (model, name), score in sorted(ours.items(), key=lambda item: list(COLUMNS).index(item[0][1])):
        if name in found:
            data = DATASETS[COLUMNS[name].data].title
            trained.setdefault(_settings(score.result), []).append((data, model, score.result))
    everywhere = [data for results in trained.values() for data in {data for data, *_ in results}]
    lines = [_budget(settings, results, everywhere) for settings, results in trained.items()]
    sets = {(COLUMNS[name].data, _training_set(result)) for name, results in found.items() for result in results}
    others = [(DATASETS[data].title, train) for data, train in sorted(sets) if train != OFFICIAL]
    lines += [f"{title}: the training set is {train}" for title, train in others]
    remarks = {
        f"{title} on {COLUMNS[name].title}: outdated, recorded with another configuration than the present one"
        for (title, name), score in ours.items()
        if name in found and score.outdated
    }
    return lines + sorted(remarks)


def _settings(result: Result) -> str:
    """Seeds, epochs out of the paper's, and a smaller training set."""
    asked, most = result.configuration["epochs"], result.configuration["model"]["epochs"]
    of = "" if asked == most else f" of {most:,}"
    parts = [f"{len(result.replicas)} seeds", f"at most {asked:,}{of} epochs"]
    if result.configuration["profile"]["graphs"]:
        parts.append(f"{result.facts['data']['graphs']['train']:,} training graphs")
    return ", ".join(parts)


def _budget(settings: str, results: list[tuple[str, str, Result]], everywhere: list[str]) -> str:
    """What was trained with the same settings, and how many runs ended by themselves.

    Of a data set that comes with several settings, being more than once in `everywhere`, the models are named.
    """
    models: dict[str, dict[str, None]] = {}  # in order, by data set
    for data, model, _ in results:
        models.setdefault(data, {})[model] = None
    names = (data if everywhere.count(data) == 1 else f"{', '.join(of)} on {data}" for data, of in models.items())
    replicas = [replica for *_, result in results for replica in result.replicas]
    ended = sum(replica.ended_by == "learning rate" for replica in replicas)
    sooner = f", {ended} of {len(replicas)} runs ended sooner, by learning rate" * bool(ended)
    lost = sum(replica.diverged for replica in replicas)
    diverged = f", {lost} of {len(replicas)} runs diverged" * bool(lost)
    return f"{', '.join(names)}: {settings}{sooner}{diverged}"


def missing(ours: dict[tuple[str, str], Score]) -> list[tuple[str, str]]:
    """The models and columns that are trained here and have no result."""
    cells = [(title, name) for name, column in COLUMNS.items() for title in column.titles]
    return [cell for cell in cells if cell not in ours]
