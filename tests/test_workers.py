"""A pass divided among threads by features: the same bits whenever there are as many, also after a fork."""

import os

import pytest
import torch

from pna import PNAConv, gather, workers


@pytest.fixture
def threads(monkeypatch):
    """Set the number of threads; blocks are small, so that a small graph has many."""
    monkeypatch.setattr(gather, "BLOCK", 500)
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def results():
    torch.manual_seed(0)
    conv = PNAConv(
        40, 8, ["mean", "std", "max", "min"], ["identity", "amplification"], torch.tensor([1, 5, 8]), edge_dim=3
    )
    x, edges, edge_attr = torch.randn(30, 40, requires_grad=True), torch.randint(0, 30, (2, 200)), torch.randn(200, 3)
    out = conv(x, edges, edge_attr)
    return [out, *torch.autograd.grad(out.square().sum(), [x, *conv.parameters()])]


def test_with_any_number_of_threads_the_numbers_agree_and_with_the_same_number_the_bits(threads):
    threads(1)
    expected = results()
    for number in (2, 3):
        threads(number)
        found = results()
        assert torch.get_num_threads() == number  # a user's setting stays
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        again = results()
        assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))


@pytest.mark.parametrize(("number", "features", "shares"), [(1, 64, 1), (2, 64, 2), (4, 40, 2), (3, 15, 1), (8, 48, 3)])
def test_the_shares_are_all_features_once(threads, number, features, shares):
    threads(number)
    seen = []
    workers.over_features(seen.append, features)
    assert len(seen) == shares
    covered = sorted(f for share in seen for f in range(features)[share])
    assert covered == list(range(features))


def test_nothing_is_recorded_and_an_error_comes_through(threads):
    threads(2)
    modes = []
    workers.over_features(lambda _: modes.append(torch.is_grad_enabled()), 64)
    assert modes == [False, False]

    def fail(_):
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        workers.over_features(fail, 64)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_has_threads_of_its_own(threads):
    threads(2)
    workers.over_features(lambda _: None, 64)
    child = os.fork()
    if child == 0:
        seen = []
        workers.over_features(seen.append, 64)  # would wait for ever for its parent's threads
        os._exit(len(seen))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_inference_mode_has_the_numbers_of_no_grad(threads):
    threads(2)
    conv = PNAConv(64, 8, ["mean", "std", "max"], ["identity"], torch.tensor([1, 5, 8]))
    x, edges = torch.randn(40, 64), torch.randint(0, 40, (2, 300))
    with torch.no_grad():
        expected = conv(x, edges)
    with torch.inference_mode():
        assert torch.equal(conv(x, edges), expected)
