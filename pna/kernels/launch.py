"""Launching a compiled kernel again without Triton's look-up, which takes longer than a small kernel."""

import inspect
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import triton
from torch import Tensor
from triton import knobs
from triton.compiler import CompiledKernel

__all__ = ["Constants", "Launch"]

# the parameters of Triton's launcher of a compiled kernel: these, then THEN's of 3.6 or of 3.7
TAKES = ("self", "gridX", "gridY", "gridZ", "stream", "function")
THEN = (("args",), ("kernel_metadata", "launch_metadata", "launch_enter_hook", "launch_exit_hook", "args"))


class Constants(dict):
    """A kernel's constants by name.

    Hashed by identity, so that a launch need not hash its constants again; build it once and reuse it.
    """

    __hash__, __eq__ = object.__hash__, object.__eq__


class Form(NamedTuple):
    """A compiled form of a kernel, the values of its constants, and its launcher if its parameters are known."""

    kernel: CompiledKernel
    constants: tuple
    launcher: Callable | None

    @classmethod
    def of(cls, kernel: CompiledKernel, constants: tuple) -> "Form":
        """The form of a kernel that has run once."""
        parameters = tuple(inspect.signature(type(kernel.run).__call__).parameters)
        known = parameters[:6] == TAKES and parameters[6:] in THEN and hasattr(knobs.runtime.launch_enter_hook, "calls")
        return cls(kernel, constants, kernel.run if known else None)


class Launch:
    """A kernel with its compiled forms, keyed by what Triton specialises on: types, alignment, constants, device.

    The kernel's constants come after its other arguments, in the same order at every call.
    """

    def __init__(self, kernel: triton.JITFunction) -> None:
        self.kernel = kernel
        self.interpreted = not isinstance(kernel, triton.JITFunction)
        self.names = () if self.interpreted else tuple(p.name for p in kernel.params if p.is_constexpr)
        self.forms: dict[tuple, Form] = {}

    def __call__(
        self, grid: tuple[int, int], arguments: Sequence[Tensor | int], constants: Constants, warps: int
    ) -> None:
        """Launch kernel[grid](*arguments, **constants, num_warps=warps); the current device must be the tensors'."""
        if self.interpreted:
            self.kernel[grid](*arguments, **constants, num_warps=warps)
            return
        device = torch._C._cuda_getDevice()
        numbers, key = _specialised(arguments, [constants, device, warps])
        form = self.forms.get(key)
        if form is None:
            kernel = self.kernel[grid](*arguments, **constants, num_warps=warps)
            self.forms[key] = Form.of(kernel, tuple(constants[name] for name in self.names))
        elif form.launcher is None or _profiled():
            form.kernel[(*grid, 1)](*arguments, *form.constants)
        else:
            kernel, stream = form.kernel, torch._C._cuda_getCurrentRawStream(device)
            which = (*grid, 1, stream, kernel.function, kernel.packed_metadata)
            form.launcher(*which, None, None, None, *numbers, *form.constants)  # no profiler's hooks


def _specialised(arguments: Sequence[Tensor | int], key: list) -> tuple[list[int], tuple]:
    """The arguments as numbers, and `key` extended by what Triton specialises on.

    That is a tensor's dtype and whether it is aligned to 16 bytes; whether an integer is a multiple of 16, its width,
    and whether it is 1.
    """
    numbers = []
    for a in arguments:
        if type(a) is int:
            number = a
            key.append((a == 1) + 2 * (a >> 31 == 0))
        else:
            number = a.data_ptr()
            key.append(a.dtype)
        numbers.append(number)
        key.append(number & 15 == 0)
    return numbers, tuple(key)


def _profiled() -> bool:
    """Whether a profiler has hooks for every launch."""
    return bool(knobs.runtime.launch_enter_hook.calls or knobs.runtime.launch_exit_hook.calls)
