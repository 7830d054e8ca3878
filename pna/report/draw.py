"""The frozen table of figures, and the one call that draws any of them: what every notebook uses."""

import base64
import html
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from pna.experiments import SPECS
from pna.places import figures_folder, results_folder
from pna.report.figures import appendix, benchmark, extrapolation, multitask, realworld, schematics, theory
from pna.report.realworld import budgets, missing, scores
from pna.report.runs import RECORDED, Runs, runs_of, specs_of
from pna.report.style import STYLE, WARN, WIDTH, budget_text, save, save_beside, stamp
from pna.training.store import Result

__all__ = ["FIGURES", "NOTEBOOKS", "TEACHING", "Drawing", "Entry", "Lesson", "draw", "files_of"]

Drawn = tuple[Figure, dict]


@dataclass(frozen=True)
class Entry:
    """A figure or a group of them. Those of an experiment are drawn once for each specification."""

    title: str
    where: str
    experiment: str | None = None
    panels: tuple[tuple[str, Callable[[Runs], Drawn]], ...] = ()
    files: dict[str, str] = field(default_factory=dict)  # what each picture shows, by its name

    def shows(self, file: str) -> str:
        """What a picture shows, in a sentence."""
        if file in self.files:
            return self.files[file]
        panel, _, spec = file.rpartition("_")
        return f"{dict(self.panels)[panel].__doc__.splitlines()[0].rstrip('.')} ({spec})"


def _experiment(name: str, title: str, where: str, **panels: Callable[[Runs], Drawn]) -> Entry:
    return Entry(title, where, name, tuple(panels.items()))


FIGURES: dict[str, Entry] = {
    "figure4": _experiment(
        "figure4", "Multi-task benchmark", "figure 4", figure4a=multitask.figure4a, figure4b=multitask.figure4b
    ),
    "figure5": _experiment("figure5", "Extrapolation to larger graphs", "figure 5", figure5=extrapolation.figure5),
    "figure6": Entry(
        "Real-world benchmarks",
        "figure 6",
        files={"figure6": "A table of models and data sets: published means and deviations, and ours below them"},
    ),
    "moments": _experiment("moments", "Moments ablation", "appendix D", moments=appendix.moments),
    "graph-types": _experiment("graph-types", "Graph types", "appendix H", graph_types=appendix.graph_types),
    "standard": _experiment(
        "standard", "Standard against recurrent architecture", "appendix I", standard=appendix.standard
    ),
    "single-task": _experiment("single-task", "Single task", "appendix J", single_task=appendix.single_task),
    "parameters": _experiment("parameters", "Parameters", "appendix K", parameters=appendix.parameters),
    "figure1": Entry(
        "Aggregators that fail",
        "figure 1",
        files={"figure1": "Pairs of neighbourhoods, and which aggregators give both of a pair the same value"},
    ),
    "figure2": Entry(
        "Principal Neighbourhood Aggregation",
        "figure 2",
        files={"figure2": "The layer: messages, four aggregators, three scalers, 13F numbers into U"},
    ),
    "figure3": Entry(
        "The architecture",
        "figure 3",
        files={"figure3": "The recurrent network with the number of parameters of each of its modules"},
    ),
    "benchmark": Entry(
        "The benchmark's data",
        "section 4, appendix G",
        files={
            "benchmark_labels": "How each of the six labels is distributed, as described and as released",
            "benchmark_departures": "What D1 to D4 change: connected graphs, their labels, sizes",
            "families_described": "One graph of each of the ten families after toggling, as described",
            "families_released": "One graph of each of the ten families after toggling, as released",
        },
    ),
    "theory": Entry(
        "The theory",
        "sections 2.1 and 2.2, appendices A to D",
        files={
            "theory_five_reals": "A circle of multisets of five reals that share mean, std, max and min",
            "theory_collisions": "Certified collisions of n − 1 aggregators, for several families of them",
            "theory_round_trip": "The error of recovering a multiset from its moments in floating point, by size",
            "theory_scalers": "What linear and logarithmic scalers do to a signal over twelve layers",
        },
    ),
}


@dataclass(frozen=True)
class Lesson:
    """A notebook that teaches: what papermill is told besides the three parameters, and the trained cells it needs."""

    options: str = ""
    cells: tuple[str, ...] = ()


TEACHING: dict[str, Lesson] = {
    "introduction": Lesson(),
    "pna-from-scratch": Lesson(),
    "collide-yourself": Lesson("-p interactive False"),
    "explore": Lesson("-p interactive False", ("multitask/described/pna/16",)),
}
NOTEBOOKS = (*FIGURES, *TEACHING)


class Drawing(dict):
    """The PNG files of a figure by name. A notebook shows them."""

    def _repr_html_(self) -> str:
        images = (
            f'<img alt="{html.escape(name)}" style="max-width: 100%" '
            f'src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}">'
            for name, path in self.items()
        )
        return "\n".join(images)


def files_of(name: str, spec: str = "both") -> list[str]:
    """The names of the files that a figure is drawn to, without their endings."""
    entry = _entry(name)
    return [*entry.files, *(f"{panel}_{one}" for one in specs_of(spec) for panel, _ in entry.panels)]


