import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from pna.report import FIGURES

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_there_is_one_for_each_figure_and_an_introduction():
    assert {path.stem for path in NOTEBOOKS} == {name.replace("-", "_") for name in (*FIGURES, "introduction")}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_kept_so_that_diffs_are_readable(path):
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_thin_with_the_three_parameters(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    (parameters,) = (cell for cell in notebook["cells"] if cell["metadata"])
    names = [line.split(" = ")[0] for line in parameters["source"]]
    assert names[:3] == ["profile", "spec", "device"]
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) <= (3 if path.stem != "introduction" else 4)
    assert notebook["cells"][0]["source"][0].startswith("# ")


def test_opened_by_hand_with_its_defaults_from_any_folder(tmp_path):
    """nbclient, as Jupyter does it, in a folder that is not the repository's."""
    script = (
        "import sys, nbformat, nbclient\n"
        "notebook = nbformat.read(sys.argv[1], as_version=4)\n"
        "nbclient.NotebookClient(notebook, timeout=300, kernel_name='python3').execute(cwd=sys.argv[2])\n"
        "print(sum('image' in str(o) for c in notebook.cells if c.cell_type == 'code' for o in c.outputs))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PNA_FIGURES": str(tmp_path / "figures")}
    words = [sys.executable, "-c", script, str(ROOT / "notebooks" / "figure4.ipynb"), str(tmp_path)]
    run = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) == 1
    assert (tmp_path / "figures" / "figure4b_released.pdf").exists()
