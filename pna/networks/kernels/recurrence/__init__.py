"""All layers of a PNA network as one CUDA kernel each way, forward.cu and backward.cu, in both architectures.

Recurrent (section 3): the first layer has a convolution of its own, the others share one, and all share the GRU.
Standard (appendix): every layer has a convolution of its own, and an output. The graphs are undirected. The matrices of
the towers are F × F blocks, [out, tower, in] for each: `_tower_weights` lays the weights of a convolution out so, and
autograd takes the gradients back through it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from pna.aggregators import EPSILON
from pna.kernels.choice import on_its_device
from pna.networks.kernels.gru import gru_weights
from pna.networks.kernels.nvrtc import available, compiled, shared_memory
from pna.networks.kernels.replicas import replicated
from pna.networks.kernels.tiles import Tiles

__all__ = ["all_layers", "takes"]

TOWERS = 4
AGGREGATORS = ("mean", "std", "max", "min", "sum", "moment3", "moment4", "moment5")
SCALERS = (("identity",), ("identity", "amplification", "attenuation"))
WARPS = (8, 4)  # of a block, the first that fits; each has 16 nodes


def takes(
    x: Tensor, batch, convolutions: Sequence[nn.Module], depth: int | Tensor, gates: nn.Module | None = None
) -> bool:
    """Whether the kernels serve: PNA with linear M and U in four towers, up to 32 features, and one depth for all."""
    convs = [getattr(convolution, "conv", None) for convolution in convolutions]
    if not (isinstance(depth, int) and all(map(_known, convs)) and available(x)):
        return False
    F = convs[-1].F_in
    fits = F <= 8 and all(conv.F_in <= F == conv.F_out for conv in convs)
    return fits and Shape.of(x, batch, convs, depth, gates is not None) is not None


def _known(conv: nn.Module | None) -> bool:
    """Whether this is a PNAConv as the kernels know it."""
    if conv is None or len(conv.M) != 1 or len(conv.U) != 1 or conv.edge_dim is not None or conv.towers != TOWERS:
        return False
    names = conv.combined.aggregators
    return set(names) <= set(AGGREGATORS) and len(set(names)) == len(names) and conv.combined.scalers in SCALERS


@on_its_device
def all_layers(
    x: Tensor, batch, convolutions: Sequence[nn.Module], depth: int, gates: nn.Module | None = None
) -> Tensor:
    """x [V, H], padded to the hidden size -> with the GRU's gates the states after `depth` layers, [V, H].

    Without, the outputs of all layers, [V, depth · H]. x is data: it has no gradient.
    """
    convs = [convolution.conv for convolution in convolutions]
    shape = Shape.of(x, batch, convs, depth, gates is not None)
    if shape.warps not in batch.tiles:
        batch.tiles[shape.warps] = Tiles.of(*batch.neighbourhoods[:2], batch.N, shape.warps)
    weights = [torch.stack(parts) for parts in zip(*(_tower_weights(conv, shape.F) for conv in convs), strict=True)]
    weights += [x.new_empty(0)] * 2 if gates is None else gru_weights(gates, shape.H)
    lifted = (t.unsqueeze(0) for t in (*weights, convs[-1].combined.delta))  # one replica
    out, _ = _AllLayers.apply(x, *lifted, *batch.tiles[shape.warps], shape)
    return out.squeeze(0).flatten(1)


class Shape(NamedTuple):
    """What the kernels are compiled for, and the number of layers."""

    names: tuple[str, ...]
    scalers: int
    swapped: bool  # D5
    F: int  # features of a tower
    layers: int
    convolutions: int  # with weights of their own
    gru: bool
    keep: bool  # what the backward pass needs
    warps: int = WARPS[0]

    @classmethod
    def of(cls, x: Tensor, batch, convs: Sequence[nn.Module], layers: int, gru: bool) -> Self | None:
        """With as many warps as fit; None if a graph or what a block keeps in shared memory is too large."""
        *_, conv = convs
        model = (conv.combined.aggregators, len(conv.combined.scalers), conv.swap_extremes, conv.F_in)
        shape = cls(*model, layers, len(convs), gru, keep=torch.is_grad_enabled())
        room, _ = shared_memory(x.device)
        fitting = (shape._replace(warps=warps) for warps in WARPS if batch.N <= 16 * warps)
        return next((shape for shape in fitting if shape.bytes("backward") <= room), None)

    @property
    def H(self) -> int:
        """All features."""
        return TOWERS * self.F

    @property
    def blocks(self) -> int:
        """The towers' matrices: W2 of the sender, W1 of the receiver, U's of x_i and of each scaler and aggregator."""
        return 3 + self.scalers * len(self.names)

    @property
    def planes(self) -> int:
        """Numbers for each node and feature in the backward pass, see sums.cuh: an odd number."""
        order = max((int(name[-1]) for name in self.names if name.startswith("moment")), default=0)
        others = order > 0 or not {"mean", "sum", "std"}.isdisjoint(self.names)
        coefficients = others + len({"std", "max", "min"} & set(self.names)) + max(0, order - 1)
        return max(8, len(self.names) + coefficients) + 3 | 1

    def bytes(self, name: str) -> int:
        """Of shared memory: matrices of towers and mixing, biases; forward p and q twice, and room between.

        Backward the scalers' factors and the planes, and the GRU's matrices twice.
        """
        H, rows, forward = self.H, 16 * self.warps, name == "forward"
        convolution = self.blocks * H * self.F + H * H + (3 * H if forward else H)
        tile = rows * (5 * H if forward else self.scalers + self.planes * H)
        gru = 6 * H + (6 if forward else 12) * H * H
        return 4 * (convolution + tile + self.gru * gru)

    def options(self, resident: int) -> tuple[str, ...]:
        """The compiler's: every constant as a macro."""
        places = {name.upper(): self.names.index(name) if name in self.names else -1 for name in AGGREGATORS}
        values = {"F": self.F, "A": len(self.names), "S": self.scalers, "SWAP": int(self.swapped), "EPS": EPSILON}
        values |= {"KEEP": int(self.keep), "WARPS": self.warps, "PLANES": self.planes, "RESIDENT": resident}
        values |= {"GRU": int(self.gru), "CONVOLUTIONS": self.convolutions}
        return tuple(f"-DPNA_{key}={value}" for key, value in (places | values).items())


