"""All layers of a network of PNA, GCN, GAT or GIN as one CUDA kernel each way, forward.cu and backward.cu.

Recurrent (section 3): the first layer has a convolution of its own, the others share one, and all share the GRU,
if there is one. Standard (appendix): every layer has a convolution of its own, and an output. The graphs are
undirected. The matrices of PNA's towers are F × F blocks, [out, tower, in] for each: `_pna_weights` lays the weights of
a convolution out so, and autograd takes the gradients back through it.

GIN's batch normalisation wants sums over all nodes of the batch in every layer, also over those of graphs that have
ended: in training its kernels are launched once for each layer and once more. Else a tile runs to its own depth.
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
from pna.networks.kernels.gru import gru_weights, padded
from pna.networks.kernels.nvrtc import available, compiled, shared_memory
from pna.networks.kernels.replicas import replicated
from pna.networks.kernels.tiles import Each, Tiles, Until

__all__ = ["all_layers", "takes"]

TOWERS = 4
AGGREGATORS = ("mean", "std", "max", "min", "sum", "softmax", "softmin", "moment3", "moment4", "moment5")
SCALERS = (("identity",), ("identity", "amplification", "attenuation"))
WARPS = (8, 4)  # of a block, the first that fits; each has 16 nodes

Depth = int | Each | Until


def takes(
    x: Tensor, batch, convolutions: Sequence[nn.Module], depth: Depth, gates: nn.Module | None, every: bool
) -> bool:
    """Whether the kernels serve: linear PNA in four towers, GCN, GAT or GIN, of 8 to 32 features, to any depth.

    GIN's gradient is that of its training.
    """
    models = [_model(convolution) for convolution in convolutions]
    known = None not in models and len(set(models)) == 1 and 2 <= models[0].F <= 8
    return known and available(x) and Shape.of(x, batch, convolutions, depth, gates is not None, every) is not None


class Model(NamedTuple):
    """A convolution as the kernels know it."""

    kind: str
    F: int  # features of a tower or head, a quarter of all
    names: tuple[str, ...] = ("sum",)  # of PNA's aggregators
    scalers: int = 1
    swapped: bool = False  # D5
    mispaired: bool = False  # D6
    rounded: bool = False  # D12
    positions: bool = False  # D7


def _model(convolution: nn.Module) -> Model | None:
    """None if they do not know it."""
    if convolution.kind == "gcn":
        return Model("gcn", convolution.weight.shape[1] // TOWERS)
    if convolution.kind == "gat":
        return Model("gat", convolution.weight.shape[1], mispaired=convolution.mispaired)
    if convolution.kind == "gin":
        features, norm = convolution.U.layers[-1].out_features, convolution.U.norms[0]
        return Model("gin", features // TOWERS, positions=norm.position_norm)
    if convolution.kind != "pna":
        return None
    conv = convolution.conv
    scalers, rounded = conv.combined.scalers, any(name.startswith("rounded_") for name in conv.combined.aggregators)
    names = tuple(name.removeprefix("rounded_") for name in conv.combined.aggregators)  # all moments, or none
    linear = len(conv.M) == len(conv.U) == 1 and conv.edge_dim is None and conv.towers == TOWERS
    known = set(names) <= set(AGGREGATORS) and len(set(names)) == len(names) and scalers in SCALERS
    fits = conv.F_in <= conv.F_out
    model = Model("pna", conv.F_out, names, len(scalers), conv.swap_extremes, rounded=rounded)
    return model if linear and known and fits else None


@on_its_device
def all_layers(
    x: Tensor, batch, convolutions: Sequence[nn.Module], depth: Depth, gates: nn.Module | None, every: bool
) -> Tensor:
    """x [V, H], padded to the hidden size -> the nodes after `depth` layers, [V, H]; or after each, [V, depth · H].

    gates are those of the GRU, if there is one. x is data: it has no gradient.
    """
    shape = Shape.of(x, batch, convolutions, depth, gates is not None, every)
    laid_out = WEIGHTS[shape.model.kind]
    weights = [torch.stack(parts) for parts in zip(*(laid_out(c, shape.model.F) for c in convolutions), strict=True)]
    weights += [x.new_empty(0)] * 2 if gates is None else gru_weights(gates, shape.H)
    weights += [convolutions[-1].conv.combined.delta if shape.model.kind == "pna" else x.new_ones(())]
    norms = [convolution.U.norms[0] for convolution in convolutions] if shape.model.kind == "gin" else []
    weights += [_stacked(x, norms, "bias", "weight"), _stacked(x, norms, "running_mean", "running_var")]
    lifted = (t.unsqueeze(0) for t in weights)  # one replica
    tiles = _tiles(batch, convolutions[-1], shape)
    depths = batch.to_nodes(depth.layers).int() if isinstance(depth, Each) else x.new_empty(0, dtype=torch.int32)
    out, _, found, _ = _AllLayers.apply(x, *lifted, *tiles, depths, shape)
    for norm, layers in zip(norms, found.squeeze(0).tensor_split(list(range(1, len(norms)))), strict=False):
        if len(layers):
            norm.remember(*norm.recent(layers), len(x), len(layers))
    return out.squeeze(0).flatten(1)


def _stacked(x: Tensor, norms: Sequence[nn.Module], *names: str) -> Tensor:
    """Two tensors of each batch normalisation, [norms, 2, H]."""
    rows = [torch.stack([getattr(norm, name) for name in names]) for norm in norms]
    return torch.stack(rows) if rows else x.new_empty(0)


def _tiles(batch, convolution: nn.Module, shape: "Shape") -> Tiles:
    """The batch's tiles, made once; the attention's are others, since its messages have routes."""
    key = (shape.warps, shape.model.kind == "gat", shape.model.mispaired)
    if key not in batch.tiles:
        tiles = Tiles.of(*batch.neighbourhoods[:2], batch.N, shape.warps)
        if shape.model.kind == "gat":
            tiles = tiles.with_routes(convolution.routes(batch), batch.N, shape.warps, shape.messages)
        batch.tiles[key] = tiles
    return batch.tiles[key]


class Shape(NamedTuple):
    """What the kernels are compiled for, and the number of layers."""

    model: Model
    layers: int
    convolutions: int  # with weights of their own
    gru: bool
    every: bool  # layer has an output
    depths: bool  # of graphs, instead of one for all
    until: float | None  # the threshold, where depths are found by convergence
    keep: bool  # what the backward pass needs
    split: bool  # into launches, at sums over the whole batch
    N: int  # nodes of a graph
    warps: int = WARPS[0]

    @classmethod
    def of(
        cls, x: Tensor, batch, convolutions: Sequence[nn.Module], depth: Depth, gru: bool, every: bool
    ) -> Self | None:
        """With as many warps as fit; None if a graph or what a block keeps in shared memory is too large, or by GIN."""
        layers = depth if isinstance(depth, int) else depth.most
        of_graphs = (not isinstance(depth, int), getattr(depth, "threshold", None))
        model, counts, keep = _model(convolutions[-1]), (max(1, layers), len(convolutions)), torch.is_grad_enabled()
        split = model.kind == "gin" and convolutions[-1].training
        if model.kind == "gin" and keep and not split:
            return None
        shape = cls(model, *counts, gru, every, *of_graphs, keep or split, split, batch.N)
        room, _ = shared_memory(x.device)
        fitting = (shape._replace(warps=warps) for warps in WARPS if batch.N <= 16 * warps)
        kernel = "backward" if shape.keep else "forward"
        return next((shape for shape in fitting if shape.bytes(kernel) <= room), None)

    @property
    def H(self) -> int:
        """All features."""
        return TOWERS * self.model.F

    @property
    def blocks(self) -> int:
        """The towers' matrices: W1 of the receiver, W2 of the sender, U's of x_i and of each scaler and aggregator."""
        return 3 + self.model.scalers * len(self.model.names) if self.model.kind == "pna" else 0

    @property
    def threshold(self) -> int:
        """Of convergence, the bits of its float32: those of positive numbers have their order."""
        return int(torch.tensor(self.until or 0.0, dtype=torch.float32).view(torch.int32))

    @property
    def launches(self) -> int:
        """Of a kernel: one, or one for every layer and one more."""
        return self.layers + 1 if self.split else 1

    def parts(self, x: Tensor, replicas: int, node: Tensor) -> Tensor:
        """Room for two sums of each column, tile and layer."""
        return x.new_empty(self.layers * self.split, replicas, len(node) // (16 * self.warps), 2, self.H)

    @property
    def messages(self) -> int:
        """Of a tile, at most, where the attention's backward pass keeps their gradients; in few steps."""
        nodes = 16 * self.warps // self.N * self.N
        return -(-nodes * (self.N - 1) // 1024) * 1024 if self.model.kind == "gat" else 0

    @property
    def sizes(self) -> list[int]:
        """Numbers of a convolution: its dense matrix, its biases, the towers' matrices."""
        biases = {"pna": 3, "gcn": 1, "gat": 2, "gin": 3}[self.model.kind]
        return [
            self.H**2,
            biases * self.H,
            self.H**2 if self.model.kind == "gin" else self.blocks * self.H * self.model.F,
        ]

    @property
    def planes(self) -> int:
        """Numbers for each node and feature in the backward pass, see sums.cuh: an odd number."""
        names = self.model.names
        order = max((int(name[-1]) for name in names if name.startswith("moment")), default=0)
        others = order > 0 or not {"mean", "sum", "std"}.isdisjoint(names)
        coefficients = others + len({"std", "max", "min"} & set(names)) + max(0, order - 1)
        coefficients += 2 * len({"softmax", "softmin"} & set(names))
        return max(8, len(names) + coefficients) + 3 | 1

    def bytes(self, name: str) -> int:
        """Of shared memory: matrices of towers and mixing, biases; forward p and q twice, and a plane between.

        Backward the scalers' factors and the planes, the GRU's matrices twice, and a number for each message and head.
        Of GIN what it knows of columns, and a number for each thread. Of convergence one for each graph.
        """
        H, rows, forward = self.H, 16 * self.warps, name == "forward"
        convolution = sum(self.sizes) + (not forward and self.model.kind == "gat") * H * H
        tile = rows * (5 * H if forward else self.model.scalers + self.planes * H)
        gru = 6 * H + (6 if forward else 12) * H * H
        columns = (self.model.kind == "gin") * (6 * H + 2 * rows)
        more = (self.until is not None) * rows if forward else 4 * self.messages
        return 4 * (convolution + tile + self.gru * gru + columns + more)

    def options(self, resident: int) -> tuple[str, ...]:
        """The compiler's: every constant as a macro."""
        kind, F, names, scalers, swapped, mispaired, rounded, positions = self.model
        values = {name.upper(): names.index(name) if name in names else -1 for name in AGGREGATORS}
        values |= {
            "GCN": int(kind == "gcn"),
            "GAT": (kind == "gat") * (1 + mispaired),
            "GIN": (kind == "gin") * (1 + positions),
            "F": F,
            "A": len(names),
            "S": scalers,
            "SWAP": int(swapped),
            "ROUNDED": int(rounded),
            "EPS": EPSILON,
        }
        values |= {
            "GRU": int(self.gru),
            "EVERY": int(self.every),
            "DEPTHS": self.depths + (self.until is not None),
            "CONVOLUTIONS": self.convolutions,
            "KEEP": int(self.keep),
            "SPLIT": int(self.split),
        }
        values |= {"WARPS": self.warps, "PLANES": self.planes, "RESIDENT": resident}
        return tuple(f"-DPNA_{key}={value}" for key, value in values.items())


def _pna_weights(convolution: nn.Module, F: int) -> tuple[Tensor, Tensor, Tensor]:
    """The towers' matrices [3 + S·A, F, 4, F] (out, tower, in), the mixing matrix, the biases of M, U and mixing."""
    conv = convolution.conv
    M, U = conv.M[0], conv.U[0]
    messages, update = (W.weight.unflatten(-1, (-1, conv.F_in)).permute(2, 1, 0, 3) for W in (M, U))
    messages = messages if conv.F_in == F else functional.pad(messages, (0, F - conv.F_in, 0, 0, 0, F - conv.F_in))
    biases = torch.cat([padded(M.bias, F), U.bias]).flatten()  # [2, 4, F]
    return torch.cat([messages, padded(update, F)]), conv.mix.weight, torch.cat([biases, conv.mix.bias])


def _gcn_weights(convolution: nn.Module, F: int) -> tuple[Tensor, Tensor, Tensor]:
    """No towers' matrices, W [H, H] (out, in), padded, and the bias."""
    W = convolution.weight.t()
    return W.new_empty(0), padded(W, TOWERS * F), convolution.bias


def _gat_weights(convolution: nn.Module, F: int) -> tuple[Tensor, Tensor, Tensor]:
    """No towers' matrices, W [H, H] (out, in), padded, and a₁ and a₂ of all heads, [2, H]."""
    W = convolution.weight.flatten(0, 1)
    halves = convolution.attention.unflatten(1, (2, F)).transpose(0, 1).flatten(1)
    return W.new_empty(0), padded(W, TOWERS * F), halves


def _gin_weights(convolution: nn.Module, F: int) -> tuple[Tensor, Tensor, Tensor]:
    """W₁, padded, W₂ [H, H] (out, in), and 1 + ε of every feature, b₁ and b₂, [3, H]."""
    first, second = convolution.U.layers
    own = (1 + convolution.epsilon).expand_as(first.bias)
    return padded(first.weight, TOWERS * F), second.weight, torch.stack([own, first.bias, second.bias])


WEIGHTS = {"pna": _pna_weights, "gcn": _gcn_weights, "gat": _gat_weights, "gin": _gin_weights}
COMMON = tuple(f"recurrence/{name}.cuh" for name in ("layer", "gather", "attention", "gin"))
SOURCES = {
    "forward": (*COMMON, "recurrence/forward.cu"),
    "backward": (*COMMON, "recurrence/sums.cuh", "recurrence/pna_backward.cuh", "recurrence/backward.cu"),
}


def _launch(name: str, shape: Shape, *arguments: Tensor | int) -> None:
    x, node, delta = arguments[0], arguments[3], arguments[6]
    needed, (_, room) = shape.bytes(name), shared_memory(x.device)
    resident = max(1, min(2, room // (needed + 1024)))  # blocks that a multiprocessor shall hold, each with 1 KB more
    kernel = compiled(SOURCES[name], f"recurrence_{name}", shape.options(resident), needed, x.device.index)
    kernel((len(node) // (16 * shape.warps), len(delta), 1), (32 * shape.warps, 1, 1), list(arguments))


class _AllLayers(Function):
    """x [V, H], weights [R, …] and delta [R] -> outputs [R, V, one or all layers, H], what backward needs, and GIN's
    statistics [R, layers, mean and variance, H]; and depths of graphs [R, V].
    """

    @staticmethod
    def forward(x: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
        *weights, delta, norm, known, node, lists, rows, routes, depths, shape = arguments
        R, (V, H) = len(delta), x.shape
        out = x.new_empty(R, V, shape.layers if shape.every else 1, H)
        states = x.new_empty(shape.layers if shape.keep else 0, 3, R, len(node), H)  # x before a layer, its y and z
        weights = [w.contiguous() for w in weights]
        found, parts = x.new_empty(R, shape.layers * shape.split, 2, H), shape.parts(x, R, node)
        depths = depths.repeat(R, 1) if shape.until is None else depths.new_full((R, V), shape.layers)
        given = (x, out, states, node, lists, rows, delta, *weights, routes, depths, norm.contiguous())
        given += (found if shape.split else known.contiguous(), parts, V, shape.layers, len(rows), shape.N)
        for step in range(shape.launches):
            _launch("forward", shape, *given, shape.threshold, step)
        return out, states, found, depths

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.shape = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # which would be zeros as large as all that is kept
        ctx.save_for_backward(*tensors, *output[1:])

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights, delta, norm, _, node, lists, rows, routes, _, states, found, depths = ctx.saved_tensors
        shape, H, R = ctx.shape, ctx.shape.H, len(delta)
        of_convolutions, of_gru = (
            (x.new_zeros if shape.split else x.new_empty)(R, len(node) // 64, *rest)  # of every 64 rows
            for rest in ((shape.convolutions, sum(shape.sizes)), (shape.gru * (6 * H * H + 6 * H),))
        )
        parts, between = shape.parts(x, R, node), x.new_empty(shape.split * 2, R, len(node), H)
        given = (x, grad.contiguous(), states, node, lists, rows, delta, *(w.contiguous() for w in weights))
        given += (routes, depths, norm.contiguous(), found, parts, between, of_convolutions, of_gru)
        for step in reversed(range(shape.launches)):
            _launch("backward", shape, *given, len(x), shape.layers, len(rows), shape.N, step)
        mix, bias, blocks = of_convolutions.sum(1).split(shape.sizes, dim=-1)
        gradients = [grad.reshape(w.shape) for grad, w in zip((blocks, mix, bias), weights[:3], strict=True)]
        gru = of_gru.sum(1).split([6 * H * H, 6 * H], dim=1) if shape.gru else (None, None)
        gradients += [None if g is None else g.reshape(w.shape) for g, w in zip(gru, weights[3:], strict=True)]
        of_norm = None
        if shape.split:  # its bias and weight
            own, shared = parts.sum(2).tensor_split([shape.convolutions - 1])
            of_norm = torch.cat([own, shared.sum(0, keepdim=True)]).transpose(0, 1)
        return None, *gradients, None, of_norm, *(None,) * 7  # x, δ, the graph and the shape are data

    @staticmethod
    def vmap(info: Any, in_dims: tuple, x: Tensor, *rest: Any) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:
        if in_dims[0] is not None:
            raise ValueError("the input features are data, the same for every replica: they cannot be batched")
        *weights, node, lists, rows, routes, given, shape = rest
        lifted = [replicated(t, dim, info.batch_size) for t, dim in zip(weights, in_dims[1:], strict=False)]
        out, states, found, depths = _AllLayers.apply(x, *lifted, node, lists, rows, routes, given, shape)
        R = info.batch_size
        return (out.unflatten(0, (R, -1)), states, found.unflatten(0, (R, -1)), depths), (0, None, 0, None)
