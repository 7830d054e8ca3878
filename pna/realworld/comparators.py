"""Layers of figure 6's comparators, as implemented in the benchmark from which the paper quotes their numbers.

That is the first version of "Benchmarking Graph Neural Networks" (Dwivedi et al., March 2020), in its setting of four
layers and about 100,000 parameters. In all but the MLPs, the aggregated messages are multiplied by 1/√n of the graph,
normalised over the batch and activated, and the input is added. The sum over no neighbours is zero.

MolHIV's two comparators are those of ogb's examples. Their messages are ReLU(x_j + e_ij), and each layer embeds the
bonds. There is one difference: they too leave out the 16 molecules that PNA's released code leaves out.

DiffPool, which is more than layers, is in diffpool.py.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from pna import segments
from pna.dispatch import aggregate
from pna.kernels.selection import kernels_for
from pna.neighbourhoods import Neighbourhoods
from pna.products import Linear, linear
from pna.realworld.batches import PaddedBatch
from pna.realworld.layers import BatchNorm, activated
from pna.segments import sent

__all__ = [
    "OGB",
    "QUOTED",
    "GATLayer",
    "GCNLayer",
    "GINLayer",
    "GatedGCNLayer",
    "GatedMLPLayer",
    "GraphSageLayer",
    "MLPLayer",
    "MoNetLayer",
    "beside_mean",
]

HEADS = 8  # attention heads of GAT; its last layer has one
KERNELS = 3  # Gaussians of MoNet


class MLPLayer(nn.Module):
    """Linear map and ReLU of each node, without its neighbours."""

    def __init__(self, sizes: tuple[int, int], last: bool = False, edges: bool = False) -> None:
        super().__init__()
        self.linear = Linear(*sizes)

    def forward(self, x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None) -> Tensor:
        """Apply the layer to node features: [V, in] -> [V, out]. Like the other comparators, it has no dropout."""
        return activated(x, self.linear, "relu")


class GatedMLPLayer(MLPLayer):
    """MLP layer; the last one multiplies every feature by a gate from 0 to 1."""

    def __init__(self, sizes: tuple[int, int], last: bool = False, edges: bool = False) -> None:
        super().__init__(sizes)
        self.gate = Linear(sizes[1], sizes[1]) if last else None

    def forward(self, x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None) -> Tensor:
        """Apply the layer to node features: [V, in] -> [V, out]."""
        x = super().forward(x, batch, embedding, noise)
        return x if self.gate is None else torch.sigmoid(self.gate(x)) * x


class GCNLayer(nn.Module):
    """Kipf and Welling's convolution as implemented in the benchmark: a linear map of the neighbours' mean."""

    def __init__(self, sizes: tuple[int, int], last: bool = False, edges: bool = False) -> None:
        super().__init__()
        self.linear, self.norm = Linear(*sizes), BatchNorm(sizes[1])

    def forward(self, x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None) -> Tensor:
        """Apply the layer to node features: [V, F] -> [V, F]."""
        graph = batch.neighbourhoods
        if kernels := kernels_for("pna.realworld.kernels.neighbours", x, graph):
            mean, x = kernels.neighbours(x, graph, "mean")
        else:
            mean = aggregate(graph, ("mean",), source=x).squeeze(-2)
        return _finish(x, self.linear(mean), self.norm, batch)


class GraphSageLayer(nn.Module):
    """Hamilton et al.: a linear map of x_i and the neighbours' mean, scaled to length 1; ReLU comes before the norm."""

    def __init__(self, sizes: tuple[int, int], last: bool = False, edges: bool = False) -> None:
        super().__init__()
        self.linear, self.norm = Linear(2 * sizes[0], sizes[1]), BatchNorm(sizes[1])

    def forward(self, x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None) -> Tensor:
        """Apply the layer to node features: [V, F] -> [V, F]."""
        both, x = beside_mean(x, batch.neighbourhoods)
        return self.norm(activated(both, self.linear, "unit"), batch, batch.norm, residual=x)


