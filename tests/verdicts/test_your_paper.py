"""The toy paper of docs/your_paper.md, and what the engine that judges it may import."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page():
    """The text of the documentation, which a machine for GPU work alone may lack."""
    return (ROOT / "docs" / "your_paper.md").read_text(encoding="utf-8")


def run_alone(code, folder, hidden=()):
    """Runs code in a new interpreter, in which some packages cannot be imported."""
    blocked = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nsys.modules.update(dict.fromkeys({list(hidden)!r}))\n"
    command = [sys.executable, "-X", "utf8", "-c", blocked + code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8")


@pytest.fixture(scope="module")
def toy(page, tmp_path_factory):
    """What the page's code prints without torch, and the page that it writes."""
    folder = tmp_path_factory.mktemp("toy")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))
    run = run_alone(code, folder, hidden=["torch", "torch_geometric", "networkx", "matplotlib"])
    assert run.returncode == 0, run.stderr
    assert [path.name for path in folder.iterdir()] == ["verdicts.md"]
    return run.stdout, (folder / "verdicts.md").read_text(encoding="utf-8")


def test_it_prints_what_the_documentation_says(page, toy):
    (shown,) = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    assert toy[0] == shown


def test_its_five_claims_have_verdicts(toy):
    rows = re.findall(r"^\| .* \| \*\*(.*?)\*\* \|", toy[1], flags=re.MULTILINE)
    assert rows == ["reproduced", "3 of 4", "reproduced", "undecided", "contradicted"]


def test_its_page_has_every_comparison(toy):
    assert toy[1].startswith("# The Gate paper: what holds\n\n2 reproduced, 1 in part, 1 contradicted, 1 undecided.\n")
    assert "| large, Wide | −0.45 | −1.22 to +0.32 | 0.228 | undecided |" in toy[1]
    assert "| Plain | has 9,800 | against |" in toy[1]
    for table in re.findall(r"(?:^\|.*\|\n)+", toy[1], flags=re.MULTILINE):
        assert len({row.count("|") for row in table.splitlines()}) == 1


def test_it_is_short(page):
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert sum(len(block.splitlines()) for block in blocks) <= 65


def test_the_engine_imports_numpy_and_scipy_only(tmp_path):
    code = """
import numpy, scipy.special
before = set(sys.modules)
import pna.verdicts
new = {name for name in set(sys.modules) - before if name.partition(".")[0] not in sys.stdlib_module_names}
print(*sorted(name for name in new if not name.startswith(("pna.verdicts", "numpy.", "scipy."))))
print("torch" in sys.modules)
"""
    assert run_alone(code, tmp_path).stdout.splitlines() == ["pna", "False"]


def test_without_scipy_it_says_what_to_install(tmp_path):
    run = run_alone("import pna.verdicts", tmp_path, hidden=["scipy"])
    assert run.stderr.endswith('pna.verdicts needs scipy, which is not installed: pip install "pna[verdicts]"\n')
