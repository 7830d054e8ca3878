"""The PNA layer (section 2.3, equations 7 and 8).

X_i' = U( X_i, ⊕_{(j,i) ∈ E} M(X_i, E_{j→i}, X_j) )
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import PNAConv as PyGConv

from pna import fused, pyg
from pna.arguments import choice, divisible, positive, same_device, same_dtype, tensor
from pna.combined import CombinedAggregation
from pna.gather import aggregate
from pna.neighbourhoods import FLOWS, Neighbourhoods
from pna.scalers import DegreeStatistics, degree_histogram
from pna.towers import Activation, mlp

__all__ = ["PNAConv", "PNASimpleConv"]


class _Layer(nn.Module):
    """What the two layers share: how they take nodes and edges."""

    def __init__(self, in_channels: int, out_channels: int, cached: bool, flow: str) -> None:
        super().__init__()
        self.in_channels = positive("in_channels", in_channels)
        self.out_channels = positive("out_channels", out_channels)
        self.cached = cached
        self.flow = choice("flow", flow, FLOWS)
        self._cache: Neighbourhoods | None = None

    def reset_parameters(self) -> None:
        """Draws all weights anew, sets δ back to the training set's, and forgets a cached graph."""
        self._cache = None
        for child in self.modules():
            if child is not self and hasattr(child, "reset_parameters"):
                child.reset_parameters()

    def forget_graph(self) -> None:
        """Lets a layer with cached=True take another graph at the next call."""
        self._cache = None

    def _apply(self, *args: Any, **kwargs: Any) -> "_Layer":
        self._cache = None  # a cached graph does not move with the weights
        return super()._apply(*args, **kwargs)

    def graph(self, x: Tensor, edges: Tensor | Neighbourhoods) -> Neighbourhoods:
        """Checks x against the weights and gives the graph in CSR order."""
        weight = self.U[0].weight
        tensor("x", x)
        if x.dim() != 2 or x.shape[1] != self.in_channels:
            raise ValueError(f"x must have the shape [N, in_channels = {self.in_channels}], got {tuple(x.shape)}")
        same_device("x", x, "the layer's weights", weight)
        same_dtype("x", x, weight)
        neighbourhoods = self._cache if self._cache is not None else self._sorted(x, edges)
        if neighbourhoods.num_nodes != x.shape[0]:
            hint = "; cached=True keeps the first graph until forget_graph()" if self.cached else ""
            raise ValueError(f"x must have a row for each of {neighbourhoods.num_nodes} nodes, got {len(x)}{hint}")
        if self.cached and not torch.is_inference_mode_enabled():  # inference tensors cannot be trained with later
            self._cache = neighbourhoods
        return neighbourhoods

    def _sorted(self, x: Tensor, edges: Tensor | Neighbourhoods) -> Neighbourhoods:
        given = isinstance(edges, Neighbourhoods)
        if given or isinstance(edges, Tensor):
            same_device("edge_index", edges.ptr if given else edges, "x", x)
        return edges if given else Neighbourhoods.of(edges, len(x), self.flow)


