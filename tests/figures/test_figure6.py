"""Figure 6's table: published, ours, difference, interval, verdict."""

import json
import math
from dataclasses import replace

import pytest
from scipy import stats

from pna.__main__ import main
from pna.experiments import EXPERIMENTS
from pna.figures.figure6 import rows_of
from pna.figures.realworld import CELLS, budget_lines, deviation, figure6_runs, score, score_text, seeds_of
from pna.figures.runs import RECORDED, runs_of
from pna.files import hash_of
from pna.training.store import load, save
from pna.verdicts.rules import rule
from pna.verdicts.statistics import LEVEL, holm, mean_of
from report.realworld_claims import MOST, SCALERS, VISION_LESS, ZINC
from report.tables import tables_of
from tests.figures.conftest import write_real, write_score

PNA = "PNA", "ZINC_edge_MAE"  # published: 0.188 ± 0.004
GIN = "GIN", "CIFAR10_noedge_acc"  # 53.28 ± 3.70


def row(rows, title, name):
    (found,) = (one for one in rows if one.cell == CELLS[title, name])
    return found


def runs_with(scores):
    """Recorded runs with a known mean, deviation and number of seeds, by place."""
    for place, numbers in scores.items():
        write_score(CELLS[place], *numbers)
    return figure6_runs(RECORDED)


def test_every_cell_has_a_row():
    rows = rows_of({})
    assert {r.cell for r in rows} == set(EXPERIMENTS["figure6"].cells("released"))
    assert {r.verdict for r in rows} == {"not run"}
    assert {r.interval for r in rows} == {""}


def test_interval_and_p_are_welchs_from_the_same_t(results):
    """Four seeds each, as published, are enough."""
    rows = rows_of(runs_with({PNA: (0.200, 0.006, 4)}))
    found = row(rows, *PNA)
    test = stats.ttest_ind_from_stats(0.200, 0.006, 4, 0.188, 0.004, 4, equal_var=False)
    assert found.p == pytest.approx(test.pvalue)
    error = math.sqrt((0.006**2 + 0.004**2) / 4)
    freedom = error**4 / ((0.006**2 / 4) ** 2 / 3 + (0.004**2 / 4) ** 2 / 3)
    reach = stats.t.ppf((1 + LEVEL) / 2, freedom) * error
    assert found.difference.interval == pytest.approx((0.012 - reach, 0.012 + reach))
    assert found.interval == f"+{0.012 - reach:.3f} … +{0.012 + reach:.3f}"
    assert found.verdict == "worse"


def test_p_is_corrected_over_the_rows(results):
    ours = runs_with({PNA: (0.200, 0.006, 4), GIN: (60.0, 1.0, 4)})
    alone = [row(rows_of({place: run}), *place).p for place, run in ours.items()]
    together = rows_of(ours)
    assert [row(together, *place).p for place in ours] == pytest.approx(holm(alone))
    assert row(together, *PNA).verdict == "worse"
    many = runs_with({(title, "MNIST_noedge_acc"): (96.0, 3.0, 4) for title in ("PNA", "GAT", "MLP")})
    assert len(many) == 5
    assert row(rows_of(many), *PNA).verdict == "no difference found"
    assert row(rows_of(many), *PNA).interval == row(together, *PNA).interval


@pytest.mark.parametrize(
    ("place", "numbers", "word"),
    [
        (PNA, (0.150, 0.004, 4), "better"),
        (GIN, (70.0, 1.0, 4), "better"),
        (GIN, (30.0, 1.0, 4), "worse"),
        (PNA, (0.200, 0.0, 1), "too few seeds"),
        (("PNA (no scalers)", "MolHIV_ROCAUC"), (78.0, 1.0, 10), "not published"),
    ],
)
def test_words(results, place, numbers, word):
    assert row(rows_of(runs_with({place: numbers})), *place).verdict == word


@pytest.mark.parametrize("numbers", [(0.2, 0.006, 4), (0.31, 0.02, 2), (0.25, 0.0, 1)])
def test_a_score_is_the_mean_and_deviation_over_seeds(results, numbers):
    one = score(runs_with({PNA: numbers})[PNA])
    assert (one.value, deviation(one)) == pytest.approx(numbers[:2])
    assert score_text(one) == f"{numbers[0]:.3f} ± {numbers[1]:.3f}"
    assert one.known == (numbers[2] > 1)


