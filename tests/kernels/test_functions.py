"""The base class of Functions with kernels, with plain torch in the place of the kernels."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from pna.kernels.functions import Copied, CopiedOrShared, KernelFunction, Shared, Strided, differentiated, saved


class Rows(NamedTuple):
    """An index of rows, of all replicas: [R·V]."""

    index: Tensor

    def of_replicas(self, replicas, rows):
        if len(self.index) == replicas * rows:
            return self
        return Rows((self.index + rows * torch.arange(replicas).unsqueeze(1)).flatten())


class _Weighted(KernelFunction):
    """A weighted power of some rows as a Function.

    power, x [R, V, F], weight [R, F], bias [R, F] or None, calls [R], rows -> y [R, V, F], sums [R].
    """

    @staticmethod
    def forward(power: int, x: Tensor, weight: Copied, bias: Copied | None, calls: Strided, rows: Rows):
        tensors = [t for t in (x, weight, bias) if t is not None]
        assert all(t.is_contiguous() and len(t) == len(x) for t in tensors)
        calls += 1
        y = x.flatten(0, 1)[rows.index].view_as(x) ** power * weight.unsqueeze(1)
        return y if bias is None else y + bias.unsqueeze(1), y.sum((1, 2))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.power, x, weight, bias, _, rows = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, weight, bias, *rows)

    @staticmethod
    def backward(ctx, grad, _):
        x, weight, bias, index = saved(ctx)
        assert grad.is_contiguous()
        assert x.is_contiguous()
        inner = (grad * weight.unsqueeze(1)).flatten(0, 1)
        inner = torch.empty_like(inner).index_put((index,), inner).view_as(x)
        of_weight = (grad * x.flatten(0, 1)[index].view_as(x) ** ctx.power).sum(1)
        of_bias = None if bias is None else grad.sum(1)
        return None, inner * ctx.power * x ** (ctx.power - 1), of_weight, of_bias, None, None


R, V, F = 3, 4, 5


def example(dtype=torch.double):
    return [torch.randn(shape, dtype=dtype) for shape in ((R, V, F), (R, F), (R, F))]


def reversal(replicas=1):
    return Rows(torch.cat([torch.arange(V).flip(0) + V * r for r in range(replicas)]))


def plain(x, weight, bias):
    return x.flip(0) ** 2 * weight + bias


@pytest.mark.parametrize("replicas", [1, R])
@pytest.mark.parametrize("joined", [False, True])
def test_replicas_are_the_networks_one_by_one(replicas, joined):
    leaves = [t[:replicas].clone().requires_grad_() for t in example()]
    rows, g = reversal(replicas if joined else 1), torch.randn(replicas, V, F, dtype=torch.double)
    totals = torch.zeros(replicas, dtype=torch.double)
    out, sums = vmap(lambda *t: _Weighted.call(2, *t, rows))(*leaves, totals)
    expected = torch.stack([plain(*row) for row in zip(*leaves, strict=True)])
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(sums, (expected - leaves[2].unsqueeze(1)).sum((1, 2)))
    assert totals.tolist() == [1] * replicas  # written in place, one row for each
    grads = (torch.autograd.grad(t, leaves, g, retain_graph=True) for t in (out, expected))
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_one_network_has_no_axis_of_replicas():
    leaves = [t[0].clone().requires_grad_() for t in example()]
    out, total = _Weighted.call(2, *leaves, torch.zeros((), dtype=torch.double), reversal())
    assert total.shape == ()
    torch.testing.assert_close(out, plain(*leaves))
    assert torch.autograd.gradcheck(lambda *t: _Weighted.call(2, *t, torch.zeros(()), reversal())[0], leaves)


def test_none_is_passed_through():
    x, weight, _ = example()
    out = vmap(lambda x, w, total: _Weighted.call(2, x, w, None, total, reversal())[0])(x, weight, torch.zeros(R))
    torch.testing.assert_close(out, x.flip(1) ** 2 * weight.unsqueeze(1))


@pytest.mark.parametrize("dims", [(0, None, 0), (2, 1, None), (None, 0, 0)])
def test_any_axis_and_none_may_be_the_replicas(dims):
    tensors = [t[0] if dim is None else t.movedim(0, dim) for t, dim in zip(example(), dims, strict=True)]
    totals = torch.zeros(R)
    out = vmap(lambda *t: _Weighted.call(2, *t, reversal())[0], in_dims=(*dims, 0))(*tensors, totals)
    torch.testing.assert_close(out, vmap(plain, in_dims=dims)(*tensors))


def test_replicas_of_replicas():
    x, weights, labels = torch.randn(2, R, V), torch.randn(2, R, V), torch.randn(V)
    distances = vmap(vmap(lambda x, w: _Distance.call(x, w, labels)[0]))(x, weights)
    torch.testing.assert_close(distances, ((x - labels) * weights).sum(2))


def test_no_layout_of_inputs_or_gradients_changes_a_bit():
    leaves, g = [t[0] for t in example()], torch.randn(V, F, dtype=torch.double)
    outputs = []
    for other in (lambda t: t, lambda t: torch.stack([t, t], dim=-1)[..., 0]):
        inputs = [other(t).requires_grad_() for t in leaves]
        out, _ = _Weighted.call(2, *inputs, torch.zeros(()), reversal())
        outputs.append((out, *torch.autograd.grad(out, inputs, other(g))))
    assert all(torch.equal(a, b) for a, b in zip(*outputs, strict=True))


def test_a_copy_is_saved_even_of_one_replica():
    """Its row is part of a state that others write to before the backward pass."""
    state = torch.randn(1, V * F + 2 * F, dtype=torch.double)
    x = torch.randn(1, V, F, dtype=torch.double, requires_grad=True)

    def one(state, x):
        weight, bias = state[:F], state[F : 2 * F]
        return _Weighted.call(2, x, weight, bias, torch.zeros(()), reversal())[0]

    out = vmap(one)(state, x)
    state.zero_()
    out.sum().backward()
    assert x.grad.all()


def test_a_second_derivative_is_refused_in_words():
    leaves = [t[0].requires_grad_() for t in example()]
    out, _ = _Weighted.call(2, *leaves, torch.zeros(()), reversal())
    with pytest.raises(NotImplementedError, match=r"Weighted has the first derivative alone .*selection\.plain\(\)"):
        torch.autograd.grad(out.sum(), leaves, create_graph=True)


class _Distance(KernelFunction):
    """Distances between x and labels: x [R, V] or [1, V], labels [V] -> distances [R], x and labels as they came."""

    results = 1

    @staticmethod
    def forward(x: CopiedOrShared, weights: Tensor, *labels: Shared):
        return ((x - labels[0]) * weights).sum(1), x.clone(), labels[0].clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(*output)


def test_what_is_shared_has_no_axis_of_replicas():
    x, weights, labels = torch.randn(R, V), torch.randn(R, V), torch.randn(V)
    distances, lifted, same = vmap(lambda w: _Distance.call(x[0], w, labels), out_dims=(0, None, None))(weights)
    torch.testing.assert_close(distances, ((x[0] - labels) * weights).sum(1))
    assert lifted.shape == (1, V)
    assert torch.equal(same, labels)
    distances, lifted, _ = vmap(lambda *t: _Distance.call(*t, labels), out_dims=(0, None, None))(x, weights)
    torch.testing.assert_close(distances, ((x - labels) * weights).sum(1))
    assert lifted.shape == (R, V)


def test_what_is_shared_cannot_be_batched():
    with pytest.raises(ValueError, match="labels is data, the same for every replica: it cannot be batched"):
        vmap(lambda w, labels: _Distance.call(torch.ones(V), w, labels)[0])(torch.ones(R, V), torch.ones(R, V))
    with pytest.raises(ValueError, match="rows is data, the same for every replica"):
        vmap(lambda x, index: _Weighted.call(2, x, torch.ones(F), None, torch.zeros(()), Rows(index))[0])(
            torch.ones(R, V, F), torch.zeros(R, V, dtype=torch.long)
        )


def test_a_backward_pass_may_follow_only_with_gradients():
    x, leaf = torch.ones(3), torch.ones(3, requires_grad=True)
    assert differentiated("relu", None, x, leaf)
    assert not differentiated("relu", None, x)
    with torch.no_grad():
        assert not differentiated(leaf)
