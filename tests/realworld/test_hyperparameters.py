"""The table of figure 6's hyper-parameters: frozen, complete, and what every recorded result was trained with."""

import json
from dataclasses import FrozenInstanceError, asdict
from pathlib import Path

import pytest

from pna.experiments import Cell, Figure6Run
from pna.experiments.realworld import PROFILES
from pna.realworld.data.datasets import DATASETS
from pna.realworld.hyperparameters import HYPERPARAMETERS
from pna.training.store import load

RECORDED = Path(__file__).parents[2] / "results" / "paper"


@pytest.mark.parametrize(("data", "model", "edges"), HYPERPARAMETERS)
def test_every_row_is_that_of_the_recorded_configuration(data, model, edges):
    cell = Cell(data, "released", model, edges)
    result = load(RECORDED / cell.place)
    assert json.loads(json.dumps(asdict(HYPERPARAMETERS[data, model, edges]))) == result.configuration["model"]
    assert Figure6Run(cell, PROFILES["paper"]).hash == result.hash


def test_there_is_a_row_for_every_recorded_result():
    recorded = {Cell.at(path) for name in DATASETS for path in (RECORDED / name).rglob("*.json")}
    assert recorded == {Cell(data, "released", model, edges) for data, model, edges in HYPERPARAMETERS}
    assert len(recorded) == 58


def test_a_models_rows_differ_in_what_the_data_set_decides_only():
    for data, model, edges in HYPERPARAMETERS:
        row, first = HYPERPARAMETERS[data, model, edges], HYPERPARAMETERS["zinc", model, "no-edges"]
        assert (row.title, row.aggregators, row.scalers) == (first.title, first.aggregators, first.scalers)
        assert (row.edge_dim > 0) == (edges == "edges")


def test_the_table_is_frozen():
    place = ("zinc", "pna", "edges")
    with pytest.raises(TypeError):
        HYPERPARAMETERS[place] = HYPERPARAMETERS["zinc", "pna", "no-edges"]
    with pytest.raises(FrozenInstanceError):
        HYPERPARAMETERS[place].hidden = 1
