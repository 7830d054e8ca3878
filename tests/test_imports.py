"""Imports point one way, down the street, and never in a circle; and every file can be read in one sitting."""

import ast
import functools
import graphlib
import io
import json
import re
import textwrap
import tokenize
from pathlib import Path

import pytest

import pna

PACKAGE = Path(pna.__file__).parent
ROOT = PACKAGE.parent

# The street from top to bottom: a file imports files of its own line and of those below. CONTRIBUTING.md shows it.
ORDER = """\
notebooks, workflow, benchmarks   what people open, the DAG from data to report, speed against the alternatives
report                            this paper's claims and its page
pna/figures                       every figure, from recorded runs
verification                      the theorems: proofs, certificates, an independent checker
pna/pretrained                    trained networks by name, their errors, and what they predict for one graph
pna/experiments                   the cells of both benchmarks, what each figure needs: train, results
pna/realworld                     data sets, hyper-parameters and networks of figure 6
pna/training                      many seeds at once, stopping, checkpoints, the store; it knows no benchmark
pna/networks                      the architectures and baselines, and their kernels
pna/multitask                     random graphs, labels, data sets
pna/*.py                          the operator: one equation, one function
pna/kernels                       the operator on a GPU
pna/aggregators.py, scalers.py, degrees.py, segments.py, neighbourhoods.py, arguments.py, departures.py
pna/command_line.py, files.py, locks.py, places.py, errors.py, text.py
pna/verdicts                      the engine of claims; it imports nothing of pna
"""

FACE = ("pna", "pna.__main__", "pna.report")  # the package's names and its commands, each imported when it is asked for
LONGEST = 500  # lines of code in a file


# ---- files and what they import ----


def rows():
    """The lines of ORDER, each as the places that it names: folders, files, or pna/*.py for all other files of pna."""
    for line in ORDER.splitlines():
        names = re.split(r"\s{2,}", line)[0].split(", ")
        yield [f"pna/{name}" if name.endswith(".py") and "/" not in name else name for name in names]


ROWS = list(rows())


def all_files():
    """The Python files of every line, the notebooks and the Snakefile, by their module's name or their path."""
    folders = {name.split("/")[0] for row in ROWS for name in row}
    paths = [path for folder in sorted(folders) for path in (ROOT / folder).rglob("*.py")]
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}
    others = [*(ROOT / "notebooks").glob("*.ipynb"), ROOT / "workflow" / "Snakefile"]
    return {name.removesuffix(".__init__"): path for name, path in modules.items()} | {
        path.relative_to(ROOT).as_posix(): path for path in others
    }


FILES = all_files()


@functools.cache
def parsed(path):
    """The Python of a file: the code cells of a notebook, the imports of a Snakefile."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        text = re.sub(r"^\s*[%!].*$", "", "\n".join(cells), flags=re.MULTILINE)
    if path.name == "Snakefile":
        text = "\n".join(re.findall(r"^(?:from|import) .*$", text, flags=re.MULTILINE))
    return ast.parse(text)


def imported(file):
    """The files that a file imports, at its top or within a function, or names as text, as kernels_for takes them.

    The name of its own folder, as text, is where it finds its data.
    """
    names = set()
    for node in ast.walk(parsed(FILES[file])):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
            if file.startswith("workflow"):  # scripts, which find their neighbours
                names |= {f"workflow.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relative to its place"
            homes = pna._HOMES if node.module == "pna" else {}
            inner = (homes.get(alias.name, f"{node.module}.{alias.name}") for alias in node.names)
            names |= {name if name in FILES else node.module for name in inner}
        elif isinstance(node, ast.Constant) and str(node.value).startswith("pna."):
            names |= {node.value} - {file.rpartition(".")[0]}
    return {name for name in names if name in FILES and name not in FACE}


@pytest.fixture(scope="module")
def imports():
    """By the name of each file, the files that it imports; the package's face, which imports on demand, is left out."""
    return {name: imported(name) - {name} for name in FILES if name not in FACE}


