"""The PNA layer (section 2.3, equations 7 and 8).

X_i' = U( X_i, ⊕_{(j,i) ∈ E} M(X_i, E_{j→i}, X_j) )
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import PNAConv as PyGConv

from pna import direct, fused, pyg
from pna.arguments import divisible, flag, positive, same_device, same_dtype, tensor
from pna.combined import CombinedAggregation
from pna.gather import aggregate
from pna.layer import Layer, Nodes
from pna.neighbourhoods import Neighbourhoods
from pna.scalers import DegreeStatistics, degree_histogram
from pna.towers import Activation, mlp

__all__ = ["PNAConv", "PNASimpleConv"]


class PNAConv(Layer):
    """Principal Neighbourhood Aggregation, with the constructor of torch_geometric.nn.PNAConv.

    Every tower t combines its aggregators and scalers as in equation 7, for instance

        ⊕_t = [identity, amplification, attenuation] ⊗ [mean, std, max, min],

    computes equation 8 with its own M and U, and a mixing layer takes the towers together.

    A linear M is split into its parts for the receiver, the edge and the sender, M = W1 x_i + W3 e_ij + W2 x_j + b, so
    that only the sender's part is aggregated; on a CPU no tensor of messages exists without edge features.

    Args:
        in_channels: size of x, or -1: of the first x that comes.
        out_channels: size of the output, shared out among the towers.
        aggregators: names from pna.aggregators: mean, max, min, std, var, sum, softmax, softmin, `moment<n>`.
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

    What differs from PyTorch Geometric's layer: std is the paper's (equation 3), where theirs is 0 for σ² <= ε. M, U
    and mix stand for pre_nns, post_nns and lin. There is no propagate(), no aggr_module, no message() to override and
    no hook on messages, since none are made where nobody looks. They are made where an explanation masks them, or where
    M, U or edge_encoder has a hook, a parametrization or another module in its place; all of these work.

    On a GPU the layers that are given the same small edge_index sort it once, until torch sees it written to; it does
    not see what a CUDA graph writes when it is replayed, nor what is written through `.data`.
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
        self.divide_input = flag("divide_input", divide_input)
        self.swap_extremes = flag("swap_extremes", swap_extremes)
        if swap_extremes and (edge_dim is not None or pre_layers != 1):
            raise ValueError("swap_extremes (D5) is for a linear M without edge features: edge_dim=None, pre_layers=1")
        self.F_out = divisible("out_channels", out_channels, towers)
        self.linear = pre_layers == post_layers == 1 and edge_dim is None and not (swap_extremes or train_norm)
        self.combined = CombinedAggregation(aggregators, scalers, deg, train_norm)
        self.F_in = F_in = 0 if in_channels == -1 else self._share(in_channels)
        if edge_dim is not None:
            self.edge_encoder = nn.Linear(edge_dim, F_in) if F_in else _Encoder(edge_dim)
        self.M = mlp("pre_layers", pre_layers, towers, (self._parts * F_in, F_in), act, act_kwargs)
        self.U = mlp(
            "post_layers", post_layers, towers, ((1 + self.combined.width) * F_in, self.F_out), act, act_kwargs
        )
        self.mix = nn.Linear(out_channels, out_channels)

    @classmethod
    def from_pyg(cls, conv: PyGConv) -> "PNAConv":
        """The same layer as a torch_geometric.nn.PNAConv, with a copy of its weights."""
        layer = cls(**pyg.arguments(conv))
        pyg.copy_weights(conv, layer)
        return layer

    def to_pyg(self) -> PyGConv:
        """The same layer as a torch_geometric.nn.PNAConv, with a copy of the weights; std differs by its ε."""
        return pyg.made_from(self)

    @staticmethod
    def get_degree_histogram(loader: Iterable) -> Tensor:
        """The argument `deg` from a loader of the training graphs."""
        return degree_histogram(loader)

    def forward(self, x: Nodes, edge_index: Tensor | Neighbourhoods, edge_attr: Tensor | None = None) -> Tensor:
        """x [N, in_channels], edges (j, i) in any order [2, E], edge_attr [E, edge_dim] -> [N, out_channels].

        Where senders and receivers are two kinds of nodes, x is a pair, one for each row of edge_index.
        """
        if edge_attr is None and isinstance(x, Tensor) and fused.supports(self, x, edge_index):
            return fused.layer(self, x, edge_index)
        senders, receivers, graph = self.take(x, edge_index)
        edge = self._take_edges(edge_attr, graph, receivers)
        two, own = senders is not receivers, not self._explain and fused.untouched(self)
        if own and not two and edge is None and direct.supports(self, receivers, graph):
            return direct.layer(self, receivers, graph)
        x_i = receivers.unflatten(1, (-1, self.F_in))  # [N, T, F_in], or [N, 1, F_in] if every tower sees all
        x_j = senders.unflatten(1, (-1, self.F_in)) if two else x_i
        if not own or (two and self.swap_extremes):
            y = self._as_it_stands(x_i, x_j, edge, graph)
        else:
            first, *rest = self.U
            encoder = None if edge is None else self.edge_encoder
            y = fused.split(x_i, x_j, graph, self.M, first, self.combined, edge, encoder, self.swap_extremes)
            for layer in rest:
                y = layer(y)
        return self.mix(y.flatten(1))  # [N, T, F_out] -> [N, out_channels]

    def _as_it_stands(self, x_i: Tensor, x_j: Tensor, edge: Tensor | None, graph: Neighbourhoods) -> Tensor:
        """Equation 8, messages and all, [N, T, F_out]: where M or U is not the layer's own, or messages are masked."""
        of_i, of_j = x_i[graph.target], x_j[graph.source]  # [E, T or 1, F_in]
        names = self.combined.aggregators
        aggregates = aggregate(graph, names, edge=self._messages(of_i, of_j, edge, graph))  # [N, T, A, F_in]
        if self.swap_extremes:  # D5: max and min of M(x_j, x_i)
            swapped = aggregate(graph, names, edge=self._messages(of_j, of_i, edge, graph))
            extreme = torch.tensor([name in ("max", "min") for name in names], device=swapped.device)
            aggregates = torch.where(extreme.unsqueeze(1), swapped, aggregates)
        combined = self.combined(aggregates, graph.degree)  # [N, T, S·A·F_in]
        return self.U(torch.cat([x_i.expand(-1, combined.shape[1], -1), combined], dim=-1))

    def _messages(self, x_i: Tensor, x_j: Tensor, edge: Tensor | None, graph: Neighbourhoods) -> Tensor:
        """M(x_i, e_ij, x_j) of every edge, [E, T, F_in]."""
        parts = [x_i, x_j]
        if edge is not None:
            parts.append(self.edge_encoder(edge).unsqueeze(1).expand_as(x_i))
        return self._explained(self.M(torch.cat(parts, dim=-1)), graph)

    @property
    def _parts(self) -> int:
        """Of M's input: x_i, x_j, e_ij."""
        return 2 if self.edge_dim is None else 3

    def _share(self, in_channels: int) -> int:
        return divisible("in_channels", in_channels, self.towers) if self.divide_input else in_channels

    def materialise(self, in_channels: int) -> None:
        """Makes the weights of a layer with in_channels=-1, once the size of x is known."""
        self.F_in = F_in = self._share(positive("in_channels", in_channels))
        self.in_channels = in_channels
        for k, layer in enumerate(self.M[::2]):
            layer.materialise(self.towers, F_in if k else self._parts * F_in, F_in)
        self.U[0].materialise(self.towers, (1 + self.combined.width) * F_in, self.F_out)
        if self.edge_dim is not None:
            self.edge_encoder.materialise(F_in)

    def _in_channels_of(self, width: int) -> int:
        return width // (1 + self.combined.width) * (self.towers if self.divide_input else 1)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        pyg.translate(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _last(self) -> nn.Module:
        return self.mix

    def _take_edges(self, edge_attr: Tensor | None, neighbourhoods: Neighbourhoods, x: Tensor) -> Tensor | None:
        """Checks the edge features and puts them in the order of the messages."""
        if edge_attr is None and self.edge_dim is None:
            return None
        if edge_attr is None:
            raise ValueError(f"edge_attr is missing: the layer was made with edge_dim={self.edge_dim}")
        tensor("edge_attr", edge_attr)
        if self.edge_dim is None:
            raise ValueError(f"edge_attr {tuple(edge_attr.shape)} was given, but the layer was made without edge_dim")
        wanted = (neighbourhoods.num_edges, self.edge_dim)
        if edge_attr.shape != wanted:
            raise ValueError(f"edge_attr must have the shape [E, edge_dim] = {wanted}, got {tuple(edge_attr.shape)}")
        same_device("edge_attr", edge_attr, "x", x)
        same_dtype("edge_attr", edge_attr, self._weight())
        return neighbourhoods.sort(edge_attr)

    def __repr__(self) -> str:
        sizes = f"{self.in_channels}, {self.out_channels}, towers={self.towers}, edge_dim={self.edge_dim}"
        return f"{type(self).__name__}({sizes})"