class PNAConv(_Layer):
    """Principal Neighbourhood Aggregation, with the constructor of torch_geometric.nn.PNAConv.

    Every tower t combines its aggregators and scalers as in equation 7, for instance

        ⊕_t = [identity, amplification, attenuation] ⊗ [mean, std, max, min],

    computes equation 8 with its own M and U, and a mixing layer takes the towers together.

    A linear M is split into its parts for the receiver, the edge and the sender, M = W1 x_i + W3 e_ij + W2 x_j + b, so
    that only the sender's part is aggregated; on a CPU no tensor of messages exists without edge features.

    Args:
        in_channels: size of x.
        out_channels: size of the output, shared out among the towers.
        aggregators: names from pna.aggregators: mean, max, min, std, var, sum, softmax, softmin, moment<n>.
        scalers: identity, amplification, attenuation, linear, inverse_linear, or a number: α of equation 6.
        deg: how many nodes of the training set have degree 0, 1, 2, …, or DegreeStatistics; the identity needs none.
        edge_dim: size of the edge features, if there are any.
        towers: number of towers.
        pre_layers: number of layers of M; with more than one M is not linear, and its messages are made, [E, T, F].
        post_layers: number of layers of U.
        divide_input: whether the towers share out the input features or each see all of them.
        act: the activation between the layers of M and of U.
        act_kwargs: its arguments.
        train_norm: whether δ and the mean degree are learned.
        cached: the caller's word that the graph is always the same, so that it is sorted once.
        flow: which end of an edge receives, as in torch_geometric.
        swap_extremes: departure D5 of the released code: max and min take M(x_j, x_i), the two roles swapped.

    There are two differences to PyTorch Geometric's layer: std is the paper's (equation 3), where theirs is 0 for
    σ² <= ε; and where no messages exist, there are no hooks on them.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        aggregators: Sequence[str],
        scalers: Sequence[str | float],
        deg: Tensor | DegreeStatistics | None = None,
        edge_dim: int | None = None,
        towers: int = 1,
        pre_layers: int = 1,
        post_layers: int = 1,
        divide_input: bool = False,
        act: Activation = "relu",
        act_kwargs: dict[str, Any] | None = None,
        train_norm: bool = False,
        *,
        cached: bool = False,
        flow: str = "source_to_target",
        swap_extremes: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, cached, flow)
        self.towers = positive("towers", towers)
        self.edge_dim = None if edge_dim is None else positive("edge_dim", edge_dim)
        self.divide_input = divide_input
        self.swap_extremes = swap_extremes
        if swap_extremes and (edge_dim is not None or pre_layers != 1):
            raise ValueError("swap_extremes (D5) is for a linear M without edge features: edge_dim=None, pre_layers=1")
        self.F_in = divisible("in_channels", in_channels, towers) if divide_input else in_channels
        self.F_out = divisible("out_channels", out_channels, towers)
        self.linear = pre_layers == post_layers == 1 and edge_dim is None and not (swap_extremes or train_norm)

        self.combined = CombinedAggregation(aggregators, scalers, deg, train_norm)
        if edge_dim is not None:
            self.edge_encoder = nn.Linear(edge_dim, self.F_in)
        parts = 2 if edge_dim is None else 3  # of M's input: x_i, x_j, e_ij
        self.M = mlp("pre_layers", pre_layers, towers, (parts * self.F_in, self.F_in), act, act_kwargs)
        width = 1 + self.combined.width  # of U's input: x_i and the scaled aggregates
        self.U = mlp("post_layers", post_layers, towers, (width * self.F_in, self.F_out), act, act_kwargs)
        self.mix = nn.Linear(out_channels, out_channels)

    @classmethod
    def from_pyg(cls, conv: PyGConv) -> "PNAConv":
        """The same layer as a torch_geometric.nn.PNAConv, with a copy of its weights."""
        layer = cls(**pyg.arguments(conv))
        pyg.copy_weights(conv, layer)
        return layer

    @staticmethod
    def get_degree_histogram(loader: Iterable) -> Tensor:
        """The argument `deg` from a loader of the training graphs."""
        return degree_histogram(loader)

    def forward(self, x: Tensor, edge_index: Tensor | Neighbourhoods, edge_attr: Tensor | None = None) -> Tensor:
        """x [N, in_channels], edges (j, i) in any order [2, E], edge_attr [E, edge_dim] -> [N, out_channels]."""
        if edge_attr is None and isinstance(x, Tensor) and fused.takes(self, x, edge_index):
            return fused.layer(self, x, edge_index)
        graph = self.graph(x, edge_index)
        edge = self._take_edges(edge_attr, graph, x)
        x = x.unflatten(1, (-1, self.F_in))  # [N, T, F_in], or [N, 1, F_in] if every tower sees all
        first, *rest = self.U
        encoder = None if edge is None else self.edge_encoder
        y = fused.split(x, graph, self.M, first, self.combined, edge, encoder, self.swap_extremes)  # [N, T, F_out]
        for layer in rest:
            y = layer(y)
        return self.mix(y.flatten(1))  # [N, out_channels]

    def _take_edges(self, edge_attr: Tensor | None, neighbourhoods: Neighbourhoods, x: Tensor) -> Tensor | None:
        """Checks the edge features and puts them in the order of the messages."""
        if edge_attr is None and self.edge_dim is None:
            return None
        if edge_attr is None:
            raise ValueError(f"edge_attr is missing: the layer was made with edge_dim={self.edge_dim}")
        if self.edge_dim is None:
            raise ValueError(f"edge_attr {tuple(edge_attr.shape)} was given, but the layer was made without edge_dim")
        tensor("edge_attr", edge_attr)
        wanted = (neighbourhoods.num_edges, self.edge_dim)
        if edge_attr.shape != wanted:
            raise ValueError(f"edge_attr must have the shape [E, edge_dim] = {wanted}, got {tuple(edge_attr.shape)}")
        same_device("edge_attr", edge_attr, "x", x)
        same_dtype("edge_attr", edge_attr, self.mix.weight)
        return neighbourhoods.sort(edge_attr)

    def __repr__(self) -> str:
        combined = self.combined.extra_repr()
        return (
            f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {combined}, "
            f"towers={self.towers}, edge_dim={self.edge_dim})"
        )


class PNASimpleConv(_Layer):
    """The PNA layer without M and towers, as on MolHIV: X_i' = U( ⊕_{(j,i) ∈ E} X_j ).

    The arguments are those of PNAConv.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        aggregators: Sequence[str],
        scalers: Sequence[str | float],
        deg: Tensor | DegreeStatistics | None = None,
        post_layers: int = 1,
        act: Activation = "relu",
        act_kwargs: dict[str, Any] | None = None,
        train_norm: bool = False,
        *,
        cached: bool = False,
        flow: str = "source_to_target",
    ) -> None:
        super().__init__(in_channels, out_channels, cached, flow)
        self.combined = CombinedAggregation(aggregators, scalers, deg, train_norm)
        sizes = (self.combined.width * in_channels, out_channels)
        self.U = mlp("post_layers", post_layers, 1, sizes, act, act_kwargs)

    def forward(self, x: Tensor, edge_index: Tensor | Neighbourhoods) -> Tensor:
        """x [N, in_channels], edges (j, i) in any order [2, E] -> [N, out_channels]."""
        first, *rest = self.U
        neighbourhoods = self.graph(x, edge_index)
        aggregates = aggregate(neighbourhoods, self.combined.aggregators, source=x.unsqueeze(1))  # [N, 1, A, in]
        y = self.combined(aggregates, neighbourhoods.degree, first.weight) + first.bias
        for layer in rest:
            y = layer(y)
        return y.squeeze(1)  # [N, 1, out_channels] -> [N, out_channels]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {self.combined.extra_repr()})"
