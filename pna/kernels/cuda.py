"""Kernels in CUDA C++, compiled at their first launch by NVRTC, which comes with PyTorch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor
from torch.utils import cpp_extension

__all__ = ["Kernel", "available"]


def available(x: Tensor) -> bool:
    """Whether such kernels run where x is: on an NVIDIA GPU with TF32 tensor cores."""
    nvidia = x.is_cuda and torch.version.cuda is not None
    return nvidia and torch.cuda.get_device_capability(x.device) >= (8, 0)


@dataclass(frozen=True)
class Kernel:
    """A kernel of one of the package's .cu files; PNA_KERNEL says which one is compiled."""

    file: str
    name: str
    number: int
    threads: int  # of a block
    words: Callable[[dict[str, Any]], int]  # of shared memory, by the constants
    settings: dict[str, Any]  # constants that are the same in all launches
    compiled: dict[tuple, Any] = field(default_factory=dict, repr=False)

    def launch(self, grid: tuple[int, int], arguments: list[Tensor | int], constants: dict[str, Any]) -> None:
        """One launch, with `constants` as PNA_… at compile time."""
        key = (*constants.values(), torch.cuda.current_device())
        if key not in self.compiled:
            self.compiled[key] = _compile(self.file, self.name, self.defines(constants), self.shared_memory(constants))
        self.compiled[key]((*grid, 1), (self.threads, 1, 1), arguments, self.shared_memory(constants))

    def defines(self, constants: dict[str, Any]) -> tuple[str, ...]:
        """Compiler options."""
        given = constants | self.settings | {"KERNEL": self.number}
        return tuple(f"-DPNA_{name}={int(v) if isinstance(v, bool) else v}" for name, v in given.items())

    def shared_memory(self, constants: dict[str, Any]) -> int:
        """In bytes."""
        return 4 * self.words(constants)


@cache
def _source(file: str) -> str:
    return files("pna.kernels").joinpath(file).read_text(encoding="utf-8")


def _compile(file: str, name: str, defines: tuple[str, ...], shared: int) -> Any:
    with _without_toolkit():
        kernel = torch.cuda._compile_kernel(_source(file), name, nvcc_options=list(defines))
    kernel.set_shared_memory_config(shared)
    return kernel


@contextmanager
def _without_toolkit() -> Iterator[None]:
    """PyTorch asks where CUDA's headers are, though the source includes none: any place will do."""
    home = cpp_extension.CUDA_HOME
    cpp_extension.CUDA_HOME = home or "/usr"
    try:
        yield
    finally:
        cpp_extension.CUDA_HOME = home
