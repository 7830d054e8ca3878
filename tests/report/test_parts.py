import re

import numpy as np
import pytest

from pna.experiments import EXPERIMENTS
from pna.figures import published, realworld
from pna.figures.plots.differences import differences
from pna.figures.runs import runs_of
from pna.figures.scores import overall as overall_score
from pna.figures.scores import ratio as ratio_score
from pna.figures.scores import score
from pna.verdicts.planning import power
from pna.verdicts.statistics import Estimate
from report import comparisons, coverage, sections, summary
from report.parts import Aggregate, Part, average, known, overall, ratio
from report.realworld_claims import agreement
from tests.figures.conftest import write_result, write_score
from tests.report.test_claims import claim_named, findings_of, write_seven


def parts(values, **more):
    """PNA minus two models on two sizes, as a claim has them."""
    names = [(model, size) for model in ("GIN", "GAT") for size in ("20", "40")]
    return [
        Part(
            f"{size}, {model}",
            known(f"{model} {size}", Estimate(value, 0.1, 9.0)),
            {"model": model, "size": size},
            **more,
        )
        for (model, size), value in zip(names, values, strict=True)
    ]


def test_an_aggregate_averages_over_the_keys_that_it_does_not_name():
    rows = parts([-1.0, -3.0, 2.0, 4.0])
    by_model = Aggregate("", ("model",)).parts(rows)
    assert [(part.name, part.contrast.estimate.value) for part in by_model] == [("GIN", -2.0), ("GAT", 3.0)]
    (mean,) = Aggregate("").parts(rows)
    assert mean.contrast.estimate.value == pytest.approx(0.5)
    assert Aggregate("", ("model", "size")).parts(rows) == rows  # each by itself


def test_a_mean_keeps_bound_and_margin_unless_it_has_its_own():
    (mean,) = Aggregate("").parts(parts([0.0] * 4, margin=0.3))
    (strict,) = Aggregate("", margin=0.1).parts(parts([0.0] * 4, margin=0.3))
    (alone,) = Aggregate("", margin=0.1).parts(parts([0.0] * 4, margin=0.3)[:1])
    assert (mean.margin, strict.margin, alone.margin) == (0.3, 0.1, 0.1)
    assert mean.comparison.side == "holds"
    (bounded,) = Aggregate("").parts(parts([0.05] * 4, bound=0.1))
    assert bounded.comparison.bound == 0.1


def test_measures_are_those_of_the_figures(results):
    write_result("multitask/released/gat/16", level=-2.0, noise=0.1)
    run = runs_of("figure5", "released", "paper").of("extrapolation")["gat"]
    split = "extrapolation/test_45_50"
    for contrast, expected in (
        (average(run), score(run)),
        (average(run, task=2), score(run, task=2)),
        (overall(run), overall_score(run)),
        (ratio(run, split), ratio_score(run, split)),
    ):
        assert contrast.estimate == expected


def test_networks_of_single_tasks_are_a_sample_for_each_task(results):
    write_result("single-task/described/pna/16", noise=0.1)
    run = runs_of("single-task", "described", "paper").of("single-task")["pna"]
    contrast = average(run)
    assert sorted(sample.name for sample in contrast.terms)[0] == "single-task/described/pna/16#connected"
    assert contrast.estimate.value == pytest.approx(score(run).value)
    assert contrast.estimate.error == pytest.approx(score(run).error)


# ---- single claims ----


def test_a_turned_pair_counts_only_if_its_order_was_significant_before(results):
    for cell in EXPERIMENTS["standard"].cells("described"):
        place = [c.model for c in EXPERIMENTS["standard"].cells("described")].index(cell.model)
        turned = cell.training == "standard" and cell.model == "pna"
        write_result(cell, level=-2.0 if turned else -4.0 + 0.3 * place, noise=0.001)
    rows = {part.name: part.comparison for part in comparisons.same_rank(runs_of("standard", "described", "paper"))}
    assert rows["PNA before PNA (no scalers)"].side == "against"
    assert rows["PNA before PNA (no scalers)"].p < 1e-3
    write_result("multitask/described/pna-no-scalers/16", level=-4.001, noise=0.3)  # now their order is open
    rows = {part.name: part.comparison for part in comparisons.same_rank(runs_of("standard", "described", "paper"))}
    open_ = [row for name, row in rows.items() if {"PNA", "PNA (no scalers)"} == set(name.split(" before "))]
    assert open_[0].side == "holds" or open_[0].p > 0.05


def test_consistency_compares_the_spread_between_seeds(results):
    for n in range(1, 6):
        write_result(f"multitask/described/moments-{n}/16", noise=1.0)
    write_result("multitask/described/pna/16", noise=0.01)
    claim = claim_named("pna-consistent")
    assert claim.ruling(claim.test(runs_of("moments", "described", "paper"))).kind == "reproduced"


def test_a_finding_has_no_verdict_on_the_paper(results):
    for cell in EXPERIMENTS["figure5"].cells("described"):
        write_result(cell, level=-3.0 if cell.model == "pna" else -2.0, noise=0.01)
    described, _ = findings_of(claim_named("beyond"), "paper")
    assert (described.kind, described.verdict, described.outcome) == ("finding", "finding", "reproduced")
    assert described.evidence.startswith("This holds. All 5 comparisons hold.")


