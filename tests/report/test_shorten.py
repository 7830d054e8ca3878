"""Short pictures: the same places to a tenth, groups that change nothing, names shared by the whole page."""

import base64
import io
import re
from xml.etree.ElementTree import Element, fromstring, tostring

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pna.places import repository
from report.markup import picture
from report.shorten import grouped, short_names, short_path
from tests.report import chromium

places = st.floats(-500, 500).map(lambda value: round(value, 4))
commands = st.lists(
    st.tuples(st.just("L"), st.lists(places, min_size=2, max_size=2))
    | st.tuples(st.just("Q"), st.lists(places, min_size=4, max_size=4))
    | st.tuples(st.just("C"), st.lists(places, min_size=6, max_size=6)),
    max_size=8,
)


def ends(d):
    """Every place that a path names, absolute, whether it is written in places or in steps."""
    x = y = 0.0
    found = []
    for letter, text in re.findall(r"([MLCQlcqhvz])([^A-Za-z]*)", d):
        numbers = [float(number) for number in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", text)]
        if letter in "hv":
            numbers = [numbers[0], 0.0] if letter == "h" else [0.0, numbers[0]]
        for pair in zip(numbers[::2], numbers[1::2], strict=True):
            here = pair if letter.isupper() else (x + pair[0], y + pair[1])
            found.append(here)
        if numbers:
            x, y = found[-1]
    return found


@given(st.lists(places, min_size=2, max_size=2), commands)
def test_a_path_in_steps_leads_to_the_same_places(start, rest):
    path = "".join(f"{letter}{' '.join(map(str, numbers))}" for letter, numbers in [("M", start), *rest])
    short = ends(short_path(path))
    assert len(short) == len(ends(path))
    for one, other in zip(short, ends(path), strict=True):
        assert one == pytest.approx(other, abs=0.0501)  # rounding does not add up along the path


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("M1.5 2L4.5 2L4 2.5z", "M1.5 2h3l-.5.5z"),
        ("M0 0L0 3.5", "M0 0v3.5"),
        ("M0 0L0 0", "M0 0h0"),
        ("M10 10L10.04 9.96", "M10 10h0"),
        ("M0.26 -0.26C1 1 2 2 3 3", "M.3-.3c.7 1.3 1.7 2.3 2.7 3.3"),
    ],
)
def test_a_path_is_written_in_few_letters(path, short):
    assert short_path(path) == short


def drawn(body, **styles):
    parts = list(fromstring(f"<svg>{body}</svg>"))
    return "".join(tostring(part, encoding="unicode").replace(" />", "/>") for part in grouped(parts, styles))


def test_neighbours_share_their_clip_path_and_class():
    body = (
        '<path d="M0 0L1 1" clip-path="url(#c)" class="a"/><g clip-path="url(#c)"><use href="#m" x="1" class="b"/></g>'
    )
    assert drawn(body, a="fill:none", b="fill:red") == (
        '<g clip-path="url(#c)"><path d="M0 0L1 1" class="a"/><use href="#m" x="1" class="b"/></g>'
    )
    twice = '<text class="a">1</text><text class="a">2</text><text class="b">3</text>'
    assert (
        drawn(twice, a="font-size:8px", b="") == '<g class="a"><text>1</text><text>2</text></g><text class="b">3</text>'
    )


def test_lines_become_one_path_but_areas_and_transparent_lines_do_not():
    body = '<path d="M0 0L1 1L2 0" class="a"/><path d="M5 5L6 6L7 5" class="a"/>'
    assert drawn(body, a="fill:none") == '<path d="M0 0L1 1L2 0M5 5L6 6L7 5" class="a"/>'
    assert drawn(body, a="fill:red").count("<path") == 2
    assert drawn(body, a="fill:none;stroke-opacity:0.5").count("<path") == 2


