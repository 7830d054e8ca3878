"""GRU, Set2Set, MLP and initialisation against torch's and PyTorch Geometric's own."""

import math

import pytest
import torch
from torch.nn import functional
from torch_geometric.nn.aggr import Set2Set as PyGSet2Set

from pna.networks import DESCRIBED, MODELS, RELEASED, NetworkSpec, build
from pna.networks.layers import GRU, MLP, Set2Set, head, initialise, linear
from pna.towers import TowerLinear

POSITION_NORM = NetworkSpec(position_norm=True)  # D7
ACTIVATED = NetworkSpec(activated_outputs=True)
SMALL = NetworkSpec(small_initialisation=True)


def assert_near(out, expected, tolerance=1e-12):
    torch.testing.assert_close(out, expected, rtol=0, atol=tolerance)


def random(*shape):
    return torch.randn(*shape, dtype=torch.double)


def recurrent_weights(gates):
    """The names that torch.nn.GRU and LSTM give to the same weights."""
    return {
        "weight_ih_l0": gates.input.weight,
        "weight_hh_l0": gates.state.weight,
        "bias_ih_l0": gates.input.bias,
        "bias_hh_l0": gates.state.bias,
    }


# ---- GRU and Set2Set ----


def test_gru_equals_torchs_cell():
    gru = GRU(5).double()
    cell = torch.nn.GRUCell(5, 5).double()
    cell.load_state_dict({name.removesuffix("_l0"): w for name, w in recurrent_weights(gru.gates).items()})
    x, h = random(7, 5), random(7, 5)
    assert_near(gru(x, h), cell(x, h))


def test_gru_over_a_sequence_equals_torchs():
    gru, theirs = GRU(5).double(), torch.nn.GRU(5, 5).double()
    theirs.load_state_dict(recurrent_weights(gru.gates))
    x, h = random(6, 7, 5), random(7, 5)
    expected, _ = theirs(x, h.unsqueeze(0))
    for t in range(6):
        h = gru(x[t], h)
        assert_near(h, expected[t])


@pytest.mark.parametrize("layer", [GRU(12).gates, Set2Set(12).gates], ids=["GRU", "LSTM"])
def test_recurrent_cells_start_as_torchs_do(layer):
    assert all(0.2 / math.sqrt(12) < p.abs().max() <= 1 / math.sqrt(12) for p in layer.parameters())


def test_lstm_of_set2set_equals_torchs():
    readout, theirs = Set2Set(4).double(), torch.nn.LSTM(8, 4).double()
    theirs.load_state_dict(recurrent_weights(readout.gates))
    x = random(5, 3, 8)
    expected, (_, expected_memory) = theirs(x)
    h = c = torch.zeros(3, 4, dtype=torch.double)
    for t in range(5):
        h, c = readout._lstm(x[t], h, c)
        assert_near(h, expected[t])
    assert_near(c, expected_memory[0])


@pytest.mark.parametrize("N", [1, 2, 9])
def test_set2set_equals_pytorch_geometrics_with_n_steps(N):
    G, H = 4, 6
    mine, theirs = Set2Set(H).double(), PyGSet2Set(H, processing_steps=N).double()
    theirs.lstm.load_state_dict(recurrent_weights(mine.gates))
    x = random(G, N, H).requires_grad_()
    out = mine(x)
    expected = theirs(x.flatten(0, 1), torch.arange(G).repeat_interleave(N))
    assert out.shape == (G, 2 * H)
    assert_near(out, expected)
    assert_near(*(torch.autograd.grad(o.square().sum(), x)[0] for o in (out, expected)))


def test_set2set_has_as_many_steps_as_nodes_and_no_others():
    mine, theirs = Set2Set(6).double(), PyGSet2Set(6, processing_steps=8).double()
    theirs.lstm.load_state_dict(recurrent_weights(mine.gates))
    x = random(2, 9, 6)
    assert not torch.allclose(mine(x), theirs(x.flatten(0, 1), torch.arange(2).repeat_interleave(9)), atol=1e-6)


# ---- MLP ----


def affine(x, layer):
    return x @ layer.weight.t() + layer.bias


def leaky(x):
    return torch.where(x > 0, x, 0.01 * x)


def relu(x):
    return x.clamp(min=0)


def normalised(x):
    """Batch normalisation as a fresh layer does it: weights 1, biases 0."""
    return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()


def test_node_head_has_leaky_relu_after_each_layer_the_last_included():
    mlp = head([5, 4, 4, 3], ACTIVATED).double()
    x = random(50, 5)
    expected = x
    for layer in mlp.layers:
        expected = leaky(affine(expected, layer))
    assert_near(mlp(x), expected)
    assert (expected < 0).any()
    assert mlp.norms is None


