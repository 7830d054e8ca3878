"""Model cards: for each group of networks, what they are, their data, budget, errors and limits, as Markdown.

They are made from recorded numbers alone and kept in docs/models/. The fits behind `predict`'s warnings are written
together with them.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from pna.experiments import EXPERIMENTS, SPECS, Cell, Experiment, Figure6Run, MultiTaskRun, fullest
from pna.experiments.figure6 import cell_text, epochs_text
from pna.experiments.realworld import summary
from pna.figures.real import CAP, HALF, NETWORKS, has_real, planned_runs, regression, relative, splits, trained_runs
from pna.figures.runs import RecordedRun, recorded_run
from pna.figures.scores import task_means, wider_split
from pna.files import read_tensors, write_whole
from pna.networks import MODELS
from pna.places import repository
from pna.pretrained.structure import FILE
from pna.realworld.data.datasets import DATASETS, training_set
from pna.realworld.hyperparameters import HYPERPARAMETERS
from pna.training.store import Result, load
from report.markup import listed
from report.plan import SEVEN

__all__ = ["CARDS", "cards", "fits", "write_cards"]

_MULTITASK = """\
The networks read an undirected graph whose nodes have two features, a mark on one source node and a random number from
[0, 1), and predict six properties: for each node the length of the shortest path from the source, its eccentricity and
the Laplacian of the random feature; for the graph whether it is connected, its diameter and its spectral radius."""

_MULTITASK_DATA = """\
Random graphs of ten families, 15 to 24 nodes, 5,120 for training (sections 4 and 5.1, appendix G), drawn by this
package from a fixed seed. `described` follows the paper's text, `released` the authors' code, whose label *connected*
is also false for connected bipartite graphs. They hold no data about people."""

_REAL_GRAPHS_DATA = """\
Connected subgraphs of nine real networks, 15 to 24 nodes, 5,120 for training, sampled by a random walk with restart and
by breadth-first search; the package holds them. Features and labels are made as for random graphs, as the paper
describes. The nodes of some networks are people; nothing is known of them but whom they are linked to."""

_MULTITASK_ERROR = """\
Mean log10 MSE over the six properties, in units of the released training set's maxima, on test graphs of the sizes
given; lower is better. It is given for the five seeds with the lowest validation error, as in the paper, and for the
one network whose weights are kept, the best on validation. Numbers of different budgets or sizes cannot be compared. No
error is capped here; figures and comparisons count one above ten times the baseline's as ten times the baseline's. A
run has diverged if it ended early because its loss was no longer finite, in training or, without departure D13, in
validation; the best weights that it had until then count."""

_RANDOM_GRAPHS = """\
- They were trained on random graphs of 15 to 24 nodes without isolated nodes. Errors grow with the number of nodes and,
  as described, with the largest degree relative to the mean; `predict` warns accordingly, using a fit to real graphs.
"""

_REAL_GRAPHS = """\
- They were trained on connected graphs of 15 to 24 nodes, so they have never seen one that is not connected. On random
  graphs, as in the table above, their errors are larger than those of networks trained on such graphs
  (docs/real_graphs.md).
"""

_MULTITASK_LIMITS = """\
- By the paper's rule a recurrent network makes N/2 rounds of message passing on a graph of N nodes. From 26 nodes on,
  these are more than it made in training. `pna.load` therefore stops at 12 rounds, the most in training, which is
  better on graphs of 30 to 99 nodes; `depth="N/2"` selects the paper's rule. The errors below were measured by the
  paper's rule, or by the rule that a network was trained with if that is another one.