def test_opacity_and_a_clip_path_that_moves_stay_where_they_are():
    faint = '<path d="M0 0" class="a"/><path d="M1 1" class="a"/>'
    assert drawn(faint, a="opacity:0.5") == faint
    moved = '<g clip-path="url(#c)" transform="translate(1 1)"><path d="M0 0"/></g>'
    assert drawn(2 * moved) == 2 * moved
    mark = '<g clip-path="url(#c)"><use href="#m" x="1" y="1"/></g>'  # on the mark itself, x and y would move it
    assert drawn(mark) == mark


def test_a_tick_becomes_a_line_in_its_place_and_its_definition_goes():
    body = '<defs><path id="t" d="M0 0L0 3.5" class="a"/></defs><use href="#t" x="10" y="20" class="a"/>'
    assert drawn(body, a="stroke:red") == '<path d="M10.0 20.0L10.0 23.5" class="a"/>'
    assert "<defs>" in drawn(body.replace('20" class="a"', '20" class="b"'), a="stroke:red", b="stroke:blue")
    assert "<defs>" in drawn(body.replace("L0 3.5", "L0 3.5L1 1"), a="stroke:red")


def test_names_are_short_shared_and_no_others_change():
    picture = "<svg><style>.s{0}{{fill:red}}.sbb{{fill:blue}}</style>"
    picture += '<path id="p{0}-0" class="s{0}"/><use href="#p{0}-0" class="sbb"/></svg>'
    page = f'<style>.seed{{x:y}}</style><p class="seed" id="page-1">{picture.format("aa")}{picture.format("cc")}'
    assert short_names(page) == (
        '<style>.seed{x:y}.A{fill:blue}.B{fill:red}.C{fill:red}</style><p class="seed" id="page-1">'
        '<svg><path id="A" class="B"/><use href="#A" class="A"/></svg>'
        '<svg><path id="B" class="C"/><use href="#B" class="A"/></svg>'
    )


def test_a_page_without_pictures_stays_as_it_is():
    page = "<style>p{x:y}</style><p>text</p>"
    assert short_names(page) == page
    assert grouped([], {}) == []
    assert [part.tag for part in grouped([Element("text")], {})] == ["text"]


# ---- in a browser ----

SIZED = "<!DOCTYPE html><meta charset=utf-8><style>:root { --paper: #fff; --line: #e5e5e5; --band: #f4f4f4; \
--soft: #6b6b6b; --warn: #a83a00; --plum: #882255; } body { margin: 0; } svg { display: block; width: 792px; \
height: auto; stroke-linejoin: round; } text { font-family: 'DejaVu Sans', sans-serif; }</style>"


def pixels(tab, path, svg):
    """A picture as a browser draws it, in grey."""
    path.write_text(SIZED + svg, encoding="utf-8")
    tab.events.clear()
    tab.open(path, 800)
    height = tab.run("document.querySelector('svg').getBoundingClientRect().height")
    clip = {"x": 0, "y": 0, "width": 792, "height": height, "scale": 1}
    data = tab.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("L"), dtype=float)


@pytest.mark.parametrize("name", ["tuning_described", "depth_described", "figure6", "graph_types_described"])
def test_a_short_picture_looks_as_matplotlib_drew_it(tmp_path, name):
    file = repository() / "figures" / f"{name}.svg"
    text = file.read_text(encoding="utf-8")
    inlined = short_names(f"<style></style>{picture(file.with_suffix(''), name)}")
    with chromium.browser(tmp_path / "profile") as port:
        tab = chromium.Tab(port)
        long = pixels(tab, tmp_path / "long.html", text[text.index("<svg") :])
        short = pixels(tab, tmp_path / "short.html", inlined)
        tab.socket.close()
    assert short.shape == long.shape
    height, width = (8 * (size // 8) for size in short.shape)
    apart = np.abs(short - long)[:height, :width].reshape(height // 8, 8, width // 8, 8).mean((1, 3))
    assert apart.max() < 60  # of 255, in squares of eight pixels: a mark that is missing or moved is more
