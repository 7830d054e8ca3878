from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from pna.pretrained import names
from verification import piecewise_linear
from verification.piecewise_linear import PAIR, Network, Pieces, aggregates, pair_inside, pieces


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("widths", [(4, 3), (8, 8, 5), (6, 6, 6, 2)])
def test_the_network_is_affine_on_its_pieces_and_on_no_wider_ones(widths, seed):
    network = Network.random(widths, seed)
    ends = pieces(network).ends
    assert ends[0] == -3
    assert ends[-1] == 3
    for low, high in pairwise(ends):
        inner = network(low + (high - low) * np.array([0.1, 0.5, 0.9]))
        assert np.allclose(inner[1], (inner[0] + inner[2]) / 2, atol=1e-9)
    slopes = [
        np.diff(network(np.array([a + 0.4 * (b - a), a + 0.6 * (b - a)])), axis=0)[0] / (b - a)
        for a, b in pairwise(ends)
    ]
    assert sum(not np.allclose(p, q, atol=1e-6) for p, q in pairwise(slopes)) > 0


def test_exactly_is_what_floats_say():
    network = Network.random((8, 8, 5))
    for x in (Fraction(-3, 4), Fraction(1, 8), Fraction(5, 2)):
        assert [float(y) for y in network.exactly(x)] == pytest.approx(
            network(np.array([float(x)]))[0].tolist(), abs=1e-12
        )


def test_the_pair_lies_inside_and_is_an_affine_image():
    X, Y = pair_inside(0.25, 0.75)
    assert all(Fraction(1, 4) < x < Fraction(3, 4) for x in [*X, *Y])
    step = (max(X) - min(X)) / 4
    assert [[(x - min(X)) / step for x in side] for side in (X, Y)] == [list(side) for side in PAIR]
    assert sorted(X) != sorted(Y)


def test_a_thousand_aggregates_agree():
    found = piecewise_linear.thousand_aggregates()
    assert found.aggregates == 1024
    assert found.difference < 1e-15


def test_a_pair_that_leaves_the_piece_is_told_apart():
    network = Network.random((32, 32, 256))
    x, y = (aggregates(network(np.array([-3 + 1.5 * k for k in side]))) for side in PAIR)
    assert np.abs(x - y).max() > 0.01


def test_a_smooth_message_is_not_fooled_by_it():
    x, y = (aggregates(np.exp(np.array(side, dtype=float))[:, None]) for side in PAIR)
    assert np.abs(x - y).max() > 0.01


def test_pieces_by_hand():
    network = Network((((np.array([[1.0], [2.0]])), np.array([-1.0, 3.0])), (np.ones((1, 2)), np.zeros(1))))
    assert pieces(network).ends.tolist() == [-3, -1.5, 1, 3]
    assert pieces(network).widest == (-1.5, 1)
    assert pieces(network).around(0.5) == (-1.5, 1)
    assert Pieces(np.array([0.0, 1.0])).around(5.0) == (0, 1)


def test_every_trained_pna_network_has_linear_messages():
    linear = piecewise_linear.linear_messages()
    figure_6 = {f"{data}/released/pna/no-edges" for data in ("zinc", "molhiv", "mnist", "cifar10")}
    assert {"multitask/described/pna/16", "multitask/released/pna/16", *figure_6} <= set(linear) < set(names())
    assert all(linear.values())
    page = (Path(__file__).parents[1] / "docs" / "theory.md").read_text(encoding="utf-8")
    assert f"| M of our {len(linear)} trained PNA networks | one linear layer in {len(linear) - 2} of them" in page


def test_a_deep_message_is_not_called_linear():
    import pna

    deep = pna.PNAConv(4, 4, ["mean"], ["identity"], pna.DegreeStatistics(1.0, 1.0), pre_layers=2)
    assert not piecewise_linear._linear(deep)


def test_a_message_of_another_kind_is_not_called_linear():
    curved = torch.nn.Module()
    curved.M = torch.nn.Tanh()
    assert not piecewise_linear._linear(curved)


def test_trained_pieces_are_pieces():
    measured = piecewise_linear.trained_pieces("mnist/released/pna/no-edges", nodes=2)
    assert len(measured.kinks) == 2
    assert all(0 < around <= widest <= 1 for around, widest in zip(measured.around, measured.widest, strict=True))
