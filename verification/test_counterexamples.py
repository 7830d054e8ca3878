from fractions import Fraction

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from verification import counterexamples as ce

checked = settings(derandomize=True, deadline=None, database=None, max_examples=80)
rationals = st.fractions(min_value=-20, max_value=20, max_denominator=30)


@pytest.mark.parametrize("agree", ce.subsets(), ids=lambda names: "-".join(sorted(names)))
def test_every_set_of_aggregators_fails_alone(agree):
    pair = ce.separating_pair(agree)
    assert sorted(pair[0]) != sorted(pair[1])
    assert len(pair[0]) == len(pair[1])
    assert ce.agreement(pair) == agree


def test_the_four_together_need_five_elements():
    with pytest.raises(LookupError):
        ce.separating_pair(ce.EXACT, largest_size=4)
    assert len(ce.separating_pair(ce.EXACT)[0]) == 5


@pytest.mark.parametrize("pair", [ce.PNA_FAILS, ce.PNA_FAILS_DYADIC, ce.REPLICATED])
def test_all_four_fail(pair):
    assert sorted(pair[0]) != sorted(pair[1])
    assert ce.agreement(pair) == set(ce.EXACT)


@pytest.mark.parametrize("pair", [ce.PNA_FAILS, ce.PNA_FAILS_DYADIC])
@pytest.mark.parametrize("place", range(5))
def test_no_element_of_a_failing_pair_can_be_moved(pair, place):
    moved = list(pair[0])
    moved[place] += Fraction(1, 1000)
    assert ce.agreement((tuple(moved), pair[1])) != set(ce.EXACT)


@pytest.mark.parametrize(("k", "pair"), ce.SUM_FAILS.items())
def test_sum_of_powers_fails(k, pair):
    x, y = pair
    assert sorted(x) != sorted(y)
    assert sum(a**k for a in x) == sum(b**k for b in y)
    assert sum(a ** (k + 1) for a in x) != sum(b ** (k + 1) for b in y)


def test_sum_fails_in_the_package_but_sees_the_cardinality():
    x, y = (aggregate_sum(pair) for pair in (ce.SUM_FAILS[1], ce.REPLICATED))
    assert x[0] == x[1]
    assert y[0] != y[1]


def aggregate_sum(pair):
    """The package's sum of each multiset of a pair, in float32."""
    return [float(ce.aggregate("sum", x, torch.float32)) for x in pair]


def test_figure_1_shows_what_it_says():
    shown = [ce.agreement(pair) for pair in ce.FIGURE_1]
    assert shown[:4] == [{"mean"}, {"std"}, {"max"}, {"min"}]
    assert shown[4] == {"mean", "max", "min"}
    assert shown[5] == shown[6] == set(ce.EXACT)
    assert [sum(x) == sum(y) for x, y in ce.FIGURE_1[4:]] == [True, True, False]


def test_the_middle_of_four_reals_is_determined():
    total, product = ce.four_reals_are_determined()
    aggregates = {"mean": Fraction(5, 2), "variance": Fraction(5, 4), "max": 4, "min": 1}  # of {1, 2, 3, 4}
    values = {symbol: aggregates[symbol.name] for symbol in product.free_symbols}
    assert [expression.subs(values) for expression in (total, product)] == [5, 6]


@checked
@given(st.lists(rationals, min_size=1, max_size=4))
def test_at_most_four_rationals_are_reconstructed(x):
    aggregates = (Fraction(g(x)) for g in (ce.EXACT["mean"], ce.EXACT["std"], max, min))
    assert ce.reconstruct(len(x), *aggregates) == tuple(sorted(x))


@pytest.mark.parametrize(("size", "variance"), [(5, Fraction(1)), (4, Fraction(2, 7))])
def test_reconstruction_refuses_what_it_cannot_know(size, variance):
    with pytest.raises((ValueError, ArithmeticError)):
        ce.reconstruct(size, Fraction(5, 2), variance, Fraction(4), Fraction(1))


@checked
@given(st.tuples(rationals, rationals, rationals), rationals, rationals)
def test_five_reals_fail_along_a_circle(middle, a, b):
    assume((a, b) != (0, 0))
    other = ce.reflect(middle, a, b)
    assert sum(other) == sum(middle)
    assert sum(x * x for x in other) == sum(x * x for x in middle)
    low, high = min(*other, *middle) - 1, max(*other, *middle) + 1
    assert ce.agreement(((low, *middle, high), (low, *other, high))) == set(ce.EXACT)


def test_the_circle_has_other_points():
    middle = (Fraction(0), Fraction(1), Fraction(5))
    found = {ce.reflect(middle, Fraction(1), Fraction(k)) for k in range(2, 12)}
    assert len(found - {middle}) > 5


@pytest.mark.parametrize("agree", ce.subsets(), ids=lambda names: "-".join(sorted(names)))
def test_replayed_through_the_package(agree):
    pair = ce.separating_pair(agree)
    for name in ce.EXACT:
        x, y = (ce.aggregate(name, multiset, torch.float64) for multiset in pair)
        assert (abs(float(x - y)) < 1e-12) == (name in agree)


@pytest.mark.parametrize("agree", ce.subsets(), ids=lambda names: "-".join(sorted(names)))
def test_replayed_through_a_layer(agree):
    pair = ce.separating_pair(agree)
    same = ce.centre_outputs(pair, sorted(agree))
    torch.testing.assert_close(*same, atol=1e-12, rtol=0)
    for name in set(ce.EXACT) - agree:
        x, y = ce.centre_outputs(pair, [*sorted(agree), name])
        assert float((x - y).abs().max()) > 1e-3


@pytest.mark.parametrize("name", ce.EXACT)
def test_the_dyadic_pair_fails_bit_for_bit(name):
    x, y = (ce.aggregate(name, multiset, torch.float32) for multiset in ce.PNA_FAILS_DYADIC)
    assert torch.equal(x, y)
    third = [ce.aggregate("moment3", multiset, torch.float32) for multiset in ce.PNA_FAILS_DYADIC]
    assert not torch.equal(*third)


def test_the_dyadic_pair_fails_bit_for_bit_in_a_layer():
    x, y = ce.centre_outputs(ce.PNA_FAILS_DYADIC, list(ce.EXACT), torch.float32)
    assert torch.equal(x, y)


def test_a_layer_sees_the_cardinality_through_its_scalers():
    x, y = ce.centre_outputs(ce.REPLICATED, list(ce.EXACT))
    assert float((x - y).abs().max()) > 1e-3


def test_a_star_is_the_neighbourhood():
    graph = ce.star((3, 1, 1))
    assert sorted(graph.nodes[j]["feature"] for j in graph.predecessors(0)) == [1, 1, 3]
