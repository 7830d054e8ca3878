"""The columns of figure 6, the cells in them, and its number format."""

from pna.experiments.cells import Cell
from pna.realworld.data.datasets import DATASETS
from pna.realworld.hyperparameters import HYPERPARAMETERS
from pna.training.store import Result

__all__ = ["COLUMNS", "TITLES", "cell_of", "cell_text", "epochs_text"]

# The columns of the published table: data set, and whether edge features are used.
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
    """The cell of a model in a column; None if it is not trained here.

    MolHIV has one column for models with and without edge features.
    """
    data, edges = COLUMNS[column]
    variants = ("no-edges", "edges") if data == "molhiv" else (edges,)
    cells = (Cell(data, "released", model, v) for v in variants if (data, model, v) in HYPERPARAMETERS)
    return next(cells, None)


def cell_text(data: str, mean: float, deviation: float) -> str:
    """Format a mean and a deviation as figure 6 does: an MAE, or a percentage."""
    if DATASETS[data].task == "regression":
        return f"{mean:.3f}±{deviation:.3f}"
    return f"{100 * mean:.2f}±{100 * deviation:.2f}"


def epochs_text(result: Result) -> str:
    """Format the number of epochs that the replicas of a result took: 200, or 84 to 105."""
    epochs = [replica.epochs for replica in result.replicas]
    low, high = min(epochs), max(epochs)
    return str(low) if low == high else f"{low} to {high}"
