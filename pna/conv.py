"""The PNA layer (section 2.3, equations 7 and 8).

X_i' = U( X_i, ⊕_{(j,i) ∈ E} M(X_i, E_{j→i}, X_j) )
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import PNAConv as PyGConv

from pna import compiled, direct, dispatch, fused, pyg
from pna.arguments import divisible, flag, positive
from pna.combined import CombinedAggregation
from pna.degrees import DegreeStatistics, degree_histogram
from pna.dispatch import aggregate
from pna.layer import Layer, Nodes
from pna.neighbourhoods import Neighbourhoods
from pna.towers import Activation, LazyWeights, TowerLinear, mlp

__all__ = ["PNAConv", "PNASimpleConv"]


class PNAConv(Layer):
    """The PNA layer, a drop-in replacement for torch_geometric.nn.PNAConv.

    Every tower t computes equation 8 with its own M and U, and combines its aggregators and scalers as in equation 7,
    for instance

        ⊕_t = [identity, amplification, attenuation] ⊗ [mean, std, max, min].

    A linear map then mixes the outputs of all towers.

    Parameters
    ----------
    in_channels : int
        Size of x, or -1 to infer it from the first call.
    out_channels : int
        Size of the output, divided among the towers.
    aggregators : list of str
        Names from pna.aggregators: mean, max, min, std, var, sum, softmax, softmin, `moment<n>`.
    scalers : list of str or float
        Names (identity, amplification, attenuation, linear, inverse_linear), or numbers: α of equation 6.
    deg : Tensor or DegreeStatistics, optional
        How many nodes of the training set have degree 0, 1, 2, …; only the identity scaler needs none.
    edge_dim : int, optional
        Size of the edge features, if there are any.
    towers : int
        Number of towers.
    pre_layers : int
        Number of layers of M. With more than one, M is not linear, and its messages [E, T, F] are computed.
    post_layers : int
        Number of layers of U.
    divide_input : bool
        Whether the input features are divided among the towers, instead of all being given to each.
    act : str or callable, optional
        Activation between the layers of M and of U. One that is named, and has parameters, is created for each tower; a
        module is used as it is, in all of them.
    act_kwargs : dict, optional
        Arguments of the activation.
    train_norm : bool
        Whether δ and the mean degree are learned.
    train_alpha : bool
        Whether the exponents of all scalers but the identity are learned, from α = 1 for amplification and so on.
    cached : bool
        Whether the graph of the first call is sorted once and used in all later calls, whatever edge_index they get.
        Calls in inference mode, and those that torch.compile compiles, use that graph if there is one, but keep none.
    flow : str
        Which end of an edge receives, as in torch_geometric: source_to_target or target_to_source.
    swap_extremes : bool
        Departure D5 of the released code: max and min aggregate M(x_j, x_i), with the two roles swapped.

    Notes
    -----
    A linear M is split into parts for the receiver, the edge and the sender, M = W1 x_i + W3 e_ij + W2 x_j + b. Only
    the sender's part is aggregated, so without edge features no tensor of messages exists. pna.dispatch lists all paths
    that compute the layer.

    Differences from PyTorch Geometric's layer: std is the paper's equation 3, where theirs is 0 for σ² <= ε. M, U and
    mix stand for pre_nns, post_nns and lin. There is no propagate(), no aggr_module, no message() to override and no
    hook on messages. Messages are computed only where something needs them: an explanation that masks them, or a hook,
    a parametrization or another module in place of M, U or edge_encoder. All of these work.

    On a GPU, layers that are called with the same small edge_index sort it once, until torch sees a write to it. Torch
    sees neither what a replayed CUDA graph writes nor what is written through `.data`.
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
        train_alpha: bool = False,
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
        learned = train_norm or train_alpha
        self.linear = pre_layers == post_layers == 1 and not (swap_extremes or learned)
        self.combined = CombinedAggregation(aggregators, scalers, deg, train_norm, train_alpha)
        self.F_in = F_in = 0 if in_channels == -1 else self._share(in_channels)
        if edge_dim is not None:
            self.edge_encoder = nn.Linear(edge_dim, F_in) if F_in else _Encoder(edge_dim)
        self.M = mlp("pre_layers", pre_layers, towers, (self._parts * F_in, F_in), act, act_kwargs)
        self.U = mlp(
            "post_layers", post_layers, towers, ((1 + self.combined.width) * F_in, self.F_out), act, act_kwargs
        )
        self.mix = nn.Linear(out_channels, out_channels)

    @classmethod
    def from_pyg(cls, conv: PyGConv, trained_with: str | None = None, deg: Tensor | None = None) -> "PNAConv":
        """Convert a torch_geometric.nn.PNAConv, with a copy of its weights.

        trained_with is the version of PyTorch Geometric that trained the weights, as "2.1.0". Where that version
        differs from today's, the layer computes as it did, except for std, and a warning says what differs
        (pna.pyg.LIBRARIES). For versions before 2.1, deg is the histogram that the layer was created with.
        """
        if deg is not None and trained_with is None:
            raise ValueError("deg is for trained_with, a version before 2.1: the layer has its own δ")
        layer = cls(**pyg.arguments(conv))
        pyg.copy_weights(conv, layer)
        if trained_with is not None:
            pyg.compute_as(layer, trained_with, deg)
        return layer

    def to_pyg(self) -> PyGConv:
        """Convert to a torch_geometric.nn.PNAConv, with a copy of the weights; its std differs by ε.

        Their load_state_dict does not know our names ("Missing key(s) … pre_nns.0.0.weight"): give it
        `conv.to_pyg().state_dict()`.
        """
        return pyg.convert(self)

    @staticmethod
    def get_degree_histogram(loader: Iterable, mask: str | None = None, flow: str = "source_to_target") -> Tensor:
        """Count the degrees in a loader of training graphs, for `deg`, as the layer's flow has them.

        A mask, as train_mask, selects the nodes. Of a NeighborLoader's batches, only the seeds are counted; of a
        LinkNeighborLoader's, the ends of its links.
        """
        return degree_histogram(loader, mask, flow)

    def forward(self, x: Nodes, edge_index: Tensor | Neighbourhoods, edge_attr: Tensor | None = None) -> Tensor:
        """Compute equation 8.

        Parameters
        ----------
        x : Tensor [N, in_channels], or a pair [N_1, in_channels], [N_2, in_channels]
            Node features; for a bipartite graph, those of the nodes in the first and in the second row of edge_index.
        edge_index : Tensor [2, E] or Neighbourhoods
            Edges (j, i) in any order, PyTorch Geometric's EdgeIndex, a sparse transposed adjacency matrix, whose values
            are not read, or a graph that has been sorted before.
        edge_attr : Tensor [E, edge_dim], optional
            Edge features, in the order of edge_index.

        Returns
        -------
        Tensor [N, out_channels]
            The new features of the receiving nodes; for a pair, N is the number of receivers.
        """
        return dispatch.layer(self, x, edge_index, edge_attr)

    # ---- the paths of pna.dispatch ----

    def _whole_compiled(self, x: Tensor, edges: Tensor | Neighbourhoods, _: None) -> Tensor:
        """Compute the layer as a single operator, for torch.compile: x [N, in] -> [N, out]."""
        return compiled.layer(self, x, edges)

    def _whole_on_gpu(self, x: Tensor, edges: Tensor | Neighbourhoods, _: None) -> Tensor:
        """Compute the layer on a GPU in few kernel launches: x [N, in] -> [N, out]."""
        return fused.layer(self, x, edges)

    def _whole_on_cpu(self, _: Tensor, x: Tensor, graph: Neighbourhoods, edge: Tensor | None) -> Tensor:
        """Compute the layer on a CPU, with a backward pass written by hand; the arguments are those of `_split`."""
        return direct.layer(self, x, graph, None if edge is None else _all_or_nothing(edge))

    def _split(self, senders: Tensor, receivers: Tensor, graph: Neighbourhoods, edge: Tensor | None) -> Tensor:
        """Compute equation 8 with M in parts: x [N, in] and sorted edge features [E, edge_dim] -> [N, out]."""
        x_i, x_j = self._towers(senders, receivers)
        first, *rest = self.U
        encoder = None if edge is None else self.edge_encoder
        edge = None if edge is None else _all_or_nothing(edge)
        y = fused.split(x_i, x_j, graph, self.M, first, self.combined, edge, encoder, self.swap_extremes)
        for layer in rest:
            y = layer(y)
        return self.mix(y.flatten(1))  # [N, T, F_out] -> [N, out]

    def _with_messages(self, senders: Tensor, receivers: Tensor, graph: Neighbourhoods, edge: Tensor | None) -> Tensor:
        """Compute equation 8 as it stands, with a message for every edge; the arguments are those of `_split`."""
        x_i, x_j = self._towers(senders, receivers)
        of_i, of_j = x_i[graph.target], x_j[graph.source]  # [E, T or 1, F_in]
        names = self.combined.aggregators
        aggregates = aggregate(graph, names, edge=self._messages(of_i, of_j, edge, graph))  # [N, T, A, F_in]
        if self.swap_extremes:  # D5: max and min of M(x_j, x_i)
            swapped = aggregate(graph, names, edge=self._messages(of_j, of_i, edge, graph))
            extreme = torch.tensor([name in ("max", "min") for name in names], device=swapped.device)
            aggregates = torch.where(extreme.unsqueeze(1), swapped, aggregates)
        combined = self.combined(aggregates, graph.degree)  # [N, T, S·A·F_in]
        y = self.U(torch.cat([x_i.expand(-1, combined.shape[1], -1), combined], dim=-1))
        return self.mix(y.flatten(1))  # [N, T, F_out] -> [N, out]

    def _towers(self, senders: Tensor, receivers: Tensor) -> tuple[Tensor, Tensor]:
        """x_i and x_j for each tower, [N, T, F_in], or [N, 1, F_in] if every tower sees all features."""
        x_i = receivers.unflatten(1, (-1, self.F_in))
        return x_i, x_i if senders is receivers else senders.unflatten(1, (-1, self.F_in))

    def _messages(self, x_i: Tensor, x_j: Tensor, edge: Tensor | None, graph: Neighbourhoods) -> Tensor:
        """Compute M(x_i, e_ij, x_j) of every edge, [E, T, F_in]."""
        parts = [x_i, x_j]
        if edge is not None:
            parts.append(self.edge_encoder(edge).unsqueeze(1).expand_as(x_i))
        return self._explained(self.M(torch.cat(parts, dim=-1)), x_i, x_j, graph)

    @property
    def _parts(self) -> int:
        """Number of parts of M's input: x_i, x_j and perhaps e_ij."""
        return 2 if self.edge_dim is None else 3

    def _share(self, in_channels: int) -> int:
        """Number of input features of each tower: all of them or, with divide_input, an equal part."""
        return divisible("in_channels", in_channels, self.towers) if self.divide_input else in_channels

    def materialise(self, in_channels: int) -> None:
        """Create the weights of a layer with in_channels=-1, now that the size of x is known."""
        self.F_in = F_in = self._share(positive("in_channels", in_channels))
        first, *rest = (module for module in self.M if isinstance(module, TowerLinear))
        first.materialise(self.towers, self._parts * F_in, F_in)
        for layer in rest:
            layer.materialise(self.towers, F_in, F_in)
        first = next(module for module in self.U if isinstance(module, TowerLinear))
        first.materialise(self.towers, (1 + self.combined.width) * F_in, self.F_out)
        if self.edge_dim is not None:
            self.edge_encoder.materialise(F_in)
        self.in_channels = in_channels

    def _in_channels_of(self, width: int) -> int:
        """Compute in_channels from the width of U's input, F_in for x_i and F_in for each scaled aggregate."""
        return width // (1 + self.combined.width) * (self.towers if self.divide_input else 1)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        """Load weights from our own state dict or from that of PyTorch Geometric's layer."""
        pyg.translate(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _last(self) -> nn.Module:
        """The linear map `mix`, which is applied last."""
        return self.mix

    def __repr__(self) -> str:
        sizes = f"{self.in_channels}, {self.out_channels}, towers={self.towers}, edge_dim={self.edge_dim}"
        return f"{type(self).__name__}({sizes})"


def _all_or_nothing(edge: Tensor) -> Tensor:
    """Make a row of edge features NaN if one of them is not finite.

    Where W3 V stands in place of W3 (V e), an infinite feature would be an infinite message, and ReLU might make it 0.
    """
    return edge + (0 * edge.detach()).sum(-1, keepdim=True)


class _Encoder(LazyWeights, nn.Linear):
    """The linear encoder of the edge features while its output size is not known yet."""

    def __init__(self, edge_dim: int) -> None:
        super().__init__(edge_dim, 1)
        self.weight, self.bias = nn.UninitializedParameter(), nn.UninitializedParameter()

    def materialise(self, out_features: int) -> None:
        """Create the weights, and turn into a plain torch.nn.Linear."""
        self.out_features = out_features
        self.weight.materialize((out_features, self.in_features))
        self.bias.materialize((out_features,))
        self.__class__ = nn.Linear
        self.reset_parameters()


class PNASimpleConv(Layer):
    """The PNA layer without M and towers, as the paper uses it on MolHIV: X_i' = U( ⊕_{(j,i) ∈ E} X_j ).

    With edge features, the messages are X_j + V e_ij + c, with a linear edge_encoder to the size of x. The arguments
    have the same meaning as in PNAConv.
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
        edge_dim: int | None = None,
        train_alpha: bool = False,
        cached: bool = False,
        flow: str = "source_to_target",
    ) -> None:
        super().__init__(in_channels, out_channels, cached, flow)
        self.edge_dim = None if edge_dim is None else positive("edge_dim", edge_dim)
        self.combined = CombinedAggregation(aggregators, scalers, deg, train_norm, train_alpha)
        if edge_dim is not None:
            self.edge_encoder = _Encoder(edge_dim) if in_channels == -1 else nn.Linear(edge_dim, in_channels)
        sizes = (self.combined.width * max(in_channels, 0), out_channels)
        self.U = mlp("post_layers", post_layers, 1, sizes, act, act_kwargs)

    def forward(self, x: Nodes, edge_index: Tensor | Neighbourhoods, edge_attr: Tensor | None = None) -> Tensor:
        """Compute the layer, with the arguments of PNAConv: x [N, in_channels] -> [N, out_channels]."""
        return dispatch.layer(self, x, edge_index, edge_attr)

    # ---- the paths of pna.dispatch ----

    def _split(self, senders: Tensor, _: Tensor, graph: Neighbourhoods, edge: Tensor | None) -> Tensor:
        """Compute the layer; without edge features there is no tensor of messages: x [N, in] -> [N, out]."""
        first, *rest = self.U
        part = None if edge is None else self.edge_encoder(edge).unsqueeze(1)  # [E, 1, in]
        aggregates = aggregate(graph, self.combined.aggregators, source=senders.unsqueeze(1), edge=part)
        y = self.combined.mapped(aggregates, graph.degree, first.weight) + first.bias
        for layer in rest:
            y = layer(y)
        return y.squeeze(1)  # [N, 1, out] -> [N, out]

    def _with_messages(self, senders: Tensor, receivers: Tensor, graph: Neighbourhoods, edge: Tensor | None) -> Tensor:
        """Compute the layer with a message for every edge: x [N, in] -> [N, out]."""
        x_i, x_j = receivers[graph.target].unsqueeze(1), senders[graph.source].unsqueeze(1)  # [E, 1, in]
        m = self._explained(x_j if edge is None else x_j + self.edge_encoder(edge).unsqueeze(1), x_i, x_j, graph)
        aggregates = aggregate(graph, self.combined.aggregators, edge=m)
        return self.U(self.combined(aggregates, graph.degree)).squeeze(1)

    def materialise(self, in_channels: int) -> None:
        """Create the weights of a layer with in_channels=-1, now that the size of x is known."""
        first = next(module for module in self.U if isinstance(module, TowerLinear))
        first.materialise(1, self.combined.width * positive("in_channels", in_channels), self.out_channels)
        if self.edge_dim is not None:
            self.edge_encoder.materialise(in_channels)
        self.in_channels = in_channels

    def _in_channels_of(self, width: int) -> int:
        """Compute in_channels from the width of U's input, in_channels for each scaled aggregate."""
        return width // self.combined.width

    def _last(self) -> nn.Module:
        """The network U, which is applied last."""
        return self.U

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {self.combined.extra_repr()})"
