"""Where the kernels serve: on a GPU, if Triton is there, unless the plain-torch twins are asked for."""

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec

import torch
from torch import Tensor

__all__ = ["chosen", "plain", "usable"]

_TRITON = find_spec("triton") is not None  # the package works without it wherever there is no GPU
_plain = False


def usable(t: Tensor) -> bool:
    """Whether kernels can take this tensor at all."""
    return t.is_cuda and _TRITON and not _plain


def chosen(*tensors: Tensor) -> bool:
    """Whether the networks' kernels, which know float32 alone, take these tensors."""
    return all(usable(t) and t.dtype == torch.float32 for t in tensors)


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Within it, every operation is its plain-torch twin: to compare the two."""
    global _plain
    before, _plain = _plain, True
    try:
        yield
    finally:
        _plain = before