def row_of(name):
    """The number of a file's line in ORDER."""
    path = FILES[name].relative_to(ROOT)
    places = {place: number for number, row in enumerate(ROWS) for place in row}
    folders = [parent.as_posix() for parent in path.parents]
    own = next((place for place in (path.as_posix(), *folders) if place in places), "pna/*.py")
    return places[own]


def folder_of(name):
    """The folder of a file, or the file itself at the package's root; all figures are drawn in one."""
    folder = FILES[name].relative_to(ROOT).parent.as_posix()
    return {"pna": name, "pna/figures/plots": "pna/figures"}.get(folder, folder)


# ---- one way ----


def test_no_import_points_up(imports):
    up = [f"{a} imports {b}" for a, names in imports.items() for b in names if row_of(a) > row_of(b)]
    assert up == []


def test_no_files_import_each_other_in_a_circle(imports):
    assert circle(imports) == []


def test_no_folders_import_each_other_in_a_circle(imports):
    folders = {folder_of(name): set() for name in imports}
    for name, names in imports.items():
        folders[folder_of(name)] |= {folder_of(other) for other in names} - {folder_of(name)}
    assert circle(folders) == []


def circle(arrows):
    """The places of one circle, or none."""
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def test_a_circle_would_be_seen():
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_the_engine_of_claims_imports_nothing_of_the_package(imports):
    engine = {name for name in imports if name.startswith("pna.verdicts")}
    assert engine
    assert {other for name in engine for other in imports[name]} <= engine


def test_the_imports_that_are_expected_are_seen(imports):
    arrows = {(row_of(a), row_of(b)) for a, names in imports.items() for b in names}
    assert {(0, 2), (1, 2), (1, 14), (2, 3), (4, 5), (5, 6), (5, 7), (10, 11), (11, 12)} <= arrows
    assert "pna.figures.catalogue" in imports["workflow/Snakefile"]
    assert "pna.figures" in imports["notebooks/figure4.ipynb"]
    assert "pna.networks.kernels.errors" in imports["pna.experiments.multitask"]  # named as text


def test_every_file_has_its_line_and_every_line_its_files():
    assert {row_of(name) for name in FILES} == set(range(len(ROWS)))


def test_no_import_of_our_own_is_for_type_checkers_only():
    for name, path in FILES.items():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and name not in FACE:
                assert "pna" not in ast.unparse(node), f"{name} dodges a circle"


def test_contributors_are_shown_the_order():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert textwrap.indent(ORDER, "    ") in text


# ---- in one sitting ----


def code_lines(path):
    """How many lines of a source are code: neither blank, nor a comment, nor part of a docstring."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        return sum(bool(line.partition("//")[0].strip()) for line in text.splitlines())
    passing = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {n for t in tokens if t.type not in passing for n in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def test_no_file_is_too_long_to_be_read_in_one_sitting():
    sources = [path for path in (*FILES.values(), *PACKAGE.rglob("*")) if path.suffix in (".py", ".cu", ".cuh")]
    long = {path for path in sources if len(path.read_bytes().splitlines()) > LONGEST}  # the others cannot be too long
    lengths = {str(path): code_lines(path) for path in long}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.py", '"""Two lines\nof words."""\n\nimport a  # why\n# a comment\n\n\ndef f():\n    """Words."""\n', 2),
        ("a.py", 'text = """\none\n"""\nf(\n    1,\n)\n', 6),
        ("a.cu", "// words\nint a; // words\n/* words\n   words */\n\nint b;\n", 2),
    ],
)
def test_lines_of_code_are_counted(tmp_path, name, text, lines):
    (tmp_path / name).write_text(text)
    assert code_lines(tmp_path / name) == lines


def test_the_files_that_cuda_sources_name_are_there():
    """Beside them, in a folder above, or by their path from the repository's root."""
    sources = [path for path in PACKAGE.rglob("*") if path.suffix in (".cu", ".cuh")]
    named = [(path, name) for path in sources for name in re.findall(r"[\w/]+\.(?:py|cuh?)\b", path.read_text("utf-8"))]
    assert named
    assert [(str(path), name) for path, name in named if not any((up / name).exists() for up in path.parents)] == []
