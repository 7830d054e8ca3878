"""Parts of the architecture (figure 3) besides graph convolutions and norms: fully-connected layers, GRU, Set2Set.

They use elementary operations, so that torch.func.vmap can lift the code of one network to many replicas.
"""

import itertools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from pna.kernels.selection import kernels_for
from pna.networks.norm import BatchNorm
from pna.networks.specification import NetworkSpec

__all__ = ["ACTIVATIONS", "GRU", "MLP", "Set2Set", "activated", "head", "initialise", "linear"]

ACTIVATIONS = {"identity": nn.Identity(), "leaky_relu": functional.leaky_relu, "relu": functional.relu}


def initialise(weight: Tensor, spec: NetworkSpec, bias: Tensor | None = None) -> None:
    """Draw weight [..., out, in] and bias as torch.nn.Linear does, or within the released code's far smaller bounds."""
    *_, fan_out, fan_in = weight.shape
    if spec.small_initialisation:
        bound = math.sqrt(6 / (fan_in + fan_out)) / fan_in  # Xavier-uniform with gain 1/in
        nn.init.uniform_(weight, -bound, bound)
        if bias is not None:
            nn.init.zeros_(bias)
        return
    bound = 1 / math.sqrt(fan_in)
    nn.init.uniform_(weight, -bound, bound)
    if bias is not None:
        nn.init.uniform_(bias, -bound, bound)


def linear(fan_in: int, fan_out: int, spec: NetworkSpec) -> nn.Linear:
    """Make a fully-connected layer, initialised according to the specification."""
    layer = nn.Linear(fan_in, fan_out)
    initialise(layer.weight, spec, layer.bias)
    return layer


def activated(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    """Apply a fully-connected layer and its activation: x [rows, in], weight [out, in] -> [rows, out]."""
    if kernels := kernels_for("pna.networks.kernels.linear", x, weight):
        return kernels.linear(x, weight, bias, activation)
    return ACTIVATIONS[activation](functional.linear(x, weight, bias))


class MLP(nn.Module):
    """Fully-connected layers with LeakyReLU or, with `norm`, ReLU and batch normalisation between them; then `last`."""

    def __init__(self, sizes: list[int], spec: NetworkSpec, last: str, norm: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(linear(a, b, spec) for a, b in itertools.pairwise(sizes))
        norms = (BatchNorm(size, position_norm=spec.position_norm) for size in sizes[1:-1])
        self.norms = nn.ModuleList(norms) if norm else None
        self.between = "relu" if norm else "leaky_relu"
        self.last = last

    def forward(self, x: Tensor, nodes_per_graph: int | None = None) -> Tensor:
        """Apply all layers in turn: [rows, first size] -> [rows, last size].

        nodes_per_graph: the size of all graphs, if the rows are their nodes.
        """
        kernels = nodes_per_graph is None and kernels_for("pna.networks.kernels.head", x, self.layers, self.norms)
        if kernels:
            return kernels.head(x, self.layers, self.norms, self.between, self.last)
        for k, layer in enumerate(self.layers[:-1]):
            x = activated(x, layer.weight, layer.bias, self.between)
            if self.norms is not None:
                x = self.norms[k](x, nodes_per_graph)
        return activated(x, self.layers[-1].weight, self.layers[-1].bias, self.last)


def head(sizes: list[int], spec: NetworkSpec, norm: bool = False) -> MLP:
    """Make the three layers before the labels of nodes or graphs; the released code activates the last one, too."""
    return MLP(sizes, spec, "leaky_relu" if spec.activated_outputs else "identity", norm)


class _Gates(nn.Module):
    """The k gates of a recurrent cell: W x and U h, each with a bias and k·H wide."""

    def __init__(self, k: int, inputs: int, hidden: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(hidden)  # torch.nn.GRU's and LSTM's draw, which the released code keeps
        self.input = nn.Linear(inputs, k * hidden)
        self.state = nn.Linear(hidden, k * hidden)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """W x and U h, [rows, k·H] each."""
        return self.input(x), self.state(h)


class GRU(nn.Module):
    """The gated recurrent unit of section 3 (Cho et al., 2014)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.gates = _Gates(3, hidden, hidden)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        """Input x and state h, [rows, H] each -> the new state, [rows, H]."""
        a, b = self.gates(x, h)
        reset_x, update_x, new_x = a.chunk(3, dim=-1)
        reset_h, update_h, new_h = b.chunk(3, dim=-1)
        update = torch.sigmoid(update_x + update_h)
        new = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
        return new + update * (h - new)


class Set2Set(nn.Module):
    """The readout S2S of section 3 (Vinyals et al., 2016), with as many steps as the graph has nodes."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.gates = _Gates(4, 2 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Read out G graphs of N nodes each, [G, N, H] -> [G, 2H]: the state after N steps and the last read."""
        G, N, H = x.shape
        if kernels := kernels_for("pna.networks.kernels.set2set", x):
            return kernels.set2set(x, self.gates)
        state, memory, read = x.new_zeros(3, G, H).unbind()
        for _ in range(N):
            state, memory = self._lstm(torch.cat([state, read], dim=-1), state, memory)
            attention = torch.softmax((x * state.unsqueeze(1)).sum(-1, keepdim=True), dim=1)  # [G, N, 1]
            read = (attention * x).sum(dim=1)
        return torch.cat([state, read], dim=-1)

    def _lstm(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Input x [G, 2H], state h and memory c [G, H] -> the new state and memory."""
        a, b = self.gates(x, h)
        inp, forget, cell, out = (a + b).chunk(4, dim=-1)
        c = torch.sigmoid(forget) * c + torch.sigmoid(inp) * torch.tanh(cell)
        return torch.sigmoid(out) * torch.tanh(c), c
