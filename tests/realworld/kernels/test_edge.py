"""The embedding of edges in M, by its kernels, against the products that it stands for, in float64, for replicas."""

import pytest
import torch
from torch.func import vmap

from pna.realworld.kernels.edge import embedded


@pytest.mark.parametrize(("F", "Q", "D", "biased"), [(15, 50, 1, True), (4, 20, 4, False), (5, 3, 2, True)])
def test_it_is_the_products(F, Q, D, biased, device):
    R, T = 3, 2
    shapes = [(R, T, F, 3 + Q), (R, T, F), (R, Q, D), (R, Q)]
    leaves = [torch.randn(shape, dtype=torch.double) for shape in shapes]
    g, h = torch.randn(R, T, F, D, dtype=torch.double), torch.randn(R, T, F, dtype=torch.double)

    def products(W, shift, E, b):
        return W[..., 3:] @ E, shift + W[..., 3:] @ b if biased else shift

    def kernels(W, shift, E, b):
        weight, shift = embedded(W[..., 3:], shift, E, b if biased else None)
        return weight[:, :F], shift, weight[:, F:]

    results = []
    for function, dtype, where in ((products, torch.double, "cpu"), (kernels, torch.float32, device)):
        inputs = [t.to(where, dtype).requires_grad_() for t in leaves]
        weight, shift, *padding = vmap(function)(*inputs)
        assert all((t == 0).all() for t in padding)
        grads = torch.autograd.grad(
            (weight * g.to(weight)).sum() + (shift * h.to(shift)).sum(), inputs, allow_unused=True
        )
        results.append([t.detach().cpu().double() for t in (weight, shift, *grads) if t is not None])
    for expected, other in zip(*results, strict=True):
        torch.testing.assert_close(other, expected, rtol=1e-4, atol=1e-4)
