"""One table that says which path computes equation 8, in which order the paths are asked, and why.

All paths compute the same. Equation 8 as it stands makes a message of every edge, [E, T, F]; the paths before it do
without that tensor, and those that come first call the fewest operations. The first path that supports a call is taken.

LAYER chooses for a whole PNAConv, AGGREGATION for the aggregates alone, which the networks of the paper need as well.
Two choices are made elsewhere, since they do not depend on the layer: how the matrices of many replicas are multiplied
(pna.products), and whether a GPU sorts the edges by a kernel (pna.kernels.csr).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules import module as _modules

from pna import gather, onnx, together
from pna.arguments import is_forward_mode, is_transformed
from pna.combined import CombinedAggregation
from pna.kernels import operators
from pna.neighbourhoods import Neighbourhoods
from pna.towers import TowerLinear

__all__ = ["AGGREGATION", "LAYER", "Path", "aggregate", "layer", "untouched"]

_GLOBAL_HOOKS = [
    getattr(_modules, f"_global_{name}_hooks") for name in ("forward", "forward_pre", "backward", "backward_pre")
]  # dictionaries that torch fills and never replaces


# ---- what a call must be like: a whole layer ----


def _whole_compiled(conv: nn.Module, x: object, edges: object, edge_attr: object) -> bool:
    """Whether torch.compile traces a linear and unobserved layer whose messages, on a CPU, are one block."""
    return (
        torch.compiler.is_compiling()
        and not _exporting()
        and edge_attr is None
        and conv.edge_dim is None
        and isinstance(x, Tensor)
        and _is_linear(conv)
        and not (conv.cached or conv._explain)
        and untouched(conv)
        and _has_constant_scalers(conv)
        and _has_plain_mix(conv)
        and _matches_weights(conv, x)
        and _is_graph(conv, x, edges)
        and (operators.supports(conv.combined.aggregators, x) if x.is_cuda else _is_one_block(conv, x, edges))
        and not torch.is_autocast_enabled(x.device.type)
        and not (is_transformed() or is_forward_mode())
    )


def _whole_on_gpu(conv: nn.Module, x: object, edges: object, edge_attr: object) -> bool:
    """Whether conv is linear and unobserved, in float32 or float64 on a GPU, and x and the edges are valid."""
    return (
        edge_attr is None
        and conv.edge_dim is None
        and isinstance(x, Tensor)
        and not torch.compiler.is_compiling()
        and operators.supports(conv._modules["combined"].aggregators, x)
        and _is_linear(conv)
        and not conv._explain
        and untouched(conv)
        and _has_constant_scalers(conv)
        and _has_plain_mix(conv)
        and _matches_weights(conv, x)
        and _is_graph(conv, x, edges)
        and not _observed(x)
        and not torch._C._is_tracing()
    )


def _whole_on_cpu(
    conv: nn.Module, senders: Tensor, receivers: Tensor, graph: Neighbourhoods, edge: Tensor | None
) -> bool:
    """Whether conv is linear and unobserved, in float32 or float64 on a CPU, and its messages are one block."""
    return (
        not torch.compiler.is_compiling()
        and _is_linear(conv)
        and senders is receivers
        and not conv._explain
        and untouched(conv)
        and _has_constant_scalers(conv)
        and receivers.dtype in (torch.float32, torch.float64)
        and _is_one_block(conv, receivers, graph)
        and not _observed(receivers)
        and _has_plain_mix(conv)
        and (edge is None or (_is_plain(edge) and conv.edge_encoder.bias is not None))
    )


def _splits(conv: nn.Module, senders: Tensor, receivers: Tensor, *_: object) -> bool:
    """Whether M and U may be split; D5, which swaps the parts of M, needs a linear M and one kind of nodes."""
    swappable = not conv.swap_extremes or (senders is receivers and len(conv.M) == 1)
    return not conv._explain and untouched(conv) and swappable


# ---- what a call must be like: the aggregates ----


def _to_onnx(graph: Neighbourhoods | onnx.Edges, *_: object) -> bool:
    """Whether torch.onnx.export traces the layer: its edges are then left unsorted."""
    return isinstance(graph, onnx.Edges)


def _by_equations(*_: object) -> bool:
    """Whether forward-mode derivatives are asked for."""
    return is_forward_mode()


def _by_kernels(graph: Neighbourhoods, names: Sequence[str], messages: Tensor) -> bool:
    """Whether there are kernels for all aggregators, and the graph is not bipartite, which kernels do not support."""
    return graph.senders is None and operators.supports(names, messages)


def _by_blocks(_: Neighbourhoods, __: Sequence[str], messages: Tensor) -> bool:
    """Whether the messages are on a CPU, and nothing traces or observes the operations."""
    return messages.is_cpu and not torch.compiler.is_compiling() and not _observed(messages)


def _always(*_: object) -> bool:
    """Accept every call."""
    return True


# ---- the table ----


@dataclass(frozen=True)
class Path:
    """One way to compute a layer or its aggregates.

    A path of LAYER is asked with (conv, senders, receivers, graph, edge) or, if `unchecked`, with the arguments of the
    call: (conv, x, edge_index, edge_attr). A path of AGGREGATION is asked with (graph, names, messages).
    """

    name: str
    supports: Callable[..., bool]
    compute: Callable[..., Tensor]
    reason: str  # why it is asked before those below it
    unchecked: bool = False


def _method(name: str) -> Callable[..., Tensor]:
    """Create the function that calls the method `name` of a layer."""
    return lambda conv, *inputs: getattr(conv, name)(*inputs)


LAYER: tuple[Path, ...] = (
    Path(
        "whole layer, compiled",
        _whole_compiled,
        _method("_whole_compiled"),
        "torch.compile keeps one operator as it is: sorted edges, few launches and a backward pass written by hand",
        unchecked=True,
    ),
    Path(
        "whole layer on a GPU",
        _whole_on_gpu,
        _method("_whole_on_gpu"),
        "a small graph's time is that of the launches, and this has the fewest; it checks and sorts the edges itself, "
        "while the kernels already run",
        unchecked=True,
    ),
    Path(
        "whole layer on a CPU",
        _whole_on_cpu,
        _method("_whole_on_cpu"),
        "a small graph's time is that of calling and recording operations: here they are few, and none is recorded",
    ),
    Path(
        "split",
        _splits,
        _method("_split"),
        "a linear M is a sum of parts, and only the sender's part is gathered: no message exists without edge features",
    ),
    Path(
        "messages",
        _always,
        _method("_with_messages"),
        "equation 8 as it stands: hooks, parametrizations, other modules and explanations see M, U and every message",
    ),
)

AGGREGATION: tuple[Path, ...] = (
    Path("ONNX", _to_onnx, onnx.aggregate, "ONNX has gathers and scatters, but no operator of this package"),
    Path("equations", _by_equations, gather.by_equations, "torch's own operations alone have forward-mode derivatives"),
    Path("kernels", _by_kernels, gather.by_kernels, "one pass over the neighbours computes all aggregates on a GPU"),
    Path("blocks", _by_blocks, gather.by_blocks, "an operator of torch costs a small graph as much as its sums"),
    Path("operator", _always, gather.by_operator, "torch.compile, export, torch.func and autocast see through it"),
)


def layer(
    conv: nn.Module,
    x: Tensor | tuple[Tensor, Tensor],
    edges: Tensor | Neighbourhoods,
    edge_attr: Tensor | None = None,
) -> Tensor:
    """Compute a layer of pna.conv by the first path of LAYER that supports the call: x [N, in] -> [N, out]."""
    inputs, checked = (x, edges, edge_attr), False
    for path in LAYER:
        if not (checked or path.unchecked):
            inputs, checked = conv.prepare(x, edges, edge_attr), True
        if path.supports(conv, *inputs):
            break
    return path.compute(conv, *inputs)


def aggregate(
    graph: Neighbourhoods,
    names: Sequence[str],
    source: Tensor | None = None,
    edge: Tensor | None = None,
    target: Tensor | None = None,
) -> Tensor:
    """Aggregate the messages m_ij = target_i + edge_ij + source_j by the first path of AGGREGATION that supports them.

    Any of the three parts may be missing, but not both source and edge: source and target [N, ..., F], edge [E, ..., F]
    in the order of the messages -> [N, ..., A, F] for A aggregators.
    """
    messages = source if source is not None else edge
    if messages is None:
        raise ValueError("aggregate needs messages: give source, edge or both")
    for path in AGGREGATION:
        if path.supports(graph, names, messages):
            break
    return path.compute(graph, names, source, edge, target)


# ---- what the conditions ask ----


def untouched(conv: nn.Module) -> bool:
    """Whether M, U, the edge encoder and the aggregation are the layer's own modules, without hooks.

    A hook, a parametrization or a replaced module takes effect only if the module is called.
    """
    if any(_GLOBAL_HOOKS):
        return False
    modules = conv._modules
    for name, kind in (("M", nn.Sequential), ("U", nn.Sequential), ("edge_encoder", nn.Linear)):
        module = modules.get(name)
        if module is None:
            continue
        if type(module) is not kind or _hooked(module):
            return False
        first = module._modules.get("0")
        if kind is nn.Sequential and (type(first) is not TowerLinear or _hooked(first)):
            return False
    return type(modules["combined"]) is CombinedAggregation and not _hooked(modules["combined"])


def _is_linear(conv: nn.Module) -> bool:
    """Whether M and U are linear: they were made so, and nothing was appended to them since."""
    return conv.linear and len(conv._modules["M"]._modules) == len(conv._modules["U"]._modules) == 1


def _has_plain_mix(conv: nn.Module) -> bool:
    """Whether the mixing layer is a linear map without hooks."""
    mix = conv._modules.get("mix")
    parameters = mix._parameters if type(mix) is nn.Linear else {}
    return parameters.get("weight") is not None and parameters.get("bias") is not None and not _hooked(mix)


def _has_constant_scalers(conv: nn.Module) -> bool:
    """Whether neither δ nor the mean degree needs a gradient, which a backward pass by hand does not compute."""
    combined = conv._modules["combined"]
    return not (combined.delta.requires_grad or combined.mean_degree.requires_grad)


def _hooked(module: nn.Module) -> bool:
    """Whether a forward or backward hook is registered on the module."""
    before = module._forward_pre_hooks or module._backward_pre_hooks
    return bool(before or module._forward_hooks or module._backward_hooks)


def _matches_weights(conv: nn.Module, x: Tensor) -> bool:
    """Whether x is [N, in_channels], N > 0, float32 or float64, with the dtype and device of the weights."""
    weight = conv._modules["mix"]._parameters["weight"]
    return (
        x.dtype in (torch.float32, torch.float64)
        and x.dtype == weight.dtype
        and x.device == weight.device
        and x.dim() == 2
        and x.shape[0] > 0
        and x.shape[1] == conv.in_channels
    )


def _is_graph(conv: nn.Module, x: Tensor, edges: object) -> bool:
    """Whether `edges` are a graph of x's nodes with at least one edge: Neighbourhoods or a plain edge_index [2, E]."""
    if isinstance(edges, Neighbourhoods):
        ptr, N = edges.ptr, x.shape[0]
        matches = ptr.shape[0] == N + 1 and edges.senders in (None, N) and edges.flow in (None, conv.flow)
        return matches and ptr.device == x.device and edges.source.shape[0] > 0
    plain = type(edges) is Tensor and edges.layout is torch.strided and edges.dtype in (torch.int64, torch.int32)
    return plain and edges.device == x.device and edges.dim() == 2 and edges.shape[0] == 2 and edges.shape[1] > 0


def _is_one_block(conv: nn.Module, x: Tensor, edges: Tensor | Neighbourhoods) -> bool:
    """Whether x is on a CPU, all messages are one block, and pna.together has the aggregators."""
    E = edges.num_edges if isinstance(edges, Neighbourhoods) else edges.shape[1]
    one = x.is_cpu and E * conv.towers * conv.F_in <= gather.BLOCK
    return one and together.NAMES.issuperset(conv.combined.aggregators)


def _observed(x: Tensor) -> bool:
    """Whether x is under torch.func, forward mode, autocast or a dispatch mode, or is a tensor subclass.

    These must see every operation, so no backward pass that is written by hand is used.
    """
    return (
        not _is_plain(x)
        or torch.is_autocast_enabled(x.device.type)
        or is_transformed()
        or is_forward_mode()
        or torch._C._len_torch_dispatch_stack() > 0
    )


def _is_plain(x: Tensor) -> bool:
    """Whether x is a tensor or a parameter, and not of a class of its own."""
    return type(x) in (Tensor, nn.Parameter)


def _exporting() -> bool:
    """Whether torch.export traces the call."""
    return torch.compiler.is_exporting()


_exporting._dynamo_marked_constant = True  # torch 2.11 traces is_exporting as True, also where it compiles
