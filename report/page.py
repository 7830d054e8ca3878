"""The report: one page that works offline, with every figure, the published numbers, the claims and their verdicts."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup, escape

from pna.experiments import SPECS
from pna.figures.catalogue import FIGURES, TEACHING, Entry, files_of
from pna.figures.runs import Runs, runs_of
from pna.figures.style import budget_text
from pna.places import repository
from report import beyond, sections
from report.claims import Claim, Finding
from report.departures import departures
from report.links import Links
from report.markup import picture, render
from report.shorten import short_names
from report.summary import TITLE, opening
from report.tables import tables_of

__all__ = ["caption_of", "page"]

_READING = "**How to read it.** "


def page(profile: str, figures: Path, findings: Sequence[Finding], folder: Path) -> str:
    """The whole page as HTML, from the recorded results and drawn figures, with links relative to `folder`."""
    links = Links(folder)
    contents = {
        "claims": ("Claims", sections.claims(findings, links)),
        "method": ("How verdicts are made", sections.method()),
        "figures": ("Figures and tables", _figures(profile, figures, links)),
        "beyond": ("Beyond the paper: tests and verdicts", beyond.section(profile)),
        "departures": ("Departures", departures()),
        "theory-checks": ("Proofs and checks", sections.theory()),
        "curves": ("Learning curves", sections.learning(profile)),
        "speed": ("Speed", sections.speeds()),
        "provenance": ("Provenance", sections.provenance(profile)),
    }
    claims: dict[str, tuple[Claim, dict[str, None]]] = {}  # each claim with its verdicts
    for finding in findings:
        claims.setdefault(finding.claim.id, (finding.claim, {}))[1][finding.kind] = None
    whole = render(
        "page",
        title=TITLE,
        opening=opening(findings, profile),
        sections=contents,
        figures=FIGURES,
        claims=list(claims.values()),
    )
    return short_names(_spaced(str(whole)))


def _spaced(page: str) -> str:
    """The page with a no-break space before every percent sign that follows a number in its text."""
    parts = re.split(r"(<style>.*?</style>|<script>.*?</script>|<[^>]*>)", page, flags=re.S)
    parts[::2] = [re.sub(r"(?<=\d)(?:&nbsp;|\s)?%", "\N{NO-BREAK SPACE}%", text) for text in parts[::2]]
    return "".join(parts)


# ---- figures ----


def _figures(profile: str, figures: Path, links: Links) -> Markup:
    """The notebooks that teach, and every figure with its notebook, its caption, its pictures and tables."""
    lessons = {name.replace("-", " ").replace("pna", "PNA"): _notebook(name, figures, links) for name in TEACHING}
    return render(
        "figures",
        lessons={address: name for name, address in lessons.items() if address},
        figures=[_figure(name, entry, profile, figures, links) for name, entry in FIGURES.items()],
    )


def _figure(name: str, entry: Entry, profile: str, figures: Path, links: Links) -> dict[str, object]:
    """What the template shows of one figure: its notebook, caption, budgets, pictures and tables."""
    sides = [runs_of(name, spec, profile) for spec in SPECS] if entry.panels else []
    return {
        "name": name,
        "entry": entry,
        "notebook": _notebook(name, figures, links),
        "caption": caption_of(name),
        "budgets": [_budget(runs) for runs in sides],
        "files": [_file(file, entry, figures, links) for file in files_of(name)],
        "tables": tables_of(name, sides, profile),
    }


def _notebook(name: str, figures: Path, links: Links) -> str:
    """The address of an executed notebook's page; empty if there is none."""
    path = figures / "notebooks" / f"{name.replace('-', '_')}.html"
    return links.to(path) if path.exists() else ""


def _budget(runs: Runs) -> str:
    """A figure's budget in words, with the runs that diverged and the cells that are missing."""
    cells = len(runs.missing) + len(runs.recorded)
    missing = f"; {len(runs.missing)} of {cells} cells are not recorded" if runs.missing else ""
    return budget_text(runs) + runs.diverged + missing


def _file(file: str, entry: Entry, figures: Path, links: Links) -> dict[str, object]:
    """A picture, what it shows, and the address of its numbers if there are any."""
    shows, facts = entry.shows(file), figures / f"{file}.json"
    numbers = (links.to(facts), facts.name) if facts.exists() else None
    return {"picture": picture(figures / file, shows), "shows": shows, "numbers": numbers}


def caption_of(name: str) -> Markup:
    """How to read a figure: what its notebook says below the picture."""
    path = repository() / "notebooks" / f"{name.replace('-', '_')}.ipynb"
    if not path.exists():
        return Markup()
    cells = ("".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"])
    words = next(text for text in cells if text.startswith(_READING)).removeprefix(_READING)
    text = str(escape(words.replace("\n", " "))).replace("$\\log_{10}$", "log<sub>10</sub>")
    for pattern, tag in ((r"\$([^$]*)\$", "i"), (r"`([^`]*)`", "code"), (r"\*([^*]+)\*", "em")):
        text = re.sub(pattern, rf"<{tag}>\1</{tag}>", text)
    return Markup(text)
