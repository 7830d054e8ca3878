"""Products for many replicas equal torch.nn.functional.linear, gradients included, for any number of rows."""

import pytest
import torch
from torch.func import functional_call, vmap
from torch.nn import functional

from pna import products, towers
from pna.kernels import selection
from pna.products import Linear

R = 3


@pytest.fixture(autouse=True)
def _everywhere(monkeypatch):
    """Use the batched products on a CPU as well."""
    monkeypatch.setattr(selection, "usable", lambda t: True)


def grads(function, x, parameters):
    """The output, and the gradients of x and the parameters."""
    leaves = [t.detach().requires_grad_() for t in (x, *parameters)]
    out = function(*leaves)
    return [out, *torch.autograd.grad(out, leaves, torch.cos(torch.arange(out.numel()).view(out.shape)).to(out))]


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.double)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 63, 128, 448, 4096 + 128])
def test_it_is_linear(rows, bias):
    layer, x = Linear(3, 2, bias=bias), drawn(R, rows, 3)
    names = dict(layer.named_parameters())
    parameters = [drawn(R, *p.shape) for p in names.values()]

    def ours(x, *parameters):
        return vmap(lambda x, *p: functional_call(layer, dict(zip(names, p, strict=True)), (x,)))(x, *parameters)

    expected = grads(vmap(functional.linear), x, parameters)
    for a, b in zip(grads(ours, x, parameters), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("of_x", [True, False])
def test_wide_weights_have_the_same_gradients(of_x, monkeypatch):
    """With and without the gradient of x; second derivatives included."""
    results = []
    x, parameters = drawn(R, 128, 3).requires_grad_(of_x), [drawn(R, *s).requires_grad_() for s in ((2, 3), (2,))]
    for least in (2, 256):
        monkeypatch.setattr(products, "WIDE", least)
        out, leaves = vmap(products.linear)(x, *parameters), [x, *parameters][not of_x :]
        first = torch.autograd.grad(out.square().sum(), leaves, retain_graph=True)
        again = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        results.append([*first, *again, *torch.autograd.grad(sum(t.square().sum() for t in again), leaves)])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_the_same_rows_for_every_replica():
    x, weight = drawn(256, 3), drawn(R, 2, 3).requires_grad_()
    out = vmap(lambda w: products.batched(x.unsqueeze(0), w.unsqueeze(0), None).squeeze(0))(weight)
    torch.testing.assert_close(out, x @ weight.mT)
    torch.testing.assert_close(torch.autograd.grad(out.sum(), weight)[0], x.sum(0).expand(R, 2, 3))


@pytest.mark.parametrize("width", [1, 4])
def test_towers(width, monkeypatch):
    parts = drawn(R, 128, width, 3), [drawn(R, 4, 2, 3), drawn(R, 4, 2)]
    for function, parameters in ((towers.affine, parts[1]), (towers.product, parts[1][:1])):
        ours = grads(vmap(function), parts[0], parameters)
        with monkeypatch.context() as patch:
            patch.setattr(products, "supports", lambda x: False)
            expected = grads(vmap(function), parts[0], parameters)
        for a, b in zip(ours, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("around", [lambda f: f, torch.func.grad], ids=["nothing", "grad"])
def test_without_replicas_it_is_torchs(around):
    said = []
    around(lambda x: said.append(products.supports(x)) or x.sum())(torch.randn(2, 3))
    assert said == [False]


@pytest.mark.parametrize("shape", [(3,), (5, 6, 3), (2, 5, 6, 3)])
def test_rows_of_any_shape(shape):
    layer, x = Linear(3, 2).double(), drawn(R, *shape)
    torch.testing.assert_close(vmap(layer)(x), functional.linear(x, layer.weight, layer.bias))


@pytest.mark.parametrize("function", [functional.linear, products.linear])
def test_autocast_has_the_same_gradients(function):
    """The rows are float32 and their products are not, which the backward pass must respect."""
    x, weight = (drawn(R, *shape).float().requires_grad_() for shape in ((128, 3), (2, 3)))
    with torch.autocast("cpu", torch.bfloat16):
        out = vmap(lambda x, w: function(x, w, None))(x, weight)
    assert out.dtype == torch.bfloat16
    grad = torch.autograd.grad(out.sum(), weight)[0]
    torch.testing.assert_close(grad, x.sum(1, keepdim=True).expand_as(weight), rtol=0.02, atol=0.2)


def test_a_literal_case():
    x, weight, bias = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, 5.0]]]), torch.tensor([[7.0]])
    assert products.batched(x, weight, bias).tolist() == [[[20.0]]]


def test_the_rows_are_shared_out():
    g, x = drawn(2, 256, 3), drawn(2, 256, 5)
    torch.testing.assert_close(products._over_rows(g, x), g.mT @ x)
