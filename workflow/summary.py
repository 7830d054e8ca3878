"""`summary.py SOURCE PDF`: prints docs/summary.md as a PDF of one page, with a headless Chromium.

Without Chromium, or from the same source as before, a PDF that is there stays as it is.
"""

import hashlib
import html
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import mistune

from pna.files import write_whole

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SIZES = (9.6, 9.2, 8.8, 8.4, 8.0)  # of letters, in points: the largest that fits with the fonts of this machine
STYLE = """
@page { size: A4; margin: 15mm 18mm; }
body { font: 1em/1.36 "Liberation Sans", Arial, Helvetica, sans-serif; color: #1b1b1b; margin: 0; }
h1 { font-size: 1.67em; margin: 0 0 2mm; } h2 { font-size: 1.15em; margin: 3.6mm 0 0.8mm; color: #A83A00; }
p { margin: 0; } ul { margin: 0; padding-left: 4.5mm; } li { margin: 0.4mm 0; } a { color: inherit; }
"""


def main(source: str, pdf: str) -> int:
    """Print the page, unless the one that is there was made from the same text."""
    text, path = Path(source).read_text(encoding="utf-8"), Path(pdf)
    key = mark(text)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path.exists() and (browser is None or path.read_bytes().endswith(key)):
        path.touch()
        return 0
    if browser is None:
        print("summary.py: needs Chromium to print a PDF; on Debian: apt-get install chromium", file=sys.stderr)
        return 1
    printed = (_printed(browser, _page(text, size)) for size in SIZES)
    content = next((one for one in printed if pages(one) == 1), None)
    if content is None:
        print(f"summary.py: {source} must fit one page, and does not with letters of {SIZES[-1]} pt", file=sys.stderr)
        return 1
    write_whole(path, lambda file: file.write(content + key))
    return 0


def mark(text: str) -> bytes:
    """The last line of the PDF of a text, by which another text or style is noticed."""
    return f"% made from {hashlib.sha256(f'{text}{STYLE}'.encode()).hexdigest()[:16]}\n".encode()


def pages(content: bytes) -> int:
    """The number of pages of a PDF that Chromium wrote."""
    return len(re.findall(rb"/Type\s*/Page\b", content))


def _page(text: str, size: float) -> str:
    """The HTML of a Markdown text, with the style of the printed page and letters of a size in points."""
    title = html.escape(text.splitlines()[0].removeprefix("# "))
    head = f'<meta charset="utf-8"><title>{title}</title><style>html {{ font-size: {size}pt; }}{STYLE}</style>'
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{mistune.html(text)}</body></html>'


def _printed(browser: str, page: str) -> bytes:
    """The PDF of an HTML page, printed by a headless browser."""
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch, "summary.html"), Path(scratch, "summary.pdf")
        source.write_text(page, encoding="utf-8")
        words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
        words += [f"--user-data-dir={scratch}/profile", f"--print-to-pdf={target}", source.as_uri()]
        subprocess.run(words, check=True, capture_output=True, timeout=300)
        return target.read_bytes()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
