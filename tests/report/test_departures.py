"""What a departure does alone: compared on the same graphs, with an interval, corrected for their number."""

import re

import pytest

from pna.experiments import PROFILES, Cell
from pna.figures.runs import recorded_run
from report.departures import departures, effect, effects
from tests.figures.conftest import write_result


def recorded(name):
    return recorded_run(Cell.parse(name), PROFILES["paper"])


def test_d3_is_compared_on_the_sizes_of_the_paper_not_on_its_own(results):
    write_result("multitask/described/pna/16", level=-3.0, noise=0.01)
    easier = {"multitask/test": [-3.5] * 6, "multitask-15-24/test": [-2.8] * 6}
    write_result("multitask/D3/pna/16", level=-2.8, noise=0.01, levels=easier)
    found = effect(recorded("multitask/D3/pna/16"), recorded("multitask/described/pna/16"))
    assert found.value == pytest.approx(0.2, abs=1e-6)


def test_extrapolation_is_compared_over_the_sizes_of_figure_5(results):
    beyond = {f"extrapolation/test_{start}_{start + 5}": [0.0] * 6 for start in (60, 75, 95)}
    write_result("extrapolation/described/gin/16", level=-1.5, noise=0.01)
    write_result("extrapolation/D13/gin/16", level=-2.0, noise=0.01, levels=beyond)
    found = effect(recorded("extrapolation/D13/gin/16"), recorded("extrapolation/described/gin/16"))
    assert found.value == pytest.approx(-0.5, abs=1e-6)


def test_p_is_corrected_over_all_comparisons_of_the_table(results):
    write_result("multitask/described/pna/16", level=-3.0, noise=0.02)
    write_result("multitask/D1/pna/16", level=-2.97, noise=0.02)
    (alone,) = effects().values()
    for name in ("D2", "D5", "init"):
        write_result(f"multitask/{name}/pna/16", level=-3.0, noise=0.02)
    found = {str(cell): row for cell, row in effects().items()}
    assert len(found) == 4
    assert found["multitask/D1/pna/16"].p == pytest.approx(min(1.0, 4 * alone.p))


def test_the_plans_seeds_are_compared_with_the_plans_alone(results):
    for profile, level in (("paper", -3.0), ("planned", -3.3)):
        write_result("multitask/described/pna/16", profile, level=level, noise=0.01)
    write_result("multitask/D1/pna/16", "paper", level=-2.8, noise=0.01)
    (row,) = effects().values()
    assert row.comparison.estimate.value == pytest.approx(0.2, abs=0.01)
    write_result("multitask/D1/pna/16", "planned", level=-2.8, noise=0.01)
    (row,) = effects().values()
    assert row.comparison.estimate.value == pytest.approx(0.5, abs=0.2)  # a later seed has a little more, by its number


def test_released_less_a_departure_says_what_it_does_from_there(results):
    write_result("multitask/released/pna/16", level=-3.2, noise=0.01)
    write_result("multitask/released-D11/pna/16", level=-3.0, noise=0.01)
    (row,) = effects().values()
    assert row.comparison.name == "PNA, from released"
    assert row.comparison.estimate.value == pytest.approx(-0.2, abs=1e-6)


def test_every_departure_has_a_number_or_a_reason(results):
    write_result("multitask/described/pna/16", level=-3.0, noise=0.01)
    write_result("multitask/D1/pna/16", level=-2.0, noise=0.01)
    rows = re.findall(r'<tr><th scope="row">(\w+)</th>.*?([^>]*)</td></tr>', departures())
    said = dict(rows)
    assert re.fullmatch(r"PNA \+1\.00 \[\+\S+, \+\S+\], p &lt; 0\.001", said["D1"])
    assert said["D2"] == "PNA: not run yet"
    assert said["D15"].startswith("not measured yet")
    counts = "0 of 10 replicas as described, 0 of 0 replicas as released"
    assert said["D16"] == f"validation loss always above 10,001, in the newest seeds of each cell: {counts}"
    assert {said[name] for name in ("D8", "D9", "D10")} == {"changes no network of the paper"}
    assert said["D14"] == "changes the baseline only, no network"
    assert said["D13"] == "exactly 0 where no run as described diverged: 1 of 1 cells"
