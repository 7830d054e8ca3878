import json

import pytest

from pna.__main__ import main
from pna.experiments import EVERY_SPEC, all_cells
from pna.places import repository
from pna.verdicts.contrasts import mean_contrast
from pna.verdicts.statistics import Estimate
from report import plan
from report.claims import CLAIMS
from report.comparisons import MARGIN, TOLERANCE
from report.parts import Part, known
from tests.figures.conftest import write_all, write_result


@pytest.fixture(scope="module")
def written():
    """The plan in results/, which a machine for GPU work alone may lack."""
    return json.loads((repository() / "results" / "plan.json").read_text())


def test_every_claim_about_trainings_has_its_test_in_the_plan_as_the_code_has_it(written):
    planned = {(row["id"], row["spec"]): row for row in written["claims"]}
    for claim in (claim for claim in CLAIMS if claim.by):
        for spec in claim.specs if claim.test else ("",):
            row = planned.pop((claim.id, spec))
            assert (row["statistic"], row["every"]) == (claim.by.statistic, list(claim.by.every))
            if claim.by.need:
                assert row["need"].startswith(f"{claim.by.need} of ")
    assert planned == {}


def test_every_cell_has_its_seeds_within_the_limits_and_the_order_of_training(written):
    rows = {row["cell"]: row for row in written["cells"]}
    new = {cell for test in written["new_tests"] for cell in test["cells"] if "/" in cell}
    assert rows.keys() == {str(cell) for cell in all_cells(EVERY_SPEC)} | new
    for name, row in rows.items():
        assert row["seeds"] in plan.LADDERS.get(name.split("/")[0], plan.LADDERS["multi-task"])
    asked = {}
    for claim in written["claims"]:
        for part in claim["parts"]:
            for cell, seeds in part["seeds"].items():
                asked[cell] = max(asked.get(cell, 0), seeds)
    assert all(rows[cell]["seeds"] == max(seeds, rows[cell]["seeds"]) for cell, seeds in asked.items())
    groups = list(dict.fromkeys(row["priority"] for row in written["cells"]))
    assert groups == [name for name, _ in plan.PRIORITY]
    assert rows["multitask/described/pna/16"]["priority"] == "figure 4"


def test_margins_have_their_dates_and_new_runs_their_tests(written):
    assert {row["margin"] for row in written["margins"]} >= {MARGIN, TOLERANCE}
    assert all(row["set"] and row["known"] for row in written["margins"])
    ids = [test["id"] for test in written["new_tests"]]
    for beginning in ("tuned-", "redrawn-", "real-", "scalers-"):
        assert any(name.startswith(beginning) for name in ids)
    assert all(test["direction"] in ("less", "same", "not less than minus the margin") for test in written["new_tests"])


def test_the_page_has_the_tables_of_the_plan(written):
    text = plan.page_path().read_text(encoding="utf-8")
    assert text == plan.page_with_tables(text, written)
    with pytest.raises(ValueError, match="has no line"):
        plan.page_with_tables("# The plan\n", written)


@pytest.fixture
def recorded(results, monkeypatch, tmp_path):
    write_all()
    page = tmp_path / "plan.md"
    page.write_text(f"# The plan\n\n{plan.MARK}\n")
    monkeypatch.setattr(plan, "page_path", lambda: page)
    return results


def test_the_plan_is_written_until_one_of_its_runs_is_recorded(recorded, capsys):
    assert main(["plan", "--write"]) == 0
    facts = plan.read_plan()
    assert facts == json.loads(json.dumps(plan.plan()))  # the same once more
    assert all(row["seeds"] >= 10 for row in facts["cells"] if row["cell"].startswith("multitask"))
    assert "## Claims" in plan.page_path().read_text()
    path = write_result("multitask/released/pna/16")
    planned = path.parents[3] / "planned" / path.relative_to(path.parents[2])
    planned.parent.mkdir(parents=True)
    planned.write_bytes(path.read_bytes())
    assert plan.fixed() == ["multitask/released/pna-16.json"]
    assert main(["plan", "--write"]) == 1
    assert "the plan is fixed: 1 of its runs" in capsys.readouterr().out


def part(value, error=0.1, freedom=5.0, margin=None, cells=("multitask/described/pna/16",)):
    one = Estimate(value, error, freedom)
    return Part("one", mean_contrast(known(cell, one, 10) for cell in cells), margin=margin)


def test_clear_differences_need_no_more_seeds_than_the_paper_and_hopeless_ones_get_twice_as_many():
    clear, cells = plan._part_row(part(-2.0), 1, 1, False)
    assert (clear["seeds"], clear["toward"]) == ({cells[0]: 10}, "holds")
    close, _ = plan._part_row(part(-0.17), 1, 1, False)
    assert close["seeds"][cells[0]] == 40
    hopeless, _ = plan._part_row(part(-0.01), 1, 1, False)
    assert (hopeless["seeds"][cells[0]], hopeless["power"] < 0.5) == (20, True)
    aside, _ = plan._part_row(part(-0.17), 1, 1, True)
    assert aside["seeds"][cells[0]] == 20


def test_the_power_of_a_whole_test_is_a_bound_from_its_parts():
    def row(power, toward="holds"):
        return {"power": power, "toward": toward}

    assert plan._joint([row(0.99), row(0.95)], 2) == pytest.approx(0.94)
    assert plan._joint([row(0.99), row(0.95)], 1) == pytest.approx(0.99)
    assert plan._joint([row(0.99), row(0.6, "against")], 2) == pytest.approx(0.6)
    assert plan._joint([row(0.3), row(0.3)], 2) == 0.0
