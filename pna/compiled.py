"""A whole PNA layer with linear M and U (equations 7 and 8) as one operator of torch, for torch.compile.

A compiler that sees the layer's steps keeps them apart: it sorts the edges at every call, and multiplies narrow
matrices one by one. As one operator, the layer is computed as it is without a compiler, by pna.kernels.layer on a GPU
and by pna.direct on a CPU, and mode="reduce-overhead" records it as one CUDA graph.

The operator gets the weights and the graph: an edge_index, or ptr and source of Neighbourhoods and perhaps the three
tensors of their transpose. It returns the output and, if a backward pass follows, the results that this one needs. None
of these shares memory with another or with an input, as a compiler assumes.
"""

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from pna import direct
from pna.combined import CombinedAggregation
from pna.neighbourhoods import FLOWS, Neighbourhoods, check_range

__all__ = ["layer"]

_library = torch.library.Library("pna", "FRAGMENT")
_WEIGHTS = "Tensor U, Tensor U_bias, Tensor M, Tensor M_bias, Tensor mix, Tensor mix_bias"
_FORM = "Tensor delta, Tensor mean_degree, Tensor[] graph, str aggregators, str scalers"
_library.define(f"layer(Tensor x, {_WEIGHTS}, {_FORM}, bool reverse, bool save) -> Tensor[]")
_library.define(
    f"layer_backward(Tensor g, Tensor x, Tensor U, Tensor M, Tensor mix, {_FORM}, Tensor[] results, bool of_x,"
    " bool of_weights) -> Tensor[]"
)


def layer(conv: nn.Module, x: Tensor, edges: Tensor | Neighbourhoods) -> Tensor:
    """Compute a PNAConv with one layer each in M and U, without edge features: x [N, in] -> [N, out]."""
    M, U, mix, combined = conv.M[0], conv.U[0], conv.mix, conv.combined
    tensors = (x, U.weight, U.bias, M.weight, M.bias, mix.weight, mix.bias)
    save = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    graph = [edges] if isinstance(edges, Tensor) else [edges.ptr, edges.source, *(edges.transpose or ())]
    names = " ".join(combined.aggregators), " ".join(map(str, combined.scalers))
    reverse = conv.flow == "target_to_source"
    form = (combined.delta, combined.mean_degree, graph, *names)
    if not save:
        return torch.ops.pna.layer.default(*tensors, *form, reverse, save)[0]
    return _Layer.apply(*tensors, *form, reverse, save)[0]


# ---- the layer's form, from what the operators get ----


class _Combined(SimpleNamespace):
    """The part of CombinedAggregation that the passes use, without a module's cost."""

    by_scaler, by_output, factors = (
        CombinedAggregation.by_scaler, CombinedAggregation.by_output, CombinedAggregation.factors
    )  # fmt: skip


def _form(x: Tensor, U: Tensor, M: Tensor, delta: Tensor, mean_degree: Tensor, *names: str) -> SimpleNamespace:
    """Collect sizes, aggregators, scalers, δ and mean degree under the names that they have in a PNAConv."""
    aggregators, scalers = map(_split, names)
    combined = _Combined(aggregators=aggregators, scalers=scalers, delta=delta, mean_degree=mean_degree)
    T, F, _ = M.shape
    sizes = {"towers": T, "F_in": F, "F_out": U.shape[1], "in_channels": x.shape[1]}
    return SimpleNamespace(**sizes, combined=combined, _modules={"combined": combined})


@functools.cache
def _split(names: str) -> tuple[str | float, ...]:
    """Split the names of aggregators or scalers; those that are numbers are α of equation 6."""
    return tuple(name if name[0].isalpha() else float(name) for name in names.split())


def _known(graph: Sequence[Tensor]) -> Neighbourhoods:
    """Put a sorted graph together from its tensors: ptr, source and perhaps the transpose's three."""
    ptr, source, *transpose = graph
    return Neighbourhoods(ptr, source, None, tuple(transpose) or None)


def _below_autograd(function: Callable[..., list[Tensor]]) -> Callable[..., list[Tensor]]:
    """Decorate an operator's kernel: autograd, which has recorded the operator, need not inspect what it calls."""

    @functools.wraps(function)
    def kernel(*inputs: object) -> list[Tensor]:
        with torch._C._AutoDispatchBelowAutograd():
            return function(*inputs)

    return kernel