- For all six properties there are algorithms that give the exact answer. The networks are there to measure what an
  architecture can learn, not to replace them."""

_REAL_WORLD = """\
Networks for molecules (ZINC: constrained solubility; MolHIV: whether a molecule inhibits HIV) and for images as graphs
of superpixels (MNIST, CIFAR10: the class)."""

_REAL_WORLD_DATA = """\
The public data sets with their published splits; where another training set was used, the table below says so. They are
not in the package: `python -m pna realworld prepare NAME --download` fetches them."""

_REAL_WORLD_ERROR = """\
Mean and standard deviation over seeds on the test set, with the weights of the best epoch on validation and with those
of the last epoch: mean absolute error (ZINC, lower is better), accuracy in % (MNIST, CIFAR10) or ROC-AUC in % (MolHIV).
The released code reports the last epoch, except on MolHIV, where it reports the best one. Kept are the best weights of
the seed with the best validation score, and its last ones too where those are reported; `python -m pna evaluate` says
which number they give. GCN and GIN on MolHIV were trained for the 100 epochs of ogb's example, PNA for up to 200. A
result that is called outdated was recorded with a configuration other than the present one."""

_REAL_WORLD_LIMITS = """\
- No prediction here is fit for a decision about a substance, a drug or a person.
- Molecules unlike those of the data set (other elements, far larger ones) lie outside the training.
- ZINC's target is computed from the molecule by a formula, which gives it exactly."""


# Every network that is kept has a card: those of the experiments, and two groups that no figure of the paper shows.
CARDS: dict[str, Experiment] = EXPERIMENTS | {
    "tuned": Experiment("Tuned with one budget", "section 4", (("tuned", SEVEN, ("16",)),)),
    "real": Experiment("Trained on real graphs", "beyond the paper", (("real", SEVEN, ("16",)),), specs=("described",)),
}


def cards() -> dict[str, str]:
    """All cards by name."""
    return {name: _card(experiment) for name, experiment in CARDS.items()}


def fits() -> str:
    """JSON with the fit of each network's error to the structure of real graphs, the source of `predict`'s warnings."""
    models = [run for spec in SPECS for run in planned_runs(spec).of("multitask").values()]
    models += trained_runs().of("real").values()
    rows = {
        str(run.cell): {
            rule: [round(number, 3) for number in (fit.constant, *(slope.value for slope in fit.slopes.values()))]
            for rule, fit in ((rule, regression(run, rule)) for rule in (HALF, CAP))
        }
        for run in models
        if has_real(run) and has_real(run, CAP)
    }
    lines = (f"{json.dumps(cell)}: {json.dumps(row)}" for cell, row in rows.items())
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def write_cards(folder: Path | None = None) -> list[Path]:
    """Write all cards, by default to docs/models/, and the fits behind `predict`'s warnings; return the paths."""
    folder = folder or repository() / "docs" / "models"
    paths = [repository() / "pna" / "pretrained" / FILE.name]
    write_whole(paths[0], lambda file: file.write(fits().encode()))
    for name, text in cards().items():
        paths.append(folder / f"{name}.md")
        write_whole(paths[-1], lambda file, text=text: file.write(text.encode()))
    return paths


def _card(experiment: Experiment) -> str:
    """The model card of one experiment, as Markdown."""
    cells = list(dict.fromkeys(cell for spec in experiment.specs for cell in experiment.cells(spec)))
    real = cells[0].training in DATASETS  # outdated results of these are shown, and marked
    fullest_runs = ((cell, fullest(cell)) for cell in cells)
    runs_by_cell = {cell: one[0] for cell, one in fullest_runs if one is not None and (one[1] or real)}
    what, data, error, limits = _texts(cells[0].training)
    rows = _realworld_rows(runs_by_cell) if real else _multitask_rows(runs_by_cell)
    missing = [str(cell) for cell in cells if cell not in runs_by_cell]
    parts = [
        f"# Model card: {experiment.title} ({experiment.where})",
        "Written by `python -m pna cards --write` from the recorded results; not to be edited by hand.",
        f"## What\n\n{what}\n\nModels: {', '.join(_titles(cells))}.",
        f"## Data\n\n{data}",
        f"## Budget\n\n{_budgets(runs_by_cell)}",
        f"## Error\n\n{error}\n\n{_markdown(rows)}",
        *([f"Not recorded: {', '.join(f'`{name}`' for name in missing)}."] if missing else []),
        f"## Limits\n\n{limits}",
        *([] if real else [*_beyond(runs_by_cell), *_structures(runs_by_cell)]),
        f"## Use\n\n{_use(runs_by_cell)}",
    ]
    return "\n\n".join(parts) + "\n"


