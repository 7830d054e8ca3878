"""The plan: which seeds a cell has under the profile `planned`, in which order cells are trained, bad plans."""

import json

import pytest

from pna.errors import MissingData
from pna.experiments import Cell, budgets, fullest, profile_of, run_of
from pna.experiments.cells import Profile
from pna.experiments.command import train
from pna.experiments.multitask import PROFILES, MultiTaskRun
from pna.experiments.plan import planned_cells, planned_seeds, planned_test
from pna.experiments.realworld import PROFILES as REALWORLD
from pna.places import results_folder
from pna.training.store import load

GCN, ZINC = Cell.parse("multitask/released/gcn/16"), Cell.parse("zinc/released/pna/edges")
PLAN = {"about": {"first_seed": 100}, "cells": [{"cell": str(ZINC), "seeds": 16}, {"cell": str(GCN), "seeds": 3}]}
PLAN["claims"] = [
    {"id": "best", "spec": spec, "power": power} for spec, power in (("described", 0.9), ("released", None))
]


@pytest.fixture
def plan(few_graphs, monkeypatch):
    """A plan of two cells, and a planned profile that is as small as the smoke profile."""
    few_graphs.folder.joinpath("results").mkdir()
    (few_graphs.folder / "results" / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
    small = Profile("planned", size_step=1, divisor=2, epochs=3, planned=True)
    monkeypatch.setitem(PROFILES, "planned", small)
    return few_graphs


def test_a_planned_cell_has_its_own_seeds(plan):
    assert planned_seeds(GCN) == [100, 101, 102]
    assert run_of(GCN, profile_of(GCN, "planned")).seeds == [100, 101, 102]
    assert run_of(ZINC, profile_of(ZINC, "planned")).seeds == list(range(100, 116))
    assert planned_seeds(Cell.parse("multitask/released/pna/16")) == []


def test_the_power_of_a_claim_is_the_plans(plan, monkeypatch):
    assert planned_test("best", "described")["power"] == 0.9
    assert planned_test("best", "released") is None is planned_test("worst", "described")
    (plan.folder / "results" / "plan.json").unlink()
    monkeypatch.setattr("pna.experiments.plan.weights_folders", lambda: (plan.folder / "results",))
    assert planned_test("best", "described") is None


def test_cells_come_in_the_order_of_the_plan(plan):
    assert planned_cells() == [ZINC, GCN]


def test_a_planned_cell_is_trained_and_is_its_fullest_result(plan, capsys):
    assert train([str(GCN), "--profile", "planned", "--device", "cpu"]) == 0
    result = load(results_folder() / "planned" / GCN.place)
    assert [replica.seed for replica in result.replicas] == [100, 101, 102]
    run, current = fullest(GCN)
    assert (run.profile.name, current) == ("planned", True)


def test_what_is_planned_counts_before_the_papers_budget(tmp_path):
    for name in ("paper", "planned", "quick"):
        (tmp_path / name).mkdir()
    for cell in (GCN, ZINC):
        assert [profile.name for profile in budgets(tmp_path, cell)] == ["planned", "paper", "quick"]


@pytest.mark.parametrize("profiles", [PROFILES, REALWORLD])
def test_the_planned_budget_is_the_papers_but_for_the_seeds(profiles):
    paper, planned = profiles["paper"], profiles["planned"]
    for name in ("epochs", "size_step", "divisor", "graphs", "patience", "learning_rate"):
        assert getattr(planned, name) == getattr(paper, name)
    assert paper.full
    assert planned.full


def test_real_graphs_and_redrawn_test_sets_are_tested_at_the_full_budget():
    for name, cell in (("paper", GCN), ("paper", Cell.parse("multitask/described/moments-3/16"))):
        assert {"real", "real@cap", "redrawn"} <= set(MultiTaskRun(cell, PROFILES[name]).collections)
    assert not any(name.startswith("real") for name in MultiTaskRun(GCN, PROFILES["smoke"]).collections)


def test_networks_trained_on_real_graphs_are_tested_on_random_ones():
    for spec, test in (("described", "multitask"), ("released", "multitask-15-24")):
        run = MultiTaskRun(Cell.parse(f"real/{spec}/gcn/16"), PROFILES["paper"])
        assert {"real", test} <= set(run.collections)
        assert {split.group for split in run.splits_of(run.training.collection)} == {"train", "validation"}


# ---- bad input ----


def test_a_cell_that_is_not_planned_is_not_trained(plan, capsys):
    assert train(["multitask/released/pna/16", "--profile", "planned", "--device", "cpu"]) != 0
    assert "multitask/released/pna/16 is not in the plan" in capsys.readouterr().err


def test_the_number_of_planned_seeds_cannot_be_changed(plan):
    with pytest.raises(ValueError, match="seeds are those of the plan"):
        profile_of(GCN, "planned", seeds=5)


def test_without_a_plan_there_are_no_planned_seeds(few_graphs, monkeypatch):
    monkeypatch.setattr("pna.experiments.plan.weights_folders", lambda: (few_graphs.folder,))
    with pytest.raises(MissingData, match=r"plan\.json is missing"):
        planned_seeds(GCN)
