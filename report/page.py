"""The report: one page that works offline, with every figure, the published numbers, the claims and their verdicts."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from pna.experiments import SPECS
from pna.figures.catalogue import FIGURES, TEACHING, Entry, files_of
from pna.figures.runs import Runs, runs_of
from pna.figures.style import budget_text
from pna.places import repository
from report import sections
from report.claims import Finding
from report.departures import departures
from report.markup import escape, fold, link, picture
from report.summary import TITLE, opening
from report.tables import beside

__all__ = ["caption_of", "page"]

_READING = "**How to read it.** "
_CONTENTS = {
    "claims": "Claims",
    "method": "How verdicts are made",
    "figures": "Figures and tables",
    "departures": "Departures",
    "theory-checks": "Theory",
    "curves": "Learning curves",
    "speed": "Speed",
    "provenance": "Provenance",
}


def page(profile: str, figures: Path, findings: Sequence[Finding], folder: Path) -> str:
    """The whole page, from what is recorded and what is drawn, to stand in a folder."""
    links = sections.Links(folder)
    contents = {
        "claims": sections.claims(findings, links),
        "method": sections.method(),
        "figures": _teaching(figures, links)
        + "\n".join(_figure(name, entry, profile, figures, links) for name, entry in FIGURES.items()),
        "departures": departures(),
        "theory-checks": sections.theory(),
        "curves": sections.learning(profile),
        "speed": sections.speeds(),
        "provenance": sections.provenance(profile),
    }
    folded = "\n".join(fold(name, _CONTENTS[name], body, opened=name == "claims") for name, body in contents.items())
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{TITLE}</title>\n'
        f'<link rel="icon" href="data:,">\n<style>{_asset("page.css")}</style>\n</head>\n<body>\n'
        f'<a class="skip" href="#main">To the content</a>\n{_contents()}\n'
        f'<main id="main">\n{opening(findings, profile)}\n{folded}\n</main>\n'
        f'<div id="tip" role="status" hidden></div>\n<script>{_asset("page.js")}</script>\n</body>\n</html>'
    )


def _asset(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def _contents() -> str:
    """Stays in view: a column beside the page, on a phone a bar that unfolds."""
    below = "".join(f'<li><a href="#{name}">{escape(entry.title)}</a></li>' for name, entry in FIGURES.items())
    items = []
    for name, title in _CONTENTS.items():
        inner = f"<ul>{below}</ul>" if name == "figures" else ""
        items.append(f'<li><a href="#{name}">{escape(title)}</a>{inner}</li>')
    return f'<nav aria-label="Contents"><details><summary>Contents</summary><ul>{"".join(items)}</ul></details></nav>'


# ---- notebooks, executed, as pages ----


def _notebook(name: str, words: str, figures: Path, links: sections.Links) -> str:
    """A link to the page of a notebook, if there is one."""
    page = figures / "notebooks" / f"{name.replace('-', '_')}.html"
    return link(links.to(page), words) if page.exists() else ""


def _teaching(figures: Path, links: sections.Links) -> str:
    pages = [_notebook(name, name.replace("-", " ").replace("pna", "PNA"), figures, links) for name in TEACHING]
    return f'<p class="soft">Notebooks that teach: {", ".join(filter(None, pages))}.</p>' if any(pages) else ""


# ---- one figure ----


def _figure(name: str, entry: Entry, profile: str, figures: Path, links: sections.Links) -> str:
    sides = [runs_of(name, spec, profile) for spec in SPECS] if entry.panels else []
    pictures = "".join(_picture(file, entry, figures, links) for file in files_of(name))
    budget = "".join(f'<p class="soft">{escape(_budget(runs))}</p>' for runs in sides)
    caption = caption_of(name)
    words = f'<p class="reading">{caption}</p>' if caption else ""
    return (
        f'<section id="{name}" aria-labelledby="{name}-title"><h3 id="{name}-title">{escape(entry.title)} '
        f'<span class="soft">{escape(entry.where)} {_notebook(name, "notebook", figures, links)}</span></h3>'
        f'{words}{budget}<div class="pictures">{pictures}</div>{beside(name, sides, profile)}</section>'
    )


def _budget(runs: Runs) -> str:
    cells = len(runs.missing) + len(runs.found)
    missing = f"; {len(runs.missing)} of {cells} cells are not recorded" if runs.missing else ""
    return budget_text(runs) + runs.diverged + missing


def _picture(file: str, entry: Entry, figures: Path, links: sections.Links) -> str:
    shows = entry.shows(file)
    facts = figures / f"{file}.json"
    numbers = f" {link(links.to(facts), facts.name)}" if facts.exists() else ""
    return f"<figure>{picture(figures / file, shows)}<figcaption>{escape(shows)}.{numbers}</figcaption></figure>"


def caption_of(name: str) -> str:
    """How to read a figure: what its notebook says below the picture, as HTML."""
    path = repository() / "notebooks" / f"{name.replace('-', '_')}.ipynb"
    if not path.exists():
        return ""
    cells = ("".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"])
    words = next(text for text in cells if text.startswith(_READING)).removeprefix(_READING)
    text = escape(words.replace("\n", " ")).replace("$\\log_{10}$", "log<sub>10</sub>")
    text = re.sub(r"\$([^$]*)\$", lambda found: f"<i>{found[1]}</i>", text)
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", text)