def _texts(training: str) -> tuple[str, str, str, str]:
    """What the networks of a training are, their data, what their error is, and their limits."""
    if training in DATASETS:
        return _REAL_WORLD, _REAL_WORLD_DATA, _REAL_WORLD_ERROR, _REAL_WORLD_LIMITS
    data, first = (_REAL_GRAPHS_DATA, _REAL_GRAPHS) if training == "real" else (_MULTITASK_DATA, _RANDOM_GRAPHS)
    return _MULTITASK, data, _MULTITASK_ERROR, f"{first}{_MULTITASK_LIMITS}"


def _titles(cells: Iterable[Cell]) -> dict[str, None]:
    """The models' names in the paper, each once."""
    rows = (HYPERPARAMETERS.get((cell.training, cell.model, cell.variant)) or MODELS[cell.model] for cell in cells)
    return dict.fromkeys(row.title for row in rows)


def _budgets(runs_by_cell: dict[Cell, MultiTaskRun | Figure6Run]) -> str:
    """A line for each budget, with how many cells have it."""
    names: dict[str, list[MultiTaskRun | Figure6Run]] = {}
    for run in runs_by_cell.values():
        names.setdefault(run.profile.name, []).append(run)
    lines = (
        f"- `{name}`, {len(runs)} of {len(runs_by_cell)} networks: {_budget(runs)}" for name, runs in names.items()
    )
    return "\n".join(lines)


def _budget(runs: Sequence[MultiTaskRun | Figure6Run]) -> str:
    """Seeds and epochs of runs of one profile in words, with a caveat if they saw only part of the training graphs."""
    seeds, epochs = (
        listed([f"{number:,}" for number in sorted(numbers)], "or")
        for numbers in ({len(run.seeds) for run in runs}, {run.profile.epochs or run.model.epochs for run in runs})
    )
    words = f"{seeds} seeds, at most {epochs} epochs"
    profile = runs[0].profile
    if profile.size_step * profile.divisor > 1 or profile.graphs:
        words += ", on a small part of the training graphs: it shows that learning works, and compares nothing"
    return words


def _multitask_rows(runs_by_cell: dict[Cell, MultiTaskRun]) -> Iterator[tuple[str, ...]]:
    """Yield the header and a row for each network: the error of its five best seeds and of the shipped one."""
    yield "network", "budget", "nodes", "five best seeds", "kept network", "its seed", "diverged"
    for cell, run in runs_by_cell.items():
        recorded = recorded_run(cell, run.profile)
        split = wider_split(recorded)
        split = split if split in recorded.splits else recorded.splits[0]
        score = f"{task_means(recorded, split).mean():.2f}"
        seeds = _shipped_seeds(run)
        shipped = _shipped_error(recorded, split) if seeds else "-"
        yield f"`{cell}`", run.profile.name, _nodes(run, split), score, shipped, seeds or "-", recorded.diverged or "0"


def _nodes(run: MultiTaskRun, split: str) -> str:
    """The sizes of the graphs of a test set."""
    collection, name = split.split("/")
    (sizes,) = (split.sizes for split in run.splits_of(collection) if split.name == name)
    return ", ".join(map(str, sizes)) if len(sizes) < 3 else f"{sizes[0]}-{sizes[-1]}"


def _shipped_error(run: RecordedRun, split: str) -> str:
    """The error of the shipped network: for each task, of the seed with the least validation error."""
    rows = np.argmin(run.validation, axis=0)
    return f"{np.log10(run.errors(split)[rows, np.arange(len(rows))]).mean():.2f}"


def _shipped_seeds(run: MultiTaskRun | Figure6Run) -> str:
    """The seeds whose weights ship with the package, separated by commas; empty if none do."""
    if not run.shipped.exists():
        return ""
    return ", ".join(map(str, dict.fromkeys(read_tensors(run.shipped)[1]["seeds"])))