def beside_mean(x: Tensor, graph: Neighbourhoods) -> tuple[Tensor, Tensor]:
    """Concatenate x_i and the mean of the neighbours' x_j, [V, F] -> [V, 2 F]; return x too, to be added in the end."""
    if kernels := kernels_for("pna.realworld.kernels.neighbours", x, graph):
        return kernels.neighbours(x, graph, "beside")
    return torch.cat([x, aggregate(graph, ("mean",), source=x).squeeze(-2)], dim=1), x


class GINLayer(nn.Module):
    """Xu et al.: two linear layers on (1 + ε) x_i + Σ_j x_j; ε is learned, starting from 0."""

    def __init__(self, sizes: tuple[int, int], last: bool = False, edges: bool = False) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.first, self.second = Linear(*sizes), Linear(sizes[1], sizes[1])
        self.inner, self.norm = BatchNorm(sizes[1]), BatchNorm(sizes[1])

    def forward(self, x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None) -> Tensor:
        """Apply the layer to node features: [V, F] -> [V, F]."""
        graph = batch.neighbourhoods
        if kernels := kernels_for("pna.realworld.kernels.neighbours", x, graph):
            y, x = kernels.neighbours(x, graph, "sum", self.eps)
        else:
            y = (1 + self.eps) * x + aggregate(graph, ("sum",), source=x).squeeze(-2)
        y = self.second(self.inner(self.first(y), batch, activation="relu"))
        return _finish(x, y, self.norm, batch)


class GATLayer(nn.Module):
    """Veličković et al.: attention over the neighbours j of i, softmax of LeakyReLU(a · [W x_j, W x_i]); then ELU.

    It differs from PyTorch Geometric's: LeakyReLU has torch's slope, 0.01, and there are no self-loops and no bias.
    """

    def __init__(self, sizes: tuple[int, int], last: bool = False, edges: bool = False) -> None:
        super().__init__()
        self.heads = 1 if last else HEADS
        self.linear, self.norm = Linear(*sizes, bias=False), BatchNorm(sizes[1])
        width = sizes[1] // self.heads
        self.a = nn.Parameter(torch.empty(2, self.heads, width))  # for the sender and for the receiver
        nn.init.uniform_(self.a, -1 / math.sqrt(2 * width), 1 / math.sqrt(2 * width))

    def forward(self, x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None) -> Tensor:
        """Apply the layer to node features: [V, F] -> [V, F]."""
        graph = batch.neighbourhoods
        if kernels := kernels_for("pna.realworld.kernels.attention", x, graph):
            weight = self.linear.weight  # [F, in]
            logits = (self.a.unsqueeze(-1) * weight.unflatten(0, (self.heads, -1))).sum(2)  # [2, H, in]
            nodes = linear(x, torch.cat([weight, logits.flatten(0, 1)]), None)  # [V, F + 2 H]
            y = kernels.attention(nodes, self.heads, graph)
        else:
            y = self._received(self.linear(x).unflatten(1, (self.heads, -1)), graph).flatten(1)
        return self.norm(y, batch, batch.norm, activation="elu", residual=x)

    def _received(self, z: Tensor, graph: Neighbourhoods) -> Tensor:
        """Sum the messages weighted by attention: [V, H, F / H] -> [V, H, F / H]."""
        E = graph.num_edges
        sender, receiver = ((z * a).sum(-1) for a in self.a)  # [V, H]
        logit = sent(sender, graph) + segments.spread(receiver, graph.ptr, E, graph.joined)  # [E, H]
        logit = functional.leaky_relu(logit)
        top = segments.max(logit.detach(), graph.ptr, graph.joined)
        weight = torch.exp(logit - segments.spread(top, graph.ptr, E, graph.joined))
        total = segments.sum(weight, graph.ptr, graph.joined).clamp(min=1)  # the largest weight is 1
        return segments.sum(weight.unsqueeze(-1) * sent(z, graph), graph.ptr, graph.joined) / total.unsqueeze(-1)


