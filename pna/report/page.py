"""The report: one self-contained HTML page with every figure, the published numbers, the claims and their verdicts."""

import base64
import html
import json
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pna.departures import DEPARTURES
from pna.experiments import SPECS
from pna.places import results_folder
from pna.report.beside import beside
from pna.report.claims import CLAIMS, VERDICTS, Finding
from pna.report.command import direction_of
from pna.report.draw import FIGURES, Entry, files_of
from pna.report.markup import Raw, badge, table
from pna.report.runs import Runs, runs_of
from pna.report.style import budget_text
from pna.report.theory import outcomes

__all__ = ["page"]

TITLE = "Principal Neighbourhood Aggregation, reproduced"


def page(profile: str, figures: Path, findings: Sequence[Finding]) -> str:
    """The whole page, from what is recorded and what is drawn."""
    parts = [
        f"<header><h1>{TITLE}</h1>{_summary(findings)}</header>",
        _contents(),
        *(_section(name, entry, profile, findings, figures) for name, entry in FIGURES.items()),
        _all_claims(findings),
        _specifications(),
        _provenance(profile),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{TITLE}</title>\n'
        f'<link rel="icon" href="data:,">\n<style>{_style()}</style>\n</head>\n<body>\n'
        + "\n".join(parts)
        + "\n</body>\n</html>"
    )


def _style() -> str:
    return resources.files("pna.report").joinpath("page.css").read_text(encoding="utf-8")


def _summary(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings)
    badges = " ".join(f"{badge(verdict)}&nbsp;{counts[verdict]}" for verdict in VERDICTS if counts[verdict])
    return (
        "<p>Every figure and table of the paper (Corso, Cavalleri, Beaini, Liò and Veličković, NeurIPS 2020), drawn "
        "again from this repository's runs, beside the published numbers, with a verdict for each claim. "
        "<b>Described</b> is what the paper says, <b>released</b> what the authors' code does; the published numbers "
        "come from the latter. A verdict on trainings is only given by the paper's full budget: ten seeds, up to "
        "10,000 epochs.</p>"
        f"<p>{len(CLAIMS)} claims, {len(findings)} verdicts: {badges}</p>"
    )


def _contents() -> str:
    links = [
        *((name, entry.title) for name, entry in FIGURES.items()),
        ("claims", "All claims"),
        ("specs", "Departures"),
    ]
    return "<nav>" + "".join(f'<a href="#{name}">{html.escape(text)}</a>' for name, text in links) + "</nav>"


# ---- one figure ----


def _section(name: str, entry: Entry, profile: str, findings: Sequence[Finding], figures: Path) -> str:
    parts = [f'<section id="{name}"><h2>{html.escape(entry.title)}</h2><p class="where">{entry.where}</p>']
    if entry.experiment:
        sides = [runs_of(entry.experiment, spec, profile) for spec in SPECS]
        parts += [_side_by_side(entry, sides, figures)]
    else:
        sides = []
        parts += [_picture(file, figures) for file in files_of(name)]
    parts += [beside(name, sides, profile)]
    if name == "theory":
        parts.append(_theory())
    own = [f for f in findings if (f.claim.experiment == entry.experiment and entry.experiment) or _belongs(f, name)]
    if own:
        parts += ["<h3>Claims</h3>", _claims_table(own)]
    return "\n".join([*filter(None, parts), "</section>"])


def _belongs(finding: Finding, name: str) -> bool:
    claim = finding.claim
    if claim.realworld:
        return name == "figure6"
    if claim.check:
        return name == ("figure1" if claim.id == "fails" else "theory")
    return (claim.id, name) in (("width", "figure2"), ("counts", "parameters"), ("baseline", "figure4")) or (
        claim.fact is not None and "parameters" in claim.sentence and name == "parameters" and claim.id != "counts"
    )


def _side_by_side(entry: Entry, sides: Sequence[Runs], figures: Path) -> str:
    """The first panel of both specifications beside each other; further ones are wide, and stand below."""
    (first, _), *others = entry.panels
    columns = "".join(f"<div>{_heading(runs)}{_picture(f'{first}_{runs.spec}', figures)}</div>" for runs in sides)
    below = "".join(_picture(f"{panel}_{runs.spec}", figures) for panel, _ in others for runs in sides)
    return f'<div class="specs">{columns}</div>{below}'


