"""`address.py URL`: writes the repository's address, https://github.com/OWNER/NAME, wherever it belongs.

The places are CITATION.cff, the wheel's links, two badges in README.md, and a cell of notebooks/introduction.ipynb that
installs the package on Colab. Without an address there are no badges and no such cell. A new address replaces the old.
"""

import argparse
import json
import re
import sys
from pathlib import Path

INTRODUCTION = "notebooks/introduction.ipynb"
BADGES = (
    "[![open the introduction in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
    f"(https://colab.research.google.com/github/{{place}}/blob/HEAD/{INTRODUCTION}) "
    "[![open the introduction on Binder](https://mybinder.org/badge_logo.svg)]"
    f"(https://mybinder.org/v2/gh/{{place}}/HEAD?labpath={INTRODUCTION})\n\n"
)
LINES = (  # file, the text of an older address, the text that follows it, the text to write
    ("CITATION.cff", r'repository-code: ".*"\n', "license:", 'repository-code: "{address}"\n'),
    ("pyproject.toml", r'Source = ".*"\n', 'Paper = "', 'Source = "{address}"\n'),
    ("README.md", r"\[!\[open the introduction in Colab\].*\n\n", "<!-- the end of the first screen -->", BADGES),
)
FILES = (*(name for name, *_ in LINES), INTRODUCTION)
INSTALL = """import subprocess
import sys

REPOSITORY = "{address}"
if "google.colab" in sys.modules:  # elsewhere the package is installed already
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", f"pna @ git+{{REPOSITORY}}"], check=True)"""
PLACE = 2  # the index of the cell that installs: after the title and the parameters


def main(address: str, root: Path = Path(__file__).parents[1]) -> None:
    """Write the address into every file, or into none if one of them lacks the place for it."""
    match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(\.git|/)?", address)
    if match is None:
        sys.exit(f"address.py: the address must be like https://github.com/OWNER/NAME, got {address!r}")
    words = {"place": match[1], "address": f"https://github.com/{match[1]}"}
    written = {}
    for name, older, follows, text in LINES:
        bare = re.sub(older, "", (root / name).read_text(encoding="utf-8"), count=1)
        if bare.count(follows) != 1:
            sys.exit(f"address.py: {name} must have {follows!r} once")
        written[name] = bare.replace(follows, text.format(**words) + follows)
    written[INTRODUCTION] = _with_install_cell((root / INTRODUCTION).read_text(encoding="utf-8"), words["address"])
    for name, text in written.items():
        (root / name).write_text(text, encoding="utf-8")


def _with_install_cell(text: str, address: str) -> str:
    """Return the notebook with a cell that installs the package on Colab, in place of an older one."""
    notebook = json.loads(text)
    cells = [cell for cell in notebook["cells"] if "google.colab" not in "".join(cell["source"])]
    source = INSTALL.format(address=address).splitlines(keepends=True)
    install = {"cell_type": "code", "execution_count": None, "id": "", "metadata": {}, "outputs": [], "source": source}
    cells.insert(PLACE, install)
    stem = Path(INTRODUCTION).stem
    notebook["cells"] = [cell | {"id": f"{stem}-{number}"} for number, cell in enumerate(cells, start=1)]
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="address.py", description=__doc__)
    parser.add_argument("address", help="such as https://github.com/OWNER/NAME")
    main(parser.parse_args().address)
