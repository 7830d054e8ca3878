"""All layers of a recurrent PNA network in Triton: one kernel for a layer forward, two backward.

The kernels want dense H × H matrices: `dense_weights` lays out the weights of a PNA convolution so, with zeros outside
the towers' blocks, and autograd takes the gradients back through it.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from pna.networks.kernels.gru import gru_weights, of_gates, width
from pna.networks.kernels.recurrence.cuda import keep
from pna.networks.kernels.recurrence.triton_backward import aggregates_backward, node_backward
from pna.networks.kernels.recurrence.triton_forward import layer_forward, project
from pna.networks.kernels.replicas import replicated

__all__ = ["recurrence", "takes"]

AGGREGATORS = ("mean", "std", "max", "min", "sum")
SCALERS = (("identity",), ("identity", "amplification", "attenuation"))
PARTS = {"MEANS": {"mean", "sum"}, "SPREAD": {"std"}, "MAXIMUM": {"max"}, "MINIMUM": {"min"}}
BLOCK = 64  # nodes of a block
LAUNCH = {"num_warps": 4, "num_stages": 1}
PROGRAMS = 528  # four on each multiprocessor of an H100 or H200


def takes(conv: torch.nn.Module) -> bool:
    """Whether the kernels know the PNAConv: linear M and U, known aggregators and scalers, at most 32 features."""
    aggregators, scalers = conv.combined.aggregators, conv.combined.scalers
    known = set(aggregators) <= set(AGGREGATORS) and len(set(aggregators)) == len(aggregators) and scalers in SCALERS
    linear = len(conv.M) == len(conv.U) == 1 and conv.edge_dim is None
    fits = max(conv.out_channels, conv.in_channels, conv.towers * conv.F_in) <= 32
    return known and linear and fits


@dataclass(frozen=True)
class Weights:
    """A convolution's weights as dense matrices [..., k, H, H], out × in, and biases [..., k, H]."""

    projection: Tensor  # W2 of the sender, W1 of the receiver
    update: Tensor  # U's matrix of x_i, the mixing matrix, U's matrix of each scaler and aggregator
    bias: Tensor  # of M, U and the mixing layer
    delta: Tensor  # δ of equation 5


def dense_weights(conv: torch.nn.Module, H: int) -> Weights:
    """The weights of a convolution that `takes` approves of."""
    M, U, F = conv.M[0], conv.U[0], conv.F_in
    W1, W2 = M.weight.split(F, dim=-1)  # [T, F, F] each
    own, combined = U.weight[..., :F], U.weight[..., F:].unflatten(-1, (-1, F))  # [T, F_out, F], [T, F_out, S·A, F]
    inputs = [_towers(w.unsqueeze(2), conv.divide_input, H) for w in (W2, W1, own)]  # [1, H, H] each
    matrices = [_padded(conv.mix.weight.unsqueeze(0), H), _towers(combined, True, H)]
    biases = [functional.pad(b.flatten(), (0, H - b.numel())) for b in (M.bias, U.bias, conv.mix.bias)]
    return Weights(
        torch.cat(inputs[:2]),
        torch.cat([inputs[2], *matrices]),
        torch.stack(biases),
        conv.combined.delta,
    )


def _towers(weight: Tensor, divided: bool, H: int) -> Tensor:
    """[T, out, k, in] -> [k, H, H]: block-diagonal, or with all inputs for every tower."""
    T, out, k, inputs = weight.shape
    if not divided:
        return _padded(weight.permute(2, 0, 1, 3).reshape(k, T * out, inputs), H)
    own = torch.eye(T, dtype=weight.dtype, device=weight.device).view(1, T, 1, T, 1)
    return _padded((weight.permute(2, 0, 1, 3).unsqueeze(3) * own).reshape(k, T * out, T * inputs), H)


def _padded(weight: Tensor, H: int) -> Tensor:
    return functional.pad(weight, (0, H - weight.shape[-1], 0, H - weight.shape[-2]))


