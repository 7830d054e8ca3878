"""Imports point one way: from notebooks and workflow down to kernels, and never in a circle between folders."""

import ast
import itertools
import re
from pathlib import Path

import pytest

import pna

ROOT = Path(pna.__file__).parent
LOWER = ("kernels", "multitask", "networks", "training")  # they know nothing of what is built upon them
UPPER = ("experiments", "pretrained", "realworld", "figures")


def modules():
    return {".".join(path.relative_to(ROOT.parent).with_suffix("").parts): path for path in ROOT.rglob("*.py")}


def room(module):
    """The folder of pna of a module, or the module itself: pna.networks.kernels.tiles is in networks/kernels."""
    name = module.removesuffix(".__init__")
    parts = name.split(".")[1:]
    folders = [part for k, part in enumerate(parts) if (ROOT.joinpath(*parts[: k + 1])).is_dir()]
    if folders[:1] == ["figures"]:
        return "figures"  # they are drawn in their own style, and hang in no other room
    return "/".join(folders) or (parts[0] if parts else "")


def imported(path, known):
    """The modules of this package that a file imports, at its top or within a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known or f"{name}.__init__" in known else node.module for name in inner]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "pna" and name != "pna")


FACE = ("pna.__init__", "pna.__main__")  # the package's names and its commands, each imported when it is asked for


@pytest.fixture(scope="module")
def arrows():
    """From room to room, with an example of each."""
    known, found = modules(), {}
    for module, path in known.items():
        if module in FACE:
            continue
        for name in imported(path, known):
            if room(module) != room(name):
                found.setdefault((room(module), room(name)), f"{module} imports {name}")
    return found


def test_no_room_imports_in_a_circle(arrows):
    reached = {}

    def visit(place, trail):
        if place in trail:
            circle = [*trail[trail.index(place) :], place]
            steps = [arrows[a, b] for a, b in itertools.pairwise(circle)]
            raise AssertionError(f"a circle: {'; '.join(steps)}")
        if place not in reached:
            for a, b in arrows:
                if a == place:
                    visit(b, [*trail, place])
            reached[place] = True

    for start, _ in arrows:
        visit(start, [])


def test_no_arrow_points_up(arrows):
    up = [words for (a, b), words in arrows.items() if a.split("/")[0] in LOWER and b.split("/")[0] in UPPER]
    assert up == []


def test_the_arrows_that_are_expected_are_seen(arrows):
    assert ("experiments", "training") in arrows
    assert ("figures", "experiments") in arrows
    assert any(a == "networks" and b.startswith("networks/kernels") for a, b in arrows)


def test_no_import_of_our_own_is_for_type_checkers_only():
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and name not in FACE:
                assert "pna" not in ast.unparse(node), f"{name} dodges a circle"


def test_no_file_is_too_long_to_be_read_in_one_sitting():
    sources = [path for path in ROOT.rglob("*") if path.suffix in (".py", ".cu", ".cuh")]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in sources}
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_the_files_that_cuda_sources_name_are_there():
    """Beside them, in a folder above, or by their path from the repository's root."""
    sources = [path for path in ROOT.rglob("*") if path.suffix in (".cu", ".cuh")]
    named = [(path, name) for path in sources for name in re.findall(r"[\w/]+\.(?:py|cuh?)\b", path.read_text("utf-8"))]
    assert named
    assert [(str(path), name) for path, name in named if not any((up / name).exists() for up in path.parents)] == []
