"""All layers of a network of PNA, GCN, GAT or GIN as one CUDA kernel each way, forward.cu and backward.cu.

Recurrent (section 3): the first layer has its own convolution, the others share one, and all share the GRU, if there is
one. Standard (appendix): every layer has its own convolution, and an output. The graphs are undirected. The matrices of
PNA's towers are F × F blocks, [out, tower, in] each (weights.py).

GIN's batch normalisation needs sums over all nodes of the batch in every layer, also over those of graphs that have
ended: in training its kernels are launched once for each layer and once more. Otherwise a tile runs to its own depth.

Dropout (pna/networks/dropout.py) is that of the recurrent architecture: both kernels compute the hash that decides
which features are dropped.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from pna.aggregators import EPSILON
from pna.kernels.functions import Copied, KernelFunction, Shared, Strided
from pna.kernels.priority import behind
from pna.networks.kernels.gates import gate_tensors
from pna.networks.kernels.nvrtc import available, compiled, shared_memory
from pna.networks.kernels.packing import pack_weights, unpack_gradients
from pna.networks.kernels.recurrence.weights import TENSORS, TOWERS, Weights
from pna.networks.kernels.tiles import Tiles

__all__ = ["all_layers", "supports"]

AGGREGATORS = ("mean", "std", "max", "min", "sum", "softmax", "softmin", "moment3", "moment4", "moment5")
SCALERS = (("identity",), ("identity", "amplification", "attenuation"))
WARPS = (8, 4)  # of a block, the first that fits; each has 16 nodes

Depth = Any  # a number of layers for every graph, or Each or Until of pna.networks.depths


def supports(
    x: Tensor, batch, convolutions: Sequence[nn.Module], depth: Depth, gates: nn.Module | None, every: bool
) -> bool:
    """Whether the kernels can run these layers: linear PNA in four towers, GCN, GAT or GIN, of 8 to 32 features.

    The depth may be any. GIN has a gradient in training only, and dropout must be that of a recurrent network.
    """
    models = [_model(convolution) for convolution in convolutions]
    known = None not in models and len(set(models)) == 1 and 2 <= models[0].F <= 8
    dropping = [_drops(convolution) for convolution in convolutions]
    known = known and (not any(dropping) or (all(dropping) and len(dropping) == 2 and not every))
    return known and available(x) and Shape.of(x, batch, convolutions, depth, gates is not None, every) is not None


class Model(NamedTuple):
    """The description of a convolution for the kernels."""

    kind: str
    F: int  # features of a tower or head, a quarter of all
    names: tuple[str, ...] = ("sum",)  # PNA's aggregators
    scalers: int = 1
    swapped: bool = False  # D5
    mispaired: bool = False  # D6
    rounded: bool = False  # D12
    positions: bool = False  # D7


def _has_dropout(convolution: nn.Module) -> bool:
    """Whether it is a convolution in a wrapper that drops features of its output."""
    return getattr(convolution, "kind", None) == "dropout"


def _drops(convolution: nn.Module) -> bool:
    """Whether features of the convolution's output are dropped now."""
    return _has_dropout(convolution) and convolution.training


def _undropped(convolution: nn.Module) -> nn.Module:
    """The convolution itself, without dropout."""
    return convolution.convolution if _has_dropout(convolution) else convolution


