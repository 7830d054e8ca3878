"""Adam of many replicas against torch.optim.Adam, replica by replica."""

import torch

from pna.training.adam import adam_step

R, P, STEPS = 4, 11, 50
RATES = torch.tensor([[0.003], [0.1], [1e-5], [1.0]], dtype=torch.double)
DECAYS = torch.tensor([[0.0], [1e-6], [0.1], [1e-3]], dtype=torch.double)


def zero_moments(theta):
    return torch.zeros_like(theta), torch.zeros_like(theta)


def gradients(theta):
    """Gradients of a function that is not convex, and different for each replica."""
    return (3 * theta).sin() + theta * torch.arange(1.0, len(theta) + 1, dtype=theta.dtype).unsqueeze(1)


def test_fifty_steps_equal_torchs_adam():
    """Each replica with its own rate and its own decay."""
    start = torch.randn(R, P, dtype=torch.double)
    theta, (m, v) = start.clone(), zero_moments(start)
    for step in range(1, STEPS + 1):
        adam_step(theta, gradients(theta), m, v, torch.full((R, 1), float(step)).double(), RATES, DECAYS)

    expected = [row.clone().requires_grad_() for row in start]
    optimisers = [
        torch.optim.Adam([row], lr=rate.item(), weight_decay=decay.item())
        for row, rate, decay in zip(expected, RATES, DECAYS, strict=True)
    ]
    for _ in range(STEPS):
        grads = gradients(torch.stack([row.detach() for row in expected]))
        for row, grad, optimiser in zip(expected, grads, optimisers, strict=True):
            row.grad = grad
            optimiser.step()
    torch.testing.assert_close(theta, torch.stack(expected).detach(), rtol=1e-12, atol=1e-12)


def test_every_replica_counts_its_own_steps():
    start, grad = torch.randn(2, P, dtype=torch.double), torch.randn(2, P, dtype=torch.double)
    theta, (m, v) = start.clone(), zero_moments(start)
    adam_step(theta, grad, m, v, torch.tensor([[1.0], [7.0]]).double(), RATES[:2], DECAYS[:2])
    for row, step in enumerate([1.0, 7.0]):
        alone, moments = start[[row]].clone(), zero_moments(start[[row]])
        adam_step(alone, grad[[row]], *moments, torch.tensor([[step]]).double(), RATES[[row]], DECAYS[[row]])
        torch.testing.assert_close(theta[[row]], alone, rtol=1e-12, atol=0)
    assert (theta[0] - start[0]).abs().allclose(RATES[0], atol=1e-6)  # the first step has the length of the rate


def test_a_rate_of_zero_moves_nothing():
    start = torch.randn(R, P)
    theta, (m, v) = start.clone(), zero_moments(start)
    adam_step(theta, torch.randn(R, P), m, v, torch.ones(R, 1), torch.zeros(R, 1), DECAYS.float())
    assert torch.equal(theta, start)
    assert (m != 0).all()
