"""Every experiment of the paper's synthetic benchmark, as frozen tables: what is trained, how long, for which figure.

A *cell* is one training: (training, specification, model, hidden size), all its seeds together. An experiment is a
figure or a table and the cells that it needs; several experiments may read the same cell.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pna.multitask import DEPARTURES, Spec
from pna.networks import MODELS, NetworkSpec

__all__ = ["EXPERIMENTS", "PROFILES", "SPECS", "TRAININGS", "Cell", "Experiment", "Profile", "Training", "all_cells"]

SPECS = ("described", "released")


@dataclass(frozen=True)
class Training:
    """How the networks of a cell are trained, and the collections of graphs that they are tested on."""

    collection: str
    architecture: str
    single_task: bool
    tests: tuple[str, ...]


TRAININGS: dict[str, Training] = {
    "multitask": Training("multitask", "recurrent", False, ("multitask", "families")),
    "extrapolation": Training("extrapolation", "recurrent", False, ("extrapolation",)),
    "standard": Training("multitask", "standard", False, ("multitask",)),
    "single-task": Training("multitask", "recurrent", True, ("multitask",)),
}


@dataclass(frozen=True)
class Profile:
    """A budget: every so-manieth of the paper's sizes, 1/divisor of their graphs, seeds, epochs, patience, rate."""

    name: str
    size_step: int
    divisor: int
    seeds: int
    epochs: int
    patience: int = 1_000
    learning_rate: float = 0.003

    def changed(self, seeds: int | None = None, epochs: int | None = None) -> "Profile":
        """With other seeds or epochs, and a name that says so: its results are never taken for the profile's."""
        profile = self
        if seeds is not None and seeds != self.seeds:
            profile = replace(profile, name=f"{profile.name}-{seeds}-seeds", seeds=seeds)
        if epochs is not None and epochs != self.epochs:
            profile = replace(profile, name=f"{profile.name}-{epochs}-epochs", epochs=epochs)
        return profile


# The quick profile was found by trying, with an eye on the test errors, so that PNA as described learns all six tasks
# in minutes: it shows that learning works, and compares nothing.
PROFILES: dict[str, Profile] = {
    "smoke": Profile("smoke", size_step=5, divisor=256, seeds=2, epochs=2),  # seconds
    "quick": Profile("quick", size_step=10, divisor=2, seeds=2, epochs=450, learning_rate=0.01),  # minutes on a CPU
    "paper": Profile("paper", size_step=1, divisor=1, seeds=10, epochs=10_000),  # section 4, "Model training"
}

_DATA_DEPARTURES = tuple(departure.id for departure in DEPARTURES)  # D1 to D4
_NETWORK_DEPARTURES = {
    "D5": "swapped_extremes",
    "D6": "mispaired_attention",
    "D7": "position_norm",
    "init": "small_initialisation",
    "outputs": "activated_outputs",
}


@dataclass(frozen=True)
class Cell:
    """One training. Its name is training/spec/model/hidden, as in multitask/released/pna/16."""

    training: str
    spec: str
    model: str
    hidden: int

    @classmethod
    def parse(cls, name: str) -> "Cell":
        """From its name; spec may also be single departures, as in D1+D5."""
        parts = name.split("/")
        if len(parts) != 4 or not parts[3].isdecimal():
            raise ValueError(f"a cell is named training/spec/model/hidden, as multitask/released/pna/16; got {name!r}")
        training, spec, model, hidden = parts
        for kind, value, allowed in (("training", training, TRAININGS), ("model", model, MODELS)):
            if value not in allowed:
                raise ValueError(f"{kind} must be one of {', '.join(allowed)}; got {value!r} in {name!r}")
        if int(hidden) < 4 or int(hidden) % 4:
            raise ValueError(f"hidden must be a positive multiple of 4 (towers and heads), got {hidden} in {name!r}")
        cell = cls(training, spec, model, int(hidden))
        _ = cell.data_spec, cell.network_spec
        return cell

    def __str__(self) -> str:
        return f"{self.training}/{self.spec}/{self.model}/{self.hidden}"

    @property
    def departures(self) -> tuple[str, ...]:
        """The departures of the released code that this cell takes over."""
        known = (*_DATA_DEPARTURES, *_NETWORK_DEPARTURES)
        taken = {"described": (), "released": known}.get(self.spec, tuple(self.spec.split("+")))
        if unknown := [name for name in taken if name not in known]:
            raise ValueError(
                f"spec must be described, released, or departures joined by + out of {', '.join(known)}; "
                f"got {', '.join(map(repr, unknown))} in {self.spec!r}"
            )
        return taken

    @property
    def data_spec(self) -> Spec:
        """D1 to D4."""
        return Spec(**{d.field: "released" for d in DEPARTURES if d.id in self.departures})

    @property
    def network_spec(self) -> NetworkSpec:
        """D5 to D7, the initialisation and the outputs' activation."""
        return NetworkSpec(
            **{_NETWORK_DEPARTURES[name]: True for name in self.departures if name in _NETWORK_DEPARTURES}
        )


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper, and the (training, models, hidden sizes) that it shows."""

    title: str
    where: str
    parts: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...]

    def cells(self, spec: str) -> tuple[Cell, ...]:
        """The cells that it needs under one specification."""
        return tuple(
            Cell(training, spec, model, size)
            for training, models, sizes in self.parts
            for model in models
            for size in sizes
        )


_SEVEN = ("pna", "pna-no-scalers", "mpnn-max", "mpnn-sum", "gat", "gcn", "gin")
_MOMENTS = tuple(f"moments-{n}" for n in range(1, 6))

EXPERIMENTS: dict[str, Experiment] = {
    "figure4": Experiment("Multi-task benchmark", "figure 4", (("multitask", _SEVEN, (16,)),)),
    "figure5": Experiment(
        "Extrapolation", "figure 5", (("extrapolation", ("pna", "mpnn-max", "gin", "gcn", "gat", "mpnn-sum"), (16,)),)
    ),
    "moments": Experiment("Moments", "appendix, normalised moments", (("multitask", (*_MOMENTS, "pna"), (16,)),)),
    "graph-types": Experiment("Graph types", "appendix, graph type experiments", (("multitask", _SEVEN, (16,)),)),
    "standard": Experiment(
        "Standard against recurrent architecture",
        "appendix, standard architecture",
        (("multitask", (*_SEVEN, "mean-max-min"), (16,)), ("standard", (*_SEVEN, "mean-max-min"), (16,))),
    ),
    "single-task": Experiment(
        "Single task against multi-task",
        "appendix, single task experiments",
        (("multitask", _SEVEN, (16,)), ("single-task", _SEVEN, (16,))),
    ),
    "parameters": Experiment(
        "Parameters",
        "appendix, parameters comparison",
        (("multitask", _SEVEN, (16,)), ("multitask", _SEVEN[1:], (20,))),
    ),
}


def all_cells(specs: tuple[str, ...] = SPECS) -> Iterator[Cell]:
    """Every cell of every experiment, each once."""
    return iter(dict.fromkeys(cell for spec in specs for e in EXPERIMENTS.values() for cell in e.cells(spec)))
