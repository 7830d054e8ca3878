"""The choice between a kernel and its plain-torch twin: kernels on an NVIDIA GPU with Triton, twins elsewhere."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

__all__ = ["first_derivative", "is_plain", "kernels_for", "many", "on_its_device", "plain", "usable"]

_TRITON = find_spec("triton") is not None  # the package works without it wherever there is no GPU
_plain = ContextVar("plain", default=False)


def usable(t: Tensor) -> bool:
    """Whether kernels can read this tensor, and plain() is not in force."""
    return t.is_cuda and _TRITON and not is_plain()


def is_plain() -> bool:
    """Whether plain() is in force here."""
    return _plain.get()


# torch.compile cannot trace a ContextVar; torch.compiler.assume_constant_result does this, and takes seconds to import.
is_plain._dynamo_marked_constant = True


def kernels_for(module: str, *arguments: Any) -> ModuleType | None:
    """Import the kernels `module` if it supports these arguments, and return None otherwise: then use the twin.

    Tensors must be float32 and on a GPU; the module's own `supports(*arguments)` decides everything else. The module is
    imported on its first use, because it needs Triton.
    """
    if not all(usable(a) and a.dtype == torch.float32 for a in arguments if isinstance(a, Tensor)):
        return None
    kernels = import_module(module)
    return kernels if kernels.supports(*arguments) else None


def on_its_device(function: Callable) -> Callable:
    """Decorate a function that launches kernels: it runs with the device of its first tensor as the current one."""

    @functools.wraps(function)
    def guarded(*arguments: Any, **options: Any) -> Any:
        """Call the function, with the device of its first tensor as the current one."""
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
    """Whether g is a batched tensor, as in a vectorised Jacobian.

    It has no storage that a kernel could read, and it cannot be added in place to a tensor that is not batched.
    """
    if torch.compiler.is_compiling():
        return False
    return torch._C._functorch.is_legacy_batchedtensor(g) or torch._C._functorch.is_batchedtensor(g)


def first_derivative(backward: Callable) -> Callable:
    """Decorate a kernel's backward pass: raise on a second derivative, which autograd would otherwise take for zero."""
    name = backward.__qualname__.partition(".")[0].lstrip("_")

    @functools.wraps(backward)
    def guarded(ctx: Any, *grads: Tensor | None) -> Any:
        """Call the backward pass, or raise a NotImplementedError if it would be differentiated itself."""
        if torch.is_grad_enabled():  # a second derivative is wanted, or torch.func asks for the first one
            raise NotImplementedError(
                f"{name} has the first derivative alone by its kernels, and none for torch.func: "
                "call the network within pna.kernels.selection.plain()"
            )
        return backward(ctx, *grads)

    return guarded


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Use the plain-torch twin of every operation, for instance to compare the two.

    It holds for the calls of this thread or asyncio task. A backward pass, which autograd may run in another thread,
    follows its forward pass; a function that torch.compile has compiled keeps the choice of its first call.
    """
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)
