"""What users of PNA asked for in public issues, each as a test named after the repository and the issue's number.

pyg: PyTorch Geometric; pna: the authors' repository; hydragnn, graphium: libraries that build on PNA.
"""

import itertools
import warnings

import pytest
import torch
import torch_geometric
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from pna import PNA, DegreeStatistics, PNAConv, PNASimpleConv
from pna.degrees import degree_histogram, merge_histograms
from pna.pyg import LIBRARIES

NAMES = ["mean", "std", "max", "min"]
SCALERS = ["identity", "amplification", "attenuation"]
DEG = torch.tensor([1, 5, 8, 4, 2])
N, E = 20, 60


def graph(edge_dim=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, N, (2, E), generator=generator)
    data = Data(x=torch.randn(N, 8, generator=generator), edge_index=edges)
    data.edge_attr = torch.randn(E, edge_dim, generator=generator)
    return data


def assert_near(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


# ---- pyg#9704: a model, not only a layer ----


@pytest.mark.parametrize("jk", [None, "last", "cat", "max", "lstm"])
def test_pyg_9704_the_model_has_the_shape_and_repr_of_theirs(jk):
    x, edge_index = torch.randn(3, 8), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    for out_channels, norm, dropout in itertools.product([None, 8], [None, "batch_norm", "layer_norm"], [0.0, 0.5]):
        model = PNA(
            8, 16, 3, out_channels, dropout, act="leaky_relu", norm=norm, jk=jk, deg=torch.tensor([0, 2, 1]),
            aggregators=["mean", "min", "max", "std", "var", "sum"], scalers=SCALERS,
        )  # fmt: skip
        assert str(model) == f"PNA(8, {out_channels or 16}, num_layers=3)"
        assert model(x, edge_index).shape == (3, out_channels or 16)


def test_pyg_9704_the_paper_chooses_aggregators_and_scalers_and_only_degrees_are_asked_for():
    model, data = PNA(8, 12, 2, 5, deg=DEG), graph()
    assert all(set(conv.combined.aggregators) == set(NAMES) for conv in model.convs)
    assert all(conv.combined.scalers == tuple(SCALERS) for conv in model.convs)
    assert model(data.x, data.edge_index).shape == (N, 5)
    with pytest.raises(ValueError, match="deg is missing"):
        PNA(8, 12, 2)


def test_pyg_9704_the_model_has_the_numbers_of_theirs():
    sizes, data = (8, 12, 3, 5), graph()
    layers = {"aggregators": ["mean", "max", "sum"], "scalers": SCALERS, "deg": DEG, "edge_dim": 3}
    theirs, ours = (
        pyg.PNA(*sizes, norm="batch_norm", jk="cat", **layers),
        PNA(*sizes, norm="batch_norm", jk="cat", **layers),
    )
    ours.load_state_dict(theirs.state_dict())
    assert_near(*(model(data.x, data.edge_index, edge_attr=data.edge_attr) for model in (ours, theirs)), 1e-4)


@pytest.mark.parametrize("readout", ["sum", "mean", "max"])
@pytest.mark.parametrize("jk", [None, "cat"])
def test_pyg_9704_for_a_loader_with_residuals_and_a_readout(readout, jk):
    loader = DataLoader([graph(seed=k) for k in range(6)], batch_size=3)
    model = PNA.for_loader(loader, 16, 3, 2, readout=readout, residual=True, norm="batch_norm", jk=jk, towers=4)
    assert (model.in_channels, model.convs[0].edge_dim, model.out_channels) == (8, 3, 2)
    assert model.convs[0].combined.delta == PNAConv(8, 8, NAMES, SCALERS, degree_histogram(loader)).combined.delta
    model.eval()
    batch = next(iter(loader))
    together = model(batch.x, batch.edge_index, edge_attr=batch.edge_attr, batch=batch.batch)
    assert together.shape == (3, 2)
    for k in range(3):  # a graph alone has the row that it has in a batch
        data = graph(seed=k)
        assert_near(model(data.x, data.edge_index, edge_attr=data.edge_attr), together[k : k + 1], 1e-4)


def test_pyg_9704_a_residual_adds_the_input_of_each_layer_of_its_size():
    data, model = graph(), PNA(8, 8, 2, deg=DEG, residual=True, act=None)
    plain = PNA(8, 8, 2, deg=DEG, act=None)
    plain.load_state_dict(model.state_dict())
    x = data.x + plain.convs[0](data.x, data.edge_index)
    assert_near(model(data.x, data.edge_index), x + plain.convs[1](x, data.edge_index))
    with pytest.raises(ValueError, match="residual=True does not support"):
        model(data.x, data.edge_index, num_sampled_nodes_per_hop=[1, 2, 3])
    with pytest.raises(ValueError, match="readout"):
        PNA(8, 8, 2, deg=DEG, readout="median")
    with pytest.raises(ValueError, match="node features x"):
        PNA.for_loader([Data(edge_index=data.edge_index)])


# ---- pna#6 and pyg#6039: α is learned, as well as δ ----


@pytest.mark.parametrize("kind", [PNAConv, PNASimpleConv])
def test_pna_6_and_pyg_6039_alpha_and_delta_are_learned(kind):
    data, scalers = graph(), [*SCALERS, "linear", 0.5]
    fixed, learned = (kind(8, 6, NAMES, scalers, DEG, train_norm=t, train_alpha=t).double() for t in (False, True))
    learned.load_state_dict(fixed.state_dict() | {"combined.alpha": learned.combined.alpha})
    assert learned.combined.alpha.tolist() == [0, 1, -1, 1, 0.5]
    x = data.x.double()
    out = learned(x, data.edge_index)
    assert_near(out, fixed(x, data.edge_index), 1e-9)  # it begins as the fixed one
    out.square().sum().backward()
    grads = learned.combined.alpha.grad
    assert grads[0] == 0  # the identity stays what it is
    assert (grads[1:] != 0).all()
    assert learned.combined.delta.grad != 0
    with torch.no_grad():
        learned.combined.alpha += 0.25
    alphas = ["identity", 1.25, -0.75, 0.75]
    others = kind(8, 6, NAMES, alphas, DEG).double()
    d = torch.tensor([0, 1, 2, 5])
    assert_near(learned.combined.factors(d)[1:, [0, 1, 2, 4]], others.combined.factors(d)[1:], 1e-6)
    learned.reset_parameters()
    assert learned.combined.alpha.tolist() == [0, 1, -1, 1, 0.5]


def test_pna_6_a_learned_alpha_is_not_theirs():
    with pytest.raises(ValueError, match="no train_alpha"):
        PNAConv(8, 6, NAMES, SCALERS, DEG, train_alpha=True).to_pyg()


# ---- pna#3 and graphium#21: the simple layer with edge features ----


@pytest.mark.parametrize("in_channels", [8, -1])
def test_pna_3_and_graphium_21_the_simple_layer_adds_encoded_edge_features_to_the_messages(in_channels):
    data = graph()
    conv = PNASimpleConv(in_channels, 6, NAMES, SCALERS, DEG, edge_dim=3)
    out = conv(data.x, data.edge_index, data.edge_attr)
    messages = data.x[data.edge_index[0]] + conv.edge_encoder(data.edge_attr)
    bipartite = PNASimpleConv(8, 6, NAMES, SCALERS, DEG)  # a sender for every edge, with its message
    bipartite.load_state_dict({k: v for k, v in conv.state_dict().items() if "encoder" not in k})
    pairs = torch.stack([torch.arange(E), data.edge_index[1]])
    assert_near(out, bipartite((messages, torch.zeros(N, 8)), pairs))
    seen = []
    conv.edge_encoder.register_forward_hook(lambda *_: seen.append(1))  # by messages, as a hook needs
    assert_near(conv(data.x, data.edge_index, data.edge_attr), out)
    assert seen
    with pytest.raises(ValueError, match="edge_attr is missing"):
        conv(data.x, data.edge_index)


# ---- hydragnn#230 and pna#11: degrees of shards, and under a mask ----


def test_hydragnn_230_histograms_of_shards_are_merged():
    graphs = [graph(seed=k) for k in range(5)] + [Data(edge_index=torch.zeros(2, 30, dtype=torch.long), num_nodes=2)]
    shards = degree_histogram(graphs[:2]), degree_histogram(graphs[2:])
    merged = merge_histograms(*shards)
    assert torch.equal(merged, degree_histogram(graphs))
    assert torch.equal(merge_histograms(*reversed(shards)), merged)
    assert DegreeStatistics.from_histogram(merged) == DegreeStatistics.from_histogram(degree_histogram(graphs))
    with pytest.raises(ValueError, match="at least one"):
        merge_histograms()


def test_pna_11_only_the_nodes_of_a_mask_are_counted():
    data = graph()
    data.train_mask = torch.arange(N) % 3 == 0
    degrees = torch.bincount(data.edge_index[1], minlength=N)  # edges from nodes outside the mask count
    expected = torch.bincount(degrees[data.train_mask])
    assert torch.equal(PNAConv.get_degree_histogram([data], mask="train_mask"), expected)
    for wrong in (None, torch.ones(N), torch.ones(N - 1, dtype=torch.bool)):
        data.train_mask = wrong
        with pytest.raises(ValueError, match="train_mask must be a boolean tensor"):
            PNAConv.get_degree_histogram([data], mask="train_mask")


# ---- libraries' departures: weights of former versions ----


def chained(conv, x, edge_index):
    """Today's layer of PyTorch Geometric with the scalers of 2.1.0: each multiplies what the one before left."""

    class Chained(type(conv.aggr_module)):
        def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
            out, outs = self.aggr(x, index, ptr, dim_size, dim), []
            d = torch_geometric.utils.degree(index, dim_size, out.dtype).clamp(min=1).view(-1, *[1] * (out.dim() - 1))
            factor = {
                "amplification": (d + 1).log() / self.avg_deg_log,
                "attenuation": self.avg_deg_log / (d + 1).log(),
            }
            for scaler in self.scaler:
                out = out * factor.get(scaler, 1)
                outs.append(out)
            return torch.cat(outs, dim=-1)

    conv.aggr_module.__class__ = Chained
    return conv(x, edge_index)


@pytest.mark.parametrize("version", ["2.0.4", "2.1.0", "2.1.0.post1"])
def test_weights_of_a_former_version_compute_as_they_were_trained(version):
    data, scalers = graph(), [*SCALERS, "amplification"]
    theirs = pyg.PNAConv(8, 6, ["mean", "max"], scalers, DEG)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ours = PNAConv.from_pyg(theirs, trained_with=version, deg=DEG)
    told = [str(w.message) for w in caught]
    assert any("each scaler multiplies the result" in words for words in told)
    assert any("bins" in words for words in told) == (version == "2.0.4")
    assert ours.combined.scalers == ("identity", 1.0, "identity", 1.0)
    if version == "2.0.4":
        theirs.aggr_module.avg_deg_log.fill_((DEG + 1.0).log().mean())
        assert float(ours.combined.delta) == pytest.approx(float((DEG + 1.0).log().mean()))
        assert float(ours.combined.mean_degree) == DEG.double().mean()
    assert_near(ours(data.x, data.edge_index), chained(theirs, data.x, data.edge_index))


@pytest.mark.filterwarnings("ignore:.*each scaler multiplies")
def test_std_of_a_former_version_differs_at_isolated_nodes_alone_and_a_warning_says_so(monkeypatch):
    data, theirs = graph(), pyg.PNAConv(8, 6, ["std"], ["identity"], DEG)
    edges = data.edge_index[:, :15]  # leaves nodes without neighbours and nodes with one
    with pytest.warns(UserWarning, match=r"std of a node without neighbours is √10⁻⁵ instead of 0 \(here: 0\)"):
        ours = PNAConv.from_pyg(theirs, trained_with="2.1.0")

    def former(self, *inputs, **named):
        return (self.var_aggr(*inputs, **named).relu() + 1e-5).sqrt()

    monkeypatch.setattr(pyg.StdAggregation, "forward", former)
    out, expected = ours(data.x, edges), theirs(data.x, edges)
    alone = torch.bincount(edges[1], minlength=N) == 0
    assert_near(out[~alone], expected[~alone])
    assert not torch.allclose(out[alone], expected[alone], rtol=1e-4, atol=1e-5)


def test_a_version_that_computed_as_today_needs_nothing_and_a_wrong_one_is_refused():
    theirs = pyg.PNAConv(8, 6, ["mean", "std"], ["linear", "amplification"], DEG)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PNAConv.from_pyg(theirs, trained_with="2.8.1")
    with pytest.warns(UserWarning, match="max"):
        PNAConv.from_pyg(theirs, trained_with="2.3.0")
    with pytest.raises(ValueError, match="mixes log"):
        PNAConv.from_pyg(theirs, trained_with="2.1.0")
    with pytest.raises(ValueError, match="deg is missing"):
        PNAConv.from_pyg(theirs, trained_with="2.0.4")
    for wrong in ("two", "2", 2.1):
        with pytest.raises(ValueError, match="trained_with must be a version"):
            PNAConv.from_pyg(theirs, trained_with=wrong)
    assert {row.library for row in LIBRARIES} == {"PyTorch Geometric", "DGL"}


# ---- what cannot be, with a reason ----


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
def test_scripting_is_refused_with_a_reason_also_within_a_model():
    conv = PNAConv(8, 6, NAMES, SCALERS, DEG)
    for module in (conv, nn.Sequential(nn.ReLU(), conv)):
        with pytest.raises(RuntimeError, match=r"PNAConv cannot be compiled by torch.jit.script.*torch.export"):
            torch.jit.script(module)


def test_their_load_state_dict_takes_our_weights_by_to_pyg():
    conv, theirs = PNAConv(8, 6, NAMES, SCALERS, DEG, towers=2), pyg.PNAConv(8, 6, NAMES, SCALERS, DEG, towers=2)
    with pytest.raises(RuntimeError, match=r"pre_nns\.0\.0\.weight"):
        theirs.load_state_dict(conv.state_dict())
    assert "pre_nns.0.0.weight" in PNAConv.to_pyg.__doc__  # the error's words lead to the way out
    theirs.load_state_dict(conv.to_pyg().state_dict())
    data = graph()
    assert_near(theirs(data.x, data.edge_index), conv.to_pyg()(data.x, data.edge_index))
