from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from verification import proposition_1, slips, theorem_2
from verification.counterexamples import EXACT, aggregate

checked = settings(derandomize=True, deadline=None, database=None, max_examples=80)
rationals = st.fractions(min_value=-50, max_value=50, max_denominator=30)


@pytest.mark.parametrize("slip", slips.SLIPS, ids=lambda slip: slip.name)
def test_the_printed_version_fails_and_the_repair_holds(slip):
    assert slip.fails()
    assert slip.holds()
    assert slip.kind in ("slip", "loose end", "improvement")


def test_four_sentences_are_false_as_printed():
    assert {slip.name for slip in slips.SLIPS if slip.kind == "slip"} == {"gamma", "Z", "index", "mean_is_zero"}


def test_names_are_unique():
    assert len({slip.name for slip in slips.SLIPS}) == len(slips.SLIPS)


def test_printed_gamma_leaves_no_offset():
    for s in (theorem_2.linear(6), theorem_2.inverse_linear(6)):
        assert slips.printed_gamma(s) == 1 < theorem_2.gamma(s)


@checked
@given(st.lists(rationals, min_size=1, max_size=6))
def test_n_aggregators_discriminate_up_to_n_elements(x):
    assert slips.unembed(slips.embed_up_to(x, 6)) == tuple(sorted(x))


def test_without_the_size_in_it_the_embedding_fails():
    x, y = [Fraction(1)], [Fraction(1), Fraction(1)]
    assert slips.embed_up_to(x, 3) != slips.embed_up_to(y, 3)
    assert [v - 3 for v in slips.embed_up_to(x, 3)] == [v - 6 for v in slips.embed_up_to(y, 3)]


@checked
@given(st.lists(rationals, min_size=1, max_size=6))
def test_absolute_moments_do_not_see_a_reflection(x):
    mu, _ = proposition_1.central_moments(x)
    mirrored = [2 * mu - y for y in x]
    assert slips.absolute_moments(x) == slips.absolute_moments(mirrored)
    if sorted(mirrored) != sorted(x):
        assert proposition_1.central_moments(x) != proposition_1.central_moments(mirrored)


def test_the_packages_moment_keeps_the_sign():
    skewed, mirrored = (0, 0, 3), (-1, 2, 2)
    values = [float(aggregate("moment3", x, torch.float64)) for x in (skewed, mirrored)]
    assert values[0] == pytest.approx(-values[1])
    assert values[0] > 0


def test_only_epsilon_tells_one_zero_from_two():
    assert all(g([0]) == g([0, 0]) == 0 for g in EXACT.values())
    for name in EXACT:
        value = float(aggregate(name, (0, 0), torch.float64))
        assert (value != 0) == (name == "std")


def test_the_papers_extra_aggregator_works_where_the_mean_is_not_0():
    x = (Fraction(1), Fraction(2))
    assert not slips._same_moments_and_scaled_mean(x, x * 2)
