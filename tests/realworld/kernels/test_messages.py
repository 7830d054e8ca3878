"""The kernels of figure 6's layers at their limits: nodes without messages, none at all, one replica, any layout."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from pna.degrees import DegreeStatistics
from pna.neighbourhoods import Joined
from pna.realworld.batches import DeviceSplit, Shape
from pna.realworld.comparators import OGB, QUOTED, Gated
from pna.realworld.data.datasets import DATASETS
from pna.realworld.kernels.activation import activated
from pna.realworld.kernels.attention import attention
from pna.realworld.kernels.edge import embedded
from pna.realworld.kernels.gated import gated, layer
from pna.realworld.kernels.message import NODES, WIDTH, received
from pna.realworld.kernels.monet import gaussian_sum
from pna.realworld.kernels.neighbours import neighbours
from pna.realworld.kernels.norm import Then, normalise
from pna.realworld.kernels.readout import BLOCK, readout
from pna.realworld.kernels.towers import towers
from pna.realworld.layers import AFTER_LINEAR, TowersLayer
from pna.training.replicas import Lifted
from tests.interpreter import RUNS

F = 16


def resident(toys, device, dtype):
    return DeviceSplit(DATASETS["zinc"], toys.strange(), device, dtype, transposed=True)


# Lists of graphs, one for each replica, and the room for graphs, nodes and messages.
CASES = {
    "one replica": ([[0, 1, 4]], (3, 11, 12)),
    "two replicas": ([[0, 1, 4], [2, -1, -1]], (3, 11, 12)),
    "no message is padding": ([[0, 1, 4]], (3, 10, 8)),
    "every message is padding": ([[1, 2, -1], [2, 2, -1]], (3, 7, 5)),
    "no message": ([[1, 2, -1], [2, 2, -1]], (3, 7, 0)),
}


def make_layer(name):
    """A layer, and the embedding of edges that it takes."""
    if name in OGB:
        return OGB[name]((F, F), False, nn.Linear(4, F, bias=False), 0.0), nn.Linear(1, F)
    if name != "pna":
        return QUOTED[name]((F, F)), nn.Linear(1, F)
    degrees = DegreeStatistics(1.3, 2.0)
    layer = TowersLayer((F, F), ("mean", "max", "std"), ("identity", "amplification"), degrees, 2, edge_dim=3)
    return layer, nn.Linear(4, 3)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["pna", *(name for name in QUOTED if "mlp" not in name), *OGB])
def test_a_layer_by_the_kernels_is_the_plain_one_in_float64(toys, name, case, device, kernels):
    """Apart from padding: its output, its running statistics, the gradients of its input and of its weights."""
    index, shape = torch.tensor(CASES[case][0]), Shape(*CASES[case][1])
    R, (layers, (embedding, *_)) = len(index), zip(*(make_layer(name) for _ in index), strict=True)
    features = torch.randn(R, shape.nodes, F, dtype=torch.double)
    gs = [torch.randn(R, rows, F, dtype=torch.double) for rows in shape[1:]]
    results = []
    for dtype, where in ((torch.double, "cpu"), (torch.float32, device)):
        kernels(dtype == torch.float32)
        data, edges = resident(toys, where, dtype), embedding.to(where, dtype)
        lifted = Lifted(layers[0].to(where, dtype))
        theta, state = lifted.stack([layer.to(where, dtype) for layer in layers])
        leaves = [features.to(where, dtype).requires_grad_(), theta.detach().requires_grad_()]

        def one(layer, index, x, data=data, edges=edges):
            batch = data.batch(index, shape)
            d = batch.neighbourhoods.degree.to(x.dtype).unsqueeze(1)
            batch = replace(batch, scale=torch.cat([torch.ones_like(d), torch.log(d + 1) / 1.3], dim=1))  # of PNA
            out = layer(x, batch, edges, None)
            return (out.x * batch.real, out.e * out.real) if isinstance(out, Gated) else (out * batch.real,)

        out = lifted.map(leaves[1], state, one, index.to(where), leaves[0], training=True)
        grads = torch.autograd.grad(sum((t * g.to(t)).sum() for t, g in zip(out, gs, strict=False)), leaves)
        results.append([t.detach().cpu().double() for t in (*out, state, *grads)])
    for expected, other in zip(*results, strict=True):
        assert expected.isfinite().all()
        torch.testing.assert_close(other, expected, rtol=1e-3, atol=1e-4)


def of_ogb(batch):
    return batch.edge, batch.count, batch.neighbourhoods


# Of each function with kernels: how it is called, and the shapes of what has a gradient; V nodes, E messages.
V, E = 11, 12
DOORS = {
    "mean": (lambda batch, x: neighbours(x, batch.neighbourhoods, "mean"), [(V, F)]),
    "beside": (lambda batch, x: neighbours(x, batch.neighbourhoods, "beside"), [(V, F)]),
    "sum": (lambda batch, x, eps: neighbours(x, batch.neighbourhoods, "sum", eps), [(V, F), (1,)]),
    "gated": (lambda batch, nodes, edge: gated(nodes, edge, batch.neighbourhoods), [(V, 4 * F), (E, F)]),
    "gated layer": (
        lambda batch, nodes, edge, C, weight, bias: layer(
            nodes, edge, (C, None), (batch.norm.new_full((E, 1), 0.5), batch.count.new_tensor(8.0)),
            (weight, bias, torch.zeros_like(bias), torch.ones_like(bias)), batch.neighbourhoods, False,
        ),
        [(V, 4 * F), (E, F), (F, F), (F,), (F,)],
    ),
    "attention": (lambda batch, nodes: attention(nodes, 4, batch.neighbourhoods), [(V, F + 8)]),
    "gaussians": (
        lambda batch, z, W, b, mu, inverse: gaussian_sum(z, (W, b), mu, inverse, batch.neighbourhoods),
        [(V, 3 * F), (2, 2), (2,), (3, 2), (3, 2)],
    ),
    "ogb-gin": (lambda batch, x, B, eps: received(x, B, eps, None, *of_ogb(batch)), [(V, F), (F, 4), (1,)]),
    "ogb-gcn": (
        lambda batch, x, B, root, bias: received(x, B, root, bias, *of_ogb(batch)),
        [(V, F), (F, 4), (F,), (F,)],
    ),
    "readout": (lambda batch, x: readout(x, batch.joined, 3, True), [(V, F)]),
    "leaky": (lambda batch, z, bias, x: activated(z, bias, "leaky", x), [(V, F), (F,), (V, F)]),
    "unit": (lambda batch, z, bias: activated(z, bias, "unit"), [(V, F), (F,)]),
    "edges": (lambda batch, W3, shift, E, b: embedded(W3, shift, E, b), [(2, 5, 7), (2, 5), (7, 3), (7,)]),
    "norm": (
        lambda batch, x, weight, bias, residual: normalise(
            x, batch.norm, batch.count, weight, bias, (torch.zeros_like(bias), torch.ones_like(bias)),
            Then("elu", residual),
        ),
        [(V, F), (F,), (F,), (V, F)],
    ),
    "towers": (
        lambda batch, x, M, m, U, u: towers(
            x, (M, m), (U, u), batch.norm, None, ("mean", "max", "std"), batch.neighbourhoods
        ),
        [(V, 10), (2, 5, 10), (2, 5), (2, 6, 20), (2, 6)],
    ),
}  # fmt: skip


def opened(toys, name, device):
    """The function, with a batch, and its inputs."""
    function, shapes = DOORS[name]
    batch = resident(toys, device, torch.float32).batch(torch.tensor([0, 1, 4], device=device), Shape(3, V, E))
    inputs = [torch.randn(shape, device=device).requires_grad_() for shape in shapes]

    def outputs(*inputs):
        out = function(batch, *inputs)
        return out if isinstance(out, tuple) else (out,)

    return outputs, inputs


def other_layout(t):
    """Copy a tensor so that neighbours along the last axis are not neighbours in memory."""
    return torch.stack([t, t], dim=-1)[..., 0]


@pytest.mark.parametrize("name", DOORS)
def test_the_layout_of_inputs_and_of_gradients_changes_no_bit(toys, name, device, kernels):
    kernels()
    function, inputs = opened(toys, name, device)
    outputs = function(*inputs)
    g = [torch.randn_like(t) for t in outputs]
    expected = *outputs, *torch.autograd.grad(outputs, inputs, g)
    inputs = [other_layout(t.detach()).requires_grad_() for t in inputs]
    outputs = function(*inputs)
    results = *outputs, *torch.autograd.grad(outputs, inputs, [other_layout(t) for t in g])
    assert all(torch.equal(a, b) for a, b in zip(expected, results, strict=True))


@pytest.mark.parametrize("name", ["mean", "beside", "sum", "gated", "gated layer", "edges"])
def test_one_output_alone_has_its_gradient(toys, name, device, kernels):
    """Those of all are the sum of those of each."""
    kernels()
    function, inputs = opened(toys, name, device)
    outputs = function(*inputs)
    g = [torch.randn_like(t) for t in outputs]
    both = torch.autograd.grad(outputs, inputs, g, retain_graph=True)
    alone = [
        torch.autograd.grad(t, inputs, one, retain_graph=True, allow_unused=True, materialize_grads=True)
        for t, one in zip(outputs, g, strict=True)
    ]
    for total, *parts in zip(both, *alone, strict=True):
        torch.testing.assert_close(sum(parts), total, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", DOORS)
def test_a_second_derivative_is_refused_in_words(toys, name, device, kernels):
    """And not taken for zero."""
    kernels()
    function, inputs = opened(toys, name, device)
    with pytest.raises(NotImplementedError, match=r"the first derivative alone .*selection\.plain\(\)"):
        torch.autograd.grad(function(*inputs)[0].sum(), inputs, create_graph=True, allow_unused=True)


class Same(nn.Module):
    """In the place of what comes after the messages."""

    def forward(self, y, *_, **then):
        return y


def messages(name, dtype, device, tensors, data):
    """Output of ogb's layer after its messages, for two replicas, and the gradients of all `tensors`."""
    leaves, features = [t.to(device, dtype).requires_grad_() for t in tensors], tensors[0].shape[2]
    layer = OGB[name]((features, features), True, nn.Linear(13, features, bias=False), 0.0).to(device, dtype)
    layer.norm = layer.inner = layer.first = layer.second = Same()
    eye = torch.eye(features, dtype=dtype, device=device)

    def one(index, x, B, root, bias):
        batch = data.batch(index, Shape(4, 64, 160))
        gcn = {"root": root.unsqueeze(0), "linear.bias": bias, "linear.weight": eye}
        weights = {"bonds.weight": B} | ({"eps": root[:1]} if name == "ogb-gin" else gcn)
        return functional_call(layer, weights, (x, batch, None, None)) * batch.real

    index = torch.tensor([[0, 1, 2, 3], [4, 5, -1, -1]], device=device)
    out = vmap(one)(index, *leaves)
    g = torch.randn(out.shape, dtype=torch.double, generator=torch.Generator().manual_seed(0)).to(out)
    grads = torch.autograd.grad((out * g).sum(), leaves, allow_unused=True, materialize_grads=True)
    return [t.detach().cpu().double() for t in (out, *grads)]


