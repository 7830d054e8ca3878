"""`notebook.py SOURCE EXECUTED PAGE [OPTIONS OF PAPERMILL]`: executes a notebook, and makes its page."""

import json
import sys
from itertools import pairwise
from pathlib import Path

import page

from pna.files import write_whole


def main(source: str, executed: str, to: str, *options: str) -> int:
    """Execute a notebook and make its page.

    A cell that fails raises papermill's error, which shows the cell; then no page is made. Of the parameters in
    `options` (-p NAME VALUE), the notebook gets those that it has.
    """
    sys.modules["rfc3987_syntax"] = None  # jsonschema takes seconds to prepare for addresses, and here are none
    from papermill.cli import papermill

    papermill([source, executed, *_understood(source, options)], standalone_mode=False)
    _join_streams(Path(executed))
    return page.main(executed, to)


def _join_streams(executed: Path) -> None:
    """Put what a cell prints between two displays into one piece for each stream, however the kernel sent it."""
    notebook = json.loads(executed.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = page.joined(cell["outputs"])
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    write_whole(executed, lambda file: file.write(text.encode()))


def _understood(source: str, options: tuple[str, ...]) -> list[str]:
    """The options without the parameters (-p NAME VALUE) that the notebook does not have."""
    cells = json.loads(Path(source).read_text(encoding="utf-8"))["cells"]
    tagged = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    names = {line.partition(" = ")[0] for text in tagged for line in text.splitlines()}
    others = {place for place, (flag, name) in enumerate(pairwise(options)) if flag == "-p" and name not in names}
    return [word for place, word in enumerate(options) if not others & {place, place - 1, place - 2}]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
