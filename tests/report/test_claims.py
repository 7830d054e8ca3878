import json

import pytest

from pna.__main__ import main
from pna.report import comparisons, structure
from pna.report.claims import CLAIMS, NOT_RUN, VERDICTS, judge
from pna.report.runs import runs_of
from pna.report.scores import Interval
from tests.report.conftest import write_real, write_result


def test_every_claim_has_one_test_and_a_name_of_its_own():
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS) >= 15
    for claim in CLAIMS:
        assert sum(map(bool, (claim.test, claim.check, claim.fact, claim.realworld, claim.untested))) == 1, claim.id
        assert (claim.experiment is not None) == (claim.test is not None)
        assert claim.where


@pytest.mark.parametrize(
    ("intervals", "outcome"),
    [
        ([(-1, -2, -0.5), (-1, -1.5, -0.1)], "holds"),
        ([(-1, -2, -0.5), (0, -1, 1)], "partly"),
        ([(-1, -2, -0.5), (1, 0.5, 2)], "partly"),
        ([(0, -1, 1)], "undecided"),
        ([(0, -1, 1), (1, 0.5, 2)], "fails"),
        ([], "no runs"),
    ],
)
def test_outcomes(intervals, outcome):
    rows = [(f"model {k}", Interval(*values)) for k, values in enumerate(intervals)]
    assert comparisons.less(rows).outcome == outcome


@pytest.fixture
def verdicts(full, monkeypatch):
    monkeypatch.setenv("PNA_RESULTS", str(full))

    def of(*ids):
        return {(finding.claim.id, finding.spec): finding for finding in judge_only(ids)}

    return of


def judge_only(ids):
    from pna.report.claims import _judge

    return [finding for claim in CLAIMS if claim.id in ids for finding in _judge(claim, "paper")]


@pytest.mark.parametrize(
    "claim",
    [
        *(
            "best",
            "all-tasks",
            "aggregators",
            "scalers",
            "more-moments",
            "too-many-moments",
            "pna-moments",
            "all-types",
        ),
        *("lines-hardest", "both-architectures", "same-rank", "recurrent-better", "single-trend", "not-parameters"),
        *("no-boost", "extrapolates", "max-extrapolates"),
    ],
)
def test_claims_that_the_results_bear_out_are_reproduced(verdicts, claim):
    found = verdicts(claim)
    assert {finding.verdict for finding in found.values()} == {"reproduced"}, found


def test_claims_that_the_results_contradict_are_not(results):
    for model, level in (("pna", -1.0), ("gin", -3.0)):
        write_result(f"multitask/released/{model}/16", level=level, noise=0.01)
    runs = runs_of("figure4", "released", "paper")
    assert comparisons.pna_best(runs).outcome == "fails"
    assert "against it: GIN" in comparisons.pna_best(runs).text
    assert comparisons.pna_best_on_tasks(runs).outcome == "fails"


def test_a_model_worse_than_the_baseline_has_exploded(results):
    write_result("extrapolation/released/gat/16", level=1.0)
    assert comparisons.explodes(runs_of("figure5", "released", "paper")).outcome == "holds"
    write_result("extrapolation/released/gat/16", level=-2.0)
    assert comparisons.explodes(runs_of("figure5", "released", "paper")).outcome == "fails"


def test_less_than_the_full_budget_gives_a_direction_and_no_verdict(results):
    for model, level in (("pna", -3.0), ("gin", -2.0)):
        write_result(f"multitask/released/{model}/16", "paper-300-epochs", level=level)
    finding = next(f for f in judge_only(["best"]) if f.spec == "released")
    assert finding.verdict == NOT_RUN
    finding = next(f for f in judge_recorded("best") if f.spec == "released")
    assert (finding.verdict, finding.outcome) == (NOT_RUN, "holds")
    assert "300 epochs" in finding.budget


def judge_recorded(claim):
    from pna.report.claims import _judge

    (found,) = (c for c in CLAIMS if c.id == claim)
    return _judge(found, "recorded")


