import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pna.verdicts.rules import (
    NOT_RUN,
    WORDS,
    Comparison,
    Decision,
    _named,
    fact,
    inside,
    interval_end,
    less,
    majority,
    number,
    rule,
    same,
)
from pna.verdicts.statistics import Estimate

MARGIN, TOLERANCE = 0.1, 0.3

CLEAR, OPEN, WRONG = (Estimate(value, 0.1, 5.0) for value in (-2.0, -0.1, 2.0))


def claim(*values, need=None):
    return rule([less(f"model {k}", value) for k, value in enumerate(values)], need)


@pytest.mark.parametrize(
    ("values", "kind", "word"),
    [
        ([CLEAR, CLEAR], "reproduced", "reproduced"),
        ([CLEAR, OPEN, OPEN], "in part", "1 of 3"),
        ([CLEAR, OPEN, WRONG], "contradicted", "contradicted"),
        ([OPEN], "undecided", "undecided"),
        ([OPEN, WRONG], "contradicted", "contradicted"),
        ([], NOT_RUN, NOT_RUN),
    ],
)
def test_one_rule_for_words(values, kind, word):
    ruling = claim(*values)
    assert (ruling.kind, ruling.word) == (kind, word)
    assert kind in WORDS


@given(st.lists(st.sampled_from([CLEAR, OPEN, WRONG]), min_size=1, max_size=12), st.integers(1, 12))
def test_the_word_follows_from_the_counts(values, need):
    ruling = claim(*values, need=min(need, len(values)))
    held, against = (sum(row.outcome == word for row in ruling.rows) for word in ("holds", "against"))
    assert (ruling.kind == "reproduced") == (held >= min(need, len(values)))
    assert (ruling.kind == "contradicted") == (against > 0 and len(values) - against < min(need, len(values)))


def test_what_is_against_is_named():
    ruling = rule([less("GIN", WRONG), less("GAT", CLEAR)])
    assert ruling.text.startswith("1 of 2 comparisons holds. 1 contradicts the claim: GIN +2.00 [")


def test_several_comparisons_are_corrected():
    weak = Estimate(-0.3, 0.1, 5.0)  # p = 0.03 alone
    assert claim(weak).kind == "reproduced"
    assert claim(weak, weak).kind == "undecided"


def test_no_difference_needs_the_margin_and_not_a_lack_of_significance():
    unsure, equal, better = Estimate(0.05, 0.1, 5.0), Estimate(0.01, 0.01, 5.0), Estimate(0.5, 0.05, 5.0)
    assert rule([less("unsure", unsure, MARGIN)]).kind == "undecided"
    assert rule([less("equal", equal, MARGIN)]).kind == "reproduced"
    assert rule([less("better", better, MARGIN)]).kind == "contradicted"


def test_equal_within_a_margin_is_shown_or_refuted_or_open():
    for sign in (1, -1):
        equal, unsure, far = (
            Estimate(sign * value, error, 5.0) for value, error in ((0.01, 0.01), (0.05, 0.1), (1, 0.1))
        )
        assert rule([same("equal", equal, MARGIN)]).kind == "reproduced"
        assert rule([same("unsure", unsure, MARGIN)]).kind == "undecided"
        assert rule([same("far", far, MARGIN)]).kind == "contradicted"
        assert same("far", far, MARGIN).bound == sign * MARGIN
    assert rule([same("few", Estimate(0.0), MARGIN)]).word == "too few seeds"
    with pytest.raises(ValueError, match="margin must be positive, got 0"):
        same("none", CLEAR, 0)


@given(st.integers(0, 30), st.integers(5, 30))
def test_a_majority_needs_a_sign_test(count, total):
    one = majority("runs", min(count, total), total)
    assert one.p == pytest.approx(stats.binomtest(min(count, total), total).pvalue)
    assert (one.side == "holds") == (2 * min(count, total) > total)


def test_a_majority_of_four_decides_nothing():
    assert rule([majority("runs", 4, 4)]).word == "too few seeds"