@pytest.mark.parametrize("norm", [False, True])
def test_described_heads_end_with_a_linear_layer(norm):
    described, released = (head([5, 4, 4, 3], spec, norm).double() for spec in (DESCRIBED, ACTIVATED))
    released.load_state_dict(described.state_dict())
    x = random(50, 5)
    assert_near(released(x), leaky(described(x)))
    assert (described(x) < -0.01).any()


def test_graph_head_has_relu_then_batch_norm_and_leaky_relu_last():
    mlp = head([5, 4, 4, 3], ACTIVATED, norm=True).double()
    x = random(50, 5)
    one, two, three = mlp.layers
    expected = normalised(relu(affine(x, one)))
    expected = normalised(relu(affine(expected, two)))
    expected = leaky(affine(expected, three))
    assert_near(mlp(x), expected)
    assert (expected < 0).any()
    assert len(mlp.norms) == 2


def test_mlp_of_gin_has_relu_then_batch_norm_and_relu_last():
    mlp = MLP([5, 4, 3], DESCRIBED, last="relu", norm=True).double()
    x = random(50, 5)
    one, two = mlp.layers
    assert_near(mlp(x), relu(affine(normalised(relu(affine(x, one))), two)))


def test_mlp_hands_the_number_of_nodes_to_its_norms():
    mlp = MLP([5, 4, 4], POSITION_NORM, last="relu", norm=True).double()
    x = random(3, 4, 5)
    one, two = mlp.layers
    between = functional.batch_norm(relu(affine(x, one)), None, None, training=True)  # channel = position
    assert_near(mlp(x.flatten(0, 1), nodes_per_graph=4), relu(affine(between, two)).flatten(0, 1))
    assert not torch.allclose(mlp(x.flatten(0, 1)), mlp(x.flatten(0, 1), nodes_per_graph=4), atol=1e-3)


# ---- initialisation ----


@pytest.mark.parametrize(("fan_in", "fan_out"), [(2, 16), (16, 16), (32, 16), (208, 4), (16, 3)])
def test_released_initialisation_is_xavier_with_gain_one_over_in(fan_in, fan_out):
    mine, theirs = torch.empty(fan_out, fan_in), torch.empty(fan_out, fan_in)
    torch.manual_seed(7)
    initialise(mine, SMALL)
    torch.manual_seed(7)
    torch.nn.init.xavier_uniform_(theirs, gain=1 / fan_in)
    torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=0)  # the same draw in the same bounds


def test_released_initialisation_in_distribution():
    mine, theirs = torch.empty(300, 200), torch.nn.init.xavier_uniform_(torch.empty(300, 200), gain=1 / 200)
    initialise(mine, SMALL)
    assert mine.std().item() == pytest.approx(theirs.std().item(), rel=0.01)
    assert mine.abs().max().item() == pytest.approx(theirs.abs().max().item(), rel=0.001)
    assert mine.mean().item() == pytest.approx(0, abs=mine.std().item() / 50)


def test_released_bias_is_zero():
    layer = linear(30, 20, SMALL)
    assert not layer.bias.any()
    assert layer.weight.any()


def test_described_initialisation_is_that_of_torchs_linear_layer():
    torch.manual_seed(7)
    theirs = torch.nn.Linear(30, 20)
    mine = torch.empty(20, 30), torch.empty(20)
    torch.manual_seed(7)
    initialise(mine[0], DESCRIBED, mine[1])
    torch.testing.assert_close(mine[0], theirs.weight.data, rtol=1e-6, atol=0)
    torch.testing.assert_close(mine[1], theirs.bias.data, rtol=1e-6, atol=0)


def test_each_tower_is_initialised_as_a_layer_of_its_own():
    weight = torch.empty(50, 8, 6)
    initialise(weight, SMALL)
    bound = math.sqrt(6 / (8 + 6)) / 6
    assert weight.abs().max().item() == pytest.approx(bound, rel=0.01)


def fully_connected(network):
    """Every linear layer and tower, but those within a GRU or LSTM."""
    cells = {part for module in network.modules() if isinstance(module, GRU | Set2Set) for part in module.modules()}
    return [m for m in network.modules() if isinstance(m, torch.nn.Linear | TowerLinear) and m not in cells]


@pytest.mark.parametrize("architecture", ["recurrent", "standard"])
@pytest.mark.parametrize("model", MODELS)
def test_every_fully_connected_layer_of_a_network_follows_the_specification(model, architecture):
    for layer in fully_connected(build(model, spec=RELEASED, architecture=architecture)):
        *_, fan_out, fan_in = layer.weight.shape
        bound = math.sqrt(6 / (fan_in + fan_out)) / fan_in
        assert 0.7 * bound < layer.weight.abs().max() <= bound
        assert not layer.bias.any()
    for layer in fully_connected(build(model, spec=DESCRIBED, architecture=architecture)):
        bound = 1 / math.sqrt(layer.weight.shape[-1])
        assert 0.7 * bound < layer.weight.abs().max() <= bound
        assert 0 < layer.bias.abs().max() <= bound
