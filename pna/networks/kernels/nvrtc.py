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
    """Whether CUDA kernels can be compiled and run on the device of x: an NVIDIA GPU with TF32 tensor cores.

    PyTorch's compiler is a private function, which older and newer versions may lack.
    """
    nvidia = x.is_cuda and torch.version.cuda is not None and hasattr(torch.cuda, "_compile_kernel")
    return nvidia and torch.cuda.get_device_capability(x.device) >= (8, 0)


def shared_memory(device: torch.device) -> tuple[int, int]:
    """Bytes of shared memory that a block may use on this device, and those of a multiprocessor."""
    properties = torch.cuda.get_device_properties(device)
    return properties.shared_memory_per_block_optin, properties.shared_memory_per_multiprocessor


@cache
def compiled(sources: tuple[str, ...], name: str, options: tuple[str, ...], shared: int, device: int | None) -> Any:
    """Compile a kernel for a device and `shared` bytes of dynamic shared memory; call it as (grid, block, arguments).

    Its source is the text of the files one after another, tensor_cores.cuh before them.
    """
    folder = files("pna.networks.kernels")
    text = "".join(folder.joinpath(part).read_text(encoding="utf-8") for part in (HEADER, *sources))
    torch.cuda.current_stream(device).synchronize()  # a thread of autograd's may not have the device's context yet
    with _without_toolkit():
        kernel = torch.cuda._compile_kernel(text, name, nvcc_options=list(options))
    if shared > 0:
        kernel.set_shared_memory_config(shared)
    return lambda grid, block, arguments: kernel(grid, block, arguments, shared)


@contextmanager
def _without_toolkit() -> Iterator[None]:
    """Compile without a CUDA toolkit: PyTorch asks where its headers are, but the source includes none."""
    home = cpp_extension.CUDA_HOME
    cpp_extension.CUDA_HOME = home or "/usr"  # any place will do
    try:
        yield
    finally:
        cpp_extension.CUDA_HOME = home