# ---- on a CPU ----


@_below_autograd
def _forward_on_cpu(x: Tensor, *inputs: object) -> list[Tensor]:
    """Implement the operator `layer` on a CPU, by pna.direct.

    Returns the output [N, out] and, if `save` is set, the senders in CSR order (empty if the graph was sorted before)
    and the results that the backward pass needs.
    """
    *weights, delta, mean_degree, graph, aggregators, scalers, reverse, save = inputs
    conv = _form(x, weights[0], weights[2], delta, mean_degree, aggregators, scalers)
    one = len(graph) == 1
    neighbourhoods = Neighbourhoods.of(graph[0], x.shape[0], FLOWS[reverse]) if one else _known(graph)
    out, results = direct.forward(x, weights, conv, neighbourhoods)
    if not save:
        return [out]
    return [
        out,
        neighbourhoods.source if one else x.new_empty(0),
        *(x.new_empty(0) if t is None else t for t in results),
    ]


@_below_autograd
def _backward_on_cpu(g: Tensor, x: Tensor, U: Tensor, M: Tensor, mix: Tensor, *inputs: object) -> list[Tensor]:
    """Implement the operator `layer_backward` on a CPU: g [N, out] -> the gradients that are wanted."""
    delta, mean_degree, graph, aggregators, scalers, results, *_ = inputs
    conv = _form(x, U, M, delta, mean_degree, aggregators, scalers)
    sorted_source, *results = (t if t.numel() else None for t in results)
    source = sorted_source if len(graph) == 1 else graph[1]
    grads = direct.backward(g, x, (U, None, M, None, mix, None), conv, source, results)
    return _wanted([grad.contiguous() for grad in grads], *inputs[6:])


def _wanted(grads: list[Tensor], of_x: bool, of_weights: bool) -> list[Tensor]:
    """Select the gradients that are wanted: of x, of the six weights, or of both."""
    biases = [2, 4]  # views of one sum
    grads = [grad.clone() if k in biases and grad._is_view() else grad for k, grad in enumerate(grads)]
    return grads[0 if of_x else 1 : None if of_weights else 1]


# ---- on a GPU ----


@_below_autograd
def _forward_on_gpu(x: Tensor, *inputs: object) -> list[Tensor]:
    """Implement the operator `layer` on a GPU, by pna.kernels.layer.

    Returns the output [N, out] and, if `save` is set, the sorted graph as one tensor (empty if the graph was sorted
    before) and the results that the backward pass needs.
    """
    from pna.kernels import csr, layer

    *weights, delta, mean_degree, graph, aggregators, scalers, reverse, save = inputs
    conv = _form(x, weights[0], weights[2], delta, mean_degree, aggregators, scalers)
    if len(graph) > 1:
        out, results = layer.forward(x, weights, conv, _known(graph), save)
        return [out, x.new_empty(0), *results] if save else [out]
    N = x.shape[0]
    neighbourhoods, failed = csr.graph_of(graph[0], N, reverse, save, compiled=True)
    out, results = layer.forward(x, weights, conv, neighbourhoods, save)
    if failed():
        check_range(graph[0], N, N)
    if not save:
        return [out]
    whole = csr.whole(neighbourhoods)
    return [out, whole.clone() if failed is bool else whole, *results]  # what is remembered must not be written to


@_below_autograd
def _backward_on_gpu(g: Tensor, x: Tensor, U: Tensor, M: Tensor, mix: Tensor, *inputs: object) -> list[Tensor]:
    """Implement the operator `layer_backward` on a GPU: g [N, out] -> the gradients that are wanted."""
    from pna.kernels import csr, layer

    delta, mean_degree, graph, aggregators, scalers, results, *wanted = inputs
    conv = _form(x, U, M, delta, mean_degree, aggregators, scalers)
    whole, *results = results
    one = len(graph) == 1
    neighbourhoods = csr.from_whole(whole, x.shape[0], graph[0].shape[1]) if one else _known(graph)
    ptr, source, _, transpose, *_ = neighbourhoods
    tensors = (ptr, delta, mean_degree, source, *(transpose or (None,) * 3))
    return [grad for grad in layer.backward(g, x, conv, tensors, results, wanted) if grad is not None]


