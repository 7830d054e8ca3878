"""Networks are written for one and lifted to many: with torch.func.vmap, each equals itself alone."""

import copy
from dataclasses import replace

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from pna import DegreeStatistics
from pna.networks import DESCRIBED, MODELS, build
from pna.networks import RELEASED as AS_RELEASED
from pna.networks.architectures import ARCHITECTURES, Standard
from pna.networks.depths import DEPTHS

RELEASED = replace(AS_RELEASED, centred_once=False)  # D12 is rounding, which no two computations share

REPLICAS = 3
N = HIDDEN = 8  # equal, so that D7 is at work


@pytest.fixture(autouse=True)
def _three_layers(monkeypatch):
    monkeypatch.setattr(Standard, "LAYERS", 3)  # the other five would be lifted in the same way


def assert_near(out, expected):
    scale = max(1.0, expected.abs().max().item())
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-10 * scale)


def make_networks(model, architecture, spec):
    networks = [build(model, HIDDEN, spec, DegreeStatistics(1.3, 3.0), architecture).double() for _ in range(REPLICAS)]
    for network in networks:
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.4)
    return networks


def lifted(network, parameters, buffers, batch):
    return vmap(lambda p, b: functional_call(network, (p, b), (batch,)))(parameters, buffers)


def loss_of(nodes, whole):
    return nodes.square().mean() + whole.square().mean()


PAIRS = [  # of model, architecture and specification, every two
    pytest.param(model, architecture, (DESCRIBED, RELEASED)[(i + k) % 2], id=f"{model}-{architecture}-{(i + k) % 2}")
    for i, model in enumerate(MODELS)
    for k, architecture in enumerate(ARCHITECTURES)
]


@pytest.mark.parametrize(("model", "architecture", "spec"), PAIRS)
def test_many_networks_at_once_equal_each_alone(graphs, model, architecture, spec):
    batch = graphs.batch(graphs.adjacency(0, 4, N))
    networks = make_networks(model, architecture, spec)
    parameters, buffers = stack_module_state(copy.deepcopy(networks))

    nodes, whole = lifted(networks[0], parameters, buffers, batch)
    loss = sum(loss_of(nodes[r], whole[r]) for r in range(REPLICAS))
    grads = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))
    for r, network in enumerate(networks):
        expected = network(batch)
        assert_near(nodes[r], expected[0])
        assert_near(whole[r], expected[1])
        expected_grads = torch.autograd.grad(loss_of(*expected), list(network.parameters()))
        for (name, _), grad in zip(network.named_parameters(), expected_grads, strict=True):
            assert_near(grads[name][r], grad)
        for name, buffer in network.named_buffers():
            assert_near(buffers[name][r], buffer)

    for network in networks:  # then evaluated, with the running statistics of that step
        network.eval()
    with torch.no_grad():
        nodes, whole = lifted(networks[0], parameters, buffers, batch)
        expected = networks[1](batch)
    assert_near(nodes[1], expected[0])
    assert_near(whole[1], expected[1])


@pytest.mark.parametrize("spec", [DESCRIBED, RELEASED], ids=["described", "released"])
def test_running_statistics_move_in_training_and_rest_in_evaluation(graphs, spec):
    networks = make_networks("gin", "recurrent", spec)
    parameters, buffers = stack_module_state(copy.deepcopy(networks))
    assert sum(name.endswith("running_var") for name in buffers) == 4  # one in each convolution, two in the graph head
    for training in (True, True, False):
        for network in networks:
            network.train(training)
        before = {name: buffer.clone() for name, buffer in buffers.items()}
        batch = graphs.batch(graphs.adjacency(int(training), 4, N))
        lifted(networks[0], parameters, buffers, batch)
        for r, network in enumerate(networks):
            network(batch)
            for name, buffer in network.named_buffers():
                assert_near(buffers[name][r], buffer)
                assert torch.equal(buffers[name][r], before[name][r]) != training


@pytest.mark.parametrize("model", ["pna", "gat", "gin"])
def test_a_replica_that_diverges_leaves_the_others_alone(graphs, model):
    batch = graphs.batch(graphs.adjacency(1, 4, N))
    networks = make_networks(model, "recurrent", RELEASED)
    with torch.no_grad():
        for parameter in networks[1].parameters():
            parameter.fill_(torch.nan)
    parameters, buffers = stack_module_state(copy.deepcopy(networks))
    nodes, whole = lifted(networks[0], parameters, buffers, batch)
    loss = sum(loss_of(nodes[r], whole[r]) for r in (0, 1, 2))
    grads = torch.autograd.grad(loss, list(parameters.values()))
    assert nodes[1].isnan().all()
    for r in (0, 2):
        assert_near(nodes[r], networks[r](batch)[0])
        assert_near(whole[r], networks[r](batch)[1])
        assert all(grad[r].isfinite().all() for grad in grads)


@pytest.mark.parametrize("model", ["pna", "gat"])
def test_the_depth_diameter_is_lifted_too(graphs, model):
    batch = graphs.batch(graphs.adjacency(1, 4, N, 0.2))
    assert len(set(batch.diameter.tolist())) > 1
    networks = make_networks(model, "recurrent", DESCRIBED)
    for network in networks:
        network.depth = DEPTHS["diameter"]
    nodes, _ = lifted(networks[0], *stack_module_state(copy.deepcopy(networks)), batch)
    for r, network in enumerate(networks):
        assert_near(nodes[r], network(batch)[0])
