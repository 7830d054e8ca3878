"""Launching a kernel again, without Triton's search for its compiled form, which takes longer than a small kernel."""

import inspect
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import triton
from torch import Tensor
from triton import knobs
from triton.compiler import CompiledKernel

__all__ = ["Constants", "Launch"]

# what Triton's launcher of a compiled kernel takes: in 3.6 and in 3.7
TAKES = ("self", "gridX", "gridY", "gridZ", "stream", "function")
THEN = (("args",), ("kernel_metadata", "launch_metadata", "launch_enter_hook", "launch_exit_hook", "args"))


class Constants(dict):
    """A kernel's constants by name. Known by itself, so that none of them is looked at again: made once (a cache)."""

    __hash__, __eq__ = object.__hash__, object.__eq__


class Form(NamedTuple):
    """A compiled form of a kernel, the values of its constants, and its launcher, if that is one we know."""

    kernel: CompiledKernel
    constants: tuple
    launcher: Callable | None

    @classmethod
    def of(cls, kernel: CompiledKernel, constants: tuple) -> "Form":
        """Of a kernel that has run once."""
        parameters = tuple(inspect.signature(type(kernel.run).__call__).parameters)
        known = parameters[:6] == TAKES and parameters[6:] in THEN and hasattr(knobs.runtime.launch_enter_hook, "calls")
        return cls(kernel, constants, kernel.run if known else None)


class Launch:
    """A kernel with its compiled forms, by all that Triton tells them apart by: types, alignment, constants, device.

    The kernel's constants stand behind its other arguments, and are given in the same order at every call.
    """

    def __init__(self, kernel: triton.JITFunction) -> None:
        self.kernel = kernel
        self.interpreted = not isinstance(kernel, triton.JITFunction)
        self.names = () if self.interpreted else tuple(p.name for p in kernel.params if p.is_constexpr)
        self.forms: dict[tuple, Form] = {}

    def __call__(
        self, grid: tuple[int, int], arguments: Sequence[Tensor | int], constants: Constants, warps: int
    ) -> None:
        """The same as kernel[grid](*arguments, **constants, num_warps=warps), on the current device: the tensors'."""
        if self.interpreted:
            self.kernel[grid](*arguments, **constants, num_warps=warps)
            return
        device = torch._C._cuda_getDevice()
        numbers, key = _told_apart(arguments, [constants, device, warps])
        form = self.forms.get(key)
        if form is None:
            kernel = self.kernel[grid](*arguments, **constants, num_warps=warps)
            self.forms[key] = Form.of(kernel, tuple(constants[name] for name in self.names))
        elif form.launcher is None or _watched():
            form.kernel[(*grid, 1)](*arguments, *form.constants)
        else:
            kernel, stream = form.kernel, torch._C._cuda_getCurrentRawStream(device)
            which = (*grid, 1, stream, kernel.function, kernel.packed_metadata)
            form.launcher(*which, None, None, None, *numbers, *form.constants)  # no profiler is told


def _told_apart(arguments: Sequence[Tensor | int], key: list) -> tuple[list[int], tuple]:
    """The arguments as numbers, and behind `key` what Triton specialises on: a tensor's dtype, and if it lies at 16
    bytes; of an integer if it is such a multiple, its width, and if it is 1."""
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


def _watched() -> bool:
    """Whether a profiler wants to be told of every launch."""
    return bool(knobs.runtime.launch_enter_hook.calls or knobs.runtime.launch_exit_hook.calls)