def test_a_published_number_is_held_against_the_range_of_ten_more_runs():
    ours = Estimate(-3.0, 0.05, 5.0)
    assert rule([inside("PNA", ours, -3.1, TOLERANCE)]).kind == "reproduced"
    assert rule([inside("PNA", ours, -2.5, TOLERANCE)]).kind == "contradicted"
    for published, kind in ((-3.1, "reproduced"), (-2.5, "contradicted"), (-3.15, "undecided")):
        one = [inside("PNA", ours, published, TOLERANCE)]
        assert rule(one, aggregate=one).kind == kind
    two = [inside("PNA", ours, -2.5, TOLERANCE), inside("GAT", ours, -3.1, TOLERANCE)]
    assert rule(two, 1, aggregate=two).kind == "reproduced"
    assert rule([inside("PNA", ours, -3.15, TOLERANCE)]).kind == "undecided"  # not another, but it could be 0.33 away
    vague = Estimate(-3.0, TOLERANCE, 5.0)
    assert rule([inside("PNA", vague, -3.1, TOLERANCE)]).kind == "undecided"
    one = inside("PNA", ours, -3.1, TOLERANCE)
    assert one.estimate.value == pytest.approx(0.1)  # ours minus published
    assert one.p == pytest.approx(one.estimate.unlike(0.0))  # what is shown is what is tested


def test_too_few_seeds_decide_nothing():
    ruling = claim(Estimate(-5.0), CLEAR)
    assert ruling.word == "too few seeds"
    assert [row.outcome for row in ruling.rows] == ["too few seeds", "holds"]


def test_facts_are_so_or_not():
    assert rule([fact("13", True), fact("14", True)]).kind == "reproduced"
    ruling = rule([fact("GAT", False, "+25%"), fact("GIN", True, "+15%")])
    text = "1 of 2 comparisons holds. 1 contradicts the claim: GAT +25%."
    assert (ruling.kind, ruling.text) == ("contradicted", text)


def test_numbers_have_true_minus_signs():
    assert number(-0.5) == "−0.50"
    assert number(1.25, 1) == "+1.2"
    assert number(-0.004) == number(0.004) == "0.00"
    assert number(-math.inf) == "−inf"
    assert str(Comparison("GIN", 0.1, "holds", estimate=Estimate(math.pi))) == "GIN +3.14"


# ---- aggregate tests ----


def aggregated(tests, details=(), need=None):
    tests, details = ([less(f"{kind} {k}", one) for k, one in enumerate(row)] for kind, row in
                      (("test", tests), ("detail", details or tests)))  # fmt: skip
    return rule(details, need, tests)


@pytest.mark.parametrize(
    ("tests", "details", "word"),
    [
        ([CLEAR], [CLEAR, OPEN], "reproduced"),
        ([CLEAR], [CLEAR, WRONG], "in part, 1 against"),
        ([CLEAR, OPEN], [], "1 of 2"),
        ([CLEAR, WRONG], [], "contradicted"),
        ([WRONG], [CLEAR, CLEAR], "contradicted"),
        ([OPEN], [CLEAR, CLEAR], "undecided"),
        ([OPEN, OPEN], [WRONG, CLEAR], "undecided"),
    ],
)
def test_the_aggregate_test_decides_and_the_details_only_qualify(tests, details, word):
    ruling = aggregated(tests, details)
    assert ruling.word == word
    assert ruling.kind == ("in part" if word[0] in "i1" else word)
    assert len(ruling.tests) == len(tests)


def test_for_every_part_no_correction_is_needed():
    weak = Estimate(-0.3, 0.1, 5.0)  # p = 0.03 alone
    ruling = aggregated([weak, weak])
    assert (ruling.kind, ruling.p) == ("reproduced", pytest.approx(2 * weak.below()))
    assert aggregated([weak, weak], need=1).kind == "undecided"  # Bonferroni's


def test_at_least_some_leaves_room_for_those_against():
    assert aggregated([CLEAR, WRONG, WRONG], need=1).kind == "reproduced"
    assert aggregated([WRONG, WRONG, WRONG], need=1).kind == "contradicted"
    assert aggregated([CLEAR, WRONG, WRONG], need=2).kind == "contradicted"


@given(st.lists(st.sampled_from([CLEAR, OPEN, WRONG]), min_size=1, max_size=8), st.integers(1, 8))
def test_no_claim_holds_and_fails_at_once(values, need):
    ruling = aggregated(values, need=min(need, len(values)))
    assert max(ruling.p, ruling.p_against) > 0.05


