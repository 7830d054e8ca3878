import itertools
import json

import numpy as np
import pytest

from pna.places import repository
from tests.report import recompute, recompute_beyond


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
    claims["published-6", ""]["evidence"] = claims["published-6", ""]["evidence"].replace("gives p = 0", "gives p = 1")
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


def test_every_planned_test_beyond_the_paper_comes_out_again_by_other_code():
    """The report's answers on real graphs, redrawn test sets and scalers: words, values, intervals and p-values."""
    from report.beyond import outcomes

    stated, ours = {(row.test.id, row.spec): row.ruling for row in outcomes()}, recompute_beyond.outcomes()
    assert stated.keys() == ours.keys()
    lines, compared = [], 0
    for key, ruling in stated.items():
        if key[0] == "redrawn-spread":
            lines += spread_differs(key, ruling, *ours[key])
            continue
        facts = {
            "outcome": ruling.kind if key[0] == "real-cost" else ruling.word,  # whose question asks for a size
            "comparisons": list(map(as_stated, ruling.rows)),
            "aggregate": {"p": ruling.p, "p_against": ruling.p_against, "parts": list(map(as_stated, ruling.tests))}
            if ruling.tests
            else None,
        }
        lines += recompute.claim_differs(key, ours[key], facts)
        compared += len(ruling.rows) + len(ruling.tests)
    assert lines == []
    assert compared > 800


def as_stated(row):
    """A decision of the report as claims.json would have it."""
    one = row.comparison
    facts = {"value": one.estimate.value, "interval": one.estimate.interval, "bound": one.bound}
    return facts | {"name": one.name, "outcome": row.outcome, "p": row.p}


def spread_differs(key, ruling, word, numbers):
    """Lines on what the report has otherwise for the spread between redrawn test sets."""
    pooled, upper, *each = (f"{number:.3f}" for number in numbers)
    parts = (f"deviation {pooled}, at most {upper} at 95 %", f"from {min(each)} for", f"to {max(each)} for")
    if ruling.kind != word:
        yield f"{key}: {ruling.kind} is stated, {word} recomputed"
    yield from (f"{key}: not stated: {part}" for part in parts if part not in ruling.text)


def test_the_variance_between_subsets_is_that_of_all_subsets():
    """Of one experiment among twelve seeds, two of which diverged, by counting all 66 subsets of ten."""
    rng = np.random.default_rng(0)
    ranked_by, scores = rng.normal(size=(2, 12))
    ranked_by[[2, 7]] = np.inf
    means = []
    for chosen in itertools.combinations(range(12), 10):
        alive = sorted((k for k in chosen if np.isfinite(ranked_by[k])), key=lambda k: ranked_by[k])
        means.append(scores[alive[:5]].mean())
    assert recompute.between_subsets(ranked_by, scores) == pytest.approx(np.std(means))


def test_a_claim_that_nothing_recomputes_is_noticed(monkeypatch):
    monkeypatch.setattr(recompute, "recomputed", lambda stated: {})
    lines, *_ = recompute.differences()
    unchecked = {line.partition(":")[0] for line in lines if line.endswith(": not recomputed")}
    assert {"('width', '')", "('degree-8', '')", "('best', 'released')", "('published-6', '')"} <= unchecked
    assert "('theorem1', '')" not in unchecked


@pytest.mark.parametrize("script", ["recompute", "recompute_beyond"])
def test_the_scripts_import_neither_the_report_nor_the_engine(script):
    text = (repository() / "tests" / "report" / f"{script}.py").read_text()
    modules = [line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert not any(module.split(".")[0] in ("pna", "report", "workflow") for module in modules)
    assert {module for module in modules if module.startswith("tests")} <= {"tests.report", "tests.report.recompute"}


@pytest.mark.parametrize("seeds", [11, 12, 20])
def test_more_seeds_than_ten_by_both_ways(seeds):
    """The statistic of cells with more than ten seeds: the engine's and the script's."""
    from pna.verdicts.statistics import best_mean

    validation, scores = np.random.default_rng(seeds).normal(size=(2, seeds))
    validation[3] = np.inf  # a run that diverged
    estimate = best_mean(validation, scores, 5, 5.0, 10)
    assert recompute.five_best(validation, scores) == pytest.approx((estimate.value, estimate.error, estimate.freedom))
