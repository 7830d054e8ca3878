"""The documentation: built without a warning, no dead link, nothing from elsewhere, every page opened in a browser."""

import os
import re
import subprocess
import sys
from html import unescape
from urllib.parse import unquote

import pytest

from pna.figures.catalogue import NOTEBOOKS
from tests.report import chromium
from tests.workflow.conftest import ROOT

PATTERN = re.compile(r'<(\w+)\b[^>]*?\s(?:href|src)="([^"]*)"')


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


def pages(site):
    return sorted(path for path in site.rglob("*.html") if path.name != "404.html")


def links(page):
    """(tag, address) of everything that a page refers to."""
    return [(tag, unescape(address)) for tag, address in PATTERN.findall(page.read_text(encoding="utf-8"))]


def test_it_has_the_hand_written_pages_the_notebooks_and_the_report(site):
    names = {path.relative_to(site).as_posix() for path in pages(site)}
    assert {f"figures/notebooks/{name.replace('-', '_')}.html" for name in NOTEBOOKS} <= names
    assert {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in ROOT.glob("docs/**/*.md")
    } <= names
    assert {"figures/report.html", "contributing.html"} <= names


def test_every_link_leads_somewhere(site):
    ids = {page: set(re.findall(r'\s(?:id|name)="([^"]+)"', page.read_text(encoding="utf-8"))) for page in pages(site)}
    dead = []
    for page in ids:
        for _, address in links(page):
            path, _, anchor = unquote(address).partition("#")
            if re.match(r"[a-z]+:", path) or anchor.startswith("verdict="):  # a filter of the report
                continue
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and target in ids and anchor not in ids[target] | {"__skip", "main"}):
                dead.append(f"{page.relative_to(site)}: {address}")
    assert not dead, dead


def test_the_report_leads_back_and_colours_can_be_chosen(site):
    assert '<a class="home" href="../index.html">' in (site / "figures" / "report.html").read_text(encoding="utf-8")
    index = (site / "index.html").read_text(encoding="utf-8")
    schemes = re.findall(r'data-md-color-media="([^"]*)"', index)
    assert schemes == [f"(prefers-color-scheme{scheme})" for scheme in ("", ": light", ": dark")]
    assert index.count('<label class="md-header__button md-icon" title=') == 3


def test_nothing_is_fetched_from_elsewhere(site):
    for page in pages(site):
        assert not [address for tag, address in links(page) if tag != "a" and "://" in address], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:|@import", style.read_text(encoding="utf-8")), style


def test_every_page_opens_in_a_browser_and_fits_a_phone_and_a_screen(site, tmp_path):
    wrong = {}
    with chromium.browser(tmp_path / "profile") as port:
        for page in pages(site):
            for seen in chromium.look(page, port, 1280, 390):
                fits = seen["width"] <= seen["asked"] and all(loaded for _, loaded in seen["images"]) and seen["title"]
                if seen["errors"] or not fits:
                    wrong[page.relative_to(site).as_posix()] = seen
    assert not wrong, wrong


def test_search_finds_a_page_without_a_server(site, tmp_path):
    with chromium.browser(tmp_path / "profile") as port:
        tab = chromium.Tab(port)
        tab.open(site / "index.html", 1280)
        found = tab.run(
            """new Promise(done => {
              document.querySelector("[for=__search]").click()
              const field = document.querySelector("[data-md-component=search-query]")
              field.value = "attenuation"
              field.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}))
              let tries = 0
              const look = () => {
                const link = document.querySelector(".md-search-result__link")
                if (link || ++tries > 1000) done(link ? link.getAttribute("href") : "")
                else setTimeout(look, 100)
              }
              look()
            })"""
        )
        tab.socket.close()
    assert "html" in found
