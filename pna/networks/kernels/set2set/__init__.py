"""The readout S2S of section 3 for many replicas, all its steps in one kernel each way.

By CUDA kernels where they serve, else by Triton's: both keep the nodes of some graphs in registers from the first step
to the last.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from pna.kernels.choice import on_its_device
from pna.networks.kernels.gru import gate_tensors, padded, width
from pna.networks.kernels.layout import laid_out, taken_back
from pna.networks.kernels.replicas import replicated, rows_of_replicas
from pna.networks.kernels.set2set import cuda, triton

__all__ = ["set2set", "takes"]


def takes(x: Tensor) -> bool:
    """Whether the kernels serve the graphs x [G, N, F]: up to 32 nodes each and 32 features."""
    return x.shape[1] <= 32 and x.shape[2] <= 32


@on_its_device
def set2set(x: Tensor, gates: torch.nn.Module) -> Tensor:
    """The nodes of G graphs of one size, [G, N, F] -> [G, 2F]: the state after N steps and what it reads last."""
    F = x.shape[-1]
    lifted = (t.unsqueeze(0) for t in (padded(x, width(F)), *gate_tensors(gates)))  # one replica
    out, *_ = _Set2Set.apply(*lifted, torch.is_grad_enabled())
    return out.squeeze(0)[..., :F].flatten(-2)  # [G, 2, F] -> [G, 2F]


def _lstm_weights(
    of_input: Tensor, bias: Tensor, of_state: Tensor, bias_of_state: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """The LSTM's matrices [8, H, H] and biases [4, H]: input, forget, cell, output of the state, then of the read.

    The gates' input is [state, read], so that the state has two matrices and two biases, which are added.
    """
    F = of_state.shape[1]
    H = width(F)
    first = torch.cat(of_input.view(4, F, 2, F).unbind(2))  # [8, F, F]
    second = functional.pad(of_state.view(4, F, F), (0, 0, 0, 0, 0, 4))
    matrices = padded(torch.stack([first, second]), H, 2)  # [2, 8, H, H]
    biases = padded(torch.stack([bias.view(4, F), bias_of_state.view(4, F)]), H)
    return [matrices, biases], [matrices.flatten(1), biases.flatten(1)]


class _Set2Set(Function):
    """x [R, G, N, H], the gates' tensors [R, …] -> state and read [R, G, 2, H], what backward needs, and the weights
    as they were laid out, [R, 8, H, H] and [R, 4, H].
    """

    @staticmethod
    def forward(x: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
        *tensors, keep = arguments
        run, weights = (cuda if cuda.takes(x) else triton).forward, laid_out(_lstm_weights, tensors)
        return *run(x.contiguous(), *weights, keep), *weights

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # which would be zeros as large as all that is kept
        x, *tensors, _ = inputs
        ctx.save_for_backward(x, *output[1:], *tensors)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, steps, *weights = ctx.saved_tensors
        weights, tensors = weights[:2], weights[2:]
        x = x.contiguous()
        run = (cuda if cuda.takes(x) else triton).backward
        grad_x, *parts = run(x, *weights, steps, grad.contiguous())
        return grad_x, *taken_back(_lstm_weights, tensors, *parts), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, x: Tensor, *rest: Any) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:
        *tensors, keep = rest
        R = info.batch_size
        lifted = (rows_of_replicas(t, dim, R) for t, dim in zip(tensors, in_dims[1:-1], strict=True))
        out, *others = _Set2Set.apply(replicated(x, in_dims[0], R), *lifted, keep)
        return (out.unflatten(0, (R, -1)), *others), (0, *(None,) * len(others))
