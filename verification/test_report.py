import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from verification import checks, evidence, figures, report, slips
from verification.checks import CHECKS, EXACT, Check
from verification.evidence import Row
from verification.theorems import THEOREMS

HERE = Path(__file__).parent


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.statement)
def test_every_row_of_the_report_holds(check):
    ranged, seen = check.run()
    assert ranged
    assert seen


def test_the_report_says_what_fails(tmp_path, monkeypatch):
    def broken() -> str:
        checks._require(False, "1 = 2")

    monkeypatch.setattr(
        evidence, "CHECKS", [CHECKS[0], Check("theorem2/false", "1 = 2", EXACT, "sum", "all", "a|b", broken)]
    )
    assert not report.write_report(tmp_path)
    markdown, html = ((tmp_path / f"report.{kind}").read_text(encoding="utf-8") for kind in ("md", "html"))
    assert "| FAILS | a\\|b |" in markdown
    assert "1 = 2 does not hold" in markdown
    assert '<td class="fails">FAILS</td>' in html
    assert "Some checks fail" in html


def test_a_slip_that_is_not_repaired_fails_the_report(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "CHECKS", CHECKS[:1])
    assert report.write_report(tmp_path)
    broken = slips.Slip("x", "slip", "", "", "", "", lambda: True, lambda: False)
    monkeypatch.setattr(slips, "SLIPS", [broken])
    assert not report.write_report(tmp_path)


def test_every_row_says_what_kind_of_evidence_it_has():
    rows = [*evidence.formal_rows(), *(Row(c.id, c.statement, c.kind, "", "", "", "", "", "") for c in CHECKS)]
    assert {row.kind for row in rows} <= {*evidence.VERDICTS, evidence.NOT_RECORDED}
    assert [kind for kind, verdict in evidence.VERDICTS.items() if verdict == "reproduced"] == [evidence.PROVED, EXACT]
    ids = [row.id for row in rows]
    assert len(ids) == len(set(ids))
    assert set(ids) >= set(evidence.REPAIRED)


def test_a_row_that_holds_after_repair_names_the_repair(monkeypatch):
    monkeypatch.setattr(evidence, "CHECKS", [replace(c, evidence=lambda: ("", "")) for c in CHECKS])
    rows = {row.id: row for row in evidence.rows()}
    assert {id_ for id_, row in rows.items() if row.verdict == "holds after repair"} == set(evidence.REPAIRED)
    assert all(repair in rows[id_].caveat for id_, repair in evidence.REPAIRED.items())


def test_multisets_that_collide_are_said_to_be_different():
    statements = [*(theorem.words for theorem in THEOREMS), *(check.statement for check in CHECKS)]
    assert not [words for words in statements if re.search(r"\btwo multisets", words)]
    assert sum("two different multisets" in words for words in statements) >= 10


def test_a_proof_whose_file_has_changed_is_not_called_one(monkeypatch):
    monkeypatch.setattr(evidence.prove, "_hash", lambda path: "0")
    assert {row.verdict for row in evidence.formal_rows()} == {evidence.NOT_RECORDED}


def test_the_stored_report_is_complete():
    text = (HERE / "report.md").read_text(encoding="utf-8")
    assert "FAILS" not in text
    for check in CHECKS:
        assert f"| {check.statement} |" in text
    assert text.count("| confirmed |") == len(slips.SLIPS)
    for name in re.findall(r"\.\./figures/(\w+)\.png", text):
        assert (figures.FIGURES / f"{name}.png").exists()
        assert (figures.FIGURES / f"{name}.pdf").exists()


def test_the_stored_page_is_well_formed():
    opened = []

    class Reader(HTMLParser):
        """A parser that keeps the elements which are open."""

        def handle_starttag(self, tag, attrs):
            """Remember an element that has an end."""
            if tag not in ("meta", "img"):
                opened.append(tag)

        def handle_endtag(self, tag):
            """Assert that the element which ends is the last one that began."""
            assert opened.pop() == tag

    Reader().feed((HERE / "report.html").read_text(encoding="utf-8"))
    assert opened == []


def test_values_in_figure_1_are_exact():
    assert [figures._shown("std", x) for x in ((0, 2), (0, 0, 2, 2), (0, 1), (0, 1, 4))] == ["1", "1", "1/2", "√(26/9)"]
    assert figures._shown("std", (1, 1, 4)) == "√2"
    assert figures._shown("mean", (0, 1)) == "1/2"
    assert figures._shown("sum", (1, 2)) == "3"


def test_figures_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "float_error", lambda n, kind: 1.0 / n)
    paths = figures.draw_all(tmp_path)
    assert len(paths) == 15  # five figures as PNG, PDF and SVG
    assert all(path.stat().st_size > 5000 for path in paths)


@pytest.mark.parametrize("channels", [1, 16, 256])
def test_the_picture_of_a_piece_says_how_far_its_pair_agrees(channels):
    inside, outside = (figures.piece_picture(channels, stretch).axes[0].get_title() for stretch in (0.9, 3.0))
    differences = [float(re.search(r"differ by (\S+) of", title)[1]) for title in (inside, outside)]
    assert differences[0] < 1e-14
    assert differences[1] > 1e-4
    assert f"{4 * channels:,} aggregates" in inside
