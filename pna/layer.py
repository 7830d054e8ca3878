"""The base class of PNAConv and PNASimpleConv: inputs, explanations and caches as in PyTorch Geometric's layers."""

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from pna.arguments import choice, flag, positive, same_device, same_dtype, tensor
from pna.neighbourhoods import FLOWS, Neighbourhoods
from pna.onnx import Edges

__all__ = ["Layer", "Nodes"]

_MATERIALISING = threading.Lock()  # for all layers: it is held once in the life of each

Nodes = Tensor | tuple[Tensor, Tensor]  # x [N, in], or one tensor for each row of edge_index


class Layer(MessagePassing):
    """A layer that PyTorch Geometric's tools accept: explanations, embeddings, to_hetero, summaries.

    It does not use PyTorch Geometric's message passing: a subclass that overrides a step of it is refused, and so is a
    hook on one.
    """

    linear = False  # whether M and U are linear and alone, so that one function can compute the whole layer
    swap_extremes = False  # D5
    edge_dim: int | None = None

    def __init__(self, in_channels: int, out_channels: int, cached: bool, flow: str) -> None:
        super().__init__(aggr=None, flow=choice("flow", flow, FLOWS), node_dim=0)
        self.in_channels = -1 if in_channels == -1 else positive("in_channels", in_channels)
        self.out_channels = positive("out_channels", out_channels)
        self.cached = flag("cached", cached)
        self._cache: Neighbourhoods | None = None

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        for step in ("propagate", "message", "aggregate", "message_and_aggregate", "update", "edge_update"):
            if getattr(cls, step) is not getattr(Layer, step):
                raise TypeError(
                    f"{cls.__name__} overrides {step}(), which pna's layers never call: override forward(), "
                    "or start from torch_geometric.nn.PNAConv"
                )

    def propagate(self, *args: object, **kwargs: object) -> Tensor:
        """Raise NotImplementedError: there is no message passing to start."""
        raise NotImplementedError(f"{type(self).__name__} has no propagate(): call the layer itself")

    def _set_jittable_templates(self, raise_on_error: bool = False) -> None:
        """Do nothing: there is no propagate() to generate code for."""

    def __prepare_scriptable__(self) -> "Layer":
        """Raise an error with the reason: torch.jit.script asks this method for a module that it can compile."""
        raise RuntimeError(
            f"{type(self).__name__} cannot be compiled by torch.jit.script, whose language has no autograd functions: "
            "use torch.compile or torch.export, or, with edge features, script the layer that PNAConv.to_pyg() returns"
        )

    def reset_parameters(self) -> None:
        """Draw all weights again, reset δ to that of the training set, and forget a cached graph."""
        self._cache = None
        if self.in_channels == -1:
            return  # there are no weights yet
        for child in self.modules():
            if child is not self and hasattr(child, "reset_parameters"):
                child.reset_parameters()

    def forget_graph(self) -> None:
        """Let a layer with cached=True accept another graph in the next call."""
        self._cache = None

    def _apply(self, *args: Any, **kwargs: Any) -> "Layer":
        """Move or convert the weights, and forget the cached graph, which does not move with them."""
        self._cache = None
        return super()._apply(*args, **kwargs)

    def prepare(
        self, x: Nodes, edges: Tensor | Neighbourhoods, edge_attr: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Neighbourhoods, Tensor | None]:
        """Check the inputs against the weights and sort the edges.

        Returns the senders' and the receivers' features [N, in], the graph, and the edge features [E, edge_dim] in the
        graph's order, or None.
        """
        if torch.jit.is_tracing():
            raise RuntimeError(
                f"{type(self).__name__} cannot be traced by torch.jit.trace, which would keep the example's sizes: "
                "use torch.export"
            )
        senders, receivers = self._nodes(x)
        exported = torch.onnx.is_in_onnx_export()
        graph = self._graph(x, edges) if self._cache is None or exported else self._cache
        num_senders = graph.num_nodes if graph.senders is None else graph.senders
        if receivers.shape[0] != graph.num_nodes or senders.shape[0] != num_senders:
            hint = "; cached=True keeps the first graph until forget_graph()" if self.cached else ""
            if senders is receivers and graph.senders is None:
                raise ValueError(f"x must have a row for each of {graph.num_nodes} nodes, got {x.shape[0]}{hint}")
            raise ValueError(
                f"x must have rows for {num_senders} senders and {graph.num_nodes} receivers, "
                f"got {senders.shape[0]} and {receivers.shape[0]}{hint}"
            )
        if self.cached and not torch.compiler.is_compiling() and not torch.is_inference_mode_enabled():
            self._cache = graph  # not an inference tensor, which cannot be trained with later
        return senders, receivers, graph, self._sort_features(edge_attr, graph, receivers)

    def _nodes(self, x: Nodes) -> tuple[Tensor, Tensor]:
        """Check x, and return the features of the senders and of the receivers."""
        pair = isinstance(x, tuple)
        if pair and len(x) != 2:
            raise ValueError(f"x must be a tensor or a pair of them, got a tuple of {len(x)}")
        named = {"x[0]": x[0], "x[1]": x[1]} if pair else {"x": x}
        for name, features in named.items():
            tensor(name, features)
            if self.in_channels == -1 and features.dim() == 2:
                self._materialise_once(features.shape[1])
            if features.dim() != 2 or features.shape[1] != self.in_channels:
                shape = f"[N, in_channels = {self.in_channels}]"
                raise ValueError(f"{name} must have the shape {shape}, got {tuple(features.shape)}")
            weight = self._weight()
            same_device(name, features, "the layer's weights", weight)
            same_dtype(name, features, weight)
        first, second = x if pair else (x, x)
        return (first, second) if self.flow == "source_to_target" else (second, first)

    def _materialise_once(self, in_channels: int) -> None:
        """Create the weights, unless another thread does so at this moment; in_channels is what it sets last.

        Weights that were created in inference mode could never be trained.
        """
        if torch.compiler.is_compiling():
            self.materialise(in_channels)
            return
        with _MATERIALISING, torch.inference_mode(False):
            if self.in_channels == -1:
                self.materialise(in_channels)

    def _graph(self, x: Nodes, edges: Tensor | Neighbourhoods) -> Neighbourhoods:
        """Sort an edge_index, or check the flow of a graph that has been sorted before."""
        pair, is_sorted = isinstance(x, tuple), isinstance(edges, Neighbourhoods)
        if is_sorted or isinstance(edges, Tensor):
            same_device("edge_index", edges.ptr if is_sorted else edges, "x", x[0] if pair else x)
        if not is_sorted and torch.onnx.is_in_onnx_export():
            return self._edges(x, edges)
        if not is_sorted:
            return Neighbourhoods.of(edges, (x[0].shape[0], x[1].shape[0]) if pair else x.shape[0], self.flow)
        if edges.flow not in (None, self.flow):
            raise ValueError(f"edge_index is of Neighbourhoods with flow={edges.flow!r}, the layer has {self.flow!r}")
        if edges.flow is None:
            edges.check()
        return Edges.of(edges) if torch.onnx.is_in_onnx_export() else edges

    def _edges(self, x: Nodes, edge_index: Tensor) -> Edges:
        """Create the unsorted graph for torch.onnx.export, which has no operator that sorts edges."""
        two, forwards = isinstance(x, tuple), self.flow == "source_to_target"
        source, target = edge_index.long() if forwards else edge_index.long().flip(0)
        sizes = (x[0].shape[0], x[1].shape[0]) if two else (x.shape[0],) * 2
        senders, receivers = sizes if forwards else sizes[::-1]
        return Edges(source, target, receivers, senders if two else None)

    def _sort_features(self, edge_attr: Tensor | None, graph: Neighbourhoods, x: Tensor) -> Tensor | None:
        """Check the edge features [E, edge_dim], and return them in the order of the messages."""
        if edge_attr is None and self.edge_dim is None:
            return None
        if edge_attr is None:
            raise ValueError(f"edge_attr is missing: the layer was made with edge_dim={self.edge_dim}")
        tensor("edge_attr", edge_attr)
        if self.edge_dim is None:
            raise ValueError(f"edge_attr {tuple(edge_attr.shape)} was given, but the layer was made without edge_dim")
        wanted = (graph.num_edges, self.edge_dim)
        if edge_attr.shape != wanted:
            raise ValueError(f"edge_attr must have the shape [E, edge_dim] = {wanted}, got {tuple(edge_attr.shape)}")
        same_device("edge_attr", edge_attr, "x", x)
        same_dtype("edge_attr", edge_attr, self._weight())
        return graph.sort(edge_attr)

    def _weight(self) -> Tensor:
        """A weight with the dtype and device that x must have; δ where the weights are not plain tensors."""
        weight = getattr(self._last(), "weight", None)
        return weight if isinstance(weight, Tensor) else self.combined.delta

    def _explained(self, m: Tensor, x_i: Tensor, x_j: Tensor, graph: Neighbourhoods) -> Tensor:
        """Apply what an explanation does to the messages m [E, T, F], if there is one: most mask some edges.

        x_i and x_j [E, T or 1, F] are the features of receivers and senders, which some explanations ask for.
        """
        if not self._explain:
            return m
        tensors = [m, x_i.expand(-1, m.shape[1], -1), x_j.expand(-1, m.shape[1], -1)]
        if graph.order is not None:  # explanations have the order of the caller's edges
            callers = graph.order.argsort()
            tensors = [t[callers] for t in tensors]
        known = {"x_i": tensors[1], "x_j": tensors[2], "dim_size": graph.num_nodes}
        out = self.explain_message(tensors[0], **self.inspector.collect_param_data("explain_message", known))
        return out if graph.order is None else out[graph.order]

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        """Load weights; with in_channels=-1, first create them in the size of those that are loaded."""
        weight = state_dict.get(f"{prefix}U.0.weight")
        if self.in_channels == -1 and isinstance(weight, Tensor) and not nn.parameter.is_lazy(weight):
            self._materialise_once(self._in_channels_of(weight.shape[-1]))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def materialise(self, in_channels: int) -> None:
        """Create the weights of a layer with in_channels=-1, now that the size of x is known."""
        raise NotImplementedError

    def _in_channels_of(self, width: int) -> int:
        """Compute in_channels from the width of U's input."""
        raise NotImplementedError

    def _last(self) -> nn.Module:
        """The module that is applied last."""
        raise NotImplementedError


def _refuse(name: str) -> Callable:
    """Create the method `name`, which refuses a hook on a step of message passing."""

    def register(self: Layer, *args: object, **kwargs: object) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no {name}(): it makes no messages for a hook to see")

    register.__doc__ = "Raise NotImplementedError: there is nothing for the hook to see."
    return register


for _step in ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update"):
    for _kind in ("forward_hook", "forward_pre_hook"):
        setattr(Layer, f"register_{_step}_{_kind}", _refuse(f"register_{_step}_{_kind}"))
