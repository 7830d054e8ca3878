import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pna.verdicts.claims import Claim, claims_markdown, claims_text, rounded
from pna.verdicts.rules import NOT_RUN, NOT_TESTED, WORDS, fact, less
from pna.verdicts.statistics import Estimate

CLEAR, OPEN, WRONG = (Estimate(value, 0.1, 5.0) for value in (-2.0, -0.1, 2.0))


def compare(*differences):
    return [less(f"model {k}", one) for k, one in enumerate(differences)]


BEST = Claim("best", "Ours is best", "table 1", test=compare)
OPENED = Claim("open", "It scales | to any size", "section 7", reason="needs a cluster")


@pytest.mark.parametrize(("differences", "word"), [([CLEAR], "reproduced"), ([CLEAR, OPEN], "1 of 2"), ([], NOT_RUN)])
def test_a_claim_is_judged_by_its_comparisons(differences, word):
    finding = BEST.judge(*differences)
    assert (finding.claim, finding.verdict, finding.outcome) == (BEST, word, word)
    assert len(finding.rows) == len(differences)


def test_as_many_as_needed():
    some = Claim("some", "Ours is best somewhere", "table 1", test=compare, need=1)
    assert BEST.judge(CLEAR, WRONG).verdict == "contradicted"
    assert some.judge(CLEAR, WRONG).verdict == "reproduced"


def test_incomplete_evidence_gives_a_direction_and_no_verdict():
    finding = BEST.judge(CLEAR, complete=False, spec="released", budget="3 of 10 seeds", cells=("a.json",))
    assert (finding.kind, finding.verdict, finding.outcome) == (NOT_RUN, NOT_RUN, "reproduced")
    assert finding.direction == " (at this budget: reproduced)"
    assert (finding.spec, finding.budget, finding.cells) == ("released", "3 of 10 seeds", ("a.json",))
    assert BEST.judge(CLEAR).direction == BEST.judge(complete=False).direction == ""


def test_a_claim_that_is_not_tested_says_why():
    finding = OPENED.judge()
    assert (finding.kind, finding.evidence) == (NOT_TESTED, "needs a cluster")


def test_facts_are_json():
    claim = Claim("two", "Two facts", "section 1", test=lambda: [*compare(CLEAR), fact("13", True, "is 13")])
    facts = json.loads(json.dumps(claim.judge().facts, allow_nan=False))
    assert facts["id"] == "two"
    assert facts["kind"] in WORDS
    model, thirteen = facts["comparisons"]
    assert model == {
        **{"name": "model 0", "outcome": "holds", "value": -2.0, "interval": [-2.2571, -1.7429], "bound": 0.0},
        "p": rounded(2 * CLEAR.below()),
    }
    assert thirteen == {"name": "13", "outcome": "holds", "text": "is 13"}
    few = BEST.judge(Estimate(1.0)).facts["comparisons"][0]
    assert (few["interval"], few["p"]) == ([None, None], None)


@given(st.floats(-1e300, 1e300) | st.sampled_from([math.inf, -math.inf, math.nan]))
def test_rounded_numbers_are_json_and_near(value):
    short = rounded(value)
    if math.isfinite(value):
        assert short == pytest.approx(value, rel=1e-4, abs=1e-9)
        assert json.loads(json.dumps(short, allow_nan=False)) == short
    else:
        assert short is None


def test_text_names_a_claim_once_and_counts_its_verdicts():
    findings = [
        BEST.judge(CLEAR, spec="described"),
        BEST.judge(WRONG, spec="released", budget="ten seeds"),
        OPENED.judge(),
    ]
    lines = claims_text(findings).splitlines()
    assert lines[:3] == [
        "Ours is best (table 1)",
        "    described: REPRODUCED. Model 0: the difference is −2.00 [−2.26, −1.74].",
        "    released: CONTRADICTED. Model 0: the difference is +2.00 [+1.74, +2.26]. [ten seeds]",
    ]
    assert lines[-1] == "1 reproduced, 1 contradicted, 1 not tested"


def test_the_page_shows_columns_that_have_content_and_escapes_bars():
    findings = [BEST.judge(CLEAR, Estimate(1.0)), OPENED.judge(spec="released")]
    page = claims_markdown("Title", findings)
    assert "| It scales \\| to any size | section 7 | released | **not tested** | needs a cluster |" in page
    assert "| model 1 | +1.00 |  |  | too few seeds |" in page
    assert "| not tested | the reason is given |" in page
    assert "run as" not in claims_markdown("Title", [OPENED.judge()])


def test_the_test_in_words_stands_below_its_claim():
    claim = Claim("best", "Ours is best", "table 1", test=compare, statistic="ours minus the rival: below zero")
    finding = claim.judge(CLEAR)
    assert finding.facts["statistic"] == claim.statistic
    lines = claims_text([finding], unit="Numbers are errors in percent.").splitlines()
    assert lines[1] == "    Test: ours minus the rival: below zero."
    assert "Numbers are errors in percent. In square brackets after a number: its 95 % interval." in " ".join(lines)


def test_digits_are_the_comparisons_own():
    claim = Claim(
        "mae",
        "Ours has the least error",
        "table 2",
        test=lambda: [less("rival", Estimate(-0.0123, 0.001, 9.0), digits=4)],
    )
    assert claim.judge().evidence == "Rival: the difference is −0.0123 [−0.0146, −0.0100]."
