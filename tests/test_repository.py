"""The repository as a stranger finds it: set-up, pins, README."""

import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

import pna
from pna.multitask.sources import SOURCES, TOPOHUB

ROOT = Path(__file__).parents[1]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lines):
    return {
        normal(name): version
        for name, version in (line.partition(" ;")[0].split("==") for line in lines if "==" in line)
    }


LOCK = pins(line.strip() for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: extra for name, extra in PROJECT["optional-dependencies"].items() if name != "real"}
DIRECT = [*PROJECT["dependencies"], *itertools.chain(*EXTRAS.values())]


def test_environment_yml_has_the_pins_of_the_lock():
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    (pip,) = (entry["pip"] for entry in dependencies if isinstance(entry, dict))
    assert pip[0] == "-c requirements.lock"
    conda = pins(pip)
    assert conda == {name: LOCK[name] for name in conda}
    assert set(conda) == {normal(re.match(r"[\w.-]+", requirement)[0]) for requirement in DIRECT}


def test_the_packages_of_real_networks_are_pinned_as_their_sources_say():
    """They are data, of which no test or figure needs a file: the lock does not hold them."""
    versions = {source.package: source.version for source in (*SOURCES, TOPOHUB)}
    for name, version in pins(PROJECT["optional-dependencies"]["real"]).items():
        assert versions[name] == version


def test_the_same_pythons_are_named_everywhere():
    from packaging.specifiers import SpecifierSet

    named = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d", text)]
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert named == [f"3.{minor}" for minor in range(30) if allowed.contains(f"3.{minor}")]
    facts = json.loads((ROOT / "codemeta.json").read_text(encoding="utf-8"))
    assert facts["runtimePlatform"] == [f"Python {version}" for version in named]
    script = (ROOT / "run_all.sh").read_text(encoding="utf-8")
    first, last = (version.replace(".", ", ") for version in (named[0], named[-1]))
    assert f"({first}) <= sys.version_info[:2] <= ({last})" in script
    assert f"for python in python3 {' '.join(f'python{version}' for version in reversed(named))}; do" in script
    for page in ("README.md", "docs/artifact.md"):
        assert f"Python {named[0]} to {named[-1]}." in (ROOT / page).read_text(encoding="utf-8")


def test_the_lock_installs_on_the_first_patch_of_every_python():
    """Debian 12 has Python 3.11.2, which a pin that needs 3.11.5 would leave without an environment."""
    from packaging.specifiers import SpecifierSet

    named = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d", text)]
    pinned = [one for one in metadata.distributions() if LOCK.get(normal(one.name)) == one.version]
    if len(pinned) < len(LOCK) / 2:
        pytest.skip("another environment than the lock's: what its packages need says nothing of the pins")
    needs = {one.name: SpecifierSet(one.metadata.get("Requires-Python") or "") for one in pinned}
    refused = {name: words for name, words in needs.items() if not all(f"{python}.0" in words for python in named)}
    assert refused == {}


@pytest.mark.parametrize("requirement", DIRECT)
def test_the_lock_lies_within_the_ranges(requirement):
    from packaging.requirements import Requirement

    requirement = Requirement(requirement)
    assert requirement.specifier.contains(LOCK[normal(requirement.name)])


def test_torch_is_pinned_without_a_local_version():
    assert LOCK["torch"] == "2.13.0"
    assert not any("+" in version for version in LOCK.values())
    assert not any(name.startswith("nvidia") for name in LOCK)


def test_import_needs_four_packages_only():
    """Hide every other package of the lock, except what those four need themselves."""
    script = """
import sys
import torch, torch_geometric, numpy, networkx
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"matplotlib", "sympy", "flint", "papermill", "snakemake", "rdkit", "ogb", "scipy",
                                  "pandas", "hypothesis", "pytest", "IPython", "jupyter", "sklearn", "tqdm", "yaml"}:
            raise ImportError(f"pna must not import {name}")
for name in [name for name in sys.modules if name.split(".")[0] in {"scipy", "pandas", "matplotlib", "tqdm", "yaml"}]:
    del sys.modules[name]
sys.meta_path.insert(0, Hidden())
import pna
heavy = {"pretrained", "experiments", "report", "training", "realworld", "multitask", "networks"}
light = "import pna must be light"
assert not [name for name in sys.modules if name.startswith("pna.")], light
pna.PNAConv
assert not heavy & {name.split(".")[1] for name in sys.modules if name.startswith("pna.")}, light
import pna.conv, pna.aggregators, pna.multitask
print("imported", pna.PNAConv.__name__)
"""
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert run.stdout.strip() == "imported PNAConv", run.stderr


def test_the_readme_has_no_gap():
    text = re.sub("PNA_(DATA|RESULTS)", "", (ROOT / "README.md").read_text())
    assert not re.search(r"\b[A-Z]{3,}_[A-Z]+\b|…\s*\|", text)


def run_all(*words):
    return subprocess.run(["./run_all.sh", *words], cwd=ROOT, capture_output=True, text=True)


def test_help():
    run = run_all("--help")
    assert run.returncode == 0
    assert "./run_all.sh test" in run.stdout


@pytest.mark.parametrize("word", ["--fast", "tests", "--help=1"])
def test_an_unknown_argument_is_named_with_exit_code_2(word):
    run = run_all(word)
    assert run.returncode == 2
    assert f"unknown argument '{word}'" in run.stderr
    assert run.stdout == ""


@pytest.mark.parametrize(("code", "said"), [(0, f"The documentation is in {ROOT}/build/site/index.html\n"), (1, "")])
def test_docs_say_where_they_are_if_they_were_built(tmp_path, code, said):
    python = tmp_path / "python3"  # which holds the locked versions, and builds nothing
    python.write_text(f'#!/bin/sh\n[ "$2" != mkdocs ] || exit {code}\n')
    python.chmod(0o755)
    words = {"cwd": ROOT, "env": os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, "text": True}
    run = subprocess.run(["./run_all.sh", "docs"], capture_output=True, **words)
    assert (run.returncode, run.stdout) == (code, said)


@pytest.mark.parametrize("script", ["run_all.sh", ".ci/run"])
def test_scripts_can_be_run(script):
    assert os.access(ROOT / script, os.X_OK)
    assert subprocess.run(["bash", "-n", script], cwd=ROOT).returncode == 0


def test_help_names_every_option_and_figure_of_the_workflow():
    text = run_all("--help").stdout
    for option in ("--profile", "--only", "--slurm", "--from-results", "--cores", "--dry-run"):
        assert option in text
    for name in (
        "benchmark",
        "moments",
        "graph-types",
        "standard",
        "single-task",
        "parameters",
        "theory",
        "introduction",
    ):
        assert name in text


def test_a_value_that_is_missing_is_asked_for():
    run = run_all("--only")
    assert run.returncode == 2
    assert "--only needs a value" in run.stderr


def test_the_readme_names_the_workflows_commands():
    readme = (ROOT / "README.md").read_text()
    for words in (
        "./run_all.sh --profile smoke",
        "--only figure4",
        "--slurm",
        "--from-results",
        "python -m pna claims",
    ):
        assert words in readme


def test_ci_calls_the_readmes_test_command():
    assert "./run_all.sh test" in (ROOT / ".ci" / "run").read_text()
    assert "./run_all.sh test" in (ROOT / "README.md").read_text()


def test_citation_names_the_paper_and_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == pna.__version__
    assert f"## [{pna.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    assert PROJECT["dynamic"] == ["version"]
    assert citation["preferred-citation"]["title"] == "Principal Neighbourhood Aggregation for Graph Nets"
    assert len(citation["preferred-citation"]["authors"]) == 5
