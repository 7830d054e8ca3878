"""The kernels of set2set.py in CUDA C++, for H = 16: `set2set.cu`, which NVRTC compiles at the first launch."""

import torch
from torch import Tensor

from pna.kernels.cuda import available, compiled

__all__ = ["backward", "forward", "supports"]

H, MOST_NODES = 16, 32
GRAPHS, THREADS = 16, 128  # of a block
KEPT = 3 * GRAPHS * H + 2 * GRAPHS  # numbers that are kept of a step for a block, see set2set.cu
ORDER = ("set2set_forward", "set2set_backward")  # as set2set.cu numbers them

# Blocks that a multiprocessor shall hold, by the nodes of a thread: as many as leave enough registers to each.
RESIDENT = {"set2set_forward": (5, 5, 4, 4, 4, 4, 3, 3), "set2set_backward": (4, 4, 4, 3, 3, 3, 2, 2)}


def supports(x: Tensor) -> bool:
    """Whether they take these nodes [R, G, N, H]: on an NVIDIA GPU with TF32 tensor cores."""
    return x.shape[3] == H and x.shape[2] <= MOST_NODES and available(x)


def forward(x: Tensor, weights: Tensor, bias: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    """State and read [R, G, 2, H]; of every step and block what backward needs."""
    R, G, N, _ = x.shape
    out = x.new_empty(R, G, 2, H)
    steps = x.new_empty(R, N, _programs(G), KEPT) if keep else x.new_empty(0)
    _launch("set2set_forward", keep, x, weights, bias, out, steps)
    return out, steps


def backward(x: Tensor, weights: Tensor, bias: Tensor, steps: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weights and bias."""
    programs = _programs(x.shape[1])
    grad_x, *parts = torch.empty_like(x), *(t.new_empty(len(t), programs, *t.shape[1:]) for t in (weights, bias))
    _launch("set2set_backward", True, x, weights, bias, steps, grad, grad_x, *parts)
    return grad_x, *(part.sum(1) for part in parts)


def _programs(G: int) -> int:
    return -(-G // GRAPHS)


def _launch(name: str, keep: bool, x: Tensor, *tensors: Tensor) -> None:
    R, G, N, _ = x.shape
    kernel = compiled(("set2set.cu",), name, _options(name, N, keep), 0, x.device.index)
    kernel((_programs(G), R, 1), (THREADS, 1, 1), [x, *tensors, G, N])


def _options(name: str, N: int, keep: bool) -> tuple[str, ...]:
    """Of the compiler."""
    nodes = -(-N // 4)  # of a thread, of which four share a graph's nodes
    values = {"KERNEL": ORDER.index(name), "NODES": nodes, "RESIDENT": RESIDENT[name][nodes - 1], "KEEP": int(keep)}
    return tuple(f"-DPNA_{key}={value}" for key, value in values.items())
