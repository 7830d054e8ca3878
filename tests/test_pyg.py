"""Conversion from and to PyTorch Geometric's layer: everything is converted, or refused by name."""

import copy
import itertools
import re
from operator import setitem

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn
from torch.nn.utils import prune

from pna import DegreeStatistics, PNAConv

NAMES = ["mean", "max", "min", "sum", "var", "softmax"]  # std differs by its ε
SCALERS = ["identity", "amplification", "attenuation", "linear", "inverse_linear"]
DEG = torch.tensor([1, 5, 8, 4, 2])
EDGES, N = torch.randint(0, 12, (2, 50), generator=torch.Generator().manual_seed(1)), 14


def theirs(aggregators=("mean", "max"), scalers=("identity", "amplification"), **kwargs):
    return pyg.PNAConv(8, 6, list(aggregators), list(scalers), DEG, **({"pre_layers": 2, "post_layers": 2} | kwargs))


def assert_same(mine, other, edge_dim=None):
    x = 10 * torch.randn(N, 8, dtype=mine.mix.weight.dtype)
    edge = () if edge_dim is None else (torch.randn(50, edge_dim, dtype=x.dtype),)
    torch.testing.assert_close(mine(x, EDGES, *edge), other(x, EDGES, *edge), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("towers", "divide_input", "edge_dim", "layers"), list(itertools.product((1, 2), (False, True), (None, 3), (1, 2)))
)
def test_there_and_back(towers, divide_input, edge_dim, layers):
    shape = {"towers": towers, "divide_input": divide_input, "edge_dim": edge_dim, "train_norm": True}
    mine = PNAConv(8, 6, NAMES, SCALERS, DEG, pre_layers=layers, post_layers=3 - layers, act="elu", **shape).double()
    with torch.no_grad():
        mine.combined.delta.fill_(1.7)
    other = mine.to_pyg()
    assert_same(mine, other, edge_dim)
    back = PNAConv.from_pyg(other)
    torch.testing.assert_close(back.state_dict(), mine.state_dict(), rtol=0, atol=0)
    mine.reset_parameters()
    other.reset_parameters()
    assert other.aggr_module.avg_deg_log.item() == pytest.approx(mine.combined.delta.item())


@pytest.mark.parametrize("edge_dim", [None, 3])
def test_a_state_of_theirs_is_loaded_alone_and_inside_a_model(edge_dim):
    other, mine = (kind(8, 6, NAMES, SCALERS, DEG, edge_dim, 2, 2, 2) for kind in (pyg.PNAConv, PNAConv))
    state = copy.deepcopy(other.state_dict())
    assert mine.load_state_dict(state) == ([], [])
    assert set(state) == set(other.state_dict())  # the caller's is left alone
    assert_same(mine, other, edge_dim)
    model, of_theirs = nn.Sequential(nn.Linear(8, 8), PNAConv(8, 6, NAMES, SCALERS, DEG, edge_dim, 2, 2, 2)), other
    model.load_state_dict(nn.Sequential(nn.Linear(8, 8), of_theirs).state_dict())
    assert_same(model[1], other, edge_dim)


def test_a_state_of_theirs_with_other_sizes_is_refused():
    with pytest.raises(RuntimeError, match=r"size mismatch for M\.0\.weight"):
        PNAConv(4, 6, ["mean"], ["identity"]).load_state_dict(
            pyg.PNAConv(8, 6, ["mean"], ["identity"], DEG).state_dict()
        )


@pytest.mark.parametrize("key", ["pre_nns.0.extra.weight", "post_nns.extra.0.weight", "pre_nns.0.weight"])
def test_a_key_that_no_layer_of_theirs_has_is_named(key):
    mine = PNAConv(8, 6, ["mean"], ["identity"])
    state = pyg.PNAConv(8, 6, ["mean"], ["identity"], DEG).state_dict() | {key: torch.zeros(3)}
    with pytest.raises(RuntimeError, match=f'Unexpected key.*"{re.escape(key)}"'):
        mine.load_state_dict(state)


