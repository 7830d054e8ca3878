"""The parts of the architecture (figure 3) that are not graph convolutions: MLP, batch normalisation, GRU, Set2Set.

Written with elementary operations, so that one network's code serves many replicas at once (torch.func.vmap).
"""

import itertools
import math
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from pna.kernels.selection import kernels_for
from pna.networks.specification import NetworkSpec

__all__ = ["ACTIVATIONS", "GRU", "MLP", "BatchNorm", "Set2Set", "activated", "head", "initialise", "linear"]

ACTIVATIONS = {"identity": nn.Identity(), "leaky_relu": functional.leaky_relu, "relu": functional.relu}


def initialise(weight: Tensor, spec: NetworkSpec, bias: Tensor | None = None) -> None:
    """A fully-connected layer [..., out, in]: torch.nn.Linear's draw, or the released code's much smaller one."""
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
    """A fully-connected layer, initialised as the specification says."""
    layer = nn.Linear(fan_in, fan_out)
    initialise(layer.weight, spec, layer.bias)
    return layer


def activated(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str) -> Tensor:
    """A fully-connected layer and its activation: x [rows, in], weight [out, in] -> [rows, out]."""
    if kernels := kernels_for("pna.networks.kernels.linear", x, weight):
        return kernels.linear(x, weight, bias, activation)
    return ACTIVATIONS[activation](functional.linear(x, weight, bias))


class BatchNorm(nn.Module):
    """Batch normalisation over the features of nodes or graphs, [rows, F].

    D7: the released code sees the nodes as [graphs, N, F] and forgets to exchange the last two axes where N = F: it
    then normalises each node position over graphs and features.
    """

    def __init__(self, features: int, spec: NetworkSpec) -> None:
        super().__init__()
        self.position_norm = spec.position_norm
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x: Tensor, nodes_per_graph: int | None = None) -> Tensor:
        """[rows, F] -> [rows, F]; nodes_per_graph says that the rows are the nodes of graphs of that one size."""
        F = x.shape[-1]
        if self.position_norm and nodes_per_graph == F:
            positions = x.view(-1, F, F).transpose(1, 2).reshape(-1, F)  # [graphs · features, positions]
            return self._normalise(positions).view(-1, F, F).transpose(1, 2).reshape(-1, F)
        return self._normalise(x)

    def _normalise(self, x: Tensor) -> Tensor:
        known = None if self.training else torch.stack([self.running_mean, self.running_var])
        if kernels := kernels_for("pna.networks.kernels.batchnorm", x, known):
            y, (mean, var) = kernels.normalise(x, self.weight, self.bias, known)
        else:
            var, mean = torch.var_mean(x, dim=0, unbiased=False) if self.training else known.flip(0)
            y = (x - mean) * torch.rsqrt(var + 1e-5) * self.weight + self.bias
        if self.training:
            self.remember(mean, var, len(x))
        return y

    @torch.no_grad()
    def remember(self, mean: Tensor, var: Tensor, rows: int, batches: int = 1) -> None:
        """Moves the running statistics on by those of a batch of so many rows, or of more batches by `recent`."""
        kept = 0.9**batches
        self.running_mean.mul_(kept).add_(mean.detach(), alpha=1 - kept)
        self.running_var.mul_(kept).add_(var.detach(), alpha=(1 - kept) * rows / max(1, rows - 1))

    @staticmethod
    def recent(statistics: Tensor) -> Tensor:
        """The average of batches that came one after another, [batches, 2, F] -> [2, F], the last one weighs most."""
        weights = _fading(len(statistics), statistics.dtype, statistics.device)
        return (weights * statistics).sum(0) if len(statistics) > 1 else statistics[0]


@cache
def _fading(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The weights of so many batches, the last one's the greatest, [count, 1, 1]."""
    powers = torch.logspace(count - 1, 0, count, base=0.9, dtype=dtype, device=device)
    return (powers * (0.1 / (1 - 0.9**count))).view(-1, 1, 1)


class MLP(nn.Module):
    """Fully-connected layers, LeakyReLU between them or, with `norm`, ReLU and batch normalisation; then `last`."""

    def __init__(self, sizes: list[int], spec: NetworkSpec, last: str, norm: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(linear(a, b, spec) for a, b in itertools.pairwise(sizes))
        self.norms = nn.ModuleList(BatchNorm(size, spec) for size in sizes[1:-1]) if norm else None
        self.between = "relu" if norm else "leaky_relu"
        self.last = last

    def forward(self, x: Tensor, nodes_per_graph: int | None = None) -> Tensor:
        """[rows, first size] -> [rows, last size]."""
        whole = nodes_per_graph is None and kernels_for("pna.networks.kernels.head", x, self.layers, self.norms)
        if whole:
            return whole.head(x, self.layers, self.norms, self.between, self.last)
        for k, layer in enumerate(self.layers[:-1]):
            x = activated(x, layer.weight, layer.bias, self.between)
            if self.norms is not None:
                x = self.norms[k](x, nodes_per_graph)
        return activated(x, self.layers[-1].weight, self.layers[-1].bias, self.last)


def head(sizes: list[int], spec: NetworkSpec, norm: bool = False) -> MLP:
    """The three layers before the labels of nodes or of graphs; the released code activates the last one too."""
    return MLP(sizes, spec, "leaky_relu" if spec.activated_outputs else "identity", norm)


class _Gates(nn.Module):
    """The gates of a recurrent cell: W x + U h with a bias each, k·H wide."""

    def __init__(self, k: int, inputs: int, hidden: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(hidden)  # torch.nn.GRU's and LSTM's draw, which the released code keeps
        self.input = nn.Linear(inputs, k * hidden)
        self.state = nn.Linear(hidden, k * hidden)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Both halves, [rows, k·H]."""
        return self.input(x), self.state(h)


class GRU(nn.Module):
    """The gated recurrent unit of section 3 (Cho et al., 2014)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.gates = _Gates(3, hidden, hidden)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        """Input x and state h, [rows, H] each -> the new state."""
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
        """The nodes of G graphs of one size, [G, N, H] -> [G, 2H]."""
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
        a, b = self.gates(x, h)
        inp, forget, cell, out = (a + b).chunk(4, dim=-1)
        c = torch.sigmoid(forget) * c + torch.sigmoid(inp) * torch.tanh(cell)
        return torch.sigmoid(out) * torch.tanh(c), c
