"""The model PNA: what it reads from a loader, what PyTorch Geometric's tools do with it, and what it refuses."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import DataLoader
from torch_geometric.nn import to_hetero

from pna import PNA, PNAConv

DEG = torch.tensor([1, 5, 8, 4, 2])


def graph(N=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, N, (2, 4 * N), generator=generator)
    return Data(x=torch.randn(N, 8, generator=generator), edge_index=edges)


def delta(model):
    return model.convs[0].combined.delta.item()


def sampled():
    """A batch as a NeighborLoader yields it: eight seeds, and two sampled neighbours of each."""
    edges = torch.stack([torch.arange(8, 24), torch.arange(8).repeat_interleave(2)])
    return Data(x=torch.randn(24, 8), edge_index=edges, batch_size=8, input_id=torch.arange(8))


# ---- for_loader ----


def test_for_loader_counts_the_seeds_of_a_neighbour_loader_and_not_the_leaves():
    batch = sampled()
    assert delta(PNA.for_loader([batch])) == pytest.approx(torch.tensor(3.0).log().item())
    batch.train_mask = torch.arange(24) < 3
    assert PNAConv.get_degree_histogram([batch], mask="train_mask").tolist() == [0, 0, 3]


def test_a_batch_of_graphs_is_not_taken_for_sampled_whatever_the_graphs_are_called():
    graphs = [graph(seed=k) for k in range(4)]
    expected = PNAConv.get_degree_histogram(graphs)
    for k, data in enumerate(graphs):
        data.input_id = k
    assert torch.equal(PNAConv.get_degree_histogram(DataLoader(graphs, batch_size=2)), expected)


def test_for_loader_counts_the_nodes_of_a_mask():
    data = graph()
    data.train_mask = torch.bincount(data.edge_index[1], minlength=12) > 4
    deg = PNAConv.get_degree_histogram([data], mask="train_mask")
    assert delta(PNA.for_loader([data], mask="train_mask")) == delta(PNA(8, 8, 1, deg=deg))
    assert delta(PNA.for_loader([data], mask="train_mask")) != delta(PNA.for_loader([data]))
    with pytest.raises(TypeError, match="mask must be the name of an attribute, as 'train_mask', got Tensor"):
        PNA.for_loader([data], mask=data.train_mask)


def test_for_loader_loses_no_graph_of_a_generator():
    with pytest.raises(TypeError, match="iterable more than once: give a list or a DataLoader"):
        PNA.for_loader(graph(seed=k) for k in range(3))


def test_for_loader_counts_the_degrees_of_its_flow():
    star = Data(x=torch.randn(10, 8), edge_index=torch.stack([torch.zeros(9).long(), torch.arange(1, 10)]))
    model = PNA.for_loader([star], flow="target_to_source")
    assert delta(model) == pytest.approx(torch.tensor(10.0).log().item() / 10)
    assert PNAConv.get_degree_histogram([star], flow="target_to_source").tolist() == [9, *[0] * 8, 1]
    with pytest.raises(ValueError, match="flow must be one of"):
        PNAConv.get_degree_histogram([star], flow="sideways")


def test_for_loader_says_in_a_line_what_it_cannot_use():
    data = graph()
    with pytest.raises(ValueError, match=r"node features x \[N, F\], got tuple; for one graph: \[data\]$"):
        PNA.for_loader(data)
    data.x = torch.randn(12)
    with pytest.raises(ValueError, match=r"node features x \[N, F\], got x \[12\]$"):
        PNA.for_loader([data])
    data = graph()
    data.edge_attr = torch.randn(data.num_edges)
    with pytest.raises(ValueError, match=r"edge_attr \[E, D\], got \[\d+\]; edge_attr.view\(-1, 1\) makes"):
        PNA.for_loader([data])


def test_the_degrees_of_each_edge_type_are_counted_as_the_error_says():
    data = HeteroData()
    data["a"].x, data["b"].x = torch.randn(5, 8), torch.randn(3, 8)
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1, 4], [0, 0, 2]])
    with pytest.raises(TypeError, match=r"got HeteroData; count each edge type .*: Data\(edge_index=") as error:
        PNAConv.get_degree_histogram([data])
    advice = str(error.value).partition("receivers: ")[2]
    one = eval(advice, {"Data": Data, "data": data, "edge_type": ("a", "to", "b")})
    assert PNAConv.get_degree_histogram([one]).tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="got Data with adj_t; count the degrees before"):
        PNAConv.get_degree_histogram([Data(adj_t=torch.eye(3).to_sparse())])


# ---- the model ----


def test_to_hetero_adds_residuals_and_refuses_a_readout():
    types = ["a", "b"], [("a", "to", "b"), ("b", "to", "a")]
    x = {"a": torch.randn(6, 8), "b": torch.randn(5, 8)}
    edges = {types[1][0]: torch.tensor([[0, 5, 3], [0, 0, 4]]), types[1][1]: torch.tensor([[0, 4], [5, 1]])}
    model = to_hetero(PNA(8, 8, 1, deg=DEG, residual=True), types)
    out = model(x, edges)
    conv = model.convs[0]["a__to__b"]
    torch.testing.assert_close(out["b"], x["b"] + conv((x["a"], x["b"]), edges[types[1][0]]))
    with pytest.raises(ValueError, match="to_hetero does not support readout=…"):
        to_hetero(PNA(8, 8, 2, 4, deg=DEG, readout="mean"), types)


def test_edge_weights_are_refused_and_not_ignored():
    data = graph()
    with pytest.raises(ValueError, match="PNA has no edge weights; edge features are edge_attr="):
        PNA(8, 8, 2, deg=DEG)(data.x, data.edge_index, torch.rand(48))


def test_a_name_in_place_of_a_list_of_names_is_refused_as_such():
    with pytest.raises(TypeError, match="aggregators must be a list, got 'mean'"):
        PNA(8, 8, 2, deg=DEG, aggregators="mean")
    with pytest.raises(TypeError, match="scalers must be a list, got 'identity'"):
        PNA(8, 8, 2, deg=DEG, scalers="identity")


@pytest.mark.parametrize("options", [{"residual": True}, {"readout": "mean"}])
def test_inference_layer_by_layer_leaves_out_no_residual_and_no_readout_in_silence(options):
    with pytest.raises(NotImplementedError, match="inference"):
        PNA(8, 8, 2, deg=DEG, **options).inference([sampled()])
