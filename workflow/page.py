"""`page.py EXECUTED PAGE`: an executed notebook as an HTML page that needs neither Jupyter nor a network.

Formulas become MathML, which browsers draw by themselves. Pictures that are drawn to figures/ are not stored twice: the
page stands in figures/notebooks/ and links to them. All pages share one style sheet in their folder.
"""

import base64
import hashlib
import html
import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import mistune
from latex2mathml.converter import convert
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

import pna
from pna.files import write_whole
from pna.places import results_folder

PACKAGE = Path(pna.__file__).parent  # only its files are read: importing torch would take longer than the page
MARKDOWN = mistune.create_markdown(escape=False, plugins=["table"])
CODE = HtmlFormatter(nowrap=True)
CODE_FILES = (".py", ".cu", ".cuh", ".json")
STYLE_SHEET = PACKAGE.parent / "report" / "templates" / "page.css"  # the report's
SHARED = "style.css"
STYLE = """
body { display: block !important; } main { max-width: 54rem; } h1 { margin-top: 1rem; }
h2 { display: block; margin: 1.8rem 0 0.4rem; }
pre { overflow-x: auto; background: var(--band); padding: 0.6rem 0.8rem; font-size: 0.85rem; line-height: 1.4; }
pre.said { background: none; border-left: 3px solid var(--line); } img { max-width: 100%; background: #fff; }
.highlight .c1 { color: var(--soft); } .highlight :is(.k, .kn, .ow, .kc) { color: var(--link); }
.highlight :is(.s1, .s2, .sa, .si, .sd, .mi, .mf) { color: var(--warn); }
math[display=block] { overflow-x: auto; overflow-y: hidden; padding: 0.3rem 0; }
"""


def main(executed: str, page: str) -> int:
    """Write the page, unless the one that is there was made from the same sources and results.

    A page also stays if only the code has changed since and the new one would say the same: what a cell prints and
    draws differs in its last bits from machine to machine.
    """
    cells = json.loads(Path(executed).read_text(encoding="utf-8"))["cells"]
    style, shared = STYLE_SHEET.read_bytes() + STYLE.encode(), Path(page).with_name(SHARED)
    if not shared.exists() or shared.read_bytes() != style:
        write_whole(shared, lambda file: file.write(style))
    results = _hash_of(sorted(results_folder().rglob("*.json")))
    key = f"<!-- made from {_source_hash(cells)} and {results} -->\n"
    before = Path(page).read_text(encoding="utf-8") if Path(page).exists() else ""
    same_results = (mark := re.search(_MARK, before)) and mark[1] in (None, results)
    if before.endswith(key) or (same_results and says_the_same(before, render(cells))):
        Path(page).touch()
    else:
        write_whole(Path(page), lambda file: file.write((render(cells) + key).encode()))
    return 0


_MARK = r"<!-- made from \w+(?: and (\w+))? -->\s*$"


_NUMBER = r"[-−+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?"
_TIME = rf"{_NUMBER}(?= ?(?:s|ms|µs|seconds?|minutes?|times as fast)\b)"
_PIXELS = r"data:image/png;base64,[\w+/=]+"


def says_the_same(before: str, after: str) -> bool:
    """Whether two pages differ in nothing but times, pixels, and numbers within a hundredth."""
    words, numbers = zip(*map(_taken_apart, (before, after)), strict=True)
    return words[0] == words[1] and all(
        math.isclose(one, other, rel_tol=0.01, abs_tol=1e-3) for one, other in zip(*numbers, strict=True)
    )


def _taken_apart(page: str) -> tuple[list[str], list[float]]:
    """The words of a page, without the mark of what it was made from, and the numbers that its cells print."""
    page = re.sub(_MARK, "", page)
    printed, numbers = re.compile(r'(<pre class="said".*?</pre>)', re.S), []

    def number(match: re.Match) -> str:
        numbers.append(float(match[0].replace(",", "").replace("−", "-")))
        return "#"

    words = []
    for k, part in enumerate(printed.split(re.sub(_PIXELS, "", page))):
        words.append(re.sub(r"\s+", " ", re.sub(_NUMBER, number, re.sub(_TIME, "", part)) if k % 2 else part))
    return words, numbers


