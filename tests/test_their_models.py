"""Our layer inside PyTorch Geometric's model PNA and behind its NeighborLoader, as in their tests."""

import copy
import itertools

import pytest
import torch
import torch_geometric.nn as pyg
import torch_geometric.typing
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader
from torch_geometric.sampler import NegativeSampling

from pna import PNAConv

NAMES = ["mean", "max", "min", "sum", "var", "softmax"]  # std differs by its ε
SCALERS = ["identity", "amplification", "attenuation", "linear", "inverse_linear"]
LAYERS = {"aggregators": NAMES, "scalers": SCALERS, "deg": torch.tensor([1, 5, 8, 4, 2])}
N, E = 40, 120
NORMS, JUMPS = [None, "batch_norm", "layer_norm"], [None, "last", "cat", "max", "lstm"]


class PNA(pyg.PNA):
    """PyTorch Geometric's model PNA, with our layers in it."""

    def init_conv(self, in_channels, out_channels, **kwargs):
        return PNAConv(in_channels, out_channels, **kwargs)


def graph(edge_dim=3):
    x, edge_index = torch.randn(N, 8).double(), torch.randint(0, N, (2, E))
    return Data(x=x, edge_index=edge_index, edge_attr=torch.randn(E, edge_dim).double())


def both(*sizes, **kwargs):
    """Our model and theirs, with the same weights."""
    ours, theirs = (kind(*(sizes or (8, 6, 2)), **LAYERS, **kwargs).double() for kind in (PNA, pyg.PNA))
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def assert_near(out, expected):
    torch.testing.assert_close(out, expected, rtol=1e-8, atol=1e-8)


# ---- the model ----


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("jk", JUMPS)
def test_shape_and_repr_whatever_the_model_has_between_its_layers(norm, jk):
    x, edge_index = torch.randn(3, 8), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    layers = {"aggregators": ["mean", "min", "max", "std", "var", "sum"], "scalers": SCALERS}
    layers["deg"] = torch.tensor([0, 2, 1])
    acts = [None, "leaky_relu", torch.relu_, nn.functional.elu, nn.ReLU()]
    for out_channels, dropout, act in itertools.product([None, 8], [0.0, 0.5], acts):
        model = PNA(8, 16, 3, out_channels, dropout, act, norm=norm, jk=jk, **layers)
        assert str(model) == f"PNA(8, {out_channels or 16}, num_layers=3)"
        out = model(x, edge_index)
        assert out.shape == (3, out_channels or 16)
        assert out.isfinite().all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("jk", JUMPS)
def test_the_same_numbers_as_with_their_layer(norm, jk):
    data = graph()
    for out_channels, dropout in ((None, 0.0), (5, 0.5)):
        ours, theirs = both(8, 6, 3, out_channels, dropout, "elu", norm=norm, jk=jk)
        out = []
        for model in (ours, theirs, copy.deepcopy(ours)):
            torch.manual_seed(1)  # the same features are dropped
            out.append(model(data.x, data.edge_index))
        assert_near(out[0], out[1])
        assert_near(out[0], out[2])


def test_nothing_breaks_the_graph_of_a_compiler():
    data, (ours, _) = graph(), both(8, 6, 2, norm="batch_norm", jk="cat")
    compiled = torch.compile(ours, fullgraph=True, backend="eager")
    assert_near(compiled(data.x, data.edge_index), ours(data.x, data.edge_index))


# ---- sampled neighbourhoods ----


