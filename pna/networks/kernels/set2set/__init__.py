"""The readout S2S of section 3 for many replicas, all its steps in one kernel each way.

By CUDA kernels where they serve, else by Triton's: both keep the nodes of some graphs in registers from the first step
to the last.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna.kernels.choice import on_its_device
from pna.networks.kernels.gru import padded, width
from pna.networks.kernels.replicas import replicated
from pna.networks.kernels.set2set import cuda, triton

__all__ = ["set2set", "takes"]


def takes(x: Tensor) -> bool:
    """Whether the kernels serve the graphs x [G, N, F]: up to 32 nodes each and 32 features."""
    return x.shape[1] <= 32 and x.shape[2] <= 32


@on_its_device
def set2set(x: Tensor, gates: torch.nn.Module) -> Tensor:
    """The nodes of G graphs of one size, [G, N, F] -> [G, 2F]: the state after N steps and what it reads last."""
    F = x.shape[-1]
    H = width(F)
    lifted = (t.unsqueeze(0) for t in (padded(x, H), *_lstm_weights(gates, F, H)))  # one replica
    out, _ = _Set2Set.apply(*lifted, torch.is_grad_enabled())
    return out.squeeze(0)[..., :F].flatten(-2)  # [G, 2, F] -> [G, 2F]


def _lstm_weights(gates: torch.nn.Module, F: int, H: int) -> tuple[Tensor, Tensor]:
    """The LSTM's matrices [8, H, H] and biases [4, H]: input, forget, cell, output of the state, then of the read."""
    of_state, of_read = gates.input.weight.view(4, F, 2, F).unbind(2)  # [4, F, F] each: the input is [state, read]
    of_state = of_state + gates.state.weight.view(4, F, F)
    bias = (gates.input.bias + gates.state.bias).view(4, F)
    return padded(torch.cat([of_state, of_read]), H, 2), padded(bias, H)


class _Set2Set(Function):
    """x [R, G, N, H], weights [R, 8, H, H], bias [R, 4, H] -> state and read [R, G, 2, H], and what backward needs."""

    @staticmethod
    def forward(x: Tensor, weights: Tensor, bias: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
        run = (cuda if cuda.takes(x) else triton).forward
        return run(x.contiguous(), weights.contiguous(), bias.contiguous(), keep)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)  # which would be zeros as large as all that is kept
        ctx.save_for_backward(*inputs[:3], output[1])

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        tensors = [t.contiguous() for t in (*ctx.saved_tensors, grad)]
        run = (cuda if cuda.takes(tensors[0]) else triton).backward
        return *run(*tensors), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Any) -> tuple[tuple[Tensor, Tensor], tuple[int, None]]:
        *tensors, keep = inputs
        lifted = [replicated(t, dim, info.batch_size) for t, dim in zip(tensors, in_dims, strict=False)]
        out, steps = _Set2Set.apply(*lifted, keep)
        return (out.unflatten(0, (info.batch_size, -1)), steps), (0, None)
