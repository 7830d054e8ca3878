"""Errors while work is recorded; what is recorded is tested on a GPU, with all that uses it."""

import contextlib

import pytest
import torch

from pna.training.recording import Recording, _recorded_by


@pytest.fixture
def ends_badly(monkeypatch):
    """A recording that ends with an error of its own, as CUDA's does after any other."""

    @contextlib.contextmanager
    def graph(_):
        try:
            yield
        finally:
            raise RuntimeError("capturing stream has unjoined work")

    monkeypatch.setattr(torch.cuda, "graph", graph)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, ValueError, KeyboardInterrupt])
def test_the_first_error_is_raised(error, ends_badly):
    with pytest.raises(error, match="all gone"), _recorded_by(None):
        raise error("all gone")


def test_an_error_of_the_recording_itself_is_raised(ends_badly):
    with pytest.raises(RuntimeError, match="unjoined"), _recorded_by(None):
        pass


@pytest.mark.gpu
def test_memory_that_is_full_while_work_is_recorded_is_told_as_such():
    sizes = iter([2**10, 2**45])  # the first is that of the run before the recording
    with pytest.raises(torch.OutOfMemoryError):
        Recording([lambda: torch.empty(next(sizes), device="cuda")])
