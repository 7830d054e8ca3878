"""Writes the report of all checks, as Markdown and HTML, with the evidence and the time of this run."""

import html
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import flint
import sympy

from verification import slips
from verification.checks import CHECKS, MEASURED, Check

__all__ = ["Result", "write_report"]

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Result:
    """A row with its outcome."""

    check: Check
    evidence: str
    status: str
    seconds: float


def write_report(directory: Path = HERE) -> bool:
    """Runs every check, writes report.md and report.html, and returns whether all hold."""
    results = [_run(check) for check in CHECKS]
    outcomes = [(slip, slip.fails() and slip.holds()) for slip in slips.SLIPS]
    holds = all(result.status != "FAILS" for result in results) and all(ok for _, ok in outcomes)
    _write(directory / "report.md", "\n".join(_markdown(results, outcomes, holds)) + "\n")
    _write(directory / "report.html", "\n".join(_html(results, outcomes, holds)) + "\n")
    return holds


def _run(check: Check) -> Result:
    start = time.perf_counter()
    try:
        evidence, status = check.evidence(), MEASURED if check.method == MEASURED else "holds"
    except Exception as error:  # a report says what failed, and goes on
        evidence, status = f"{type(error).__name__}: {error}", "FAILS"
    return Result(check, evidence, status, time.perf_counter() - start)


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".partial")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


TITLE = "The paper's theory, machine-checked"
CHECK_HEADER = ("statement", "method", "range checked", "evidence", "status", "caveat", "time")
SLIP_HEADER = ("where", "kind", "printed", "fails on", "repair", "status")
PICTURES = {
    "figure1": "Figure 1: neighbourhoods that aggregators cannot tell apart.",
    "theory_five_reals": "The four aggregators at n = 5: a circle of middle values.",
    "theory_collisions": "Theorem 1: certified collisions.",
    "theory_round_trip": "Proposition 1 in floating point.",
    "theory_scalers": "Scalers over depth and degree.",
}


def _rows(results: list[Result]) -> Iterator[tuple[str, ...]]:
    for r in results:
        c = r.check
        yield c.statement, c.method, c.range, r.evidence, r.status, c.caveat, f"{r.seconds:.2f} s"


def _slip_rows(outcomes: list[tuple[slips.Slip, bool]]) -> Iterator[tuple[str, ...]]:
    for slip, ok in outcomes:
        yield slip.where, slip.kind, slip.printed, slip.instance, slip.repair, "repaired" if ok else "FAILS"


def _verdict(results: list[Result], outcomes: list, holds: bool) -> str:
    versions = f"Python {platform.python_version()}, python-flint {flint.__version__}, sympy {sympy.__version__}"
    good = sum(r.status == "holds" for r in results)
    measured = sum(r.status == MEASURED for r in results)
    outcome = "Nothing fails." if holds else "**Something fails.**"
    counts = f"{good} of {len(results)} statements hold, {measured} is a measurement; {len(outcomes)} slips"
    return f"{counts}. {outcome} ({versions})"


def _markdown(results: list[Result], outcomes: list, holds: bool) -> Iterator[str]:
    yield f"# {TITLE}\n\nWritten by `python -m verification report`. {_verdict(results, outcomes, holds)}\n"
    yield from _markdown_table(CHECK_HEADER, _rows(results))
    yield "\n## Slips in the published proofs\n"
    yield from _markdown_table(SLIP_HEADER, _slip_rows(outcomes))
    for name, caption in PICTURES.items():
        yield f"\n![{caption}](../figures/{name}.png)\n\n{caption}"


def _markdown_table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |\n|" + " --- |" * len(header)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("*", "\\*") for cell in row) + " |"


STYLE = """body { font: 15px/1.4 sans-serif; max-width: 80em; margin: 2em auto; padding: 0 1em; color: #111; }
table { border-collapse: collapse; font-size: 13px; }
td, th { border: 1px solid #bbb; padding: 4px 7px; text-align: left; }
td { vertical-align: top; overflow-wrap: anywhere; min-width: 5em; } th { background: #eee; }
td.fails { background: #D55E00; color: white; } img { max-width: 100%; } figcaption { color: #444; }"""


def _html(results: list[Result], outcomes: list, holds: bool) -> Iterator[str]:
    yield f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{TITLE}</title>\n<style>{STYLE}</style>'
    verdict = html.escape(_verdict(results, outcomes, holds).replace("**", ""))
    yield f"<h1>{TITLE}</h1>\n<p>Written by <code>python -m verification report</code>. {verdict}</p>"
    yield from _html_table(CHECK_HEADER, _rows(results))
    yield "<h2>Slips in the published proofs</h2>"
    yield from _html_table(SLIP_HEADER, _slip_rows(outcomes))
    for name, caption in PICTURES.items():
        image = f'<img src="../figures/{name}.png" alt="{html.escape(caption)}">'
        yield f"<figure>{image}<figcaption>{html.escape(caption)}</figcaption></figure>"
    yield "</html>"


def _html_table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield "<table>\n<tr>" + "".join(f"<th>{cell}</th>" for cell in header) + "</tr>"
    for row in rows:
        cells = (f'<td class="fails">{c}</td>' if c == "FAILS" else f"<td>{html.escape(c)}</td>" for c in row)
        yield "<tr>" + "".join(cells) + "</tr>"
    yield "</table>"