@dataclass(frozen=True)
class Shape:
    """What the kernels are compiled for."""

    names: tuple[str, ...]
    scalers: int
    swapped: bool  # D5
    layers: int
    H: int
    keep: bool  # what the backward pass needs

    @property
    def constants(self) -> dict[str, Any]:
        """By the kernels' names."""
        places = {name.upper(): self.names.index(name) if name in self.names else -1 for name in AGGREGATORS}
        return places | {"A": len(self.names), "S": self.scalers, "SWAP": self.swapped, "H": self.H, "BLOCK": BLOCK}

    @property
    def parts(self) -> dict[str, Any]:
        """Which coefficients a receiver has for its senders."""
        has = {part: bool(names & set(self.names)) for part, names in PARTS.items()}
        return has | {"SWAP": self.swapped, "C": self.coefficients}

    @property
    def coefficients(self) -> int:
        """How many numbers a sender needs of each receiver and feature."""
        return 2 * len({"std", "max", "min"} & set(self.names)) + bool({"mean", "sum"} & set(self.names))


def recurrence(
    x: Tensor,
    graph: tuple[Tensor, Tensor],
    first: torch.nn.Module,
    shared: torch.nn.Module,
    gates: torch.nn.Module,
    layers: int,
) -> Tensor:
    """The states after `layers` layers: x [V, F], the graph's ptr and source -> [V, F]."""
    F = x.shape[-1]
    H = width(F)
    combined = shared.combined
    shape = Shape(combined.aggregators, len(combined.scalers), shared.swap_extremes, layers, H, torch.is_grad_enabled())
    dense = [dense_weights(conv, H) for conv in (first, shared)]
    weights = [t for w in dense for t in (w.projection, w.update, w.bias)]
    lifted = [t.unsqueeze(0) for t in (*weights, *gru_weights(gates, H), dense[0].delta)]  # one replica
    out, _ = _Recurrence.apply(functional.pad(x, (0, H - F)), *lifted, *graph, shape)
    return out.squeeze(0)[:, :F]


