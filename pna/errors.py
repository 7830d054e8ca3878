"""Errors that are not bugs: each becomes one line and an exit code."""

__all__ = ["GPUFull", "MissingData", "OutOfTime"]


class MissingData(ValueError):  # noqa: N818 (it reads as what it is)
    """A data set or a file of weights is missing."""


class OutOfTime(Exception):  # noqa: N818
    """The time budget is used up; the next call continues from the checkpoint."""


class GPUFull(Exception):  # noqa: N818
    """The GPU has too little free memory for this training."""
