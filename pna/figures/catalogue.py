"""The frozen table of figures, and `draw`, which every notebook calls to draw one of them."""

import base64
import html
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from pna.experiments import EXPERIMENTS, SPECS
from pna.figures.plots import (
    appendix,
    benchmark,
    depth,
    differences,
    extrapolation,
    hubs,
    multitask,
    overview,
    real,
    realworld,
    schematics,
    theory,
    tuning,
)
from pna.figures.real import trained_runs
from pna.figures.realworld import CELLS, budget_lines, figure6_runs
from pna.figures.runs import RECORDED, Runs, runs_of, specs_of
from pna.figures.style import STYLE, WARN, WIDTH, budget_text, save, stamp
from pna.places import figures_folder, results_folder
from pna.training.store import Result

__all__ = ["FIGURES", "NOTEBOOKS", "TEACHING", "Drawing", "Entry", "Lesson", "draw", "files_of"]

Drawn = tuple[Figure, dict]
Picture = tuple[str, Figure | Callable[[], dict[str, bytes]], dict]  # file name, figure or its contents, JSON


@dataclass(frozen=True)
class Entry:
    """A figure or a group of them. With panels, each is drawn once for each specification of its experiment."""

    title: str
    where: str
    panels: dict[str, Callable[[Runs], Drawn]] = field(default_factory=dict)
    pictures: Callable[[str], Iterator[Picture]] | None = None  # under a profile; instead of panels
    files: dict[str, str] = field(default_factory=dict)  # what each picture shows, by its name

    def shows(self, file: str) -> str:
        """A sentence on what a picture shows."""
        if file in self.files:
            return self.files[file]
        panel, _, spec = file.rpartition("_")
        return f"{self.panels[panel].__doc__.splitlines()[0].rstrip('.')} ({spec})"


# ---- pictures that are not drawn once for each specification ----


def _one(name: str, function: Callable[[], Drawn]) -> Callable[[str], Iterator[Picture]]:
    """Turn a function that draws one figure into an Entry's `pictures`: a generator of that figure, as file `name`."""

    def pictures(profile: str) -> Iterator[Picture]:
        figure, numbers = function()
        yield name, figure, {"cells": [], "numbers": numbers}

    return pictures


def _benchmark(profile: str) -> Iterator[Picture]:
    """Yield the pictures of the benchmark's data: labels, departures, and the families of each specification."""
    sets = benchmark.training_sets()
    for file, function in (("benchmark_labels", benchmark.labels), ("benchmark_departures", benchmark.departures)):
        figure, numbers = function(sets)
        figure.supxlabel("1,280 of the 5,120 training graphs of each specification", fontsize=7, color="#6b6b6b")
        yield file, figure, {"cells": [], "numbers": numbers}
    for one in SPECS:
        figure, numbers = benchmark.gallery(one)
        yield f"families_{one}", figure, {"cells": [], "numbers": numbers}


def _theory(function: Callable[[], dict[str, dict]]) -> Callable[[str], Iterator[Picture]]:
    """Turn a function that returns numbers by file name into an Entry's `pictures`, which verification draws."""

    def pictures(profile: str) -> Iterator[Picture]:
        for file, numbers in function().items():
            yield file, lambda file=file: theory.pictures(file), {"cells": [], "numbers": numbers}

    return pictures


def _realworld(profile: str) -> Iterator[Picture]:
    """Yield figure 6 as a table and as differences from the published scores, with the runs behind both."""
    runs = figure6_runs(profile)
    made_from = {
        "budget": budget_lines(runs),
        "cells": [_cell(run.result) for run in runs.values()],
        "missing": [f"{title}, {column}" for title, column in CELLS if (title, column) not in runs],
    }
    for file, function in (("figure6", realworld.figure6), ("figure6_differences", differences.differences)):
        figure, numbers = function(profile)
        yield file, figure, made_from | {"numbers": numbers}


def _tuning(profile: str) -> Iterator[Picture]:
    """Yield a picture of the hyper-parameter search for each specification, and that of dropout as described."""
    for spec in SPECS:
        figure, numbers = tuning.search(spec)
        yield f"tuning_{spec}", figure, {"cells": list(map(_cell, tuning.searches(spec).values())), "numbers": numbers}
    figure, numbers = tuning.rates_of_dropout("described")
    cells = list(map(_cell, tuning.dropout_searches("described").values()))
    yield "tuning_dropout", figure, {"cells": cells, "numbers": numbers}


def _depth(profile: str) -> Iterator[Picture]:
    """Yield the pictures about depth: tests and trainings by rule of depth, and the growth of features."""
    yield from _panels("figure5", {"depth": depth.by_rule}, profile, SPECS)
    yield from _panels("depth", {"depth_trained": depth.trained}, profile, ("described",))
    figure, numbers = depth.growth()
    yield "depth_growth", figure, {"cells": [], "numbers": numbers}


