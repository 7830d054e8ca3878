"""Figure 6's table: the published numbers of the models that are trained here, and ours beside them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pna.multitask.card import table
from pna.realworld.datasets import DATASETS
from pna.realworld.models import MODELS, RealCell, RealProfile
from pna.realworld.record import summary
from pna.realworld.run import real_result_path
from pna.training.store import load

__all__ = ["COLUMNS", "PUBLISHED", "Row", "cell_text", "figure6", "figure6_rows"]

COLUMNS = (
    ("zinc", "no-edges"),
    ("zinc", "edges"),
    ("cifar10", "no-edges"),
    ("cifar10", "edges"),
    ("mnist", "no-edges"),
    ("mnist", "edges"),
    ("molhiv", "no-edges"),
)

# Mean and deviation over 4 seeds (10 on MolHIV): MAE, accuracy in %, ROC-AUC in %. MolHIV from the public leaderboard.
PUBLISHED: dict[str, tuple[str | None, ...]] = {
    "mpnn-sum": ("0.381±0.005", "0.288±0.002", "65.39±0.47", "65.61±0.30", "96.72±0.17", "96.90±0.15", None),
    "mpnn-max": ("0.468±0.002", "0.328±0.008", "69.70±0.55", "70.86±0.27", "97.37±0.11", "97.82±0.08", None),
    "pna-no-scalers": ("0.413±0.006", "0.247±0.036", "70.46±0.44", "70.47±0.72", "97.41±0.16", "97.94±0.12", None),
    "pna": ("0.320±0.032", "0.188±0.004", "70.21±0.15", "70.35±0.63", "97.19±0.08", "97.69±0.22", "79.05±1.32"),
}


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
    for column, (data, edges) in enumerate(COLUMNS):
        for model, published in PUBLISHED.items():
            if (data, model, edges) in MODELS:
                cell = RealCell(data, model, edges)
                path = real_result_path(cell, profiles(data))
                yield Row(cell, published[column], load(path) if path.exists() else None)


def figure6(profiles: Callable[[str], RealProfile]) -> str:
    """The table as text: a line per cell, "not run" where there is no result."""
    lines, notes = [], {}
    for row in figure6_rows(profiles):
        title = row.cell.dataset.title
        line = (f"{title}, {row.cell.edges}", row.cell.hyperparameters.title, row.published)
        if row.facts is None:
            lines.append((*line, "not run", "", "", ""))
            continue
        replicas = row.facts["replicas"]
        lines.append((*line, *row.ours.values(), len(replicas), _span([replica["epochs"] for replica in replicas])))
        if row.facts["data"]["train"] != "official":
            notes[title] = f"{title}: the training set is {row.facts['data']['train']}"
    header = ("data", "model", "published", "ours", "last epoch", "seeds", "epochs")
    return "\n".join([table(header, lines), *notes.values()])


def cell_text(data: str, mean: float, deviation: float) -> str:
    """A number as figure 6 writes it: MAE, or a share in percent."""
    if DATASETS[data].task == "regression":
        return f"{mean:.3f}±{deviation:.3f}"
    return f"{100 * mean:.2f}±{100 * deviation:.2f}"


def _span(epochs: list[int]) -> str:
    low, high = min(epochs), max(epochs)
    return str(low) if low == high else f"{low} to {high}"