_library.impl("layer", _forward_on_cpu, "CPU")
_library.impl("layer", _forward_on_gpu, "CUDA")
_library.impl("layer_backward", _backward_on_cpu, "CPU")
_library.impl("layer_backward", _backward_on_gpu, "CUDA")


# ---- what a compiler has to know: sizes and derivatives ----


@torch.library.register_fake("pna::layer", lib=_library)
def _(x: Tensor, *inputs: object) -> list[Tensor]:
    """Allocate the outputs of the operator `layer`, which tells a compiler their shapes."""
    *weights, delta, mean_degree, graph, aggregators, scalers, _, save = inputs
    conv = _form(x, weights[0], weights[2], delta, mean_degree, aggregators, scalers)
    N, E = x.shape[0], graph[0].shape[1] if len(graph) == 1 else graph[1].shape[0]
    if not save:
        return [x.new_empty(N, weights[4].shape[0])]
    if x.is_cuda:
        from pna.kernels import csr, layer

        out, *results = layer.allocate(x, conv, N, E)
        size = csr.whole_size(N, E) if len(graph) == 1 else 0
        return [out, x.new_empty(size, dtype=torch.int64 if size else x.dtype), *results]
    return [x.new_empty(N, weights[4].shape[0]), *_results_on_cpu(x, conv, N, E, len(graph) == 1)]


def _results_on_cpu(x: Tensor, conv: SimpleNamespace, N: int, E: int, one: bool) -> list[Tensor]:
    """Allocate the sorted senders and the results of direct.forward."""
    T, F, H, names = conv.towers, conv.F_in, conv.F_out, conv.combined.aggregators
    A, S = len(names), len(conv.combined.scalers)
    extremes = len({"max", "min"}.intersection(names))
    shapes = [(T, H + 2 * F, F), (E, T, F), (N, T, A, F), (N, 1, S, 1), (N, T * H), (N, 1, A, 1)]
    shapes += [(N, 1, 1), (E, T, F) if {"std", "var"} & set(names) else (0,)]
    shapes += [(N, T, F) if "std" in names else (0,), (N, T, extremes, F) if extremes else (0,)]
    results = [x.new_empty(shape) for shape in shapes]
    results.insert(6, x.new_empty(E, dtype=torch.int64))  # the receiver of each message
    return [x.new_empty(E, dtype=torch.int64) if one else x.new_empty(0), *results]


@torch.library.register_fake("pna::layer_backward", lib=_library)
def _(g: Tensor, x: Tensor, U: Tensor, M: Tensor, mix: Tensor, *inputs: object) -> list[Tensor]:
    """Allocate the gradients of x, of the six weights, or of both, which tells a compiler their shapes."""
    weights = [U.shape, U.shape[:2], M.shape, M.shape[:2], mix.shape, mix.shape[:1]]
    of_x, of_weights = inputs[6:]
    return [x.new_empty(shape) for shape in [*[x.shape] * of_x, *(weights if of_weights else ())]]


class _Layer(Function):
    """The two operators as one differentiable function, which torch.compile traces through."""

    @staticmethod
    def forward(*inputs: object) -> tuple[Tensor, ...]:
        return tuple(torch.ops.pna.layer.default(*inputs))

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        x, U, _, M, _, mix, _, delta, mean_degree, graph, *ctx.names, _, _ = inputs
        ctx.edges = len(graph)
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(x, U, M, mix, delta, mean_degree, *graph, *output[1:])

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
        x, U, M, mix, delta, mean_degree, *rest = ctx.saved_tensors
        graph, results = rest[: ctx.edges], rest[ctx.edges :]
        of_x, of_weights = ctx.needs_input_grad[0], any(ctx.needs_input_grad[1:7])
        tensors = (g, x, U, M, mix, delta, mean_degree, graph, *ctx.names, results)
        grads = torch.ops.pna.layer_backward.default(*tensors, of_x, of_weights)
        of_x, of_weights = (grads[:1], grads[1:]) if of_x else ([None], grads)
        return *of_x, *(of_weights or [None] * 6), *[None] * 7