def sample(colptr, row, seed, num_neighbours, *_):
    """Sample as pyg-lib does: hop by hop, at most k of each node's neighbours, or all of them for k = -1."""
    nodes, sources, targets, edges = seed.tolist(), [], [], []
    place, nodes_per_hop, edges_per_hop, first = {v: i for i, v in enumerate(nodes)}, [len(nodes)], [], 0
    for k in num_neighbours:
        known, before = len(nodes), len(edges)
        for target in range(first, known):
            start, stop = colptr[nodes[target]].item(), colptr[nodes[target] + 1].item()
            chosen = torch.randperm(stop - start)[: stop - start if k < 0 else k] + start
            for e in chosen.tolist():
                v = row[e].item()
                if v not in place:
                    place[v] = len(nodes)
                    nodes.append(v)
                sources.append(place[v])
                targets.append(target)
                edges.append(e)
        first = known
        nodes_per_hop.append(len(nodes) - known)
        edges_per_hop.append(len(edges) - before)
    indices = (torch.tensor(values, dtype=torch.long) for values in (sources, targets, nodes, edges))
    return (*indices, nodes_per_hop, edges_per_hop)


@pytest.fixture
def loader(monkeypatch):
    """A NeighborLoader that samples with pyg-lib if it is installed, or else with the function above."""
    if not torch_geometric.typing.WITH_PYG_LIB:
        monkeypatch.setattr(torch_geometric.typing, "WITH_PYG_LIB", True)
        monkeypatch.setattr(torch.ops.pyg, "neighbor_sample", sample, raising=False)
    return NeighborLoader


@pytest.mark.parametrize("edge_dim", [None, 3])
def test_whole_neighbourhoods_give_the_seeds_what_the_graph_gives(loader, edge_dim):
    data = graph()
    ours, _ = both(edge_dim=edge_dim)

    def attributes(part):
        return None if edge_dim is None else part.edge_attr

    whole = ours(data.x, data.edge_index, edge_attr=attributes(data))
    batches = list(loader(data, num_neighbors=[-1, -1], batch_size=9))
    assert [batch.batch_size for batch in batches] == [9, 9, 9, 9, 4]
    for batch in batches:
        seeds = slice(batch.batch_size)
        hops = (batch.num_sampled_nodes, batch.num_sampled_edges)
        expected = whole[batch.n_id[seeds]]
        assert_near(ours(batch.x, batch.edge_index, edge_attr=attributes(batch))[seeds], expected)
        trimmed = ours(
            batch.x, batch.edge_index, edge_attr=attributes(batch),
            num_sampled_nodes_per_hop=hops[0], num_sampled_edges_per_hop=hops[1],
        )  # fmt: skip
        assert_near(trimmed[seeds], expected)


def test_sampled_neighbourhoods_train_as_with_their_layer(loader):
    data, models = graph(), both(norm="layer_norm", edge_dim=3)
    for batch in loader(data, num_neighbors=[3, 2], batch_size=16):
        assert max(torch.bincount(batch.edge_index[1])) <= 3
        losses = [m(batch.x, batch.edge_index, edge_attr=batch.edge_attr)[:16].square().sum() for m in models]
        assert_near(*losses)
        weights = ([*model.convs[0].edge_encoder.parameters()] for model in models)
        grads = [torch.autograd.grad(*pair) for pair in zip(losses, weights, strict=True)]
        for mine, other in zip(*grads, strict=True):
            assert_near(mine, other)