def draw(
    name: str,
    profile: str = RECORDED,
    spec: str = "both",
    device: str = "cpu",
    train: bool = False,
    folder: Path | str | None = None,
) -> Drawing:
    """Draws a figure from what is recorded, as PDF, PNG and SVG with a sidecar JSON each; returns the PNG files.

    profile is a budget, or "recorded" for the fullest that has all cells of the figure. With train, cells that are
    missing are first trained on the device, under a profile.
    """
    entry, specs = _entry(name), specs_of(spec)
    folder = figures_folder() if folder is None else Path(folder)
    if train and entry.experiment:
        _train_missing(entry, profile, specs, device)
    with matplotlib.rc_context(STYLE):
        if entry.experiment:
            for one in specs:
                _draw_experiment(name, entry, runs_of(entry.experiment, one, profile), folder)
        else:
            _OTHERS[name](name, entry, profile, folder)
    return Drawing({file: folder / f"{file}.png" for file in files_of(name, spec)})


def _entry(name: str) -> Entry:
    if name not in FIGURES:
        raise ValueError(f"figure must be one of {', '.join(FIGURES)}; got {name!r}")
    return FIGURES[name]


def _train_missing(entry: Entry, profile: str, specs: tuple[str, ...], device: str) -> None:
    from pna.experiments.command import train as train_cell

    if profile == RECORDED:
        raise ValueError(f"profile must be a budget to train with, as quick or paper; got {profile!r}")
    os.environ["PNA_RESULTS"] = str(results_folder())
    for one in specs:
        for cell in runs_of(entry.experiment, one, profile).missing:
            if train_cell([str(cell), "--profile", profile, "--device", device, "--resume"]):
                raise RuntimeError(f"{cell} was not trained: see the message above")


def _draw_experiment(name: str, entry: Entry, runs: Runs, folder: Path) -> None:
    for panel, function in entry.panels:
        figure, numbers = function(runs) if runs.found else _nothing()
        stamp(figure, runs)
        save(figure, f"{panel}_{runs.spec}", _facts(name, entry) | _provenance(runs) | {"numbers": numbers}, folder)


def _nothing() -> Drawn:
    """In place of a figure that has no run at all."""
    figure = Figure(figsize=(WIDTH, 1.2), layout="constrained")
    figure.text(0.5, 0.6, "nothing is recorded", ha="center", va="center", color=WARN)
    return figure, {}


def _facts(name: str, entry: Entry) -> dict:
    return {"figure": name, "title": entry.title, "where": entry.where}


def _provenance(runs: Runs) -> dict:
    """What an experiment's figure was made from."""
    return {
        "spec": runs.spec,
        "budget": budget_text(runs),
        "full paper budget": runs.full,
        "profile": asdict(runs.profile),
        "units": "MSE in units of the released training set's maxima; the five best seeds by validation error",
        "cells": [_cell(run.result) for run in runs.found.values()],
        "missing": [str(cell) for cell in runs.missing],
    }


def _cell(result: Result) -> dict:
    return {
        "cell": result.cell,
        "hash": result.hash,
        "profile": result.configuration["profile"]["name"],
        "seeds": result.configuration["seeds"],
        "epochs": sorted({replica.epochs for replica in result.replicas}),
        "device": result.device,
        "written": result.written,
    }


# ---- figures without trainings of the synthetic benchmark ----


def _draw_one(function: Callable[[], Drawn]) -> Callable:
    def run(name: str, entry: Entry, profile: str, folder: Path) -> None:
        figure, numbers = function()
        save(figure, name, _facts(name, entry) | {"cells": [], "numbers": numbers}, folder)

    return run


def _draw_benchmark(name: str, entry: Entry, profile: str, folder: Path) -> None:
    sets = benchmark.training_sets()
    for file, function in (("benchmark_labels", benchmark.labels), ("benchmark_departures", benchmark.departures)):
        figure, numbers = function(sets)
        figure.supxlabel("1,280 of the 5,120 training graphs of each specification", fontsize=7, color="#6b6b6b")
        save(figure, file, _facts(name, entry) | {"cells": [], "numbers": numbers}, folder)
    for one in SPECS:
        figure, numbers = benchmark.gallery(one)
        save(figure, f"families_{one}", _facts(name, entry) | {"cells": [], "numbers": numbers}, folder)


def _draw_theory(function: Callable[[], dict[str, dict]]) -> Callable:
    def run(name: str, entry: Entry, profile: str, folder: Path) -> None:
        for file, numbers in function().items():
            facts = _facts(name, entry) | {"cells": [], "numbers": numbers}
            save_beside(lambda file=file: theory.pictures(file), file, facts, folder)

    return run


def _draw_realworld(name: str, entry: Entry, profile: str, folder: Path) -> None:
    figure, numbers = realworld.figure6(profile)
    found = scores(profile)
    made_from = {
        "budget": budgets(found),
        "cells": [_cell(score.result) for score in found.values()],
        "missing": [f"{title}, {column}" for title, column in missing(found)],
    }
    save(figure, name, _facts(name, entry) | made_from | {"numbers": numbers}, folder)


_OTHERS: dict[str, Callable] = {
    "figure1": _draw_theory(theory.figure1),
    "figure2": _draw_one(schematics.figure2),
    "figure3": _draw_one(schematics.figure3),
    "benchmark": _draw_benchmark,
    "figure6": _draw_realworld,
    "theory": _draw_theory(theory.theory),
}
