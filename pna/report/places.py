"""Where the report finds what is recorded and puts what it draws, whatever the working directory."""

import os
from pathlib import Path

import pna

__all__ = ["figures_folder", "recorded_folder", "repository"]


def repository() -> Path:
    """The folder that holds the package: the repository's, when the package is installed with `pip install -e .`."""
    return Path(pna.__file__).parents[1]


def recorded_folder() -> Path:
    """The folder in the environment variable PNA_RESULTS, or else the repository's results/."""
    return Path(os.environ.get("PNA_RESULTS") or repository() / "results")


def figures_folder() -> Path:
    """The folder in the environment variable PNA_FIGURES, or else the repository's figures/."""
    return Path(os.environ.get("PNA_FIGURES") or repository() / "figures")
