"""Chooses between a kernel and its plain-torch twin: kernels on an NVIDIA GPU with Triton, twins elsewhere."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

__all__ = ["first_derivative", "kernels_for", "many", "on_its_device", "plain", "usable"]

_TRITON = find_spec("triton") is not None  # the package works without it wherever there is no GPU
_plain = False


def usable(t: Tensor) -> bool:
    """Whether kernels can take this tensor at all."""
    return t.is_cuda and _TRITON and not _plain


def kernels_for(module: str, *arguments: Any) -> ModuleType | None:
    """Import the module `module` of kernels if it supports these arguments; None means: use the plain-torch twin.

    Tensors must be float32 and on a GPU; the module's own `supports(*arguments)` decides everything else. The module is
    imported on its first use, because it needs Triton.
    """
    if not all(usable(a) and a.dtype == torch.float32 for a in arguments if isinstance(a, Tensor)):
        return None
    kernels = import_module(module)
    return kernels if kernels.supports(*arguments) else None


def on_its_device(function: Callable) -> Callable:
    """Runs a function that launches kernels with its first tensor's device as the current one: they launch there."""

    @functools.wraps(function)
    def guarded(*arguments: Any, **options: Any) -> Any:
        for a in arguments:
            if isinstance(a, Tensor):
                break
        device = a.get_device()  # -1 on a CPU
        if device < 0 or device == torch._C._cuda_getDevice():
            return function(*arguments, **options)
        with torch.cuda.device(device):
            return function(*arguments, **options)

    return guarded


def many(g: Tensor) -> bool:
    """Whether a gradient stands for many, as in a vectorised Jacobian: it has no memory that a kernel could read, and
    nothing is added to what is one in place.
    """
    if torch.compiler.is_compiling():
        return False
    return torch._C._functorch.is_legacy_batchedtensor(g) or torch._C._functorch.is_batchedtensor(g)


def first_derivative(backward: Callable) -> Callable:
    """Of a Function with kernels the backward pass, which refuses to be differentiated: it would be taken for zero."""
    name = backward.__qualname__.partition(".")[0].lstrip("_")

    @functools.wraps(backward)
    def guarded(ctx: Any, *grads: Tensor | None) -> Any:
        if torch.is_grad_enabled():  # a second derivative is wanted, or torch.func asks for the first one
            raise NotImplementedError(
                f"{name} has the first derivative alone by its kernels, and none for torch.func: "
                "call the network within pna.kernels.selection.plain()"
            )
        return backward(ctx, *grads)

    return guarded


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Within it, every operation is its plain-torch twin: to compare the two."""
    global _plain
    before, _plain = _plain, True
    try:
        yield
    finally:
        _plain = before