class _Encoder(nn.Linear):
    """The encoder of the edges, of a size that is not known yet."""

    def __init__(self, edge_dim: int) -> None:
        super().__init__(edge_dim, 1)
        self.weight, self.bias = nn.UninitializedParameter(), nn.UninitializedParameter()

    def materialise(self, out_features: int) -> None:
        """Makes the weights, and is a plain linear map from then on."""
        self.out_features = out_features
        self.weight.materialize((out_features, self.in_features))
        self.bias.materialize((out_features,))
        self.__class__ = nn.Linear
        self.reset_parameters()


class PNASimpleConv(Layer):
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
        sizes = (self.combined.width * max(in_channels, 0), out_channels)
        self.U = mlp("post_layers", post_layers, 1, sizes, act, act_kwargs)

    def forward(self, x: Nodes, edge_index: Tensor | Neighbourhoods) -> Tensor:
        """x [N, in_channels], edges (j, i) in any order [2, E] -> [N, out_channels]."""
        senders, _, graph = self.take(x, edge_index)
        names = self.combined.aggregators
        if self._explain or not fused.untouched(self):
            m = self._explained(senders[graph.source].unsqueeze(1), graph)  # [E, 1, in]
            y = self.U(self.combined(aggregate(graph, names, edge=m), graph.degree))
        else:
            first, *rest = self.U
            aggregates = aggregate(graph, names, source=senders.unsqueeze(1))  # [N, 1, A, in]
            y = self.combined.mapped(aggregates, graph.degree, first.weight) + first.bias
            for layer in rest:
                y = layer(y)
        return y.squeeze(1)  # [N, 1, out_channels] -> [N, out_channels]

    def materialise(self, in_channels: int) -> None:
        """Makes the weights of a layer with in_channels=-1, once the size of x is known."""
        self.in_channels = positive("in_channels", in_channels)
        self.U[0].materialise(1, self.combined.width * in_channels, self.out_channels)

    def _in_channels_of(self, width: int) -> int:
        return width // self.combined.width

    def _last(self) -> nn.Module:
        return self.U

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {self.combined.extra_repr()})"
