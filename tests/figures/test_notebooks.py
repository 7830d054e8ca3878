import base64
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pna.figures.catalogue import FIGURES, NOTEBOOKS, TEACHING, files_of
from workflow import outputs

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


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_what_it_shows_is_kept_in_it_and_small(path):
    """`python workflow/outputs.py build/default/notebooks` keeps what the workflow executed."""
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    data = [output.get("data", {}) for cell in cells for output in cell["outputs"]]
    assert {kind for one in data for kind in one} <= {"image/png", "text/plain", "text/markdown"}
    pictures = [base64.b64decode(one["image/png"]) for one in data if "image/png" in one]
    assert pictures or path.stem == "choose_a_layer"  # which prints a table
    assert all(picture.startswith(b"\x89PNG") and len(picture) <= 100_000 for picture in pictures)
    name = path.stem.replace("_", "-")
    if name in FIGURES:
        assert {one["text/plain"][0] for one in data if "image/png" in one and "text/plain" in one} >= {
            FIGURES[name].shows(file) for file in files_of(name)
        }


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_parameter_does_something(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["cells"][0]["source"][0].startswith("# ")
    parameters = [cell for cell in notebook["cells"] if cell["metadata"]]
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code" and cell not in parameters]
    text = "\n".join("".join(cell["source"]) for cell in code)
    names = [line.split(" = ")[0] for cell in parameters for line in cell["source"]]
    assert len(parameters) <= 1
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


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


# ---- kept outputs ----


def noise(width, height):
    """A picture that no compression makes small."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.frombytes("RGB", (width, height), np.random.default_rng(0).bytes(3 * width * height)).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def test_a_large_picture_becomes_small():
    from PIL import Image

    small = base64.b64decode(outputs.small_picture(noise(1200, 600)))
    assert len(small) <= outputs.LARGEST
    assert Image.open(io.BytesIO(small)).width <= outputs.WIDEST


def test_outputs_are_kept_cell_by_cell_without_controls_and_warnings():
    source = {"cells": [{"cell_type": "code", "source": ["x\n", "y"], "metadata": {}}]}
    injected = {"cell_type": "code", "source": ["p = 1"], "metadata": {"tags": ["injected-parameters"]}, "outputs": []}
    html = f'<img alt="a line" data-file="f" src="data:image/png;base64,{noise(8, 8)}">'
    shown = [
        {"output_type": "stream", "name": "stderr", "text": "beware"},
        {"output_type": "stream", "name": "stdout", "text": "a\nb\n"},
        {"output_type": "display_data", "data": {"text/html": [html], "text/plain": ["{}"]}},
        {"output_type": "display_data", "data": {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}},
    ]
    executed = {"cells": [injected, source["cells"][0] | {"outputs": shown}]}
    (cell,) = json.loads(outputs.with_outputs(source, executed))["cells"]
    said, picture = cell["outputs"]
    assert said == {"name": "stdout", "output_type": "stream", "text": ["a\n", "b\n"]}
    assert picture["data"]["text/plain"] == ["a line"]
    with pytest.raises(ValueError, match="of another source"):
        outputs.with_outputs({"cells": [source["cells"][0] | {"source": ["z"]}]}, executed)
