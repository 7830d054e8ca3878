"""The measurements of benchmarks/: the page's table of speed, and the hours of an epoch on a GPU of its own."""

import json
from collections.abc import Callable, Iterator

from pna.experiments import EXPERIMENTS, SPECS, Cell
from pna.figures.realworld import CELLS, column_title
from pna.places import repository, results_folder
from pna.training.store import load

__all__ = ["in_figures", "pace", "rows"]

FIGURES = ("figure4", "figure5", "moments", "graph-types", "standard", "single-task", "parameters")

Row = tuple[str, str, str, str]  # what, ours, how many times faster than what, machine


def in_figures() -> list[Cell]:
    """Cells of the paper's multi-task figures, each once."""
    return list(dict.fromkeys(cell for name in FIGURES for spec in SPECS for cell in EXPERIMENTS[name].cells(spec)))


def _training(facts: dict) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each timing of PNA's training on the multi-task benchmark, against the released code."""
    for row in facts["rows"]:
        if row["model"] == "pna":
            what = f"one epoch of one run of PNA, multi-task benchmark, {row['replicas']} seeds at once"
            yield what, f"{row['ms']:.2f} ms", f"{row['ratio']:,.0f} × the released code"


def _whole_paper(facts: dict) -> Iterator[tuple[str, str, str]]:
    """Yield the row on the multi-task figures' trainings side by side, against one cell at a time.

    The hours are those of the recorded epochs. There is no row if a cell is not recorded, or nothing ran side by side.
    """
    factor, paces, cells = facts["factor"], pace(), in_figures()
    paths = {cell: results_folder() / "paper" / cell.place for cell in cells}
    if factor is not None and all(cell in paces and path.exists() for cell, path in paths.items()):
        hours = sum(paces[cell] * replica.epochs for cell, path in paths.items() for replica in load(path).replicas)
        what = f"the {len(cells)} cells of the paper's multi-task figures, {facts['at_once']} side by side"
        ours = f"{hours / factor:.2f} h; one after the other {hours:.2f} h"
        yield what, ours, f"{factor:.2f} × one cell at a time"


def _aggregation(facts: dict) -> Iterator[tuple[str, str, str]]:
    """Yield the row on one aggregation over a large graph, against PyTorch Geometric."""
    what = f"mean, max, min and std, {facts['nodes']:,} nodes, {facts['edges']:,} edges, {facts['graph']}"
    ratio = facts["ratio"]["ours"]["total_ms"]
    yield what, f"{facts['rows']['ours']['total_ms']:.2f} ms", f"{ratio:.1f} × PyTorch Geometric"


def _layer(facts: dict) -> Iterator[tuple[str, str, str]]:
    """Yield two rows for one PNA layer on a GPU, both sides recorded and both called, against PyTorch Geometric."""
    ways = {
        "both recorded as CUDA graphs": ("ours, recorded", "times_ours_recorded", "torch_geometric, recorded"),
        "both called directly": ("ours", "times_ours", "torch_geometric"),
    }
    for way, (ours, times, theirs) in ways.items():
        what = f"one PNA layer on a batch like {facts['batch']}'s, {way}"
        yield what, f"{facts['ms'][ours]:.2f} ms", f"{facts[times][theirs]:.1f} × PyTorch Geometric"


def _cpu(facts: dict) -> Iterator[tuple[str, str, str]]:
    """Yield the row on one PNA layer on a CPU, against PyTorch Geometric."""
    what = f"one PNA layer on a CPU, {facts['nodes']:,} nodes, {facts['edges']:,} edges"
    yield what, f"{facts['pna']['seconds']:.2f} s", f"{facts['ratio']['seconds']:.2f} × PyTorch Geometric"


def _realworld(facts: dict) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each real-world training that was timed, against PyTorch Geometric."""
    places = {str(cell): place for place, cell in CELLS.items()}
    for row in facts["rows"]:
        title, column = places[row["cell"]]
        what = f"one epoch of one run of {title} on {column_title(column)}, {row['pna']['runs']} seeds at once"
        seconds = row["pna"]["seconds_per_epoch_and_run"]
        yield what, f"{seconds:.3f} s", f"{row['ratio']:.1f} × PyTorch Geometric"


_READ: dict[str, Callable[[dict], Iterator[tuple[str, str, str]]]] = {
    "training": _training,
    "training --all": _whole_paper,
    "aggregation": _aggregation,
    "layer_gpu": _layer,
    "layer_cpu": _cpu,
    "realworld": _realworld,
}


def rows() -> list[Row]:
    """The rows of the page's table; empty without benchmarks/."""
    read = ((facts, _READ.get(facts["benchmark"], _nothing)(facts)) for facts in _lines())
    return [(*row, _machine(facts)) for facts, lines in read for row in lines]


def pace() -> dict[Cell, float]:
    """The hours of one epoch of one run of each cell, alone on an H200."""
    lines = (row for facts in _lines() if facts["benchmark"] == "training --all" for row in facts["rows"])
    return {Cell.parse(row["cell"]): row["hours"] / row["epochs"] for row in lines if row["epochs"]}


def _lines() -> list[dict]:
    """Every measurement of benchmarks/results.jsonl; none without the file."""
    path = repository() / "benchmarks" / "results.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _machine(facts: dict) -> str:
    """The machine with its threads, which the other side of a comparison may depend on."""
    count = facts["machine"]["threads"]
    return f"{facts['machine']['device']}, {count} {'thread' if count == 1 else 'threads'}"


def _nothing(facts: dict) -> Iterator[tuple[str, str, str]]:
    """No rows: what the table shows of a benchmark that it has no reader for."""
    return iter(())