@pytest.mark.parametrize("features", [WIDTH - 1, WIDTH + 6])
@pytest.mark.parametrize("name", OGB)
def test_ogbs_messages_over_several_blocks_of_nodes_and_features(toys, name, features, device, kernels):
    """Within 1e-5 of float64, and on a GPU the same bits again."""
    shapes = ((2, 64, features), (2, features, 13), (2, features), (2, features))
    tensors, graphs = [torch.randn(shape, dtype=torch.double) for shape in shapes], toys.graphs("molhiv", 6)
    assert graphs.nodes[:4].sum() > 3 * NODES
    results = []
    for dtype, where in ((torch.double, "cpu"), *[(torch.float32, device)] * RUNS):
        kernels(dtype == torch.float32)
        data = DeviceSplit(DATASETS["molhiv"], graphs, where, dtype, transposed=True)
        results.append(messages(name, dtype, where, tensors, data))
    for expected, other, *again in zip(*results, strict=True):
        assert (other - expected).norm() <= 1e-5 * expected.norm()
        assert all(torch.equal(other, same) for same in again)


@pytest.mark.parametrize("features", [3, 70])
@pytest.mark.parametrize("nodes", [[1, 0, BLOCK, BLOCK + 1], [0, 0, 0, 0], [3 * BLOCK, 0, 0, 5]], ids=str)
@pytest.mark.parametrize("mean", [False, True])
def test_the_sum_and_the_mean_over_graphs(nodes, features, mean, device):
    """A graph without nodes gets zero; the padding's values are not read, and have no gradient."""
    V, total = 64, sum(nodes)
    ends = torch.tensor([0, *nodes, V - total]).cumsum(0)
    ptr = torch.cat([ends[:-1] + V * r for r in range(2)] + [torch.tensor([2 * V])]).to(device)
    x, g = torch.randn(2, V, features), torch.randn(2, 4, features)
    x[:, total:] = torch.nan
    inputs = x.to(device).requires_grad_()
    out = vmap(lambda x: readout(x, Joined(ptr, None), 4, mean))(inputs)
    (grad,) = torch.autograd.grad(out, inputs, g.to(device))
    for k, (start, n) in enumerate(zip(ends, nodes, strict=False)):
        rows = slice(start, start + n)
        by = max(n, 1) if mean else 1
        torch.testing.assert_close(out[:, k].detach().cpu(), (x[:, rows].double().sum(1) / by).float())
        torch.testing.assert_close(grad[:, rows].cpu(), (g[:, k : k + 1] / by).expand(-1, n, -1))
    assert not grad[:, total:].any()


