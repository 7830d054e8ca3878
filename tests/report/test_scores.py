import numpy as np
import pytest

from pna.report.runs import runs_of
from pna.report.scores import Interval, best, difference, interval, log_mean, log_tasks, resampled
from tests.report.conftest import write_result

SPLIT = "multitask/test"


def run_of(model, **options):
    write_result(f"multitask/released/{model}/16", **options)
    return runs_of("figure4", "released", "paper").of("multitask")[model]


def test_the_five_best_seeds_are_those_of_least_validation_error(results):
    run = run_of("pna", level=-2.0)  # the later the seed, the worse
    assert np.log10(best(run, SPLIT))[:, 0] == pytest.approx([-2.0, -1.99, -1.98, -1.97, -1.96])
    assert log_tasks(best(run, SPLIT)) == pytest.approx([-1.98] * 6)
    assert log_mean(best(run, SPLIT)) == pytest.approx([-2.0, -1.99, -1.98, -1.97, -1.96])


def test_a_seed_that_diverged_is_never_among_them(results):
    run = run_of("pna", level=-2.0, diverged=(0, 1))
    assert np.log10(best(run, SPLIT))[:, 0] == pytest.approx([-1.98, -1.97, -1.96, -1.95, -1.94])


def test_fewer_than_five_are_averaged_as_they_are(results):
    run = run_of("pna", level=-2.0, diverged=range(2, 10))
    assert log_tasks(best(run, SPLIT)) == pytest.approx([-1.995] * 6)


def test_draws_of_seeds_take_their_own_five_best(results):
    run = run_of("pna", level=-2.0)
    rows = np.array([[9] * 10, [0] * 10])
    assert log_tasks(best(run, SPLIT, rows))[:, 0] == pytest.approx([-1.91, -2.0])


def test_a_difference_of_equals_is_zero_and_undecided(results):
    run = run_of("pna")
    found = difference(run, run, SPLIT)
    assert (found.value, found.low, found.high, found.sign) == (0, 0, 0, "undecided")


def test_a_clear_difference_has_a_sign(results):
    one, other = run_of("pna", level=-3.0, noise=0.02), run_of("gin", level=-2.0, noise=0.02)
    assert difference(one, other, SPLIT).sign == "below"
    assert difference(other, one, SPLIT).sign == "above"
    assert difference(one, other, SPLIT, task=3).value == pytest.approx(-1, abs=0.1)


def test_the_bootstrap_is_seeded():
    assert (resampled(10) == resampled(10)).all()
    assert resampled(10).shape == (10_000, 10)


def test_the_interval_of_known_draws():
    assert interval(0.5, np.linspace(0, 1, 1001)) == Interval(0.5, pytest.approx(0.025), pytest.approx(0.975))
    assert np.isnan(interval(1.0, np.full(10, np.nan)).low)
    assert str(Interval(-0.5, -0.75, 0.25)) == "-0.50 [-0.75, +0.25]"
