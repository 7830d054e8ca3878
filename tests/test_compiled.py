"""The whole layer as one operator under torch.compile: no break, no warning, and the numbers of the layer called."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from pna import Neighbourhoods, PNAConv, dispatch

PAPER = (["mean", "max", "min", "std"], ["identity", "amplification", "attenuation"])
OTHER = (["sum", "var"], ["linear", 0.5, -2.0])
DEG = torch.tensor([1, 5, 8, 4, 2])
N, E = 21, 60


def make(sort=PAPER, **kwargs):
    return PNAConv(10, 15, *sort, DEG, **kwargs).double()


def inputs(n=N, e=E):
    x = torch.randn(n, 10, dtype=torch.double, requires_grad=True)
    return x, torch.stack([torch.randint(0, n, (e,)), torch.randint(0, n - 3, (e,))])


def results(layer, conv, x, edges):
    wanted = [t for t in (x, *conv.parameters()) if t.requires_grad]
    out = layer(x, edges)
    return [out, *torch.autograd.grad(out.square().sum(), wanted)]


def assert_same(compiled, conv, x, edges):
    for a, b in zip(*(results(layer, conv, x, edges) for layer in (compiled, conv)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def operators_of(conv, *arguments, **options):
    """The targets of all calls in the graph that torch.compile captures, also within those of a Function."""
    names = []

    def backend(graph, _):
        for module in graph.modules():
            names.extend(str(node.target) for node in module.graph.nodes) if hasattr(module, "graph") else None
        return graph.forward

    torch.compile(conv, backend=backend, fullgraph=True, **options)(*arguments)
    return names


@pytest.mark.parametrize(
    ("sort", "kwargs"),
    [(PAPER, {}), (OTHER, {"towers": 5}), ((["max"], ["identity"]), {"towers": 5, "divide_input": True})],
)
@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_one_graph_without_a_warning_and_the_same_numbers(sort, kwargs, flow):
    conv, (x, edges) = make(sort, flow=flow, **kwargs), inputs()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(conv, backend=counter, fullgraph=True)
    graph = Neighbourhoods.of(edges, N, flow)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, which no user is shown
        warnings.filterwarnings("ignore", "Guards may run slower on Python 3.13.0")  # torch about that one release
        for form in (edges, graph, graph.with_transpose()):
            assert_same(compiled, conv, x, form)
            compilations = counter.frame_count
            compiled(x, form)
            assert counter.frame_count == compilations  # the second call compiles nothing
    assert any("pna.layer" in name for name in operators_of(conv, x, edges))


def test_the_default_compiler_and_sizes_that_change():
    conv = make()
    compiled = torch.compile(conv, fullgraph=True, dynamic=True)
    for n, e in ((N, E), (40, 33), (9, 200)):
        assert_same(compiled, conv, *inputs(n, e))


@pytest.mark.parametrize("frozen", ["x", "weights"])
def test_only_the_gradients_that_are_wanted(frozen):
    conv, (x, edges) = make(), inputs()
    x = x.detach() if frozen == "x" else x
    conv.requires_grad_(frozen != "weights")
    compiled = torch.compile(conv, backend="aot_eager", fullgraph=True)
    assert_same(compiled, conv, x, edges)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, edges), conv(x, edges))


def test_an_edge_to_no_node_is_refused():
    conv, (x, edges) = make(), inputs()
    compiled = torch.compile(conv, backend="aot_eager", fullgraph=True)
    compiled(x, edges)
    with pytest.raises(ValueError, match="edge_index must hold node numbers"):
        compiled(x, edges + 20)


def test_a_second_derivative_is_refused():
    conv, (x, edges) = make(), inputs()
    out = torch.compile(conv, backend="aot_eager", fullgraph=True)(x, edges)
    (grad,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        grad.sum().backward()


@pytest.mark.parametrize(
    "kwargs", [{"edge_dim": 3}, {"pre_layers": 2}, {"train_norm": True}, {"train_alpha": True}, {"cached": True}]
)
def test_other_layers_are_compiled_step_by_step(kwargs):
    conv, (x, edges) = make(**kwargs), inputs()
    more = (torch.randn(E, 3, dtype=torch.double),) if "edge_dim" in kwargs else ()
    names = operators_of(conv, x, edges, *more)
    assert not any("pna.layer" in name for name in names)


def test_transformations_see_the_steps():
    conv, (x, edges) = make(), inputs()
    x = x.detach()
    batched = torch.compile(lambda xs: torch.func.vmap(lambda x: conv(x, edges))(xs), backend="eager")
    torch.testing.assert_close(batched(torch.stack([x, 2 * x]))[1], conv(2 * x, edges))
    gradient = torch.compile(torch.func.grad(lambda x: conv(x, edges).sum()), backend="eager")
    x.requires_grad_()
    torch.testing.assert_close(gradient(x.detach()), torch.autograd.grad(conv(x, edges).sum(), x)[0])


def test_export_keeps_the_steps():
    conv, (x, edges) = make(), inputs()
    program = torch.export.export(conv, (x.detach(), edges))
    assert "pna.layer" not in str(program.graph)


def test_a_large_graph_on_a_cpu_goes_block_by_block(monkeypatch):
    conv, (x, edges) = make(), inputs()
    monkeypatch.setattr(dispatch.gather, "BLOCK", 100)
    assert not any("pna.layer" in name for name in operators_of(conv, x, edges))


@pytest.mark.parametrize("alpha", [np.float64(0.5), np.float32(0.5), Fraction(1, 2)])
def test_any_number_may_be_an_exponent(alpha):
    conv = make((["mean"], ["identity", alpha]))
    assert repr(conv.combined) == "CombinedAggregation(aggregators=['mean'], scalers=['identity', 0.5])"
    assert_same(torch.compile(conv, fullgraph=True, backend="aot_eager"), conv, *inputs())
