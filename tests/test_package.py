"""The package as a stranger gets it: what is in the wheel and the sdist, and a fresh environment with the wheel."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import pna
from pna.realworld.data.datasets import DATASETS

ROOT = Path(__file__).parents[1]
LEFT_OUT = ("single-task", "tuned", *DATASETS)  # trainings whose weights come with a clone or a release
WEIGHTS = {
    path.relative_to(ROOT / "results").as_posix()
    for budget in ("paper", "planned")
    for path in (ROOT / "results" / budget).glob("*/*/*.safetensors")
    if path.parts[-3] not in LEFT_OUT
}
CELLS = {name.partition("/")[2] for name in WEIGHTS}
CERTIFIED = "multitask/described/pna-16.safetensors"  # a certificate of Theorem 1 is about its weights under `paper`
MOST_BYTES = 5_000_000


def build(source, folder):
    """A wheel and an sdist, by the back end that pyproject.toml names."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=source, check=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def sources():
    """The files of the package, as they lie here."""
    files = (path for path in (ROOT / "pna").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


# ---- what is in it ----


def test_the_wheel_is_the_package_and_the_small_multi_task_weights(built):
    names = zipfile.ZipFile(built[0]).namelist()
    inside = {name for name in names if not name.startswith(f"pna-{pna.__version__}.dist-info/")}
    assert inside == sources() | {f"pna/weights/{name}" for name in (*WEIGHTS, "plan.json")}
    assert built[0].stat().st_size < MOST_BYTES


def test_no_network_is_kept_twice():
    """The weights of the fullest budget are kept, which a wheel and a clone load alike."""
    assert {name for name in CELLS if {f"paper/{name}", f"planned/{name}"} <= WEIGHTS} == {CERTIFIED}


def test_it_says_who_what_and_where(built):
    facts = zipfile.ZipFile(built[0]).read(f"pna-{pna.__version__}.dist-info/METADATA").decode()
    assert f"\nVersion: {pna.__version__}\n" in facts
    for field in (
        "Author",
        "Classifier",
        "Project-URL",
        "Requires-Dist: safetensors",
        "Provides-Extra",
        "License-Expression: MIT",
    ):
        assert f"\n{field}" in facts


def test_the_sdist_is_lean_and_makes_the_same_wheel(built, tmp_path):
    with tarfile.open(built[1]) as archive:
        archive.extractall(tmp_path, filter="data")
    top = {path.name for path in (tmp_path / f"pna-{pna.__version__}").iterdir()}
    needed = {"pna", "results", "CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "pyproject.toml"}
    assert top == needed | {"PKG-INFO", ".gitignore"}
    assert built[1].stat().st_size < MOST_BYTES
    wheel, _ = build(tmp_path / f"pna-{pna.__version__}", tmp_path / "dist")
    assert sorted(zipfile.ZipFile(wheel).namelist()) == sorted(zipfile.ZipFile(built[0]).namelist())


@pytest.mark.skipif(importlib.util.find_spec("twine") is None, reason="needs twine, which is not in the lock")
def test_an_index_would_take_both(built):
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, built)], check=True)


# ---- a fresh environment ----

USE = """
import json, sys, warnings
import networkx as nx
import pna
assert pna.__file__.startswith(sys.prefix), pna.__file__

for block in json.loads(sys.argv[1]):
    exec(compile(block, "README.md", "exec"), {"__name__": "example"})

network = pna.load("multitask/released/pna/16")
assert network.seeds == tuple(json.loads(sys.argv[3])), network.seeds
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    prediction = network.predict(nx.petersen_graph())
assert len(prediction.nodes) == 10 and prediction.true["diameter"] == 2
assert any("trained on graphs of 15 to 24" in str(warning.message) for warning in heard)

from pna.__main__ import main
from pna.pretrained import names
assert len(names()) == int(sys.argv[2]), names()
for name in names():
    pna.load(name)
try:
    pna.load("zinc/released/pna/edges")
    raise SystemExit("the wheel has the weights of figure 6")
except pna.errors.MissingData as error:
    assert "set PNA_RESULTS to the results/ folder" in str(error), error
nx.write_edgelist(nx.petersen_graph(), "petersen.edgelist")
assert main(["predict", "petersen.edgelist", "--source", "3"]) == 0
try:
    import verification
    raise SystemExit("the wheel installs verification")
except ImportError:
    print("all of it works")
"""


@pytest.fixture(scope="module")
def fresh(built, tmp_path_factory):
    """An environment with the wheel; what it needs is borrowed from this one, since torch takes minutes to install."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder / "env", with_pip=False, symlinks=os.name != "nt")
    places = sysconfig.get_paths(vars={"base": str(folder / "env"), "platbase": str(folder / "env")})
    python = Path(places["scripts"]) / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(built[0])], check=True)
    borrowed = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (Path(places["purelib"]) / "borrowed.pth").write_text(
        "\n".join(borrowed)
    )  # after its own; editable ones are not read
    return folder, python


def run(fresh, *command, **variables):
    folder, python = fresh
    others = {name: value for name, value in os.environ.items() if not name.startswith(("PNA_", "PYTHON"))}
    environment = others | {"PNA_DATA": str(folder / "data"), "OMP_NUM_THREADS": "1"} | variables
    done = subprocess.run(
        [str(python.parent / command[0]), *command[1:]], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_works_in_a_fresh_environment_outside_the_clone(fresh):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    blocks = [block for block in blocks if "zinc/" not in block]  # whose weights come with a clone
    assert any("pna.load(" in block for block in blocks)
    here = pna.load("multitask/released/pna/16")
    out = run(fresh, "python", "-c", USE, json.dumps(blocks), str(len(CELLS)), json.dumps(here.seeds))
    assert out.endswith("all of it works\n")
    assert "path from 3" in out


LOAD = """
import sys
import pna
assert pna.__file__.startswith(sys.prefix), pna.__file__
print(pna.load("zinc/released/pna/edges"), pna.load("single-task/released/gcn/16"))
"""


def test_all_other_weights_come_from_a_clone(fresh):
    out = run(fresh, "python", "-c", LOAD, PNA_RESULTS=str(ROOT / "results"))
    assert re.match("<zinc/released/pna/edges: seed .*> <single-task/released/gcn/16: seeds .*>", out)


def test_or_from_the_files_of_a_release(fresh, tmp_path):
    """Which are the weights and the plan, in the folders of the repository."""
    weights = ("planned/zinc/released/pna-edges.safetensors", "planned/single-task/released/gcn-16.safetensors")
    for name in ("plan.json", *weights):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "results" / name, tmp_path / name)
    assert run(fresh, "python", "-c", LOAD, PNA_RESULTS=str(tmp_path)).startswith("<zinc/released/pna/edges: ")


def test_the_console_script(fresh):
    assert run(fresh, "pna", "--version") == f"pna {pna.__version__}\n"
