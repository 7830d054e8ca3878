"""Real graphs: the test sets, errors on them, and the fit of errors to structure."""

import networkx as nx
import numpy as np
import pytest

from pna.experiments import SPECS
from pna.experiments.hubs import CAP as CAP_OF_HUBS
from pna.figures import hubs, real
from pna.figures.catalogue import files_of
from pna.figures.plots import hubs as hub_plots
from pna.figures.plots import real as plots
from pna.figures.real import (
    CAP,
    GROUP,
    HALF,
    NETWORKS,
    PREDICTORS,
    WITHOUT_CONNECTED,
    Group,
    groups,
    planned_runs,
    splits,
    structure,
    trained_runs,
)
from pna.figures.runs import runs_of
from pna.multitask import DESCRIBED, TASKS
from pna.multitask.hubs import BINS
from pna.multitask.real import GROUPS, RealSplit, graph_set
from tests.figures.conftest import write_result

CONNECTED = [task.name for task in TASKS].index("connected")


def write_real_graphs(cell, level, profile="paper", **options):
    """A result with an error on every real test set: `level` of the group's name and the rule of depth."""
    levels = {f"{rule}/{name}": [level(name, rule)] * 6 for rule in (HALF, CAP) for name in GROUP}
    levels |= {split: [-2.0] * 6 for split in real.REDRAWN} | options.pop("levels", {})
    return write_result(cell, profile, levels=levels, **options)


def run_of(model="pna", spec="described"):
    return runs_of("figure4", spec, "paper").of("multitask")[model]


def test_pictures_are_drawn_for_the_specifications_that_are_recorded_and_for_no_other():
    recorded = [spec for spec in SPECS if planned_runs(spec).recorded]
    for panel in ("real_graphs", "real_slopes"):
        drawn = [file for file in files_of("real-graphs") if file.startswith(f"{panel}_")]
        assert drawn == [f"{panel}_{spec}" for spec in recorded]


def test_every_test_set_is_a_group_of_a_network():
    assert set(GROUP) == set(GROUPS) - {"train", "validation"}
    assert {group.network for group in GROUP.values()} == set(NETWORKS)
    assert Group.of("internet-walk-15-24") == Group("internet-walk-15-24", "internet", "walk", 15, 24)
    assert Group.of("zoo-41-60") == Group("zoo-41-60", "zoo", "", 41, 60)
    assert len(groups("small")) + len(groups("large")) == len(GROUP)
    assert all(group.high <= 24 for group in groups("small"))
    assert splits("small", CAP, ["roads"]) == ["real@cap/roads-walk-15-24", "real@cap/roads-breadth-15-24"]


@pytest.mark.parametrize("name", ["zoo-15-24", "roads-walk-15-24"])
def test_the_structure_is_that_of_the_graphs(name):
    graphs = [
        nx.from_edgelist(data.edge_index.T.tolist()) for data in graph_set(DESCRIBED, RealSplit(name, "test", name), 0)
    ]
    degrees = [[degree for _, degree in graph.degree] for graph in graphs]
    assert structure(name)["nodes"] == pytest.approx(np.mean([np.log2(len(graph)) for graph in graphs]))
    assert structure(name)["tail"] == pytest.approx(np.mean([np.log2(max(d) / np.mean(d)) for d in degrees]))
    assert structure(name)["diameter"] == pytest.approx(np.mean([np.log2(nx.diameter(graph)) for graph in graphs]))


def test_scores_weigh_test_sets_alike_and_leave_connected_out(results):
    odd = {"real/zoo-15-24": [-2.0] * CONNECTED + [5.0] + [-2.0] * (5 - CONNECTED)}
    write_real_graphs("multitask/described/pna/16", lambda name, rule: -2.0 if rule == HALF else -2.5, levels=odd)
    run = run_of()
    assert len(WITHOUT_CONNECTED) == 5
    shift = 0.02  # of the five best seeds
    assert real.score_of(run, splits("small")).value == pytest.approx(-2.0 + shift)
    assert real.relative(run, splits("small")).value == pytest.approx(-1.0 + shift)  # the baseline is at -1
    assert real.cap_gain(run).value == pytest.approx(-0.5)
    mixed = ["real/zoo-15-24", "real@cap/zoo-15-24"]
    assert real.score_of(run, mixed).value == pytest.approx(-2.25 + shift)