def test_pyg_6609_sampled_degrees_are_counted_at_the_seeds_and_full_ones_in_the_graph(loader):
    data = graph()
    full = PNAConv.get_degree_histogram([data])
    whole, sampled = (list(loader(data, num_neighbors=[k], batch_size=8)) for k in (-1, 2))
    for batch in (*whole, *sampled):
        batch.seeds = torch.arange(batch.num_nodes) < batch.batch_size  # the others' neighbours were not sampled
    assert torch.equal(PNAConv.get_degree_histogram(whole, mask="seeds"), full)
    degrees = torch.bincount(data.edge_index[1], minlength=N).clamp(max=2)
    assert torch.equal(PNAConv.get_degree_histogram(sampled, mask="seeds"), torch.bincount(degrees))


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize("negatives", [None, "binary", NegativeSampling("triplet", 3)])
@pytest.mark.parametrize("k", [-1, 2])
def test_the_ends_of_sampled_links_are_counted_with_their_sampled_degrees(negatives, k):
    data = graph()
    batches = list(LinkNeighborLoader(data, num_neighbors=[k, k], batch_size=7, neg_sampling=negatives))
    degrees = torch.bincount(data.edge_index[1], minlength=N)
    degrees = degrees if k < 0 else degrees.clamp(max=k)
    ended = torch.zeros(N, dtype=torch.bool)
    for batch in batches:
        ends = batch.n_id[: batch.num_sampled_nodes[0]]
        ended[ends] = True
        assert len(ends) < batch.num_nodes
        assert torch.equal(PNAConv.get_degree_histogram([batch]), torch.bincount(degrees[ends]))
        batch.odd = batch.n_id % 2 == 1
        odd = ends[ends % 2 == 1]
        assert torch.equal(PNAConv.get_degree_histogram([batch], mask="odd"), torch.bincount(degrees[odd], minlength=1))
    assert len(batches) > 1
    assert torch.equal(PNAConv.get_degree_histogram(batches), torch.bincount(degrees[ended]))  # each node once


@pytest.mark.usefixtures("loader")
def test_delta_does_not_depend_on_the_batches_of_links():
    data = graph()
    whole = PNAConv.get_degree_histogram([data])
    ends = torch.bincount(torch.bincount(data.edge_index.flatten(), minlength=N).clamp(max=1))[1]
    for size in (1, 5, data.num_edges):
        loader = LinkNeighborLoader(data, num_neighbors=[-1], batch_size=size, shuffle=True)
        histogram = PNAConv.get_degree_histogram(loader)
        assert histogram.sum() == ends
        assert torch.equal(histogram[1:], whole[1:])  # a node without links ends none


def test_sampled_batches_within_a_batch_are_refused(loader):
    batches = list(loader(graph(), num_neighbors=[-1], batch_size=9))
    with pytest.raises(TypeError, match="a NeighborLoader's batches as they are, not several in one Batch"):
        PNAConv.get_degree_histogram([Batch.from_data_list(batches[:2])])


def test_a_graph_that_merely_has_the_names_of_a_sampled_batch_is_counted_whole():
    data = graph()
    whole = PNAConv.get_degree_histogram([data])
    data.input_id, data.edge_label_index = torch.tensor([3]), torch.tensor([[0], [1]])
    assert torch.equal(PNAConv.get_degree_histogram([data]), whole)


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_a_block_from_senders_to_seeds(loader, flow):
    data, conv = graph(), PNAConv(8, 6, **LAYERS, edge_dim=3, flow=flow).double()
    forwards = flow == "source_to_target"
    edges = data.edge_index if forwards else data.edge_index.flip(0)
    whole = conv(data.x, edges, data.edge_attr)
    for batch in loader(data, num_neighbors=[-1], batch_size=11):
        seeds = batch.x[: batch.batch_size]
        pair, block = ((batch.x, seeds), batch.edge_index) if forwards else ((seeds, batch.x), batch.edge_index.flip(0))
        assert_near(conv(pair, block, batch.edge_attr), whole[batch.n_id[: batch.batch_size]])


@pytest.mark.parametrize("jk", [None, "last"])
def test_inference_layer_by_layer(loader, jk):
    data = graph()
    ours, _ = both(8, 6, 3, 5, norm="batch_norm", jk=jk)
    ours.eval()
    assert_near(ours.inference(loader(data, num_neighbors=[-1], batch_size=16)), ours(data.x, data.edge_index))


def test_trimmed_layers_take_a_size_that_is_not_known_yet(loader):
    data, model = graph(), PNA(-1, 6, 2, **LAYERS).double()
    batch = next(iter(loader(data, num_neighbors=[-1, -1], batch_size=5)))
    out = model(batch.x, batch.edge_index, None, None, None, None, batch.num_sampled_nodes, batch.num_sampled_edges)
    assert model.convs[0].in_channels == 8
    assert_near(out[:5], model(data.x, data.edge_index)[:5])
