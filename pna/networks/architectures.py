"""The two architectures: recurrent (section 3, figure 3) and standard (appendix "Standard architecture").

A network maps a batch to the predictions of the three node labels, [V, 3], and of the three graph labels, [G, 3].
"""

import itertools
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from pna.kernels.selection import kernels_for
from pna.networks.batch import GraphBatch
from pna.networks.depths import DEPTHS, Depth, Each, Until
from pna.networks.layers import GRU, Set2Set, head
from pna.networks.specification import NetworkSpec

__all__ = ["ARCHITECTURES", "Recurrent", "Standard"]

INPUTS = 2  # one-hot source, random feature
OUTPUTS = 3  # node labels, and graph labels

Convolution = Callable[[tuple[int, int]], nn.Module]


class Recurrent(nn.Module):
    """GC_1, then GC_m repeatedly, with a GRU after each; then heads of three layers, for the graphs after S2S.

    The appendix ablates GRU and S2S: without the one, the states are the convolutions' outputs; without the other, the
    readout is the mean over nodes.
    """

    def __init__(
        self,
        convolution: Convolution,
        hidden: int,
        spec: NetworkSpec,
        depth: Depth = DEPTHS["N/2"],
        gru: bool = True,
        s2s: bool = True,
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.depth = depth
        self.GC_1 = convolution((INPUTS, hidden))
        self.GC_m = convolution((hidden, hidden))
        self.gru = GRU(hidden) if gru else None
        self.nodes = head([hidden, hidden, hidden, OUTPUTS], spec)
        self.readout = Set2Set(hidden) if s2s else None
        self.graphs = head([(1 + s2s) * hidden, hidden, hidden, OUTPUTS], spec, norm=True)

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Node predictions [V, 3] and graph predictions [G, 3]."""
        x, depth = batch.padded(self.hidden), self.depth(batch)
        arguments = (x, batch, (self.GC_1, self.GC_m), depth, self.gru and self.gru.gates, False)
        if kernels := kernels_for("pna.networks.kernels.recurrence", *arguments):
            x = kernels.all_layers(*arguments)
        else:
            x = self._states(x, depth, batch)
        states = batch.by_graph(x)  # [G, N, hidden]
        return self.nodes(x), self.graphs(states.mean(dim=1) if self.readout is None else self.readout(states))

    def _states(self, x: Tensor, depth: int | Each | Until, batch: GraphBatch) -> Tensor:
        """States of the nodes after all layers, [V, hidden]; x: the padded input, [V, hidden]."""
        x = self._gated(x, self.GC_1(batch.x, batch))
        goes_on = torch.ones(batch.G, dtype=torch.bool, device=x.device)
        for m in range(1, depth if isinstance(depth, int) else depth.most):
            new = self._gated(x, self.GC_m(x, batch))
            if isinstance(depth, Each):
                goes_on = depth.layers > m
            new = new if isinstance(depth, int) else torch.where(batch.to_nodes(goes_on), new, x)
            if isinstance(depth, Until):
                goes_on = goes_on & (batch.by_graph((new - x).detach().abs()).amax(dim=(1, 2)) >= depth.threshold)
            x = new
        return x

    def _gated(self, x: Tensor, new: Tensor) -> Tensor:
        """States after the GRU, [V, hidden], from those before a layer and the convolution's output."""
        return new if self.gru is None else self.gru(x, new)


class Standard(nn.Module):
    """Eight convolutions without GRU; the heads see the input and the output of every layer; mean readout."""

    LAYERS = 8

    def __init__(self, convolution: Convolution, hidden: int, spec: NetworkSpec) -> None:
        super().__init__()
        self.hidden = hidden
        sizes = [INPUTS, *[hidden] * self.LAYERS]
        self.convolutions = nn.ModuleList(convolution(pair) for pair in itertools.pairwise(sizes))
        self.nodes = head([sum(sizes), hidden, hidden, OUTPUTS], spec)
        self.graphs = head([sum(sizes), hidden, hidden, OUTPUTS], spec, norm=True)

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Node predictions [V, 3] and graph predictions [G, 3]."""
        x = torch.cat([batch.x, self._layers(batch)], dim=-1)
        return self.nodes(x), self.graphs(batch.by_graph(x).mean(dim=1))

    def _layers(self, batch: GraphBatch) -> Tensor:
        """States of the nodes after each layer, [V, LAYERS · hidden]."""
        arguments = (batch.padded(self.hidden), batch, self.convolutions, self.LAYERS, None, True)
        if kernels := kernels_for("pna.networks.kernels.recurrence", *arguments):
            return kernels.all_layers(*arguments)
        layers = [batch.x]
        for convolution in self.convolutions:
            layers.append(convolution(layers[-1], batch))
        return torch.cat(layers[1:], dim=-1)


ARCHITECTURES: dict[str, Callable[..., nn.Module]] = {
    "recurrent": Recurrent,
    "standard": Standard,
    "no-gru": partial(Recurrent, gru=False),
    "mean-readout": partial(Recurrent, s2s=False),
}
