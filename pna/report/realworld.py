"""Figure 6's columns, and what is recorded of them: results/<profile>/<data set>/released/<model>-<edges>.json.

ZINC and the superpixels are tested after the last epoch, as the published numbers are, MolHIV with the weights that
were best on validation. Within a column, one budget is shown: the paper's if there is any of it, else the one with most
models.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pna.networks import MODELS
from pna.report.places import recorded_folder
from pna.report.runs import RECORDED
from pna.training.store import load

__all__ = ["COLUMNS", "Column", "Score", "scores"]

PAPER = "paper"


@dataclass(frozen=True)
class Column:
    """A column of figure 6: its heading, the data set, whether edge features are used, and which way is better."""

    title: str
    data: str
    edges: bool
    lower_is_better: bool = False


COLUMNS: dict[str, Column] = {
    "ZINC_noedge_MAE": Column("ZINC\nno edge feat.\nMAE", "zinc", False, True),
    "ZINC_edge_MAE": Column("ZINC\nedge feat.\nMAE", "zinc", True, True),
    "CIFAR10_noedge_acc": Column("CIFAR10\nno edge feat.\naccuracy %", "cifar10", False),
    "CIFAR10_edge_acc": Column("CIFAR10\nedge feat.\naccuracy %", "cifar10", True),
    "MNIST_noedge_acc": Column("MNIST\nno edge feat.\naccuracy %", "mnist", False),
    "MNIST_edge_acc": Column("MNIST\nedge feat.\naccuracy %", "mnist", True),
    "MolHIV_ROCAUC": Column("MolHIV\n\nROC-AUC %", "molhiv", False),
}


@dataclass(frozen=True)
class Score:
    """Mean and deviation over seeds, how many there are, under which budget; full if that is the paper's."""

    mean: float
    deviation: float
    seeds: int
    full: bool = False
    budget: str = ""

    def __str__(self) -> str:
        return f"{self.mean:.3g} ± {self.deviation:.2g}" if self.mean < 1 else f"{self.mean:.2f} ± {self.deviation:.2f}"


def scores(profile: str) -> dict[tuple[str, str], Score]:
    """What is recorded under a profile, by the model's title and the column of the published table."""
    found = {}
    for name, column in COLUMNS.items():
        folder = _folder(column, profile)
        for path in _files(folder, column):
            model = path.stem.removesuffix(_suffix(column))
            if model in MODELS:
                found[MODELS[model].title, name] = _score(load(path), column, folder.name)
    return found


def _suffix(column: Column) -> str:
    return "-edges" if column.edges else "-no-edges"


def _files(folder: Path, column: Column) -> list[Path]:
    return sorted(
        path
        for path in (folder / column.data).glob(f"*/*{_suffix(column)}.json")
        if column.edges != path.stem.endswith("-no-edges")
    )


def _folder(column: Column, profile: str) -> Path:
    root = recorded_folder()
    if profile != RECORDED:
        return root / profile
    folders = [root / PAPER, *sorted(path for path in root.glob("*") if path.name != PAPER)]
    if _files(folders[0], column):
        return folders[0]
    return max(folders, key=lambda folder: len(_files(folder, column)))


def _score(facts: dict, column: Column, budget: str) -> Score:
    which = "best" if column.data == "molhiv" else "last"
    values = np.array([replica["test"][which] for replica in facts["replicas"] if replica["test"][which] is not None])
    scale = 1.0 if column.lower_is_better else 100.0
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    full = budget == PAPER and facts["data"].get("train") == "official"
    return Score(scale * float(values.mean()) if len(values) else np.nan, scale * deviation, len(values), full, budget)
