import re
from dataclasses import replace

import numpy as np
import pytest

from pna.experiments import PROFILES, Cell
from pna.experiments.multitask import table_of
from pna.figures.runs import Curve, profile_named, recorded_path, recorded_run, runs_of, specs_of
from pna.training.store import ReplicaResult, load, save
from report.cards import cards
from report.claims import CLAIMS, findings_of
from tests.figures.conftest import write_result

CELL = "multitask/released/pna/16"


def test_profiles_are_read_from_folder_names():
    assert profile_named("paper") is PROFILES["paper"]
    assert profile_named("paper-300-epochs") == PROFILES["paper"].changed(epochs=300)
    assert profile_named("quick-3-seeds-7-epochs") == PROFILES["quick"].changed(3, 7)
    with pytest.raises(ValueError, match=r"profile must be one of .*got 'papers'"):
        profile_named("papers")


def test_specs():
    assert specs_of("both") == ("described", "released")
    assert specs_of("released") == ("released",)
    with pytest.raises(ValueError, match="spec must be both, described or released; got 'D1'"):
        specs_of("D1")


def test_errors_are_converted_to_the_released_units(results):
    path = write_result(CELL, level=-2.0)
    result = load(path)
    save(path, replace(result, facts=result.facts | {"maxima": [2 * value for value in result.facts["maxima"]]}))
    (run,) = runs_of("figure4", "released", "paper").recorded.values()
    assert np.log10(run.errors("multitask/test")[0]) == pytest.approx(-2 + 2 * np.log10(2))
    assert np.log10(run.baseline("multitask/test")) == pytest.approx(-1 + 2 * np.log10(2))


def test_a_single_tasks_errors_are_those_of_its_own_networks(results):
    write_result("single-task/released/pna/16", "smoke")
    runs = runs_of("single-task", "released", "smoke")
    run = runs.of("single-task")["pna"]
    assert run.errors("multitask/test").shape == (2, 6)
    assert np.isfinite(run.errors("multitask/test")).all()
    assert len(run.result.replicas) == 12


def test_recorded_takes_the_fullest_budget_that_has_all_cells(results):
    for model in ("pna", "pna-no-scalers", "mpnn-max", "mpnn-sum", "gat", "gcn", "gin"):
        write_result(f"multitask/released/{model}/16", "quick")
    write_result(CELL, "paper")
    assert runs_of("figure4", "released").profile.name == "quick"
    assert runs_of("figure4", "released", "paper").profile.name == "paper"
    for model in ("pna-no-scalers", "mpnn-max", "mpnn-sum", "gat", "gcn", "gin"):
        write_result(f"multitask/released/{model}/16", "paper")
    assert runs_of("figure4", "released").profile.name == "paper"
    assert runs_of("figure4", "released").full


def test_of_two_budgets_with_as_many_cells_it_is_the_fuller(results):
    write_result(CELL, "quick")
    write_result(CELL, "paper-300-epochs")
    runs = runs_of("figure4", "released")
    assert runs.profile.name == "paper-300-epochs"
    assert not runs.full
    assert len(runs.missing) == 6


def test_nothing_recorded_is_all_missing(results):
    runs = runs_of("figure5", "described")
    assert not runs.recorded
    assert len(runs.missing) == 6
    assert runs.profile.name == "paper"


def test_a_result_of_another_configuration_is_not_taken(results):
    path = write_result(CELL, "quick-3-seeds")
    other = recorded_path(Cell.parse(CELL), PROFILES["quick"])
    other.parent.mkdir(parents=True)
    path.rename(other)
    assert Cell.parse(CELL) in runs_of("figure4", "released", "quick").missing


def test_an_altered_result_is_refused(results):
    path = write_result(CELL)
    path.write_text(path.read_text().replace('"seeds": 10', '"seeds": 11'))
    with pytest.raises(ValueError, match="has been altered"):
        runs_of("figure4", "released", "paper")


def test_the_recorded_results_of_the_repository_agree_with_the_store(monkeypatch):
    monkeypatch.delenv("PNA_RESULTS", raising=False)
    from pna.figures.scores import best, log_tasks

    runs = runs_of("figure4", "described", "paper")
    assert len(runs.recorded) == 7
    for cell, run in runs.recorded.items():
        store = table_of(load(recorded_path(cell, runs.profile)))["multitask/test"]
        shift = 2 * np.log10(run._units)
        assert log_tasks(best(run, "multitask/test")) == pytest.approx(np.array(store) + shift, abs=1e-6)


# ---- divergence ----


def test_runs_that_diverged_are_counted_where_a_reader_sees_them(results):
    write_result("extrapolation/described/gin/16", diverged=(0, 3, 7))
    write_result("extrapolation/described/pna/16")
    runs = runs_of("figure5", "described")
    found = runs.of("extrapolation")
    assert (found["gin"].diverged, found["pna"].diverged) == ("3 of 10", "")
    ended = "runs that ended early because their loss was no longer finite: GIN (extrapolation, 16) 3 of 10"
    assert runs.diverged == f"; {ended}"
    (claim,) = (claim for claim in CLAIMS if claim.id == "explodes")
    (explodes,) = (finding for finding in findings_of(claim, "paper") if finding.spec == "described")
    assert explodes.budget.endswith(runs.diverged)
    card = cards()["figure5"]
    assert re.search(r"`extrapolation/described/gin/16` \|.*\| 3 of 10 \|\n", card)
    assert re.search(r"`extrapolation/described/pna/16` \|.*\| 0 \|\n", card)


@pytest.mark.parametrize(
    ("training", "model", "count"),
    [("extrapolation", "gin", "6 of 10"), ("depth-convergence", "gin", "10 of 10"), ("multitask", "gin", "")],
)
def test_those_of_the_recorded_runs(training, model, count):
    assert recorded_run(Cell(training, "described", model, "16"), PROFILES["paper"]).diverged == count


@pytest.mark.parametrize(
    ("curve", "validation", "best"),
    [
        ([[1, 0.9, 0.8], [5, 0.2, 0.3]], 0.25, 0.25),  # the loss of the best epoch, which the thinned curve may lack
        ([[1, 2.0, 1.9, 0.3], [4, 0.9, 0.8, 0.7]], 0.72, 0.8),  # classes: validation is the accuracy
        ([[1, 0.7, -0.6, 0.6], [4, 0.5, -0.8, 0.8]], 0.81, 0.5),  # ROC-AUC: the training loss is drawn
        ([], None, None),  # it ended before its first point
    ],
)
def test_the_best_epochs_dot_is_on_its_curve(curve, validation, best):
    replica = ReplicaResult(0, None, 5, 4, "epochs", validation, {}, curve)
    assert Curve.of(replica).best_loss == best