def test_a_column_shows_the_budget_that_has_most_of_its_cells(results):
    """As any other figure; of two that have as many, the fuller."""
    write_real("zinc/released/pna/edges", "paper", (0.20, 0.21))
    write_real("zinc/released/pna/edges", "paper-200-epochs", (0.3, 0.31), epochs=200)
    assert figure6_runs(RECORDED)[PNA].profile.name == "paper"
    write_real("zinc/released/gatedgcn/edges", "paper-200-epochs", (0.3, 0.31), epochs=200)
    assert {run.profile.name for run in figure6_runs(RECORDED).values()} == {"paper-200-epochs"}
    assert {run.file for run in figure6_runs("paper").values()} == {"paper/zinc/released/pna-edges.json"}


def test_outdated_runs_do_not_hide_a_budget_whose_runs_are_current(results):
    write_real("zinc/released/gatedgcn/edges", "paper-200-epochs", (0.3, 0.31), epochs=200)
    for model in ("pna", "gatedgcn"):
        path = write_real(f"zinc/released/{model}/edges", "paper", (0.20, 0.21))
        change(path, batches="other")
    assert {run.profile.name for run in figure6_runs(RECORDED).values()} == {"paper-200-epochs"}


def test_options_that_name_a_profiles_own_numbers_show_that_profile(results, capsys):
    write_real("zinc/released/pna/edges", "paper", (0.20, 0.21, 0.20, 0.21))
    texts = []
    for options in ([], ["--seeds", "4"], ["--epochs", "zinc=1000"]):
        assert main(["figure6", *options]) == 0
        texts.append(capsys.readouterr().out)
    assert "0.205±0.006" in texts[0]
    assert len(set(texts)) == 1


def test_page_and_command_have_the_same_numbers(results, capsys):
    write_real("zinc/released/pna/edges", "paper", (0.20, 0.21, 0.20, 0.21))
    write_real("molhiv/released/pna/no-edges", "paper-50-epochs", (0.7, 0.8), epochs=50, best=0.78)
    found = row(rows_of(figure6_runs(RECORDED)), *PNA)
    assert main(["figure6"]) == 0
    out = capsys.readouterr().out
    (line,) = (line for line in out.splitlines() if "0.188±0.004" in line)
    assert all(text in line for text in ("0.205±0.006", "+0.017", found.interval, f"{found.p:.3f}", "worse"))
    assert out.count("not run") == len(EXPERIMENTS["figure6"].cells("released")) - 2
    assert "over the 2 rows" in out
    page = tables_of("figure6", [runs_of("figure4", "released")], RECORDED)
    assert f"+0.017<br><small>{found.interval}</small>" in page
    assert "over the 2 rows" in page


def measured(folder, monkeypatch, *cells):
    """As benchmarks/realworld.py writes what it measured: 0.5 s for an epoch of one run, ten for the set-up."""
    rows = [{"cell": cell, "seconds_per_epoch_and_run": 0.5, "set_up_seconds": 10.0} for cell in cells]
    lines = [
        {"benchmark": "other", "rows": 1},
        {"benchmark": "realworld_cells", "rows": rows, "machine": {"device": "toy"}},
    ]
    path = folder / "benchmarks" / "results.jsonl"
    path.parent.mkdir()
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    monkeypatch.setattr("pna.figures.figure6.repository", lambda: folder)


