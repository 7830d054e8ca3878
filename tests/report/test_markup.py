"""The page's templates: text is escaped, numbers are set flush right; and report/ imports in no circle."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from markupsafe import Markup

import report
from pna.verdicts.statistics import Estimate
from report.markup import blocks, estimate, listed, p_value, picture, render, stacked, table

NAMES = ("small", "span", "p", "div", "table", "caption", "thead", "tbody", "tr", "th", "td")
TAGS = {"br", *NAMES, *(f"/{name}" for name in NAMES)}
FOLDER = Path(report.__file__).parent


@given(st.text(alphabet="<>&\"'ab é"))
def test_text_is_escaped_wherever_it_stands(text):
    for html in (stacked(text, text), blocks(text), table((text,), [(text,)], text)):
        assert set(re.findall(r"<(/?\w*)", html)) <= TAGS


def test_markup_stays_as_it_is_and_text_is_a_note():
    assert blocks(Markup("<b>x</b>"), "a < b", "").split("\n") == ["<b>x</b>", '<p class="soft">a &lt; b</p>', ""]
    assert blocks() == ""


def test_columns_of_numbers_are_told_from_others():
    html = table(("model", "score", "what"), [("PNA", "−3.1", "1 of x"), ("GIN", estimate(Estimate(1.0)), "2")], "t")
    assert re.findall(r'<th scope="col"( class="number")?>(\w+)', html) == [
        ("", "model"),
        (' class="number"', "score"),
        ("", "what"),
    ]
    assert html.count('<td class="number">') == 2


def test_an_estimate_has_its_interval_or_says_why_not():
    assert estimate(Estimate(-0.2, 0.1, 5.0), 1, "GIN") == "−0.2<br><small>−0.5 … +0.1</small><br><small>GIN</small>"
    assert estimate(Estimate(0.5)) == "+0.50<br><small>too few seeds</small>"


@pytest.mark.parametrize(("count", "text"), [(0, ""), (1, "20"), (2, "20 or 30"), (3, "20, 30 or 40")])
def test_numbers_are_listed_with_commas_and_one_conjunction(count, text):
    assert listed(["20", "30", "40"][:count], "or") == text


@pytest.mark.parametrize(("p", "text"), [(0.0004, "< 0.001"), (0.04, "0.040"), (float("nan"), "–")])
def test_p_values(p, text):
    assert p_value(p) == text


def test_a_name_that_a_template_does_not_know_is_an_error():
    with pytest.raises(UndefinedError):
        render("points", title="Limits")


def test_the_modules_of_the_report_import_in_no_circle():
    graph = {path.stem: set(_imported(path)) for path in FOLDER.glob("*.py")}
    assert "sections" in graph["page"]
    assert "command" not in set().union(*graph.values())
    list(TopologicalSorter(graph).static_order())  # raises CycleError on a circle


def _imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "report":
            inner = node.module.split(".")[1:]
            yield from inner or (alias.name for alias in node.names)


# ---- pictures ----

SVG = """<?xml version="1.0"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x.dtd">
<svg xmlns:xlink="x" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><metadata><rdf:RDF/></metadata>
 <g id="patch_1"><path d="M 0 0" style="fill: #ffffff"/></g>
 <g id="axes"><defs><path id="mark" d="M 0.123 1.456 L 2 3" style="stroke: #000000"/></defs>
  <g clip-path="url(#box)"><use xlink:href="#mark" x="1.23456" style="fill: #d55e00"/></g>
  <text transform="translate(1.2345 2) scale(0.015625)" style="font: 8px sans; fill: #e5e5e5">x 0.123 &lt; 1</text>
 </g><clipPath id="box"/></svg>"""


def test_a_picture_keeps_its_letters_and_colours_and_loses_its_frame(tmp_path):
    (tmp_path / "a.svg").write_text(SVG)
    html = picture(tmp_path / "a", "what it shows")
    assert 'aria-label="what it shows" style="min-width:14px" viewBox="0 0 10 10"' in html  # letters of 8 px get 11
    assert ">x 0.123 &lt; 1</text>" in html
    assert 'transform="translate(1.2345 2) scale(0.015625)"' in html  # a scale that is cut short hides its letters
    assert 'd="M.12 1.46l1.88 1.54"' in html
    rules = dict(re.findall(r"\.(s\w+){(.*?)}", html))
    assert list(rules.values()) == ["stroke:currentColor", "fill:#d55e00", "font-size:8px;fill:var(--line)"]
    assert set(re.findall(r'class="(s\w+)"', html)) == set(rules)
    assert not re.search(r"metadata|patch_1|#ffffff|<g>", html)


def test_two_pictures_share_no_id_and_references_lead_to_their_own(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.svg").write_text(SVG)
    pages = [picture(tmp_path / name, name) for name in "ab"]
    ids = [set(re.findall(r' id="([^"]+)"', page)) for page in pages]
    assert not ids[0] & ids[1]
    for page, own in zip(pages, ids, strict=True):
        assert set(re.findall(r'(?:href="|url\()#([\w-]+)', page)) == own


WITH = '<svg viewBox="0 0 9 9"><g id="patch_1"></g>{}<use xlink:href="#a"/></svg>'


@pytest.mark.parametrize(
    "inside",
    [
        "<script>alert(1)</script>",
        "<scr<!-- -->ipt>alert(1)</script>",
        '<path onload="alert(1)"/>',
        '<path\nonclick = "alert(1)"/>',
        '<a href="javascript:alert(1)"><path/></a>',
        '<image href="https://example.org/x.png"/>',
        "<foreignObject><p>x</p></foreignObject>",
        '<use xlink:href="other.svg#x"/>',
    ],
)
def test_a_picture_that_could_run_or_fetch_something_is_refused(tmp_path, inside):
    (tmp_path / "a.svg").write_text(WITH.format(inside))
    with pytest.raises(ValueError, match=r"a\.svg holds .*: draw it again"):
        picture(tmp_path / "a", "x")


def test_a_picture_that_only_draws_is_inlined(tmp_path):
    (tmp_path / "a.svg").write_text(WITH.format('<g><path d="M 1 1"/><text>one = 1</text></g>'))
    assert "one = 1" in picture(tmp_path / "a", "x")