def _real(profile: str) -> Iterator[Picture]:
    """Yield the pictures of real graphs: networks, errors, what they depend on, training on them, and hubs."""
    figure, numbers = real.networks()
    yield "real_networks", figure, {"cells": [], "numbers": numbers}
    panels = {"real_graphs": real.by_network, "real_slopes": real.slopes}
    yield from _panels("figure4", panels, "planned" if profile == RECORDED else profile, SPECS)
    yield _panel("real_trained_described", real.trained, trained_runs(profile))
    figure, numbers = hubs.errors()
    yield "real_hubs", figure, {"cells": [], "numbers": numbers}


FIGURES: dict[str, Entry] = {
    "figure4": Entry(
        "Multi-task benchmark",
        "figure 4",
        {"overview": overview.overview, "figure4a": multitask.figure4a, "figure4b": multitask.figure4b},
    ),
    "figure5": Entry("Extrapolation to larger graphs", "figure 5", {"figure5": extrapolation.figure5}),
    "figure6": Entry(
        "Real-world benchmarks",
        "figure 6",
        pictures=_realworld,
        files={
            "figure6": "A table of models and data sets: published means and deviations, and ours below them",
            "figure6_differences": "How much better ours is than published, by model and data set: right is better",
        },
    ),
    "moments": Entry("Moments ablation", "appendix D", {"moments": appendix.moments}),
    "graph-types": Entry("Graph types", "appendix H", {"graph_types": appendix.graph_types}),
    "standard": Entry("Standard against recurrent architecture", "appendix I", {"standard": appendix.standard}),
    "single-task": Entry("Single task", "appendix J", {"single_task": appendix.single_task}),
    "parameters": Entry("Parameters", "appendix K", {"parameters": appendix.parameters}),
    "figure1": Entry(
        "Aggregators that fail",
        "figure 1",
        pictures=_theory(theory.figure1),
        files={"figure1": "Pairs of neighbourhoods, and which aggregators give both of a pair the same value"},
    ),
    "figure2": Entry(
        "Principal Neighbourhood Aggregation",
        "figure 2",
        pictures=_one("figure2", schematics.figure2),
        files={"figure2": "The layer: messages, four aggregators, three scalers, and 13F numbers that enter U"},
    ),
    "figure3": Entry(
        "The architecture",
        "figure 3",
        pictures=_one("figure3", schematics.figure3),
        files={"figure3": "The recurrent network with the number of parameters of each of its modules"},
    ),
    "benchmark": Entry(
        "The benchmark's data",
        "section 4, appendix G",
        pictures=_benchmark,
        files={
            "benchmark_labels": "How each of the six labels is distributed, as described and as released",
            "benchmark_departures": "What D1 to D4 change: which graphs are connected, their labels, and their sizes",
            "families_described": "One graph of each of the ten families after toggling, as described",
            "families_released": "One graph of each of the ten families after toggling, as released",
        },
    ),
    "depth": Entry(
        "How deep?",
        "beyond the paper: what section 3 leaves open",
        pictures=_depth,
        files={
            **{f"depth_{one}": f"Error against size for each rule of depth, six models, as {one}" for one in SPECS},
            "depth_trained_described": "Error against size of networks trained with other rules of depth, as described",
            "depth_growth": "How features grow from layer to layer, by aggregators and scalers and by degree",
        },
    ),
    "tuning": Entry(
        "Tuned with one budget",
        "section 4, hyper-parameters",
        pictures=_tuning,
        files={
            **{
                f"tuning_{one}": f"Validation loss against learning rate, 64 draws per model, as {one}" for one in SPECS
            },
            "tuning_dropout": "Validation loss against the rate of dropout, five seeds per rate, as described",
        },
    ),
    "real-graphs": Entry(
        "Real graphs",
        "beyond the paper: graphs that it never saw",
        pictures=_real,
        files={
            "real_networks": "A small graph of each of the twelve real networks",
            **{
                name: words
                for one in SPECS
                for name, words in (
                    (f"real_graphs_{one}", f"The error of each model on each real network, as {one}"),
                    (f"real_slopes_{one}", f"How the error grows with size, degrees and diameter, as {one}"),
                )
            },
            "real_trained_described": "The errors of models trained on random and on real graphs, as described",
            "real_hubs": "The error of four kinds of scalers by degree, far beyond the degrees of training",
        },
    ),
    "theory": Entry(
        "The theory",
        "sections 2.1 and 2.2, appendices A to D",
        pictures=_theory(theory.theory),
        files={
            "theory_five_reals": "A circle of multisets of five reals that share mean, std, max and min",
            "theory_collisions": "Certified collisions of n − 1 aggregators, for several families of them",
            "theory_round_trip": "The error of recovering a multiset from its moments in floating point, by size",
            "theory_scalers": "What linear and logarithmic scalers do to a signal over twelve layers",
        },
    ),
}
"""Every figure; those with panels are drawn from the experiment of the same name."""


@dataclass(frozen=True)
class Lesson:
    """A notebook that teaches, with its options for papermill and the trained cells that it needs."""

    options: str = ""
    cells: tuple[str, ...] = ()


TEACHING: dict[str, Lesson] = {
    "introduction": Lesson(),
    "pna-from-scratch": Lesson(),
    "collide-yourself": Lesson("-p interactive False"),
    "explore": Lesson("-p interactive False", ("multitask/described/pna/16",)),
    "choose-a-layer": Lesson(),
}
NOTEBOOKS = (*FIGURES, *TEACHING)


