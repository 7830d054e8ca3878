"""Figure 6's table: the published numbers of the models that are trained here, and ours beside them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pna import published
from pna.multitask.card import table
from pna.realworld.datasets import DATASETS
from pna.realworld.models import MODELS, RealCell, RealProfile
from pna.realworld.record import summary
from pna.realworld.run import real_result_path
from pna.training.store import load

__all__ = ["COLUMNS", "PUBLISHED", "TITLES", "Row", "cell_text", "epochs_text", "figure6", "figure6_rows"]

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

TITLES: dict[str, str] = {model: facts.title for (_, model, _), facts in MODELS.items()}


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

    cell: RealCell
    published: str
    facts: dict | None  # the result

    @property
    def ours(self) -> dict[str, str] | None:
        """Mean ± deviation with the weights best on validation ("best") and after the last epoch ("last")."""
        if self.facts is None:
            return None
        return {name: cell_text(self.cell.training, *row) for name, row in summary(self.facts).items()}


def figure6_rows(profiles: Callable[[str], RealProfile]) -> Iterator[Row]:
    """Every cell of the figure; profiles: the profile whose results are shown, by data set."""
    for column, (data, edges) in enumerate(COLUMNS.values()):
        for model, row in PUBLISHED.items():
            if (data, model, edges) in MODELS:
                cell = RealCell(data, model, edges)
                path = real_result_path(cell, profiles(data))
                yield Row(cell, row[column], load(path) if path.exists() else None)


def figure6(profiles: Callable[[str], RealProfile]) -> str:
    """The table as text: a line per cell, "not run" where there is no result."""
    lines, notes = [], {}
    for row in figure6_rows(profiles):
        title = row.cell.dataset.title
        line = (f"{title}, {row.cell.edges}", row.cell.hyperparameters.title, row.published)
        if row.facts is None:
            lines.append((*line, "not run", "", "", ""))
            continue
        lines.append((*line, *row.ours.values(), len(row.facts["replicas"]), epochs_text(row.facts)))
        if row.facts["data"]["train"] != "official":
            notes[title] = f"{title}: the training set is {row.facts['data']['train']}"
    header = ("data", "model", "published", "ours, best weights", "ours, last epoch", "seeds", "epochs")
    return "\n".join([table(header, lines), *notes.values()])


def cell_text(data: str, mean: float, deviation: float) -> str:
    """A number as figure 6 writes it: MAE, or a share in percent."""
    if DATASETS[data].task == "regression":
        return f"{mean:.3f}±{deviation:.3f}"
    return f"{100 * mean:.2f}±{100 * deviation:.2f}"


def epochs_text(facts: dict) -> str:
    """How many epochs the replicas of a result took, as 200, or 84 to 105."""
    epochs = [replica["epochs"] for replica in facts["replicas"]]
    low, high = min(epochs), max(epochs)
    return str(low) if low == high else f"{low} to {high}"
