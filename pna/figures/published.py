"""The paper's published numbers (published.json), by the names that this package gives to models and tasks.

The paper's figures are pictures: every table of the file says where its digits come from and how sure they are.
"""

import json
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from pna.multitask import TASKS
from pna.networks import MODELS

__all__ = ["RELEASED_SECONDS", "boxes", "extrapolation", "multitask", "note", "parameters", "patient"]
__all__ += ["realworld", "table"]

RELEASED_SECONDS = {  # per epoch of one run of the released code, measured on one H200
    "pna": 1.445,
    "pna-no-scalers": 1.382,
    "mpnn-sum": 0.945,
    "mpnn-max": 1.085,
    "gat": 0.949,
    "gcn": 0.489,
    "gin": 0.601,
}

_TITLES = {model.title: name for name, model in MODELS.items()} | {"Baseline": "baseline"}
_COLUMNS = {"laplacian_features": "laplacian"}
# The authors' own plots swap the labels of the two MPNN between versions; the better one is max in figure 4b.
_BOX_TITLES = {"MPNN (one label)": "mpnn-max", "MPNN (other label)": "mpnn-sum"}


@cache
def _file() -> dict:
    """Read published.json, once."""
    return json.loads(resources.files("pna.figures").joinpath("published.json").read_text(encoding="utf-8"))


def table(name: str) -> dict:
    """Look up a table of published.json by name."""
    tables = {key: value for key, value in _file().items() if isinstance(value, dict)}
    if name not in tables:
        raise ValueError(f"table must be one of {', '.join(tables)}; got {name!r}")
    return tables[name]


def note(name: str) -> str:
    """A sentence on what a table holds and how certain its digits are."""
    facts = table(name)
    return facts["what"] + (f"; confidence: {facts['confidence']}" if "confidence" in facts else "")


def multitask() -> dict[str, dict[str, float]]:
    """Figure 4b: mean log10 MSE by model (and "baseline") and by task (and "average")."""
    columns = [_COLUMNS.get(name, name) for name in table("multitask_per_task")["columns"]]
    assert set(columns) == {"average", *(task.name for task in TASKS)}
    rows = table("multitask_per_task")["rows"].items()
    return {_TITLES[title]: dict(zip(columns, row, strict=True)) for title, row in rows}


def boxes() -> dict[str, dict[str, float]]:
    """Figure 4a: whiskers, quartiles, median and mean of log10 of the mean MSE over tasks, by model."""
    facts = table("multitask_boxplot")
    return {
        _BOX_TITLES.get(title) or _TITLES[title]: dict(zip(facts["columns"], row, strict=True))
        for title, row in facts["rows"].items()
    }


def extrapolation() -> dict[str, NDArray[np.float64]]:
    """Figure 5: log10(MSE / MSE of the baseline) by model, for the six sizes; infinite where it leaves the plot."""
    special = {">0 (off plot)": np.inf, "explodes": np.inf, None: np.nan}
    return {
        _TITLES[title]: np.array([special[value] if value in special else float(value) for value in row])
        for title, row in table("extrapolation")["rows"].items()
    }


def parameters(hidden: int) -> dict[str, int]:
    """The numbers of parameters of the released networks, by model."""
    rows = dict(table("parameters")[f"hidden_{hidden}"])
    mpnn = rows.pop("MPNN (sum/max)")
    return {_TITLES[title]: count for title, count in rows.items()} | {"mpnn-max": mpnn, "mpnn-sum": mpnn}


def realworld() -> dict[str, dict[str, tuple[float, float] | None]]:
    """Figure 6: (mean, deviation) by the model's title and by column, None where nothing was published."""
    facts = table("realworld")
    return {
        title: {column: _measured(text) for column, text in zip(facts["columns"], row, strict=True)}
        for title, row in facts["rows"].items()
    }


def patient(title: str, column: str) -> bool:
    """Whether figure 6 marks a number with an asterisk: trained with additional patience to ensure convergence."""
    facts = table("realworld")
    return (dict(zip(facts["columns"], facts["rows"][title], strict=True))[column] or "").endswith("*")


def _measured(text: str | None) -> tuple[float, float] | None:
    """Parse a published score such as "0.188±0.004*" into mean and deviation; None stays None."""
    if text is None:
        return None
    mean, deviation = text.rstrip("*").split("±")
    return float(mean), float(deviation)
