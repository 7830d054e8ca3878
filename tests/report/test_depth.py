"""Beyond the paper: errors by rule of depth, and how features grow."""

import re

import networkx as nx
import numpy as np
import pytest
import torch

from pna import DegreeStatistics
from pna.figures import growth
from pna.figures.catalogue import files_of
from pna.figures.depth import SIX, WITHOUT_DIAMETER, gain, has_rule, leads, scores_by_rule, trained_gain
from pna.figures.plots import depth
from pna.figures.runs import runs_of
from pna.multitask import DESCRIBED
from pna.neighbourhoods import Neighbourhoods
from pna.networks import build
from report.depth import section
from tests.figures.conftest import SIZES, write_result


def levels(rule, value):
    """Errors on all sizes under a rule."""
    return {f"extrapolation@{rule}/test_{start}_{start + 5}": [value] * 6 for start in SIZES}


def write_six(better="mpnn-max"):
    """PNA the best with N/2, another with the cap, which gains three tenths for all."""
    for place, model in enumerate(("pna", "mpnn-max", "gat", "gcn", "gin", "mpnn-sum")):
        level = -2.0 + 0.1 * place
        capped = level - 0.3 - (1.0 if model == better else 0.0)
        write_result(f"extrapolation/described/{model}/16", level=level, levels=levels("cap", capped))


