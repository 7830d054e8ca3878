"""The readout S2S of section 3 for many replicas, all its steps in one CUDA kernel each way: forward.cu, backward.cu.

The kernels keep the nodes of some graphs in registers from the first step to the last. They are compiled at their first
launch.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from pna.kernels.functions import Copied, KernelFunction, Strided
from pna.networks.kernels.gates import gate_tensors, padded, width
from pna.networks.kernels.nvrtc import available, compiled, shared_memory
from pna.networks.kernels.packing import pack_weights, unpack_gradients

__all__ = ["set2set", "supports"]

GRAPHS = 16  # of a block, which has 8 H threads

# Blocks that a multiprocessor holds if H = 16, by the nodes of a thread: as many as leave it enough registers.
RESIDENT = {"forward": (5, 5, 4, 4, 4, 4, 3, 3), "backward": (4, 4, 4, 3, 3, 3, 2, 2)}


def supports(x: Tensor) -> bool:
    """Whether the kernels can read out the graphs x [G, N, F]: up to 32 nodes and 32 features, on an NVIDIA GPU.

    It needs TF32 tensor cores and, for more than 16 features, 128 KB of shared memory.
    """
    fits = x.shape[1] <= 32 and x.shape[2] <= 32 and available(x)
    return fits and _bytes("backward", width(x.shape[2])) <= shared_memory(x.device)[0]


def set2set(x: Tensor, gates: torch.nn.Module) -> Tensor:
    """Read out G graphs of N nodes, [G, N, F] -> [G, 2F]: the state after N steps, and what the last one reads."""
    F = x.shape[-1]
    out, *_ = _Set2Set.call(torch.is_grad_enabled(), padded(x, width(F)), *gate_tensors(gates))
    return out[..., :F].flatten(-2)  # [G, 2, F] -> [G, 2F]


def _lstm_weights(
    of_input: Tensor, bias: Tensor, of_state: Tensor, bias_of_state: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """The packing of the LSTM's matrices [8, H, H] and biases [4, H]: input, forget, cell, output of state, then read.

    The gates' input is [state, read], so the state has two matrices and two biases, which are added.
    """
    F = of_state.shape[1]
    H = width(F)
    first = torch.cat(of_input.view(4, F, 2, F).unbind(2))  # [8, F, F]
    second = functional.pad(of_state.view(4, F, F), (0, 0, 0, 0, 0, 4))
    matrices = padded(torch.stack([first, second]), H, 2)  # [2, 8, H, H]
    biases = padded(torch.stack([bias.view(4, F), bias_of_state.view(4, F)]), H)
    return [matrices, biases], [matrices.flatten(1), biases.flatten(1)]


class _Set2Set(KernelFunction):
    """Set2Set as an autograd Function.

    keep, x [R, G, N, H], the gates' tensors [R, …] -> state and read [R, G, 2, H], what backward needs, and the
    packed weights, [R, 8, H, H] and [R, 4, H].
    """

    results = 1

    @staticmethod
    def forward(keep: bool, x: Copied, *tensors: Strided) -> tuple[Tensor, ...]:
        weights = pack_weights(_lstm_weights, tensors)
        return *_forward(x, *weights, keep), *weights

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # which would be zeros as large as all that backward needs
        _, x, *tensors = inputs
        ctx.save_for_backward(x, *output[1:], *tensors)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, steps, *weights = ctx.saved_tensors
        weights, tensors = weights[:2], weights[2:]
        grad_x, *parts = _backward(x.contiguous(), *weights, steps, grad)
        return None, grad_x, *unpack_gradients(_lstm_weights, tensors, *parts)


def _forward(x: Tensor, weights: Tensor, bias: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    """Compute state and read, [R, G, 2, H], and the values that the backward pass needs.

    The latter are [R, N, programs, size] if `keep`; else an empty tensor.
    """
    R, G, N, H = x.shape
    out, size = x.new_empty(R, G, 2, H), 3 * GRAPHS * H + 2 * GRAPHS  # see readout.cuh
    steps = x.new_empty(R, N, _programs(G), size) if keep else x.new_empty(0)
    _launch("forward", keep, x, weights, bias, out, steps)
    return out, steps


def _backward(x: Tensor, weights: Tensor, bias: Tensor, steps: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, int]:
    """Gradient of x; those of the weights in parts, [R, parts, …], then of the bias, flat; and the number of parts."""
    programs = _programs(x.shape[1])
    sizes = [programs * t.numel() for t in (weights, bias)]
    grad_x, parts = torch.empty_like(x), x.new_empty(sum(sizes))
    _launch("backward", True, x, weights, bias, steps, grad, grad_x, *parts.split(sizes))
    return grad_x, parts, programs


def _programs(G: int) -> int:
    """Number of blocks of a replica with G graphs."""
    return -(-G // GRAPHS)


def _launch(name: str, keep: bool, x: Tensor, *tensors: Tensor) -> None:
    """Launch forward.cu or backward.cu for x [R, G, N, H]."""
    R, G, N, H = x.shape
    sources = ("set2set/readout.cuh", f"set2set/{name}.cu")
    kernel = compiled(sources, f"set2set_{name}", _options(name, N, H, keep), _bytes(name, H), x.device.index)
    kernel((_programs(G), R, 1), (8 * H, 1, 1), [x, *tensors, G, N])


def _bytes(name: str, H: int) -> int:
    """Bytes of shared memory: states and reads; backward, the matrices twice, biases, two steps, parts of gradients."""
    tile = GRAPHS * H
    steps, parts = 6 * tile + 2 * (tile + 2 * GRAPHS), H // 4 * (2 * tile + GRAPHS * 16)
    return 4 * (2 * tile if name == "forward" else 16 * H * H + 32 * H + steps + parts)


def _options(name: str, N: int, H: int, keep: bool) -> tuple[str, ...]:
    """Options for the compiler: every constant as a macro."""
    nodes = -(-N // 4)  # of a thread, of which four share a graph's nodes
    resident = max(1, RESIDENT[name][nodes - 1] * 16 // H)
    values = {"NODES": nodes, "RESIDENT": resident, "KEEP": int(keep), "H": H}
    return tuple(f"-DPNA_{key}={value}" for key, value in values.items())
