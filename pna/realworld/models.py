"""The hyper-parameters of figure 6 as the released code has them, one row per model and data set; budgets; cells.

A cell is named dataset/released/model/edges, as in zinc/released/pna/no-edges: one training, all its seeds together.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pna.arguments import choice
from pna.realworld.datasets import DATASETS, Dataset

__all__ = ["LAYERS", "REAL_PROFILES", "TOWERS", "RealCell", "RealModel", "RealProfile", "is_real", "real_cells"]

LAYERS = 4
TOWERS = 5
SPEC = "released"
EDGES = ("no-edges", "edges")

FOUR = ("mean", "max", "min", "std")
SCALERS = ("identity", "amplification", "attenuation")
NONE = ("identity",)


@dataclass(frozen=True)
class RealModel:
    """One network and how it is trained.

    The released commands say for some models that a layer does not divide its input among the towers; their option
    takes any word for yes, and only with all layers dividing do the networks have the 100,000 parameters that
    are stated.
    """

    title: str
    aggregators: tuple[str, ...]
    scalers: tuple[str, ...]
    hidden: int
    out: int
    edge_dim: int = 0
    dropout: float = 0.0
    patience: int = 5
    weight_decay: float = 3e-6
    towers: bool = True
    readout: str = "sum"
    learning_rate: float = 1e-3
    min_learning_rate: float = 1e-5
    epochs: int = 1_000
    batch: int = 128
    seeds: int = 4


def _models() -> dict[tuple[str, str, str], RealModel]:
    """By data set, model and edges."""
    kinds = {
        "pna": ("PNA", FOUR, SCALERS),
        "pna-no-scalers": ("PNA (no scalers)", FOUR, NONE),
        "mpnn-sum": ("MPNN (sum)", ("sum",), NONE),
        "mpnn-max": ("MPNN (max)", ("max",), NONE),
    }
    table = {}
    for name, kind in kinds.items():
        mpnn = name.startswith("mpnn")
        hidden, out = {"pna": (75, 70), "pna-no-scalers": (95, 90)}.get(name, (110, 80))
        decay = 1e-5 if mpnn else 3e-6
        table["zinc", name, "no-edges"] = RealModel(*kind, hidden, out, weight_decay=decay)
        hidden, out = {"pna": (70, 60), "pna-no-scalers": (90, 80)}.get(name, (100, 70))
        table["zinc", name, "edges"] = RealModel(*kind, hidden, out, edge_dim=50, patience=20)
        for data in ("cifar10", "mnist"):
            hidden, out = {"pna": (75, 70), "pna-no-scalers": (95, 90)}.get(name, (110, 90))
            table[data, name, "no-edges"] = RealModel(*kind, hidden, out, dropout=0.2 if mpnn else 0.1)
            table[data, name, "edges"] = RealModel(
                *kind, hidden, out, edge_dim=20 if mpnn else 50, dropout=0.2 if mpnn else 0.3
            )
    table["molhiv", "pna", "no-edges"] = RealModel(
        *kinds["pna"],
        80,
        80,
        dropout=0.3,
        patience=20,
        towers=False,
        readout="mean",
        learning_rate=0.01,
        min_learning_rate=1e-4,
        epochs=200,
        seeds=10,
    )
    return table


MODELS = _models()


@dataclass(frozen=True)
class RealProfile:
    """A budget: graphs of each split, seeds and epochs; None for all, and for those of the model."""

    name: str
    graphs: tuple[int, int, int] | None = None
    seeds: int | None = None
    epochs: int | None = None

    def changed(self, seeds: int | None = None, epochs: int | None = None) -> "RealProfile":
        """With other seeds or epochs, and a name that says so: its results are never taken for the profile's."""
        profile = self
        if seeds is not None and seeds != self.seeds:
            profile = replace(profile, name=f"{profile.name}-{seeds}-seeds", seeds=seeds)
        if epochs is not None and epochs != self.epochs:
            profile = replace(profile, name=f"{profile.name}-{epochs}-epochs", epochs=epochs)
        return profile


REAL_PROFILES: dict[str, RealProfile] = {
    "smoke": RealProfile("smoke", (64, 32, 32), seeds=2, epochs=2),  # seconds
    "quick": RealProfile("quick", (512, 256, 256), seeds=2, epochs=10),  # minutes on a CPU
    "paper": RealProfile("paper"),
}


@dataclass(frozen=True)
class RealCell:
    """One training on a real-world data set."""

    training: str  # the data set
    model: str
    edges: str
    spec: str = SPEC

    @classmethod
    def parse(cls, name: str) -> "RealCell":
        """From its name."""
        parts = name.split("/")
        if len(parts) != 4:
            raise ValueError(
                f"a real-world cell is named dataset/{SPEC}/model/edges, as zinc/{SPEC}/pna/no-edges; got {name!r}"
            )
        data, spec, model, edges = parts
        choice("data set", data, tuple(DATASETS))
        choice("spec of a real-world cell", spec, (SPEC,))
        models = tuple(dict.fromkeys(m for d, m, _ in MODELS if d == data))
        choice(f"model on {data}", model, models)
        choice(f"edges of {data}/{spec}/{model}", edges, tuple(e for d, m, e in MODELS if (d, m) == (data, model)))
        return cls(data, model, edges)

    def __str__(self) -> str:
        return f"{self.training}/{self.spec}/{self.model}/{self.edges}"

    @property
    def hyperparameters(self) -> RealModel:
        """The row of the table."""
        return MODELS[self.training, self.model, self.edges]

    @property
    def dataset(self) -> Dataset:
        """The data set."""
        return DATASETS[self.training]


def is_real(name: str) -> bool:
    """Whether the name of a cell begins with one of the real-world data sets."""
    return name.split("/")[0] in DATASETS


def real_cells() -> Iterator[RealCell]:
    """Every cell of figure 6."""
    return (RealCell(data, model, edges) for data, model, edges in MODELS)
