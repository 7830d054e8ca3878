"""Figure 6's table: the published numbers of the models that are trained here, and ours beside them."""

import argparse
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from pna import published
from pna.command_line import positive, told
from pna.experiments.cells import HALVES, Cell, Profile
from pna.experiments.realworld import PROFILES, Figure6Run, older, summary
from pna.multitask.card import table
from pna.realworld.data.datasets import DATASETS
from pna.realworld.hyperparameters import HYPERPARAMETERS
from pna.training.store import Result, load

__all__ = [
    "COLUMNS",
    "PUBLISHED",
    "TITLES",
    "Row",
    "cell_of",
    "cell_text",
    "draws",
    "epochs_text",
    "figure6",
    "figure6_rows",
    "main",
]

# The columns of the published table: the data set, and whether edge features are used.
COLUMNS: dict[str, tuple[str, str]] = {
    "ZINC_noedge_MAE": ("zinc", "no-edges"),
    "ZINC_edge_MAE": ("zinc", "edges"),
    "CIFAR10_noedge_acc": ("cifar10", "no-edges"),
    "CIFAR10_edge_acc": ("cifar10", "edges"),
    "MNIST_noedge_acc": ("mnist", "no-edges"),
    "MNIST_edge_acc": ("mnist", "edges"),
    "MolHIV_ROCAUC": ("molhiv", "no-edges"),
}

TITLES: dict[str, str] = {model: facts.title for (_, model, _), facts in HYPERPARAMETERS.items()}


def _published() -> dict[str, tuple[str | None, ...]]:
    """By model, in the order of the columns: MAE, accuracy in %, ROC-AUC in %; mean and deviation over seeds."""
    facts = published.table("realworld")
    places = [facts["columns"].index(column) for column in COLUMNS]
    rows = {model: [facts["rows"][title][place] for place in places] for model, title in TITLES.items()}
    return {model: tuple(text and text.rstrip("*") for text in row) for model, row in rows.items()}


PUBLISHED = _published()


@dataclass(frozen=True)
class Row:
    """One number of figure 6: the published one, and ours if there is a result."""

    run: Figure6Run
    published: str | None  # PNA without scalers on MolHIV is not in the paper
    result: Result | None

    @property
    def ours(self) -> dict[str, str] | None:
        """Mean ± deviation with the weights best on validation ("best") and after the last epoch ("last")."""
        if self.result is None:
            return None
        return {name: cell_text(self.run.cell.training, *row) for name, row in summary(self.result).items()}


def figure6_rows(profiles: Callable[[str], Profile]) -> Iterator[Row]:
    """Every cell of the figure; profiles: the profile whose results are shown, by data set."""
    for column, name in enumerate(COLUMNS):
        for model, row in PUBLISHED.items():
            if cell := cell_of(name, model):
                run = Figure6Run(cell, profiles(cell.training))
                yield Row(run, row[column], load(run.result) if run.result.exists() else None)


def cell_of(column: str, model: str) -> Cell | None:
    """The cell of a model in a column, None if it is not trained here. MolHIV has one column, edge features or not."""
    data, edges = COLUMNS[column]
    variants = ("no-edges", "edges") if data == "molhiv" else (edges,)
    found = [Cell(data, "released", model, v) for v in variants if (data, model, v) in HYPERPARAMETERS]
    return found[0] if found else None


def figure6(profiles: Callable[[str], Profile]) -> str:
    """The table as text: a line per cell, "not run" where there is no result."""
    lines, notes = [], {}
    for row in figure6_rows(profiles):
        title = row.run.dataset.title
        line = (f"{title}, {row.run.cell.variant}", row.run.model.title, row.published or "–")
        if row.result is None:
            lines.append((*line, "not run", "", "", "", ""))
            continue
        ours, taken = row.ours, row.run.dataset.reported
        lines.append((*line, ours.pop(taken), taken, *ours.values(), len(row.result.replicas), epochs_text(row.result)))
        train = row.result.facts["data"]["train"]
        notes |= {f"{title}: the training set is {train}": None} if train != "official" else {}
        notes |= {f"{title}: {older(row.result)}": None} if older(row.result) else {}
    header = ("data", "model", "published", "ours", "weights", "with the others", "seeds", "epochs")
    return "\n".join([table(header, lines), *notes, *draws(profiles)])


def draws(profiles: Callable[[str], Profile], datasets: Collection[str] = tuple(DATASETS)) -> list[str]:
    """How much a number hangs on the draw of the training set, for each model that is recorded on both halves of one.

    The halves are two draws with no graph in common; which draw it was is expected to matter less for the whole set.
    """
    lines = []
    for data, model, edges in (place for place in HYPERPARAMETERS if place[0] in datasets):
        runs = [Figure6Run(Cell(data, half, model, edges), profiles(data)) for half in HALVES]
        if all(run.result.exists() for run in runs):
            dataset, title = runs[0].dataset, f"{runs[0].model.title}, {edges}"
            found = [summary(load(run.result))[dataset.reported] for run in runs]
            numbers = " and ".join(cell_text(data, *row) for row in found)
            apart = cell_text(data, abs(found[0][0] - found[1][0]), 0.0).partition("±")[0]
            trained = f"{dataset.title}: on either half of the training set"
            lines.append(f"{trained}, {title} has {numbers}: {apart} apart")
    return lines


def cell_text(data: str, mean: float, deviation: float) -> str:
    """A number as figure 6 writes it: MAE, or a share in percent."""
    if DATASETS[data].task == "regression":
        return f"{mean:.3f}±{deviation:.3f}"
    return f"{100 * mean:.2f}±{100 * deviation:.2f}"


def epochs_text(result: Result) -> str:
    """How many epochs the replicas of a result took, as 200, or 84 to 105."""
    epochs = [replica.epochs for replica in result.replicas]
    low, high = min(epochs), max(epochs)
    return str(low) if low == high else f"{low} to {high}"


def main(arguments: Sequence[str]) -> int:
    """`python -m pna figure6`: the table, published beside ours."""
    parser = argparse.ArgumentParser(prog="pna figure6", description="Figure 6's table: published, ours, or not run.")
    parser.add_argument("--profile", choices=PROFILES, default="paper", help="the budget (default: paper)")
    parser.add_argument("--seeds", type=positive, help="of trainings with other seeds than the profile's")
    parser.add_argument(
        "--epochs",
        type=_epochs,
        action="append",
        default=[],
        help="of trainings with other epochs than the profile's: a number, or as zinc=200 for one data set",
    )
    options = parser.parse_args(arguments)

    def profile(data: str) -> Profile:
        epochs = dict(options.epochs).get(data, dict(options.epochs).get(""))
        return PROFILES[options.profile].changed(options.seeds, epochs)

    return told("figure6", lambda: print(figure6(profile)))


def _epochs(text: str) -> tuple[str, int]:
    """ "200" or "zinc=200"."""
    data, _, number = text.rpartition("=")
    if data and data not in DATASETS:
        raise argparse.ArgumentTypeError(f"data set must be one of {', '.join(DATASETS)}, got {data!r}")
    return data, positive(number)
