"""Linear maps of many rows for many replicas at once, each with weights of its own.

The gradient of the weights is a sum over all rows. cuBLAS gives such a product of two narrow matrices to few
multiprocessors; here the rows are shared out in parts, whose products are one batch, and summed at the end. Where the
matrices are wide there is work enough without, and each part would cost the writing and reading of its product.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from pna.kernels import selection
from pna.kernels.priority import Beside

__all__ = ["Linear", "batched", "in_parts", "linear", "supports", "wide"]

PARTS = 512  # at most, of all replicas: some for each multiprocessor
TILE = 64  # rows and columns of a product that one multiprocessor makes at a time
ROWS = 64  # at least, in a part
WIDE = 256  # rows and columns of a matrix that fills a GPU


def supports(x: Tensor) -> bool:
    """Whether x is of replicas on a GPU, under torch.func.vmap; autocast chooses the precision of torch's own alone."""
    if torch.compiler.is_compiling() or not selection.usable(x) or torch.is_autocast_enabled(x.device.type):
        return False
    innermost = torch._C._functorch.peek_interpreter_stack()
    return innermost is not None and innermost.key() == torch._C._functorch.TransformType.Vmap


def wide(shape: Sequence[int]) -> bool:
    """Whether a matrix is wide, rows and columns."""
    return len(shape) == 2 and min(shape) >= WIDE


def batched(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b for each of B: x [B, N, in], weight [B, out, in], bias [B, out] or None -> [B, N, out]."""
    return (_Batched.apply if supports(x) else _Batched.forward)(x, weight, bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """torch.nn.functional.linear; for replicas of x [N, in] one product on a GPU."""
    if x.dim() != 2 or not supports(x):
        return functional.linear(x, weight, bias)
    return batched(x.unsqueeze(0), weight.unsqueeze(0), None if bias is None else bias.unsqueeze(0)).squeeze(0)


class Linear(nn.Linear):
    """torch.nn.Linear by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """[N, in] -> [N, out]."""
        return linear(x, self.weight, self.bias)


class _Batched(Function):
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
        of_x, of_weight, of_bias = ctx.needs_input_grad
        if all((of_x, of_weight, wide(weight.shape[1:]))) and not torch.is_grad_enabled():
            return _side_by_side(g, x, weight, of_bias)
        return (
            torch.bmm(g, weight) if of_x else None,
            _over_rows(g, x) if of_weight else None,
            g.sum(1) if of_bias else None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Tensor | None) -> tuple[Tensor, int]:
        R = info.batch_size
        lifted = (None if t is None else _flat(t, dim, R) for t, dim in zip(inputs, in_dims, strict=True))
        return _Batched.apply(*lifted).unflatten(0, (R, -1)), 0


def _side_by_side(g: Tensor, x: Tensor, weight: Tensor, of_bias: bool) -> tuple[Tensor | None, ...]:
    """The gradients of x, of wide weights and of the bias: the next begins where one leaves multiprocessors idle."""
    of_weight = Beside(g.device, lambda: _over_rows(g, x))
    bias = Beside(g.device, lambda: g.sum(1)) if of_bias else None
    grad_x = torch.bmm(g, weight)
    return grad_x, of_weight.result(), None if bias is None else bias.result()


def _flat(t: Tensor, dim: int | None, R: int) -> Tensor:
    """[B, ...] of R replicas as [R·B, ...]."""
    return (t.expand(R, *t.shape) if dim is None else t.movedim(dim, 0)).flatten(0, 1)


def _over_rows(g: Tensor, x: Tensor) -> Tensor:
    """gᵀ x: g [B, N, out] and x [B, N, in] -> [B, out, in]."""
    parts = in_parts(g, x)
    return parts.squeeze(1) if parts.shape[1] == 1 else parts.sum(1)


def in_parts(g: Tensor, x: Tensor) -> Tensor:
    """The products of the parts, [B, parts, out, in], which are yet to be summed."""
    B, N = g.shape[:2]
    parts, tiles = 1, B * -(-g.shape[2] // TILE) * -(-x.shape[2] // TILE)
    while tiles * parts < PARTS and N % (2 * parts) == 0 and N // (2 * parts) >= ROWS:
        parts *= 2
    g, x = (t.reshape(B * parts, N // parts, t.shape[2]) for t in (g, x))
    return torch.bmm(g.mT, x).unflatten(0, (B, parts))
