"""The workflow end to end, on a slice of the smoke profile: two trainings and one notebook."""

import importlib
import json
import os
import random
import shutil
import time

import pytest

from pna.experiments import PROFILES, Cell
from pna.figures.runs import RECORDED
from tests.realworld.conftest import write_archive
from tests.workflow.conftest import ROOT, Workflow

GRAPH_TYPES = ("--profile", "smoke", "--only", "graph-types", "--cores", "2")


def numbers(folder):
    return {path.name: json.loads(path.read_text())["numbers"] for path in sorted((folder / "figures").glob("*.json"))}


@pytest.mark.parametrize(
    ("asked", "gpus", "profile", "drawn"),
    [
        (None, 0, "quick", RECORDED),
        (None, 1, "paper", RECORDED),  # with the plan's seeds where they are recorded, as on a machine without a GPU
        ("paper", 1, "paper", "paper"),
        ("quick", 1, "quick", "quick"),
    ],
)
def test_figures_show_the_fullest_budget_unless_one_is_asked_for(monkeypatch, asked, gpus, profile, drawn):
    monkeypatch.syspath_prepend(str(ROOT / "workflow"))
    plan = importlib.import_module("run").Plan.of(asked, gpus, slurm=False, cpu=False)
    assert (plan.profile, plan.drawn) == (profile, drawn)


def test_only_does_what_it_must(workflow):
    code, output = workflow.run("--profile", "smoke", "--only", "figure4", "--dry-run")
    assert code == 0, output
    assert "3 steps: 2 x train, 1 x notebook" in output
    assert "would run notebook figure4" in output
    assert "report" not in output.split("steps:")[1].replace("report/", "")
    code, output = workflow.run("--profile", "smoke", "--only", "figure2", "--only", "figure3,figure1", "--dry-run")
    assert code == 0, output
    assert "3 steps: 3 x notebook" in output


def test_everything_and_from_results(workflow):
    code, output = workflow.run("--profile", "quick", "--dry-run")
    assert code == 0, output
    assert "74 x train" in output  # the data sets of figure 6 are not here
    code, output = workflow.run("--profile", "quick", "--from-results", "--dry-run")
    assert code == 0, output
    assert "x train" not in output


def test_the_default_on_a_cpu_is_quick_and_finds_all_of_it_recorded(workflow):
    """With the repository's own results."""
    workflow.environment |= {"CUDA_VISIBLE_DEVICES": "", "PNA_RESULTS": str(ROOT / "results")}
    code, output = workflow.run("--dry-run")
    assert code == 0, output
    assert "profile quick on cpu" in output
    assert "21 x notebook" in output
    assert "x train" not in output


def test_the_default_on_a_cpu_trains_what_is_not_recorded(workflow):
    workflow.environment["CUDA_VISIBLE_DEVICES"] = ""
    code, output = workflow.run("--only", "figure4", "--dry-run")
    assert code == 0, output
    assert "14 x train" in output


def test_what_a_fuller_budget_has_is_not_trained_for_a_figure_that_shows_the_fullest(workflow, monkeypatch):
    """One of figure 4's 14 cells is recorded at the paper's budget: quick runs would train it for nothing."""
    from tests.figures.conftest import write_result

    monkeypatch.setenv("PNA_RESULTS", workflow.environment["PNA_RESULTS"])
    write_result("multitask/released/gin/16", "paper")
    workflow.environment["CUDA_VISIBLE_DEVICES"] = ""
    assert "13 x train" in workflow.run("--only", "figure4", "--dry-run")[1]
    assert "14 x train" in workflow.run("--profile", "quick", "--only", "figure4", "--dry-run")[1]


