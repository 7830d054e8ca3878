"""The hyper-parameters of figure 6 as the released code has them, one row per data set, model and use of edges."""

from dataclasses import dataclass

__all__ = ["HYPERPARAMETERS", "LAYERS", "TOWERS", "Hyperparameters"]

LAYERS = 4
TOWERS = 5

FOUR = ("mean", "max", "min", "std")
SCALERS = ("identity", "amplification", "attenuation")
NONE = ("identity",)


@dataclass(frozen=True)
class Hyperparameters:
    """One network and how it is trained.

    All layers divide their input among the towers. The released command for PNA on ZINC without edge features says
    that they do not, but the option took any word for yes until April 2021. At its word, as the option is taken since,
    there are 433,395 parameters; with all layers dividing 94,995, and with two layers that the code of that time had
    and did not use 100,010, which fits the published runs of 100,000.
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


def _table() -> dict[tuple[str, str, str], Hyperparameters]:
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
        table["zinc", name, "no-edges"] = Hyperparameters(*kind, hidden, out, weight_decay=decay)
        hidden, out = {"pna": (70, 60), "pna-no-scalers": (90, 80)}.get(name, (100, 70))
        table["zinc", name, "edges"] = Hyperparameters(*kind, hidden, out, edge_dim=50, patience=20)
        for data in ("cifar10", "mnist"):
            hidden, out = {"pna": (75, 70), "pna-no-scalers": (95, 90)}.get(name, (110, 90))
            table[data, name, "no-edges"] = Hyperparameters(*kind, hidden, out, dropout=0.2 if mpnn else 0.1)
            table[data, name, "edges"] = Hyperparameters(
                *kind, hidden, out, edge_dim=20 if mpnn else 50, dropout=0.2 if mpnn else 0.3
            )
    table["molhiv", "pna", "no-edges"] = Hyperparameters(
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


HYPERPARAMETERS = _table()
