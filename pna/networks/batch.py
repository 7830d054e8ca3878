"""A batch in the form that the networks use: graphs of one size, end to end."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from pna.multitask import Batch
from pna.neighbourhoods import Neighbourhoods
from pna.networks.kernels.routes import Routes
from pna.networks.kernels.tiles import Tiles

__all__ = ["GraphBatch"]


@dataclass(frozen=True)
class GraphBatch:
    """G undirected graphs of N nodes each, V = G·N nodes in all: node n of graph g is row g·N + n."""

    G: int
    N: int
    x: Tensor  # [V, 2]
    neighbourhoods: Neighbourhoods
    reverse: Tensor  # [E], place of the message from i to j for each from j to i
    y_node: Tensor  # [V, 3]
    y_graph: Tensor  # [G, 3]

    @classmethod
    def of(cls, batch: Batch, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Self:
        """Convert a batch of the benchmark; its graphs must have one size, as those of GraphSet.batches do."""
        sizes = batch.sizes.unique().tolist()
        if len(sizes) != 1:
            raise ValueError(f"a batch must hold graphs of one size, got the sizes {sizes}")
        neighbourhoods = Neighbourhoods(batch.ptr, batch.source, None)
        source, target, V = batch.source, neighbourhoods.target, len(batch.x)
        reverse = torch.empty_like(source)
        reverse[(target * V + source).argsort()] = (source * V + target).argsort()
        return cls(
            G=len(batch.sizes),
            N=sizes[0],
            x=batch.x.to(device, dtype),
            neighbourhoods=Neighbourhoods(*(t.to(device) for t in (batch.ptr, batch.source)), None).with_transpose(
                reverse.to(device)
            ),
            reverse=reverse.to(device),
            y_node=batch.y_node.to(device, dtype),
            y_graph=batch.y_graph.to(device, dtype),
        )

    def padded(self, features: int) -> Tensor:
        """The input x padded with zeros to [V, features], cached."""
        if features not in self._padded:
            with torch.inference_mode(False):  # so that a training can use it, too
                self._padded[features] = functional.pad(self.x, (0, features - self.x.shape[1]))
        return self._padded[features]

    @cached_property
    def _padded(self) -> dict[int, Tensor]:
        """Cache of `padded`, by number of features."""
        return {}

    @cached_property
    def tiles(self) -> dict[tuple, Tiles]:
        """Cache of the graphs as the CUDA kernels of all layers read them, by what these are compiled for."""
        return {}

    @cached_property
    def routes(self) -> dict[bool, Routes]:
        """Cache of the messages as the attention's kernels read them: as described (False), and with D6 (True)."""
        return {}

    def by_graph(self, x: Tensor) -> Tensor:
        """View the nodes [V, F] by graph, [G, N, F]."""
        return x.view(self.G, self.N, -1)

    def to_nodes(self, v: Tensor) -> Tensor:
        """Repeat one value per graph, [G], for each of its nodes, [V, 1]."""
        return v.repeat_interleave(self.N, output_size=len(self.x)).unsqueeze(1)

    @cached_property
    def diameter(self) -> Tensor:
        """The largest finite distance between two nodes of each graph, [G]."""
        first = self.neighbourhoods.target // self.N * self.N
        reach = torch.eye(self.N, device=self.x.device).expand(self.G, -1, -1)
        step = reach.clone()  # adjacency with self-loops, [G, N, N]
        step[first // self.N, self.neighbourhoods.target - first, self.neighbourhoods.source - first] = 1
        diameter = torch.zeros(self.G, dtype=torch.long, device=self.x.device)
        for distance in range(1, self.N):
            further = ((reach @ step) > 0).to(reach.dtype)
            diameter[(further != reach).flatten(1).any(1)] = distance
            reach = further
        return diameter

    @cached_property
    def widest(self) -> int:
        """The largest diameter in the batch, at least 1."""
        return max(1, int(self.diameter.max()))