def _realworld_rows(runs_by_cell: dict[Cell, Figure6Run]) -> Iterator[tuple[str, ...]]:
    """Yield the header and a row for each network: parameters, budget, scores and training set."""
    header = ("network", "parameters", "budget", "epochs", "seeds", "best weights", "last epoch", "training set")
    yield *header, "seed kept"
    for cell, run in runs_by_cell.items():
        result: Result = load(run.result)
        best_weights, last = (cell_text(cell.training, *row) for row in summary(result).values())
        words = training_set(cell.training, result.facts["data"])
        facts = (epochs_text(result), str(len(result.replicas)), best_weights, last, words)
        budget = run.profile.name + ", outdated" * (result.hash != run.hash)
        yield f"`{cell}`", f"{result.facts['parameters']:,}", budget, *facts, _shipped_seeds(run) or "-"


def _beyond(runs_by_cell: dict[Cell, MultiTaskRun]) -> list[str]:
    """A sentence and a table with the error on larger graphs, for the networks tested on them; empty if none was."""
    rows = []
    for cell, run in runs_by_cell.items():
        recorded = recorded_run(cell, run.profile)
        splits = [split for split in recorded.splits if split.startswith("extrapolation/")]
        if splits and run.profile.full:
            header = ("network", *(_nodes(run, split) for split in splits))
            rows.append((f"`{cell}`", *(f"{task_means(recorded, split).mean():.2f}" for split in splits)))
    if not rows:
        return []
    words = "The same error of the five best seeds on larger graphs, by number of nodes:"
    return [words, _markdown([header, *rows])]


def _structures(runs_by_cell: dict[Cell, MultiTaskRun]) -> list[str]:
    """The error on real graphs relative to the baseline, and the networks on which it is lowest and highest."""
    rows = [("network", "15-24 nodes", "25-100 nodes", "25-100, at most 12 layers", "best on", "worst on")]
    for cell, run in runs_by_cell.items():
        recorded = recorded_run(cell, run.profile)
        if not (has_real(recorded) and has_real(recorded, CAP)):
            continue
        sides = (splits("small"), splits("large"), splits("large", CAP))
        scores = {name: relative(recorded, splits("large", CAP, [name])).value for name in NETWORKS}
        order = [NETWORKS[name] for name in sorted(scores, key=scores.__getitem__)]
        numbers = (f"{relative(recorded, side).value:.2f}" for side in sides)
        rows.append((f"`{cell}`", *numbers, ", ".join(order[:3]), ", ".join(order[:-4:-1])))
    words = (
        "On real graphs (`python -m pna multitask show --collection real`): log10 of the MSE relative to predicting "
        "the training\nmean, mean over five tasks (all but *connected*) and over the five best of ten seeds, estimated "
        "from all seeds where there\nare more. Above zero, a network is worse than predicting the mean. The last "
        "columns name the sources of graphs with the\nlowest and the highest error, at 25-100 nodes and at most 12 "
        "layers:"
    )
    return [words, _markdown(rows)] if len(rows) > 1 else []


def _use(runs_by_cell: dict[Cell, MultiTaskRun | Figure6Run]) -> str:
    """How to load a shipped network; if none of the experiment is shipped, how to train one."""
    shipped = [cell for cell, run in runs_by_cell.items() if run.shipped.exists()]
    if not shipped:
        return "No weights of these networks are kept; `python -m pna train CELL` makes them."
    return (
        f'`pna.load("{shipped[0]}")` loads the trained network;\nits `predict(graph)` returns its predictions for one '
        "graph. The weights are safetensors with a checksum, under the package's\nlicence (MIT). An installed package "
        "has those of the multi-task networks, except single tasks and tuned ones."
    )


def _markdown(rows: Iterable[Sequence[str]]) -> str:
    """Rows as a Markdown table; the first one is its header."""
    header, *rest = rows
    lines = [header, ["---"] * len(header), *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
