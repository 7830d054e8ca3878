"""Launching a kernel again, without Triton's search for its compiled form, which takes longer than a small kernel."""

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor
from triton.compiler import CompiledKernel

__all__ = ["Launch"]


class Launch:
    """A kernel with its compiled forms, by all that Triton tells them apart by: types, alignment, constants, device.

    The kernel's constants stand behind its other arguments, and are given in the same order at every call.
    """

    def __init__(self, kernel: triton.JITFunction) -> None:
        self.kernel = kernel
        self.interpreted = not isinstance(kernel, triton.JITFunction)
        self.names = () if self.interpreted else tuple(p.name for p in kernel.params if p.is_constexpr)
        self.forms: dict[tuple, tuple[CompiledKernel, tuple]] = {}

    def __call__(self, grid: tuple[int, int], arguments: Sequence[Tensor | int], constants: dict, warps: int) -> None:
        """The same as kernel[grid](*arguments, **constants, num_warps=warps)."""
        if self.interpreted:
            self.kernel[grid](*arguments, **constants, num_warps=warps)
            return
        key = (torch.cuda.current_device(), warps, *constants.values(), *_kinds(arguments))
        form, values = self.forms.get(key, (None, ()))
        if form is None:
            form = self.kernel[grid](*arguments, **constants, num_warps=warps)
            self.forms[key] = form, tuple(constants[name] for name in self.names)
        else:
            form[(*grid, 1)](*arguments, *values)


def _kinds(arguments: Sequence[Tensor | int]) -> list[Any]:
    """What Triton specialises on: a tensor's dtype and alignment; of an integer also its width, and if it is 1."""
    return [
        (a == 1) + 2 * (a & 15 == 0) + 4 * (a >> 31 == 0) if type(a) is int else (a.dtype, a.data_ptr() & 15)
        for a in arguments
    ]
