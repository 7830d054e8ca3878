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
from verification.checks import EXACT, INTERVAL, MEASURED, SAMPLED
from verification.evidence import NOT_RECORDED, PROVED, Row, rows, slip_rows

__all__ = ["write_report"]

HERE = Path(__file__).parent


def write_report(directory: Path = HERE) -> bool:
    """Run every check, write report.md and report.html, and return whether all hold."""
    statements, outcomes = rows(), slip_rows()
    holds = all(row.verdict != "FAILS" for row in statements) and all(ok for _, ok in outcomes)
    _write(directory / "report.md", "\n".join(_markdown(statements, outcomes, holds)) + "\n")
    _write(directory / "report.html", "\n".join(_html(statements, outcomes, holds)) + "\n")
    return holds


def _write(path: Path, text: str) -> None:
    """Write a text atomically: the file is there whole or not at all."""
    temporary = path.with_suffix(".partial")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


TITLE = "The paper's theory and the evidence for it"
SLIPS_TITLE = "Slips and loose ends of the published proofs"
HEADER = ("statement", "kind of evidence", "range", "evidence", "verdict", "caveat")
SLIP_HEADER = ("where", "kind", "printed", "what is wrong", "repair", "checked in this run")
PICTURES = {
    "figure1": "Figure 1: neighbourhoods that aggregators cannot tell apart.",
    "theory_five_reals": "The four aggregators at n = 5: multisets that agree on them form a circle of middle values.",
    "theory_collisions": "Theorem 1: certified collisions of n - 1 aggregators.",
    "theory_round_trip": "Proposition 1 in floating point: how well a multiset comes back from its moments.",
    "theory_scalers": "How much scalers amplify over depth and degree.",
}


def _cells(statements: list[Row]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each statement's row."""
    for row in statements:
        kind = f"{row.kind}: {row.tool}" + (f"; {row.axioms}" if row.axioms else "")
        yield row.statement, kind, row.range, row.evidence, row.verdict, row.caveat


def _slip_cells(outcomes: list[tuple[slips.Slip, bool]]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each slip's row."""
    for slip, ok in outcomes:
        yield slip.where, slip.kind, slip.printed, slip.instance, slip.repair, "confirmed" if ok else "FAILS"


def _verdict(statements: list[Row], outcomes: list, holds: bool) -> str:
    """The outcome in a few sentences: statements and slips by kind, whether anything fails, and the versions."""
    versions = f"Python {platform.python_version()}, python-flint {flint.__version__}, sympy {sympy.__version__}"
    counts = [f"{n} {_IN_WORDS.get(kind, kind)}" for kind, n in Counter(row.kind for row in statements).items()]
    kinds = [f"{n} {kind}{'s' * (n != 1)}" for kind, n in Counter(slip.kind for slip, _ in outcomes).items()]
    outcome = "No check fails." if holds else "**Some checks fail.**"
    return (
        f"Of {len(statements)} statements, {_listed(counts)}. The printed text has {_listed(kinds)}. {outcome} The "
        f"checks ran with {versions}."
    )


_IN_WORDS = {
    EXACT: "are computed exactly",
    INTERVAL: "are certified by intervals",
    MEASURED: "are measured",
    NOT_RECORDED: "have no recorded proof",
    PROVED: "are proved formally",
    SAMPLED: "are sampled",
}


def _listed(parts: list[str]) -> str:
    """The parts as one phrase, with "and" before the last."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def _markdown(statements: list[Row], outcomes: list, holds: bool) -> Iterator[str]:
    """Yield the parts of report.md."""
    yield f"# {TITLE}\n\nWritten by `python -m verification report`. {_verdict(statements, outcomes, holds)}\n"
    yield from _markdown_table(HEADER, _cells(statements))
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


def _html(statements: list[Row], outcomes: list, holds: bool) -> Iterator[str]:
    """Yield the parts of report.html."""
    yield f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{TITLE}</title>\n<style>{STYLE}</style>'
    verdict = html.escape(_verdict(statements, outcomes, holds).replace("**", ""))
    yield f"<h1>{TITLE}</h1>\n<p>Written by <code>python -m verification report</code>. {verdict}</p>"
    yield from _html_table(HEADER, _cells(statements))
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
