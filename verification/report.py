"""The report of all checks, as Markdown and HTML, with the evidence of this run."""

import html
import os
import platform
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import flint
import sympy

from verification import slips
from verification.evidence import Row, rows, slip_rows

__all__ = ["write_report"]

HERE = Path(__file__).parent


def write_report(directory: Path = HERE) -> bool:
    """Run every check, write report.md and report.html, and return whether all hold."""
    found, outcomes = rows(), slip_rows()
    holds = all(row.verdict != "FAILS" for row in found) and all(ok for _, ok in outcomes)
    _write(directory / "report.md", "\n".join(_markdown(found, outcomes, holds)) + "\n")
    _write(directory / "report.html", "\n".join(_html(found, outcomes, holds)) + "\n")
    return holds


def _write(path: Path, text: str) -> None:
    """Write a text atomically: the file is there whole or not at all."""
    temporary = path.with_suffix(".partial")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


TITLE = "The paper's theory, and what evidence it has"
SLIPS_TITLE = "Slips and loose ends of the published proofs"
HEADER = ("statement", "kind of evidence", "range", "evidence", "verdict", "caveat")
SLIP_HEADER = ("where", "kind", "printed", "fails on", "repair", "checked")
PICTURES = {
    "figure1": "Figure 1: neighbourhoods that aggregators cannot tell apart.",
    "theory_five_reals": "The four aggregators at n = 5: a circle of middle values.",
    "theory_collisions": "Theorem 1: certified collisions.",
    "theory_round_trip": "Proposition 1 in floating point.",
    "theory_scalers": "Scalers over depth and degree.",
}


def _cells(found: list[Row]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each statement's row."""
    for row in found:
        kind = f"{row.kind}: {row.tool}" + (f"; {row.axioms}" if row.axioms else "")
        yield row.statement, kind, row.range, row.evidence, row.verdict, row.caveat


def _slip_cells(outcomes: list[tuple[slips.Slip, bool]]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each slip's row."""
    for slip, ok in outcomes:
        yield slip.where, slip.kind, slip.printed, slip.instance, slip.repair, "as said" if ok else "FAILS"


def _verdict(found: list[Row], outcomes: list, holds: bool) -> str:
    """The outcome in a few sentences: statements and slips by kind, whether anything fails, and the versions."""
    versions = f"Python {platform.python_version()}, python-flint {flint.__version__}, sympy {sympy.__version__}"
    counts = [f"{n} {kind}" for kind, n in Counter(row.kind for row in found).items()]
    kinds = [f"{n} {kind}{'s' * (n != 1)}" for kind, n in Counter(slip.kind for slip, _ in outcomes).items()]
    outcome = "Nothing fails." if holds else "**Something fails.**"
    return f"{len(found)} statements: {', '.join(counts)}; {', '.join(kinds)}. {outcome} ({versions})"


def _markdown(found: list[Row], outcomes: list, holds: bool) -> Iterator[str]:
    """Yield the parts of report.md."""
    yield f"# {TITLE}\n\nWritten by `python -m verification report`. {_verdict(found, outcomes, holds)}\n"
    yield from _markdown_table(HEADER, _cells(found))
    yield f"\n## {SLIPS_TITLE}\n"
    yield from _markdown_table(SLIP_HEADER, _slip_cells(outcomes))
    for name, caption in PICTURES.items():
        yield f"\n![{caption}](../figures/{name}.png)\n\n{caption}"


def _markdown_table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown, with | and * escaped."""
    yield "| " + " | ".join(header) + " |\n|" + " --- |" * len(header)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("*", "\\*") for cell in row) + " |"


STYLE = """body { font: 15px/1.4 sans-serif; max-width: 80em; margin: 2em auto; padding: 0 1em; color: #111; }
table { border-collapse: collapse; font-size: 13px; }
td, th { border: 1px solid #bbb; padding: 4px 7px; text-align: left; }
td { vertical-align: top; overflow-wrap: anywhere; min-width: 5em; } th { background: #eee; }
td.fails { background: #D55E00; color: white; } img { max-width: 100%; } figcaption { color: #444; }"""


def _html(found: list[Row], outcomes: list, holds: bool) -> Iterator[str]:
    """Yield the parts of report.html."""
    yield f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{TITLE}</title>\n<style>{STYLE}</style>'
    verdict = html.escape(_verdict(found, outcomes, holds).replace("**", ""))
    yield f"<h1>{TITLE}</h1>\n<p>Written by <code>python -m verification report</code>. {verdict}</p>"
    yield from _html_table(HEADER, _cells(found))
    yield f"<h2>{SLIPS_TITLE}</h2>"
    yield from _html_table(SLIP_HEADER, _slip_cells(outcomes))
    for name, caption in PICTURES.items():
        image = f'<img src="../figures/{name}.png" alt="{html.escape(caption)}">'
        yield f"<figure>{image}<figcaption>{html.escape(caption)}</figcaption></figure>"
    yield "</html>"


def _html_table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table in HTML; a cell that says FAILS is marked."""
    yield "<table>\n<tr>" + "".join(f"<th>{cell}</th>" for cell in header) + "</tr>"
    for row in rows:
        cells = (f'<td class="fails">{c}</td>' if c == "FAILS" else f"<td>{html.escape(c)}</td>" for c in row)
        yield "<tr>" + "".join(cells) + "</tr>"
    yield "</table>"
