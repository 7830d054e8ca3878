"""The pictures of the searches: what is recorded is where it should be, and the best of it is marked."""

import json
from dataclasses import replace

import pytest

from pna.experiments.dropout import SEARCHED
from pna.figures.plots import tuning
from pna.training.store import load, save
from tests.figures.conftest import write_result


def write_rates(model, losses):
    """A search for the rate of dropout in which the seeds of a rate have the same loss; None: none was finite."""
    path = write_result(f"dropout-tuning/described/{model}/16")
    result = load(path)
    by_rate = dict(zip(SEARCHED, losses, strict=True))
    pairs = zip(result.replicas, result.configuration["dropout"], strict=True)
    save(path, replace(result, replicas=tuple(replace(one, validation=by_rate[rate]) for one, rate in pairs)))


def panels(figure):
    """The axes of the models, by their titles."""
    return {axis.get_title(): axis for axis in figure.axes if axis.get_title()}


def test_every_seed_at_every_rate_and_a_star_at_the_best_mean(results):
    write_rates("gcn", (1e-2, 1e-2, 1e-3, 5e-3, 1e-2, 2.0))
    figure, numbers = tuning.rates_of_dropout("described")
    *dots, star = panels(figure)["GCN"].collections
    assert [tuple(dot.get_offsets()[0]) for dot in dots] == [
        pytest.approx((place, loss)) for place, loss in enumerate((1e-2, 1e-2, 1e-3, 5e-3, 1e-2, tuning.TOP))
    ]
    assert {len(dot.get_offsets()) for dot in dots} == {5}
    assert tuple(star.get_offsets()[0]) == pytest.approx((2, 1e-3))
    assert [label.get_text() for label in panels(figure)["GCN"].get_xticklabels()] == [f"{rate:g}" for rate in SEARCHED]
    assert numbers["gcn"]["best"] == 0.02
    assert numbers["gcn"]["mean log10"] == pytest.approx(
        {"0": -2, "0.005": -2, "0.02": -3, "0.05": -2.301, "0.1": -2, "0.2": 0.301}, abs=1e-3
    )


def test_a_rate_without_any_finite_loss_has_no_mean(results):
    write_rates("gin", (1e-2, None, 1e-3, 5e-3, 1e-2, 1e-1))
    _, numbers = tuning.rates_of_dropout("described")
    assert numbers["gin"]["mean log10"]["0.005"] is None
    json.dumps(numbers, allow_nan=False)


def test_what_is_not_recorded_is_said(results):
    for figure, numbers in (tuning.search("released"), tuning.rates_of_dropout("described")):
        assert numbers == {}
        assert [axis.texts[0].get_text() for axis in panels(figure).values()] == ["not recorded"] * 7


def test_the_best_draw_of_a_search_has_the_star(results):
    path = write_result("tuning/described/gat/16")
    result = load(path)
    draws = [replace(one, validation=1e-2 if k else 1e-3) for k, one in enumerate(result.replicas)]
    save(path, replace(result, replicas=tuple(draws)))
    figure, numbers = tuning.search("described")
    *_, star = panels(figure)["GAT"].collections
    first = result.configuration["search"]["learning_rates"][0]
    assert tuple(star.get_offsets()[0]) == pytest.approx((first, 1e-3))
    assert numbers["gat"]["best"][0]["loss"] == 1e-3
