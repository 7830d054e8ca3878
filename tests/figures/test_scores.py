from dataclasses import replace

import numpy as np
import pytest

from pna.figures.runs import runs_of
from pna.figures.scores import (
    EXPLODED,
    WIDER,
    best,
    log_mean,
    log_tasks,
    mean_score,
    overall,
    ratio,
    score,
    widened,
    wider_split,
)
from tests.figures.conftest import write_result

SPLIT = "multitask/test"


def run_of(model, **options):
    write_result(f"multitask/released/{model}/16", **options)
    return runs_of("figure4", "released", "paper").of("multitask")[model]


def test_the_engine_chooses_the_same_seeds(results):
    """pna.verdicts imports nothing of pna, and so ranks seeds itself."""
    run = run_of("pna", noise=0.1, diverged=(2, 5))
    assert score(run).value == pytest.approx(log_tasks(best(run, SPLIT)).mean())


def test_the_five_best_seeds_are_those_of_least_validation_error(results):
    run = run_of("pna", level=-2.0)  # the later the seed, the worse
    assert np.log10(best(run, SPLIT))[:, 0] == pytest.approx([-2.0, -1.99, -1.98, -1.97, -1.96])
    assert log_tasks(best(run, SPLIT)) == pytest.approx([-1.98] * 6)
    assert log_mean(best(run, SPLIT)) == pytest.approx([-2.0, -1.99, -1.98, -1.97, -1.96])
    assert score(run).value == overall(run).value == pytest.approx(-1.98)


def test_a_seed_that_diverged_is_never_among_them(results):
    run = run_of("pna", level=-2.0, diverged=(0, 1))
    assert np.log10(best(run, SPLIT))[:, 0] == pytest.approx([-1.98, -1.97, -1.96, -1.95, -1.94])
    assert score(run).value == pytest.approx(-1.96)


def test_fewer_than_five_are_averaged_as_they_are_without_an_interval(results):
    run = run_of("pna", level=-2.0, diverged=range(2, 10))
    assert log_tasks(best(run, SPLIT)) == pytest.approx([-1.995] * 6)
    assert score(run).value == pytest.approx(-1.995)
    assert not score(run).known


def test_a_clear_difference_is_significant_and_one_of_equals_is_not(results):
    one, other = run_of("pna", level=-3.0, noise=0.02), run_of("gin", level=-2.0, noise=0.02)
    assert (score(one) - score(other)).below() < 1e-6
    assert (score(one, task=3) - score(other, task=3)).value == pytest.approx(-1, abs=0.1)
    assert (score(one) - score(one)).below() == pytest.approx(0.5)


def test_an_error_beyond_ten_times_the_baselines_counts_as_ten_times(results):
    levels = {SPLIT: [20.0] * 6}
    run = run_of("gin", level=-2.0, levels=levels, baseline=-1.0)
    assert score(run).value == pytest.approx(np.log10(EXPLODED) - 1.0)
    assert log_tasks(best(run, SPLIT))[0] == pytest.approx(20.02)  # as it is drawn


def test_networks_of_single_tasks_are_chosen_task_by_task(results):
    write_result("single-task/released/pna/16", level=-2.0, noise=0.1)
    run = runs_of("single-task", "released", "paper").of("single-task")["pna"]
    found = score(run)
    tasks = [score(run, task=task) for task in range(6)]
    assert found.value == pytest.approx(np.mean([one.value for one in tasks]))
    assert found.error == pytest.approx(np.sqrt(sum(one.error**2 for one in tasks)) / 6)
    with pytest.raises(ValueError, match="need the scores of all 6 tasks, got 5"):
        mean_score(run, np.zeros((10, 5)))


def test_ratios_are_to_the_baseline_on_the_same_graphs(results):
    write_result("multitask/released/gat/16", level=-2.0, baseline=-1.0)
    run = next(iter(runs_of("figure5", "released", "paper").recorded.values()))
    assert ratio(run, "extrapolation/test_20_25").value == pytest.approx(-0.98)
    assert ratio(run, "extrapolation/test_20_25", "extrapolation/test_45_50").value == pytest.approx(0)


def test_published_numbers_are_compared_on_the_sizes_that_they_fit(results):
    write_result("multitask/described/pna/16")
    assert wider_split(runs_of("figure4", "described", "paper").of("multitask")["pna"]) == SPLIT
    run = run_of("gin", level=-2.0, levels={"multitask-15-24/test": [-1.5] * 6})
    assert wider_split(run) == "multitask-15-24/test"
    assert score(run, wider_split(run)).value == pytest.approx(-1.48)


def test_runs_are_widened_together_or_not_at_all(results):
    run = run_of("pna", level=-3.0, levels={WIDER: [-2.0] * 6})
    runs = runs_of("figure4", "released", "paper")
    facts = run.result.facts | {"baseline": {SPLIT: run.result.facts["baseline"][SPLIT]}}
    narrow = replace(run, cell=replace(run.cell, model="gin"), result=replace(run.result, facts=facts))
    mixed = replace(runs, recorded=runs.recorded | {narrow.cell: narrow})
    assert score(widened(runs).recorded[run.cell]).value == pytest.approx(-1.98)
    assert score(widened(mixed).recorded[run.cell]).value == pytest.approx(-2.98)
