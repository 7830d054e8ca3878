"""The graph convolutions that the paper compares (section 2.3 and the appendix "Alternative graph convolutions").

Each maps the nodes of a batch, [V, in], to [V, out], including its activation.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from pna import segments
from pna.degrees import DegreeStatistics
from pna.dispatch import aggregate
from pna.networks.batch import GraphBatch
from pna.networks.kernels.routes import Routes
from pna.networks.layers import MLP, activated, initialise
from pna.networks.specification import NetworkSpec

__all__ = ["GAT", "GCN", "GIN", "PNA"]

TOWERS = 4
HEADS = 4


class PNA(nn.Module):
    """Equations 7 and 8 with a linear M and U, four towers, and a mixing layer with LeakyReLU.

    With one aggregator and no scaler it is equation 14, the MPNN of the appendix. In the first convolution each tower
    gets all input features; in the later ones the towers divide them.
    """

    kind = "pna"  # the kernels' name for it

    def __init__(
        self,
        sizes: tuple[int, int],
        spec: NetworkSpec,
        degrees: DegreeStatistics,
        aggregators: Sequence[str],
        scalers: Sequence[str],
    ) -> None:
        super().__init__()
        from pna.conv import PNAConv  # it imports PyTorch Geometric, which the other models do not need

        rounded = "rounded_" if spec.centred_once else ""  # D12
        self.conv = PNAConv(
            *sizes,
            [rounded + name if name.startswith("moment") else name for name in aggregators],
            scalers,
            degrees,
            towers=TOWERS,
            divide_input=sizes[0] == sizes[1],
            swap_extremes=spec.swapped_extremes,
        )
        for layer in (self.conv.M[0], self.conv.U[0], self.conv.mix):
            initialise(layer.weight, spec, layer.bias)

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Apply the layer to node features: [V, in] -> [V, out]."""
        return functional.leaky_relu(self.conv(x, batch.neighbourhoods))


class GCN(nn.Module):
    """Equation 11: σ(D̃^-1/2 Ã D̃^-1/2 X W + b) with Ã = A + I (Kipf and Welling), σ = LeakyReLU."""

    kind = "gcn"

    def __init__(self, sizes: tuple[int, int], spec: NetworkSpec, degrees: DegreeStatistics) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(sizes))
        self.bias = nn.Parameter(torch.empty(sizes[1]))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -1 / math.sqrt(sizes[1]), 1 / math.sqrt(sizes[1]))

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Apply the layer to node features: [V, in] -> [V, out]."""
        h = activated(x, self.weight.t(), None, "identity")
        norm = torch.rsqrt(batch.neighbourhoods.degree.to(x.dtype) + 1).unsqueeze(1)  # [V, 1]
        h = norm * h
        neighbours = aggregate(batch.neighbourhoods, ["sum"], source=h).squeeze(1)  # [V, 1, out] -> [V, out]
        return functional.leaky_relu(norm * (neighbours + h) + self.bias)


class GIN(nn.Module):
    """Equation 13: U((1 + ε) x_i + Σ_j x_j) with a two-layer MLP U and a learnable ε (Xu et al.)."""

    kind = "gin"

    def __init__(self, sizes: tuple[int, int], spec: NetworkSpec, degrees: DegreeStatistics) -> None:
        super().__init__()
        self.epsilon = nn.Parameter(torch.tensor([0.1]))
        self.U = MLP([sizes[0], sizes[1], sizes[1]], spec, last="relu", norm=True)

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Apply the layer to node features: [V, in] -> [V, out]."""
        total = (1 + self.epsilon) * x + aggregate(batch.neighbourhoods, ["sum"], source=x).squeeze(1)
        return self.U(total, nodes_per_graph=batch.N)


class GAT(nn.Module):
    """Equation 12: Σ_j a(x_i, x_j) W x_j with four heads of attention (Veličković et al.), ELU after it.

    D6: the released code pairs other nodes than i and j in the logits, and takes the softmax over the receivers i of a
    sender j instead of the senders of a receiver.
    """

    kind = "gat"

    def __init__(self, sizes: tuple[int, int], spec: NetworkSpec, degrees: DegreeStatistics) -> None:
        super().__init__()
        self.mispaired = spec.mispaired_attention
        F = sizes[1] // HEADS
        self.weight = nn.Parameter(torch.empty(HEADS, F, sizes[0]))
        self.attention = nn.Parameter(torch.empty(HEADS, 2 * F))  # of the receiver's features, then the sender's
        for parameter, fans in ((self.weight, sizes[0] + F), (self.attention, 2 * F + 1)):
            bound = 0.1414 * math.sqrt(6 / fans)
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Apply the layer to node features: [V, in] -> [V, out]."""
        h = activated(x, self.weight.flatten(0, 1), None, "identity").unflatten(1, (HEADS, -1))  # [V, heads, F]
        return functional.elu(self._attended(h, batch).flatten(1))

    def _attended(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Σ_j a(x_i, x_j) h_j for each head, [V, heads, F]."""
        ptr, source = batch.neighbourhoods[:2]
        weights = _softmax(self._logits(h, *self._pairs(batch)), ptr)  # [E, heads]
        if self.mispaired:
            weights = weights[batch.reverse]  # the weight from j to i is at (j, i)
        return segments.sum(weights.unsqueeze(-1) * h[source], ptr)

    def routes(self, batch: GraphBatch) -> Routes:
        """The batch's messages as the kernels read them, cached in the batch."""
        if self.mispaired not in batch.routes:
            graph = (*batch.neighbourhoods[:2], batch.reverse)
            batch.routes[self.mispaired] = Routes.of(*graph, self._pairs(batch), not self.mispaired)
        return batch.routes[self.mispaired]

    def _logits(self, h: Tensor, receiver: Tensor, sender: Tensor) -> Tensor:
        """Logits of the messages between these nodes, [E] each, from h [V, heads, F]: [E, heads]."""
        first, second = self.attention.chunk(2, dim=1)
        left, right = (h * first).sum(-1), (h * second).sum(-1)  # [V, heads]
        return functional.leaky_relu(left[receiver] + right[sender], 0.2)

    def _pairs(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Receiver and sender whose features enter each logit, [E] each; one softmax covers a row of messages.

        D6: row j lists the messages from j to its receivers i, and the list [h_0 N times, h_1 N times, …; h_0, h_1, …,
        h_0, …] of 2N² rows is read two rows at a time.
        """
        N, target, source = batch.N, batch.neighbourhoods.target, batch.neighbourhoods.source
        if not self.mispaired:
            return target, source
        first = target // N * N  # the first node of each message's graph
        row = 2 * ((source - first) * N + target - first)  # 2 (i N + j)
        return tuple(torch.where(r < N * N, r // N, (r - N * N) % N) + first for r in (row, row + 1))


def _softmax(logits: Tensor, ptr: Tensor) -> Tensor:
    """Softmax of the logits [E, heads] over each neighbourhood, [E, heads]."""
    top = segments.max(logits.detach(), ptr)
    weight = (logits - segments.spread(top, ptr, len(logits))).exp()
    return weight / segments.spread(segments.sum(weight, ptr), ptr, len(logits))
