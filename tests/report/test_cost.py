"""The campaign's cost: every result once, a total, and what of the released code's time is measured."""

import re

import pytest

from pna.experiments import Cell
from pna.places import repository
from report.cost import campaign, cost
from tests.figures.conftest import write_real, write_result


def rows_of(html):
    """The table's rows as texts, by their first column."""
    rows = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)[1:])
    return {first: others for first, *others in rows}


@pytest.fixture
def paces(monkeypatch):
    """Hours of an epoch as they might have been measured; a departure takes what its model takes as described."""
    measured = {"multitask/released/pna/16": 2e-7, "standard/released/gin/16": 3e-7, "multitask/described/pna/16": 2e-7}
    measured |= {"multitask/released/pna-soft/16": 4e-7}
    monkeypatch.setattr("report.cost.pace", lambda: {Cell.parse(name): hours for name, hours in measured.items()})


@pytest.mark.usefixtures("paces")
def test_each_cell_is_counted_once_and_the_total_is_their_sum(results):
    for cell in ("multitask/released/pna/16", "multitask/released/pna-soft/16", "standard/released/gin/16"):
        write_result(cell)  # ten runs of 10,000 epochs in one second
    write_result("multitask/D1/pna/16")
    write_real("zinc/released/pna/edges", "paper", (0.2, 0.21), epochs=1_000)
    rows = rows_of(cost())
    assert list(rows) == ["figure4", "figure6", "standard", "softmax", "departures", "total"]
    assert rows["figure4"] == ["1", "100,000", "0.00", "0.02", "40", "–", "–"]  # 1.445 s an epoch
    assert rows["figure6"] == ["1", "2,000", "0.00", "–", "–", "–", "1"]
    assert rows["standard"] == ["1", "100,000", "0.00", "0.03", "–", "17", "–"]  # 0.601 s, the recurrent network's
    assert rows["softmax"] == ["1", "100,000", "0.00", "0.04", "–", "–", "1"]
    assert rows["departures"] == rows["figure4"]
    assert rows["total"] == ["5", "402,000", "0.00", "0.11", "80", "17", "2"]


def test_every_recorded_result_is_in_it(monkeypatch):
    monkeypatch.delenv("PNA_RESULTS", raising=False)
    files = list((repository() / "results" / "paper").rglob("*.json"))
    assert sum(map(len, campaign().values())) == len(files)


@pytest.mark.usefixtures("results")
def test_with_nothing_recorded_there_is_no_table():
    assert cost() == ""
