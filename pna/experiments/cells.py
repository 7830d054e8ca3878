"""Cells: a cell is one model, trained under one specification with all its seeds.

Its name is training/spec/model/variant. As an example, multitask/released/pna/16 is PNA with 16 hidden features on the
multi-task benchmark, as the released code has it; zinc/released/pna/edges is PNA on ZINC with edge features.
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

    The number of layers is the paper's, ⌊N/2⌋, or follows another rule of pna/networks/depths.py. With `varied`, each
    graph gets a few layers more or fewer in every epoch of training.
    """

    collection: str
    architecture: str
    single_task: bool
    tests: tuple[str, ...]
    depth: str = "N/2"
    varied: bool = False
    deepest: int = DEEPEST  # the largest depth in training
    # Learning rates: common to all, of a "search", or "tuned" by it. Rates of dropout: "dropout" for the study of them,
    # "dropout-search" with the best learning rate, and "dropout-tuned" for runs that are tuned in both.
    rates: str = "common"


_FIGURE4 = ("multitask", "multitask-15-24", "redrawn", "families", "real", "real@cap")
_OTHERS = ("multitask", "multitask-15-24", "redrawn")

_deep = partial(Training, "extrapolation", "recurrent", False, ("extrapolation",))

TRAININGS: dict[str, Training] = {
    "multitask": Training("multitask", "recurrent", False, _FIGURE4),
    "extrapolation": Training("extrapolation", "recurrent", False, ("extrapolation",)),
    "standard": Training("multitask", "standard", False, _OTHERS),
    "single-task": Training("multitask", "recurrent", True, _OTHERS),
    "no-gru": Training("multitask", "no-gru", False, _OTHERS),
    "mean-readout": Training("multitask", "mean-readout", False, _OTHERS),
    "depth-diameter": _deep(depth="diameter", deepest=23),  # a path of 24 nodes has this diameter
    # An untrained network converges, by this threshold, after three to five layers, and learns to go further. The
    # decision to stop has no gradient, only the features have. Every batch runs N layers and a graph that has stopped
    # keeps its features, so that shapes do not depend on the data and a GPU can record the epoch. GIN's batch
    # normalisation still counts the nodes of graphs that have stopped, here and with the diameter.
    "depth-convergence": _deep(depth="convergence:0.1", deepest=24),
    "depth-varied": _deep(varied=True, deepest=18),
    "tuning": Training("multitask", "recurrent", False, (), rates="search"),  # no test set sees a search
    "dropout": Training("multitask", "recurrent", False, (), rates="dropout"),  # nor this study
    "dropout-tuning": Training("multitask", "recurrent", False, (), rates="dropout-search"),  # nor this search
    "tuned": Training("multitask", "recurrent", False, (*_FIGURE4, "extrapolation"), rates="tuned"),
    "tuned-dropout": Training("multitask", "recurrent", False, (*_FIGURE4, "extrapolation"), rates="dropout-tuned"),
    "real": Training("real-subgraphs", "recurrent", False, (*_OTHERS, "real", "real@cap")),
}

MOST_SEEDS = 10_000


@dataclass(frozen=True)
class Profile:
    """A training budget: seeds, epochs (None: the model's own), and the share of the data that is used."""

    name: str
    seeds: int | None = None
    epochs: int | None = None
    size_step: int = 1  # multi-task: every size_step-th graph size
    divisor: int = 1  # multi-task: one graph in `divisor`
    graphs: tuple[int, int, int] | None = None  # real-world: the number of graphs in each split
    patience: int = 1_000
    learning_rate: float = 0.003
    planned: bool = False  # whether the plan gives the seeds of each cell

    def changed(self, seeds: int | None = None, epochs: int | None = None) -> Self:
        """The profile with other seeds or epochs, and a name that says so, which keeps its results apart."""
        profile = self
        if self.planned and seeds is not None:
            raise ValueError(f"seeds are those of the plan under the profile {self.name}, got {seeds}")
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
        """The sort key that puts the fullest budget first: by share of the data, then epochs, then seeds, then plan."""
        graphs = sum(self.graphs) if self.graphs else math.inf
        epochs, seeds = self.epochs or math.inf, self.seeds or math.inf
        return self.divisor * self.size_step, -graphs, -epochs, -seeds, not self.planned

    @property
    def full(self) -> bool:
        """Whether it has the paper's epochs and data, and the paper's seeds or those of the plan."""
        return self.name in ("paper", "planned")


@dataclass(frozen=True)
class Cell:
    """One model, trained under one specification with all its seeds, by the four parts of its name."""

    training: str  # one of TRAININGS, or a real-world data set
    spec: str
    model: str
    variant: str  # the number of hidden features, or whether edge features are used

    @classmethod
    def parse(cls, name: str) -> Self:
        """Parse a name; spec may also be single departures (D1+D5), or released without some (released-D11)."""
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
        """Path of the result within the folder of a profile."""
        return f"{self.training}/{self.spec}/{self.model}-{self.variant}.json"

    @classmethod
    def at(cls, path: PurePath) -> Self | None:
        """The cell whose result or weights lie at a path; None for any other path."""
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
        """The released code's departures that the cell's specification includes and that affect its training."""
        touching = {d.id for d in DEPARTURES if d.touches(self.training, self.model)}
        return tuple(name for name in departures_of(self.spec) if name in touching)

    @property
    def data_spec(self) -> Spec:
        """The specification of the data: departures D1 to D4."""
        return Spec.of(departures_of(self.spec))

    @property
    def network_spec(self) -> NetworkSpec:
        """The specification of the network: the departures that affect it."""
        return NetworkSpec.of(self.departures)

    @property
    def trainings(self) -> tuple[str, ...]:
        """All trainings that are identical to this cell's: as released, extrapolation is trained like multitask."""
        if self.training not in TRAININGS:
            return (self.training,)
        return tuple(name for name in TRAININGS if self._trained_on(name) == self._trained_on(self.training))

    def _trained_on(self, name: str) -> tuple:
        """Everything in which this cell's training would differ under another training's name."""
        training = TRAININGS[name]
        splits = COLLECTIONS[training.collection](self.data_spec)
        how = (training.architecture, training.single_task, training.depth, training.varied, training.rates)
        return how, [split for split in splits if split.role != "test"]

    @property
    def trained(self) -> Self:
        """The cell that is trained in place of this one: the first of those with an identical training."""
        return replace(self, training=self.trainings[0])


def _check_multitask(cell: Cell) -> None:
    """Raise unless a multi-task cell has a known model, width and specification, written in the one accepted way."""
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
    """Raise unless figure 6 has the specification, model and edges of a real-world cell."""
    choice(f"spec in '{cell}'", cell.spec, ("released",))
    rows = [(model, edges) for data, model, edges in HYPERPARAMETERS if data == cell.training]
    choice(f"model in '{cell}'", cell.model, tuple(dict.fromkeys(model for model, _ in rows)))
    choice(f"edges in '{cell}'", cell.variant, tuple(edges for model, edges in rows if model == cell.model))