def _source_hash(cells: list[dict]) -> str:
    """A hash of the code that decides what a page shows: the notebook's cells, the package and the style sheet."""
    shown = (cell for cell in cells if "injected-parameters" not in cell["metadata"].get("tags", []))
    code = sorted(path for path in PACKAGE.rglob("*") if path.suffix in CODE_FILES)
    return _hash_of([Path(__file__), STYLE_SHEET, *code], "".join(text for cell in shown for text in cell["source"]))


def _hash_of(paths: list[Path], text: str = "") -> str:
    """The first 16 digits of SHA-256 over a text and the contents of files."""
    digest = hashlib.sha256(text.encode())
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def render(cells: list[dict]) -> str:
    """The whole page of a notebook's cells, as HTML."""
    title = "".join(cells[0]["source"]).splitlines()[0]
    body = "\n".join(part for cell in cells for part in _cell(cell))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title.removeprefix('# '))}</title>\n"
        f'<link rel="icon" href="data:,">\n<link rel="stylesheet" href="{SHARED}">\n</head>\n'
        f'<body>\n<main id="main">\n{body}\n</main>\n</body>\n</html>\n'
    )


def _cell(cell: dict) -> Iterator[str]:
    """Yield the HTML of a cell: Markdown, or code and its outputs; nothing for parameters that papermill injected."""
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield marked(text)
    elif "injected-parameters" not in cell["metadata"].get("tags", []):
        yield f'<pre class="highlight" tabindex="0"><code>{highlight(text, PythonLexer(), CODE)}</code></pre>'
        yield from (_output(output) for output in cell["outputs"])


def joined(outputs: list[dict]) -> list[dict]:
    """The outputs of a cell, with all that goes to one stream between two displays joined to its first piece."""
    pieces: list[dict] = []
    streams: dict[str, dict] = {}
    for output in outputs:
        if output["output_type"] != "stream":
            streams = {}
            pieces.append(output)
        elif (stream := streams.get(output["name"])) is not None:
            stream["text"] = "".join([*stream["text"], *output["text"]])
        else:
            streams[output["name"]] = dict(output)
            pieces.append(streams[output["name"]])
    return pieces


def marked(text: str) -> str:
    """Markdown with formulas between dollars as HTML; a table can be scrolled."""
    text = re.sub(r"\$\$(.+?)\$\$", lambda match: formula(match[1], "block"), text, flags=re.DOTALL)
    text = re.sub(r"\$([^$]+)\$", lambda match: formula(match[1], "inline"), text)
    return re.sub(
        r"(<table>.*?</table>)", r'<div class="scroll" tabindex="0">\1</div>', MARKDOWN(text), flags=re.DOTALL
    )


def formula(latex: str, display: str) -> str:
    """A formula as MathML, on one line."""
    return convert(" ".join(latex.split()), display=display).replace("\n", " ")


def _output(output: dict) -> str:
    """The HTML of an output: printed text, a picture, a table or Markdown; empty for any other kind."""
    if output["output_type"] == "stream":
        return _said("".join(output["text"])) if output["name"] == "stdout" else ""
    data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
    if "text/html" in data:
        return _linked(data["text/html"])
    if "image/png" in data:
        encoded = base64.b64encode(base64.b64decode(data["image/png"])).decode()
        return f'<img alt="What the cell above draws" src="data:image/png;base64,{encoded}">'
    if "text/markdown" in data:
        return marked(data["text/markdown"])
    return _said(data["text/plain"]) if "text/plain" in data else ""


def _said(text: str) -> str:
    """The HTML of printed text."""
    return f'<pre class="said" tabindex="0">{html.escape(text.rstrip())}</pre>'


def _linked(text: str) -> str:
    """The HTML that `draw` shows, with links to the files in place of their contents."""
    return re.sub(r'<img alt="([^"]*)" data-file="([^"]*)"[^>]*>', r'<img alt="\1" src="../\2.png">', text)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
