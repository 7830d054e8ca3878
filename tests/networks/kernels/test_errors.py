"""The loss by the kernels against the plain one in float64, for several replicas."""

import pytest
import torch

from pna.experiments.multitask import task_errors, task_loss


def loss_and_gradients(batch, nodes, graphs, tasks):
    leaves = [t.detach().to(batch.x).requires_grad_() for t in (nodes, graphs)]
    of_one = lambda nodes, graphs, tasks: task_loss((nodes, graphs), batch, tasks)  # noqa: E731
    losses = torch.func.vmap(of_one)(*leaves, tasks.to(batch.x))
    tensors = [losses, *torch.autograd.grad(losses, leaves, torch.arange(1.0, 1 + len(losses)).to(losses))]
    with torch.no_grad():
        tensors.append(torch.func.vmap(lambda *predictions: task_errors(predictions, batch))(*leaves))
    return [t.detach().cpu().double() for t in tensors]


@pytest.mark.parametrize("R", [1, 3])
def test_the_loss(R, graphs, device, kernels):
    """A task without weight adds nothing to the loss, even where its error overflows."""
    torch.manual_seed(0)
    A, x = graphs.adjacency(0, 5, 7), torch.rand(35, 2)
    nodes, whole, tasks = torch.randn(R, 35, 3), torch.randn(R, 5, 3), torch.rand(R, 6)
    tasks[0, 1], tasks[-1, 5], nodes[0, 3, 1] = 0, 0, 1e30
    expected = loss_and_gradients(graphs.batch(A, x.double()), nodes.double(), whole.double(), tasks.double())
    results = loss_and_gradients(graphs.batch(A, x, torch.float, device), nodes, whole, tasks)
    assert expected[0].isfinite().all()
    assert results[3][0, 1] == torch.inf
    for a, b in zip(expected[:3], results[:3], strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(results[3][:, [0, 2, 3, 4, 5]], expected[3][:, [0, 2, 3, 4, 5]], rtol=1e-5, atol=1e-7)
