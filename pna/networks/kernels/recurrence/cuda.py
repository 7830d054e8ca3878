"""All layers of a recurrent PNA network as one CUDA kernel each way, for the paper's 16 features in four towers.

The matrices of the towers are 4 × 4 blocks here, [out, tower, in] for each: `_tower_weights` lays the weights of a
convolution out so, and autograd takes the gradients back through it. The kernels: forward.cu, backward.cu.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from pna.aggregators import EPSILON
from pna.networks.kernels.gru import gru_weights
from pna.networks.kernels.nvrtc import available, compiled
from pna.networks.kernels.replicas import replicated
from pna.networks.kernels.tiles import ROWS, Tiles

__all__ = ["keep", "recurrence", "takes"]

H, TOWERS, F = 16, 4, 4  # features, and those of a tower
AGGREGATORS = ("mean", "std", "max", "min", "sum")


def takes(x: Tensor, first: nn.Module, shared: nn.Module, batch: Any) -> bool:
    """Whether these kernels serve PNAConvs that Triton's know, on these graphs, where x is."""
    names = shared.combined.aggregators
    sizes = (shared.towers, shared.F_in, shared.F_out) == (TOWERS, F, F) and first.towers == TOWERS and first.F_in <= F
    known = len(names) <= 4 and ("std" not in names or "mean" in names)
    return available(x) and sizes and known and batch.tiles is not None


def recurrence(x: Tensor, tiles: Tiles, first: nn.Module, shared: nn.Module, gates: nn.Module, layers: int) -> Tensor:
    """The states after `layers` layers, [V, 16], from x [V, 16]."""
    combined = shared.combined
    shape = Shape(
        combined.aggregators, len(combined.scalers), shared.swap_extremes, layers, keep=torch.is_grad_enabled()
    )
    weights = [*_tower_weights(first), *_tower_weights(shared), *gru_weights(gates, H), combined.delta]
    out, _ = _Recurrence.apply(x, *(t.unsqueeze(0) for t in weights), *tiles, shape)  # one replica
    return out.squeeze(0)


class Shape(NamedTuple):
    """What the kernels are compiled for, and the number of layers."""

    names: tuple[str, ...]
    scalers: int
    swapped: bool  # D5
    layers: int
    keep: bool  # what the backward pass needs

    @property
    def constants(self) -> dict[str, Any]:
        """By the kernels' names."""
        places = {name.upper(): self.names.index(name) if name in self.names else -1 for name in AGGREGATORS}
        return places | {"A": len(self.names), "S": self.scalers, "SWAP": self.swapped, "KEEP": self.keep}

    @property
    def blocks(self) -> int:
        """The towers' matrices: W2 of the sender, W1 of the receiver, U's of x_i and of each scaler and aggregator."""
        return 3 + self.scalers * len(self.names)


