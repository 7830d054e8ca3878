"""Cells: one training each, all its seeds together, by a name that says what is trained.

training/spec/model/variant: multitask/released/pna/16 is PNA with 16 hidden features on the multi-task benchmark, as
the released code has it; zinc/released/pna/edges is PNA on ZINC with edge features.
"""

import math
import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Self

from pna.arguments import choice
from pna.departures import DEPARTURES, SWITCHES, departures_of
from pna.multitask import COLLECTIONS, Spec
from pna.networks import MODELS, NetworkSpec
from pna.networks.depths import DEEPEST
from pna.realworld.data.datasets import DATASETS
from pna.realworld.hyperparameters import HYPERPARAMETERS

__all__ = ["TRAININGS", "Cell", "Profile", "Training"]


@dataclass(frozen=True)
class Training:
    """How the networks of a multi-task cell are trained, and the collections of graphs that they are tested on.

    Their number of layers is the paper's, ⌊N/2⌋, or another rule of pna/networks/depths.py; varied, each graph has some
    more or fewer in every epoch of training.
    """

    collection: str
    architecture: str
    single_task: bool
    tests: tuple[str, ...]
    depth: str = "N/2"
    varied: bool = False
    deepest: int = DEEPEST  # that a network can be in training


_deep = partial(Training, "extrapolation", "recurrent", False, ("extrapolation",))

TRAININGS: dict[str, Training] = {
    "multitask": Training("multitask", "recurrent", False, ("multitask", "multitask-15-24", "families")),
    "extrapolation": Training("extrapolation", "recurrent", False, ("extrapolation",)),
    "standard": Training("multitask", "standard", False, ("multitask", "multitask-15-24")),
    "single-task": Training("multitask", "recurrent", True, ("multitask", "multitask-15-24")),
    "no-gru": Training("multitask", "no-gru", False, ("multitask", "multitask-15-24")),
    "mean-readout": Training("multitask", "mean-readout", False, ("multitask", "multitask-15-24")),
    "depth-diameter": _deep(depth="diameter", deepest=23),  # a path of 24 nodes
    "depth-convergence": _deep(depth="convergence:0.1", deepest=24),
    "depth-varied": _deep(varied=True, deepest=18),
}
"""Of convergence: a fresh network stands still, by that threshold, after three to five layers, and learns to move on.
The decision to stop has no gradient, only the features do. Every batch has N layers, and a graph that has stopped keeps
its features, so that shapes do not hang on the data and a GPU can record the epoch. In GIN, whose batch normalisation
is over all nodes of a batch, those of graphs that have stopped count on; so they do with depth by the diameter."""

MOST_SEEDS = 10_000


@dataclass(frozen=True)
class Profile:
    """A budget: seeds and epochs, None for those of the model; and the share of the data that it is trained on."""

    name: str
    seeds: int | None = None
    epochs: int | None = None
    size_step: int = 1  # of the multi-task benchmark's sizes, each size_step-th
    divisor: int = 1  # of their graphs, 1/divisor
    graphs: tuple[int, int, int] | None = None  # of a real-world data set's splits, only so many
    patience: int = 1_000
    learning_rate: float = 0.003

    def changed(self, seeds: int | None = None, epochs: int | None = None) -> Self:
        """With other seeds or epochs, and a name that says so: its results are never taken for the profile's."""
        profile = self
        if seeds is not None and seeds > MOST_SEEDS:
            raise ValueError(
                f"seeds must be at most {MOST_SEEDS:,}, got {seeds:,}: all are trained together, in memory"
            )
        if seeds is not None and seeds != self.seeds:
            profile = replace(profile, name=f"{profile.name}-{seeds}-seeds", seeds=seeds)
        if epochs is not None and epochs != self.epochs:
            profile = replace(profile, name=f"{profile.name}-{epochs}-epochs", epochs=epochs)
        return profile

    @property
    def thinness(self) -> tuple[float, ...]:
        """What budgets are sorted by, the fullest first: share of the data, then epochs, then seeds."""
        graphs = sum(self.graphs) if self.graphs else math.inf
        return self.divisor * self.size_step, -graphs, -(self.epochs or math.inf), -(self.seeds or math.inf)


