"""`address.py URL`: writes the repository's address, https://github.com/OWNER/NAME, wherever it belongs.

That is CITATION.cff, the wheel's links, the first cell of notebooks/introduction.ipynb, which installs the package from
there on Colab, and in README.md two badges that open this notebook. Another address replaces the last one.
"""

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
LINES = (  # file, what was written there before, what stands behind it, what is written
    ("CITATION.cff", r'repository-code: ".*"\n', "license:", 'repository-code: "{address}"\n'),
    ("pyproject.toml", r'Source = ".*"\n', 'Paper = "', 'Source = "{address}"\n'),
    ("README.md", r"\[!\[open the introduction in Colab\].*\n\n", "<!-- the end of the first screen -->", BADGES),
    (INTRODUCTION, r'    "REPOSITORY = \\".*?\\"', "  # for Colab", r'    "REPOSITORY = \"{address}\"'),
)


def main(address: str, root: Path = Path(__file__).parents[1]) -> None:
    """Nothing is written unless every file has its place for it."""
    match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(\.git|/)?", address)
    if match is None:
        sys.exit(f"address.py: the address must be like https://github.com/OWNER/NAME, got {address!r}")
    words = {"place": match[1], "address": f"https://github.com/{match[1]}"}
    written = {}
    for name, before, behind, text in LINES:
        old = (root / name).read_text(encoding="utf-8")
        bare = re.sub(before, "", old, count=1)
        if bare.count(behind) != 1:
            sys.exit(f"address.py: {name} must have {behind!r} once")
        written[name] = bare.replace(behind, text.format(**words) + behind)
    for name, text in written.items():
        (root / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
