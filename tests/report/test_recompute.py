import json

import pytest

from pna.places import repository
from tests.report import recompute


def test_every_verdict_on_trainings_comes_out_again_by_other_code():
    """By a script that shares no line with the report: words, values and intervals of all that is recorded."""
    lines, verdicts, comparisons = recompute.differences()
    assert lines == []
    assert verdicts > 70
    assert comparisons > 700


def test_a_changed_verdict_or_number_is_noticed(tmp_path):
    rows = json.loads((repository() / "figures" / "claims.json").read_text())
    row = next(row for row in rows if (row["id"], row["spec"]) == ("best", "described"))
    row["outcome"] = "contradicted"
    row["comparisons"][0]["value"] += 0.01
    path = tmp_path / "claims.json"
    path.write_text(json.dumps(rows))
    lines, *_ = recompute.differences(path)
    assert [line.partition(":")[0] for line in lines] == [
        "('best', 'described')",
        "('best', 'described'), PNA (no scalers)",
    ]


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