def _model(convolution: nn.Module) -> Model | None:
    """Describe a convolution, with or without dropout, to the kernels; None if they do not support it."""
    convolution = _undropped(convolution)
    kind = getattr(convolution, "kind", None)  # a convolution of someone else's has none
    if kind == "gcn":
        return Model("gcn", convolution.weight.shape[1] // TOWERS)
    if kind == "gat":
        return Model("gat", convolution.weight.shape[1], mispaired=convolution.mispaired)
    if kind == "gin":
        features, norm = convolution.U.layers[-1].out_features, convolution.U.norms[0]
        return Model("gin", features // TOWERS, positions=norm.position_norm)
    if kind != "pna":
        return None
    conv = convolution.conv
    scalers, rounded = conv.combined.scalers, any(name.startswith("rounded_") for name in conv.combined.aggregators)
    names = tuple(name.removeprefix("rounded_") for name in conv.combined.aggregators)  # all moments, or none
    linear = len(conv.M) == len(conv.U) == 1 and conv.edge_dim is None and conv.towers == TOWERS
    known = set(names) <= set(AGGREGATORS) and len(set(names)) == len(names) and scalers in SCALERS
    fits = conv.F_in <= conv.F_out
    model = Model("pna", conv.F_out, names, len(scalers), conv.swap_extremes, rounded=rounded)
    return model if linear and known and fits else None


def all_layers(
    x: Tensor, batch, convolutions: Sequence[nn.Module], depth: Depth, gates: nn.Module | None, every: bool
) -> Tensor:
    """Run all layers on x [V, H]: return the nodes after the last, [V, H], or after every layer, [V, depth · H].

    x: the input features, padded to the hidden size; they are data without a gradient. gates: those of the GRU, if
    there is one. In training, GIN's running statistics and the calls of dropout are updated.
    """
    shape = Shape.of(x, batch, convolutions, depth, gates is not None, every)
    dropping = convolutions if shape.drop else []
    dropout = _stacked(x, dropping, "rate", "seed", "calls")
    convolutions = [_undropped(convolution) for convolution in convolutions]
    weights = [t for convolution in convolutions for t in TENSORS[shape.model.kind](convolution)]
    weights += [] if gates is None else gate_tensors(gates)
    delta = convolutions[-1].conv.combined.delta if shape.model.kind == "pna" else x.new_ones(())
    norms = [convolution.U.norms[0] for convolution in convolutions] if shape.model.kind == "gin" else []
    norm = _stacked(x, norms, "bias", "weight")
    known = _stacked(x, [] if shape.split else norms, "running_mean", "running_var")
    tiles = _tiles(batch, convolutions[-1], shape)
    layers = None if isinstance(depth, int) else depth.layers
    depths = x.new_empty(0, dtype=torch.int32) if layers is None else batch.to_nodes(layers).int()
    out, statistics, *_ = _AllLayers.call(shape, x, *tiles, depths, delta, dropout, norm, known, *weights)
    for module, calls in zip(dropping, (1, shape.layers - 1), strict=False):
        module.calls.add_(calls)
    for module, layers in zip(norms, statistics.tensor_split(list(range(1, len(norms)))), strict=False):
        if len(layers):
            module.remember(*module.recent(layers), len(x), len(layers))
    return out.flatten(1)


def _stacked(x: Tensor, modules: Sequence[nn.Module], *names: str) -> Tensor:
    """Stack tensors of each module, [modules, names, …]; empty without any module."""
    rows = [getattr(module, name) for module in modules for name in names]
    return torch.stack(rows).unflatten(0, (-1, len(names))) if rows else x.new_empty(0)


def _tiles(batch, convolution: nn.Module, shape: "Shape") -> Tiles:
    """The batch's tiles, cached; attention has its own, with the routes of its messages."""
    key = (shape.warps, shape.model.kind == "gat", shape.model.mispaired)
    if key not in batch.tiles:
        tiles = Tiles.of(*batch.neighbourhoods[:2], batch.N, shape.warps)
        if shape.model.kind == "gat":
            tiles = tiles.with_routes(convolution.routes(batch), batch.N, shape.warps, shape.messages)
        batch.tiles[key] = tiles
    return batch.tiles[key]


class Shape(NamedTuple):
    """The sizes and options that the kernels are compiled for, and the number of layers."""

    model: Model
    layers: int
    convolutions: int  # with their own weights
    gru: bool
    every: bool  # whether every layer has an output, or only the last
    depths: bool  # whether graphs differ in depth
    until: float | None  # the threshold, where convergence decides the depths
    keep: bool  # whether to keep what the backward pass needs
    split: bool  # whether there is a launch for every layer, because of sums over the whole batch
    drop: bool  # whether features of the convolutions' outputs are dropped
    N: int  # nodes of a graph
    warps: int = WARPS[0]

    @classmethod
    def of(
        cls, x: Tensor, batch, convolutions: Sequence[nn.Module], depth: Depth, gru: bool, every: bool
    ) -> Self | None:
        """The shape with as many warps as fit; None if a graph or a block's shared memory is too large.

        None also for GIN with a gradient outside of training.
        """
        layers = depth if isinstance(depth, int) else depth.most
        of_graphs = (False, None) if isinstance(depth, int) else (True, depth.threshold)
        model, counts, keep = _model(convolutions[-1]), (max(1, layers), len(convolutions)), torch.is_grad_enabled()
        split = model.kind == "gin" and _undropped(convolutions[-1]).training
        if model.kind == "gin" and keep and not split:
            return None
        shape = cls(model, *counts, gru, every, *of_graphs, keep or split, split, _drops(convolutions[-1]), batch.N)
        room, _ = shared_memory(x.device)
        fitting = (shape._replace(warps=warps) for warps in WARPS if batch.N <= 16 * warps)
        kernel = "backward" if shape.keep else "forward"
        return next((shape for shape in fitting if shape.bytes(kernel) <= room), None)

    @property
    def H(self) -> int:
        """Number of hidden features, those of all towers."""
        return TOWERS * self.model.F

    @property
    def blocks(self) -> int:
        """Number of a tower's matrices: W1 of the receiver, W2 of the sender, U's of x_i and each scaled aggregate."""
        return 3 + self.model.scalers * len(self.model.names) if self.model.kind == "pna" else 0

    @property
    def threshold(self) -> int:
        """The convergence threshold as the bit pattern of its float32, which orders positive floats as integers."""
        return struct.unpack("i", struct.pack("f", self.until or 0.0))[0]

    @property
    def weights(self) -> Weights:
        """The packing of the weights."""
        return Weights(self.model.kind, self.model.F, self.gru)

    @property
    def launches(self) -> int:
        """Number of launches of a kernel: one, or one for every layer and one more."""
        return self.layers + 1 if self.split else 1

    def parts(self, x: Tensor, replicas: int, node: Tensor) -> Tensor:
        """Allocate room for two sums of each column, tile and layer, [layers, R, tiles, 2, H]; none unless split."""
        return x.new_empty(self.layers * self.split, replicas, len(node) // (16 * self.warps), 2, self.H)

    @property
    def messages(self) -> int:
        """Upper bound on a tile's messages, rounded up to 1,024; GAT's backward pass keeps a gradient for each."""
        nodes = 16 * self.warps // self.N * self.N
        return -(-nodes * (self.N - 1) // 1024) * 1024 if self.model.kind == "gat" else 0

    @property
    def sizes(self) -> list[int]:
        """Numbers of weights of a convolution: in its dense matrix, its biases and the towers' matrices."""
        biases = {"pna": 3, "gcn": 1, "gat": 2, "gin": 3}[self.model.kind]
        towers = self.H**2 if self.model.kind == "gin" else self.blocks * self.H * self.model.F
        return [self.H**2, biases * self.H, towers]

    @property
    def planes(self) -> int:
        """Numbers that the backward pass keeps for each node and feature (sums.cuh), rounded up to an odd number."""
        names = self.model.names
        order = max((int(name[-1]) for name in names if name.startswith("moment")), default=0)
        others, extremes = order > 0 or not {"mean", "sum", "std"}.isdisjoint(names), {"max", "min"} & set(names)
        softs = {"softmax", "softmin"} & set(names)
        count = len(names) + others + ("std" in names) + len(extremes) + 2 * len(softs) + max(0, order - 2)
        count += order > 0 and "mean" not in names
        late = 2 * (count > 8 and order > 0 and not extremes | softs)  # over others
        return max(8, count - late) + 3 | 1

    def bytes(self, name: str) -> int:
        """Bytes of shared memory that a block of the kernel `name` needs.

        These are the matrices of towers and mixing and the biases; forward, p and q twice and a plane between;
        backward, the scalers' factors and the planes, the GRU's matrices twice, and a number for each message and head.
        GIN adds its sums over columns and two numbers for each thread, convergence one for each graph.
        """
        H, rows, forward = self.H, 16 * self.warps, name == "forward"
        convolution = sum(self.sizes) + (not forward and self.model.kind == "gat") * H * H
        tile = rows * (5 * H if forward else self.model.scalers + self.planes * H)
        gru = 6 * H + (6 if forward else 12) * H * H
        columns = (self.model.kind == "gin") * (8 * H + 4 * rows)
        more = (self.until is not None) * rows if forward else 4 * self.messages
        return 4 * (convolution + tile + self.gru * gru + columns + more)

    def options(self, resident: int) -> tuple[str, ...]:
        """Options for the compiler: every constant as a macro."""
        kind, F, names, scalers, swapped, mispaired, rounded, positions = self.model
        values = {name.upper(): names.index(name) if name in names else -1 for name in AGGREGATORS}
        values |= {
            "GCN": int(kind == "gcn"),
            "GAT": (kind == "gat") * (1 + mispaired),
            "GIN": (kind == "gin") * (1 + (positions and self.N == self.H)),
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
            "DROP": int(self.drop),
        }
        values |= {"WARPS": self.warps, "PLANES": self.planes, "RESIDENT": resident}
        return tuple(f"-DPNA_{key}={value}" for key, value in values.items())


COMMON = tuple(f"recurrence/{name}.cuh" for name in ("layer", "gather", "attention", "gin"))
SOURCES = {
    "forward": (*COMMON, "recurrence/forward.cu"),
    "backward": (*COMMON, "recurrence/sums.cuh", "recurrence/pna_backward.cuh", "recurrence/backward.cu"),
}


def _launch(name: str, shape: Shape, *arguments: Tensor | int) -> None:
    """Launch forward.cu or backward.cu with these arguments, at low priority if it would fill the GPU."""
    x, node, delta = arguments[0], arguments[3], arguments[6]
    needed, (_, room) = shape.bytes(name), shared_memory(x.device)
    most = 3 if shape.split and name == "forward" and shape.model.F <= 4 else 2  # as registers allow
    resident = max(1, min(most, room // (needed + 1024)))  # blocks that a multiprocessor holds; CUDA takes 1 KB of each
    kernel = compiled(SOURCES[name], f"recurrence_{name}", shape.options(resident), needed, x.device.index)
    tiles, replicas = len(node) // (16 * shape.warps), len(delta)
    with behind(0 if shape.split else tiles * replicas):  # a single layer is soon over
        kernel((tiles, replicas, 1), (32 * shape.warps, 1, 1), list(arguments))


class _AllLayers(KernelFunction):
    """All layers of the recurrent part as an autograd Function.

    shape, x [V, H], the tiles, depths [V, 1] or empty, delta [R], dropout [R, convolutions, 3] or empty, norm and known
    [R, …], weights [R, …] -> outputs [R, V, one or all layers, H], GIN's statistics [R, layers, mean and variance, H],
    the states that backward needs, the depths of graphs [R, V], and the packed weights.
    """

    results = 2

    @staticmethod
    def forward(
        shape: Shape,
        x: Shared,
        node: Shared,
        lists: Shared,
        rows: Shared,
        routes: Shared,
        depths: Shared,
        delta: Copied,
        dropout: Copied,
        norm: Copied,
        known: Copied,
        *tensors: Strided,
    ) -> tuple[Tensor, ...]:
        R, (V, H) = len(delta), x.shape
        out = x.new_empty(R, V, shape.layers if shape.every else 1, H)
        states = x.new_empty(shape.layers if shape.keep else 0, 3, R, len(node), H)  # x before a layer, its y and z
        weights = pack_weights(shape.weights, tensors)
        statistics, parts = x.new_empty(R, shape.layers * shape.split, 2, H), shape.parts(x, R, node)
        depths = depths.repeat(R, 1) if shape.until is None else depths.new_full((R, V), shape.layers)
        arguments = (x, out, states, node, lists, rows, delta, *weights, routes, depths, dropout, norm)
        arguments += (statistics if shape.split else known, parts, V, shape.layers, len(rows), shape.N)
        for step in range(shape.launches):
            _launch("forward", shape, *arguments, shape.threshold, step)
        return out, statistics, states, depths, *weights

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        ctx.shape, x, node, lists, rows, routes, _, delta, dropout, norm, _, *tensors = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # which would be zeros as large as all states
        ctx.save_for_backward(x, delta, dropout, norm, node, lists, rows, routes, *output[1:], *tensors)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, delta, dropout, norm, node, lists, rows, routes, statistics, states, depths, *weights = ctx.saved_tensors
        weights, tensors = weights[:5], weights[5:]
        shape, H, R, T = ctx.shape, ctx.shape.H, len(delta), len(node) // 64  # parts, of 64 rows each
        sizes = [R * T * shape.convolutions * sum(shape.sizes), R * T * shape.gru * (6 * H * H + 6 * H)]
        sizes += [R * shape.split * shape.convolutions * 2 * H]  # GIN's norms: bias and weight
        sums = (x.new_zeros if shape.split else x.new_empty)(sum(sizes))
        parts, between = shape.parts(x, R, node), x.new_empty(shape.split * 2, R, len(node), H)
        arguments = (x, grad, states, node, lists, rows, delta, *weights)
        arguments += (routes, depths, dropout, norm.contiguous(), statistics, parts, between, *sums.split(sizes))
        for step in reversed(range(shape.launches)):
            _launch("backward", shape, *arguments, len(x), shape.layers, len(rows), shape.N, step)
        grad_norm = arguments[-1].view(R, shape.convolutions, 2, H) if shape.split else None
        data = (None,) * 9  # the shape, x, the graph, the depths, δ and the dropout
        return *data, grad_norm, None, *unpack_gradients(shape.weights, tensors, sums, T)
