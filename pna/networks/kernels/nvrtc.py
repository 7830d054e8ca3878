"""Kernels in CUDA C++, compiled at their first launch by NVRTC, which comes with PyTorch."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor
from torch.utils import cpp_extension

__all__ = ["HEADER", "available", "compiled", "shared_memory"]

HEADER = "tensor_cores.cuh"


def available(x: Tensor) -> bool:
    """Whether such kernels run where x is: on an NVIDIA GPU with TF32 tensor cores."""
    nvidia = x.is_cuda and torch.version.cuda is not None
    return nvidia and torch.cuda.get_device_capability(x.device) >= (8, 0)


def shared_memory(device: torch.device) -> tuple[int, int]:
    """The bytes that a block may have there, and those of a multiprocessor."""
    has = torch.cuda.get_device_properties(device)
    return has.shared_memory_per_block_optin, has.shared_memory_per_multiprocessor


@cache
def compiled(sources: tuple[str, ...], name: str, options: tuple[str, ...], shared: int, device: int | None) -> Any:
    """A kernel, for a device and so many bytes of dynamic shared memory: called as (grid, block, arguments).

    Its source is that of the files one after the other, tensor_cores.cuh before them.
    """
    folder = files("pna.networks.kernels")
    text = "".join(folder.joinpath(part).read_text(encoding="utf-8") for part in (HEADER, *sources))
    with _without_toolkit():
        kernel = torch.cuda._compile_kernel(text, name, nvcc_options=list(options))
    if shared > 0:
        kernel.set_shared_memory_config(shared)
    return lambda grid, block, arguments: kernel(grid, block, arguments, shared)


@contextmanager
def _without_toolkit() -> Iterator[None]:
    """PyTorch asks where CUDA's headers are, though the source includes none: any place will do."""
    home = cpp_extension.CUDA_HOME
    cpp_extension.CUDA_HOME = home or "/usr"
    try:
        yield
    finally:
        cpp_extension.CUDA_HOME = home