def test_frozen_weights_stay_frozen_both_ways():
    other = theirs(towers=2).requires_grad_(False)
    other.lin.requires_grad_(True)
    mine = PNAConv.from_pyg(other)
    assert {name for name, p in mine.named_parameters() if p.requires_grad} == {"mix.weight", "mix.bias"}
    assert {name for name, p in mine.to_pyg().named_parameters() if p.requires_grad} == {"lin.weight", "lin.bias"}
    other.pre_nns[0][0].weight.requires_grad_(True)
    with pytest.raises(ValueError, match=r"some are frozen \(requires_grad=False\) and some are not: M.0.weight"):
        PNAConv.from_pyg(other)


@pytest.mark.parametrize("scalers", [["amplification"], ["linear"], ["identity"]])
def test_only_statistics_that_a_scaler_uses_are_parameters_and_the_others_are_carried_over(scalers):
    other = theirs(scalers=scalers, train_norm=True)
    mine = PNAConv.from_pyg(other)
    mine(torch.randn(5, 8), torch.tensor([[0, 1, 2], [3, 3, 4]])).sum().backward()
    assert all(p.grad is not None for p in mine.parameters())  # DistributedDataParallel waits for each of them
    assert len(list(mine.combined.parameters())) == (scalers != ["identity"])
    again = mine.to_pyg()
    assert isinstance(again.aggr_module.avg_deg_log, nn.Parameter) == (scalers != ["identity"])
    for name, weight in other.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name]), name


def test_exponents_that_have_a_name_are_converted_by_it():
    mine = PNAConv(8, 6, ["mean", "max"], [1.0, -1, 0.0], DEG)
    back = mine.to_pyg()
    assert list(back.aggr_module.scaler) == ["amplification", "attenuation", "identity"]
    x, edges = torch.randn(5, 8), torch.tensor([[0, 1, 2], [3, 3, 4]])
    torch.testing.assert_close(back(x, edges), mine(x, edges))
    with pytest.warns(UserWarning, match="each scaler multiplies"):
        assert PNAConv.from_pyg(theirs(), trained_with="2.1.0").to_pyg()


def test_degrees_for_a_former_version_are_a_histogram_and_are_not_ignored():
    with pytest.raises(TypeError, match="deg must be a tensor of counts, got list"):
        PNAConv.from_pyg(theirs(), trained_with="2.0.4", deg=[1, 2, 3])
    with pytest.raises(ValueError, match="deg is for trained_with"):
        PNAConv.from_pyg(theirs(), deg=DEG)


def test_from_pyg_of_our_own_layer_says_whose_it_is():
    with pytest.raises(TypeError, match=r"must be a torch_geometric\.nn\.PNAConv, got pna\.conv\.PNAConv"):
        PNAConv.from_pyg(PNAConv(8, 6, ["mean"], ["identity"]))


def test_other_activations_in_m_and_u():
    other = theirs(towers=2)
    for tower in other.pre_nns:
        tower[1] = nn.Tanh()
    assert_same(PNAConv.from_pyg(other), other)
    other.pre_nns[1][1] = nn.ELU()
    with pytest.raises(ValueError, match=r"conv.pre_nns has different activations in its towers, Tanh\(\) and ELU"):
        PNAConv.from_pyg(other)
    for tower, slope in zip(other.pre_nns, (0.1, 0.2), strict=True):
        tower[1] = nn.LeakyReLU(slope)
    with pytest.raises(ValueError, match="different activations in its towers"):
        PNAConv.from_pyg(other)


class OwnForward(pyg.PNAConv):
    def forward(self, x, edge_index):
        return 2 * super().forward(x, edge_index)


class OwnUpdate(pyg.PNAConv):
    def update(self, inputs):
        return 2 * inputs


class OnlyNamed(pyg.PNAConv):
    def __repr__(self):
        return "mine"


@pytest.mark.parametrize(("kind", "method"), [(OwnForward, "forward"), (OwnUpdate, "update")])
def test_a_subclass_with_its_own_steps(kind, method):
    with pytest.raises(TypeError, match=f"{kind.__name__} has its own {method}"):
        PNAConv.from_pyg(kind(8, 6, ["mean"], ["identity"], DEG))


