"""The error to expect of a multi-task network on a graph of some size, degrees and diameter.

structure.json holds, for each cell and rule of depth, a least-squares fit over test sets of real graphs: the mean over
five tasks of log10 of MSE relative to that of predicting the training mean. `python -m pna cards --write` makes it from
the recorded results.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["FILE", "LARGEST", "RULES", "WARNED", "expected_error", "warning_of"]

FILE = Path(__file__).with_suffix(".json")
RULES = {"N/2": "real", "cap": "real@cap"}  # the test collection of each rule of depth
LARGEST = 100  # nodes of a graph in the test sets
WARNED = 0.5  # times the error of predicting the mean, from which on a user is warned


@cache
def _fits() -> dict[str, dict[str, list[float]]]:
    """The fitted coefficients, by cell and by the collection that was tested."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def expected_error(cell: str, depth: str | None, adjacency: NDArray[np.bool_], diameter: float) -> float | None:
    """The expected error on a graph, as a multiple of that of predicting the training mean.

    None where nothing is known: for a cell or a rule of depth that was not tested, a graph without edges, or one with
    more nodes than any that was tested.
    """
    fit, degree = _fits().get(cell, {}).get(RULES.get(depth, "")), adjacency.sum(axis=1)
    if fit is None or not degree.any() or len(adjacency) > LARGEST:
        return None
    constant, *slopes = fit
    predictors = np.log2([len(adjacency), degree.max() / degree.mean(), max(diameter, 1.0)])
    return float(10 ** (constant + predictors @ slopes))


def warning_of(cell: str, depth: str | None, adjacency: NDArray[np.bool_], diameter: float) -> str:
    """A sentence on a graph unlike those that a network is good on; empty for any other."""
    error = expected_error(cell, depth, adjacency, diameter)
    if error is None or error < WARNED:
        return ""
    degree = adjacency.sum(axis=1)
    return (
        f"on real graphs with {len(adjacency)} nodes, a largest degree of {degree.max() / degree.mean():.1f} times the "
        f"mean and a diameter of {diameter:.0f}, {cell} has about {error:.1f} times the error of predicting the mean "
        "of its training labels, over five tasks"
    )
