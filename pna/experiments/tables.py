"""The table of experiments: which cells each figure needs. Also the way from a cell and a profile to its run."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pna.departures import SPECS
from pna.experiments.cells import TRAININGS, Cell, Profile
from pna.experiments.dropout import DropoutRun, DropoutTuningRun, TunedDropoutRun
from pna.experiments.multitask import MultiTaskRun
from pna.experiments.realworld import Figure6Run
from pna.experiments.tuning import TunedRun, TuningRun
from pna.places import results_folder
from pna.realworld.data.datasets import DATASETS
from pna.realworld.hyperparameters import HYPERPARAMETERS
from pna.training.run import Run
from pna.training.store import load

__all__ = [
    "EVERY_SPEC",
    "EXPERIMENTS",
    "PROFILE_NAMES",
    "Experiment",
    "all_cells",
    "budgets",
    "fullest",
    "most_recorded",
    "profile_named",
    "profile_of",
    "run_of",
]

PROFILE_NAMES = ("smoke", "quick", "paper", "planned")

_BY_RATES = {"common": MultiTaskRun, "search": TuningRun, "tuned": TunedRun, "dropout": DropoutRun}
_BY_RATES |= {"dropout-search": DropoutTuningRun, "dropout-tuned": TunedDropoutRun}
_RUNS: dict[str, type[Run]] = {
    **{name: _BY_RATES[training.rates] for name, training in TRAININGS.items()},
    **dict.fromkeys(DATASETS, Figure6Run),
}


def profile_of(cell: Cell, name: str, seeds: int | None = None, epochs: int | None = None) -> Profile:
    """The profile of this name for a cell; seeds and epochs that differ from its own give it another name."""
    profile = _RUNS[cell.training].profiles[name]
    run = run_of(cell, profile)
    if profile.seeds is None and seeds == len(run.seeds):
        seeds = None
    if profile.epochs is None and epochs == run.epochs:
        epochs = None
    return profile.changed(seeds, epochs)


_NAME = re.compile(rf"({'|'.join(PROFILE_NAMES)})(?:-([1-9]\d*)-seeds)?(?:-([1-9]\d*)-epochs)?")


def profile_named(name: str, cell: Cell | None = None) -> Profile:
    """The profile that a folder of results is named after, as paper or paper-300-epochs.

    Without a cell it is a profile of the multi-task benchmark.
    """
    match = _NAME.fullmatch(name)
    if not match:
        allowed = ", ".join(PROFILE_NAMES)
        raise ValueError(f"profile must be one of {allowed}, or with -N-seeds, -N-epochs; got {name!r}")
    base, seeds, epochs = match.groups()
    profiles = MultiTaskRun.profiles if cell is None else _RUNS[cell.training].profiles
    return profiles[base].changed(seeds and int(seeds), epochs and int(epochs))


def budgets(folder: Path, cell: Cell | None = None) -> list[Profile]:
    """The profiles after which subfolders of `folder` are named, the fullest first."""
    names = sorted(path.name for path in folder.glob("*") if _NAME.fullmatch(path.name))
    return sorted((profile_named(name, cell) for name in names), key=lambda profile: profile.thinness)


def run_of(cell: Cell, profile: Profile, device: str = "cpu") -> Run:
    """The run of a cell under a profile on a device."""
    return _RUNS[cell.training](cell, profile, device)


def most_recorded(profiles: Iterable[Profile], count: Callable[[Profile], int | tuple[int, ...]]) -> Profile:
    """The budget under which most is recorded, by `count`; the first of equals, so pass the fullest first."""
    return max(profiles, key=count)


def fullest(cell: Cell) -> tuple[Run, bool] | None:
    """The run of the fullest budget under which a cell is recorded, and whether its configuration is the present one.

    A run of the present configuration is preferred to a fuller one of another configuration.
    """
    runs = {profile: run_of(cell, profile) for profile in budgets(results_folder(), cell)}
    current = {p: load(run.result).hash == run.hash for p, run in runs.items() if run.result.exists()}
    if not current:
        return None
    profile = most_recorded(current, current.__getitem__)
    return runs[profile], current[profile]


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper, and the cells it shows, as (training, models, variants)."""

    title: str
    where: str
    parts: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    specs: tuple[str, ...] = SPECS
    beyond: tuple[str, ...] = ()  # trainings beyond the paper: only as described, at the paper's budget
    alone: tuple[Cell, ...] = ()  # cells with specifications of their own, only at the paper's budget

    def cells(self, spec: str, profile: str = "paper") -> tuple[Cell, ...]:
        """The cells that the experiment needs under one specification and profile."""
        if spec not in self.specs:
            return ()
        alone = tuple(cell for cell in self.alone if cell.spec == spec and _in_full(profile))
        return alone + tuple(
            Cell(training, spec, model, variant).trained
            for training, models, variants in self.parts
            if training not in self.beyond or (spec == "described" and _in_full(profile))
            for model in models
            for variant in variants
        )