def test_what_is_not_run_says_what_it_would_take(results, tmp_path, monkeypatch, capsys):
    """On CIFAR10 for as many epochs as on ZINC without edge features; on MolHIV for the published number."""
    names = ("cifar10/released/gin/no-edges", "molhiv/released/pna/no-edges", "zinc/released/gin/no-edges")
    measured(tmp_path, monkeypatch, *names)
    write_real("zinc/released/gin/no-edges", "paper", (0.4, 0.41, 0.42, 0.4))
    write_real("molhiv/released/pna/no-edges", "paper-50-epochs", (0.7, 0.8), epochs=50, best=0.78)
    rows = rows_of(figure6_runs(RECORDED))
    cifar, molhiv = row(rows, *GIN).cost, row(rows, "PNA", "MolHIV_ROCAUC").cost
    assert (cifar.seeds, cifar.epochs, cifar.hours) == (4, 1_000, pytest.approx((10 + 4 * 1_000 * 0.5) / 3600))
    assert (molhiv.seeds, molhiv.epochs, molhiv.hours) == (10, 200, pytest.approx((10 + 10 * 200 * 0.5) / 3600))
    assert [r.title for r in rows if r.cost] == ["GIN", "PNA"]  # ZINC is done
    assert main(["figure6"]) == 0
    out = capsys.readouterr().out
    (line,) = (line for line in out.splitlines() if "53.28±3.70" in line)
    assert line.split()[-4:] == ["not", "run", "0.500", "0.56"]
    assert "on one toy" in out
    assert "These 2 cells together: 0.8 hours" in out
    assert "These 2 cells together: 0.8 hours" in tables_of("figure6", [], RECORDED)


def test_where_all_is_run_nothing_is_said_of_what_is_left(results, capsys):
    *cells, last = EXPERIMENTS["figure6"].cells("released")
    for cell in cells:
        write_real(str(cell), "paper", (0.20, 0.21, 0.20, 0.21))
    assert main(["figure6"]) == 0
    assert "hours to the end" in capsys.readouterr().out
    assert "hours to the end" in tables_of("figure6", [], RECORDED)
    write_real(str(last), "paper", (0.20, 0.21, 0.20, 0.21))
    assert main(["figure6"]) == 0
    out, page = capsys.readouterr().out, tables_of("figure6", [], RECORDED)
    assert "paper&#39;s budget" in page
    for said in (out, page):
        assert "57 rows" in said
        assert not any(words in said for words in ("hours", "s/epoch", "not run", "not measured"))


def test_the_epochs_are_those_of_zinc(results, tmp_path, monkeypatch):
    measured(tmp_path, monkeypatch, "cifar10/released/gin/no-edges")
    write_real("zinc/released/gin/no-edges", "paper", (0.4,) * 4, epochs=80)
    assert row(rows_of(figure6_runs(RECORDED)), *GIN).cost.epochs == 80
    assert row(rows_of({}), *GIN).cost.epochs == 1_000  # nothing recorded: the most that there can be


