"""The folders of results, weights, figures and data, whatever the working directory."""

import os
from pathlib import Path

__all__ = ["data_folder", "figures_folder", "repository", "results_folder", "weights_folders"]


def repository() -> Path:
    """The root of the repository or, for an installed package, the working directory."""
    root = Path(__file__).parents[1]
    return root if (root / "pyproject.toml").exists() else Path.cwd()


def results_folder() -> Path:
    """The folder of recorded results: the environment variable PNA_RESULTS, or else the repository's results/."""
    return _named("PNA_RESULTS") or repository() / "results"


def weights_folders() -> tuple[Path, ...]:
    """The folders in which weights are looked for: beside the results, in the repository, in an installed package."""
    return tuple(dict.fromkeys((results_folder(), repository() / "results", Path(__file__).parent / "weights")))


def figures_folder() -> Path:
    """The folder of figures: the environment variable PNA_FIGURES, or else the repository's figures/."""
    return _named("PNA_FIGURES") or repository() / "figures"


def data_folder() -> Path:
    """The folder of data sets, checkpoints and weights: the environment variable PNA_DATA, or else ~/.cache/pna."""
    return _named("PNA_DATA") or Path.home() / ".cache" / "pna"


def _named(variable: str) -> Path | None:
    """The folder that an environment variable names, if it is set."""
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ValueError(
            f"{variable} must name a folder, got {text!r}: no home folder is known for {text.split('/')[0]!r} here"
        ) from error
