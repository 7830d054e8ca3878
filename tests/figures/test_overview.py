"""The README's picture shows one measure: the mean over tasks of log10 MSE, ours beside published."""

import json

import pytest

from pna.figures import draw, published
from tests.figures.conftest import write_result


@pytest.fixture
def numbers(results, tmp_path, monkeypatch):
    """What the picture of one recorded model says."""
    monkeypatch.setattr("pna.figures.style._picture", lambda figure, name, suffix: b"")

    def drawn(**options):
        write_result("multitask/released/pna/16", **options)
        draw("figure4", "paper", "released", folder=tmp_path)
        return json.loads((tmp_path / "overview_released.json").read_text())["numbers"]

    return drawn


def test_it_shows_the_average_of_figure_4b_beside_the_published_one(numbers, tmp_path):
    overview = numbers(level=-2.0)
    table = json.loads((tmp_path / "figure4b_released.json").read_text())["numbers"]["mean log10 MSE"]
    assert overview["mean log10 MSE over the six tasks"] == {"pna": table["pna"]["average"]}
    assert overview["published"] == {"pna": published.multitask()["pna"]["average"]}
    low, high = overview["95 % interval"]["pna"]
    assert low < -1.98 < high


def test_it_averages_logarithms_and_not_errors(numbers):
    levels = {"multitask/test": [-1.0, -1.0, -1.0, -3.0, -3.0, -3.0]}
    mean = numbers(levels=levels | {"multitask-15-24/test": levels["multitask/test"]})
    assert mean["mean log10 MSE over the six tasks"]["pna"] == pytest.approx(-2.0, abs=0.05)


def test_it_names_the_test_graphs(numbers):
    assert numbers()["tested on"] == "test graphs of 15-24 nodes"
