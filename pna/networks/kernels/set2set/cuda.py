"""The readout S2S of section 3 in CUDA C++, for H = 16 or 32: forward.cu and backward.cu, compiled at first launch."""

import torch
from torch import Tensor

from pna.networks.kernels.nvrtc import available, compiled, shared_memory

__all__ = ["backward", "forward", "takes"]

GRAPHS = 16  # of a block, which has 8 H threads

# Blocks that a multiprocessor shall hold if H = 16, by the nodes of a thread: as many as leave it enough registers.
RESIDENT = {"forward": (5, 5, 4, 4, 4, 4, 3, 3), "backward": (4, 4, 4, 3, 3, 3, 2, 2)}


def takes(x: Tensor) -> bool:
    """Whether they serve these nodes [R, G, N, H], up to 32 of a graph: on an NVIDIA GPU with TF32 tensor cores.

    For 32 features it needs 128 KB of shared memory.
    """
    H = x.shape[3]
    return H in (16, 32) and available(x) and _bytes("backward", H) <= shared_memory(x.device)[0]


def forward(x: Tensor, weights: Tensor, bias: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    """State and read [R, G, 2, H]; of every step and block what backward needs."""
    R, G, N, H = x.shape
    out, kept = x.new_empty(R, G, 2, H), 3 * GRAPHS * H + 2 * GRAPHS  # see readout.cuh
    steps = x.new_empty(R, N, _programs(G), kept) if keep else x.new_empty(0)
    _launch("forward", keep, x, weights, bias, out, steps)
    return out, steps


def backward(x: Tensor, weights: Tensor, bias: Tensor, steps: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, int]:
    """The gradient of x; those of the weights in parts, [R, parts, …], then of the bias; and the number of parts."""
    programs = _programs(x.shape[1])
    sizes = [programs * t.numel() for t in (weights, bias)]
    grad_x, parts = torch.empty_like(x), x.new_empty(sum(sizes))
    _launch("backward", True, x, weights, bias, steps, grad, grad_x, *parts.split(sizes))
    return grad_x, parts, programs


def _programs(G: int) -> int:
    return -(-G // GRAPHS)


def _launch(name: str, keep: bool, x: Tensor, *tensors: Tensor) -> None:
    R, G, N, H = x.shape
    sources = ("set2set/readout.cuh", f"set2set/{name}.cu")
    kernel = compiled(sources, f"set2set_{name}", _options(name, N, H, keep), _bytes(name, H), x.device.index)
    kernel((_programs(G), R, 1), (8 * H, 1, 1), [x, *tensors, G, N])


def _bytes(name: str, H: int) -> int:
    """Of shared memory: states and reads; backward the matrices twice, biases, two steps, parts of gradients."""
    tile = GRAPHS * H
    steps, parts = 6 * tile + 2 * (tile + 2 * GRAPHS), H // 4 * (2 * tile + GRAPHS * 16)
    return 4 * (2 * tile if name == "forward" else 16 * H * H + 32 * H + steps + parts)


def _options(name: str, N: int, H: int, keep: bool) -> tuple[str, ...]:
    """The compiler's: every constant as a macro."""
    nodes = -(-N // 4)  # of a thread, of which four share a graph's nodes
    resident = max(1, RESIDENT[name][nodes - 1] * 16 // H)
    values = {"NODES": nodes, "RESIDENT": resident, "KEEP": int(keep), "H": H}
    return tuple(f"-DPNA_{key}={value}" for key, value in values.items())
