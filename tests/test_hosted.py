"""Binder and Colab: what they install is what the lock pins; badges lead to the repository, once it has an address."""

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from tests.test_repository import LOCK, PROJECT, normal
from workflow import address

ROOT = Path(__file__).parents[1]
BINDER = (ROOT / ".binder" / "requirements.txt").read_text()
EXTRAS = PROJECT["optional-dependencies"]


def needed(requirements):
    """Every package that these need, by the metadata of what is installed, with who asks for it."""
    waiting, seen = [(requirement, "pna") for requirement in requirements], {}
    while waiting:
        text, who = waiting.pop()
        one = Requirement(text)
        key = (normal(one.name), frozenset(one.extras))
        if key in seen or not any(
            one.marker is None or one.marker.evaluate({"extra": e}) for e in (*who_extras(who), "")
        ):
            continue
        seen[key] = (one, who)
        if not one.name.startswith("nvidia"):  # of torch with CUDA, which Binder does without
            more = importlib.metadata.requires(one.name) or []
            waiting += [(text, f"{one.name}[{','.join(one.extras)}]") for text in more]
    return seen.values()


def who_extras(who):
    return re.findall(r"[\w-]+", who.partition("[")[2])


def test_binder_takes_the_lock_and_the_extras_of_the_notebooks():
    lines = [line for line in BINDER.splitlines() if not line.startswith("#")]
    assert "--constraint ../requirements.lock" in lines  # as seen from .binder/
    (package,) = (line for line in lines if line.startswith("--editable"))
    assert set(re.findall(r"\w+", package)) - {"editable"} <= set(EXTRAS)
    version = (ROOT / ".binder" / "runtime.txt").read_text().strip().removeprefix("python-")
    from packaging.specifiers import SpecifierSet

    assert SpecifierSet(PROJECT["requires-python"]).contains(version)


def test_all_that_binder_needs_is_pinned_within_what_each_package_allows():
    extras = [requirement for name in ("notebooks", "verification") for requirement in EXTRAS[name]]
    found = list(needed([*PROJECT["dependencies"], *extras]))
    assert len(found) > 80
    loose = {"setuptools", "pip", "triton", "cuda-toolkit", "cuda-bindings", "cuda-pathfinder"}  # of torch with CUDA
    for one, who in found:
        name = normal(one.name)
        if name in LOCK:
            assert one.specifier.contains(LOCK[name], prereleases=True), f"{who} needs {one}"
        else:
            assert name in loose or name.startswith("nvidia"), f"{who} needs {one}, which the lock does not pin"


def test_on_colab_the_introduction_needs_no_more_than_is_installed_there():
    """torch, PyTorch Geometric, safetensors, and what Colab has: matplotlib and scipy."""
    script = """
import sys
import matplotlib.pyplot, scipy, torch, torch_geometric.nn
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"flint", "papermill", "snakemake", "rdkit", "ogb", "hypothesis", "pytest",
                                  "latex2mathml", "mkdocs", "ipywidgets", "verification"}:
            raise ImportError(f"the introduction must not import {name}")
sys.meta_path.insert(0, Hidden())
from pna import PNAConv
from pna.figures.plots.introduction import fit, plot, toy_graphs
print(len(toy_graphs(2)))
"""
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert run.stdout.strip() == "2", run.stderr


def install_cells(root):
    """The cells of the introduction that install the package on Colab."""
    cells = json.loads((root / "notebooks" / "introduction.ipynb").read_text(encoding="utf-8"))["cells"]
    return [source for cell in cells if "google.colab" in (source := "".join(cell["source"]))]


def the_address(root):
    """The address in the citation file, after checking that every other place has it, too."""
    found = yaml.safe_load((root / "CITATION.cff").read_text()).get("repository-code", "")
    addresses = [re.search(r'^REPOSITORY = "(.*?)"', code, flags=re.MULTILINE)[1] for code in install_cells(root)]
    assert addresses == ([found] if found else [])
    assert tomllib.loads((root / "pyproject.toml").read_text())["project"]["urls"].get("Source", "") == found
    screen = (root / "README.md").read_text(encoding="utf-8").partition("<!-- the end of the first screen -->")[0]
    badges = re.findall(
        r"\((https://(?:colab\.research\.google\.com/github|mybinder\.org/v2/gh)/[^)]*introduction\.ipynb)\)", screen
    )
    assert len(badges) == (2 if found else 0)
    assert all(f"/{found.removeprefix('https://github.com/')}/" in badge for badge in badges)
    return found


@pytest.fixture
def copied(tmp_path):
    """A folder with the files that hold the address."""
    for name in address.FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    return tmp_path


def test_badges_and_the_colab_cell_have_the_address_of_the_citation_file():
    """Without an address there is neither, rather than a broken one."""
    found = the_address(ROOT)
    assert found == "" or found.startswith("https://github.com/")


def test_one_command_writes_the_address_everywhere_and_writes_it_anew(copied):
    for given in (
        "https://github.com/some-one/graphs.git",
        "https://github.com/other/pna",
        "https://github.com/other/pna/",
    ):
        address.main(given, copied)
        assert the_address(copied) == given.removesuffix(".git").removesuffix("/")
    once = {name: (copied / name).read_text() for name in address.FILES}
    address.main(given, copied)
    assert once == {name: (copied / name).read_text() for name in address.FILES}


def test_the_notebook_with_a_colab_cell_is_numbered_and_formatted_as_before(copied):
    address.main("https://github.com/other/pna", copied)
    text = (copied / address.INTRODUCTION).read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert [cell["id"] for cell in notebook["cells"]] == [
        f"introduction-{number}" for number in range(1, len(notebook["cells"]) + 1)
    ]
    assert text == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize(
    "wrong", ["", "pna", "https://github.com/pna", "ftp://github.com/a/b", "https://github.com/a/b/c"]
)
def test_what_is_no_address_is_refused(tmp_path, wrong):
    with pytest.raises(SystemExit, match=r"must be like https://github.com/OWNER/NAME, got"):
        address.main(wrong, tmp_path)


def test_a_file_without_its_place_leaves_all_as_they_are(tmp_path):
    for name in address.FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("nothing here")
    with pytest.raises(SystemExit, match=r"CITATION.cff must have 'license:' once"):
        address.main("https://github.com/other/pna", tmp_path)
    assert all((tmp_path / name).read_text() == "nothing here" for name in address.FILES)


@pytest.mark.parametrize("colab", [False, True])
def test_the_colab_cell_installs_on_colab_alone(copied, monkeypatch, colab):
    address.main("https://github.com/other/pna", copied)
    (code,) = install_cells(copied)
    called = []
    monkeypatch.setattr(subprocess, "run", lambda words, **options: called.append(words))
    if colab:
        monkeypatch.setitem(sys.modules, "google.colab", object())
    exec(code, {})
    install = [sys.executable, "-m", "pip", "install", "--quiet", "pna @ git+https://github.com/other/pna"]
    assert called == [install] * colab