def test_the_details_are_counted_and_those_against_named():
    text = aggregated([CLEAR], [CLEAR, OPEN, WRONG]).text
    assert text.startswith("Test 0: the difference is −2.00")
    words = "Of the 3 individual comparisons, 1 supports the claim, 1 is undecided and 1 contradicts it: detail 2 +2.00"
    assert words in text
    assert aggregated([CLEAR], [CLEAR, CLEAR]).text.endswith(". Both individual comparisons support the claim.")
    assert "2 are undecided and 1 contradicts the claim: detail 2 +2.00" in aggregated([OPEN], [OPEN, OPEN, WRONG]).text


def test_a_corrected_p_stands_beside_an_interval_that_leaves_out_zero():
    weak = Estimate(-0.3, 0.1, 5.0)
    assert claim(weak, weak).text.count(" (corrected p = 0.06)") == 2
    assert "p =" not in claim(OPEN).text


def test_an_undecided_comparison_with_a_margin_names_it_beside_its_p():
    near = Estimate(0.105, 0.04, 60.0)  # its interval excludes zero, and contains the margin
    alone = rule([less("mean", near, 0.1)]).text
    tested = "in the test against the margin of 0.1)"
    assert alone == f"The mean difference is +0.10 [+0.02, +0.19] (p = 0.90 {tested}."
    assert f"(corrected p = 1.00 {tested}" in rule([less(name, near, 0.1) for name in "ab"]).text
    outside = Estimate(-0.35, 0.1, 60.0)
    assert "(p = 0.62 in the test against the margin of 0.3)" in rule([same("Connected", outside, 0.3)]).text


def test_a_comparison_that_needs_its_p_is_not_hidden_among_the_rest():
    weak = Estimate(-0.25, 0.1, 20.0)  # p = 0.02 alone
    text = claim(OPEN, OPEN, OPEN, OPEN, weak).text
    assert "corrected p = 0.11" in text
    assert text.endswith("; and 1 more.")


def test_a_p_that_rounds_to_the_level_has_three_digits():
    estimate = Estimate(-0.2, 0.1, 1000.0)
    (row,) = rule([less("a", estimate)]).rows
    assert 0.045 < row.p < 0.05
    just = Decision(row.comparison, 0.0509, "undecided")
    assert _named(just).endswith("(corrected p = 0.051)")


def test_an_end_that_rounds_to_zero_shows_its_side():
    assert interval_end(0.0033) == "+0.003"
    assert interval_end(-0.0033) == "−0.003"
    assert interval_end(0.0) == "0.000"
    assert interval_end(0.31) == "+0.31"
    assert interval_end(math.inf) == "+inf"
    assert str(less("mean", Estimate(0.16, 0.079, 60.0))) == "mean +0.16 [+0.002, +0.32]"


def test_too_few_seeds_decide_no_aggregate_test():
    assert aggregated([Estimate(-1.0)], [CLEAR]).word == "too few seeds"


def test_in_part_means_that_no_part_is_against_the_claim():
    assert aggregated([*[CLEAR] * 3, OPEN, OPEN, OPEN], need=4).word == "3 of 6"
    far = aggregated([*[CLEAR] * 3, WRONG, WRONG, OPEN], need=4)
    assert (far.kind, far.word) == ("undecided", "undecided")


@given(st.lists(st.sampled_from([CLEAR, OPEN, WRONG]), min_size=2, max_size=7), st.integers(1, 7))
def test_the_verdict_and_its_reasons_agree(values, need):
    ruling = aggregated(values, need=min(need, len(values)))
    held, against = (sum(test.outcome == word for test in ruling.tests) for word in ("holds", "against"))
    if ruling.kind == "reproduced":
        assert held >= min(need, len(values))
    if ruling.kind == "in part":
        assert held
        if ruling.word != f"in part, {against} against":
            assert not against
    if ruling.kind == "contradicted":
        assert against


def test_parts_that_must_all_hold_are_judged_by_their_own_p_values():
    close = [Estimate(-0.22, 0.1, 30.0), Estimate(-0.23, 0.1, 30.0)]  # p = 0.04 and 0.03, corrected 0.06
    ruling = aggregated(close)
    assert ruling.kind == "reproduced"
    assert [test.outcome for test in ruling.tests] == ["holds", "holds"]
    assert ruling.text.startswith("Both comparisons hold.")
    assert aggregated([*close, OPEN]).word == "undecided"  # one by one they are corrected