def _heading(runs: Runs) -> str:
    cells = len(runs.missing) + len(runs.found)
    missing = f"; {len(runs.missing)} of {cells} cells are not recorded" if runs.missing else ""
    return f'<h3>{runs.spec}</h3><p class="soft">{html.escape(budget_text(runs))}{missing}</p>'


def _picture(name: str, figures: Path) -> str:
    path = figures / f"{name}.png"
    if not path.exists():
        return f'<p class="soft">{html.escape(name)} is not drawn yet.</p>'
    image = base64.b64encode(path.read_bytes()).decode()
    facts = figures / f"{name}.json"
    note = " Numbers: " + f"<code>{facts.name}</code>." if facts.exists() else ""
    alt = html.escape(name.replace("_", " "))
    return (
        f'<figure><img alt="{alt}" src="data:image/png;base64,{image}"><figcaption>{alt}.{note}</figcaption></figure>'
    )


# ---- claims, theory, foot ----


def _claims_table(findings: Sequence[Finding]) -> str:
    rows = []
    for finding in findings:
        evidence = finding.evidence + (
            f" [{finding.budget}]" if finding.budget and finding.outcome != "no runs" else ""
        )
        verdict = Raw(badge(finding.verdict) + html.escape(direction_of(finding)))
        rows.append((verdict, finding.claim.sentence, finding.spec or "–", finding.claim.where, evidence))
    classes = {1: "claim", 4: "evidence"}
    return table(("verdict", "claim", "spec", "where", "test"), rows, classes, stacked=True)


def _all_claims(findings: Sequence[Finding]) -> str:
    words = '<p class="soft">Also: <code>python -m pna claims</code>.</p>'
    return f'<section id="claims"><h2>All claims</h2>{words}{_claims_table(findings)}</section>'


def _theory() -> str:
    rows = [(row.statement, row.method, row.range, row.status, row.evidence, row.caveat) for row in outcomes()]
    header = ("statement", "method", "range", "status", "evidence", "caveat")
    return "<h3>Status of the theory</h3>" + table(header, rows, {0: "claim", 4: "evidence"}, stacked=True)


def _specifications() -> str:
    rows = [(d.id, d.described, d.released) for d in DEPARTURES]
    rows += [
        ("D5", "max and min aggregate M(x_i, x_j)", "they aggregate M(x_j, x_i): the two roles swapped"),
        ("D6", "attention over the neighbours on (x_i, x_j)", "logits pair other nodes, normalised over receivers"),
        ("D7", "batch normalisation over features", "over node positions where N equals the hidden size"),
        ("init", "not said", "Xavier-uniform with gain 1/in, zero bias"),
        ("outputs", "not said", "a LeakyReLU after the last layer of both heads"),
    ]
    body = table(("departure", "described", "released"), rows)
    return f'<section id="specs"><h2>Where the released code departs from the paper</h2>{body}</section>'


def _provenance(profile: str) -> str:
    packages = ", ".join(f"{name} {_version(name)}" for name in ("torch", "torch_geometric", "numpy", "matplotlib"))
    count = sum(1 for _ in results_folder().rglob("*.json"))
    codes = sorted({facts["code"][:12] for facts in _recorded() if facts.get("code")})
    devices = sorted({facts["device"] for facts in _recorded() if facts.get("device")})
    return (
        "<footer><h2>Provenance</h2><p class='soft'>"
        f"Made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC with Python {platform.python_version()}, {packages}, "
        f"profile {html.escape(profile)}, from {count} recorded cells (devices: {', '.join(devices) or 'none'}; hashes "
        f"of the code that trained them: {', '.join(codes) or 'none'}). Each figure has a sidecar JSON with the "
        "numbers drawn and the cells used, and each cell a JSON under results/ with its configuration, its hash and "
        "its versions.</p></footer>"
    )


def _recorded() -> Iterable[dict]:
    for path in results_folder().rglob("*.json"):
        yield json.loads(path.read_text(encoding="utf-8"))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
