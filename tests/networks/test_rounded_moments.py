"""D12: the released code centres once, and an odd moment of two neighbours is then rounding, blown up to ±ε^(1/n)."""

import pytest
import torch

from pna.aggregators import EPSILON, resolve
from pna.networks import DESCRIBED, NetworkSpec, build

D12 = NetworkSpec(centred_once=True)


@pytest.mark.parametrize("n", [3, 5])
def test_two_messages_have_an_odd_moment_of_zero_or_of_rounding(n):
    torch.manual_seed(0)
    m, ptr = torch.randn(20_000, 1), torch.arange(0, 20_001, 2)
    assert not resolve(f"moment{n}").function(m, ptr).any()
    rounded = resolve(f"rounded_moment{n}").function(m, ptr)
    noise = rounded[rounded != 0]
    assert 0.1 < len(noise) / len(rounded) < 0.7  # by the released code's count 38 %
    blown_up = noise.abs() / EPSILON ** (1 / n)  # the rounding itself adds a little to ε
    assert blown_up.min() >= 0.999
    assert blown_up.max() < 1.5
    assert 0.4 < (noise > 0).float().mean() < 0.6


@pytest.mark.parametrize("n", [3, 4, 5])
def test_more_messages_have_the_same_moments(n):
    torch.manual_seed(1)
    m, ptr = torch.randn(3_000, 4, dtype=torch.double, requires_grad=True), torch.arange(0, 3_001, 5)
    exact, rounded = (resolve(f"{kind}moment{n}").function(m, ptr) for kind in ("", "rounded_"))
    torch.testing.assert_close(rounded, exact, rtol=1e-9, atol=1e-9)
    (a,), (b,) = (torch.autograd.grad(out.sum(), m) for out in (exact, rounded))
    torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


def test_the_switch_touches_the_moments_of_a_network_and_nothing_else():
    for model, touched in {"moments-2": False, "moments-3": True, "moments-5": True, "pna": False}.items():
        names = [build(model, 16, spec).GC_m.conv.combined.aggregators for spec in (DESCRIBED, D12)]
        assert (names[0] != names[1]) is touched
        assert tuple(name.removeprefix("rounded_") for name in names[1]) == names[0]


def test_a_rounded_moment_needs_an_order_too():
    with pytest.raises(ValueError, match="unknown aggregator 'rounded_moment1'"):
        resolve("rounded_moment1")
