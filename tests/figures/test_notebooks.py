import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pna.figures.catalogue import FIGURES, NOTEBOOKS, TEACHING

ROOT = Path(__file__).parents[2]
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FIGURE_PATHS = [path for path in PATHS if path.stem.replace("_", "-") in FIGURES]


def test_there_is_one_for_each_figure_and_those_that_teach():
    assert {path.stem for path in PATHS} == {name.replace("-", "_") for name in NOTEBOOKS}
    assert set(NOTEBOOKS) == {*FIGURES, *TEACHING}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_kept_so_that_diffs_are_readable(path):
    import nbformat  # here, since it takes seconds: not every process that collects the tests needs it

    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert text == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    nbformat.validate(nbformat.reads(text, as_version=4))
    for number, cell in enumerate(notebook["cells"], start=1):
        assert cell["id"] == f"{path.stem}-{number}"
        assert cell["metadata"] in ({}, {"tags": ["parameters"]})
        assert all(line.endswith("\n") for line in cell["source"][:-1])
        assert max(map(len, cell["source"])) <= 130
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_thin_with_the_three_parameters(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    (parameters,) = (cell for cell in notebook["cells"] if cell["metadata"])
    names = [line.split(" = ")[0] for line in parameters["source"]]
    assert names[:3] == ["profile", "spec", "device"]
    assert notebook["cells"][0]["source"][0].startswith("# ")


@pytest.mark.parametrize("path", FIGURE_PATHS, ids=lambda path: path.stem)
def test_those_of_figures_are_few_cells_with_a_word_on_how_to_read_them(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert sum(cell["cell_type"] == "code" for cell in cells) <= 3
    assert sum("".join(cell["source"]).startswith("**How to read it.** ") for cell in cells) == 1


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_jupytext_reads_them(path):
    """As a script, and back: the same cells."""
    import jupytext

    notebook = jupytext.read(path)
    again = jupytext.reads(jupytext.writes(notebook, fmt="py:percent"), fmt="py:percent")
    assert [cell.source for cell in again.cells] == [cell.source for cell in notebook.cells]
    compile(jupytext.writes(notebook, fmt="py:percent"), path.stem, "exec")


def test_from_scratch_has_the_papers_equations_in_order_and_is_the_package_layer():
    """Up to the training, which the workflow runs; a cell of the notebook compares it with PNAConv."""
    cells = json.loads((ROOT / "notebooks" / "pna_from_scratch.ipynb").read_text(encoding="utf-8"))["cells"]
    titles = [cell["source"][0] for cell in cells if cell["source"][0].startswith("## Equation ")]
    assert [int(title.split()[2].rstrip(":")) for title in titles] == list(range(1, 9))
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    (last,) = (place for place, text in enumerate(code) if "PNAConv" in text)
    run = subprocess.run(
        [sys.executable, "-c", "\n".join(code[: last + 1])], capture_output=True, text=True, cwd=ROOT, env=environment()
    )
    assert run.returncode == 0, run.stderr
    assert "= [N, 12F]" in run.stdout
    assert "largest difference" in run.stdout


def environment(**more):
    return os.environ | {"PYTHONPATH": str(ROOT)} | more


def test_opened_by_hand_with_its_defaults_from_any_folder(tmp_path):
    """nbclient, as Jupyter does it, in a folder that is not the repository's."""
    script = (
        "import sys, nbformat, nbclient\n"
        "notebook = nbformat.read(sys.argv[1], as_version=4)\n"
        "nbclient.NotebookClient(notebook, timeout=600, startup_timeout=300).execute(cwd=sys.argv[2])\n"
        "print(sum('image' in str(o) for c in notebook.cells if c.cell_type == 'code' for o in c.outputs))\n"
    )
    words = [sys.executable, "-c", script, str(ROOT / "notebooks" / "parameters.ipynb"), str(tmp_path)]
    own = environment(PNA_FIGURES=str(tmp_path / "figures"))
    run = subprocess.run(words, capture_output=True, text=True, env=own, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) == 2  # the figure, and the reader's own comparison
    assert (tmp_path / "figures" / "parameters_released.pdf").exists()
