"""The PNA layer (section 2.3, equations 7 and 8).

X_i' = U( X_i, ⊕_{(j,i) ∈ E} M(X_i, E_{j→i}, X_j) )
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import PNAConv as PyGConv

from pna import pyg
from pna.aggregate import aggregate
from pna.arguments import choice, divisible, positive, same_device, same_dtype, tensor
from pna.combined import CombinedAggregation
from pna.kernels import operators
from pna.neighbourhoods import FLOWS, Neighbourhoods, check_range
from pna.scalers import DegreeStatistics, degree_histogram
from pna.towers import Activation, TowerLinear, affine, mlp

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

    def _take(self, x: Tensor, edges: Tensor | Neighbourhoods, weight: Tensor) -> Neighbourhoods:
        """Checks x against the weights and gives the graph in CSR order."""
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
        if edge_attr is None and isinstance(x, Tensor) and _fusible(self, x, edge_index):
            return fused(self, x, edge_index)
        neighbourhoods = self._take(x, edge_index, self.mix.weight)
        edge_attr = self._take_edges(edge_attr, neighbourhoods, x)
        x = x.reshape(
            len(x), self.in_channels // self.F_in, self.F_in
        )  # [N, T, F_in], or [N, 1, F_in] if every tower sees all
        own, *parts = self._project(x)
        aggregates = self._aggregate(*parts, edge_attr, neighbourhoods)  # [N, T, A, F_in]
        first, *rest = self.U
        y = own + self.combined(aggregates, neighbourhoods.degree, first.weight[..., self.F_in :])
        for layer in rest:
            y = layer(y)
        return self.mix(y.flatten(1))  # [N, T, F_out] -> [N, out_channels]

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What is linear in x_i alone, in one product: U's part, [N, T, F_out], and M's two, [N, T, F_in] each."""
        M, U, F = self.M[0], self.U[0], self.F_in
        weight = torch.cat([U.weight[..., :F], M.weight[..., :F], M.weight[..., F : 2 * F]], dim=1)
        bias = torch.cat([U.bias, M.bias, torch.zeros_like(M.bias)], dim=1)
        return affine(x, weight, bias).split([U.bias.shape[1], F, F], dim=-1)

    def _aggregate(
        self, target: Tensor, source: Tensor, edge_attr: Tensor | None, neighbourhoods: Neighbourhoods
    ) -> Tensor:
        """The aggregates of M(x_i, e_ij, x_j) from its parts W1 x_i + b and W2 x_j, [N, T, A, F_in]."""
        first, *rest = self.M
        names, edge = self.combined.aggregators, None
        if self.swap_extremes:
            return _aggregate_swapped(neighbourhoods, names, target, source)
        if edge_attr is not None:  # the encoder is linear too: W3 (V e + c) = (W3 V) e + W3 c
            W3 = first.weight[..., 2 * self.F_in :]  # [T, F_in, F_in]
            edge = affine(edge_attr.unsqueeze(1), W3 @ self.edge_encoder.weight, W3 @ self.edge_encoder.bias)
        if not rest:
            return aggregate(neighbourhoods, names, source=source, edge=edge, target=target)
        m = target[neighbourhoods.target] + source[neighbourhoods.source]  # [E, T, F_in]
        m = m if edge is None else m + edge
        for layer in rest:
            m = layer(m)
        return aggregate(neighbourhoods, names, edge=m)

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


def _aggregate_swapped(neighbourhoods: Neighbourhoods, names: Sequence[str], target: Tensor, source: Tensor) -> Tensor:
    """D5: mean, std, … of (W1 x_i + b) + W2 x_j, but max and min of (W1 x_j + b) + W2 x_i."""
    columns = {}
    extremes = [name for name in names if name in ("max", "min")]
    others = [name for name in names if name not in extremes]
    for group, i, j in ((others, target, source), (extremes, source, target)):
        if group:
            out = aggregate(neighbourhoods, group, source=j, target=i)
            columns |= zip(group, out.unbind(-2), strict=True)
    return torch.stack([columns[name] for name in names], dim=-2)


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
        neighbourhoods = self._take(x, edge_index, first.weight)
        aggregates = aggregate(neighbourhoods, self.combined.aggregators, source=x.unsqueeze(1))  # [N, 1, A, in]
        y = self.combined(aggregates, neighbourhoods.degree, first.weight) + first.bias
        for layer in rest:
            y = layer(y)
        return y.squeeze(1)  # [N, 1, out_channels] -> [N, out_channels]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {self.combined.extra_repr()})"


# ---- the whole layer as one function, for a GPU ----


def fused(conv: PNAConv, x: Tensor, edges: Tensor | Neighbourhoods) -> Tensor:
    """What the layer makes of x and the edges, in as few launches as there can be (pna.kernels.layer).

    While a CUDA graph is recorded no value can be read: an edge with a number that is no node is then left out, unseen.
    """
    from pna.kernels import csr  # these two need Triton
    from pna.kernels.layer import layer

    given = isinstance(edges, Neighbourhoods)
    if given or conv.cached or not 0 < edges.shape[1] < csr.MOST:
        return layer(conv, x, conv._take(x, edges, conv.mix.weight))
    same_device("edge_index", edges, "x", x)
    neighbourhoods, bad = csr.sort(edges, x.shape[0], conv.flow == "target_to_source", torch.is_grad_enabled())
    check = csr.Check(bad)
    out = layer(conv, x, conv._take(x, neighbourhoods, conv.mix.weight))
    if check.failed():
        check_range(edges, x.shape[0])
    return out


def _fusible(conv: PNAConv, x: Tensor, edges: Tensor | Neighbourhoods) -> bool:
    """Whether `fused` serves: float32 or float64 on a GPU, linear M and U, and nothing that looks inside the layer."""
    return (
        not torch.compiler.is_compiling()
        and operators.supports(conv.combined.aggregators, x)
        and x.dtype in (torch.float32, torch.float64)
        and conv.linear
        and x.shape[0] > 0
        and _taken(edges)
        and not _watched(x)
        and _untouched(conv)
    )


def _taken(edges: Tensor | Neighbourhoods) -> bool:
    """Whether this is a graph with edges: Neighbourhoods, or a plain edge_index [2, E]."""
    if isinstance(edges, Neighbourhoods):
        return edges.num_edges > 0
    plain = type(edges) is Tensor and edges.layout is torch.strided and edges.dtype in (torch.int64, torch.int32)
    return plain and edges.dim() == 2 and edges.shape[0] == 2 and edges.shape[1] > 0


def _watched(x: Tensor) -> bool:
    """Whether something wants to see the operations one by one: torch.func, autocast, a mode, a kind of tensor."""
    return (
        type(x) not in (Tensor, nn.Parameter)
        or torch.is_autocast_enabled(x.device.type)
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack() > 0
    )


def _untouched(conv: PNAConv) -> bool:
    """Whether M, U and the mixing layer are the layer's own, with nothing to be called before or after them."""
    modules = conv._modules
    parts = (*modules["M"]._modules.values(), *modules["U"]._modules.values(), modules["mix"], modules["combined"])
    return all(type(part) in _OWN and not _hooked(part) for part in parts)


def _hooked(module: nn.Module) -> bool:
    before = module._forward_pre_hooks or module._backward_pre_hooks
    return bool(before or module._forward_hooks or module._backward_hooks)


_OWN = frozenset((TowerLinear, nn.Linear, CombinedAggregation))
