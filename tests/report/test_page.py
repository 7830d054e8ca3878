import re
import sys

import pytest

from pna.__main__ import main
from pna.figures.catalogue import FIGURES, draw
from pna.figures.theory import outcomes
from report import speed
from report.claims import CLAIMS
from report.page import caption_of
from report.sections import learning
from tests.figures.conftest import write_real, write_result
from tests.report import chromium


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """The report of a few results, with some figures drawn."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PNA_RESULTS", str(folder / "results"))
        patch.setenv("PNA_FIGURES", str(folder / "figures"))
        for model, level in (("pna", -3.0), ("gin", -2.0), ("gat", -2.2)):
            write_result(f"multitask/released/{model}/16", "paper-300-epochs", level=level, noise=0.02)
        train = "unofficial: 3 of 20 rows are the official molecules"
        write_real("zinc/released/pna/edges", "paper-200-epochs", (0.2, 0.21), epochs=200, train=train)
        for name in ("figure2", "figure4", "figure6"):
            draw(name)
        assert main(["report"]) == 0
    return folder / "figures" / "report.html"


def test_every_speed_that_is_measured_is_in_the_table():
    said = [what for what, *_ in speed.rows()]
    for words in (
        "epoch and run of PNA, multi-task",
        "mean, max, min and std",
        "layer on a batch like ZINC's, recorded",
        "layer on a batch like CIFAR10's, called one by one",
        "on a CPU",
        "PNA on ZINC",
    ):
        assert any(words in what for what in said), words


def test_without_the_repository_the_theory_is_not_checked(monkeypatch):
    monkeypatch.setitem(sys.modules, "verification", None)
    (row,) = outcomes.__wrapped__()
    assert row.status == "not checked"
    assert row.evidence == "verification/ is in the repository, not in the package"


def test_it_has_every_figure_and_every_claim_once(page):
    text = page.read_text()
    for name in FIGURES:
        assert text.count(f'<section id="{name}"') == 1
    for claim in CLAIMS:
        assert text.count(f'<article class="claim" id="claim-{claim.id}">') == 1
    assert "not yet run at full budget (at this budget: reproduced)" in re.sub(r"<[^>]*>", "", text)
    assert "paper-300-epochs: 10 seeds, at most 300 epochs" in text
    assert (page.parent / "claims.json").exists()


def test_the_title_claims_nothing(page):
    assert "<h1>Principal Neighbourhood Aggregation: what holds</h1>" in page.read_text()


def test_a_claim_links_to_its_test_and_its_cells(page):
    text = page.read_text()
    claim = text[text.index('id="claim-best"') : text.index('id="claim-all-tasks"')]
    assert re.search(r'href="[^"]*report/comparisons\.py#L\d+"', claim)
    assert re.search(r'href="\.\./results/paper-300-epochs/multitask/released/pna-16\.json"', claim)
    assert claim.count('<svg class="interval') == 2


def test_figure_6_has_ours_beside_the_published_with_budget_and_data(page):
    text = page.read_text()
    assert "0.188 ± 0.004" in text
    assert "0.205 ± 0.007" in text
    assert "at most 200 of 1,000 epochs; ZINC: the training set is unofficial: 3 of 20 rows" in text
    assert text.count("<small>not yet</small>") == 57


def test_every_recorded_run_has_its_curve(page):
    text = page.read_text()
    assert text.count('<svg class="curves"') == 4
    assert len(re.findall(r'<path data-seed="\d"', text)) == 3 * 10 + 2


def test_departures_and_ablations_have_their_curves_too(results):
    for cell in ("multitask/D1/pna", "multitask/released-D11/pna", "extrapolation/D13/gin", "no-gru/described/gin"):
        write_result(f"{cell}/16")
    text = learning("recorded")
    rows = re.findall(r"<h3>(.*?) <span", text)
    alone = [f"{training}, each departure alone, paper" for training in ("multitask", "extrapolation")]
    assert rows == ["no-gru, described, paper", *alone]
    assert re.findall(r"<figcaption>(.*?)</", text) == ["GIN", "PNA, D1", "PNA, released without D11", "GIN, D13"]


def test_it_is_self_contained_and_says_nothing_of_the_machine_that_drew_it(page):
    text = page.read_text()
    links = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert links
    assert not [link for link in links if "://" in link]
    assert "UTC" not in text
    assert page.stat().st_size < 2_000_000


def test_anchors_lead_somewhere(page):
    text = page.read_text()
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)


def test_what_is_not_drawn_is_said(page):
    assert "theory_scalers is not drawn yet." in page.read_text()


def test_captions_are_the_notebooks(page):
    assert caption_of("figure5").startswith("Below zero is better than the baseline.")
    assert "log<sub>10</sub>" in caption_of("moments")
    assert all(caption_of(name) for name in FIGURES)


@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser(page, tmp_path, width):
    with chromium.browser(tmp_path / "profile") as port:
        (seen,) = chromium.look(page, port, width)
    assert seen["errors"] == []
    assert len(seen["drawn"]) >= 6
    assert all(seen["drawn"])
    assert all(alt and loaded for alt, loaded in seen["images"])
    assert seen["width"] <= width
    assert seen["title"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_and_no_letters_are_small(page, tmp_path, width, scheme):
    with chromium.browser(tmp_path / "profile") as port:
        found, (size, text) = chromium.violations(page, port, width, scheme)
    assert found == []
    assert size >= 11, text


def test_the_browser_test_sees_errors_missing_images_and_width(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        '<img alt="none" src="none.png"><div style="width: 1000px">wide</div><script>throw Error("x")</script>'
    )
    with chromium.browser(tmp_path / "profile") as port:
        wide, narrow = chromium.look(bad, port, 1280, 390)
    for seen in (wide, narrow):
        assert seen["errors"]
        assert seen["images"] == [["none", False]]
    assert wide["width"] <= 1280
    assert narrow["width"] > 390


def test_numbers_in_a_picture_keep_their_digits(page):
    assert ">−2.98</text>" in page.read_text()  # PNA's average in figure 4b