def _tower_weights(conv: nn.Module, F: int) -> tuple[Tensor, Tensor, Tensor]:
    """The towers' matrices [3 + S·A, F, 4, F] (out, tower, in), the mixing matrix, the biases of M, U and mixing."""
    M, U, inputs = conv.M[0], conv.U[0], conv.F_in
    W1, W2 = M.weight.split(inputs, dim=-1)  # [4, inputs, inputs] each
    messages = functional.pad(torch.stack([W2, W1]), (0, F - inputs, 0, F - inputs))  # [2, tower, out, in]
    update = U.weight.unflatten(-1, (-1, inputs)).permute(2, 0, 1, 3)  # [1 + S·A, tower, out, in]
    blocks = torch.cat([messages, functional.pad(update, (0, F - inputs))]).transpose(1, 2)
    of_M = functional.pad(M.bias, (0, F - inputs))
    return blocks, conv.mix.weight, torch.stack([b.flatten() for b in (of_M, U.bias, conv.mix.bias)])


SOURCES = {
    "forward": ("recurrence/layer.cuh", "recurrence/gather.cuh", "recurrence/forward.cu"),
    "backward": ("recurrence/layer.cuh", "recurrence/gather.cuh", "recurrence/sums.cuh", "recurrence/backward.cu"),
}


def _launch(name: str, shape: Shape, *arguments: Tensor | int) -> None:
    x, node, delta = arguments[0], arguments[3], arguments[6]
    needed, (_, room) = shape.bytes(name), shared_memory(x.device)
    resident = max(1, min(2, room // (needed + 1024)))  # blocks that a multiprocessor shall hold, each with 1 KB more
    kernel = compiled(SOURCES[name], f"recurrence_{name}", shape.options(resident), needed, x.device.index)
    kernel((len(node) // (16 * shape.warps), len(delta), 1), (32 * shape.warps, 1, 1), list(arguments))


class _AllLayers(Function):
    """x [V, H], weights [R, …] and delta [R] -> outputs [R, V, one or all layers, H], and what backward needs."""

    @staticmethod
    def forward(x: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
        *weights, delta, node, lists, rows, shape = arguments
        R, (V, H) = len(delta), x.shape
        out = x.new_empty(R, V, 1 if shape.gru else shape.layers, H)
        states = x.new_empty(shape.layers if shape.keep else 0, 3, R, len(node), H)  # x before a layer, its y and z
        weights = [w.contiguous() for w in weights]
        _launch("forward", shape, x, out, states, node, lists, rows, delta, *weights, V, shape.layers)
        return out, states

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        *tensors, ctx.shape = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)  # which would be zeros as large as all that is kept
        ctx.save_for_backward(*tensors, output[1])

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights, delta, node, lists, rows, states = ctx.saved_tensors
        shape, H, R = ctx.shape, ctx.shape.H, len(delta)
        sizes = [H * H, 3 * H, shape.blocks * H * shape.F]  # of a convolution, then the GRU's
        of_convolutions, of_gru = (
            x.new_empty(R, len(node) // 64, *rest)  # of every 64 rows
            for rest in ((shape.convolutions, sum(sizes)), (shape.gru * (6 * H * H + 6 * H),))
        )
        given = (x, grad.contiguous(), states, node, lists, rows, delta, *(w.contiguous() for w in weights))
        _launch("backward", shape, *given, of_convolutions, of_gru, len(x), shape.layers)
        mix, bias, blocks = of_convolutions.sum(1).split(sizes, dim=-1)
        gradients = [grad.reshape(w.shape) for grad, w in zip((blocks, mix, bias), weights[:3], strict=True)]
        gru = of_gru.sum(1).split([6 * H * H, 6 * H], dim=1) if shape.gru else (None, None)
        gradients += [None if g is None else g.reshape(w.shape) for g, w in zip(gru, weights[3:], strict=True)]
        return None, *gradients, *(None,) * 5  # x, δ, the graph and the shape are data

    @staticmethod
    def vmap(info: Any, in_dims: tuple, x: Tensor, *rest: Any) -> tuple[tuple[Tensor, Tensor], tuple[int, None]]:
        if in_dims[0] is not None:
            raise ValueError("the input features are data, the same for every replica: they cannot be batched")
        *weights, node, lists, rows, shape = rest
        lifted = [replicated(t, dim, info.batch_size) for t, dim in zip(weights, in_dims[1:], strict=False)]
        out, states = _AllLayers.apply(x, *lifted, node, lists, rows, shape)
        return (out.unflatten(0, (info.batch_size, -1)), states), (0, None)
