import re

import pytest

from pna.__main__ import main
from pna.report.claims import CLAIMS
from pna.report.draw import FIGURES, draw
from tests.report import chromium
from tests.report.conftest import write_real, write_result


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """The report of a few results, with some figures drawn."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PNA_RESULTS", str(folder / "results"))
        patch.setenv("PNA_FIGURES", str(folder / "figures"))
        for model, level in (("pna", -3.0), ("gin", -2.0), ("gat", -2.2)):
            write_result(f"multitask/released/{model}/16", "paper-300-epochs", level=level, noise=0.02)
        train = "redrawn: 3 of 20 rows are the official molecules"
        write_real("zinc/released/pna/edges", "paper-200-epochs", (0.2, 0.21), epochs=200, train=train)
        for name in ("figure2", "figure4", "figure6"):
            draw(name)
        assert main(["report"]) == 0
    return folder / "figures" / "report.html"


def test_it_has_every_figure_and_every_claim(page):
    text = page.read_text()
    for name in FIGURES:
        assert f'<section id="{name}">' in text
    for claim in CLAIMS:
        assert claim.id == "fails" or claim.where.split(",")[0] in text
    assert (
        text.count("PNA consistently outperforms the other models") >= 4
    )  # both specs, in its section and in the list
    assert "not yet run at full budget" in text
    assert "paper-300-epochs: 10 seeds, at most 300 epochs" in text
    assert (page.parent / "claims.json").exists()


def test_figure_6_has_ours_beside_the_published_with_budget_and_data(page):
    text = page.read_text()
    assert "0.188 ± 0.004" in text
    assert "0.205 ± 0.007" in text
    assert "+0.017<br><small>+0.012 … +0.022</small>" in text
    assert "at most 200 of 1,000 epochs; ZINC-12k: the training set is redrawn: 3 of 20 rows" in text
    assert text.count("<td>not run</td>") == 24


def test_it_is_self_contained(page):
    links = re.findall(r'(?:src|href)="([^"]*)"', page.read_text())
    assert links
    assert all(link.startswith(("data:", "#")) for link in links)


def test_what_is_not_drawn_is_said(page):
    assert "theory_scalers is not drawn yet." in page.read_text()


@pytest.mark.parametrize("width", [1280, 390])
def test_in_a_browser(page, tmp_path, width):
    with chromium.browser(tmp_path / "profile") as port:
        seen = chromium.look(page, port, width)
    assert seen["errors"] == []
    assert len(seen["images"]) >= 6
    assert all(loaded for _, loaded in seen["images"])
    assert seen["width"] <= width
    assert seen["title"]


def test_the_browser_test_sees_errors_missing_images_and_width(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        '<img alt="none" src="none.png"><div style="width: 2000px">wide</div><script>throw Error("x")</script>'
    )
    with chromium.browser(tmp_path / "profile") as port:
        seen = chromium.look(bad, port, 390)
    assert seen["errors"]
    assert seen["images"] == [["none", False]]
    assert seen["width"] > 390
