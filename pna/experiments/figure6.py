"""Figure 6's columns and the cells in them, and numbers as the figure writes them."""

from collections.abc import Callable, Collection

from pna.experiments.cells import HALVES, Cell, Profile
from pna.experiments.realworld import Figure6Run, summary
from pna.realworld.data.datasets import DATASETS
from pna.realworld.hyperparameters import HYPERPARAMETERS
from pna.training.store import Result, load

__all__ = ["COLUMNS", "TITLES", "cell_of", "cell_text", "draws", "epochs_text"]

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


def cell_of(column: str, model: str) -> Cell | None:
    """The cell of a model in a column, None if it is not trained here. MolHIV has one column, edge features or not."""
    data, edges = COLUMNS[column]
    variants = ("no-edges", "edges") if data == "molhiv" else (edges,)
    found = [Cell(data, "released", model, v) for v in variants if (data, model, v) in HYPERPARAMETERS]
    return found[0] if found else None


def draws(profiles: Callable[[str], Profile], datasets: Collection[str] = tuple(DATASETS)) -> list[str]:
    """How much a number hangs on the draw of the training set, for each model that is recorded on both halves of one.

    The halves are two draws with no graph in common; which draw it was is expected to matter less for the whole set.
    """
    lines = []
    for data, model, edges in (place for place in HYPERPARAMETERS if place[0] in datasets):
        runs = [Figure6Run(Cell(data, half, model, edges), profiles(data)) for half in HALVES]
        if all(run.result.exists() for run in runs):
            dataset, title = runs[0].dataset, runs[0].model.title + " with edge features" * (edges == "edges")
            found = [summary(load(run.result))[dataset.reported] for run in runs]
            one, other = (cell_text(data, *row) for row in found)
            apart = cell_text(data, abs(found[0][0] - found[1][0]), 0.0).partition("±")[0]
            redrawn = load(runs[0].result).facts["data"]["train"].partition(":")[0] == "redrawn"
            bound = "; this bounds what another draw changes, not official against redrawn" * redrawn
            halves = f"{title} has {one} from one half of the training set and {other} from the other"
            lines.append(f"{dataset.title}: {halves}, {apart} apart{bound}")
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
