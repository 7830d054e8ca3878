import math

import pytest

from pna.experiments.figure6 import COLUMNS
from pna.figures import published
from pna.networks import MODELS


def test_figure_4b_has_every_model_and_the_baseline():
    rows = published.multitask()
    assert set(rows) == {"pna", "pna-no-scalers", "mpnn-max", "mpnn-sum", "gat", "gcn", "gin", "baseline"}
    assert rows["pna"]["average"] == -3.13
    assert rows["pna"]["laplacian"] == -3.77


@pytest.mark.parametrize("model", ["pna", "gat", "baseline"])
def test_a_published_average_is_that_of_its_row(model):
    row = dict(published.multitask()[model])
    average = row.pop("average")
    assert average == pytest.approx(sum(row.values()) / 6, abs=0.011)


def test_what_leaves_figure_5_is_infinite():
    rows = published.extrapolation()
    assert rows["pna"].tolist() == [-1.83, -1.6, -1.3, -0.96, -0.71, -0.58]
    assert math.isinf(rows["gat"][-1])
    assert math.isinf(rows["mpnn-sum"][3])
    assert math.isnan(rows["mpnn-sum"][4])


def test_parameters_and_boxes_use_the_packages_names():
    assert published.parameters(16)["mpnn-sum"] == 7294
    assert set(published.parameters(20)) <= set(MODELS)
    assert set(published.boxes()) <= set(MODELS)


def test_figure_6_reads_mean_and_deviation_and_drops_the_star():
    rows = published.realworld()
    assert rows["PNA"]["ZINC_edge_MAE"] == (0.188, 0.004)
    assert rows["MLP"]["ZINC_edge_MAE"] is None
    assert set(rows["PNA"]) == set(COLUMNS)


def test_notes_say_how_sure_the_digits_are():
    assert "medium" in published.note("multitask_per_task")
    with pytest.raises(ValueError, match=r"table must be one of .*got 'figure9'"):
        published.table("figure9")