@pytest.mark.filterwarnings("ignore:overflow")  # where a block of messages goes beyond the last one
def test_attention_is_a_mean_however_large_the_logits(toys, device, kernels):
    """The mean of ones is one, or zero for a node that receives nothing."""
    kernels()
    batch = resident(toys, device, torch.float32).batch(torch.tensor([0, 1, 4], device=device), Shape(3, V, E))
    nodes = torch.cat([torch.ones(V, F), 1e4 * torch.randn(V, 8)], dim=1).to(device)
    expected = (batch.neighbourhoods.degree > 0).float().unsqueeze(1).expand(V, F)
    torch.testing.assert_close(attention(nodes, 4, batch.neighbourhoods), expected)


@pytest.mark.parametrize("kind", AFTER_LINEAR)
def test_an_activation_of_rows_of_zeros_of_almost_nothing_and_of_no_numbers(kind, device):
    z, bias = torch.randn(5, F), torch.zeros(F)
    z[1], z[2], z[3, 0] = 0, 1e-20, torch.nan
    g, results = torch.randn(5, F), []
    twin = (lambda z, bias: AFTER_LINEAR[kind](z + bias), "cpu")
    for function, where in (twin, (lambda *t: activated(*t, kind), device)):
        inputs = [t.to(where, copy=True).requires_grad_() for t in (z, bias)]
        out = function(*inputs)
        (grad,) = torch.autograd.grad(out, inputs[:1], g.to(where))
        results.append((out.detach().cpu(), grad.cpu()[[0, 1, 2, 4]]))
    for expected, other in zip(*results, strict=True):
        torch.testing.assert_close(other, expected, equal_nan=True)