def text_of(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def test_scores_gain_and_lead(results):
    write_six()
    found = runs_of("figure5", "described").of("extrapolation")
    pna = scores_by_rule(found["pna"])
    assert list(pna) == ["", "cap", "diameter", "convergence", "N"]
    assert pna["cap"]["95-99"].value == pytest.approx(pna[""]["95-99"].value - 0.3)
    assert gain(found["pna"]).value == pytest.approx(-0.3)
    assert gain(found["mpnn-max"]).value == pytest.approx(-1.3)
    assert {(other, round(difference.value, 3)) for _, other, difference in leads(found, "")} == {("mpnn-max", -0.1)}
    assert {(other, round(difference.value, 3)) for _, other, difference in leads(found, "cap")} == {("mpnn-max", 0.9)}


def test_the_section_has_the_answers_and_what_is_missing(results):
    write_six()
    write_result("depth-varied/described/pna/16")
    text = text_of(section("recorded"))
    assert "⌊N/2⌋, the paper&#39;s: PNA has the lowest error at 9 of 9 sizes" in text
    assert "⌊N/2⌋, at most 12: PNA has the lowest error at 0 of 9 sizes" in text
    assert "released: no network is tested with other depths" in text
    assert "PNA, ⌊N/2⌋ ± ⌊N/4⌋ at random" in text
    missing = text[text.index("not recorded yet:") :]
    assert "MPNN (max) (⌊N/2⌋ ± ⌊N/4⌋ at random)" in missing
    assert "PNA (⌊N/2⌋ ± ⌊N/4⌋ at random)" not in missing


def test_the_growth_of_the_least_error_is_computed(results):
    """The least of all rules and models at the largest graphs, here the cap's 10^-1.5, and at the smallest, 10^-3.5."""
    small, *_, large = (f"test_{start}_{start + 5}" for start in SIZES)
    least = {f"extrapolation@cap/{large}": [-1.5] * 6, f"extrapolation/{small}": [-3.5] * 6}
    write_result("extrapolation/described/pna/16", level=-1.0, levels=least)
    assert "the lowest error at 95 nodes is 100 times the lowest at 20." in section("recorded")


def test_what_another_rule_gains_in_training(results):
    write_six()  # under the cap PNA's errors are at 10^-2.3
    told = {name: [-2.3] * 4 + [-3.5, -2.3] for name in levels("cap", 0)}  # the diameter alone is better
    write_result("depth-diameter/described/pna/16", levels=told)
    runs = runs_of("depth", "described")
    pair = runs.of("depth-diameter")["pna"], runs.of("extrapolation")["pna"]
    assert [one.value for one in trained_gain(*pair, SIX)] == pytest.approx([-0.2] * 9)
    assert [one.value for one in trained_gain(*pair, WITHOUT_DIAMETER)] == pytest.approx([0.0] * 9)
    text = text_of(section("recorded"))
    assert re.search(r"PNA, diameter six tasks (−0.20 \S+ … \S+ ){9}9 of 9", text)
    assert re.search(r"PNA, diameter without the diameter .* 0 of 9", text)
    assert "Of 9 sizes, the error as described is then significantly lower at 0 for PNA, both on all six" in text


def test_gin_whose_runs_go_on_is_shown_once_it_is_recorded(results):
    write_six()
    assert "not recorded yet: GIN (⌊N/2⌋), GIN (diameter), GIN (convergence), GIN (⌊N/2⌋ ± ⌊N/4⌋ at random)" in text_of(
        section("recorded")
    )
    write_result("extrapolation/D13/gin/16", level=-2.0)
    write_result("depth-diameter/D13/gin/16", level=-2.5, diverged=(8, 9))
    text = text_of(section("recorded"))
    text = text[text.index("As released (D13), a run goes on") :]
    assert "D13; paper: 10 seeds" in text
    assert re.search(r"GIN, diameter \(2 of 10 runs diverged\) six tasks (−0.50 \S+ … \S+ ){9}9 of 9", text)


def test_drawn_with_what_is_recorded(results):
    write_six()
    write_result("depth-diameter/described/gin/16")
    _, numbers = depth.by_rule(runs_of("figure5", "described"))
    assert numbers["pna"]["⌊N/2⌋, at most 12"]["20-24"][0] == pytest.approx(-2.28)
    assert set(numbers) == {"pna", "mpnn-max", "gat", "gcn", "gin", "mpnn-sum"}
    runs = runs_of("depth", "described")
    _, numbers = depth.trained(runs)
    assert set(numbers["gin"]) == {"⌊N/2⌋", "diameter"}
    assert len(runs.missing) == 11
    assert files_of("depth") == ["depth_described", "depth_released", "depth_trained_described", "depth_growth"]


def test_a_smaller_budget_has_its_own_depth_alone(results):
    write_result("extrapolation/described/pna/16", "quick")
    runs = runs_of("depth", "described", "quick")
    assert not any(cell.training.startswith("depth-") for cell in runs.missing)
    _, numbers = depth.by_rule(runs)
    assert list(numbers["pna"]) == ["⌊N/2⌋, the paper's"]
    assert depth.trained(runs)[1] == {}
    assert not has_rule(runs.of("extrapolation")["pna"], "cap")
    assert "no network is tested with other depths under quick" in section("quick")


def test_growth_is_drawn_without_any_network(monkeypatch):
    monkeypatch.setattr("pna.figures.plots.depth.growths", dict)
    assert depth.growth()[1] == {"90 % of the graphs are below": {}}


# ---- growth ----


def network_of(model, delta=1.3):
    torch.manual_seed(0)
    return build(model, 8, degrees=DegreeStatistics(delta, 3.0)).double().eval()


@torch.no_grad()
def test_without_amplification_its_factor_is_one():
    """Where log(d + 1) is δ of all nodes, it is one anyway, and nothing changes; elsewhere it does."""
    ring = ring_like(growth.graphs(DESCRIBED, 24, torch.float64))
    for delta, same in ((float(np.log(3)), True), (2.0, False)):
        network = network_of("pna", delta)
        cut = growth.without_amplification(network)
        x = torch.rand(24, 8, dtype=torch.double)
        assert torch.allclose(network.GC_m(x, ring), cut.GC_m(x, ring)) == same


def ring_like(batch):
    """A cycle of 24 nodes in the form of a batch."""
    edges = torch.tensor(list(nx.cycle_graph(24).edges)).T
    graph = Neighbourhoods.of(torch.cat([edges, edges.flip(0)], dim=1), 24)
    return type(batch)(1, 24, batch.x[:24], graph, batch.reverse[:48], batch.y_node[:24], batch.y_graph[:1])


class Doubling(torch.nn.Module):
    """A network whose layers double the features."""

    hidden = 8

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones((), dtype=torch.double))

    def GC_1(self, x, batch):
        return torch.nn.functional.pad(x, (0, 6)) + 1

    def GC_m(self, x, batch):
        return 2 * x

    def _gated(self, x, new):
        return new


def test_growth_of_a_map_that_is_known():
    """Norm and change grow by two, on every graph."""
    found = growth.growth_of(Doubling(), DESCRIBED, 24, with_change=True)
    assert found.norm.shape == (growth.LAYERS, growth.GRAPHS)
    assert found.degree.max() <= 23
    np.testing.assert_allclose(found.per_layer, 2, rtol=1e-6)
    np.testing.assert_allclose(found.change_per_layer, 2, rtol=1e-6)


def test_a_change_that_grows_as_the_norm_does_has_its_growth_per_layer():
    """Also where every layer has another factor: both are read from the same layers on."""
    change = np.random.default_rng(0).uniform(0.5, 2, (growth.LAYERS - 1, 3))
    norm = np.concatenate([np.ones((1, 3)), change.cumprod(axis=0)])
    found = growth.Growth(norm, change, np.ones(3))
    np.testing.assert_allclose(found.change_per_layer, found.per_layer)