def test_a_model_fails_where_it_is_worse_than_the_baseline(results):
    hard = ("internet", "grid")
    write_real_graphs(
        "multitask/described/pna/16",
        lambda name, rule: -0.8 if name.startswith(hard) and rule == HALF else -1.5,
        noise=0.02,
    )
    assert real.fails_on(run_of(), "large", HALF) == list(hard)
    assert real.fails_on(run_of(), "large", CAP) == []


def test_the_fit_finds_the_slopes_that_made_the_errors(results):
    slopes = dict(zip(PREDICTORS, (0.3, 0.1, -0.2), strict=True))
    level = lambda name, rule: -4.5 + sum(slopes[key] * value for key, value in structure(name).items())  # noqa: E731
    write_real_graphs("multitask/described/pna/16", level)
    fit = real.regression(run_of())
    assert {name: one.value for name, one in fit.slopes.items()} == pytest.approx(slopes)
    assert fit.constant == pytest.approx(-4.5 + 1 + 0.02)
    assert fit.explained == pytest.approx(1)
    assert all(one.error < 1e-9 and one.freedom == len(NETWORKS) - 1 for one in fit.slopes.values())
    assert all(0 < share < 1 for share in fit.shares.values())


def test_a_network_that_is_unlike_the_others_widens_the_interval(results):
    odd = lambda name, rule: -2.0 + 0.3 * structure(name)["nodes"] / 5 + 0.5 * name.startswith("roads")  # noqa: E731
    write_real_graphs("multitask/described/pna/16", odd)
    fit = real.regression(run_of())
    assert all(one.error > 1e-3 for one in fit.slopes.values())
    assert fit.explained < 1


def test_drawn_with_what_is_recorded(results):
    for model in ("pna", "gin"):
        write_real_graphs(f"multitask/described/{model}/16", lambda name, rule: -1.5 - 0.1 * name.startswith("zoo"))
    runs = runs_of("figure4", "described", "paper")
    _, numbers = plots.by_network(runs)
    assert [set(panel) for panel in numbers.values()] == [{"pna", "gin"}] * 3
    first = next(iter(numbers.values()))["pna"]
    assert list(first) == ["all", *NETWORKS]
    assert first["roads"]["value"] == pytest.approx(-0.48)
    _, numbers = plots.slopes(runs)
    assert set(numbers["at most 12 layers"]) == {"pna", "gin"}


def test_what_training_on_real_graphs_changes_is_drawn_for_models_trained_on_both(results):
    for model in ("pna", "gin"):
        write_real_graphs(f"multitask/described/{model}/16", lambda name, rule: -1.5)
    random = {"multitask/test": [-1.2] * 6}
    write_real_graphs("real/described/pna/16", lambda name, rule: -2.0, levels=random)
    runs = trained_runs("paper")
    assert set(runs.of("real")) == {"pna"}
    assert "real/described/gin/16" in map(str, runs.missing)
    _, numbers = plots.trained(runs)
    small, large, random = numbers.values()
    assert set(small) == set(large) == set(random) == {"pna"}
    gains = [{side: one["value"] for side, one in panel["pna"].items()} for panel in (small, large, random)]
    differences = [one["trained on real graphs"] - one["trained on random graphs"] for one in gains]
    assert differences == pytest.approx([-0.5, -0.5, 0.8])


# ---- hubs ----


def test_the_errors_on_hubs_are_relative_to_the_baseline_and_the_mean_is_that_of_the_tasks():
    figure, numbers = hub_plots.errors()
    assert [axis.get_title() for axis in figure.axes] == list(numbers)
    mean, *tasks = numbers.values()
    for name in hubs.recorded():
        for place, pair in enumerate(f"{low}-{high}" for low, high in BINS):
            assert mean[name][pair]["value"] == pytest.approx(np.mean([task[name][pair]["value"] for task in tasks]))
            assert hubs.relative(name)[place].value == mean[name][pair]["value"]
    assert [one["value"] for one in mean["linear"].values()] == pytest.approx([np.log10(CAP_OF_HUBS)] * len(BINS))
    assert hubs.at_cap("linear") == 1
    assert hubs.at_cap("none") == 0


def test_with_no_network_on_hubs_the_picture_says_so(results):
    figure, numbers = hub_plots.errors()
    assert "not recorded yet" in [text.get_text() for text in figure.texts]
    assert set(map(len, numbers.values())) == {0}


def test_the_pictures_of_networks_are_of_every_source():
    figure, numbers = plots.networks()
    assert [axis.get_title() for axis in figure.axes] == list(NETWORKS.values())
    assert numbers["internet"]["nodes"] == 22963
    assert all(15 <= row["shown"]["nodes"] <= 24 for row in numbers.values())