def test_trains_what_is_missing_draws_and_then_has_nothing_to_do_whatever_kills_it(prepared, two_missing, tmp_path):
    """PNA_KILLS kills; two by default."""
    workflow, cells = prepared
    start = time.monotonic()
    code, output = workflow.run(*GRAPH_TYPES)
    seconds = time.monotonic() - start
    assert code == 0, output
    assert "[2/2] done: notebook graph-types" in output
    assert "All steps succeeded." in output
    facts = json.loads((workflow.folder / "figures" / "graph_types_described.json").read_text())
    assert facts["missing"] == []
    assert {str(cell) for cell in cells} <= {cell["cell"] for cell in facts["cells"]}
    undisturbed = numbers(workflow.folder)
    code, output = workflow.run(*GRAPH_TYPES)
    assert code == 0, output
    assert "done:" not in output
    assert numbers(workflow.folder) == undisturbed

    other = Workflow(tmp_path / "killed")
    shutil.copytree(two_missing[0], other.folder / "results")
    rng = random.Random(0)
    for _ in range(int(os.environ.get("PNA_KILLS", "2"))):
        process = other.start(*GRAPH_TYPES)
        time.sleep(rng.uniform(0.1, 0.9) * seconds)
        other.kill(process)
    code, output = other.run(*GRAPH_TYPES)
    assert code == 0, output
    assert numbers(other.folder) == undisturbed


def test_a_failed_training_stops_no_other_and_is_named(prepared):
    workflow, (bad, good) = prepared
    broken = workflow.folder / "data" / "runs" / "smoke" / f"{str(bad).replace('/', '-')}.safetensors"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"no checkpoint")
    code, output = workflow.run(*GRAPH_TYPES)
    assert code == 1, output
    assert f"FAILED: training {bad} (" in output
    assert f"FAILED: training {good}" not in output
    assert workflow.result(good, PROFILES["smoke"]).exists()
    facts = json.loads((workflow.folder / "figures" / "graph_types_described.json").read_text())
    assert facts["missing"] == [str(bad)]
    broken.unlink()
    code, output = workflow.run(*GRAPH_TYPES)
    assert code == 0, output
    facts = json.loads((workflow.folder / "figures" / "graph_types_described.json").read_text())
    assert facts["missing"] == []


def test_two_at_once_are_refused(workflow):
    import fcntl

    lock = workflow.folder / "build" / "smoke" / "lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        code, output = workflow.run("--profile", "smoke", "--only", "figure2")
    assert code == 1
    assert "another run of this profile is at work" in output


def test_unknown_figures_and_numbers_are_named(workflow):
    code, output = workflow.run("--only", "figure9")
    assert code == 2
    assert "must be one of figure4, figure5" in output
    assert "got 'figure9'" in output
    code, output = workflow.run("--cores", "0")
    assert code == 2
    assert "must be a positive integer, got '0'" in output


def test_a_slice_that_its_time_budget_stops_asks_for_the_next(workflow):
    """Exit code 3, which the Slurm profile's retries continue; the next slice finishes the cell."""
    cell = "multitask/described/gcn/16"
    words = ("smoke", "cpu", str(workflow.folder / "build"), cell)
    assert workflow.train(*words, "--time-budget", "0") == 3
    assert not workflow.result(Cell.parse(cell), PROFILES["smoke"]).exists()
    assert workflow.train(*words) == 0
    assert workflow.result(Cell.parse(cell), PROFILES["smoke"]).exists()


def test_a_result_of_other_data_is_trained_again(workflow, monkeypatch):
    """Of ZINC's 18 cells two are recorded; smoke trainings come eight to a job."""
    for name in ("PNA_DATA", "PNA_RESULTS"):
        monkeypatch.setenv(name, workflow.environment[name])
    write_archive("zinc", "unofficial: 3 of 20 rows are the official molecules")
    for cell in ("zinc/released/mlp/no-edges", "zinc/released/mlp-gated/no-edges"):
        assert workflow.train("smoke", "cpu", str(workflow.folder / "build"), cell) == 0
    figure6 = ("--profile", "smoke", "--only", "figure6", "--dry-run")
    assert "2 x train" in workflow.run(*figure6)[1]
    write_archive("zinc", "official")
    code, output = workflow.run(*figure6)
    assert code == 0, output
    assert "3 x train" in output
    code, output = workflow.run(*figure6, "--from-results")
    assert code == 0, output
    assert "x train" not in output