class Drawing(dict):
    """The PNG files of a figure by name, which a notebook displays as pictures."""

    def __init__(self, entry: Entry, files: dict[str, Path]) -> None:
        super().__init__(files)
        self.entry = entry

    def _repr_html_(self) -> str:
        """HTML that shows the pictures in a notebook, with what each shows as its alternative text."""
        images = (
            f'<img alt="{html.escape(self.entry.shows(name))}" data-file="{name}" style="max-width: 100%" '
            f'src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}">'
            for name, path in self.items()
        )
        return "\n".join(images)


def files_of(name: str, spec: str = "both") -> list[str]:
    """List the names of a figure's files, without their endings."""
    entry = _entry(name)
    return [*entry.files, *(f"{panel}_{one}" for one in specs_of(spec) for panel in entry.panels)]


def draw(
    name: str,
    profile: str = RECORDED,
    spec: str = "both",
    device: str = "cpu",
    train: bool = False,
    folder: Path | str | None = None,
) -> Drawing:
    """Draw a figure from the recorded runs, as PDF, PNG and SVG with a sidecar JSON each; return the PNG files.

    `profile` is a budget, or "recorded" for the fullest that has all cells of the figure. With `train`, missing cells
    are first trained on the device, under a profile that is a budget. Those of figure6 and depth have to be trained by
    `python -m pna train`.
    """
    entry, specs = _entry(name), specs_of(spec)
    if train and name in EXPERIMENTS and not entry.panels:
        raise ValueError(f"train must be False for {name}: python -m pna train --missing --experiment {name} does that")
    folder = figures_folder() if folder is None else Path(folder)
    if train and entry.panels:
        _train_missing(name, profile, specs, device)
    facts = {"figure": name, "title": entry.title, "where": entry.where}
    with matplotlib.rc_context(STYLE):
        drawings = entry.pictures(profile) if entry.pictures else _panels(name, entry.panels, profile, specs)
        for file, drawn, more in drawings:
            save(drawn, file, facts | more, folder)
    return Drawing(entry, {file: folder / f"{file}.png" for file in files_of(name, spec)})


def _entry(name: str) -> Entry:
    """Look up a figure by name; raise a ValueError that lists all names if there is none."""
    if name not in FIGURES:
        raise ValueError(f"figure must be one of {', '.join(FIGURES)}; got {name!r}")
    return FIGURES[name]


def _train_missing(experiment: str, profile: str, specs: tuple[str, ...], device: str) -> None:
    """Train the cells that an experiment lacks under a profile; raise if one of them does not finish."""
    from pna.experiments.command import train as train_cell

    if profile == RECORDED:
        raise ValueError(f"profile must be a budget to train with, as quick or paper; got {profile!r}")
    os.environ["PNA_RESULTS"] = str(results_folder())
    for one in specs:
        for cell in runs_of(experiment, one, profile).missing:
            if train_cell([str(cell), "--profile", profile, "--device", device, "--resume"]):
                raise RuntimeError(f"{cell} was not trained: see the message above")


def _panels(
    name: str, panels: dict[str, Callable[[Runs], Drawn]], profile: str, specs: tuple[str, ...]
) -> Iterator[Picture]:
    """Yield the panels of an experiment, drawn under each specification."""
    for runs in (runs_of(name, one, profile) for one in specs):
        for panel, function in panels.items():
            yield _panel(f"{panel}_{runs.spec}", function, runs)


def _panel(file: str, function: Callable[[Runs], Drawn], runs: Runs) -> Picture:
    """Draw one panel from some runs, with their budget under it and their provenance."""
    figure, numbers = function(runs) if runs.recorded else _nothing()
    stamp(figure, runs)
    return file, figure, _provenance(runs) | {"numbers": numbers}


def _nothing() -> Drawn:
    """Create a figure that says that no run is recorded."""
    figure = Figure(figsize=(WIDTH, 1.2), layout="constrained")
    figure.text(0.5, 0.6, "nothing is recorded", ha="center", va="center", color=WARN)
    return figure, {}


def _provenance(runs: Runs) -> dict:
    """Provenance of a figure: its specification, budget and units, the cells behind it and those that are missing."""
    return {
        "spec": runs.spec,
        "budget": budget_text(runs),
        "full paper budget": runs.full,
        "profile": asdict(runs.profile),
        "units": "MSE in units of the released training set's maxima; the five best seeds by validation error",
        "cells": [_cell(run.result) for run in runs.recorded.values()],
        "missing": [str(cell) for cell in runs.missing],
    }


def _cell(result: Result) -> dict:
    """Provenance of one result: its cell, hash, budget, seeds, epochs, device and date."""
    return {
        "cell": result.cell,
        "hash": result.hash,
        "profile": result.configuration["profile"]["name"],
        "seeds": result.configuration["seeds"],
        "epochs": sorted({replica.epochs for replica in result.replicas}),
        "device": result.device,
        "written": result.written,
    }
