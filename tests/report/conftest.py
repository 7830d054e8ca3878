"""The report is tested on the same invented results as the figures below it."""

from tests.figures.conftest import full, results

__all__ = ["full", "results"]