def _in_full(profile: str) -> bool:
    """Whether a profile has the paper's epochs and data, by its name."""
    return profile.startswith(("paper", "planned"))


_SEVEN = ("pna", "pna-no-scalers", "mpnn-max", "mpnn-sum", "gat", "gcn", "gin")
_SIX = ("pna", "mpnn-max", "gin", "gcn", "gat", "mpnn-sum")
_DEPTHS = tuple(name for name in TRAININGS if name.startswith("depth-"))
_MOMENTS = tuple(f"moments-{n}" for n in range(1, 6))
_REALWORLD = tuple((name, (m,), (edges,)) for name in DATASETS for data, m, edges in HYPERPARAMETERS if data == name)

_ALONE = tuple(
    Cell.parse(f"{training}/{spec}/{model}/16")
    for spec, training, models in (
        *((spec, "multitask", ("pna",)) for spec in ("D1", "D2", "D3")),
        ("D4", "extrapolation", ("pna", "gin")),
        ("D5", "multitask", ("pna", "mpnn-max")),
        ("D6", "multitask", ("gat",)),
        ("D7", "multitask", ("gin",)),
        ("D11", "multitask", ("pna",)),
        ("released-D11", "multitask", ("pna",)),
        ("D12", "multitask", ("moments-3", "moments-4", "moments-5")),
        *(
            ("D13", training, ("gin",)) for training in ("extrapolation", *_DEPTHS)
        ),  # runs of GIN that diverge without D13
        ("init", "multitask", ("pna",)),
        ("outputs", "multitask", ("pna",)),
    )
    for model in models
)

# All trainings that the paper mentions, including softmax, GRU and S2S, for which it shows no figure. Other depths and
# each departure alone are beyond the paper.
EXPERIMENTS: dict[str, Experiment] = {
    "figure4": Experiment("Multi-task benchmark", "figure 4", (("multitask", _SEVEN, ("16",)),)),
    "figure5": Experiment("Extrapolation", "figure 5", (("extrapolation", _SIX, ("16",)),)),
    "figure6": Experiment("Real-world benchmarks", "figure 6", _REALWORLD, specs=("released",)),
    "moments": Experiment("Moments", "appendix, normalised moments", (("multitask", (*_MOMENTS, "pna"), ("16",)),)),
    "graph-types": Experiment("Graph types", "appendix, graph type experiments", (("multitask", _SEVEN, ("16",)),)),
    "standard": Experiment(
        "Standard against recurrent architecture",
        "appendix, standard architecture",
        (("multitask", (*_SEVEN, "mean-max-min"), ("16",)), ("standard", (*_SEVEN, "mean-max-min"), ("16",))),
    ),
    "single-task": Experiment(
        "Single task against multi-task",
        "appendix, single task experiments",
        (("multitask", _SEVEN, ("16",)), ("single-task", _SEVEN, ("16",))),
    ),
    "parameters": Experiment(
        "Parameters",
        "appendix, parameters comparison",
        (("multitask", _SEVEN, ("16",)), ("multitask", _SEVEN[1:], ("20",))),
    ),
    "softmax": Experiment("Softmax and softmin", "section 2.1", (("multitask", ("pna", "pna-soft"), ("16",)),)),
    "gru": Experiment(
        "Without GRU",
        "appendix, standard architecture",
        tuple((training, _SEVEN, ("16",)) for training in ("multitask", "no-gru")),
        specs=("described",),
    ),
    "s2s": Experiment(
        "Without S2S",
        "appendix, standard architecture",
        tuple((training, _SEVEN, ("16",)) for training in ("multitask", "mean-readout")),
        specs=("described",),
    ),
    "depth": Experiment(
        "How deep",
        "beyond the paper, section 3",
        (
            ("extrapolation", _SIX, ("16",)),
            *((training, ("pna", "mpnn-max", "gin", "mpnn-sum"), ("16",)) for training in _DEPTHS),
        ),
        beyond=_DEPTHS,
    ),
    "departures": Experiment(
        "Departures of the released code, the rest as described",
        "each departure alone",
        (),
        specs=tuple(dict.fromkeys(cell.spec for cell in _ALONE)),
        alone=_ALONE,
    ),
}

EVERY_SPEC: tuple[str, ...] = tuple(dict.fromkeys(spec for e in EXPERIMENTS.values() for spec in e.specs))


def all_cells(specs: tuple[str, ...] = SPECS) -> Iterator[Cell]:
    """Every cell of every experiment under these specifications, each once."""
    return iter(dict.fromkeys(cell for spec in specs for e in EXPERIMENTS.values() for cell in e.cells(spec)))