def test_a_subclass_that_computes_the_same():
    other = OnlyNamed(8, 6, ["mean"], ["identity"], DEG)
    assert_same(PNAConv.from_pyg(other), other)


def hook(*_):
    pass


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.register_message_forward_hook(hook), "message_forward_hooks of conv"),
        (lambda c: c.register_propagate_forward_pre_hook(hook), "propagate_forward_pre_hooks of conv"),
        (lambda c: c.register_forward_hook(hook), "forward_hooks of conv"),
        (lambda c: c.post_nns[0][0].register_forward_hook(hook), "forward_hooks of post_nns.0.0"),
        (lambda c: setattr(c, "explain", True), "being explained"),
        (lambda c: c.post_nns[0].append(nn.ReLU()), "must have towers of one kind|different"),
        (
            lambda c: c.pre_nns[1].__setitem__(0, nn.Identity()),
            "conv.pre_nns must be linear with a bias",
        ),
        (lambda c: setattr(c, "lin", nn.Linear(6, 6, bias=False)), "conv.lin must be linear with a bias"),
        (lambda c: setattr(c, "aggr_module", pyg.aggr.MeanAggregation()), "has the aggregation MeanAggregation"),
    ],
)
def test_what_is_not_carried_over_is_refused(change, words):
    other = theirs(towers=2)
    change(other)
    with pytest.raises(ValueError, match=words):
        PNAConv.from_pyg(other)


@pytest.mark.parametrize("kind", [pyg.aggr.VarAggregation, pyg.aggr.StdAggregation, pyg.aggr.SoftmaxAggregation])
def test_half_a_gradient_is_refused(kind):
    with pytest.raises(ValueError, match=r"with semi_grad=True; those taken over are mean, max"):
        PNAConv.from_pyg(theirs([kind(semi_grad=True)]))


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"aggregators": ["moment3"]}, "has no 'moment3' among its aggregators: mean, max"),
        ({"aggregators": ["softmin"]}, "has no 'softmin'"),
        ({"scalers": [0.5]}, "has no 0.5 among its scalers: identity"),
        ({"swap_extremes": True}, "has no swap_extremes"),
        ({"in_channels": -1}, "in_channels=-1 and no weights yet"),
    ],
)
def test_to_pyg_of_what_it_has_not(kwargs, words):
    arguments = {"in_channels": 8, "out_channels": 6, "aggregators": ["mean"], "scalers": ["identity"]}
    with pytest.raises(ValueError, match=words):
        PNAConv(**arguments | {"deg": DegreeStatistics(1.0, 2.0)} | kwargs).to_pyg()


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda mine: mine.M[0].register_forward_hook(hook), "the layer has hooks"),
        (lambda mine: mine.M[2].register_forward_pre_hook(hook), "the layer has hooks"),
        (lambda mine: mine.U[2].register_forward_hook(hook), "the layer has hooks"),
        (lambda mine: mine.mix.register_forward_hook(hook), "the layer has hooks"),
        (lambda mine: mine.register_forward_hook(hook), "the layer has hooks"),
        (lambda mine: prune.l1_unstructured(mine.mix, "weight", 0.5), "the layer has hooks"),
        (lambda mine: nn.utils.parametrizations.spectral_norm(mine.mix), "other modules"),
        (lambda mine: setattr(mine, "mix", Doubled(6, 6)), "other modules"),
        (lambda mine: setattr(mine, "mix", nn.Sequential(nn.Linear(6, 6))), "other modules"),
        (lambda mine: mine.M.append(nn.Tanh()), "other modules"),
        (lambda mine: mine.U.append(nn.Tanh()), "other modules"),
        (lambda mine: setitem(mine.U, 1, nn.PReLU()), "would have PReLU"),
    ],
)
def test_to_pyg_of_a_changed_layer(change, words):
    mine = PNAConv(8, 6, ["mean"], ["identity"], pre_layers=2, post_layers=2)
    assert mine.to_pyg()
    change(mine)
    with pytest.raises(ValueError, match=words):
        mine.to_pyg()