class MoNetLayer(nn.Module):
    """Monti et al.: Σ_j Σ_k w_k(u_ij) W_k x_j, with Gaussians w_k of u_ij, a map of the degrees of both nodes."""

    def __init__(self, sizes: tuple[int, int], last: bool = False, edges: bool = False) -> None:
        super().__init__()
        self.pseudo = Linear(2, 2)
        self.mu = nn.Parameter(torch.empty(KERNELS, 2).normal_(0, 0.1))
        self.inverse_sigma = nn.Parameter(torch.ones(KERNELS, 2))
        self.linear = Linear(sizes[0], KERNELS * sizes[1], bias=False)
        nn.init.xavier_normal_(self.linear.weight, gain=math.sqrt(2))
        self.bias, self.norm = nn.Parameter(torch.zeros(sizes[1])), BatchNorm(sizes[1])

    def weights(self, graph: Neighbourhoods) -> Tensor:
        """The weights w_k(u_ij) of every message, [E, K]."""
        r = torch.rsqrt(graph.degree.to(self.mu.dtype) + 1).unsqueeze(1)  # [V, 1]
        pair = torch.cat([sent(r, graph), segments.spread(r, graph.ptr, graph.num_edges, graph.joined)], dim=1)
        u = torch.tanh(self.pseudo(pair)).unsqueeze(1)  # [E, 1, 2]
        return torch.exp(-0.5 * ((u - self.mu) * self.inverse_sigma).square().sum(-1))

    def forward(self, x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None) -> Tensor:
        """Apply the layer to node features: [V, F] -> [V, F]."""
        graph, z = batch.neighbourhoods, self.linear(x)  # [V, K·F]
        if kernels := kernels_for("pna.realworld.kernels.monet", z, graph):
            pseudo = self.pseudo.weight, self.pseudo.bias
            y = kernels.gaussian_sum(z, pseudo, self.mu, self.inverse_sigma, graph)
        else:
            z = sent(z.unflatten(1, (KERNELS, -1)), graph)  # [E, K, F]
            y = segments.sum((self.weights(graph).unsqueeze(-1) * z).sum(1), graph.ptr, graph.joined)
        return _finish(x, y, self.norm, batch) + self.bias


class Gated(NamedTuple):
    """State of a GatedGCN between layers: the features of nodes and of messages."""

    x: Tensor  # [V, F]
    e: Tensor  # [E, F]
    norm: Tensor  # [E, 1] 1/√m in a graph with m messages, zero for padding
    real: Tensor  # [E, 1] one, or zero for padding
    count: Tensor  # [] number of real messages