def test_a_missing_cell_of_the_full_budget_is_no_verdict_either(results):
    for model, level in (("pna", -3.0), ("gin", -2.0)):
        write_result(f"multitask/released/{model}/16", "paper", level=level)
    finding = next(f for f in judge_only(["best"]) if f.spec == "released")
    assert (finding.verdict, finding.outcome) == (NOT_RUN, "holds")


def test_claims_on_real_data_say_their_budget_and_their_data(results):
    train = "redrawn: 3 of 20 rows are the official molecules"
    for model, level in (("pna", 0.2), ("pna-no-scalers", 0.3)):
        write_real(f"zinc/released/{model}/edges", "paper-200-epochs", (level, level + 0.01), epochs=200, train=train)
    (finding,) = judge_recorded("zinc-scalers")
    assert (finding.verdict, finding.outcome) == (NOT_RUN, "partly")  # one column of two
    budget = "ZINC, edge features: 2 seeds, at most 200 of 1,000 epochs"
    assert finding.budget == f"{budget}; ZINC-12k: the training set is {train}"
    assert "ZINC, edge features: 0.205 ± 0.007 against PNA (no scalers) 0.305 ± 0.007 (ours): holds" in finding.evidence


def test_a_column_that_was_not_run_keeps_a_claim_open(results):
    for model, level in (("pna", 0.2), ("pna-no-scalers", 0.3)):
        write_real(f"zinc/released/{model}/edges", "paper", (level, level + 0.01))
    (finding,) = judge_recorded("zinc-scalers")
    assert finding.verdict == NOT_RUN
    for model, level in (("pna", 0.2), ("pna-no-scalers", 0.3)):
        write_real(f"zinc/released/{model}/no-edges", "paper", (level, level + 0.01))
    (finding,) = judge_recorded("zinc-scalers")
    assert finding.verdict == "reproduced"


def test_against_published_is_relative_to_the_baseline(results):
    write_result("multitask/released/pna/16", level=-2.75, baseline=-1.0)  # -1.75 of the baseline, as published
    run = runs_of("figure4", "released", "paper").of("multitask")["pna"]
    assert comparisons.against_published(run, None).value == pytest.approx(0.02, abs=1e-3)  # the five best: +0.02


def test_extrapolation_against_published(results):
    write_result("extrapolation/released/gat/16", level=-1.71, baseline=-1.0)  # the five best: -0.69; published: -0.81
    run = runs_of("figure5", "released", "paper").of("extrapolation")["gat"]
    found = [comparisons.extrapolation_against_published(run, place) for place in range(6)]
    assert found[0].value == pytest.approx(0.12, abs=1e-3)
    assert found[0].low < found[0].value < found[0].high
    assert found[5] is None  # the published line leaves the plot


def test_facts_without_training():
    assert structure.width().outcome == "holds"
    assert structure.counts().outcome == "holds"
    assert structure.more_parameters().outcome == "partly"
    assert "GCN +25%" in structure.more_parameters().text


def test_the_published_baseline_is_a_draw_of_our_data():
    assert structure.baseline().outcome == "holds"


def test_the_command_prints_every_claim(results, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("pna.report.command.judge", lambda profile: judge_only(["best", "width", "gru-s2s", "zinc"]))
    assert main(["claims", "--json", str(tmp_path / "claims.json")]) == 0
    printed = capsys.readouterr().out
    assert "PNA consistently outperforms" in printed
    assert "REPRODUCED. 4 aggregators x 3 scalers + 1 = 13" in printed
    assert printed.rstrip().endswith("1 reproduced, 3 not yet run at full budget, 1 not tested")
    facts = json.loads((tmp_path / "claims.json").read_text())
    assert {row["verdict"] for row in facts} <= set(VERDICTS)


def test_an_unknown_profile_is_named(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["claims", "--profile", "fast"])
    assert stopped.value.code == 2
    assert "profile must be one of smoke, quick, paper" in capsys.readouterr().err


def test_all_claims_are_judged_without_any_result(results):
    findings = judge("paper")
    assert {finding.verdict for finding in findings} <= set(VERDICTS)
    assert all(f.verdict == NOT_RUN for f in findings if f.claim.experiment or f.claim.realworld)
    assert all(f.verdict == "reproduced" for f in findings if f.claim.check)