def _tower_weights(conv: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
    """The towers' matrices [3 + S·A, 4, 4, 4] (out, tower, in), the mixing matrix, the biases of M, U and mixing."""
    M, U, inputs = conv.M[0], conv.U[0], conv.F_in
    W1, W2 = M.weight.split(inputs, dim=-1)  # [4, inputs, inputs] each
    messages = functional.pad(torch.stack([W2, W1]), (0, F - inputs, 0, F - inputs))  # [2, tower, out, in]
    update = U.weight.unflatten(-1, (-1, inputs)).permute(2, 0, 1, 3)  # [1 + S·A, tower, out, in]
    blocks = torch.cat([messages, functional.pad(update, (0, F - inputs))]).transpose(1, 2)
    of_M = functional.pad(M.bias, (0, F - inputs))
    return blocks, conv.mix.weight, torch.stack([b.flatten() for b in (of_M, U.bias, conv.mix.bias)])


def _forward_words(shape: Shape) -> int:
    """Of shared memory: the matrices of the towers, of mixing, of the GRU; biases; p and q twice, and room between."""
    return shape.blocks * 4 * H + 7 * H * H + 9 * H + ROWS * 5 * H


def _backward_words(shape: Shape) -> int:
    """The same, the GRU's twice; biases; the scalers' factors; eleven numbers for each feature."""
    return shape.blocks * 4 * H + 13 * H * H + 7 * H + shape.scalers * ROWS + ROWS * 11 * H


class Kernel(NamedTuple):
    """Its source, behind what both have in common, and the words of shared memory that a block needs."""

    sources: tuple[str, ...]
    words: Callable[[Shape], int]


KERNELS = {
    "recurrence_forward": Kernel(("recurrence/forward.cu",), _forward_words),
    "recurrence_backward": Kernel(("recurrence/sums.cuh", "recurrence/backward.cu"), _backward_words),
}
RESIDENT = 2  # blocks that a multiprocessor shall hold


def _launch(name: str, shape: Shape, *arguments: Tensor | int) -> None:
    x, node, delta = arguments[0], arguments[3], arguments[6]
    shared = 4 * KERNELS[name].words(shape)
    kernel = compiled(("recurrence/layer.cuh", *KERNELS[name].sources), name, _options(shape), shared, x.device.index)
    kernel((len(node) // ROWS, len(delta), 1), (2 * ROWS, 1, 1), list(arguments))


def _options(shape: Shape) -> tuple[str, ...]:
    """The compiler's: every constant as a macro."""
    values = shape.constants | {"RESIDENT": RESIDENT, "EPS": EPSILON}
    return tuple(f"-DPNA_{key}={int(v) if isinstance(v, bool) else v}" for key, v in values.items())


def keep(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    """For the backward pass: all tensors, the states of all layers, and the shape, which is the last input."""
    *tensors, ctx.shape = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # which would be zeros as large as all that is kept
    ctx.save_for_backward(*tensors, output[1])


class _Recurrence(Function):
    """x [V, 16], weights [R, …] and delta [R] -> states after the last layer [R, V, 16], and what backward needs."""

    @staticmethod
    def forward(x: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
        *weights, delta, node, lists, rows, shape = arguments
        R, V, tiles = len(delta), len(x), len(node) // ROWS
        out = x.new_empty(R, V, H)
        states = x.new_empty(shape.layers if shape.keep else 0, 3, R, tiles * ROWS, H)  # x before a layer, its y and z
        weights = [w.contiguous() for w in weights]
        _launch("recurrence_forward", shape, x, out, states, node, lists, rows, delta, *weights, V, shape.layers)
        return out, states

    setup_context = staticmethod(keep)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights, delta, node, lists, rows, states = ctx.saved_tensors
        shape, R, tiles = ctx.shape, len(delta), len(node) // ROWS
        convolution = H * H + 3 * H + shape.blocks * 4 * H
        sizes = (convolution, convolution, 6 * H * H + 6 * H)
        parts = [x.new_empty(R, 2 * tiles, size) for size in sizes]  # of each half of a tile
        given = (x, grad.contiguous(), states, node, lists, rows, delta, *(w.contiguous() for w in weights))
        _launch("recurrence_backward", shape, *given, *parts, len(x), shape.layers)
        first, shared, gru = (part.sum(1) for part in parts)
        gradients = (*_of_convolution(first), *_of_convolution(shared), *_of_gru(gru))
        return None, *gradients, *(None,) * 5  # x, δ, the graph and the shape are data

    @staticmethod
    def vmap(info: Any, in_dims: tuple, x: Tensor, *rest: Any) -> tuple[tuple[Tensor, Tensor], tuple[int, None]]:
        if in_dims[0] is not None:
            raise ValueError("the input features are data, the same for every replica: they cannot be batched")
        *weights, node, lists, rows, shape = rest
        lifted = [replicated(t, dim, info.batch_size) for t, dim in zip(weights, in_dims[1:], strict=False)]
        out, states = _Recurrence.apply(x, *lifted, node, lists, rows, shape)
        return (out.unflatten(0, (info.batch_size, -1)), states), (0, None)


def _of_convolution(sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of what `_tower_weights` gives from what the kernel has summed up."""
    mix, bias, blocks = sums.split([H * H, 3 * H, sums.shape[1] - H * H - 3 * H], dim=1)
    return blocks.view(len(sums), -1, F, TOWERS, F), mix.view(-1, H, H), bias.view(-1, 3, H)


def _of_gru(sums: Tensor) -> tuple[Tensor, Tensor]:
    return sums[:, : 6 * H * H].view(-1, 6, H, H), sums[:, 6 * H * H :].view(-1, 6, H)
