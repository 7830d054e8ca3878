"""The kernels of recurrence_forward.py and recurrence_backward.py in CUDA C++, for H = 16: `recurrence.cu`.

NVRTC, which comes with PyTorch, compiles them at the first launch. They are launched as Triton's are,
kernel[programs, replicas](tensors and numbers, constants by name), and take the same tensors; what only Triton needs,
they ignore.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor
from torch.utils import cpp_extension

from pna.aggregators import EPSILON

__all__ = ["Kernel", "aggregates_backward", "layer_forward", "node_backward", "supports"]

H = 16
ORDER = ("layer_forward", "node_backward", "aggregates_backward")  # as recurrence.cu numbers them
TRITONS = {"H", "BLOCK", "num_warps", "num_stages"}


def supports(x: Tensor, H: int) -> bool:
    """Whether these kernels run there: on an NVIDIA GPU with TF32 tensor cores, with matrices of 16 × 16."""
    nvidia = x.is_cuda and torch.version.cuda is not None
    return nvidia and H == 16 and torch.cuda.get_device_capability(x.device) >= (8, 0)


@dataclass
class Kernel:
    """One of the kernels and how it is spread over the GPU."""

    name: str
    words: Callable[[dict[str, Any], int], int]  # of shared memory, by the constants and the nodes of a block
    warps: int  # of a block: 16 nodes each
    resident: int  # blocks that a multiprocessor shall hold, which bounds their registers
    unroll: int = 2  # neighbours that are loaded together
    compiled: dict[tuple, Any] = field(default_factory=dict, repr=False)

    def __getitem__(self, grid: tuple[int, int]) -> Callable[..., None]:
        return partial(self._launch, grid)

    def _launch(self, grid: tuple[int, int], *arguments: Tensor | int, **constants: Any) -> None:
        defines, shared = self.defines(constants), self.shared_memory(constants)
        key = (*defines, torch.cuda.current_device())
        if key not in self.compiled:
            self.compiled[key] = _compile(self.name, defines, shared)
        self.compiled[key]((*grid, 1), (32 * self.warps, 1, 1), list(arguments), shared)

    def defines(self, constants: dict[str, Any]) -> tuple[str, ...]:
        """Compiler options."""
        given = {name: int(value) for name, value in constants.items() if name not in TRITONS}
        ours = {"WARPS": self.warps, "RESIDENT": self.resident, "UNROLL": self.unroll, "EPS": EPSILON}
        return tuple(f"-DPNA_{k}={v}" for k, v in (given | ours | {"KERNEL": ORDER.index(self.name)}).items())

    def shared_memory(self, constants: dict[str, Any]) -> int:
        """In bytes."""
        return 4 * self.words(constants, 16 * self.warps)


def _forward_words(of: dict[str, Any], nodes: int) -> int:
    """U's matrices, the GRU's, the projections; all biases."""
    return (2 + of["S"] * of["A"] + 6 + 2) * H * H + 9 * H


def _node_words(of: dict[str, Any], nodes: int) -> int:
    """The GRU's matrices and their transposes, two of U's, the projections; biases; nine numbers for each feature."""
    return (6 + 6 + 2 + 2) * H * H + 6 * H + nodes * (9 * H + 8)


def _aggregates_words(of: dict[str, Any], nodes: int) -> int:
    """U's matrices; a bias; the aggregates and the scaled gradients."""
    return of["S"] * of["A"] * H * H + H + nodes * ((of["A"] + of["S"]) * H + 8)


layer_forward = Kernel("layer_forward", _forward_words, warps=4, resident=4)
node_backward = Kernel("node_backward", _node_words, warps=4, resident=4, unroll=1)
aggregates_backward = Kernel("aggregates_backward", _aggregates_words, warps=4, resident=4)


@cache
def _source() -> str:
    return files("pna.kernels").joinpath("recurrence.cu").read_text(encoding="utf-8")


def _compile(name: str, defines: tuple[str, ...], shared: int) -> Any:
    with _without_toolkit():
        kernel = torch.cuda._compile_kernel(_source(), name, nvcc_options=list(defines))
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
