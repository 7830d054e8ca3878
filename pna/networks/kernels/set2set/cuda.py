"""The readout S2S of section 3 in CUDA C++, for H = 16: forward.cu and backward.cu, compiled at the first launch."""

import torch
from torch import Tensor

from pna.networks.kernels.nvrtc import available, compiled

__all__ = ["backward", "forward", "takes"]

H = 16
GRAPHS, THREADS = 16, 128  # of a block
KEPT = 3 * GRAPHS * H + 2 * GRAPHS  # numbers that are kept of a step for a block, see readout.cuh

# Blocks that a multiprocessor shall hold, by the nodes of a thread: as many as leave enough registers to each.
RESIDENT = {"forward": (5, 5, 4, 4, 4, 4, 3, 3), "backward": (4, 4, 4, 3, 3, 3, 2, 2)}


def takes(x: Tensor) -> bool:
    """Whether they serve these nodes [R, G, N, H], up to 32 of a graph: on an NVIDIA GPU with TF32 tensor cores."""
    return x.shape[3] == H and available(x)


def forward(x: Tensor, weights: Tensor, bias: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    """State and read [R, G, 2, H]; of every step and block what backward needs."""
    R, G, N, _ = x.shape
    out = x.new_empty(R, G, 2, H)
    steps = x.new_empty(R, N, _programs(G), KEPT) if keep else x.new_empty(0)
    _launch("forward", keep, x, weights, bias, out, steps)
    return out, steps


def backward(x: Tensor, weights: Tensor, bias: Tensor, steps: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weights and bias."""
    programs = _programs(x.shape[1])
    grad_x, *parts = torch.empty_like(x), *(t.new_empty(len(t), programs, *t.shape[1:]) for t in (weights, bias))
    _launch("backward", True, x, weights, bias, steps, grad, grad_x, *parts)
    return grad_x, *(part.sum(1) for part in parts)


def _programs(G: int) -> int:
    return -(-G // GRAPHS)


def _launch(name: str, keep: bool, x: Tensor, *tensors: Tensor) -> None:
    R, G, N, _ = x.shape
    sources = ("set2set/readout.cuh", f"set2set/{name}.cu")
    kernel = compiled(sources, f"set2set_{name}", _options(name, N, keep), 0, x.device.index)
    kernel((_programs(G), R, 1), (THREADS, 1, 1), [x, *tensors, G, N])


def _options(name: str, N: int, keep: bool) -> tuple[str, ...]:
    """The compiler's: every constant as a macro."""
    nodes = -(-N // 4)  # of a thread, of which four share a graph's nodes
    values = {"NODES": nodes, "RESIDENT": RESIDENT[name][nodes - 1], "KEEP": int(keep)}
    return tuple(f"-DPNA_{key}={value}" for key, value in values.items())