class GatedGCNLayer(nn.Module):
    """Bresson and Laurent: A x_i + Σ_j σ(e_ij) B x_j / Σ_j σ(e_ij), edges moving on as e_ij = C e_ij + D x_j + E x_i.

    Without edge features every edge starts as 1. A node that receives nothing becomes 0 before the norm, as in the
    benchmark, whose code adds A x_i only where messages arrive; 444 of CIFAR10's 5.3 million nodes receive none.
    """

    def __init__(self, sizes: tuple[int, int], last: bool = False, edges: bool = False) -> None:
        super().__init__()
        self.last, self.edges = last, edges
        self.A, self.B, self.C, self.D, self.E = (Linear(*sizes) for _ in range(5))
        self.norm, self.edge_norm = BatchNorm(sizes[1]), BatchNorm(sizes[1])

    def forward(
        self, state: Tensor | Gated, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None
    ) -> Gated:
        """Compute the next state; the first layer starts from x [V, F], and the last need not move the messages on."""
        first = not isinstance(state, Gated)
        x, e, *rows = self._start(state, batch) if first else state
        graph, norm = batch.neighbourhoods, self.edge_norm
        kernels = kernels_for("pna.realworld.kernels.gated", x, e, graph)
        if kernels and self.training and kernels.trains(x, e, first):
            statistics = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
            e, *maps = self._mapped(e, embedding) if first else (e, self.C.weight, None)
            y, beyond = kernels.layer(self._of_nodes(x), e, maps, (rows[0], rows[2]), statistics, graph, self.last)
            return Gated(_finish(x, y * _receives(graph, x), self.norm, batch), e if self.last else beyond, *rows)
        e = embedding(e) if first else e
        if kernels:
            y, moved = kernels.gated(self._of_nodes(x), linear(e, self.C.weight, None), graph)
        else:
            y, moved = self._messages(x, e, graph)
        y = y * _receives(graph, x)
        return Gated(_finish(x, y, self.norm, batch), _finish(e, moved, norm, Gated(x, e, *rows)), *rows)

    def _of_nodes(self, x: Tensor) -> Tensor:
        """Map the nodes to A x, B x, D x, and E x with the bias of C: [V, F] -> [V, 4 F]."""
        maps = (self.A, self.B, self.D, self.E)
        *biases, shift = (layer.bias for layer in maps)
        return linear(x, torch.cat([layer.weight for layer in maps]), torch.cat([*biases, shift + self.C.bias]))

    def _mapped(self, s: Tensor, embedding: nn.Linear) -> tuple[Tensor, Tensor, Tensor]:
        """The edges' numbers s, [E, D], and C W and W, [F, D], where W embeds s; a bias is the weight of a one in s."""
        W = embedding.weight
        if embedding.bias is not None:
            s, W = torch.cat([s, torch.ones_like(s[:, :1])], dim=1), torch.cat([W, embedding.bias.unsqueeze(1)], dim=1)
        return s, self.C.weight @ W, W

    def _messages(self, x: Tensor, e: Tensor, graph: Neighbourhoods) -> tuple[Tensor, Tensor]:
        """Sum the gated messages, [V, F], and return e_ij moved on, [E, F]."""
        receivers = segments.spread(self.E(x), graph.ptr, graph.num_edges, graph.joined)
        moved = self.C(e) + sent(self.D(x), graph) + receivers
        gate = torch.sigmoid(moved)
        total = segments.sum(gate, graph.ptr, graph.joined) + 1e-6
        return self.A(x) + segments.sum(gate * sent(self.B(x), graph), graph.ptr, graph.joined) / total, moved

    def _start(self, x: Tensor, batch: PaddedBatch) -> Gated:
        """The state before the first layer, with the edges' numbers not yet embedded."""
        graph = batch.neighbourhoods
        ptr = graph.ptr[batch.graph_ptr]  # messages before each graph
        inverse = torch.rsqrt(ptr.diff().clamp(min=1).to(x.dtype))
        one = torch.ones_like(inverse)
        is_graph = torch.arange(len(one), device=x.device) < len(one) - 1  # the last is padding
        both = torch.stack([inverse, one], dim=1) * is_graph.unsqueeze(1)
        of_nodes = segments.spread(both, batch.graph_ptr, len(x), batch.joined)
        norm, real = segments.spread(of_nodes, graph.ptr, graph.num_edges, graph.joined).split(1, dim=1)
        start = batch.edge if self.edges else torch.ones_like(real)
        return Gated(x, start, norm, real, real.sum())


def _receives(graph: Neighbourhoods, x: Tensor) -> Tensor:
    """One for a node that receives a message, else zero, [V, 1]."""
    return (graph.degree > 0).to(x.dtype).unsqueeze(1)


QUOTED: dict[str, type[nn.Module]] = {
    "mlp": MLPLayer,
    "mlp-gated": GatedMLPLayer,
    "gcn": GCNLayer,
    "graphsage": GraphSageLayer,
    "gin": GINLayer,
    "gat": GATLayer,
    "monet": MoNetLayer,
    "gatedgcn": GatedGCNLayer,
}


