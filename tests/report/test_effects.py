"""What a departure does alone: compared on the same graphs."""

import pytest

from pna.experiments import PROFILES, Cell
from pna.report.effects import effect
from pna.report.runs import recorded_run
from tests.report.conftest import write_result


def recorded(name):
    return recorded_run(Cell.parse(name), PROFILES["paper"])


def test_d3_is_compared_on_the_sizes_of_the_paper_not_on_its_own(results):
    write_result("multitask/described/pna/16", level=-3.0, noise=0.01)
    easier = {"multitask/test": [-3.5] * 6, "multitask-15-24/test": [-2.8] * 6}
    write_result("multitask/D3/pna/16", level=-2.8, noise=0.01, levels=easier)
    found = effect(recorded("multitask/D3/pna/16"), recorded("multitask/described/pna/16"))
    assert found.value == pytest.approx(0.2, abs=1e-6)
