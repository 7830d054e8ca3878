import json

import pytest

from pna.places import repository
from tests.report import recompute


def test_every_verdict_on_trainings_comes_out_again_by_other_code():
    """By a script that shares no line with the report: words, values, intervals and p-values, also of facts."""
    lines, verdicts, comparisons = recompute.differences()
    assert lines == []
    assert verdicts > 80
    assert comparisons > 1100


def test_a_changed_verdict_or_number_is_noticed(tmp_path):
    rows = json.loads((repository() / "figures" / "claims.json").read_text())
    claims = {(row["id"], row["spec"]): row for row in rows}
    claims["best", "described"]["outcome"] = "contradicted"
    claims["best", "described"]["comparisons"][0]["value"] += 0.01
    claims["worsens", "released"]["aggregate"]["p"] += 0.01
    claims["zinc-scalers", ""]["comparisons"][2]["interval"][1] += 0.1
    claims["most-tasks", ""]["aggregate"]["parts"][6]["text"] = "PNA 79.97"
    claims["no-boost", "described"]["comparisons"][1]["outcome"] = "against"
    claims["explodes", "released"]["comparisons"][0]["text"] = "(1 of 10 runs above 10 times the baseline's error)"
    claims["efficient", ""]["comparisons"][0]["text"] = "8,350 against 8,351"
    claims["baseline", ""]["comparisons"][3]["value"] += 0.05
    claims["published-6", ""]["evidence"] = claims["published-6", ""]["evidence"].replace("(Fisher) p = 0", "p = 1")
    path = tmp_path / "claims.json"
    path.write_text(json.dumps(rows))
    lines, *_ = recompute.differences(path)
    assert {line.partition(":")[0] for line in lines} == {
        "('best', 'described')",
        "('best', 'described'), PNA (no scalers)",
        "('worsens', 'released'), test",
        "('zinc-scalers', ''), MolHIV, PNA (no scalers)",
        "('most-tasks', ''), test, MolHIV, GCN",
        "('no-boost', 'described'), MPNN (max)",
        "('explodes', 'released'), PNA, 45-49 nodes",
        "('efficient', ''), PNA",
        "('baseline', ''), Connected",
        "('baseline', ''), test, Connected",
        "baseline, Connected",
        "published-6",
    }


def test_a_claim_that_nothing_recomputes_is_noticed(monkeypatch):
    monkeypatch.setattr(recompute, "recomputed", lambda stated: {})
    lines, *_ = recompute.differences()
    unchecked = {line.partition(":")[0] for line in lines if line.endswith(": not recomputed")}
    assert {"('width', '')", "('degree-8', '')", "('best', 'released')", "('published-6', '')"} <= unchecked
    assert "('theorem1', '')" not in unchecked


def test_the_script_imports_neither_the_report_nor_the_engine():
    text = (repository() / "tests" / "report" / "recompute.py").read_text()
    imports = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert not any("pna" in line or "report" in line for line in imports)


@pytest.mark.parametrize("seeds", [11, 12, 20])
def test_more_seeds_than_ten_by_both_ways(seeds):
    """The statistic of cells with more than ten seeds: the engine's and the script's."""
    import numpy as np

    from pna.verdicts.statistics import best_mean

    validation, scores = np.random.default_rng(seeds).normal(size=(2, seeds))
    validation[3] = np.inf  # a run that diverged
    estimate = best_mean(validation, scores, 5, 5.0, 10)
    assert recompute.five_best(validation, scores) == pytest.approx((estimate.value, estimate.error, estimate.freedom))
