"""Every experiment of the paper's synthetic benchmark, as frozen tables: what is trained, how long, for which figure.

A *cell* is one training: (training, specification, model, hidden size), all its seeds together. An experiment is a
figure or a table and the cells that it needs; several experiments may read the same cell.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pna.departures import DEPARTURES, SPECS, departures_of
from pna.multitask import COLLECTIONS, Spec
from pna.networks import MODELS, NetworkSpec

__all__ = ["EXPERIMENTS", "PROFILES", "SPECS", "TRAININGS", "Cell", "Experiment", "Profile", "Training", "all_cells"]


@dataclass(frozen=True)
class Training:
    """How the networks of a cell are trained, and the collections of graphs that they are tested on."""

    collection: str
    architecture: str
    single_task: bool
    tests: tuple[str, ...]


TRAININGS: dict[str, Training] = {
    "multitask": Training("multitask", "recurrent", False, ("multitask", "multitask-15-24", "families")),
    "extrapolation": Training("extrapolation", "recurrent", False, ("extrapolation",)),
    "standard": Training("multitask", "standard", False, ("multitask", "multitask-15-24")),
    "single-task": Training("multitask", "recurrent", True, ("multitask", "multitask-15-24")),
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


@dataclass(frozen=True)
class Cell:
    """One training. Its name is training/spec/model/hidden, as in multitask/released/pna/16."""

    training: str
    spec: str
    model: str
    hidden: int

    @classmethod
    def parse(cls, name: str) -> "Cell":
        """From its name; spec may also be single departures, as in D1+D5, or released less some, as in released-D11."""
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
        """The departures of the released code that this cell takes over and that touch it."""
        touching = {d.id for d in DEPARTURES if d.touches(self.training, self.model)}
        return tuple(name for name in departures_of(self.spec) if name in touching)

    @property
    def data_spec(self) -> Spec:
        """D1 to D4."""
        return Spec.of(departures_of(self.spec))

    @property
    def network_spec(self) -> NetworkSpec:
        """The departures of the network."""
        return NetworkSpec.of(self.departures)

    def _trained_on(self, name: str) -> tuple:
        """All that another training's name changes in how this cell's networks are trained."""
        training = TRAININGS[name]
        splits = COLLECTIONS[training.collection](self.data_spec)
        return training.architecture, training.single_task, [s for s in splits if s.role != "test"]

    @property
    def trainings(self) -> tuple[str, ...]:
        """Every training that is the same as this cell's: as released, extrapolation is trained like multitask."""
        return tuple(name for name in TRAININGS if self._trained_on(name) == self._trained_on(self.training))

    @property
    def trained(self) -> "Cell":
        """The cell that is trained for it: itself or, of several with the same training, the first."""
        return replace(self, training=self.trainings[0])

    @property
    def tests(self) -> tuple[str, ...]:
        """The collections of graphs that it is tested on: those of every training that is the same."""
        names = dict.fromkeys(test for name in self.trainings for test in TRAININGS[name].tests)
        # without D3 that collection's test set is the one of "multitask"
        return tuple(n for n in names if n != "multitask-15-24" or self.data_spec.evaluation_sizes == "released")


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper, and the (training, models, hidden sizes) that it shows."""

    title: str
    where: str
    parts: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...]

    def cells(self, spec: str) -> tuple[Cell, ...]:
        """The cells that it needs under one specification."""
        return tuple(
            Cell(training, spec, model, size).trained
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
