"""The CUDA kernels of Set2Set, on the GPU or emulated on the CPU, against the plain module in float64."""

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from pna.networks.kernels import set2set
from pna.networks.layers import Set2Set

pytestmark = pytest.mark.usefixtures("cuda")

R, G = 2, 21  # two blocks for each replica, of which the second has graphs that are not there


def replicas(dtype, device, H):
    torch.manual_seed(0)
    modules = [Set2Set(H) for _ in range(R)]
    for parameter in (p for module in modules for p in module.parameters()):
        torch.nn.init.normal_(parameter, std=0.3)
    weights = stack_module_state(modules)[0]
    return modules[0].to(device, dtype), {k: w.detach().to(device, dtype) for k, w in weights.items()}


class Fused(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.gates = module.gates

    def forward(self, x):
        return set2set.set2set(x, self.gates)


def results(x, g, fused):
    """The output and the gradients of x and of all weights, for R replicas."""
    module, weights = replicas(x.dtype, x.device, x.shape[-1])
    weights = {name: w.requires_grad_() for name, w in weights.items()}
    x = x.clone().requires_grad_()
    called = Fused(module) if fused else module
    out = vmap(lambda w, x: functional_call(called, w, (x,)))(weights, x)
    grads = torch.autograd.grad(out, [x, *weights.values()], g)
    return [t.detach().cpu().double() for t in (out, *grads)]


@pytest.mark.parametrize(("N", "H"), [(1, 16), (15, 16), (24, 16), (32, 16), (1, 20), (24, 20), (13, 32), (7, 8)])
def test_same_as_the_plain_module(N, H, device):
    assert_same(G, N, H, device)


@pytest.mark.gpu  # the emulation would take minutes
@pytest.mark.parametrize("H", [16, 20])
def test_same_as_the_plain_module_at_the_benchmarks_sizes(H, device):
    assert_same(512, 24, H, device)


def assert_same(G, N, H, device):
    torch.manual_seed(1)
    x, g = torch.randn(R, G, N, H), torch.randn(R, G, 2 * H)
    expected = results(x.double(), g.double(), fused=False)
    for k, (a, b) in enumerate(zip(expected, results(x.to(device), g.to(device), fused=True), strict=True)):
        assert (b - a).norm() <= (1e-5 if k == 0 else 1e-4) * a.norm()


@pytest.mark.parametrize("H", [16, 20])
def test_same_bits_every_time(H, device):
    torch.manual_seed(1)
    x, g = torch.randn(R, G, 7, H, device=device), torch.randn(R, G, 2 * H, device=device)
    assert all(torch.equal(a, b) for a, b in zip(*(results(x, g, fused=True) for _ in range(2)), strict=True))


def test_large_features(device):
    """Attention is all on one node, and the exponentials of the others' logits are zeros."""
    torch.manual_seed(1)
    x = 100 * torch.randn(R, G, 20, 16, device=device)
    module, weights = replicas(torch.float32, device, 16)
    with torch.no_grad():
        out = vmap(lambda w, x: functional_call(Fused(module), w, (x,)))(weights, x)
    assert out.isfinite().all()