def test_what_nobody_measured_is_said(results, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pna.figures.figure6.repository", lambda: tmp_path)
    assert main(["figure6"]) == 0
    assert "is not measured: python -m benchmarks.realworld --cells" in capsys.readouterr().out


def test_data_sets_with_the_same_settings_share_a_line(results):
    """MolHIV's GIN has another setting than its PNA, and a line of its own: there both are named."""
    write_real("zinc/released/pna/edges", "paper", (0.2, 0.21))
    write_real("cifar10/released/pna/no-edges", "paper", (0.7, 0.71))
    write_real("cifar10/released/gin/no-edges", "paper", (0.5, 0.51))
    write_real("molhiv/released/pna/no-edges", "paper", (0.7, 0.8), epochs=200, best=0.78)
    write_real("molhiv/released/gin/edges", "paper", (0.7, 0.8), epochs=100, best=0.75)
    assert budget_lines(figure6_runs(RECORDED)) == [
        "ZINC, CIFAR10: 2 seeds, at most 1,000 epochs",
        "PNA on MolHIV: 2 seeds, at most 200 epochs",
        "GIN on MolHIV: 2 seeds, at most 100 epochs",
    ]


def test_the_numbers_of_seeds_of_a_data_set_are_a_range(results):
    """Those of another data set are not part of it."""
    write_real("zinc/released/pna/edges", "paper", (0.2, 0.21, 0.22))
    write_real("zinc/released/pna/no-edges", "paper", (0.3, 0.31))
    write_real("cifar10/released/pna/no-edges", "paper", (0.7, 0.71))
    assert budget_lines(figure6_runs(RECORDED)) == [
        "ZINC: 2 to 3 seeds, at most 1,000 epochs",
        "CIFAR10: 2 seeds, at most 1,000 epochs",
    ]


def test_with_several_numbers_of_epochs_edge_features_are_named(results):
    write_real("zinc/released/pna/edges", "paper-300-epochs", (0.2, 0.21), epochs=300)
    write_real("zinc/released/pna/no-edges", "paper", (0.3, 0.31))
    write_real("zinc/released/gin/no-edges", "paper", (0.5, 0.51))
    assert sorted(budget_lines(figure6_runs(RECORDED))) == [
        "PNA on ZINC, edge features: 2 seeds, at most 300 of 1,000 epochs",
        "PNA, GIN on ZINC: 2 seeds, at most 1,000 epochs",
    ]


# ---- what may be compared with what ----


def change(path, **configuration):
    """Another configuration in a result, as if the model had been another then."""
    result = load(path)
    save(path, replace(result, configuration=(new := result.configuration | configuration), hash=hash_of(new)))


def test_a_result_of_another_configuration_is_not_at_the_full_budget(results):
    path = write_real("zinc/released/pna/edges", "paper", (0.20, 0.21, 0.20, 0.21))
    assert figure6_runs(RECORDED)[PNA].full
    change(path, model=load(path).configuration["model"] | {"hidden": 10})
    found = figure6_runs(RECORDED)
    assert not found[PNA].full
    assert found[PNA].outdated
    assert any("PNA on ZINC, edge features: outdated" in line for line in budget_lines(found))


def test_ours_are_compared_on_the_same_data_only(results):
    """Else with the published number; the claim on scalers, which takes none, is undecided then."""
    for model, train in (("pna", "official"), ("pna-no-scalers", "unofficial"), ("gatedgcn", "official")):
        write_real(f"zinc/released/{model}/edges", "paper", (0.20, 0.21, 0.20, 0.21), train=train)
    found = figure6_runs(RECORDED)
    texts = {one.name: one.text for one in ZINC.test(found)}
    assert "(published)" in texts["ZINC, edge features, PNA (no scalers)"]
    assert "(ours)" in texts["ZINC, edge features, GatedGCN"]
    (scalers,) = SCALERS.test(found)
    assert scalers.comparison.text.endswith("not trained on the same data")
    assert rule([scalers.comparison]).kind == "undecided"


def test_a_lead_is_over_the_published_number_of_a_rival_that_was_trained_on_other_data(results):
    column, values = "MNIST_edge_acc", {}
    for train in ("recomputed", "official"):
        for title, best in VISION_LESS.places:
            data = train if (title, best) == ("MPNN (max)", column) else "recomputed"
            write_real(str(CELLS[title, best]), "paper", (0.2, 0.21) if "ZINC" in best else (0.9, 0.91), train=data)
        parts = VISION_LESS.test(figure6_runs(RECORDED))
        values[train] = next(part.contrast.estimate.value for part in parts if part.keys["images"] == column)
    published_lead = math.log10((100 - 90.5) / (100 - 97.82))
    assert values["recomputed"] == pytest.approx(0.0)  # all of ours are equal
    assert values["official"] == pytest.approx(-published_lead)


@pytest.mark.parametrize("rival", ["MPNN (max)", "MPNN (sum)", "GatedGCN"])
def test_a_rival_that_cannot_be_tested_is_not_beaten(rival):
    """Wherever it stands among the others."""
    place = "CIFAR10_edge_acc"
    ours = {(title, column): mean_of(65.0, 0.3, 4) for title, column in CELLS if column == place}
    ours |= {("PNA (no scalers)", place): mean_of(75.0, 0.3, 4), (rival, place): mean_of(90.0, 0.0, 1)}
    (row,) = MOST.test(ours)
    assert row.name.endswith(rival)
    assert math.isnan(row.comparison.p)


def test_runs_that_diverged_are_counted_in_the_budget(results):
    path = write_real("cifar10/released/gcn/no-edges", "paper", (0.5, 0.51, 0.52, 0.53))
    result = load(path)
    first, *others = result.replicas
    dead = replace(first, ended_by="divergence", test={"test/best": [0.4], "test/last": [None]})
    save(path, replace(result, replicas=(dead, *others)))
    found = figure6_runs(RECORDED)
    assert seeds_of(found["GCN", "CIFAR10_noedge_acc"]) == 3
    assert any("1 of 4 runs diverged" in line for line in budget_lines(found))