@dataclass(frozen=True)
class Cell:
    """One training."""

    training: str  # one of TRAININGS, or a real-world data set
    spec: str
    model: str
    variant: str  # the number of hidden features, or whether edge features are used

    @classmethod
    def parse(cls, name: str) -> Self:
        """From its name; spec may also be single departures, as in D1+D5, or released less some, as in released-D11."""
        parts = name.split("/")
        if len(parts) != 4:
            raise ValueError(
                "a cell is named training/spec/model/variant, as multitask/released/pna/16 or zinc/released/pna/edges; "
                f"got {name!r}"
            )
        cell = cls(*parts)
        choice(f"training in {name!r}", cell.training, (*TRAININGS, *DATASETS))
        (_check_multitask if cell.training in TRAININGS else _check_realworld)(cell)
        return cell

    def __str__(self) -> str:
        return f"{self.training}/{self.spec}/{self.model}/{self.variant}"

    @property
    def place(self) -> str:
        """Of its result, within the folder of a profile."""
        return f"{self.training}/{self.spec}/{self.model}-{self.variant}.json"

    @classmethod
    def at(cls, path: PurePath) -> Self | None:
        """The cell whose result, or whose weights, a path is; None if it is not such a path."""
        match = re.fullmatch(r"(.+?)-(\d+|no-edges|edges)", path.stem)
        try:
            return match and cls.parse("/".join((*path.parts[-3:-1], *match.groups())))
        except ValueError:
            return None

    @property
    def hidden(self) -> int:
        """The number of hidden features of a multi-task network."""
        return int(self.variant)

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

    @property
    def trainings(self) -> tuple[str, ...]:
        """Every training that is the same as this cell's: as released, extrapolation is trained like multitask."""
        if self.training not in TRAININGS:
            return (self.training,)
        return tuple(name for name in TRAININGS if self._trained_on(name) == self._trained_on(self.training))

    def _trained_on(self, name: str) -> tuple:
        """All that another training's name changes in how this cell's networks are trained."""
        training = TRAININGS[name]
        splits = COLLECTIONS[training.collection](self.data_spec)
        how = (training.architecture, training.single_task, training.depth, training.varied)
        return how, [split for split in splits if split.role != "test"]

    @property
    def trained(self) -> Self:
        """The cell that is trained for it: itself or, of several with the same training, the first."""
        return replace(self, training=self.trainings[0])


def _check_multitask(cell: Cell) -> None:
    choice(f"model in '{cell}'", cell.model, tuple(MODELS))
    if cell.variant not in map(str, range(4, 1025, 4)):
        raise ValueError(
            f"the number of hidden features must be a multiple of 4 (towers and heads) from 4 to 1024, "
            f"got {cell.variant!r} in '{cell}'"
        )
    departures_of(cell.spec)
    base, *less = cell.spec.split("-")
    for named, sign in ((base.split("+"), "+"), (less, "-")):  # another name would be trained once more
        if named != (once := sorted(set(named), key=("described", "released", *SWITCHES).index)):
            raise ValueError(f"spec in '{cell}' must name each departure once, in the order {sign.join(once)}")


def _check_realworld(cell: Cell) -> None:
    choice(f"spec in '{cell}'", cell.spec, ("released",))
    rows = [(model, edges) for data, model, edges in HYPERPARAMETERS if data == cell.training]
    choice(f"model in '{cell}'", cell.model, tuple(dict.fromkeys(model for model, _ in rows)))
    choice(f"edges in '{cell}'", cell.variant, tuple(edges for model, edges in rows if model == cell.model))
