"""Linear maps of many rows, for many replicas with different weights at once.

The gradient of the weights is a sum over all rows. cuBLAS gives such a product of two narrow matrices to few
multiprocessors. Here the rows are divided into parts, whose products are one batch, and summed at the end. Wide
matrices keep a GPU busy without this, and each part would cost the writing and reading of its product.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from pna.arguments import is_forward_mode
from pna.kernels import selection
from pna.kernels.priority import Beside

__all__ = ["Linear", "batched", "in_parts", "linear", "supports", "wide"]

PARTS = 512  # upper bound for all replicas together: a few for each multiprocessor
TILE = 64  # rows and columns of a product that one multiprocessor computes at a time
ROWS = 64  # lower bound for a part
WIDE = 256  # rows and columns of a matrix that fills a GPU


def supports(x: Tensor) -> bool:
    """Whether x stands for replicas (torch.func.vmap) on a GPU.

    Not under autocast, which casts only torch's products, nor forward mode, which differentiates only those.
    """
    if torch.compiler.is_compiling() or not selection.usable(x) or torch.is_autocast_enabled(x.device.type):
        return False
    if is_forward_mode():
        return False
    innermost = torch._C._functorch.peek_interpreter_stack()
    return innermost is not None and innermost.key() == torch._C._functorch.TransformType.Vmap


def wide(shape: Sequence[int]) -> bool:
    """Whether a shape is that of a matrix with many rows and columns."""
    return len(shape) == 2 and min(shape) >= WIDE


def batched(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute B products x Wᵀ + b: x [B, N, in], weight [B, out, in], bias [B, out] or None -> [B, N, out]."""
    return (_Batched.apply if supports(x) else _Batched.forward)(x, weight, bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute torch.nn.functional.linear; for replicas of x [N, in] on a GPU, as one batched product."""
    if x.dim() != 2 or not supports(x):
        return functional.linear(x, weight, bias)
    return batched(x.unsqueeze(0), weight.unsqueeze(0), None if bias is None else bias.unsqueeze(0)).squeeze(0)


class Linear(nn.Linear):
    """A torch.nn.Linear that multiplies by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """Map x [N, in] to [N, out]."""
        return linear(x, self.weight, self.bias)


class _Batched(Function):
    """The batched product, whose backward pass divides the rows into parts."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if bias is None:
            return torch.bmm(x, weight.mT)
        return torch.baddbmm(bias.unsqueeze(1), x, weight.mT)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Tensor) -> None:
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        x_grad, weight_grad, bias_grad = ctx.needs_input_grad
        if all((x_grad, weight_grad, wide(weight.shape[1:]))) and not torch.is_grad_enabled():
            return _side_by_side(g, x, weight, bias_grad)
        return (
            torch.bmm(g, weight) if x_grad else None,
            _over_rows(g, x) if weight_grad else None,
            g.sum(1) if bias_grad else None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Tensor | None) -> tuple[Tensor, int]:
        R = info.batch_size
        lifted = (None if t is None else _flat(t, dim, R) for t, dim in zip(inputs, in_dims, strict=True))
        return _Batched.apply(*lifted).unflatten(0, (R, -1)), 0


def _side_by_side(g: Tensor, x: Tensor, weight: Tensor, bias_grad: bool) -> tuple[Tensor | None, ...]:
    """Compute the gradients of x, wide weights and bias at once: one begins where another leaves a GPU partly idle."""
    of_weight = Beside(g.device, lambda: _over_rows(g, x))
    bias = Beside(g.device, lambda: g.sum(1)) if bias_grad else None
    grad_x = torch.bmm(g, weight)
    return grad_x, of_weight.result(), None if bias is None else bias.result()


def _flat(t: Tensor, dim: int | None, R: int) -> Tensor:
    """Stack what torch.func.vmap batches along dim: R times [B, ...] -> [R·B, ...]."""
    return (t.expand(R, *t.shape) if dim is None else t.movedim(dim, 0)).flatten(0, 1)


def _over_rows(g: Tensor, x: Tensor) -> Tensor:
    """Compute gᵀ x over all rows: g [B, N, out] and x [B, N, in] -> [B, out, in]."""
    parts = in_parts(g, x)
    return parts.squeeze(1) if parts.shape[1] == 1 else parts.sum(1)


def in_parts(g: Tensor, x: Tensor) -> Tensor:
    """Compute gᵀ x for each part of the rows, to be summed: g [B, N, out], x [B, N, in] -> [B, parts, out, in]."""
    B, N = g.shape[:2]
    parts, tiles = 1, B * -(-g.shape[2] // TILE) * -(-x.shape[2] // TILE)
    while tiles * parts < PARTS and N % (2 * parts) == 0 and N // (2 * parts) >= ROWS:
        parts *= 2
    g, x = (t.reshape(B * parts, N // parts, t.shape[2]) for t in (g, x))
    return torch.bmm(g.mT, x).unflatten(0, (B, parts))