class _Recurrence(Function):
    """x [V, H], weights [R, k, H, H], biases [R, k, H], delta [R] -> states after the last layer [R, V, H].

    The second output is what the backward pass needs: x, p and q before and after each layer, and its y and z.
    """

    @staticmethod
    def forward(x: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
        projection_1, update_1, bias_1, projection, update, bias, gru, gru_bias, delta, ptr, column, shape = arguments
        R, V, H = len(delta), len(x), shape.H
        planes = shape.layers + 1 if shape.keep else 2
        states = x.new_empty(planes, 5, R, V, H)
        project[(-(-V // BLOCK), R)](x, *states[0, 1:3], projection_1, V, 0, H=H, BLOCK=BLOCK, **LAUNCH)
        for layer in range(shape.layers):
            own = (update_1, bias_1) if layer == 0 else (update, bias)
            before, after = _inputs(x, states, layer), states[(layer + 1) % planes]
            layer_forward[(_programs(R, V), R)](
                *before, *after, ptr, column, delta, *own, gru, gru_bias, projection, V, V * H * (layer > 0),
                **shape.constants, KEEP=shape.keep, **LAUNCH,
            )  # fmt: skip
        return states[shape.layers % planes, 0].clone(), states

    setup_context = staticmethod(keep)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients = _Backward(ctx.shape, *ctx.saved_tensors).run(grad.contiguous())
        return None, *gradients, None, None, None, None  # x, δ, the graph and the shape are data

    @staticmethod
    def vmap(info: Any, in_dims: tuple, x: Tensor, *rest: Any) -> tuple[tuple[Tensor, Tensor], tuple[int, None]]:
        if in_dims[0] is not None:
            raise ValueError("the input features are data, the same for every replica: they cannot be batched")
        *weights, ptr, column, shape = rest
        lifted = [replicated(t, dim, info.batch_size) for t, dim in zip(weights, in_dims[1:], strict=False)]
        out, states = _Recurrence.apply(x, *lifted, ptr, column, shape)
        return (out.unflatten(0, (info.batch_size, -1)), states), (0, None)


def _inputs(x: Tensor, states: Tensor, layer: int) -> tuple[Tensor, ...]:
    """x, p and q before a layer; before the first, x is the same for every replica."""
    state, p, q = states[layer % len(states), :3]
    return (x if layer == 0 else state), p, q


def _programs(R: int, V: int) -> int:
    """Programs for each replica: enough to fill the GPU once."""
    return min(-(-V // BLOCK), max(1, PROGRAMS // R))


class _Backward:
    """Gradients of all weights, by the layers in reverse."""

    def __init__(self, shape: Shape, x: Tensor, *saved: Tensor) -> None:
        self.shape, self.x = shape, x
        *self.weights, self.delta, self.ptr, self.column, self.states = saved
        self.R, self.V = len(self.delta), len(x)
        self.programs = _programs(self.R, self.V)
        self.first, self.shared = self._places(), self._places()
        self.gru = self._zeros(8)
        self.coefficients = x.new_empty(self.R, self.V, shape.coefficients, shape.H)
        self.own = x.new_empty(4, self.R, self.V, shape.H)  # what each node asks of its own x, p, q and y

    def _zeros(self, matrices: int) -> Tensor:
        """A place for each replica, program and matrix."""
        return self.x.new_zeros(self.R, self.programs, matrices * self.shape.H, self.shape.H)

    def _places(self) -> dict[str, Tensor]:
        """For the gradients of a convolution; biases are rows of H numbers, six of a node and one of the messages."""
        A, S = len(self.shape.names), self.shape.scalers
        return {
            "projection": self._zeros(2),
            "node": self._zeros(2),
            "combined": self._zeros(A * (4 if S == 3 else 1)),
            "node_bias": self.x.new_zeros(self.R, self.programs, 6 * self.shape.H),
            "message_bias": self.x.new_zeros(self.R, self.programs, self.shape.H),
        }

    def run(self, grad: Tensor) -> tuple[Tensor, ...]:
        """From the gradient of the last states [R, V, H] to those of the weights, in the order of `forward`."""
        for layer in range(self.shape.layers, 0, -1):
            self._node(layer, grad if layer == self.shape.layers else self.own[0])
            self._aggregates(layer)
        self._node(0, grad)
        gates_bias = self.first["node_bias"].sum(1) + self.shared["node_bias"].sum(1)
        gru = of_gates(self.gru.sum(1), gates_bias[:, 2 * self.shape.H :], self.R, self.shape.H)
        return *self._of_convolution(self.first), *self._of_convolution(self.shared), *gru

    def _node(self, layer: int, grad: Tensor) -> None:
        """Layer 1, 2, …; 0 is the input, of which only the projections are left."""
        shape, V, H = self.shape, self.V, self.shape.H
        projection_1, update_1, _, projection, update, _, gru, gru_bias = self.weights
        below = max(layer - 1, 0)
        places = self.first if layer <= 1 else self.shared
        node_backward[(self.programs, self.R)](
            _inputs(self.x, self.states, below)[0], *self.states[layer, 3:], *_inputs(self.x, self.states, layer),
            self.ptr, self.column, update_1 if layer <= 1 else update, gru, gru_bias,
            projection if layer else projection_1, grad, self.coefficients, self.own[1], self.own[2],
            self.own[0], self.own[3], (self.shared if layer else self.first)["projection"], places["node"], self.gru,
            places["node_bias"], V, V * H * (below > 0), V * H * (layer > 0),
            **shape.parts, COUNT=update.shape[1], H=H, BLOCK=BLOCK, LAST=layer == shape.layers, LAYER=layer > 0,
            **LAUNCH,
        )  # fmt: skip

    def _aggregates(self, layer: int) -> None:
        _, update_1, bias_1, _, update, bias, _, _ = self.weights
        own, places = ((update_1, bias_1), self.first) if layer == 1 else ((update, bias), self.shared)
        aggregates_backward[(self.programs, self.R)](
            *_inputs(self.x, self.states, layer - 1)[1:], self.ptr, self.column, self.delta, *own, self.own[3],
            self.coefficients, self.own[1], self.own[2], places["combined"], places["message_bias"], self.V,
            **self.shape.constants, C=self.shape.coefficients, **LAUNCH,
        )  # fmt: skip

    def _of_convolution(self, places: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        S, A, H = self.shape.scalers, len(self.shape.names), self.shape.H
        projection, node, combined, node_bias, message_bias = (place.sum(1) for place in places.values())
        combined = combined.view(self.R, A, H, -1, H)[:, :, :, :S].permute(0, 3, 1, 2, 4)  # [R, S, A, H, H]
        return (
            projection.view(self.R, H, 2, H).transpose(1, 2),
            torch.cat([node.view(self.R, 2, H, H), combined.flatten(1, 2)], dim=1),
            torch.cat([message_bias, node_bias[:, : 2 * H]], dim=1).view(self.R, 3, H),
        )