class OGBGCNLayer(nn.Module):
    """ogb's GCN: Σ_j ReLU(W x_j + e_ij) / √(d_i d_j) + ReLU(W x_i + r) / d_i, where degrees count the node itself."""

    def __init__(self, sizes: tuple[int, int], last: bool, bonds: nn.Linear, p: float) -> None:
        super().__init__()
        self.last, self.bonds, self.p = last, bonds, p
        self.linear, self.root = Linear(*sizes), nn.Parameter(torch.randn(1, sizes[1]))
        self.norm = BatchNorm(sizes[1])

    def forward(self, x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None) -> Tensor:
        """Apply the layer to node features: [V, F] -> [V, F]."""
        if kernels := kernels_for("pna.realworld.kernels.message", x, self.bonds.weight, batch.neighbourhoods):
            x = linear(x, self.linear.weight, None)
            root, bias = self.root.squeeze(0), self.linear.bias
            y = kernels.received(x, self.bonds.weight, root, bias, batch.edge, batch.count, batch.neighbourhoods)
        else:
            graph, x = batch.neighbourhoods, self.linear(x)
            d = (graph.degree + 1).to(x.dtype).unsqueeze(1)  # [V, 1]
            received = _relu_sum(x, self.bonds(batch.edge), torch.rsqrt(d), graph)
            y = received * torch.rsqrt(d) + functional.relu(x + self.root) / d
        return self.norm(y, batch, activation=None if self.last else "relu", noise=noise, p=self.p)


class OGBGINLayer(nn.Module):
    """ogb's GIN: two linear layers, the first twice as wide, on (1 + ε) x_i + Σ_j ReLU(x_j + e_ij)."""

    def __init__(self, sizes: tuple[int, int], last: bool, bonds: nn.Linear, p: float) -> None:
        super().__init__()
        self.last, self.bonds, self.p = last, bonds, p
        self.eps, wide = nn.Parameter(torch.zeros(1)), 2 * sizes[0]
        self.first, self.second = Linear(sizes[0], wide), Linear(wide, sizes[1])
        self.inner, self.norm = BatchNorm(wide), BatchNorm(sizes[1])

    def forward(self, x: Tensor, batch: PaddedBatch, embedding: nn.Linear | None, noise: Tensor | None) -> Tensor:
        """Apply the layer to node features: [V, F] -> [V, F]."""
        if kernels := kernels_for("pna.realworld.kernels.message", x, self.bonds.weight, batch.neighbourhoods):
            graph = batch.neighbourhoods
            y = kernels.received(x, self.bonds.weight, self.eps, None, batch.edge, batch.count, graph)
        else:
            received = _relu_sum(x, self.bonds(batch.edge), batch.real, batch.neighbourhoods)  # s_j = 1
            y = (1 + self.eps) * x + received
        y = self.second(self.inner(self.first(y), batch, activation="relu"))
        return self.norm(y, batch, activation=None if self.last else "relu", noise=noise, p=self.p)


def _relu_sum(x: Tensor, edge: Tensor, scale: Tensor, graph: Neighbourhoods) -> Tensor:
    """Sum s_j ReLU(x_j + e_ij) over the neighbours: x [V, F], edge [E, F], scale [V, 1] -> [V, F]."""
    return segments.sum(functional.relu(sent(x, graph) + edge) * sent(scale, graph), graph.ptr, graph.joined)


OGB: dict[str, type[nn.Module]] = {"ogb-gcn": OGBGCNLayer, "ogb-gin": OGBGINLayer}


def _finish(x: Tensor, y: Tensor, norm: BatchNorm, batch: PaddedBatch) -> Tensor:
    """Finish a layer as most do: times 1/√n, batch normalisation, ReLU, plus the input."""
    return norm(y, batch, batch.norm, activation="relu", residual=x)
