"""Batch normalisation against torch's own: over all rows, over the positions of nodes (D7), and over real entries."""

import pytest
import torch
from torch.nn import functional

from pna.networks.norm import BatchNorm

F = 6


def assert_near(out, expected, tolerance=1e-12):
    torch.testing.assert_close(out, expected, rtol=0, atol=tolerance)


def random(*shape):
    return torch.randn(*shape, dtype=torch.double)


def pair_of_norms(position_norm=False):
    """This project's and torch's, with the same random weights."""
    ours, theirs = BatchNorm(F, position_norm=position_norm).double(), torch.nn.BatchNorm1d(F).double()
    with torch.no_grad():
        for name in ("weight", "bias"):
            getattr(ours, name).copy_(random(F))
            getattr(theirs, name).copy_(getattr(ours, name))
    return ours, theirs


def assert_same_statistics(ours, theirs):
    assert_near(ours.running_mean, theirs.running_mean)
    assert_near(ours.running_var, theirs.running_var)


@pytest.mark.parametrize("position_norm", [False, True])
def test_it_equals_torchs_in_training_and_evaluation(position_norm):
    ours, theirs = pair_of_norms(position_norm)
    for batch in range(4):
        x = (3 * random(10 + batch, F) + batch).requires_grad_()
        out, expected = ours(x), theirs(x)
        assert_near(out, expected)
        assert_near(*(torch.autograd.grad((o**3).sum(), x)[0] for o in (out, expected)), 1e-10)
        assert_same_statistics(ours, theirs)
    ours.eval(), theirs.eval()
    assert_near(ours(x), theirs(x))
    assert_same_statistics(ours, theirs)


@pytest.mark.parametrize("affine", [True, False])
def test_its_state_is_torchs_but_for_the_count_of_batches(affine):
    ours, theirs = BatchNorm(F, affine=affine).state_dict(), torch.nn.BatchNorm1d(F, affine=affine).state_dict()
    del theirs["num_batches_tracked"]
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


# ---- D7 ----


def test_d7_normalises_node_positions_where_n_equals_the_features():
    ours, theirs = pair_of_norms(position_norm=True)
    for batch in range(3):
        x = (random(5, F, F) * torch.arange(1, F + 1).view(F, 1) + batch).requires_grad_()  # each position has a scale
        out, expected = ours(x.flatten(0, 1), nodes_per_graph=F), theirs(x).flatten(0, 1)  # axes not exchanged
        assert_near(out, expected)
        assert_near(*(torch.autograd.grad((o**3).sum(), x)[0] for o in (out, expected)), 1e-10)
        assert_same_statistics(ours, theirs)
    ours.eval(), theirs.eval()
    assert_near(ours(x.flatten(0, 1), nodes_per_graph=F), theirs(x).flatten(0, 1))


@pytest.mark.parametrize("N", [5, 7, 12, None])
def test_d7_is_ordinary_where_n_is_another(N):
    ours, theirs = pair_of_norms(position_norm=True)
    x = random(4 * (N or 3), F)
    assert_near(ours(x, nodes_per_graph=N), theirs(x))
    assert_same_statistics(ours, theirs)


def test_without_d7_the_features_are_normalised_even_where_n_equals_their_number():
    ours, theirs = pair_of_norms()
    x = random(24, F)
    assert_near(ours(x, nodes_per_graph=F), theirs(x))


def test_d7_shares_its_running_statistics_between_positions_and_features():
    """The released module is one BatchNorm1d, whichever axis it sees."""
    ours, theirs = pair_of_norms(position_norm=True)
    for N in (F, 5, F):
        x = random(4, N, F) + N
        ours(x.flatten(0, 1), nodes_per_graph=N)
        theirs(x if N == F else x.transpose(1, 2))
        assert_same_statistics(ours, theirs)


# ---- padding ----


@pytest.mark.parametrize("shape", [(9, F), (9, F, 4)], ids=["rows", "graphs and features"])
def test_moments_are_those_of_the_real_entries(shape):
    norm, running = BatchNorm(F, affine=False).double(), torch.nn.BatchNorm1d(F, affine=False).double()
    real = torch.tensor([1, 1, 0, 1, 0, 1, 1, 1, 0]).view(-1, *[1] * (len(shape) - 1)).double()
    count = real.sum() * random(shape).select(1, 0)[0].numel()
    for batch in range(3):
        x = 3 * random(*shape) + batch
        entries = x[real.flatten() == 1]
        expected = running(entries)
        centred, mean, var = norm.moments(x, real, count)
        assert_near(mean.flatten(), entries.transpose(0, 1).flatten(1).mean(1))
        assert_near((centred * torch.rsqrt(var + 1e-5))[real.flatten() == 1], expected)
        assert_same_statistics(norm, running)
    norm.eval()
    centred, mean, var = norm.moments(x, real, count)
    assert torch.equal(mean.flatten(), norm.running_mean)
    assert torch.equal(var.flatten(), norm.running_var)
    assert torch.equal(centred, x - mean)


def test_a_batch_without_real_entries_has_moments_zero():
    norm = BatchNorm(F).double()
    _, mean, var = norm.moments(random(3, F), torch.zeros(3, 1), torch.tensor(0.0))
    assert not mean.any()
    assert not var.any()
    assert_near(norm.running_var, torch.full((F,), 0.9, dtype=torch.double))


# ---- several batches at once ----


def test_the_average_of_recent_batches_updates_as_one_batch_after_another():
    norm, running = BatchNorm(F).double(), torch.nn.BatchNorm1d(F).double()
    x = random(5, 20, F) + torch.arange(5).view(-1, 1, 1)
    for batch in x:
        functional.batch_norm(batch, running.running_mean, running.running_var, training=True)
    statistics = torch.stack([x.mean(1), x.var(1, unbiased=False)], dim=1)  # [batches, 2, F]
    norm.remember(*norm.recent(statistics), rows=20, batches=5)
    assert_same_statistics(norm, running)
