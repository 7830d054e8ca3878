"""What the networks' kernels have no derivative of is refused in words, not taken for zero."""

import pytest
import torch

from pna import DegreeStatistics
from pna.kernels.selection import plain
from pna.networks import DESCRIBED, build
from pna.networks.kernels import batchnorm, errors, head, linear, recurrence, set2set
from pna.networks.layers import MLP, Set2Set

V, F = 6, 16  # rows and features
REFUSED = r"{} has the first derivative alone .*selection\.plain\(\)"


def of_linear(x, graphs):
    return linear.linear(x, torch.ones(3, F).to(x), None, "leaky_relu")


def of_norm(x, graphs):
    return batchnorm.normalise(x, torch.ones(F).to(x), torch.zeros(F).to(x), None)[0]


def of_head(x, graphs):
    mlp = MLP([F, F, F, 3], DESCRIBED, "identity").to(x)
    return head.head(x, mlp.layers, mlp.norms, "relu", "identity")


def of_loss(x, graphs):
    y_node, y_graph = x.new_zeros(V, 3), x.new_zeros(2, 3)
    return errors.loss(x[:, :3], x[:2, :3], y_node, y_graph, x.new_ones(6))


def of_readout(x, graphs):
    return set2set.set2set(x.unflatten(0, (2, 3)), Set2Set(F).to(x).gates)


def of_layers(x, graphs):
    """Which has the gradients of weights alone: x is data there."""
    network = build("gcn", F, DESCRIBED, DegreeStatistics(1.3, 3.0)).to(x)
    batch = graphs.batch(graphs.adjacency(0, 2, 3), dtype=x.dtype, device=x.device)
    return recurrence.all_layers(x.detach(), batch, [network.GC_m], 1, None, True)


DOORS = {
    "Linear": of_linear,
    "Normalise": of_norm,
    "Head": of_head,
    "Loss": of_loss,
    "Set2Set": of_readout,
    "AllLayers": of_layers,
}


@pytest.mark.filterwarnings("ignore:Using backward")  # with create_graph, which here makes nothing
@pytest.mark.parametrize("name", DOORS)
def test_a_second_derivative_is_refused_and_says_what_to_do(name, graphs, device, cuda):
    x = torch.randn(V, F, device=device, requires_grad=True)
    out = DOORS[name](x, graphs)
    with pytest.raises(NotImplementedError, match=REFUSED.format(name)):
        out.square().sum().backward(create_graph=True)


def test_within_plain_the_network_has_second_derivatives(graphs, device, kernels):
    network = build("pna", F, DESCRIBED, DegreeStatistics(1.3, 3.0)).to(device)
    batch = graphs.batch(graphs.adjacency(0, 2, 5), dtype=torch.float, device=device)
    with plain():
        nodes, whole = network(batch)
    weights = list(network.parameters())
    firsts = torch.autograd.grad(nodes.square().sum() + whole.square().sum(), weights, create_graph=True)
    seconds = torch.autograd.grad(sum(t.square().sum() for t in firsts), weights)
    assert all(t.isfinite().all() for t in seconds)
    assert any(t.any() for t in seconds)
