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
STYLE = """
@page { size: A4; margin: 15mm 18mm; }
body { font: 9.6pt/1.36 system-ui, "Liberation Sans", Arial, sans-serif; color: #1b1b1b; margin: 0; }
h1 { font-size: 16pt; margin: 0 0 2mm; } h2 { font-size: 11pt; margin: 3.6mm 0 0.8mm; color: #A83A00; }
p { margin: 0; } ul { margin: 0; padding-left: 4.5mm; } li { margin: 0.4mm 0; } a { color: inherit; }
"""


def main(source: str, pdf: str) -> int:
    """Print the page, unless the one that is there was made from the same text."""
    text, path = Path(source).read_text(encoding="utf-8"), Path(pdf)
    key = f"% made from {hashlib.sha256(f'{text}{STYLE}'.encode()).hexdigest()[:16]}\n".encode()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path.exists() and (browser is None or path.read_bytes().endswith(key)):
        path.touch()
        return 0
    if browser is None:
        print("summary.py: needs Chromium to print a PDF; on Debian: apt-get install chromium", file=sys.stderr)
        return 1
    content = _printed(browser, _page(text))
    if pages(content) != 1:
        print(f"summary.py: {source} must fit one page, and takes {pages(content)}", file=sys.stderr)
        return 1
    write_whole(path, lambda file: file.write(content + key))
    return 0


def pages(content: bytes) -> int:
    """The number of pages of a PDF that Chromium wrote."""
    return len(re.findall(rb"/Type\s*/Page\b", content))


def _page(text: str) -> str:
    """The HTML of a Markdown text, with the style of the printed page."""
    title = html.escape(text.splitlines()[0].removeprefix("# "))
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
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
