"""The two layers, batch normalisation and dropout, each beside another implementation."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch_geometric.nn import PNAConv as PyGConv

from pna.aggregators import EPSILON
from pna.conv import PNASimpleConv
from pna.degrees import DegreeStatistics
from pna.realworld.layers import BatchNorm, SimpleLayer, TowersLayer, dropout

AGGREGATORS, SCALERS = ["mean", "max", "min"], ["identity", "amplification", "attenuation"]
INDEX = torch.tensor([2, 5, 1])


def real(batch):
    return batch.real.flatten().bool()


def edge_index(batch):
    """The edge_index of the real nodes, in torch_geometric's form."""
    edges = torch.stack([batch.neighbourhoods.source, batch.neighbourhoods.target])
    return edges[:, edges[1] < batch.count]


@pytest.fixture
def batch(toys):
    resident = toys.resident("zinc")
    return resident.batch(INDEX, resident.largest(3))


class Nothing(nn.Module):
    def forward(self, x, batch, factor=None, **then):
        return x


def test_the_towers_layer_is_pygs_with_the_same_weights(batch):
    """Without 1/√n and normalisation, and with aggregators that both define alike."""
    histogram = torch.tensor([1, 5, 8, 4, 2])
    theirs = PyGConv(10, 10, AGGREGATORS, SCALERS, histogram, towers=5, divide_input=True).double()
    ours = TowersLayer((10, 10), AGGREGATORS, SCALERS, DegreeStatistics.from_histogram(histogram), 5).double()
    ours.norm = Nothing()
    with torch.no_grad():
        for t in range(5):
            for mine, other in ((ours.M, theirs.pre_nns[t][0]), (ours.U, theirs.post_nns[t][0])):
                mine.weight[t], mine.bias[t] = other.weight, other.bias
        ours.mix.weight.copy_(theirs.lin.weight)
        ours.mix.bias.copy_(theirs.lin.bias)
    x = torch.randn(len(batch.x), 10, dtype=torch.double)
    without_norm = type(batch)(**vars(batch) | {"norm": torch.ones_like(batch.norm)})
    out = ours(x, without_norm, None, None)[real(batch)]
    x = x[real(batch)]
    torch.testing.assert_close(out, x + functional.leaky_relu(theirs(x, edge_index(batch))), rtol=1e-6, atol=1e-7)


def naive_towers(layer, x, batch, embedding, p, noise):
    """Tower by tower and node by node, with messages and all concatenations: equations 7 and 8 as they stand."""
    F, count = layer.F, int(batch.count)
    edges = [(j, i, k) for k, (j, i) in enumerate(zip(*edge_index(batch).tolist(), strict=True))]
    columns = []
    for t in range(layer.towers):
        h, rows = x[:count, t * F : (t + 1) * F], []
        for i in range(count):
            m = [
                layer.M.weight[t] @ torch.cat([h[i], h[j], embedding(batch.edge[k])]) + layer.M.bias[t]
                for j, target, k in edges
                if target == i
            ]
            if m:
                m, d = torch.stack(m), len(m)
                std = (m.var(0, unbiased=False) + EPSILON).sqrt()
                aggregates = torch.cat([m.mean(0), m.max(0).values, m.min(0).values, std])
                s = np.log(d + 1) / float(layer.combined.delta)
                aggregates = torch.cat([aggregates, s * aggregates, aggregates / s])
            else:
                aggregates = x.new_zeros(12 * F)
            rows.append(layer.U.weight[t] @ torch.cat([h[i], aggregates]) + layer.U.bias[t])
        y = torch.stack(rows) * batch.norm[:count]
        width = y.shape[1]
        mean, var = y.mean(0), y.var(0, unbiased=False)
        part = slice(t * width, (t + 1) * width)
        y = (y - mean) / (var + 1e-5).sqrt() * layer.norm.weight[part] + layer.norm.bias[part]
        columns.append(torch.where(noise[:count, part] >= p, y / (1 - p), 0))
    return functional.leaky_relu(layer.mix(torch.cat(columns, dim=1)))


@pytest.mark.parametrize("out", [10, 15])
def test_the_towers_layer_as_the_released_code_describes_it(batch, out):
    p = 0.3
    layer = TowersLayer((10, out), [*AGGREGATORS, "std"], SCALERS, DegreeStatistics(1.3, 2.0), 5, 3, p).double()
    embedding = nn.Linear(4, 3, bias=True).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    x, noise = torch.randn(len(batch.x), 10).double(), torch.rand(len(batch.x), 20).double()
    expected = naive_towers(layer, x, batch, embedding, p, noise)
    if out == 10:
        expected = x[real(batch)] + expected
    torch.testing.assert_close(layer(x, batch, embedding, noise)[real(batch)], expected, rtol=1e-9, atol=1e-9)


def test_the_simple_layer_is_the_simple_convolution_normalised(batch):
    degrees = DegreeStatistics(1.3, 2.0)
    conv = PNASimpleConv(8, 8, AGGREGATORS, SCALERS, degrees).double()
    layer = SimpleLayer((8, 8), AGGREGATORS, SCALERS, degrees, p=0.5).double()
    layer.U.load_state_dict(conv.U[0].state_dict())
    x, noise = torch.randn(len(batch.x), 8).double(), torch.rand(len(batch.x), 8).double()
    y = conv(x, batch.neighbourhoods)[real(batch)]
    y = x[real(batch)] + functional.relu(functional.batch_norm(y, None, None, training=True))
    expected = torch.where(noise[real(batch)] >= 0.5, 2 * y, 0)
    torch.testing.assert_close(layer(x, batch, None, noise)[real(batch)], expected)


def test_batch_normalisation_is_torchs_over_the_real_nodes(batch):
    ours, theirs = BatchNorm(6).double(), nn.BatchNorm1d(6).double()
    with torch.no_grad():
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            other.copy_(mine.normal_())
    for _ in range(3):
        x = torch.randn(len(batch.x), 6).double() * 3 + 1
        torch.testing.assert_close(ours(x, batch)[real(batch)], theirs(x[real(batch)]))
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x, batch)[real(batch)], theirs(x[real(batch)]))


def test_dropout_keeps_the_mean_and_none_without_noise():
    x, noise = torch.ones(1000, 50), torch.rand(1000, 60)
    out = dropout(x, 0.3, noise)
    assert out.unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert out.mean().item() == pytest.approx(1, abs=0.01)
    assert dropout(x, 0.3, None) is x
    assert dropout(x, 0.0, noise) is x


def test_sizes_that_the_towers_cannot_share_are_named():
    with pytest.raises(
        ValueError, match="hidden must be divisible by the number of towers, got hidden=12 and towers=5"
    ):
        TowersLayer((12, 10), AGGREGATORS, SCALERS, DegreeStatistics(1.0, 1.0), 5)