# ---- figure 6 ----


def test_figure_6_says_how_many_numbers_are_equal_and_how_many_differ_by_chance(results):
    places = [place for place in realworld.CELLS if realworld.published_score(*place)]
    for title, column in places:
        one = realworld.published_score(title, column)
        write_score(realworld.CELLS[title, column], one.value, realworld.deviation(one), 4)
    together = agreement(realworld.figure6_runs("paper"))
    assert (len(together.names), together.differ) == (57, ())
    assert together.expected == pytest.approx(2.85)
    assert together.joint == pytest.approx((1.0, 1.0, 1.0))
    usual = together.power
    assert (usual.ours, usual.published, round(usual.two, 2), round(usual.four, 2)) == (4, 4, 0.03, 0.31)
    words = "4 seeds against 4 can detect a true difference of two standard deviations with a power of 3%"
    assert words in str(together)
    picture, _ = differences("paper")
    assert all(f" {100 * p:.0f} % for " in picture.get_supxlabel() for p in (usual.two, usual.four))
    assert 20 < together.equivalent < 57
    title, column = places[0]
    write_score(realworld.CELLS[title, column], 10 * realworld.published_score(title, column).value, 0.001, 4)
    moved = agreement(realworld.figure6_runs("paper"))
    assert moved.differ == (f"{realworld.column_title(column)}, {title}",)
    assert moved.joint[0] < together.joint[0]
    assert f"{moved.equivalent} of 57 published numbers" in str(moved)
    (finding,) = findings_of(claim_named("published-6"), "paper")
    assert [row.comparison.name for row in finding.tests] == [
        realworld.column_title(name) for name in realworld.COLUMNS
    ]
    assert agreement({}) is None


def test_the_power_of_figure_6_is_that_of_the_seeds_which_most_numbers_have(results):
    for title, column in [place for place in realworld.CELLS if realworld.published_score(*place)]:
        one = realworld.published_score(title, column)
        seeds = 12 if realworld.COLUMNS[column][0] in ("cifar10", "mnist") else 4
        write_score(realworld.CELLS[title, column], one.value, realworld.deviation(one), seeds)
    together = agreement(realworld.figure6_runs("paper"))
    assert (together.power.ours, together.power.published) == (12, 4)
    assert together.power.two == pytest.approx(power(2.0, 1.0, (12, 4), 57))
    assert together.power.four == pytest.approx(power(4.0, 1.0, (12, 4), 57))


def test_the_papers_asterisks_are_shown():
    stars = [place for place in realworld.CELLS if published.patient(*place)]
    assert {title for title, _ in stars} == {"PNA", "PNA (no scalers)", "MPNN (sum)", "MPNN (max)"}
    assert {column for _, column in stars} == {"ZINC_edge_MAE"}
    assert realworld.published_text("PNA", "ZINC_edge_MAE") == "0.188 ± 0.004*"
    assert realworld.published_text("PNA", "ZINC_noedge_MAE") == "0.320 ± 0.032"


# ---- words ----


def test_the_first_screen_compares_the_published_averages_with_an_interval(results):
    write_seven(wide_gap=1.0)
    (sentence,) = summary._published([runs_of("figure4", "released", "paper")])
    assert sentence.startswith("As released, ")
    assert re.search(r"On average over the models, our log₁₀ MSE minus the published one is [−+]\d\.\d+ \(", sentence)
    assert "because of one task: on connected" in sentence


def test_the_first_screen_counts_models_once_where_both_specifications_agree():
    assert summary._models({"described": "all 6"}) == "all 6 other models, as described"
    both = {"described": "all 6", "released": "all 6"}
    assert summary._models(both) == "all 6 other models, as described and as released"
    both["released"] = "5 of 6"
    assert summary._models(both) == "all 6 other models as described and 5 of 6 other models as released"


def test_the_first_screen_says_which_numbers_are_estimated_from_more_seeds():
    sides = [runs_of("figure4", spec, "recorded") for spec in ("described", "released")]
    assert summary._more_seeds(sides) == " (estimated from 40)"
    assert summary._more_seeds(sides[:1]) == " (as described: estimated from 40)"
    assert summary._more_seeds([runs_of("figure4", "described", "paper")]) == ""


def test_a_profile_is_called_a_budget_and_a_data_set_is_not():
    parts = ("paper-300-epochs: 10 seeds, at most 300 epochs", "ZINC: 4 seeds, at most 1,000 epochs")
    assert sections._in_words(parts) == (
        "budget paper-300-epochs, 10 seeds, at most 300 epochs; ZINC: 4 seeds, at most 1,000 epochs"
    )


def test_more_seeds_cover_as_often_and_equal_networks_differ_no_more_often_than_stated():
    pairs = np.random.default_rng(0).normal(size=(10, 2))
    population = coverage.populations(pairs)["normal"]
    assert 0.92 < coverage.more_seeds(population, 20, trials=800) < 0.985
    assert coverage.false_alarms(population, 1, trials=4_000) < 1.3
    drawn = coverage.humps(np.repeat([[0.0, 0.0], [5.0, 5.0]], 5, axis=0) + 0.01 * pairs)(
        (2_000,), np.random.default_rng(1)
    )
    assert (np.abs(drawn[:, 1] - 2.5) > 0.5).all()  # nothing between the humps
